"""What expressions are made of: draws of noise and open values; and how they are written for people."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from veridp.kernel.distributions import Distribution, Number
from veridp.kernel.site import Site

# ------------------------------------------------------------------------------------------------------------- wording
# How numbers and sums of symbols are written for people.


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
    """A number as a person would write it: a short decimal where one is exact, else a short fraction or six digits."""
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
        return isinstance(other, Noise) and self.index < other.index


@dataclass(frozen=True)
class Unknown:
    """A value left open: an entry of the data, or an argument."""

    name: str

    def __lt__(self, other: Symbol) -> bool:
        return not isinstance(other, Unknown) or self.name < other.name


Symbol = Noise | Unknown


class Relation(enum.Enum):
    """How an expression stands to 0."""

    AT_LEAST = ">="
    ABOVE = ">"
    EQUAL = "=="
    UNEQUAL = "!="

    def holds(self, slack: Any) -> Any:
        """Whether an expression of this value stands so to 0: a number, an array, or a term of z3."""
        return _COMPARE[self](slack, 0)


_COMPARE: dict[Relation, Callable[[Any, Any], Any]] = {
    Relation.AT_LEAST: operator.ge,
    Relation.ABOVE: operator.gt,
    Relation.EQUAL: operator.eq,
    Relation.UNEQUAL: operator.ne,
}
