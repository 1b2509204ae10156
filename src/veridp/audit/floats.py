"""What released doubles tell besides the real numbers that they stand for: their low bits, and NaN and infinities.

The doubles around a number are spaced by its size: fl(0 + noise) has low bits that fl(1 + noise) cannot have (Mironov,
"On Significance of the Least Significant Bits for Differential Privacy", CCS 2012). Proofs and exact losses speak of
real numbers and do not see this; runs of the plain function do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Pair
from veridp.adjacency.base import is_interval
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import OutOfTime, at_most
from veridp.claim import Interval, Witness
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper, log_ratio_lower
from veridp.errors import CutShort, VeridpError
from veridp.kernel.symbols import count_text
from veridp.sampling.outputs import Outputs
from veridp.sampling.sample import sample
from veridp.verdict import FloatCost

if TYPE_CHECKING:
    from veridp.engines.sniper.features import FeatureLayout

PAIRS = 3
PAIRS_READ = 32  # of the relation, from which these are made
SELECTION_RUNS = 200  # on either input of a pair
SELECTION_ALPHA = 0.05
RUNS = 2_000  # on either input of the pair whose bits tell most
ALPHA = 1e-6  # of its own: the look spends nothing of what the other searches share
NUMBERS = 8  # of an output
LEAST_SHARE = 0.05  # of outputs, in which an event is worth a test if it never occurred on the other input
FLOATS_TIME_SHARE = 0.1  # of the time that is left
ODD_RUNS = 8  # on an input with NaN or an infinity


@dataclass(frozen=True)
class FineBit:
    """The event that a number of the output has a bit set whose value is at most 2^power."""

    layout: FeatureLayout
    place: int
    power: float

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        return np.asarray(_lowest_bits(self.layout, outputs)[:, self.place] <= self.power)

    def __str__(self) -> str:
        return f"{self.layout.names[self.layout.paths[self.place]]} has a bit set of value 2^{self.power:g} or below"


def look_at_floats(findings: Findings) -> None:
    """Note what the low bits of released doubles show on a few pairs, and whether NaN or infinities come out.

    It speaks of these pairs alone, and of one kind of event: its silence promises nothing.
    """
    case = findings.case
    findings.tell("looking at the low bits of floats")
    with findings.timed("floats") as found:
        try:
            with at_most(max(findings.deadline.left * FLOATS_TIME_SHARE, 1e-3)):
                cost = _cost(case)
        except (VeridpError, OutOfTime) as reason:
            is_cut = isinstance(reason, CutShort | OutOfTime)
            findings.finished = findings.finished and not is_cut
            found.append(f"low bits were not examined: {'cut short' if is_cut else reason}")
            return
        findings.as_floats = cost
        found.append("no doubles are released" if cost is None else str(cost))


def _cost(case: AuditCase) -> FloatCost | None:
    """What the bits tell; None where no output has a number that is not whole."""
    tried, fractions = 0, False
    best: BitCandidate | None = None
    for pair in itertools.islice(_near_zero(case), PAIRS):
        left, right = (_draw(case, side, SELECTION_RUNS, stage) for stage, side in _sides(pair))
        tried += 1
        fractions = fractions or _has_fractions(left) or _has_fractions(right)
        best = max(_candidates(case, pair, left, right), key=lambda one: one.promise, default=None)
        if best is not None and best.worth_testing:
            break
    if not fractions:
        return None
    faults = tuple(_faults(case))
    searched = f"low bits on {count_text(tried, 'pair')}, {SELECTION_RUNS} runs on either side"
    if best is None or not best.worth_testing:
        return FloatCost(None, searched, faults)
    return FloatCost(_tested(case, best), f"{searched}, {RUNS} where they tell something", faults)


def _tested(case: AuditCase, candidate: BitCandidate) -> Witness:
    """The event with bounds for its probabilities, from fresh runs."""
    pair, event = candidate.pair, candidate.event
    hits = [int(np.count_nonzero(event(_draw(case, side, RUNS, 2 + stage)))) for stage, side in _sides(pair)]
    return Witness(
        pair.left,
        pair.right,
        str(event),
        Interval(float(clopper_pearson_lower(hits[0], RUNS, ALPHA / 2)), 1.0),
        Interval(0.0, float(clopper_pearson_upper(hits[1], RUNS, ALPHA / 2))),
        1 - ALPHA,
        as_floats=True,
    )


def _draw(case: AuditCase, data: object, runs: int, stage: int) -> Outputs:
    """Outputs by the author's own arithmetic: a reading that reorders it may round otherwise."""
    reading = "vectorised" if case.mechanism.vectorised else "one-by-one"
    return sample(case.mechanism, data, runs, case.seed_of(10 + stage), reading=reading, workers=1, time_limit=None)


def _sides(pair: Pair) -> Iterator[tuple[int, object]]:
    return enumerate((pair.left, pair.right))


# --------------------------------------------------------------------------------------------------------------- pairs


def _near_zero(case: AuditCase) -> Iterator[Pair]:
    """Pairs of the relation moved so that one side is all zero, where doubles are finest; then those as they are."""
    from veridp.engines.pipeline import in_domain

    relation, seen = case.mechanism.adjacency, set()
    read = list(itertools.islice(relation.pairs(case.size, case.mechanism.domain), PAIRS_READ))
    moved = (pair for one in read for pair in _moved(one))
    for pair in itertools.chain(moved, read):
        key = repr((pair.left, pair.right))
        if key not in seen and (
            pair in read or (in_domain(case.mechanism, pair) and relation.adjacent(pair.left, pair.right))
        ):
            seen.add(key)
            yield pair


def _moved(pair: Pair) -> Iterator[Pair]:
    """The pair less its left side, and with zeros for the values of its left side; none where data are not numbers."""
    left, right = pair.left, pair.right
    if isinstance(left, float) and isinstance(right, float):
        yield Pair(0.0, right - left, pair.pattern)
        yield Pair(0.0, right, pair.pattern)
    elif _are_floats(left) and _are_floats(right):
        mine, theirs = list(left), list(right)  # type: ignore[call-overload]
        zeros = [0.0] * len(mine)
        if len(mine) == len(theirs):
            yield Pair(zeros, [b - a for a, b in zip(mine, theirs, strict=True)], pair.pattern)
        yield Pair(zeros, [0.0 if value in mine else value for value in theirs], pair.pattern)


def _are_floats(data: object) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(value, float) for value in data)


# -------------------------------------------------------------------------------------------------------------- events


def _lowest_bits(layout: FeatureLayout, outputs: Outputs) -> NDArray[np.float64]:
    from veridp.engines.sniper.attack import lowest_bits

    return lowest_bits(layout.leaves(outputs).values)


def _has_fractions(outputs: Outputs) -> bool:
    from veridp.engines.sniper.features import FeatureLayout

    return bool((_lowest_bits(FeatureLayout.of(outputs), outputs) < 0).any())


@dataclass(frozen=True)
class BitCandidate:
    """An event on a pair, and the bound that it promises."""

    promise: float
    pair: Pair
    event: FineBit
    worth_testing: bool  # whether it promises more than the claim, or never occurred on the right


def _candidates(case: AuditCase, pair: Pair, left: Outputs, right: Outputs) -> Iterator[BitCandidate]:
    """An event for each bit below 1 of each number, in either direction."""
    from veridp.engines.sniper.features import FeatureLayout

    layout = FeatureLayout.of(left)
    lows = [_lowest_bits(layout, side) for side in (left, right)]
    for place in range(min(len(layout.paths), NUMBERS)):
        powers = np.unique(np.concatenate([low[:, place] for low in lows]))
        for power in powers[powers < 0].tolist():
            mine, theirs = (int(np.count_nonzero(low[:, place] <= power)) for low in lows)
            for first, second, way in ((mine, theirs, pair), (theirs, mine, pair.reversed())):
                more = RUNS // SELECTION_RUNS
                exceeds = case.claim.excludes(_promised(case, first * more, second * more, RUNS, ALPHA))
                alone = not second and first >= LEAST_SHARE * SELECTION_RUNS
                promise = _promised(case, first, second, SELECTION_RUNS, SELECTION_ALPHA)
                yield BitCandidate(promise, way, FineBit(layout, place, power), exceeds or alone)


def _promised(case: AuditCase, left: int, right: int, runs: int, alpha: float) -> float:
    return float(log_ratio_lower(left, runs, right, runs, alpha, case.claim.delta))


# ------------------------------------------------------------------------------------------------- NaN and infinities


def _faults(case: AuditCase) -> Iterator[str]:
    """Sentences on what floats have besides numbers: no interval holds it, but a column of floats may."""
    data: Any = case.example
    if not is_interval(case.mechanism.domain) or not _are_floats(data):
        return
    for odd in (math.nan, math.inf):
        outputs = _draw(case, [odd, *data[1:]], ODD_RUNS, 4)
        if any(not np.isfinite(entry).any() for entry in zip(*map(_numbers, outputs), strict=False)):
            yield f"a record that is {odd} shows in the output whatever the noise: reject or replace it first"


def _numbers(output: Any) -> list[float]:
    if isinstance(output, float):
        return [output]
    return [number for entry in output for number in _numbers(entry)] if isinstance(output, tuple) else []
