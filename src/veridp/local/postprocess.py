"""Steps that make estimates look like frequencies, and the most likely frequencies, given the reports.

Each step has a name, and the estimate says which it went through. Steps cost no privacy. They reduce the error of most
values and make the estimate biased; a mean that is computed from a clipped and normalised histogram is pulled towards
the middle of the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from veridp.errors import BadInput
from veridp.local.frequency import GRR
from veridp.local.oracle import Counts, Estimate, Floats, PureOracle, Reports


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


# ----------------------------------------------------------------------------------------------------------- likelihood
# The iterative Bayesian update, which is the EM algorithm. Of a pure oracle, the likelihood of a report under a value
# is e^ε times as large if the report supports the value as if it does not. So the log-likelihood of frequencies f is,
# up to a constant, the sum over reports of ln(1 + (e^ε - 1) · what f gives to the values that the report supports),
# which is concave.

MOST_ROUNDS = 20_000
GAP = 1e-7  # nats for each user


def maximum_likelihood(
    oracle: PureOracle, reports: Reports, *, gap: float = GAP, most_rounds: int = MOST_ROUNDS
) -> Estimate:
    """The frequencies under which the reports are most likely, to within `gap` nats of log-likelihood for each user.

    They are not negative and sum to 1. Where the unbiased estimate has both properties and the oracle is GRR, it is
    the same; where it has not, this one is nearer to the truth on average, and biased, so no intervals are given.
    BadInput where `most_rounds` do not suffice. The standard errors are those of the unbiased estimate.
    """
    if not isinstance(oracle, PureOracle):
        raise BadInput(f"{oracle} is not a pure oracle; the likelihood of its reports is not known here")
    unbiased = oracle.estimate(oracle.aggregate(reports))
    supported, counts = np.unique(oracle.support(reports), axis=0, return_counts=True)
    found, reached = _climbed(supported.astype(float), counts / counts.sum(), oracle.epsilon, gap, most_rounds)
    if reached > gap:
        raise BadInput(
            f"after {most_rounds} rounds the likelihood may be {reached:.2g} nats per user short of its maximum; "
            f"give a larger gap or more rounds"
        )
    return unbiased.after("maximum likelihood", found)


def most_likely_counts(oracle: GRR, counts: Counts) -> Estimate:
    """The same for GRR, exactly, and from counts, which say all that its reports do: where the update converges to.

    A value with frequency f is reported with probability q + (p - q)f. At the maximum these probabilities are in
    proportion to the counts, except that those of values with the lowest counts, whose frequency is 0, are q.
    """
    unbiased = oracle.estimate(counts)
    falling = np.sort(counts.sums)[::-1].astype(float)
    kept = np.arange(1, oracle.size + 1)
    scales = (1 - oracle.q * (oracle.size - kept)) / np.cumsum(falling)
    scale = scales[np.flatnonzero(scales * falling > oracle.q)[-1]]
    found = np.maximum(scale * counts.sums - oracle.q, 0.0) / (oracle.p - oracle.q)
    return unbiased.after("maximum likelihood", found)


def _climbed(supported: Floats, shares: Floats, epsilon: float, gap: float, most_rounds: int) -> tuple[Floats, float]:
    """The frequencies, and by how much the mean log-likelihood can still grow, at most.

    It is concave, so it is below its tangent: the gain is at most the largest derivative towards a value, which is the
    factor of the update less 1.
    """
    more = math.expm1(epsilon)
    frequencies = np.full(supported.shape[1], 1 / supported.shape[1])
    for _ in range(most_rounds):
        likelihood = 1 + more * (supported @ frequencies)
        weights = shares / likelihood
        factors = weights.sum() + more * (weights @ supported)
        if factors.max() - 1 <= gap:
            break
        frequencies *= factors
        frequencies /= frequencies.sum()
    return frequencies, float(factors.max()) - 1
