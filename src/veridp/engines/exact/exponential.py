"""Piecewise exponential polynomials: between rational breakpoints, Σ c · t^m · e^(r·t).

Breakpoints, degrees m and rates r are exact, the coefficients c are balls: so every value is enclosed. Densities of
Laplace, exponential and uniform noise are of this kind, and products, integrals and affine maps lead nowhere else.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from flint import acb, arb

from veridp.numerics.balls import ball
from veridp.numerics.rational import Rational

Term = tuple[int, Fraction]  # degree m and rate r
Terms = Mapping[Term, arb]  # no term at all is exactly 0
CONSTANT: Term = (0, Fraction(0))
Point = TypeVar("Point", arb, acb)


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A function of one variable; `parts[i]` holds between `breaks[i - 1]` and `breaks[i]`."""

    breaks: tuple[Fraction, ...]
    parts: tuple[Terms, ...]

    def at(self, point: Rational) -> arb:
        """Its value at the point; at a breakpoint, that of the part to the right."""
        return value(self.parts[bisect_right(self.breaks, point)], ball(point))

    def __mul__(self, other: Piecewise) -> Piecewise:
        breaks = _merged(self.breaks, other.breaks)
        pairs = zip(self._on(breaks), other._on(breaks), strict=True)
        return Piecewise(breaks, tuple(_product(mine, theirs) for mine, theirs in pairs))

    def __sub__(self, other: Piecewise) -> Piecewise:
        breaks = _merged(self.breaks, other.breaks)
        pairs = zip(self._on(breaks), other._on(breaks), strict=True)
        return Piecewise(breaks, tuple(_sum(mine, _negated(theirs)) for mine, theirs in pairs))

    def _on(self, breaks: Sequence[Fraction]) -> list[Terms]:
        """Its parts between breakpoints that include its own."""
        places = [0, *(bisect_right(self.breaks, point) for point in breaks)]
        return [self.parts[place] for place in places]

    def composed(self, slope: Fraction, shift: Fraction) -> Piecewise:
        """The function t ↦ self(slope · t + shift), slope not 0."""
        breaks = [(point - shift) / slope for point in self.breaks]
        parts = [_composed(part, slope, shift) for part in self.parts]
        return (
            Piecewise(tuple(breaks), tuple(parts)) if slope > 0 else Piecewise(tuple(breaks[::-1]), tuple(parts[::-1]))
        )

    def within(self, low: Rational | None, high: Rational | None) -> Piecewise:
        """The function on [low, high], and 0 elsewhere; None is no end."""
        if low is not None and high is not None and low >= high:
            return ZERO
        ends = [Fraction(end) for end in (low, high) if end is not None]
        functions = [ZERO] * (low is not None) + [self] + [ZERO] * (high is not None)
        return pasted(ends, functions)

    def below(self) -> Piecewise:
        """The function t ↦ ∫ self from -∞ to t."""
        _check_decay(self.parts[0], 1)
        found: list[Terms] = [_primitive(self.parts[0])]
        for point, part in zip(self.breaks, self.parts[1:], strict=True):
            primitive, at = _primitive(part), ball(point)
            step = value(found[-1], at) - value(primitive, at)
            found.append(primitive if step.is_zero() else _sum(primitive, {CONSTANT: step}))
        return Piecewise(self.breaks, tuple(found))

    def above(self) -> Piecewise:
        """The function t ↦ ∫ self from t to ∞. Far right it decays; it is no difference of constants there."""
        mirror = Fraction(-1), Fraction(0)
        return self.composed(*mirror).below().composed(*mirror)

    def integral(self) -> arb:
        """∫ self over all reals."""
        _check_decay(self.parts[0], 1)
        _check_decay(self.parts[-1], -1)
        total = arb(0)
        primitives = [_primitive(part) for part in self.parts]
        for place, point in enumerate(self.breaks):
            at = ball(point)
            total += value(primitives[place], at) - value(primitives[place + 1], at)
        return total


ZERO = Piecewise((), ({},))


def pasted(edges: Sequence[Fraction], functions: Sequence[Piecewise]) -> Piecewise:
    """The function that is `functions[i]` between `edges[i - 1]` and `edges[i]`."""
    breaks: list[Fraction] = []
    parts: list[Terms] = []
    for place, function in enumerate(functions):
        low = edges[place - 1] if place else None
        high = edges[place] if place < len(edges) else None
        first = 0 if low is None else bisect_right(function.breaks, low)
        inner = [point for point in function.breaks[first:] if high is None or point < high]
        breaks += ([] if low is None else [low]) + inner
        parts += function.parts[first : first + len(inner) + 1]
    return Piecewise(tuple(breaks), tuple(parts))


def value(terms: Terms, at: Point) -> Point:
    """Σ c · t^m · e^(r·t) at a real or complex ball."""
    total = type(at)(0)
    for (degree, rate), coefficient in terms.items():
        term = coefficient * (at * ball(rate)).exp() if rate else coefficient
        total = total + (term * at**degree if degree else term)
    return total


def _merged(first: Sequence[Fraction], second: Sequence[Fraction]) -> tuple[Fraction, ...]:
    return tuple(sorted({*first, *second}))


def _sum(first: Terms, second: Terms) -> Terms:
    total = dict(first)
    for term, coefficient in second.items():
        total[term] = total[term] + coefficient if term in total else coefficient
    return total


def _negated(terms: Terms) -> Terms:
    return {term: -coefficient for term, coefficient in terms.items()}


def _product(first: Terms, second: Terms) -> Terms:
    total: dict[Term, arb] = {}
    for (m, r), c in first.items():
        for (n, s), d in second.items():
            term = (m + n, r + s)
            total[term] = total[term] + c * d if term in total else c * d
    return total


def _composed(terms: Terms, slope: Fraction, shift: Fraction) -> Terms:
    """c (at + b)^m e^(r (at + b)), multiplied out by the binomial theorem."""
    total: dict[Term, arb] = {}
    for (degree, rate), coefficient in terms.items():
        factor = coefficient * ball(rate * shift).exp() if rate and shift else coefficient
        for k in range(degree + 1) if shift else (degree,):
            term = (k, rate * slope)
            added = factor * ball(math.comb(degree, k) * slope**k * shift ** (degree - k)) if degree else factor
            total[term] = total[term] + added if term in total else added
    return total


def _primitive(terms: Terms) -> Terms:
    """An antiderivative: ∫ t^m e^(rt) = e^(rt) (t^m/r - m t^(m-1)/r² + m(m-1) t^(m-2)/r³ - …)."""
    total: dict[Term, arb] = {}
    for (degree, rate), coefficient in terms.items():
        if not rate:
            steps: Iterable[tuple[Term, arb]] = [((degree + 1, rate), coefficient / (degree + 1))]
        else:
            steps = _by_parts(degree, rate, coefficient)
        for term, added in steps:
            total[term] = total[term] + added if term in total else added
    return total


def _by_parts(degree: int, rate: Fraction, coefficient: arb) -> Iterable[tuple[Term, arb]]:
    divisor = ball(rate)
    factor = coefficient / divisor
    for k in range(degree, -1, -1):
        yield (k, rate), factor
        factor = -factor * k / divisor


def _check_decay(terms: Terms, sign: int) -> None:
    if any(rate * sign <= 0 for _, rate in terms):
        raise ValueError("the integral diverges: a term does not decay towards the infinite end")
