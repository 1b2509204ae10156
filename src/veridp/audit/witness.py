"""Witnesses from an exact comparison: with round numbers, and held against samples."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from veridp.adjacency import Pair
from veridp.audit.case import AuditCase
from veridp.budget import Deadline, OutOfTime, at_most, check, within
from veridp.claim import Claim, Interval, RenyiLower, Witness
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper
from veridp.engines.exact import Comparison, compare
from veridp.engines.exact.distribution import replayed_paths
from veridp.engines.exact.event import ExactEvent, NumberSpan
from veridp.errors import CutShort, EnginesDisagree, Nondeterministic, NotExact, VeridpError
from veridp.kernel.path import Path
from veridp.sampling.sample import sample
from veridp.tidy import tidied, tidied_number

# ------------------------------------------------------------------------------------------------------------- exactly
# From an exact comparison to a witness for or against a claim.


DIVERGENCE_ERROR = 1e-9  # relative, allowed to a divergence that was computed in floats
ORDERS = (2.0, 1.0001, 1.01, 1.25, 1.5, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0)  # tried where a claim names none
USUAL_PAIRS = 40  # of the adjacency, whose classes of outputs are looked at where the worst pair rests on rounding


def exact_witness(comparison: Comparison, claim: Claim) -> Witness:
    """The witness of the comparison.

    For a claim with δ, or where the largest loss is shown only by events too rare for a float, it is the event that
    attains δ(ε) at the claimed ε, if its probability can be computed; of the ε that a claim implies, the first at which
    it refutes the claim.
    """
    witness = comparison.witness
    if claim.delta or not witness.refutes(claim):
        points = claim.tolerated.implied
        witness = comparison.witness_above(points[0].epsilon) or witness
        for point in points[1:]:
            other = None if witness.refutes(claim) else comparison.witness_above(point.epsilon)
            witness = other if other is not None and other.refutes(claim) else witness
        if claim.delta and not witness.refutes(claim):  # nothing does: what shows most of the ε at this δ
            witness = comparison.witness_above(comparison.epsilon_at(points[0].delta)) or witness
    if claim.notion is not None and not witness.refutes(claim):
        witness = replace(witness, divergence=_divergence_above(comparison, claim))
    return witness


def _divergence_above(comparison: Comparison, claim: Claim) -> RenyiLower | None:
    """A Rényi divergence between the inputs that exceeds the claim, at one of the orders that it bounds; else None."""
    notion, error = claim.tolerated.notion, comparison.mechanism.probability_error
    if notion is None or error:
        return None
    orders = notion.orders or ORDERS
    for order, most in zip(orders, notion.divergences(np.array(orders)).tolist(), strict=True):
        if math.isfinite(most):
            try:
                found = comparison.renyi(order) * (1 - DIVERGENCE_ERROR)
            except NotExact:
                return None
            if found > most:
                return RenyiLower(order, found)
    return None


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
    shown = witness.epsilon(claim.delta).lower  # -inf for an event that may refute a notion, but is too rare to see
    return witness if witness.refutes(claim) and shown > -math.inf else None


# ------------------------------------------------------------------------------------------------------------ rounding
# A witness with round numbers: 0 in place of 7.99e-12, where it shows as much.


WEAKER = 1e-9  # by how much ε may fall, relatively, for the sake of round numbers
MOST_SECONDS = 1.0


def rounded_witness(case: AuditCase, witness: Witness) -> Witness:
    """The witness with its inputs and the ends of its event rounded; unchanged where that would weaken it.

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


# ------------------------------------------------------------------------------------------------------------- samples
# A computed witness is held against plain outputs: its event as it is stated, not only as the engine meant it.


CHECKED_OUTPUTS = 1000  # of either input
CHECKED_BLOCK = 50  # outputs at a time, so that a slow mechanism is checked on some
FALSE_ALARM = 1e-9  # how often a right witness is contradicted


def check_on_samples(case: AuditCase, witness: Witness) -> None:
    """Raises EnginesDisagree where plain outputs contradict the probabilities of a computed witness.

    It claims nothing, and spends nothing of alpha. A slow mechanism is checked on fewer outputs.
    """
    if witness.confidence < 1 or not isinstance(witness.event, ExactEvent):
        return
    sides = ((witness.left, witness.left_probability), (witness.right, witness.right_probability))
    for place, (data, probability) in enumerate(sides):
        seen = total = 0
        try:
            with at_most(MOST_SECONDS):
                while total < CHECKED_OUTPUTS:
                    count = min(max(total, CHECKED_BLOCK), CHECKED_OUTPUTS - total)
                    outputs = sample(case.mechanism, data, count, case.seed_of(20 + place) + total, workers=1)
                    seen, total = seen + witness.event.count(outputs), total + count
        except (VeridpError, OutOfTime):
            pass  # what was drawn before counts
        if contradiction := _contradiction(seen, total, probability):
            raise EnginesDisagree(
                f"{case.mechanism.name}: on {data!r}, {witness.event} has probability {probability} by computation, "
                f"but {contradiction}; one of the engines is wrong. Please report it with the mechanism's code"
            )


def _contradiction(seen: int, total: int, probability: Interval) -> str:
    """In words, how outputs rule such a probability of an event out; empty where they do not."""
    least, most = 0.0, 1.0
    if total:
        least = float(clopper_pearson_lower(seen, total, FALSE_ALARM))
        most = float(clopper_pearson_upper(seen, total, FALSE_ALARM))
    ruled_out = most < probability.lower or probability.upper < least
    return f"{seen} of {total} outputs are in it" if ruled_out else ""


FIRST_RUNS = 100  # of either input, each in a process of its own
LEAST_FIRST_RUNS = 25  # fewer of them confirm nothing


def check_on_first_runs(case: AuditCase, witness: Witness, reason: str) -> None:
    """Raises Nondeterministic unless the first runs of fresh processes agree with a sampled witness.

    It is for a mechanism that keeps state: its runs depend on each other, so what many runs in one process show may
    be the state alone. To be called in a process in which the mechanism has not run yet.
    """
    seen, total = [0, 0], 0
    sides = (witness.left, witness.right)
    with suppress(CutShort, OutOfTime):  # what was run before counts
        for run in range(FIRST_RUNS):
            for place, data in enumerate(sides):
                check()
                seen[place] += _in_first_run(case, witness, data, case.seed_of(22 + place) + run)
            total += 1
    if total < LEAST_FIRST_RUNS:
        raise Nondeterministic(f"{reason}; only {total} runs could start afresh, too few to judge it by")
    for place, probability in enumerate((witness.left_probability, witness.right_probability)):
        if contradiction := _contradiction(seen[place], total, probability):
            raise Nondeterministic(
                f"{reason}. On {sides[place]!r}, {witness.event} has probability {probability} in runs that follow "
                f"each other, but {contradiction} if each run starts afresh"
            )


def _in_first_run(case: AuditCase, witness: Witness, data: object, seed: int) -> bool:
    """Whether the output of one run, in a process of its own, is in the event of the witness."""
    event: Any = witness.event
    child = os.fork()
    if not child:
        status = 2
        with suppress(BaseException):
            status = int(event.count(sample(case.mechanism, data, 1, seed, reading="one-by-one", workers=1)))
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
