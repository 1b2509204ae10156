"""Noise in balls: densities, distribution functions and tails of each distribution, at the working precision."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import singledispatch

from flint import acb, arb, ctx

from veridp.engines.exact.balls import Rational, ball
from veridp.engines.exact.exponential import CONSTANT, Piecewise
from veridp.errors import NotExact
from veridp.kernel import distributions as d

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

    def __init__(self, density: Piecewise, scale: Rational) -> None:
        self.density, self.scale = density, Fraction(scale)

    def between(self, low: End, high: End) -> arb:
        return self.density.within(low, high).integral()

    def reach(self) -> tuple[End, End]:
        far = self.scale * ctx.prec
        first, last = self.density.parts[0], self.density.parts[-1]
        return -far if first else self.density.breaks[0], far if last else self.density.breaks[-1]


class Smooth(Continuous):
    """A distribution whose density and distribution function are analytic around the real line."""

    def __init__(self, scale: Rational) -> None:
        self.scale = Fraction(scale)

    def density(self, x: acb) -> acb:
        return self._density(x / ball(self.scale)) / ball(self.scale)

    def below(self, x: acb) -> acb:
        """P[X <= x]."""
        return self._below(x / ball(self.scale))

    def above(self, x: acb) -> acb:
        """P[X > x]."""
        return self._above(x / ball(self.scale))

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

    @abstractmethod
    def _density(self, z: acb) -> acb: ...

    @abstractmethod
    def _below(self, z: acb) -> acb: ...

    @abstractmethod
    def _above(self, z: acb) -> acb: ...


class BallNormal(Smooth):
    def _density(self, z: acb) -> acb:
        return (-z * z / 2).exp() / (2 * arb.pi()).sqrt()

    def _below(self, z: acb) -> acb:
        return self._above(-z)

    def _above(self, z: acb) -> acb:
        return (z / arb(2).sqrt()).erfc() / 2

    def reach(self) -> tuple[End, End]:
        far = self.scale * (math.isqrt(2 * ctx.prec) + 1)  # P[|Z| > z] < e^(-z²/2) from z = 1 on
        return -far, far


class BallGumbel(Smooth):
    def _density(self, z: acb) -> acb:
        return (-z - (-z).exp()).exp()

    def _below(self, z: acb) -> acb:
        return (-(-z).exp()).exp()

    def _above(self, z: acb) -> acb:
        return -(-(-z).exp()).expm1()

    def reach(self) -> tuple[End, End]:
        return -self.scale * (ctx.prec.bit_length() + 1), self.scale * ctx.prec


class BallLogistic(Smooth):
    def _density(self, z: acb) -> acb:
        return self._below(z) * self._above(z)

    def _below(self, z: acb) -> acb:
        return self._above(-z)

    def _above(self, z: acb) -> acb:
        return 1 / (1 + z.exp())

    def reach(self) -> tuple[End, End]:
        return -self.scale * ctx.prec, self.scale * ctx.prec


# ------------------------------------------------------------------------------------------------------ integers


class Integer(BallNoise):
    """A distribution on the integers from `first` to `last`."""

    first = 0
    last: int | None = None

    @abstractmethod
    def mass(self, k: int) -> arb:
        """P[X = k], for k in its support."""

    @abstractmethod
    def above(self, k: int) -> arb:
        """P[X >= k], for k in its support."""

    @abstractmethod
    def cut(self) -> int:
        """An integer beyond which less than 2^-bits of its mass lies, at a working precision of `bits`."""

    def range(self, low: End, high: End) -> tuple[int, int | None]:
        """The first and last integer of its support between the ends."""
        first = self.first if low is None else max(self.first, math.ceil(low))
        ends = [end for end in (self.last, None if high is None else math.floor(high)) if end is not None]
        return first, min(ends) if ends else None

    def between(self, low: End, high: End) -> arb:
        first, last = self.range(low, high)
        if last is None:
            return self.above(first)
        if last < first:
            return arb(0)
        return self.above(first) - (arb(0) if last == self.last else self.above(last + 1))


class BallGeometric(Integer):
    first = 1

    def __init__(self, p: Rational) -> None:
        self.p, self.fails = ball(p), ball(1 - p)
        self.last = 1 if p == 1 else None

    def mass(self, k: int) -> arb:
        return self.p * self.above(k)

    def above(self, k: int) -> arb:
        return self.fails ** (k - 1)

    def cut(self) -> int:
        return 1 if self.last else math.ceil(ctx.prec / -math.log2(float(self.fails.upper()))) + 2


class BallPoisson(Integer):
    def __init__(self, rate: Rational) -> None:
        self.rate = rate
        self.mean = ball(rate)

    def mass(self, k: int) -> arb:
        return (-self.mean).exp() * self.mean**k / arb(k).fac()

    def above(self, k: int) -> arb:
        return self.mean.gamma_lower(arb(k), regularized=1) if k else arb(1)

    def cut(self) -> int:
        """From 2e² rates on, the masses beyond k are below e^-k: a Chernoff bound."""
        return max(math.ceil(15 * self.rate), ctx.prec)


class BallBinomial(Integer):
    def __init__(self, trials: int, p: Rational) -> None:
        self.last = trials
        self.p, self.fails = ball(p), ball(1 - p)

    def mass(self, k: int) -> arb:
        return math.comb(self._trials, k) * self.p**k * self.fails ** (self._trials - k)

    def above(self, k: int) -> arb:
        return sum((self.mass(j) for j in range(k, self._trials + 1)), start=arb(0))

    def cut(self) -> int:
        return self._trials

    @property
    def _trials(self) -> int:
        return self.last or 0


# ----------------------------------------------------------------------------------------------- from distributions


@singledispatch
def law(distribution: d.Distribution) -> BallNoise:
    """The law of a distribution, at the working precision."""
    raise NotExact(f"{distribution} has no certified distribution; compare without certified=True")


@law.register
def _(noise: d.Laplace) -> BallNoise:
    rate, half = 1 / Fraction(noise.scale), ball(1 / Fraction(2 * noise.scale))
    return Closed(Piecewise((Fraction(0),), ({(0, rate): half}, {(0, -rate): half})), noise.scale)


@law.register
def _(noise: d.Exponential) -> BallNoise:
    rate = 1 / Fraction(noise.scale)
    return Closed(Piecewise((Fraction(0),), ({}, {(0, -rate): ball(rate)})), noise.scale)


@law.register
def _(noise: d.Uniform) -> BallNoise:
    width = Fraction(noise.scale)
    return Closed(Piecewise((Fraction(0), width), ({}, {CONSTANT: ball(1 / width)}, {})), width)


@law.register
def _(noise: d.Normal) -> BallNoise:
    return BallNormal(noise.scale)


@law.register
def _(noise: d.Gumbel) -> BallNoise:
    return BallGumbel(noise.scale)


@law.register
def _(noise: d.Logistic) -> BallNoise:
    return BallLogistic(noise.scale)


@law.register
def _(noise: d.Geometric) -> BallNoise:
    return BallGeometric(noise.p)


@law.register
def _(noise: d.Poisson) -> BallNoise:
    return BallPoisson(noise.rate)


@law.register
def _(noise: d.Binomial) -> BallNoise:
    return BallBinomial(noise.trials, noise.p)
