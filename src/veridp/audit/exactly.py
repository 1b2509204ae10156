"""From an exact comparison to a witness for or against a claim."""

from __future__ import annotations

from veridp.budget import Deadline
from veridp.claim import Claim, Witness
from veridp.errors import VeridpError
from veridp.exact import Comparison, compare
from veridp.exact.at_delta import witness_above
from veridp.program.limit import OutOfTime, at_most


def exact_witness(comparison: Comparison, claim: Claim) -> Witness:
    """The witness of the comparison.

    For a claim with δ it is the event that attains δ(ε) at the claimed ε, where its probability can be computed.
    """
    above = witness_above(comparison, claim.tolerated.epsilon) if claim.delta else None
    return comparison.witness if above is None else above


def certified_witness(comparison: Comparison, claim: Claim, deadline: Deadline) -> Witness | None:
    """The witness enclosed in interval arithmetic, if that is within reach and refutes the claim too."""
    try:
        with at_most(max(deadline.left / 2, 1e-3)):
            enclosed = compare(comparison.mechanism, comparison.left, comparison.right, certified=True)
            witness = enclosed.witness
    except (VeridpError, OutOfTime):
        return None
    return witness if witness.refutes(claim) else None
