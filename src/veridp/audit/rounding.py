"""A witness with round numbers: 0 in place of 7.99e-12, where it shows as much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from veridp.audit.case import Case
from veridp.claim import Interval, Witness
from veridp.errors import VeridpError
from veridp.exact.event import Event, Span
from veridp.exact.paths import replayed_paths
from veridp.program.limit import OutOfTime, at_most
from veridp.program.path import Path

DECIMALS, DIGITS = 9, 10
WEAKER = 1e-9  # by how much ε may fall, relatively, for the sake of round numbers
MOST_SECONDS = 1.0


def rounded_witness(case: Case, witness: Witness) -> Witness:
    """The witness with its inputs and the ends of its event rounded; as it is where that would weaken it.

    Only a computed witness is rounded: its paths are replayed, and its probabilities are enclosed anew.
    """
    if witness.confidence < 1 or not isinstance(witness.event, Event):
        return witness
    sides, event = (_rounded(witness.left), _rounded(witness.right)), _rounded_event(witness.event)
    if not all(_in_domain(case, side) for side in sides) or not case.mechanism.adjacency.adjacent(*sides):
        sides = witness.left, witness.right
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


def _as_strong(found: Witness, witness: Witness, case: Case) -> bool:
    delta = case.claim.tolerated.delta
    before, after = witness.epsilon(delta).lower, found.epsilon(delta).lower
    if witness.refutes(case.claim) and not found.refutes(case.claim):
        return False
    return after >= before or math.isclose(after, before, rel_tol=WEAKER, abs_tol=WEAKER)


def _probability(paths: Sequence[Path], event: Event) -> Interval:
    from veridp.exact.certified import enclose  # loads flint: only where needed

    return enclose(paths, event)


def _rounded(data: Any) -> Any:
    """The data with its floats rounded, where that changes them a little at most."""
    if isinstance(data, list):
        return [_rounded(entry) for entry in data]
    return _rounded_number(data) if isinstance(data, float) else data


def _rounded_number(value: float) -> float:
    """The number with ten digits, none of them past the ninth decimal; as it is where that is another number.

    >>> _rounded_number(7.99e-12), _rounded_number(0.30000000000000004), _rounded_number(1 / 3)
    (0.0, 0.3, 0.3333333333333333)
    """
    if not math.isfinite(value):
        return value
    found = float(f"{round(value, DECIMALS):.{DIGITS}g}")
    short = len(f"{found:.{DIGITS}g}".lstrip("-0.").replace(".", "")) < DIGITS - 2
    return found if short and abs(found - value) <= 10.0**-DECIMALS * max(1.0, abs(value)) else value


def _rounded_event(event: Event) -> Event:
    within = tuple(
        (entry, tuple(Span(_rounded_number(span.low), _rounded_number(span.high)) for span in spans))
        for entry, spans in event.within
    )
    return replace(event, within=within, either=tuple(map(_rounded_event, event.either)))


def _in_domain(case: Case, data: Any) -> bool:
    """Whether no number was rounded out of the domain."""
    domain: Any = case.mechanism.domain
    numbers = [value for value in (data if isinstance(data, list) else [data]) if isinstance(value, float)]
    if isinstance(domain, tuple) and len(domain) == 2:
        return all(domain[0] <= value <= domain[1] for value in numbers)
    return all(value in domain for value in numbers)
