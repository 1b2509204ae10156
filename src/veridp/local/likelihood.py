"""The most likely frequencies, given the reports: the iterative Bayesian update, which is the EM algorithm.

Of a pure oracle, the likelihood of a report under a value is e^ε times as large if the report supports the value as if
it does not. So the log-likelihood of frequencies f is, up to a constant, the sum over reports of
ln(1 + (e^ε - 1) · what f gives to the values that the report supports), which is concave.
"""

from __future__ import annotations

import math

import numpy as np

from veridp.errors import BadInput
from veridp.local.oracle import Estimate, Floats, PureOracle, Reports

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
