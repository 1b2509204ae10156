"""The form of one output: its nesting, its constants, and where its numbers are kept.

Outputs are kept by columns. Rows of one form share a `Template`: a tree of tuples whose leaves are constants (text,
None, whatever is the same in all of them) or `Slot`s, places in columns of numbers. Lists, tuples and arrays are all
tuples here; a dict is the tuple of its (key, value) pairs, sorted by key.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadOutput

Scalar = bool | int | float | str | None
Tree = Any  # a Slot, a Scalar, or a tuple of trees
LARGEST = 2**63 - 1


class Kind(enum.IntEnum):
    """What a leaf is; ABSENT marks the places past the end of a shorter output."""

    ABSENT = 0
    NONE = 1
    BOOL = 2
    INT = 3
    FLOAT = 4
    TEXT = 5


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
    """A tree of constants and slots. Equal to another only if the types of their constants are equal too."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._key = _typed(tree)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Template({self.tree!r})"

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


def _typed(tree: Tree) -> Any:
    if not isinstance(tree, tuple):
        return type(tree), tree
    kinds = tuple(map(type, tree))
    return kinds, tuple(map(_typed, tree)) if tuple in kinds else tree


def _gather(tree: Tree, leaves: list[Slot | Scalar]) -> None:
    if not isinstance(tree, tuple):
        leaves.append(tree)
    elif tuple in map(type, tree):
        for branch in tree:
            _gather(branch, leaves)
    else:
        leaves += tree


def _outline(tree: Tree) -> Tree:
    return tuple(_outline(branch) for branch in tree) if isinstance(tree, tuple) else None


def _fill(tree: Tree, numbers: Mapping[Slot, Any]) -> Any:
    if isinstance(tree, tuple):
        return tuple(_fill(branch, numbers) for branch in tree)
    return numbers[tree] if isinstance(tree, Slot) else tree


# ------------------------------------------------------------------------------------- from what a mechanism returns


def tree_of(value: object, leaf: Callable[[Any, Kind], Tree], special: Callable[[object], Kind | None]) -> Tree:
    """The tree of a returned value; `leaf` makes a leaf of each scalar of a kind.

    `special` names the kind of a value that is no ordinary scalar but stands for one, and None for all others.
    Raises BadOutput for a value that has no columns.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
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
        return tuple((_key(key), tree_of(value[key], leaf, special)) for key in sorted(value, key=_key_order))
    raise BadOutput(
        f"returned {shown(value)} of type {type(value).__name__}; return numbers, booleans, strings, None, "
        f"or lists, tuples, dicts and arrays of these"
    )


def _key(key: object) -> Scalar:
    if kind_of(key) is None:
        raise BadOutput(f"returned a dict with a key {shown(key)} of type {type(key).__name__}; use strings or numbers")
    return constant(key)


def _key_order(key: object) -> tuple[str, Any]:
    return type(key).__name__, key


def constant(value: Any) -> Scalar:
    """The scalar as a plain Python value; BadOutput where no column could hold it."""
    plain: Scalar = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, int) and not -LARGEST - 1 <= plain <= LARGEST:
        raise BadOutput(f"returned {plain}, beyond 64-bit integers; return it as a float or as a string")
    if isinstance(plain, float) and not np.isfinite(plain):
        raise BadOutput(f"returned {plain}; only finite numbers can be compared between data sets")
    return str(plain) if isinstance(plain, str) else plain


def check_finite(columns: Mapping[Slot, NDArray[Any]], row: Callable[[int], object]) -> None:
    """Raise BadOutput where a column holds NaN or an infinity, with how many rows do and the first of them."""
    bad: NDArray[np.bool_] | None = None
    for slot, column in columns.items():
        if slot.kind is Kind.FLOAT:
            finite = np.isfinite(column)
            if not finite.all():
                bad = ~finite if bad is None else bad | ~finite
    if bad is not None:
        first = int(np.argmax(bad))
        raise BadOutput(
            f"returned NaN or an infinity in {np.count_nonzero(bad)} of {len(bad)} outputs, "
            f"first {shown(row(first))} as output {first}; return None or a string where there is no number"
        )


def shown(value: object) -> str:
    """The value as a message shows it: cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
