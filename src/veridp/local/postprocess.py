"""Steps that make estimates look like frequencies. Each has a name, and the estimate says which it went through.

They cost no privacy. They reduce the error of most values and make the estimate biased; a mean that is computed from a
clipped and normalised histogram is pulled towards the middle of the range.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veridp.errors import BadInput
from veridp.local.oracle import Estimate


def clip(estimate: Estimate) -> Estimate:
    """Negative frequencies set to 0."""
    return estimate.after("clip", np.maximum(estimate.values, 0.0))


def normalise(estimate: Estimate) -> Estimate:
    """All frequencies divided by their sum; negative ones are left as they are, so clip first."""
    total = estimate.values.sum()
    if not total > 0:
        raise BadInput(f"frequencies that sum to {total:g} cannot be normalised; use norm_sub or simplex")
    return estimate.after("normalise", estimate.values / total)


def norm_sub(estimate: Estimate) -> Estimate:
    """The same number taken off all positive frequencies, negative ones set to 0, such that they sum to 1.

    Wang et al., "Locally Differentially Private Frequency Estimation with Consistency" (NDSS 2020). Round by round:
    what is negative becomes 0, what is left is shifted to the right sum.
    """
    values = estimate.values.astype(float)
    positive = np.ones(len(values), dtype=bool)
    while True:
        shifted = np.where(positive, values + (1 - values[positive].sum()) / positive.sum(), 0.0)
        if (shifted >= 0).all():
            return estimate.after("norm-sub", shifted)
        positive &= shifted > 0


def simplex(estimate: Estimate) -> Estimate:
    """The nearest probability vector in Euclidean distance (Held, Wolfe, Crowder 1974), by sorting.

    It is max(0, f - t) for the t that makes the sum 1: the same vector as norm-sub ends at.
    """
    values = np.sort(estimate.values)[::-1]
    shifts = (np.cumsum(values) - 1) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(values > shifts)[-1]
    return estimate.after("simplex", np.maximum(estimate.values - shifts[kept], 0.0))


STEPS: dict[str, Callable[[Estimate], Estimate]] = {
    "clip": clip,
    "normalise": normalise,
    "norm-sub": norm_sub,
    "simplex": simplex,
}


def apply(estimate: Estimate, steps: list[str] | tuple[str, ...]) -> Estimate:
    """The estimate after the steps of these names, in this order."""
    for name in steps:
        if name not in STEPS:
            raise BadInput(f"post-processing step {name!r} is unknown; use {', '.join(STEPS)}")
        estimate = STEPS[name](estimate)
    return estimate
