"""Real numbers as balls: a midpoint and a radius that holds the true value, whatever was rounded on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

from veridp.claim import Interval
from veridp.numerics.rational import Rational

FIRST_BITS, MOST_BITS = 128, 4096
ACCURACY_BITS = 60  # a ball is sharp once its radius is below 2^-60 (< 1e-18) of its midpoint


def ball(number: Rational) -> arb:
    """The number as a ball, at the working precision."""
    return arb(fmpq(number.numerator, number.denominator))


def up_to(bound: arb) -> arb:
    """A ball that holds every number from 0 to the bound."""
    return arb(0).union(bound)


def is_sharp(value: arb) -> bool:
    """Whether the ball tells its value to ACCURACY_BITS, or is exactly 0."""
    return bool(value.is_zero()) or (bool(value.is_finite()) and value.rel_accuracy_bits() >= ACCURACY_BITS)


def interval(value: arb) -> Interval:
    """The ball as an interval of floats, its ends rounded outwards."""
    return Interval(rounded_down(value), rounded_up(value))


def rounded_down(value: arb) -> float:
    """A float that no number in the ball is below, as large as can be but for a last place."""
    if value.is_nan():
        return -math.inf
    lowest = value.lower()
    found = float(lowest)
    while not arb(found) <= lowest:
        found = math.nextafter(found, -math.inf)
    return found


def rounded_up(value: arb) -> float:
    """A float that no number in the ball is above, as small as can be but for a last place."""
    return -rounded_down(-value)


def probability_interval(value: arb) -> Interval:
    """The ball of a probability as an interval of floats within [0, 1]."""
    ends = interval(value)
    return Interval(min(max(ends.lower, 0.0), 1.0), min(max(ends.upper, 0.0), 1.0))


def log_ratio(above: arb, below: arb) -> Interval:
    """An interval that holds ln(above / below), of two probabilities.

    Exactly 0 below, and certainly something above, is ∞. What may be 0, but need not be, leaves an end open.
    """
    if above.is_zero():
        return Interval(-math.inf, -math.inf)
    least, most = above.lower(), above.upper()
    lower = upper = math.inf
    if not below.is_zero():
        lower = rounded_down((least / below.upper()).log()) if least > 0 else -math.inf
        upper = rounded_up((most / below.lower()).log()) if below.lower() > 0 else math.inf
    elif not least > 0:
        lower = -math.inf
    return Interval(lower, upper)


def added(intervals: Sequence[Interval]) -> Interval:
    """The sum of intervals. An end of -∞ is what is impossible: with it, the sum is too, whatever the others are."""
    lower, upper = [i.lower for i in intervals], [i.upper for i in intervals]
    return Interval(_sum(lower, rounded_down), _sum(upper, rounded_up))


def _sum(numbers: Sequence[float], rounded: Callable[[arb], float]) -> float:
    for end in (-math.inf, math.inf):
        if end in numbers:
            return end
    return rounded(ball(sum(map(Fraction, numbers), start=Fraction(0))))


@dataclass(frozen=True, eq=False)
class Refined:
    """Values as balls, and the working precision at which the last of them became sharp (or was given up)."""

    values: tuple[arb, ...]
    bits: int

    def product(self, places: Sequence[int]) -> arb:
        """The product of the values at these places."""
        with ctx.workprec(self.bits):
            return math.prod((self.values[place] for place in places), start=arb(1))


def refined(count: int, computed: Callable[[Sequence[int]], Iterator[arb]]) -> Refined:
    """The values `0 … count - 1`, each computed with more and more bits until it is sharp, or MOST_BITS are used.

    `computed(places)` yields the values at these places, at the working precision. What is not sharp in the end
    encloses its true value all the same.
    """
    values: dict[int, arb] = {}
    places: Sequence[int] = range(count)
    bits = FIRST_BITS
    while True:
        with ctx.workprec(bits):
            values.update(zip(places, computed(places), strict=True))
        places = [place for place in places if not is_sharp(values[place])]
        if not places or bits == MOST_BITS:
            return Refined(tuple(values[place] for place in range(count)), bits)
        bits *= 2
