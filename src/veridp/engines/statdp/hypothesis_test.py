"""The hypothesis test (Algorithm 2 of Ding et al. 2018), and the two distributions that it needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput

# ------------------------------------------------------------------------------------------------------- distributions
# The two distributions of the hypothesis test, in logarithms, for many parameters at once: a row of an array each.
#
# Log-probabilities are Loader's ("Fast and Accurate Computation of Binomial Probabilities", 2000): differences of large
# logarithms of factorials, which lose digits as the counts grow, do not occur.


Array = NDArray[np.float64]
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
SURE = -80.0  # the logarithm of what is taken for 1 - e^-ε at ε = 0: e^-80 is nothing beside 1


class LogConcave(ABC):
    """A log-concave distribution on 0..last."""

    def rows(self, rows: NDArray[np.intp]) -> Self:
        """The distributions of these rows alone."""
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
    x + `count` are successes, is P[this >= x], since one more success changes the tail by one mass of this.
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


# ----------------------------------------------------------------------------------------------------- hypothesis test
# The hypothesis test (Algorithm 2 of Ding et al. 2018): is an event likelier on the left than e^ε times the right?
#
# From n runs on either side, the event happened c1 times on the left and c2 times on the right. Keep each of the c1
# with probability e^-ε: x of them are left. If P[left] = e^ε P[right], x and c2 are counts of equally likely successes,
# and Fisher's exact test applies: P[H >= x], H hypergeometric, n of 2n runs among which x + c2 are successes.
#
# The randomness of the thinning is taken out by the exact expectation. Fisher's tail is that of a negative
# hypergeometric J that does not depend on x (see `Exceeded`), so the expectation is P[J >= X] with X binomial: one sum
# of positive terms. It is added up over a window outside of which at most 2n²e^-80 of it can lie, relatively.


NEGLIGIBLE = 80.0  # ln of how much smaller than the largest term a term is that is left out
CELLS = 2**19  # how many terms are added at once
MOST_RUNS = 2**52  # counts have to be exact as floats


def p_values(left: Any, right: Any, runs: Any, epsilon: Any) -> NDArray[np.float64]:
    """The expected p-value of Algorithm 2 against P[left] <= e^ε P[right], for counts of `runs` runs on either side.

    Takes numbers or arrays that broadcast: many events and many ε at once. For the other direction exchange the counts.

    The mean of p-values is not a p-value itself: if the hypothesis is true, it is <= t with probability at most 2t
    (Rüschendorf 1982; Meng 1994). Twice this number is a p-value, whatever the probabilities are.

    >>> round(float(p_values(300, 200, 1000, 0.2)), 4)
    0.0118
    """
    return np.exp(log_p_values(left, right, runs, epsilon))


def log_p_values(left: Any, right: Any, runs: Any, epsilon: Any) -> NDArray[np.float64]:
    """The natural logarithms of `p_values`, also of those too small for a float."""
    c1, c2, n, level = (
        np.asarray(value, dtype=np.float64) for value in np.broadcast_arrays(left, right, runs, epsilon)
    )
    _check(c1, c2, n, level)
    shape = c1.shape
    table = np.stack([c1.ravel(), c2.ravel(), n.ravel(), level.ravel()])
    distinct, places = np.unique(table, axis=1, return_inverse=True)
    open_ = (distinct[0] > 0) & (distinct[1] < distinct[2])  # else the p-value is 1
    answers = np.zeros(distinct.shape[1])
    if open_.any():
        answers[open_] = _log_expectation(*distinct[:, open_])
    return answers[places.reshape(-1)].reshape(shape)


def _check(left: Array, right: Array, runs: Array, epsilon: Array) -> None:
    counts = np.stack(np.broadcast_arrays(left, right, runs)) if left.size else np.zeros((3, 0))
    if not np.all((counts == np.floor(counts)) & (counts >= 0) & (counts <= np.minimum(counts[2], MOST_RUNS))):
        raise BadInput("counts must be integers with 0 <= count <= runs, the same number of runs on either side")
    if not np.all((epsilon >= 0) & np.isfinite(epsilon)):
        raise BadInput("a test ε must be a finite number >= 0")


def _log_expectation(left: Array, right: Array, runs: Array, epsilon: Array) -> Array:
    """ln P[J >= X]; where that is most of the probability, from its complement P[X >= J + 1]."""
    thinned, exceeded = Thinned(left, epsilon), Exceeded(right, runs)
    answers = np.zeros(len(left))
    rare = thinned.mode > exceeded.mode
    if rare.any():
        chosen = np.flatnonzero(rare)
        x, j = thinned.rows(chosen), exceeded.rows(chosen)
        answers[chosen] = _log_reaches(j, x, 0)
    if not rare.all():
        chosen = np.flatnonzero(~rare)
        x, j = thinned.rows(chosen), exceeded.rows(chosen)
        complement = np.minimum(_log_reaches(x, j, 1), 0.0)
        with np.errstate(divide="ignore"):
            answers[chosen] = np.where(complement > -0.5, np.log(-np.expm1(complement)), np.log1p(-np.exp(complement)))
    return np.minimum(answers, 0.0)


def _log_reaches(upper: LogConcave, lower: LogConcave, ahead: int) -> Array:
    """ln P[upper >= lower + ahead], where the mode of the lower is not below that of the upper."""
    low, high = _window(upper, lower, ahead)
    answers = np.full(len(low), -math.inf)
    for rows in _batches(low, high):
        width = int((high[rows] - low[rows]).max()) + 1
        start = low[rows][:, None]
        values = start + np.arange(width, dtype=np.float64)
        masses = _log_masses(upper.rows(rows).lines(), values + ahead)
        reached = np.logaddexp.accumulate(_log_masses(lower.rows(rows).lines(), values), axis=1)
        terms = np.where(values <= high[rows][:, None], masses + reached, -math.inf)
        top = terms.max(axis=1)
        scale = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            answers[rows] = scale + np.log(np.exp(terms - scale[:, None]).sum(axis=1))
    return answers


def _log_masses(distribution: LogConcave, values: Array) -> Array:
    """ln P along lines of consecutive values: one mass, near the mode's side of the line, and steps from there."""
    inside = np.clip(values, 0, distribution.last)
    steps = np.cumsum(distribution.log_step(np.minimum(inside, np.maximum(distribution.last - 1, 0)))[:, :-1], axis=1)
    rise = np.concatenate([np.zeros((len(values), 1)), steps], axis=1)
    anchor = np.argmax(np.where(values <= distribution.last, rise, -math.inf), axis=1)[:, None]
    known = distribution.log_mass(np.take_along_axis(inside, anchor, axis=1))
    masses = known + (rise - np.take_along_axis(rise, anchor, axis=1))
    return np.where((values >= 0) & (values <= distribution.last), masses, -math.inf)


# ---------------------------------------------------------------------------------------------------------- windows


def _window(upper: LogConcave, lower: LogConcave, ahead: int) -> tuple[Array, Array]:
    """For each row the range of values y whose terms P[upper = y + ahead] P[lower <= y] are not negligible.

    Let G(y) = ln P[upper = max(y + ahead, its mode)] + ln P[lower = min(y, its mode)]. G is concave; the probability
    sought is at least e^G(y) for each y, and the terms before or past y together are at most n² e^G(y).
    """
    highest, lowest = upper.mode, lower.mode
    least, most = np.zeros(len(lowest)), upper.last - ahead

    def bound(y: Array) -> Array:
        above = upper.log_mass(np.minimum(np.maximum(y + ahead, highest), upper.last))
        return above + lower.log_mass(np.minimum(y, lowest))

    def falls(y: Array) -> NDArray[np.bool_]:
        rise = np.where(y + ahead >= highest, upper.log_step(np.minimum(y + ahead, upper.last)), 0.0)
        return rise + np.where(y < lowest, lower.log_step(np.minimum(y, lower.last)), 0.0) <= 0

    peak = _first(falls, least, most)
    floor = bound(peak) - NEGLIGIBLE
    # So far a normal distribution falls; where G falls more slowly, the step is doubled until it has fallen.
    step = math.sqrt(2 * NEGLIGIBLE) * np.maximum(upper.spread, lower.spread) + NEGLIGIBLE

    def fallen(towards: int, end: Array) -> Array:
        width = step
        while True:
            reached = np.clip(np.floor(peak + towards * width), least, most)
            short = (bound(reached) > floor) & (reached != end)
            if not short.any():
                return reached
            width = np.where(short, 2 * width, width)

    return fallen(-1, least), fallen(1, np.maximum(most, least))


def _first(holds: Any, low: Array, high: Array) -> Array:
    """For each row the first whole number in low..high from which the condition holds, `high` if it never does."""
    low, high = low.copy(), np.maximum(high, low)
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        yes = holds(middle)
        high = np.where(yes, middle, high)
        low = np.where(yes, low, np.minimum(middle + 1, high))
    return high


def _batches(low: Array, high: Array) -> Iterator[NDArray[np.intp]]:
    """The rows in batches of windows that are alike in width."""
    widths = high - low + 1
    order = np.argsort(widths)
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and widths[order[end]] * (end + 1 - start) <= CELLS:
            if widths[order[end]] > 2 * widths[order[start]] + 64:
                break
            end += 1
        yield order[start:end]
        start = end
