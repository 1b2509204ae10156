"""From an exact comparison to what it says about a claim."""

from __future__ import annotations

import math

from veridp.budget import Deadline
from veridp.claim import Claim, Interval, Witness
from veridp.errors import NotExact, VeridpError
from veridp.exact import Comparison, compare
from veridp.program.limit import OutOfTime, at_most

ROUNDING = 1e-10  # relative width that is allowed to computed probabilities for their rounding
STEPS = 60  # of a bisection: the answer to within 2^-60 of the first interval


def exact_epsilon(comparison: Comparison, claim: Claim) -> float:
    """The least ε that holds between the two inputs at the claimed δ, from below."""
    if not claim.delta:
        return comparison.epsilon
    low, high = 0.0, min(comparison.epsilon, 700.0)
    if comparison.delta_bounds(low).lower <= claim.delta:
        return 0.0
    if math.isinf(comparison.epsilon) and comparison.delta_bounds(high).lower > claim.delta:
        return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if comparison.delta_bounds(middle).lower > claim.delta else (low, middle)
    return low


def exact_witness(comparison: Comparison, claim: Claim) -> Witness:
    """The witness of the comparison, its probabilities widened by what rounding may have done to them.

    For a claim with δ it is the event that attains δ(ε) at the claimed ε, where its probability can be computed.
    """
    witness = comparison.witness
    if claim.delta:
        witness = _delta_witness(comparison, claim) or witness
    return Witness(
        witness.left,
        witness.right,
        witness.event,
        _widened(witness.left_probability),
        _widened(witness.right_probability),
        arguments=witness.arguments,
    )


def _delta_witness(comparison: Comparison, claim: Claim) -> Witness | None:
    forward, backward = comparison.loss, comparison.loss.reversed
    turned = backward.delta(claim.epsilon).lower > forward.delta(claim.epsilon).lower
    loss = backward if turned else forward
    try:
        left, right = loss.above(claim.epsilon)
        parts = loss.where_above(claim.epsilon)
    except NotExact:
        return None
    inputs = (comparison.right, comparison.left) if turned else (comparison.left, comparison.right)
    event = parts[0] if len(parts) == 1 else type(parts[0])(either=tuple(parts)) if parts else comparison.witness.event
    return Witness(
        *inputs, event, Interval.exactly(left), Interval.exactly(right), arguments=dict(comparison.mechanism.arguments)
    )


def _widened(probability: Interval) -> Interval:
    return Interval(probability.lower * (1 - ROUNDING), min(1.0, probability.upper * (1 + ROUNDING)))


def certified_witness(comparison: Comparison, claim: Claim, deadline: Deadline) -> Witness | None:
    """The witness enclosed in interval arithmetic, if that is within reach and refutes the claim too."""
    try:
        with at_most(max(deadline.left / 2, 1e-3)):
            enclosed = compare(comparison.mechanism, comparison.left, comparison.right, certified=True)
            witness = enclosed.witness
    except (VeridpError, OutOfTime):
        return None
    return witness if witness.refutes(claim) else None
