"""Noise as numbers, and in balls: densities, distribution functions and tails at the working precision."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cache

from flint import acb, arb, ctx

from veridp.engines.exact.exponential import Piecewise, Terms
from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution, ExponentialNoise, IntegerNoise, Number, SmoothNoise
from veridp.kernel.noise import Integers
from veridp.numerics.balls import ball

# --------------------------------------------------------------------------------------------------------------- noise
# Which noise floats can compute with.


LEAST_SCALE, MOST_SCALE = 1e-100, 1e100  # between these, what is computed from a scale stays a finite float


def as_float(number: Number) -> float:
    """The number as a float; raises NotExact where floats do not reach so far."""
    try:
        return float(number)
    except OverflowError:
        raise NotExact("a number above 1e308 is beyond what floats hold; use smaller data or noise") from None


@cache
def numeric(distribution: Distribution) -> Distribution:
    """The distribution, to be computed with in floats; the same object for the same distribution.

    Raises NotExact where its scale is beyond what floats can compute with.
    """
    for parameter in distribution.parameters.values():
        as_float(parameter)
    if isinstance(distribution, Integers):
        raise NotExact(
            f"an output depends on one of {distribution.count} integers, which are too many to go through; "
            f"use an engine that samples"
        )
    check_scale(distribution.width)
    return distribution


def check_scale(scale: float) -> None:
    """Raises NotExact where noise has a scale that floats cannot compute with."""
    if not LEAST_SCALE <= scale <= MOST_SCALE:
        raise NotExact(f"noise of scale {scale:g} is outside of [{LEAST_SCALE:g}, {MOST_SCALE:g}]; rescale the data")


# ---------------------------------------------------------------------------------------------------------- ball noise
# Noise in balls: densities, distribution functions and tails, at the working precision.


End = Fraction | None  # None is no end


class BallNoise(ABC):
    """A distribution."""

    @abstractmethod
    def between(self, low: End, high: End) -> arb:
        """P[low <= X <= high]."""


class Continuous(BallNoise):
    """A distribution on the reals."""

    @abstractmethod
    def reach(self) -> tuple[End, End]:
        """Ends beyond which less than 2^-bits of its mass lies, at a working precision of `bits`."""


class Closed(Continuous):
    """A distribution whose density is a piecewise exponential polynomial."""

    def __init__(self, noise: ExponentialNoise) -> None:
        pieces = noise.pieces
        ends = [pieces[0].low, *(piece.high for piece in pieces)]
        parts: list[Terms] = [{(0, piece.rate): ball(piece.coefficient)} for piece in pieces]
        self.density = Piecewise(
            tuple(end for end in ends if end is not None),
            (*([{}] * (ends[0] is not None)), *parts, *([{}] * (ends[-1] is not None))),
        )
        self.scale = noise.scale

    def between(self, low: End, high: End) -> arb:
        return self.density.within(low, high).integral()

    def reach(self) -> tuple[End, End]:
        far = ctx.prec * Fraction(self.scale)
        first, last = self.density.parts[0], self.density.parts[-1]
        return -far if first else self.density.breaks[0], far if last else self.density.breaks[-1]


class Smooth(Continuous):
    """A distribution whose density and distribution function are analytic around the real line."""

    def __init__(self, noise: SmoothNoise) -> None:
        self.noise, self.scale = noise, ball(noise.scale)

    def density(self, x: acb) -> acb:
        return acb(self.noise.density_in_balls(x / self.scale) / self.scale)

    def below(self, x: acb) -> acb:
        """P[X <= x]."""
        return acb(self.noise.below_in_balls(x / self.scale))

    def above(self, x: acb) -> acb:
        """P[X > x]."""
        return acb(self.noise.above_in_balls(x / self.scale))

    def between(self, low: End, high: End) -> arb:
        ends = (None if low is None else acb(ball(low)), None if high is None else acb(ball(high)))
        return arb(0) if low is not None and high is not None and low >= high else self.inside(*ends).real

    def inside(self, low: acb | None, high: acb | None) -> acb:
        """P[low < X < high], continued analytically in both ends."""
        if low is None:
            return acb(1) if high is None else self.below(high)
        if high is None:
            return self.above(low)
        if low.real > 0:
            return self.above(low) - self.above(high)
        return self.below(high) - self.below(low)

    def reach(self) -> tuple[Fraction, Fraction]:
        below, above = self.noise.far(ctx.prec)
        return below * Fraction(self.noise.scale), above * Fraction(self.noise.scale)

    def breaks(self) -> tuple[Fraction, ...]:
        """Where its range is cut up, so that no panel of a heavy tail is much longer than its distance from 0."""
        (below, above), steps = self.noise.far(ctx.prec), range(ctx.prec.bit_length(), ctx.prec)
        points = sorted(sign * 2**step for step in steps for sign in (-1, 1))
        return tuple(point * Fraction(self.noise.scale) for point in points if below < point < above)


# ------------------------------------------------------------------------------------------------------ integers


class Integer(BallNoise):
    """A distribution on the integers from `first` to `last`, None being no end."""

    def __init__(self, noise: IntegerNoise) -> None:
        self.noise, self.parameters = noise, [ball(parameter) for parameter in noise.parameters.values()]
        low, high = noise.support
        self.first, self.last = (None if math.isinf(end) else int(end) for end in (low, high))

    def mass(self, k: int) -> arb:
        """P[X = k], for k in its support."""
        return arb(self.noise.mass_in_balls(k, *self.parameters))

    def above(self, k: int) -> arb:
        """P[X >= k], for k in its support."""
        return arb(self.noise.above_in_balls(k, *self.parameters))

    def cut(self) -> int:
        """An integer beyond which less than 2^-bits of its mass lies, at a working precision of `bits`."""
        return self.noise.cut(ctx.prec)

    def range(self, low: End, high: End) -> tuple[int | None, int | None]:
        """The first and last integer of its support between the ends."""
        starts = [end for end in (self.first, None if low is None else math.ceil(low)) if end is not None]
        ends = [end for end in (self.last, None if high is None else math.floor(high)) if end is not None]
        return max(starts, default=None), min(ends, default=None)

    def between(self, low: End, high: End) -> arb:
        first, last = self.range(low, high)
        if first is not None and last is not None and last < first:
            return arb(0)
        beyond = arb(0) if last == self.last else self.above(last + 1)  # type: ignore[operator]
        return (arb(1) if first is None else self.above(first)) - beyond


def law(noise: Distribution) -> BallNoise:
    """The law of a distribution, at the working precision."""
    if isinstance(noise, ExponentialNoise):
        return Closed(noise)
    if isinstance(noise, SmoothNoise):
        return Smooth(noise)
    if isinstance(noise, IntegerNoise):
        return Integer(noise)
    raise NotExact(f"{noise} has no certified distribution; compare without certified=True")
