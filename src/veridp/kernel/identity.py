"""When two outputs are the same: the one rule that every engine uses.

- Lists, tuples and arrays with the same entries are the same; a dict is none of these, and its order does not matter.
- Numbers compare by value: 1, 1.0 and np.int64(1) are the same, and so are 0.0 and -0.0. All NaNs are one value; the
  two infinities are two.
- True is not 1, "1" is not 1, None is a value of its own.
- A run that raises has an output too: the type of the exception and its message. SystemExit, which ends the program, is
  none, nor is an exception of a vectorised function, which belongs to no one run: these are errors.

So the type of a number (int, float, float32) and of a sequence is not part of an output: stand-ins do not have one.
`Template` compares outputs by `tree_key`, and writes them as text by `tree_text`: two texts are equal if and only if
the outputs are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.errors import MechanismFailed, VeridpError
from veridp.kernel.site import raised_at

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
    except (Exception, SystemExit) as error:
        return raised(error)


def raised(error: Exception | SystemExit) -> Raised:
    """The exception as an output; one that tells of this machine, or of veridp, or ends the program, is an error."""
    if isinstance(error, VeridpError):
        raise error
    if isinstance(error, MemoryError | RecursionError | SystemExit):
        raise failed(error) from error
    return Raised.by(error)


def failed(error: Exception | SystemExit, name: str = "it") -> MechanismFailed:
    """The report of an exception that the mechanism raised."""
    remedy = "; that ends the program and is not an output; raise another exception" * isinstance(error, SystemExit)
    return MechanismFailed(f"{raised_at(error.__traceback__)}: {name} raised {type(error).__name__}: {error}{remedy}")
