"""From an exact comparison to a witness for or against a claim."""

from __future__ import annotations

from veridp.budget import Deadline, within
from veridp.claim import Claim, Interval, Witness
from veridp.errors import VeridpError
from veridp.exact import Comparison, compare
from veridp.exact.at_delta import witness_above

ROUNDING = 1e-10  # relative width that is allowed to computed probabilities for their rounding


def exact_witness(comparison: Comparison, claim: Claim) -> Witness:
    """The witness of the comparison, its probabilities widened by what rounding may have done to them.

    For a claim with δ it is the event that attains δ(ε) at the claimed ε, where its probability can be computed.
    """
    witness = comparison.witness
    if claim.delta:
        witness = witness_above(comparison, claim.epsilon) or witness
    return Witness(
        witness.left,
        witness.right,
        witness.event,
        _widened(witness.left_probability),
        _widened(witness.right_probability),
        arguments=witness.arguments,
    )


def _widened(probability: Interval) -> Interval:
    return Interval(probability.lower * (1 - ROUNDING), min(1.0, probability.upper * (1 + ROUNDING)))


def certified_witness(comparison: Comparison, claim: Claim, deadline: Deadline) -> Witness | None:
    """The witness enclosed in interval arithmetic, if that is within reach and refutes the claim too."""
    try:
        with within(deadline.part(0.5)):
            enclosed = compare(comparison.mechanism, comparison.left, comparison.right, certified=True)
            witness = enclosed.witness
    except VeridpError:
        return None
    return witness if witness.refutes(claim) else None
