"""What samples say about ε = ln(P[left] / P[right]): the estimate, and three intervals for it.

Left and right are sampled with the same noise, so that most of what is random cancels in their ratio. A sample of
either side is a number in [0, 1]: whether the event happened, or its probability where part of the noise is summed
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t

from veridp.budget import Deadline
from veridp.claim import Interval
from veridp.confidence import hoeffding_radius

Array = NDArray[np.float64]
TARGET = 2e-3  # the width of the interval for ε at which sampling stops
FIRST = 2**12  # samples to begin with
VARIANCE_TOLERANCE = 1e-12  # a variance this small, relative to the mean square, is none
FAR = 38.0  # standard deviations past which a normal tail is 0 in floating point


@dataclass(frozen=True)
class SampleMoments:
    """Sums over `count` samples of both sides: of each, of their squares, and of their product."""

    count: int = 0
    left: float = 0.0
    right: float = 0.0
    left_squares: float = 0.0
    right_squares: float = 0.0
    products: float = 0.0

    @classmethod
    def of(cls, left: Array, right: Array) -> SampleMoments:
        """The moments of samples that were drawn with the same noise."""
        # not by `@`: BLAS would start threads for this little
        products = (left * left).sum(), (right * right).sum(), (left * right).sum()
        return cls(len(left), float(left.sum()), float(right.sum()), *map(float, products))

    def __add__(self, other: SampleMoments) -> SampleMoments:
        return SampleMoments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def means(self) -> tuple[float, float]:
        return self.left / self.count, self.right / self.count

    @property
    def variances(self) -> tuple[float, float]:
        """Of a single sample of either side; what rounding alone could make of a constant is 0."""
        return _variance(self.left, self.left_squares, self.count), _variance(
            self.right, self.right_squares, self.count
        )

    @property
    def covariance(self) -> float:
        p, q = self.means
        return self.products / self.count - p * q

    @property
    def correlation(self) -> float:
        """Between the two sides; NaN where one of them does not vary."""
        spread = math.sqrt(math.prod(self.variances))
        return min(max(self.covariance / spread, -1.0), 1.0) if spread else math.nan

    @property
    def epsilon(self) -> float:
        """ln(mean left / mean right): inf where only the right never happened, NaN where neither did."""
        if not self.right:
            return math.inf if self.left else math.nan
        return math.log(self.left / self.right) if self.left else -math.inf


def _variance(total: float, squares: float, count: int) -> float:
    variance = squares / count - (total / count) ** 2
    return variance if variance > VARIANCE_TOLERANCE * squares / count else 0.0


def hoeffding(moments: SampleMoments, alpha: float) -> Interval:
    """An interval that misses ε with probability at most alpha, whatever the distribution.

    Each mean is within Δ = sqrt(ln(2 / (alpha/2)) / 2n) of its expectation but with probability alpha/2 (Hoeffding
    1963), so ε is between ln((p - Δ) / (q + Δ)) and ln((p + Δ) / (q - Δ)).
    """
    radius = hoeffding_radius(moments.count, alpha / 4)
    return _from_sides(moments, radius, radius)


def clt(moments: SampleMoments, alpha: float) -> Interval:
    """An interval that misses ε with probability about alpha, for many samples.

    Each mean is taken as normal: within z_(1 - alpha/4) · σ / sqrt(n) but with probability alpha/2.
    """
    z = float(ndtri(1 - alpha / 4))
    left, right = (z * math.sqrt(variance / moments.count) for variance in moments.variances)
    return _from_sides(moments, left, right)


def _from_sides(moments: SampleMoments, left: float, right: float) -> Interval:
    """The interval for ε where the means are this close to their expectations."""
    p, q = moments.means
    return Interval(_log_ratio(p - left, q + right), _log_ratio(p + left, q - right))


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return -math.inf
    return math.inf if below <= 0 else math.log(above / below)


def multivariate_clt(moments: SampleMoments, alpha: float) -> Interval:
    """An interval that misses ε with probability about alpha, for many samples, and uses how the sides correlate.

    The two means together are taken as normal with the empirical covariance; the ends are the alpha/2 and 1 - alpha/2
    quantiles of the ratio of two such variables (Hinkley 1969), found by root finding.
    """
    p, q = moments.means
    if not p or not q:
        return Interval(-math.inf, math.inf)
    ratio = NormalRatio.of(moments)
    centre = math.log(p / q)
    if not ratio.spread:
        return Interval.exactly(centre)
    ends = [_quantile(ratio, centre, level) for level in (alpha / 2, 1 - alpha / 2)]
    return Interval(min(ends), max(ends))


@dataclass(frozen=True)
class NormalRatio:
    """The distribution of X / Y for a bivariate normal (X, Y): Hinkley, Biometrika 56 (1969), equation 3."""

    means: tuple[float, float]
    deviations: tuple[float, float]
    correlation: float

    @classmethod
    def of(cls, moments: SampleMoments) -> NormalRatio:
        """Of the two means of these samples."""
        left, right = (math.sqrt(variance / moments.count) for variance in moments.variances)
        correlation = moments.correlation
        return cls(moments.means, (left, right), 0.0 if math.isnan(correlation) else correlation)

    @property
    def spread(self) -> float:
        """The standard deviation of ln(X / Y), to first order."""
        left, right = (deviation / mean for deviation, mean in zip(self.deviations, self.means, strict=True))
        return math.sqrt(max(left * left + right * right - 2 * self.correlation * left * right, 0.0))

    def cdf(self, ratio: float) -> float:
        """P[X / Y <= ratio].

        X - ratio·Y and Y are bivariate normal; the ratio is below where the first is <= 0 and Y > 0, or the other way
        round.
        """
        (x, y), (sx, sy) = self.means, self.deviations
        mean, covariance = x - ratio * y, self.correlation * sx * sy - ratio * sy * sy
        deviation = math.sqrt(max(sx * sx - 2 * ratio * self.correlation * sx * sy + (ratio * sy) ** 2, 0.0))
        if not deviation:
            return float(mean <= 0)
        low = -mean / deviation
        if not sy or y > FAR * sy:  # Y < 0 never happens
            return float(ndtr(low))
        between = covariance / (deviation * sy)
        both_negative = bivariate_normal_cdf(low, -y / sy, between)
        return float(ndtr(low) - both_negative + ndtr(-y / sy) - both_negative)


def bivariate_normal_cdf(first: float, second: float, correlation: float) -> float:
    """P[U <= first, V <= second] for standard normal U and V, by Owen's T function (Owen 1956)."""
    rest = math.sqrt(max(1 - correlation * correlation, 0.0))
    if rest < 1e-12:
        low, high = sorted((float(ndtr(first)), float(ndtr(second))))
        return low if correlation > 0 else max(0.0, low + high - 1)
    if not first and not second:
        return 0.25 + math.asin(correlation) / (2 * math.pi)
    apart = first * second < 0 or (first * second == 0 and first + second < 0)
    return float(
        (ndtr(first) + ndtr(second)) / 2
        - _owen(first, second - correlation * first, rest)
        - _owen(second, first - correlation * second, rest)
        - apart / 2
    )


def _owen(edge: float, offset: float, rest: float) -> float:
    """T(edge, offset / (edge · rest)), with its limit at edge = 0."""
    if edge:
        return float(owens_t(edge, offset / (edge * rest)))
    return math.copysign(0.25, offset) if offset else 0.0


def _quantile(ratio: NormalRatio, centre: float, level: float) -> float:
    """The ln of the value below which the ratio lies with this probability."""

    def excess(log: float) -> float:
        return ratio.cdf(math.exp(log)) - level

    low, high, step = centre, centre, 4 * ratio.spread
    while excess(low) > 0:
        low, step = low - step, 2 * step
        if low < centre - FAR:
            return -math.inf
    step = 4 * ratio.spread
    while excess(high) < 0:
        high, step = high + step, 2 * step
        if high > centre + FAR:
            return math.inf
    return low if low == high else float(brentq(excess, low, high, xtol=1e-12))


def adaptive(
    more: Callable[[int], SampleMoments],
    alpha: float,
    most: int,
    target: float = TARGET,
    first: int = FIRST,
    deadline: Deadline | None = None,
) -> SampleMoments:
    """Samples drawn in ever larger lots, until the interval is narrower than the target or there are `most` of them.

    Or until the time is up: then, too, they are independent of what they show.

    `more(count)` draws so many fresh ones. Where the event never happened on both sides, or on the right alone, the
    samples go on only as far as is needed to tell a rare event from one that cannot happen: to `most`, or 16 lots.
    """
    moments = more(min(first, most))
    while moments.count < most and not (deadline is not None and deadline.passed):
        if moments.left and moments.right:
            interval = multivariate_clt(moments, alpha)
            if interval.upper - interval.lower < target:
                break
        elif moments.count >= 16 * first:
            break
        moments += more(min(moments.count, most - moments.count))
    return moments
