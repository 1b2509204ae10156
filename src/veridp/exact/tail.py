"""The supremum of a loss along a tail, from its values at a few points far out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
STEADY = 0.75  # steps of the loss that shrink by less than this, where the distance doubles, do not come to an end
HALVING = (0.35, 0.65)  # by what such steps shrink where the loss is a series in 1/distance
LEAST_STEP = 1e-11  # a smaller change of the loss is rounding
DIGITS = 11  # of a limit that is extrapolated


def rises_without_bound(losses: Sequence[float] | Array) -> bool:
    """Whether a loss, at distances that double, has no upper bound in sight.

    Along the tails of sums of the noise here, a loss is a polynomial or a logarithm of the distance, or a limit plus a
    series in 1/distance, up to what decays exponentially. Where the distance doubles, its steps then double, stay
    the same, or halve.
    """
    steps = np.diff(np.asarray(losses, dtype=float))[-3:]
    return bool(len(steps) == 3 and np.all(steps > LEAST_STEP) and np.all(steps[1:] > STEADY * steps[:-1]))


def limit(losses: Sequence[float] | Array) -> float:
    """What the loss tends to, at distances that double; -inf where the values do not show it."""
    row = np.asarray(losses, dtype=float)
    if len(row) < 4 or not np.all(np.isfinite(row)):
        return -math.inf
    steps = np.diff(row)[-3:]
    if np.max(np.abs(steps[-2:])) <= LEAST_STEP:
        return float(row[-1])
    if not np.all(np.abs(steps) > LEAST_STEP):
        return -math.inf
    shrunk = steps[1:] / steps[:-1]
    if not np.all((shrunk > HALVING[0]) & (shrunk < HALVING[1])):
        return -math.inf
    before = row
    for order in range(1, len(row)):  # Richardson: the term of this order in 1/distance cancels
        power = 2.0**order
        row, before = (power * row[1:] - row[:-1]) / (power - 1), row
    if abs(row[-1] - before[-1]) > 1e-6 * (1 + abs(row[-1])):
        return -math.inf
    return float(f"{row[-1]:.{DIGITS}g}")
