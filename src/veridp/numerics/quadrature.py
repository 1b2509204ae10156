"""Gauss-Legendre quadrature between breakpoints, in logarithms, for many integrals at once.

Between breakpoints the integrands here are analytic, and a panel spans so little of their change that 16 nodes leave
only rounding. All terms are positive, so nothing cancels: the relative error stays near that of the integrand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ORDER = 16
NODES, WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
GROWTH = np.array([1, 2, 3, 4, 6, 8, 11, 14, 18, 23, 29, 36, 45, 60, 80, 110, 150, 200, 280, 400], dtype=float)
WIDER = 1.2  # by what panels grow beyond these
MOST_STEPS = 4000


@dataclass(frozen=True)
class Grid:
    """Points and the logarithms of their weights, a row for each integral."""

    points: Array  # rows x points
    log_weights: Array

    def integrate(self, log_values: Array) -> Array:
        """ln of the integral of each row, from the logarithms of the integrand at the points."""
        return log_sum(log_values + self.log_weights)


def log_sum(log_values: Array) -> Array:
    """ln of the sum of each row of exponentials."""
    if not log_values.shape[-1]:
        return np.full(log_values.shape[:-1], -np.inf)
    top = np.max(log_values, axis=-1, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.sum(np.exp(log_values - shift), axis=-1)) + shift[..., 0]
    return total


def edges(breaks: Array, width: float, tail: float, low: Array, high: Array) -> Array:
    """Panel ends for each row: its breakpoints, steps of at most `width` between them, and tails on either side.

    Rows are cut to [low, high]; panels beyond these ends have no length.
    """
    first, last = breaks.min(axis=1, keepdims=True), breaks.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        steps = float(np.ceil(np.max(last - first) / width)) + 1
    between = first + (last - first) * np.linspace(0.0, 1.0, int(min(MOST_STEPS, steps)) + 1)[1:-1]
    if steps > MOST_STEPS:  # what changes fast does so around breakpoints
        around = np.unique(breaks, axis=1)[:, :, None] + width * np.concatenate([-GROWTH, GROWTH])
        between = np.concatenate([between, np.clip(around.reshape(len(breaks), -1), first, last)], axis=1)
    reach = np.minimum(GROWTH * width, tail)
    reach = reach[: int(np.searchsorted(reach, tail)) + 1]
    if reach[-1] < tail:  # so far out only noise of a larger scale is left: panels grow with the distance
        count = int(np.ceil(np.log(tail / reach[-1]) / np.log(WIDER)))
        reach = np.concatenate([reach, np.minimum(reach[-1] * WIDER ** np.arange(1.0, count + 1), tail)])
    ends = np.concatenate([breaks, between, first - reach, last + reach], axis=1)
    return np.sort(np.clip(ends, low[:, None], high[:, None]), axis=1)


def panels(ends: Array) -> Grid:
    """The grid on panels with these ends, a row of ends for each integral."""
    if ends.shape[0] == 1:  # the common case: panels without length are left out
        ends = ends[:, np.concatenate([[True], np.diff(ends[0]) > 0])]
    half = np.diff(ends, axis=1)[:, :, None] / 2
    centre = (ends[:, :-1, None] + ends[:, 1:, None]) / 2
    rows = len(ends)
    with np.errstate(divide="ignore"):
        log_weights = np.log(half) + np.log(WEIGHTS)
    return Grid((centre + half * NODES).reshape(rows, -1), log_weights.reshape(rows, -1))


def whole_numbers(low: Array, high: Array) -> Grid:
    """The grid of the integers from low to high, each of weight 1."""
    count = int(np.max(high - low)) + 1 if len(low) else 0
    points = low[:, None] + np.arange(max(count, 0))
    return Grid(points, np.where(points <= high[:, None], 0.0, -np.inf))


def range_sums(log_values: Array, first: NDArray[np.intp], stop: NDArray[np.intp]) -> Array:
    """ln of the sum of exponentials from `first` up to `stop`, for each of the ranges.

    The values are one row for all ranges, or a row for each. Sums from either end are accumulated, so that nothing is
    ever subtracted; a range inside is summed on its own.
    """
    count = log_values.shape[1]
    if len(log_values) > 1:
        place = np.arange(count)
        inside = (place >= first[:, None]) & (place < stop[:, None])
        return log_sum(np.where(inside, log_values, -np.inf))
    values = log_values[0]
    from_left = np.concatenate([[-np.inf], np.logaddexp.accumulate(values)])
    from_right = np.concatenate([np.logaddexp.accumulate(values[::-1])[::-1], [-np.inf]])
    answer = np.where(first == 0, from_left[stop], from_right[first])
    for index in np.flatnonzero((first > 0) & (stop < count)):
        answer[index] = log_sum(values[None, first[index] : stop[index]])[0]
    return answer
