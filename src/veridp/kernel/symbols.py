"""What expressions are made of: draws of noise and open values; and how they are written for people."""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from veridp.kernel.distributions import Distribution, Number
from veridp.kernel.piecewise import Piece, Pieces
from veridp.kernel.site import Site

# ------------------------------------------------------------------------------------------------------------- wording
# How numbers and sums of symbols are written for people.


LARGEST_FLOAT = Fraction(sys.float_info.max)


class Named(Protocol):
    """What has a name: a symbol."""

    @property
    def name(self) -> str: ...


def sum_text(terms: Sequence[tuple[Named, Number]], constant: Number) -> str:
    """The sum as one reads it: `q[0] + 2·n1 - 0.5`."""
    return "".join(_signed(terms, constant)) or "0"


def _signed(terms: Sequence[tuple[Named, Number]], constant: Number) -> Iterator[str]:
    first = True
    for symbol, coefficient in terms:
        size = coefficient if coefficient > 0 else -coefficient
        factor = "" if size == 1 else f"{number_text(size)}·"
        yield f"{_sign(coefficient, first)}{factor}{symbol.name}"
        first = False
    if constant:
        rest = constant if constant > 0 else -constant
        yield f"{_sign(constant, first)}{number_text(rest)}"


def _sign(number: Number, first: bool) -> str:
    if first:
        return "-" if number < 0 else ""
    return " - " if number < 0 else " + "


def number_text(number: Number) -> str:
    """A number as a person would write it: a short decimal where one is exact, else a short fraction or six digits.

    >>> number_text(Fraction(1, 4)), number_text(Fraction(1, 3)), number_text(10**400)
    ('0.25', '1/3', '1.00000e+400')
    """
    if not -LARGEST_FLOAT <= number <= LARGEST_FLOAT:
        return f"{Decimal(int(number)):.6g}"
    decimal = f"{float(number):.12g}"
    if Fraction(decimal) == number or float(decimal) == float(number):
        return decimal
    return str(number) if isinstance(number, Fraction) and number.denominator < 10_000 else f"{float(number):.6g}"


def count_text(count: int, noun: str) -> str:
    """The count with its noun, in the plural unless it is 1.

    >>> count_text(1, "pair"), count_text(3, "pair")
    ('1 pair', '3 pairs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# ------------------------------------------------------------------------------------------------------------- symbols
# What expressions are made of: draws of noise and open values; and how an expression may stand to 0.


@dataclass(frozen=True, eq=False)
class Noise:
    """One draw on a path: the index counts the draws from 0."""

    index: int
    distribution: Distribution
    site: Site
    formula: str = field(default="", kw_only=True)  # how code makes it of other draws, where it does

    @property
    def name(self) -> str:
        return f"n{self.index}"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Noise) and self.index == other.index and self.distribution == other.distribution
        )

    def __hash__(self) -> int:
        return self.index

    def __lt__(self, other: Symbol) -> bool:
        return isinstance(other, Derived) or (isinstance(other, Noise) and self.index < other.index)


@dataclass(frozen=True, eq=False)
class Rounds(Noise):
    """The number of rounds that a loop makes, which only add to variables: no draw, but as random as one."""

    head: str = ""  # of the loop
    added: tuple[tuple[str, int], ...] = ()  # what each round but the last adds to which variables


@dataclass(frozen=True, eq=False)
class CoinDraw(Noise):
    """A uniform number that stands for all that a call draws which tosses a coin of probability e^-γ: no draw itself.

    `at` is a value of the whole noise that γ depends on, for which a way through the call is known.
    """

    number: Noise | None = None
    at: int = 0


@dataclass(frozen=True)
class Unknown:
    """A value left open: an entry of the data, or an argument; between the ends of a range, where it has one.

    Where it is a function of a record, `source` is the record, and `pieces` are what the function is. `folds` tells
    whether such functions are to stand for what else would be decided path by path.
    """

    name: str
    ends: tuple[Number, Number] | None = field(default=None, compare=False)
    folds: bool = field(default=False, compare=False)
    source: Unknown | None = field(default=None, compare=False)
    pieces: Pieces = field(default=(), compare=False)

    @property
    def record(self) -> Unknown:
        """The record that it is a function of: itself, if it is one."""
        return self.source or self

    @property
    def function(self) -> Pieces:
        """What it is a function of its record."""
        low, high = self.ends or (0, 0)
        return self.pieces or (Piece(low, high, "[]", {1: 1}),)

    def derived(self, pieces: Pieces) -> dict[Unknown | None, Number]:
        """This function of the record in terms of open values, and of None for a constant: powers, or one by itself."""
        if len(pieces) == 1:
            powers = {power: Piece(*self.function[0].bounds, {power: 1}) for power in pieces[0].terms if power > 1}
            known = {power: self._named(f"{self.name}**{power}", (piece,)) for power, piece in powers.items()}
            return {(known.get(power, self) if power else None): c for power, c in pieces[0].terms.items()}
        return {self._named(f"{self.name} by {'; '.join(map(str, pieces))}", pieces): 1}

    def _named(self, name: str, pieces: Pieces) -> Unknown:
        ranges = [piece.range for piece in pieces]
        ends = min(low for low, _ in ranges), max(high for _, high in ranges)
        return Unknown(name, ends, source=self, pieces=pieces)

    def __lt__(self, other: Symbol) -> bool:
        return not isinstance(other, Unknown) or self.name < other.name


@dataclass(frozen=True)
class PureFunction:
    """A function of numbers alone: what it computes, and what is known of it.

    `at_least`, of one that nowhere falls, gives the bound that its argument must reach for it to reach a number (or to
    exceed it, where strict), and whether that bound is excluded.
    """

    name: str  # tells it from all others; a dot stands for each argument
    compute: Callable[..., Any] = field(compare=False)
    injective: bool = False
    whole: bool = False  # whether its values are integers
    countable: bool = False  # whether it takes any value at countably many arguments only
    least: Number | None = None  # between which its values lie
    largest: Number | None = None
    from_zero: PureFunction | None = None  # of one that does not see signs: the same where its argument is not negative
    at_least: Callable[[Fraction, bool], ArgumentBound] | None = field(default=None, compare=False)

    def text(self, arguments: Sequence[str]) -> str:
        given = iter(arguments)
        return "".join(next(given) if part == "·" else part for part in self.name)


class ArgumentBound(NamedTuple):
    """A bound, finite or not; and whether it is excluded."""

    bound: Fraction | float
    strict: bool


def is_constant(argument: object) -> bool:
    """Whether the argument of a function is a number; by its type, as stand-ins pass for numbers while code runs."""
    return type(argument) is int or type(argument) is Fraction


class Derived:
    """A function of affine expressions and constants, at least one of the former: what keeps these keeps it."""

    __slots__ = ("_hash", "arguments", "function", "key")

    def __init__(self, function: PureFunction, arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.key = (function, tuple(map(_argument_key, arguments)))
        self._hash = hash(self.key)

    @property
    def expressions(self) -> list[Any]:
        """Its arguments that are not constant."""
        return [argument for argument in self.arguments if not is_constant(argument)]

    @property
    def name(self) -> str:
        texts = [number_text(a) if is_constant(a) else a.text() for a in self.arguments]
        return self.function.text(texts)

    def evaluate(self, values: Mapping[Symbol, Any]) -> Any:
        """Its value where the symbols have these values."""
        plain = [float(a) if is_constant(a) else a.evaluate(values) for a in self.arguments]
        return self.function.compute(*plain)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Derived) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Symbol) -> bool:
        return isinstance(other, Derived) and self.name < other.name

    def __reduce__(self) -> tuple[type[Derived], tuple[Any, ...]]:
        return Derived, (self.function, self.arguments)


def _argument_key(argument: Any) -> object:
    if is_constant(argument):
        return argument
    return argument.constant, frozenset(argument.terms.items())


Symbol = Noise | Unknown | Derived


def drawn_in(terms: Iterable[Symbol]) -> Iterator[Noise | Unknown]:
    """The draws and open values that the symbols are made of."""
    for symbol in terms:
        if isinstance(symbol, Derived):
            for argument in symbol.expressions:
                yield from drawn_in(argument.terms)
        else:
            yield symbol


def is_atomless(symbol: Symbol) -> bool:
    """Whether it certainly takes no value with positive probability, whatever the open values are.

    A function that takes any value at countably many arguments only is so where its argument is. A quotient x/y is c
    just where x = cy, and a product xy is c ≠ 0 just where x = c/y: if x is independent of y, that has no probability
    given y.
    """
    if not isinstance(symbol, Derived):
        return isinstance(symbol, Noise) and not symbol.distribution.integer
    expressions = symbol.expressions
    if len(symbol.arguments) == 1:
        return (symbol.function.injective or symbol.function.countable) and has_no_atoms(expressions[0].terms)
    if not symbol.function.countable or len(expressions) < 2 or not _apart(*(e.terms for e in expressions)):
        return False
    return all(has_no_atoms(expression.terms) for expression in expressions)


def has_no_atoms(terms: Iterable[Symbol]) -> bool:
    """The same for a sum: it has none if one of its terms has none and is independent of the others."""
    symbols = list(terms)
    return any(is_atomless(s) and _apart([s], [t for t in symbols if t is not s]) for s in symbols)


def _apart(first: Iterable[Symbol], second: Iterable[Symbol]) -> bool:
    """Whether the two share no draw."""
    return {s for s in drawn_in(first) if isinstance(s, Noise)}.isdisjoint(drawn_in(second))


def value_of(symbol: Symbol, values: Mapping[Symbol, Any]) -> Any:
    """The value of a symbol where draws and open values are these."""
    if isinstance(symbol, Derived):
        return symbol.evaluate(values)
    if isinstance(symbol, Unknown) and symbol.source is not None:
        value = values[symbol.source]
        nearest = symbol.pieces[-1 if value > symbol.pieces[0].low else 0]  # where rounding has left the interval
        return float(next((piece for piece in symbol.pieces if piece.has(value)), nearest).at(value))
    return values[symbol]


class Relation(enum.Enum):
    """How an expression stands to 0."""

    AT_LEAST = ">="
    ABOVE = ">"
    EQUAL = "=="
    UNEQUAL = "!="

    def holds(self, slack: Any) -> Any:
        """Whether an expression of this value stands so to 0: a number or an array."""
        return _COMPARE[self](slack, 0)


_COMPARE: dict[Relation, Callable[[Any, Any], Any]] = {
    Relation.AT_LEAST: operator.ge,
    Relation.ABOVE: operator.gt,
    Relation.EQUAL: operator.eq,
    Relation.UNEQUAL: operator.ne,
}
