"""The hypothesis test (Algorithm 2 of Ding et al. 2018): is an event likelier on the left than e^ε times the right?

From n runs on either side, the event happened c1 times on the left and c2 times on the right. Keep each of the c1 with
probability e^-ε: x of them are left. If P[left] = e^ε P[right], x and c2 are counts of equally likely successes, and
Fisher's exact test applies: P[H >= x], H hypergeometric, n of 2n runs among which x + c2 are successes.

The randomness of the thinning is taken out by the exact expectation. Fisher's tail is that of a negative
hypergeometric J that does not depend on x (see `Exceeded`), so the expectation is P[J >= X] with X binomial: one sum of
positive terms. It is added up over a window outside of which at most 2n²e^-80 of it can lie, relatively.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.statdp.distributions import Array, Exceeded, LogConcave, Thinned
from veridp.errors import BadInput

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
    told, places = np.unique(table, axis=1, return_inverse=True)
    open_ = (told[0] > 0) & (told[1] < told[2])  # else the p-value is 1
    answers = np.zeros(told.shape[1])
    if open_.any():
        answers[open_] = _log_expectation(*told[:, open_])
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


def _log_masses(law: LogConcave, values: Array) -> Array:
    """ln P along lines of consecutive values: one mass, near the mode's side of the line, and steps from there."""
    inside = np.clip(values, 0, law.last)
    steps = np.cumsum(law.log_step(np.minimum(inside, np.maximum(law.last - 1, 0)))[:, :-1], axis=1)
    rise = np.concatenate([np.zeros((len(values), 1)), steps], axis=1)
    anchor = np.argmax(np.where(values <= law.last, rise, -math.inf), axis=1)[:, None]
    known = law.log_mass(np.take_along_axis(inside, anchor, axis=1))
    masses = known + (rise - np.take_along_axis(rise, anchor, axis=1))
    return np.where((values >= 0) & (values <= law.last), masses, -math.inf)


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
    # So far a normal law falls; where G falls more slowly, the step is doubled until it has fallen.
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
