"""Noise as numbers: logarithms of density, distribution function and tail, each to full relative precision.

Everything is done in logarithms, so that an output of probability 1e-300 has as many digits as one of 1/2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from veridp.errors import NotExact
from veridp.kernel import distributions as d

Array = NDArray[np.float64]


LEAST_SCALE, MOST_SCALE = 1e-100, 1e100  # between these, what is computed from a scale stays a finite float


def as_float(number: d.Number) -> float:
    """The number as a float; raises NotExact where floats do not reach so far."""
    try:
        return float(number)
    except OverflowError:
        raise NotExact("a number above 1e308 is beyond what floats hold; use smaller data or noise") from None


def log_difference(larger: Array, smaller: Array) -> Array:
    """ln(e^larger - e^smaller), -inf where nothing is left."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.where(np.isneginf(smaller), -np.inf, smaller - larger)
        left = np.where(gap < 0, larger + np.log(-np.expm1(np.minimum(gap, 0.0))), -np.inf)
    return np.where(np.isneginf(larger), -np.inf, left)


@dataclass(frozen=True)
class LinearStretch:
    """An interval on which the logarithm of a density is linear."""

    low: float
    high: float
    intercept: float
    slope: float


@dataclass(frozen=True)
class NumericNoise(ABC):
    """A distribution on the reals, or on the integers.

    `kinks` are the points where its density is not smooth, `support` the interval outside of which it is 0, `middle`
    a point between its two tails.
    """

    scale: float
    integer = False
    middle = 0.0
    smooth_width = 16.0  # how many scales a panel of quadrature may span
    tail = 45.0  # how many scales past the last kink its mass no longer counts (e^-45 < 1e-19)

    @property
    def kinks(self) -> tuple[float, ...]:
        return ()

    @property
    def stretches(self) -> tuple[LinearStretch, ...] | None:
        """The intervals, with kinks or infinities for ends, that its mass lies on, if its density is exponential there.

        None where it is not.
        """
        return None

    @property
    def rate(self) -> float:
        """How fast its logarithm may change, per unit."""
        return 16.0 / (self.smooth_width * self.scale)

    @property
    def support(self) -> tuple[float, float]:
        return -math.inf, math.inf

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """ln of the density (of the probability, for an integer distribution) at x."""

    @abstractmethod
    def log_below(self, x: Array) -> Array:
        """ln P[X <= x]."""

    @abstractmethod
    def log_above(self, x: Array) -> Array:
        """ln P[X > x] (of P[X >= x], for an integer distribution)."""

    def log_between(self, low: Array, high: Array) -> Array:
        """ln P[low <= X <= high], -inf where the interval is empty."""
        if np.all(np.isneginf(low)):
            return self.log_below(high)
        if np.all(np.isposinf(high)):
            return self.log_above(low)
        middle = self.middle
        below = log_difference(self.log_below(np.minimum(high, middle)), self.log_below(np.minimum(low, middle)))
        above = log_difference(self.log_above(np.maximum(low, middle)), self.log_above(np.maximum(high, middle)))
        answer = np.where(high <= middle, below, np.where(low >= middle, above, np.logaddexp(below, above)))
        return np.where(low < high, answer, -np.inf)


class NumericLaplace(NumericNoise):
    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def stretches(self) -> tuple[LinearStretch, ...]:
        top, slope = -math.log(2 * self.scale), 1 / self.scale
        return LinearStretch(-math.inf, 0.0, top, slope), LinearStretch(0.0, math.inf, top, -slope)

    def log_density(self, x: Array) -> Array:
        return -np.abs(x) / self.scale - math.log(2 * self.scale)

    def log_below(self, x: Array) -> Array:
        z = x / self.scale
        return np.where(z < 0, z - math.log(2), np.log1p(np.exp(-np.abs(z)) * -0.5))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-x)


@dataclass(frozen=True)
class NumericLaplaceSum(NumericNoise):
    """The sum of `count` Laplace draws: e^-|x| times a polynomial in |x| whose coefficients are all positive.

    It is the difference of two gamma variables, whose convolution is expanded by the binomial theorem.
    """

    count: int = 1

    @property
    def tail(self) -> float:  # type: ignore[override]
        return 45.0 + 4.0 * self.count

    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0,)

    @cached_property
    def _log_coefficients(self) -> Array:
        """ln of the coefficients of the density's polynomial, by power, for scale 1."""
        k = self.count
        found = [math.comb(k - 1, m) * math.factorial(2 * k - 2 - m) << m for m in range(k)]
        return np.array([math.log(c) for c in found]) - 2 * math.lgamma(k) - (2 * k - 1) * math.log(2)

    @cached_property
    def _log_tail_coefficients(self) -> Array:
        """The same for the probability above x: each power, integrated by parts, leaves all lower ones."""
        powers = special.gammaln(np.arange(1.0, self.count + 1))
        from_top = np.logaddexp.accumulate((self._log_coefficients + powers)[::-1])[::-1]
        return np.asarray(from_top - powers)

    def _log_polynomial(self, coefficients: Array, z: Array) -> Array:
        powers = np.arange(self.count)
        logs = coefficients + special.xlogy(powers, np.asarray(z)[..., None])
        return np.asarray(np.logaddexp.reduce(np.where(np.isnan(logs), -np.inf, logs), axis=-1) - z)

    def log_density(self, x: Array) -> Array:
        return self._log_polynomial(self._log_coefficients, np.abs(x) / self.scale) - math.log(self.scale)

    def log_below(self, x: Array) -> Array:
        z = np.asarray(x) / self.scale
        outer = self._log_polynomial(self._log_tail_coefficients, np.minimum(np.abs(z), 1e300))
        outer = np.where(np.isinf(z), -np.inf, outer)
        return np.where(z < 0, outer, np.log1p(-np.exp(outer)))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-x)


class NumericExponential(NumericNoise):
    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def stretches(self) -> tuple[LinearStretch, ...]:
        return (LinearStretch(0.0, math.inf, -math.log(self.scale), -1 / self.scale),)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    def log_density(self, x: Array) -> Array:
        return np.where(x >= 0, -x / self.scale - math.log(self.scale), -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(-np.maximum(x, 0.0) / self.scale))

    def log_above(self, x: Array) -> Array:
        return -np.maximum(x, 0.0) / self.scale


class NumericUniform(NumericNoise):
    @property
    def middle(self) -> float:  # type: ignore[override]
        return self.scale / 2

    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0, self.scale)

    @property
    def stretches(self) -> tuple[LinearStretch, ...]:
        return (LinearStretch(0.0, self.scale, -math.log(self.scale), 0.0),)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, self.scale

    def log_density(self, x: Array) -> Array:
        return np.where((x >= 0) & (x <= self.scale), -math.log(self.scale), -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.clip(x / self.scale, 0.0, 1.0))

    def log_above(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.clip((self.scale - x) / self.scale, 0.0, 1.0))


class NumericNormal(NumericNoise):
    smooth_width = 2.0
    tail = 12.0

    def log_density(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            z = x / self.scale
            return -z * z / 2 - math.log(self.scale * math.sqrt(2 * math.pi))

    def log_below(self, x: Array) -> Array:
        return np.asarray(special.log_ndtr(x / self.scale))

    def log_above(self, x: Array) -> Array:
        return np.asarray(special.log_ndtr(-x / self.scale))


class NumericGumbel(NumericNoise):
    smooth_width = 1.0

    def log_density(self, x: Array) -> Array:
        z = x / self.scale
        with np.errstate(over="ignore"):
            return -z - np.exp(-z) - math.log(self.scale)

    def log_below(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return -np.exp(-x / self.scale)

    def log_above(self, x: Array) -> Array:
        with np.errstate(over="ignore", divide="ignore"):
            return np.log(-np.expm1(-np.exp(-x / self.scale)))


class NumericLogistic(NumericNoise):
    smooth_width = 2.0

    def log_density(self, x: Array) -> Array:
        z = np.abs(x) / self.scale
        return np.asarray(-z - 2 * np.log1p(np.exp(-z)) - math.log(self.scale))

    def log_below(self, x: Array) -> Array:
        return -np.logaddexp(0.0, -x / self.scale)

    def log_above(self, x: Array) -> Array:
        return -np.logaddexp(0.0, x / self.scale)


@dataclass(frozen=True)
class Integers(NumericNoise):
    """Integer noise, by SciPy's frozen distribution; `scale` is the spread of its mass."""

    law: Any = None
    low: float = 0.0
    high: float = math.inf
    centre: float = 0.0
    integer = True

    @property
    def kinks(self) -> tuple[float, ...]:
        """The integers, where its distribution function steps, as far as its mass counts."""
        first = max(self.low, self.centre - self.tail * self.scale)
        last = min(self.high, self.centre + self.tail * self.scale)
        return tuple(np.arange(math.floor(first), math.ceil(last) + 1.0).tolist())

    @property
    def middle(self) -> float:  # type: ignore[override]
        return self.centre

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        with np.errstate(divide="ignore"):
            return np.where(np.abs(x - whole) < 1e-9, self.law.logpmf(whole), -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self.law.logcdf(np.floor(x + 1e-9)))

    def log_above(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self.law.logsf(np.ceil(x - 1e-9) - 1))

    def log_between(self, low: Array, high: Array) -> Array:
        """ln P[low <= X <= high], both ends included."""
        first, last = np.ceil(low - 1e-9), np.floor(high + 1e-9)
        below = log_difference(self.log_below(last), self.log_below(first - 1))
        above = log_difference(self.log_above(first), self.log_above(last + 1))
        return np.where(first <= last, np.where(last <= self.centre, below, above), -np.inf)


@dataclass(frozen=True)
class NumericGeometric(Integers):
    """The number of trials up to the first success, each of which fails with probability e^-decay."""

    decay: float = math.inf
    low: float = 1.0
    centre: float = 1.0

    @property
    def stretches(self) -> tuple[LinearStretch, ...] | None:
        """On integers alone: between them it has no mass."""
        if math.isinf(self.decay):
            return None
        return (LinearStretch(1.0, math.inf, math.log(-math.expm1(-self.decay)) + self.decay, -self.decay),)

    def _log_failures(self, count: Array) -> Array:
        """ln of the probability that so many trials fail."""
        if math.isinf(self.decay):
            return np.where(count > 0, -np.inf, 0.0)
        return np.maximum(count, 0.0) * -self.decay

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        log_success = math.log(-math.expm1(-self.decay))
        return np.where((np.abs(x - whole) < 1e-9) & (whole >= 1), self._log_failures(whole - 1) + log_success, -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(self._log_failures(np.floor(x + 1e-9))))

    def log_above(self, x: Array) -> Array:
        return self._log_failures(np.ceil(x - 1e-9) - 1)


@cache
def numeric(distribution: d.Distribution) -> NumericNoise:
    """The numbers of a distribution; the same object for the same distribution.

    Raises NotExact where its scale is beyond what floats can compute with.
    """
    noise = _numeric(distribution)
    check_scale(noise.scale)
    return noise


def check_scale(scale: float) -> None:
    """Raises NotExact where noise has a scale that floats cannot compute with."""
    if not LEAST_SCALE <= scale <= MOST_SCALE:
        raise NotExact(f"noise of scale {scale:g} is outside of [{LEAST_SCALE:g}, {MOST_SCALE:g}]; rescale the data")


@singledispatch
def _numeric(distribution: d.Distribution) -> NumericNoise:
    raise NotImplementedError(f"no numbers for {distribution}")


registered = _numeric.register  # for distributions that are made elsewhere, of those here

for _symbolic, _kind in (
    (d.Laplace, NumericLaplace),
    (d.Exponential, NumericExponential),
    (d.Uniform, NumericUniform),
    (d.Normal, NumericNormal),
    (d.Gumbel, NumericGumbel),
    (d.Logistic, NumericLogistic),
):
    _numeric.register(_symbolic, lambda noise, kind=_kind: kind(as_float(noise.scale)))


@_numeric.register
def _(noise: d.Geometric) -> NumericNoise:
    decay = -math.log1p(-float(noise.p)) if noise.p < 1 else math.inf
    return NumericGeometric(1 / decay if noise.p < 1 else 1.0, decay=decay)


@_numeric.register
def _(noise: d.Poisson) -> NumericNoise:
    rate = float(noise.rate)
    return Integers(max(1.0, math.sqrt(rate)), stats.poisson(rate), centre=math.floor(rate))


@_numeric.register
def _(noise: d.Binomial) -> NumericNoise:
    trials, p = noise.trials, float(noise.p)
    spread = max(1.0, math.sqrt(trials * p * (1 - p)))
    return Integers(spread, stats.binom(trials, p), high=float(trials), centre=math.floor(trials * p))


# ------------------------------------------------------------------------------------------ exponential tails


@dataclass(frozen=True)
class Pole:
    """A tail that decays exponentially: the transform E[e^(tX)] has a pole at t = rate, of this order."""

    rate: float
    order: int
    log_coefficient: float  # of the density x^(order - 1) e^(-rate x) / (order - 1)!


def tail_rate(noise: NumericNoise, factor: float) -> Pole | None:
    """The upper tail of noise times a factor; None where it is lighter than any exponential."""
    rate = 1 / (abs(factor) * noise.scale)
    match noise:
        case NumericLaplace():
            return Pole(rate, 1, math.log(rate / 2))
        case NumericLaplaceSum(count=count):
            return Pole(rate, count, count * math.log(rate / 2))
        case NumericLogistic():
            return Pole(rate, 1, math.log(rate))
        case NumericExponential() | NumericGumbel() if factor > 0:
            return Pole(rate, 1, math.log(rate))
        case NumericGeometric(decay=decay) if factor > 0 and math.isfinite(decay):
            return Pole(decay / factor, 1, math.log(math.expm1(decay)))
    return None


def log_transform(noise: NumericNoise, t: float) -> float:
    """ln E[e^(tX)], for a t below the rate at which the tail of the noise decays; inf where floats do not reach."""
    z = t * noise.scale
    match noise:
        case Integers() if t > 700:
            return math.inf
        case NumericLaplace():
            return -math.log1p(-z * z)
        case NumericLaplaceSum(count=count):
            return -count * math.log1p(-z * z)
        case NumericExponential():
            return -math.log1p(-z)
        case NumericUniform():
            return (z if z > 0 else 0.0) + math.log(-math.expm1(-abs(z)) / abs(z))
        case NumericNormal():
            return z * z / 2
        case NumericGumbel():
            return math.lgamma(1 - z)
        case NumericLogistic():
            return math.lgamma(1 - z) + math.lgamma(1 + z)
        case NumericGeometric(decay=decay):
            return math.log(math.expm1(decay)) + t - decay - math.log(-math.expm1(t - decay))
        case Integers(law=law) if law.dist.name == "poisson":
            return float(law.mean()) * math.expm1(t)
        case Integers(law=law):
            trials, p = law.args
            return float(trials * math.log1p(p * math.expm1(t)))
    raise NotImplementedError(f"no transform of {noise}")
