"""Outputs: when two are the same, the form of one, and how to reach a part of it."""

from __future__ import annotations

import enum
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.budget import out_of_memory
from veridp.errors import INTERRUPTING, MechanismFailed, VeridpError
from veridp.kernel.site import raised_at

# ------------------------------------------------------------------------------------------------------------ identity
# When two outputs are the same: the one rule that every engine uses.
#
# - Lists, tuples and arrays with the same entries are the same; a dict is none of these, and its order does not
# matter.
# - Numbers compare by value: 1, 1.0 and np.int64(1) are the same, and so are 0.0 and -0.0. All NaNs are one value; the
#   two infinities are two.
# - True is not 1, "1" is not 1, None is a value of its own.
# - A dataclass is the dict of its fields and of its class's name; a set is that of its sorted entries.
# - A run that raises has an output too: the type of the exception and its message. SystemExit and others that are no
#   Exception, which end the program, are none, nor is an exception of a vectorised function, which belongs to no one
#   run: these are errors.
#
# So the type of a number (int, float, float32) and of a sequence is not part of an output: stand-ins do not have one.
# `Template` compares outputs by `tree_key`, and writes them as text by `tree_text`: two texts are equal if and only if
# the outputs are the same.


CLASS = "__class__"  # the key of the name of a container's type, where that is none of Python's plain ones
NUMERIC = "#"  # stands for any number in the text of an output; in the text of a string it is escaped
_NAN = "nan"  # the key of every NaN, none of which equals itself


@dataclass(frozen=True)
class Raised:
    """The output of a run that raised an exception: what its caller sees of it.

    The type is a qualified name, without `builtins`. The message is part of the identity: it may tell of the data.

    >>> Raised.by(ValueError("too large")), Raised("ValueError")
    (raises ValueError('too large'), raises ValueError)
    """

    type: str
    message: str = ""

    @classmethod
    def by(cls, error: BaseException) -> Raised:
        """The output of a run that raised this."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return cls(name, str(error))

    def __repr__(self) -> str:
        plain = all(letter.isalnum() or letter in "._<>" for letter in self.type)
        shown = self.type if plain else _quoted(self.type)
        return f"raises {shown}({_quoted(self.message)})" if self.message else f"raises {shown}"


class DictItems(tuple[Any, ...]):
    """A dict among trees of tuples: its (key, value) pairs, sorted. It never equals a plain tuple."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DictItems) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((DictItems, tuple(self)))

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {value!r}' for key, value in self)}}}"


_TAGS: dict[type, type] = {int: float, float: float}  # numbers of all types have one tag


def leaf_key(leaf: Any) -> tuple[type, Any]:
    """What tells a leaf from others: equal keys mean the same leaf. Slots, too, have one."""
    kind = type(leaf)
    return _TAGS.get(kind, kind), _NAN if leaf != leaf else leaf


def tree_key(tree: Any) -> Any:
    """What tells a tree of tuples, Pairs and leaves from others."""
    if not isinstance(tree, tuple):
        return leaf_key(tree)
    kinds = tuple(map(type, tree))
    if is_nested(kinds) or type(tree) is DictItems:
        return type(tree), tuple(map(tree_key, tree))
    if float in kinds:
        return tuple([_TAGS.get(kind, kind) for kind in kinds]), tuple([_NAN if x != x else x for x in tree])
    return (tuple([_TAGS.get(kind, kind) for kind in kinds]) if int in kinds else kinds), tuple(tree)


def is_nested(kinds: tuple[type, ...]) -> bool:
    """Whether entries of these types are tuples themselves."""
    return tuple in kinds or DictItems in kinds


def leaf_text(leaf: Any) -> str:
    """A leaf as text: the same for the same leaves, and different for different ones."""
    if isinstance(leaf, str):
        return _quoted(leaf)
    if isinstance(leaf, bool) or not isinstance(leaf, int | float):
        return repr(leaf)
    if isinstance(leaf, float) and leaf.is_integer() and abs(leaf) < 2**63:
        return str(int(leaf))
    return repr(leaf)


def tree_text(tree: Any, text: Callable[[Any], str] = leaf_text) -> str:
    """A tree as text, its leaves by the function given."""
    if isinstance(tree, DictItems):
        return f"{{{', '.join(f'{text(key)}: {tree_text(value, text)}' for key, value in tree)}}}"
    if isinstance(tree, tuple):
        return f"[{', '.join([tree_text(branch, text) for branch in tree])}]"
    return text(tree)


def _quoted(text: str) -> str:
    return repr(text).replace(NUMERIC, "\\x23")


def plain_number(value: Fraction) -> int | float:
    """The number that a run on floats would return for an exact one."""
    return int(value) if value.denominator == 1 else float(value)


def output_of(function: Callable[[Any, Any], Any], rng: Any, data: object) -> Any:
    """What a run of the plain function returns, or what it raises."""
    try:
        return function(rng, data)
    except INTERRUPTING:
        raise
    except BaseException as error:
        return raised(error)


_warned = threading.RLock()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Show no warnings of what runs here, which may overflow far out.

    NumPy's error state stays as it is: code may turn its warnings into exceptions, and handle them. Filters of warnings
    are those of the process, so one thread at a time changes them.
    """
    with _warned, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def raised(error: BaseException) -> Raised:
    """The exception as an output; one that tells of this machine, or of veridp, or ends the program, is an error."""
    if isinstance(error, VeridpError):
        raise error
    if isinstance(error, MemoryError):
        raise out_of_memory() from error
    if isinstance(error, RecursionError) or not isinstance(error, Exception):
        raise failed(error) from error
    return Raised.by(error)


def failed(error: BaseException, name: str = "it") -> MechanismFailed:
    """The report of an exception that the mechanism raised."""
    remedy = "" if isinstance(error, Exception) else "; that ends the program and is not an output; raise an Exception"
    return MechanismFailed(f"{raised_at(error.__traceback__)}: {name} raised {type(error).__name__}: {error}{remedy}")


# -------------------------------------------------------------------------------------------------------------- access
# Where a part of an output stands in it, as Python would reach it: `output['n'][2]`.


Place = tuple[int, ...]  # the branch to take at each level of a tree


def leaf_names(tree: Any) -> tuple[str, ...]:
    """The names of the leaves of a tree, from left to right.

    >>> leaf_names(DictItems((("m", (1, 2.0)), ("n", 3.0))))[1:]
    ("output['m'][0]", "output['m'][1]", "key 'n'", "output['n']")
    """
    return tuple(name for _, name, branch in parts(tree) if not isinstance(branch, tuple))


def parts(tree: Any, place: Place = (), name: str = "output") -> Iterator[tuple[Place, str, Any]]:
    """Every part of a tree from left to right, itself first: its place, its name, and the part."""
    yield place, name, tree
    if not isinstance(tree, tuple):
        return
    for number, branch in enumerate(tree):
        here = (*place, number)
        if isinstance(tree, DictItems):
            key, value = branch
            yield here, name, branch
            yield (*here, 0), f"key {key!r}", key
            yield from parts(value, (*here, 1), f"{name}[{key!r}]")
        else:
            yield from parts(branch, here, f"{name}[{number}]")


# ------------------------------------------------------------------------------------------------------------ template
# The form of one output: its nesting, its constants, and where its numbers are kept.
#
# Outputs are kept by columns. Rows of one form share a `Template`: a tree of tuples whose leaves are constants (text,
# None, whatever is the same in all of them) or `Slot`s, places in columns of numbers. Lists, tuples and arrays are all
# tuples here; a dict is the `DictItems` of its keys and values, sorted by key. `identity` says which trees are equal.


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
KINDS: dict[type, Kind] = {
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
    kind = KINDS.get(type(value))
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
