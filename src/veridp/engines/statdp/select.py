"""The event selector (Algorithm 3): on samples of its own, which event of which pair speaks most against an ε."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from veridp.engines.statdp.candidates import propose_axes
from veridp.engines.statdp.counting import Counts, Families
from veridp.engines.statdp.events import FeatureEvent
from veridp.engines.statdp.features import Array
from veridp.engines.statdp.inputs import InputTrial
from veridp.engines.statdp.seeds import Seeds
from veridp.sampling.sample import sample
from veridp.sampling.tally import tally

RARE = 0.001  # times n e^ε: events that happened less often, on both sides together, are skipped
FINALISTS = 3  # events of a trial whose p-values are compared exactly, for each ε
CONTENDERS = 12  # candidates of all trials that get a second look, for each ε
STRONG = 7.5  # a score above which the p-value is far below any that matters
AT_ONCE = 2**17  # outputs that are kept at a time


@dataclass(frozen=True, eq=False)
class EventCandidate:
    """An event on a trial, with its counts in the selection sample and how much there is to say about it."""

    trial: InputTrial
    event: FeatureEvent
    left: int
    right: int
    runs: int
    complexity: int


@dataclass(frozen=True, eq=False)
class Scored:
    """A candidate with its score at an ε: standard deviations beyond it, roughly."""

    candidate: EventCandidate
    score: float


class Clock:
    """Adds up the seconds spent in its context."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.monotonic() - self.started


def finalists(
    trial: InputTrial, epsilons: Sequence[float], runs: int, seeds: Seeds, clock: Clock
) -> list[list[Scored]]:
    """For each ε the events of a trial that look strongest, and the simplest of those that are strong.

    The clock counts the time that drawing outputs takes.
    """
    families, left, right = _counted(trial, runs, seeds, clock)
    if families is None:
        return [[] for _ in epsilons]
    complexity = families.complexity()
    made: dict[int, EventCandidate] = {}

    def candidate(index: int) -> EventCandidate:
        if index not in made:
            counts = int(left[index]), int(right[index])
            made[index] = EventCandidate(trial, families.event(index), *counts, runs, int(complexity[index]))
        return made[index]

    found = []
    for epsilon in epsilons:
        scores = _scores(left, right, runs, epsilon)
        chosen = np.argsort(-scores, kind="stable")[:FINALISTS].tolist()
        strong = np.flatnonzero(scores > STRONG)
        if len(strong):
            chosen.append(int(strong[np.lexsort((-scores[strong], complexity[strong]))[0]]))
        known = [index for index in dict.fromkeys(chosen) if np.isfinite(scores[index])]
        found.append([Scored(candidate(index), float(scores[index])) for index in known])
    return found


def contenders(scored: Sequence[Scored]) -> list[Scored]:
    """The strongest candidates at an ε, where there is some evidence but none that settles it."""
    best = sorted(scored, key=lambda one: -one.score)[:CONTENDERS]
    return best if best and 0 < best[0].score < STRONG else []


def recounted(
    trial: InputTrial, candidates: Sequence[EventCandidate], runs: int, seeds: Seeds, clock: Clock
) -> dict[EventCandidate, EventCandidate]:
    """Each of a trial's candidates with the counts of so many more runs added."""
    events = [candidate.event for candidate in candidates]
    with clock:
        left, right = (
            tally(trial.mechanism, data, runs, seeds.of(side), events=events)
            for side, data in enumerate((trial.left, trial.right))
        )
    return {
        one: replace(one, left=one.left + left[place], right=one.right + right[place], runs=one.runs + runs)
        for place, one in enumerate(candidates)
    }


def rescored(candidate: EventCandidate, epsilon: float) -> Scored:
    """The candidate with its score at this ε."""
    left, right = np.array([candidate.left]), np.array([candidate.right])
    return Scored(candidate, float(_scores(left, right, candidate.runs, epsilon)[0]))


def _counted(trial: InputTrial, runs: int, seeds: Seeds, clock: Clock) -> tuple[Families | None, Counts, Counts]:
    """The candidate events of a trial, and how often each happened on either side."""
    families: Families | None = None
    left = right = np.zeros(0, dtype=np.int64)
    for part, start in enumerate(range(0, runs, AT_ONCE)):
        count = min(AT_ONCE, runs - start)
        with clock:
            mine, theirs = (
                sample(trial.mechanism, data, count, seeds.of(side, part))
                for side, data in enumerate((trial.left, trial.right))
            )
        if families is None:
            families = Families.of(propose_axes(mine, theirs, trial.references))
            if not families.families:
                return None, left, right
            left, right = families.counts(mine), families.counts(theirs)
        else:
            left, right = left + families.counts(mine), right + families.counts(theirs)
    return families, left, right


def _scores(left: Counts, right: Counts, runs: int, epsilon: float) -> Array:
    """The score of each event in the worse direction; -inf for rare ones."""
    scores = np.maximum(score(left, right, runs, epsilon), score(right, left, runs, epsilon))
    return np.where(left + right < RARE * runs * math.exp(epsilon), -np.inf, scores)


def score(above: Counts, below: Counts, runs: int, epsilon: float) -> Array:
    """How many standard deviations an event is beyond the ε, in one direction.

    The normal approximation of the expected p-value: x - c2 has variance s(1 - s/2n) under Fisher's law,
    s = x + c2, and thinning adds c1 e^-ε (1 - e^-ε).
    """
    kept = math.exp(-epsilon)
    thinned = above * kept
    total = thinned + below
    variance = total * (1 - total / (2 * runs)) + thinned * (1 - kept)
    return np.asarray((thinned - below) / np.sqrt(np.maximum(variance, 1.0)))
