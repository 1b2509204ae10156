"""A witness with round numbers: 0 in place of 7.99e-12, where it shows as much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from veridp.adjacency import Pair
from veridp.audit.case import AuditCase
from veridp.budget.alarm import OutOfTime, at_most
from veridp.claim import Interval, Witness
from veridp.engines.exact.event import ExactEvent, NumberSpan
from veridp.engines.exact.paths import replayed_paths
from veridp.errors import VeridpError
from veridp.kernel.path import Path
from veridp.tidy import tidied, tidied_number

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
