"""Polynomials of degree 2 in one draw."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.kernel import functions as f
from veridp.kernel.expressions import Affine
from veridp.kernel.symbols import Derived, Noise

SQUARE = "(·)**2"


@dataclass(frozen=True)
class Quadratic:
    """constant + linear · y + square · y²."""

    constant: Fraction
    linear: Fraction
    square: Fraction

    def at(self, y: int | Fraction) -> Fraction:
        return self.constant + self.linear * y + self.square * y * y


def quadratic(value: Any, y: Noise) -> Quadratic | None:
    """The value as a polynomial of degree 2 in y."""
    total = [Fraction(value.constant), Fraction(0), Fraction(0)]
    for symbol, factor in value.terms.items():
        if symbol == y:
            own: tuple[Fraction, ...] | None = (Fraction(0), Fraction(1), Fraction(0))
        else:
            own = _square(symbol, y)
        if own is None:
            return None
        total = [one + Fraction(factor) * other for one, other in zip(total, own, strict=True)]
    return Quadratic(*total)


def _square(symbol: Any, y: Noise) -> tuple[Fraction, ...] | None:
    """A product of two numbers that are linear in y, or the square of one."""
    if not isinstance(symbol, Derived) or (symbol.function is not f.PRODUCT and symbol.function.name != SQUARE):
        return None
    factors = [symbol.arguments[0], symbol.arguments[-1]]
    if any(not isinstance(factor, Affine) or set(factor.terms) != {y} for factor in factors):
        return None
    (a, b), (c, d) = ((Fraction(factor.constant), Fraction(factor.terms[y])) for factor in factors)
    return a * c, a * d + b * c, b * d
