"""From an exact comparison to a witness for or against a claim."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from veridp.audit.case import AuditCase
from veridp.budget import Deadline, within
from veridp.claim import Claim, Witness
from veridp.engines.exact import Comparison, compare
from veridp.errors import VeridpError

USUAL_PAIRS = 40  # of the adjacency, whose classes of outputs are looked at where the worst pair rests on rounding


def exact_witness(comparison: Comparison, claim: Claim) -> Witness:
    """The witness of the comparison.

    For a claim with δ, or where the largest loss is shown only by events too rare for a float, it is the event that
    attains δ(ε) at the claimed ε, if its probability can be computed.
    """
    witness = comparison.witness
    if claim.delta or not witness.refutes(claim):
        witness = comparison.witness_above(claim.tolerated.epsilon) or witness
    return witness


def class_witnesses(case: AuditCase, comparison: Comparison, deadline: Deadline) -> Iterator[Witness]:
    """The classes of outputs as events in both directions, of the comparison and of the adjacency's own pairs.

    Time may end the list early.
    """
    pairs = case.mechanism.adjacency.pairs(case.size, case.mechanism.domain)
    usual = ((pair.left, pair.right) for pair in itertools.islice(pairs, USUAL_PAIRS))
    for left, right in itertools.chain([(comparison.left, comparison.right)], usual):
        try:
            with within(deadline.part(0.5)):
                yield from list(compare(case.mechanism, left, right).class_witnesses())
        except VeridpError:
            return


def certified_witness(comparison: Comparison, claim: Claim, deadline: Deadline) -> Witness | None:
    """The witness enclosed in interval arithmetic, if that is within reach and refutes the claim too."""
    try:
        with within(deadline.part(0.5)):
            enclosed = compare(comparison.mechanism, comparison.left, comparison.right, certified=True)
            witness = enclosed.witness
    except VeridpError:
        return None
    return witness if witness.refutes(claim) else None
