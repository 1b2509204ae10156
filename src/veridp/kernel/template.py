"""The form of one output: its nesting, its constants, and where its numbers are kept.

Outputs are kept by columns. Rows of one form share a `Template`: a tree of tuples whose leaves are constants (text,
None, whatever is the same in all of them) or `Slot`s, places in columns of numbers. Lists, tuples and arrays are all
tuples here; a dict is the `DictItems` of its keys and values, sorted by key. `identity` says which trees are equal.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadOutput
from veridp.kernel.identity import NUMERIC, DictItems, Raised, is_nested, leaf_text, plain_number, tree_key, tree_text

Scalar = bool | int | float | str | Raised | None
Tree = Any  # a Slot, a Scalar, or a tuple (or Pairs) of trees
LARGEST = 2**63 - 1


class Kind(enum.IntEnum):
    """What a leaf is; ABSENT marks the places past the end of a shorter output.

    The last three are floats that no finite feature describes: `Outputs.kinds` names them, templates call them FLOAT.
    """

    ABSENT = 0
    NONE = 1
    BOOL = 2
    INT = 3
    FLOAT = 4
    TEXT = 5
    RAISED = 6
    NAN = 7
    INFINITY = 8
    MINUS_INFINITY = 9


DTYPES: dict[Kind, np.dtype[Any]] = {
    Kind.BOOL: np.dtype(np.bool_),
    Kind.INT: np.dtype(np.int64),
    Kind.FLOAT: np.dtype(np.float64),
}
_KINDS: dict[type, Kind] = {
    bool: Kind.BOOL,
    np.bool_: Kind.BOOL,
    int: Kind.INT,
    float: Kind.FLOAT,
    np.float64: Kind.FLOAT,
    np.int64: Kind.INT,
    str: Kind.TEXT,
    np.str_: Kind.TEXT,
    type(None): Kind.NONE,
    Raised: Kind.RAISED,
}


def kind_of(value: object) -> Kind | None:
    """The kind of a scalar; None for anything else."""
    kind = _KINDS.get(type(value))
    if kind is None:
        if isinstance(value, np.integer) or (isinstance(value, int) and not isinstance(value, bool)):
            return Kind.INT
        if isinstance(value, np.floating | float):
            return Kind.FLOAT
        if isinstance(value, str):
            return Kind.TEXT
    return kind


def kind_of_dtype(dtype: np.dtype[Any]) -> Kind | None:
    """The kind of a column of this type; None where it is none of numbers or truth values."""
    return {"b": Kind.BOOL, "i": Kind.INT, "u": Kind.INT, "f": Kind.FLOAT}.get(dtype.kind)


@dataclass(frozen=True)
class Slot:
    """A place of an output that is kept in the `index`-th column of its kind."""

    kind: Kind
    index: int


class Template:
    """A tree of constants and slots. Without slots it is the identity of one output: equal for equal outputs alone.

    >>> identity([1, "1", True]) == identity((1.0, "1", True)), identity(1) == identity("1")
    (True, False)
    >>> print(Template((Slot(Kind.FLOAT, 0), "#", None)))
    [#, '\\x23', None]
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._key = tree_key(tree)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Template], tuple[Tree]]:
        return Template, (self.tree,)  # the hash of a text is another one in another process

    def __repr__(self) -> str:
        return f"Template({self.tree!r})"

    def __str__(self) -> str:
        """Python-like text, NUMERIC for each slot: the same if and only if the templates fit the same outputs."""
        return tree_text(self.tree, lambda leaf: NUMERIC if isinstance(leaf, Slot) else leaf_text(leaf))

    @cached_property
    def leaves(self) -> tuple[Slot | Scalar, ...]:
        """Its leaves from left to right."""
        found: list[Slot | Scalar] = []
        _gather(self.tree, found)
        return tuple(found)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, Slot))

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Which of its leaves are slots."""
        return tuple([place for place, leaf in enumerate(self.leaves) if isinstance(leaf, Slot)])

    @cached_property
    def outline(self) -> Tree:
        """The nesting alone: tuples, with None for every leaf."""
        return _outline(self.tree)

    def fill(self, numbers: Mapping[Slot, Any]) -> Any:
        """The output whose slots hold these numbers."""
        return _fill(self.tree, numbers) if self.slots else self.tree


def leaf_kind(leaf: Slot | Scalar) -> Kind:
    kind = leaf.kind if isinstance(leaf, Slot) else kind_of(leaf)
    return Kind.ABSENT if kind is None else kind


def _gather(tree: Tree, leaves: list[Slot | Scalar]) -> None:
    if not isinstance(tree, tuple):
        leaves.append(tree)
    elif is_nested(tuple(map(type, tree))):
        for branch in tree:
            _gather(branch, leaves)
    else:
        leaves += tree


def _outline(tree: Tree) -> Tree:
    return type(tree)(_outline(branch) for branch in tree) if isinstance(tree, tuple) else None


def _fill(tree: Tree, numbers: Mapping[Slot, Any]) -> Any:
    if isinstance(tree, tuple):
        return type(tree)(_fill(branch, numbers) for branch in tree)
    return numbers[tree] if isinstance(tree, Slot) else tree


# ------------------------------------------------------------------------------------- from what a mechanism returns


def tree_of(value: object, leaf: Callable[[Any, Kind], Tree], special: Callable[[object], Kind | None]) -> Tree:
    """The tree of a returned value; `leaf` makes a leaf of each scalar of a kind.

    `special` names the kind of a value that is no ordinary scalar but stands for one, and None for all others.
    Raises BadOutput for a value that has no columns.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, DictItems):  # a row of Outputs
        return DictItems((key, tree_of(entry, leaf, special)) for key, entry in value)
    if isinstance(value, list | tuple):
        kinds = [_KINDS.get(type(entry)) for entry in value]
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
        pairs = sorted(((_key(key), entry) for key, entry in value.items()), key=lambda pair: _key_order(pair[0]))
        return DictItems((key, tree_of(entry, leaf, special)) for key, entry in pairs)
    raise BadOutput(
        f"returned {shown(value)} of type {type(value).__name__}; return numbers, booleans, strings, None, "
        f"or lists, tuples, dicts and arrays of these"
    )


def _key(key: object) -> Scalar:
    if kind_of(key) is None:
        raise BadOutput(f"returned a dict with a key {shown(key)} of type {type(key).__name__}; use strings or numbers")
    return constant(key)


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
    """The identity of an output as a mechanism returns it; BadOutput where it has none."""
    return Template(tree_of(output, lambda value, kind: constant(value), lambda value: None))


def is_finite_number(leaf: object) -> bool:
    """Whether a leaf is a number that can be compared; truth values, NaN and the infinities are not."""
    return isinstance(leaf, int | float | Fraction) and not isinstance(leaf, bool) and math.isfinite(leaf)


def mark_not_finite(numbers: NDArray[np.float64], kinds: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Name the kinds of the floats that are NaN or infinite, in place; where they are, None if nowhere."""
    marked: NDArray[np.bool_] = (kinds == Kind.FLOAT) & ~np.isfinite(numbers)
    if not marked.any():
        return None
    found = numbers[marked]
    kinds[marked] = np.where(np.isnan(found), Kind.NAN, np.where(found > 0, Kind.INFINITY, Kind.MINUS_INFINITY))
    return marked


def shown(value: object) -> str:
    """The value as a message shows it: cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
