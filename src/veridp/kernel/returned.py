"""What a mechanism returns, read as an output: a tree of tuples and scalars."""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadOutput, Nondeterministic
from veridp.kernel.output import (
    CLASS,
    KINDS,
    LARGEST,
    DictItems,
    Kind,
    Scalar,
    Template,
    Tree,
    kind_of,
    leaf_text,
    plain_number,
    shown,
)
from veridp.kernel.stand_ins import Symbolic


def tree_of(value: object, leaf: Callable[[Any, Kind], Tree], special: Callable[[object], Kind | None]) -> Tree:
    """The tree of a returned value; `leaf` makes a leaf of each scalar of a kind.

    `special` names the kind of a value that is no ordinary scalar but stands for one, and None for all others.
    Raises BadOutput for a value that has no columns, Nondeterministic for the stand-in of an earlier run.
    """
    if type(value) not in _EXACT and (opened := opened_subclass(value)) is not None:
        value = opened
    if isinstance(value, np.ndarray | np.void):
        value = opened_array(value)
    if isinstance(value, DictItems):  # a row of Outputs
        return DictItems((key, tree_of(entry, leaf, special)) for key, entry in value)
    if isinstance(value, list | tuple):
        kinds = [KINDS.get(type(entry)) for entry in value]
        return tuple(
            [
                tree_of(entry, leaf, special) if kind is None else leaf(entry, kind)
                for entry, kind in zip(value, kinds, strict=True)
            ]
        )
    kind = special(value)
    if kind is None:
        kind = kind_of(value)
    if kind is not None:
        return leaf(value, kind)
    if isinstance(value, Mapping):
        if not all(kind_of(key) is not None for key in value):
            return tree_of(_with_keys_as_entries(value), leaf, special)
        pairs = sorted(((constant(key), entry) for key, entry in value.items()), key=lambda pair: _key_order(pair[0]))
        return DictItems((key, tree_of(entry, leaf, special)) for key, entry in pairs)
    if isinstance(value, Symbolic):
        raise Nondeterministic("it keeps noise of one run and uses it in another; keep nothing between runs")
    opened = opened_container(value)
    if opened is not None:
        return tree_of(opened, leaf, special)
    raise BadOutput(
        f"returned {shown(value)} of type {type(value).__name__}; return numbers, booleans, strings, None, "
        f"or lists, tuples, sets, dicts, dataclasses and arrays of these"
    )


_EXACT = frozenset({list, tuple, dict, np.ndarray, *KINDS})
_BASES: tuple[type[Any], ...] = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    collections.deque,
    str,
    bytes,
    bytearray,
    int,
    float,
    complex,
)


def opened_subclass(value: Any) -> Any:
    """A value whose class adds something of its own to a list, a number, an array, …, as a dict that has all of it.

    None where it adds nothing: an output shows its attributes too, and what is under a mask.
    """
    if isinstance(value, np.ma.MaskedArray):
        return {CLASS: type(value).__qualname__, "data": value.data, "mask": np.ma.getmaskarray(value)}
    base = next((base for base in _BASES if isinstance(value, base)), None)
    library = type(value).__module__.partition(".")[0]
    if base is None or isinstance(value, enum.Enum) or library in ("builtins", "collections", "numpy", "veridp"):
        return None
    own = _attributes(value)
    return {CLASS: type(value).__qualname__, "value": base(value), **own} if own else None


def opened_array(array: NDArray[Any] | np.void) -> Any:
    """An array as lists; where it has named fields, as a dict of these; where it is empty, its shape.

    What its dtype says besides that, in metadata and titles, is part of it too.
    """
    entries: Any = array.tolist()
    if array.dtype.names is not None:
        entries = {name: array[name] for name in array.dtype.names}
    elif array.ndim > 1 and not array.size:
        entries = {CLASS: "ndarray", "shape": list(array.shape)}
    described = _described(array.dtype)
    return {CLASS: "ndarray", "dtype": described, "entries": entries} if described else entries


def _described(dtype: np.dtype[Any]) -> dict[str, Any]:
    """The metadata of a dtype and of its fields, and the titles of these."""
    found: dict[str, Any] = {"metadata": dict(dtype.metadata)} if dtype.metadata else {}
    fields: Any = dtype.fields
    for name in dtype.names or ():
        field, _, *title = fields[name]
        of_field = _described(field) | ({"title": title[0]} if title else {})
        found |= {f"field {name}": of_field} if of_field else {}
    return found


def _attributes(value: object) -> dict[str, Any]:
    """The attributes of an object: those in its dict and in slots."""
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        found |= {name: getattr(value, name) for name in names if name[:2] != "__" and hasattr(value, name)}
    return found


def opened_container(value: object) -> Any:
    """A container of another type as one of dicts, lists and scalars, with its type's name; None where it is none."""
    name = type(value).__qualname__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {CLASS: name, **fields, **_attributes(value)}
    if isinstance(value, types.SimpleNamespace):
        return {CLASS: name, **vars(value)}
    if isinstance(value, set | frozenset) and not any(isinstance(entry, Symbolic) for entry in value):
        return {CLASS: "set", "entries": sorted(value, key=lambda entry: str(identity(entry)))}
    if isinstance(value, enum.Enum):
        return {CLASS: name, "name": value.name}
    if isinstance(value, bytes | bytearray | complex):
        return {CLASS: name, "value": repr(value)}
    if type(value).__module__.partition(".")[0] in FRAME_LIBRARIES:
        return _opened_frame(value, name)
    return list(value) if isinstance(value, range | collections.deque) else None


FRAME_LIBRARIES = ("pandas", "polars")


def _opened_frame(value: Any, name: str) -> Any:
    """A data frame or a column of pandas or polars, with its index, names and attributes where it has them."""
    index = {"index": value.index.tolist(), "names": list(value.index.names)} if hasattr(value, "index") else {}
    more = {what: found for what in ("name", "attrs") if (found := getattr(value, what, None))}
    if not hasattr(value, "columns"):
        return {CLASS: name, **_column(value), **index, **more}
    labels = value.columns.tolist() if hasattr(value.columns, "tolist") else list(value.columns)
    if all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels):
        entries = {label: _column(value[label]) for label in labels}
        plain = {label: column["entries"] for label, column in entries.items() if len(column) == 1}
        return {CLASS: name, "entries": entries | plain, **index, **more}
    columns = [value.iloc[:, place] for place in range(len(labels))]
    return {CLASS: name, "columns": labels, "entries": [_column(column) for column in columns], **index, **more}


def _column(column: Any) -> dict[str, Any]:
    categories = getattr(getattr(column, "cat", None), "categories", None)
    return {"entries": list(column), **({} if categories is None else {"categories": list(categories)})}


def _with_keys_as_entries(value: Mapping[Any, Any]) -> dict[str, Any]:
    """A mapping whose keys are containers, tuples say, as one of its entries in the order of the keys."""
    return {CLASS: "dict", "entries": sorted(map(list, value.items()), key=lambda entry: str(identity(entry[0])))}


def _key_order(key: Scalar) -> tuple[str, Any]:
    if isinstance(key, str):
        return "text", key
    number = isinstance(key, int | float) and not isinstance(key, bool) and key == key
    return ("number", key) if number else ("other", leaf_text(key))


def constant(value: Any) -> Scalar:
    """The scalar as a plain Python value; BadOutput where no column could hold it."""
    kind = kind_of(value)
    if kind is Kind.TEXT:
        return str(value)
    if isinstance(value, Fraction):
        return plain_number(value)
    plain: Scalar = value.item() if isinstance(value, np.generic) else value
    if kind is Kind.INT:
        plain = int(plain)  # type: ignore[arg-type]
        if not -LARGEST - 1 <= plain <= LARGEST:
            raise BadOutput(f"returned {plain}, beyond 64-bit integers; return it as a float or as a string")
    return float(plain) if kind is Kind.FLOAT else plain  # type: ignore[arg-type]


def identity(output: object) -> Template:
    """The identity of an output as a mechanism returns it; BadOutput where it has none.

    >>> identity([1, "1", True]) == identity((1.0, "1", True)), identity(1) == identity("1")
    (True, False)
    """
    return Template(tree_of(output, lambda value, kind: constant(value), lambda value: None))
