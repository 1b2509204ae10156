"""Witnesses from an exact comparison, and with round numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from veridp.adjacency import Pair
from veridp.audit.case import AuditCase
from veridp.budget import Deadline, within
from veridp.budget.alarm import OutOfTime, at_most
from veridp.claim import Claim, Interval, Witness
from veridp.engines.exact import Comparison, compare
from veridp.engines.exact.distribution import replayed_paths
from veridp.engines.exact.event import ExactEvent, NumberSpan
from veridp.errors import VeridpError
from veridp.kernel.path import Path
from veridp.tidy import tidied, tidied_number

# ------------------------------------------------------------------------------------------------------------- exactly
# From an exact comparison to a witness for or against a claim.


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


# ------------------------------------------------------------------------------------------------------------ rounding
# A witness with round numbers: 0 in place of 7.99e-12, where it shows as much.


WEAKER = 1e-9  # by how much ε may fall, relatively, for the sake of round numbers
MOST_SECONDS = 1.0


def rounded_witness(case: AuditCase, witness: Witness) -> Witness:
    """The witness with its inputs and the ends of its event rounded; as it is where that would weaken it.

    Only a computed witness is rounded: its paths are replayed, and its probabilities are enclosed anew.
    """
    if witness.confidence < 1 or not isinstance(witness.event, ExactEvent):
        return witness
    pair = tidied(Pair(witness.left, witness.right, ""), case.mechanism.adjacency, case.mechanism.domain)
    sides, event = (pair.left, pair.right), _rounded_event(witness.event)
    if (*sides, event) == (witness.left, witness.right, witness.event):
        return witness
    try:
        with at_most(MOST_SECONDS):
            left, right = (_probability(replayed_paths(case.mechanism, side), event) for side in sides)
    except (VeridpError, OutOfTime):
        return witness
    found = replace(witness, left=sides[0], right=sides[1], event=event, left_probability=left, right_probability=right)
    found = found.with_error(case.mechanism.probability_error)
    return found if _as_strong(found, witness, case) else witness


def _as_strong(found: Witness, witness: Witness, case: AuditCase) -> bool:
    delta = case.claim.tolerated.delta
    before, after = witness.epsilon(delta).lower, found.epsilon(delta).lower
    if witness.refutes(case.claim) and not found.refutes(case.claim):
        return False
    return after >= before or math.isclose(after, before, rel_tol=WEAKER, abs_tol=WEAKER)


def _probability(paths: Sequence[Path], event: ExactEvent) -> Interval:
    from veridp.engines.exact.certified import enclose  # loads flint: only where needed

    return enclose(paths, event)


def _rounded_event(event: ExactEvent) -> ExactEvent:
    within = tuple(
        (entry, tuple(NumberSpan(tidied_number(span.low), tidied_number(span.high)) for span in spans))
        for entry, spans in event.within
    )
    return replace(event, within=within, either=tuple(map(_rounded_event, event.either)))
