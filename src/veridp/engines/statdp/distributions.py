"""The two laws of the hypothesis test, in logarithms, for many parameters at once: a row of an array each.

Log-probabilities are Loader's ("Fast and Accurate Computation of Binomial Probabilities", 2000): differences of large
logarithms of factorials, which lose digits as the counts grow, do not occur.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
SURE = -80.0  # the logarithm of what is taken for 1 - e^-ε at ε = 0: e^-80 is nothing beside 1


class LogConcave(ABC):
    """A log-concave law on 0..last."""

    def rows(self, rows: NDArray[np.intp]) -> Self:
        """The laws of these rows alone."""
        return type(self)(*(part[rows] for part in vars(self).values()))

    def lines(self) -> Self:
        """The same, to be used with a line of values for each row."""
        return type(self)(*(part[:, None] for part in vars(self).values()))

    @property
    @abstractmethod
    def last(self) -> Array:
        """The largest value that is possible."""

    @property
    @abstractmethod
    def mode(self) -> Array:
        """A value of largest probability."""

    @property
    @abstractmethod
    def spread(self) -> Array:
        """Its standard deviation, roughly."""

    @abstractmethod
    def log_mass(self, value: Array) -> Array:
        """ln P[value]; the values lie in 0..last."""

    @abstractmethod
    def log_step(self, value: Array) -> Array:
        """ln P[value + 1] - ln P[value]; -inf at `last`."""


@dataclass(frozen=True)
class Thinned(LogConcave):
    """Binomial(count, e^-ε): what thinning leaves of a count."""

    count: Array
    epsilon: Array

    @property
    def last(self) -> Array:
        return self.count

    @property
    def _log_odds(self) -> Array:
        return -self.epsilon - self._log_lost

    @property
    def _log_lost(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(-np.expm1(-self.epsilon)), SURE)

    @property
    def mode(self) -> Array:
        return np.clip(np.floor((self.count + 1) * np.exp(-self.epsilon)), 0, self.count)

    @property
    def spread(self) -> Array:
        return np.sqrt(self.count * np.exp(-self.epsilon) * -np.expm1(-self.epsilon))

    def log_mass(self, value: Array) -> Array:
        return _log_binomial(value, self.count, -self.epsilon, self._log_lost)

    def log_step(self, value: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log((self.count - value) / (value + 1)) + self._log_odds


@dataclass(frozen=True)
class Exceeded(LogConcave):
    """Of `total` left and `total` right runs in random order, how many left ones come before right one `count` + 1.

    Negative hypergeometric. Its tail is Fisher's: P[H >= x] for H hypergeometric, `total` of 2 `total` runs among which
    x + `count` are successes, is P[this >= x], since adding a success changes the tail by one mass of this law.
    """

    count: Array  # below total
    total: Array

    @property
    def last(self) -> Array:
        return self.total

    @property
    def mode(self) -> Array:
        turn = ((self.count - 1) * self.total + self.count + 1) / np.maximum(self.total - 1, 0.5)
        return np.asarray(np.clip(np.floor(turn) + 1, 0, self.total))

    @property
    def spread(self) -> Array:
        return np.sqrt(2 * (self.count + 1) * (1 - self.count / self.total))

    def log_mass(self, value: Array) -> Array:
        half = np.full_like(value, -math.log(2))
        before = _log_binomial(value, value + self.count, half, half)
        after = _log_binomial(self.total - value, 2 * self.total - value - self.count - 1, half, half)
        # ln P[Binomial(2n, 1/2) = n], from Stirling's formula: nothing deviates
        middle = _stirling_rest(2 * self.total) - 2 * _stirling_rest(self.total) - 0.5 * np.log(math.pi * self.total)
        return before + after - middle - math.log(2)

    def log_step(self, value: Array) -> Array:
        with np.errstate(divide="ignore"):
            rise = (value + self.count + 1) / (value + 1)
            fall = (self.total - value) / (2 * self.total - value - self.count - 1)
            return np.asarray(np.log(rise * fall))


def _log_binomial(value: Array, trials: Array, log_chance: Array, log_other: Array) -> Array:
    """ln P[Binomial(trials, p) = value] for p and 1 - p given by their logarithms."""
    inner = (value > 0) & (value < trials)
    k, n = np.where(inner, value, 1.0), np.where(inner, trials, 2.0)
    chance, other = np.exp(log_chance), np.exp(log_other)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        saddle = _stirling_rest(n) - _stirling_rest(k) - _stirling_rest(n - k)
        saddle = saddle - _deviance(k, n * chance) - _deviance(n - k, n * other)
        saddle = saddle + 0.5 * np.log(n / (k * (n - k))) - HALF_LOG_2PI
        ends = np.where(value > 0, value * log_chance, trials * log_other)
    return np.where(inner, saddle, ends)


def _deviance(value: Array, mean: Array) -> Array:
    """value ln(value / mean) + mean - value, without cancellation where the two are close."""
    off = (value - mean) / mean
    near = np.abs(off) < 0.03
    u = np.where(near, off, 0.0)
    # (1+u) ln(1+u) - u = Σ (-u)^k / (k (k-1)), k >= 2
    series = np.zeros_like(u)
    for k in range(11, 1, -1):
        series = series * -u + 1 / (k * (k - 1))
    return np.where(near, mean * series * u * u, value * np.log(value / mean) + mean - value)


def _stirling_rest(value: Array) -> Array:
    """ln(value!) - ln(√(2π value) (value/e)^value)."""
    from scipy.special import gammaln

    large = np.maximum(value, 16.0)
    square = 1 / (large * large)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / large
    if np.all(value >= 16):
        return series
    small = gammaln(value + 1) - (value + 0.5) * np.log(value) + value - HALF_LOG_2PI
    return np.where(value >= 16, series, small)
