"""How numbers and sums of symbols are written for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol

from veridp.kernel.distributions import Number


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
