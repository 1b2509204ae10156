"""The event selector (Algorithm 3): count many events at once, and choose the strongest evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.engines.statdp.candidates import (
    Axes,
    Axis,
    FeatureCondition,
    FeatureEvent,
    InputTrial,
    Seeds,
    Trials,
    propose_axes,
)
from veridp.engines.statdp.features import Array, Discrete, FeatureTable, Number, SummaryFeature
from veridp.engines.statdp.hypothesis_test import log_p_values
from veridp.kernel.symbols import count_text
from veridp.sampling.outputs import Outputs
from veridp.sampling.plan import SharedTrials
from veridp.sampling.sample import sample, tally
from veridp.sampling.worker_pool import WorkerPool

# ------------------------------------------------------------------------------------------------------------ counting
# How often each of many events happened, without evaluating them one by one.
#
# A column of numbers is sorted once; then the count of every interval between cuts is a difference of two places in it.
# A product of a discrete and a numeric condition is the same among the outputs that satisfy the discrete one. What does
# not depend on floats is computed once for each form of output, not for each output.


Counts = NDArray[np.int64]
EVERY = 2  # of the cuts of a number is used in products


@dataclass(frozen=True, eq=False)
class IntervalFamily:
    """All intervals between the cuts of an axis, perhaps together with a condition on another feature."""

    axis: Axis
    cuts: Array
    also: FeatureCondition | None = None

    def __len__(self) -> int:
        return len(self._pairs[0])

    @cached_property
    def _places(self) -> Array:
        return np.concatenate([[-np.inf], self.cuts, [np.inf]])

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The ends of each interval as places among -∞, the cuts, +∞; not both infinite."""
        first, second = np.triu_indices(len(self.cuts) + 2, k=1)
        keep = (first > 0) | (second <= len(self.cuts))
        return first[keep], second[keep]

    def counts(self, below: Counts) -> Counts:
        """How often each of its events happened, from how often the feature was at most each cut, and was there."""
        first, second = self._pairs
        table = np.concatenate([[0], below])
        return np.asarray(table[second] - table[first], dtype=np.int64)

    def complexity(self) -> NDArray[np.int64]:
        """How much there is to say about each of its events."""
        first, second = self._pairs
        ends = (first > 0).astype(np.int64) + (second <= len(self.cuts))
        if self.axis.feature.whole:
            ends[(ends == 2) & (self._places[second] == self._places[first] + 1)] = 1  # a single value
        own = self.axis.feature.complexity
        other = 0 if self.also is None else 3 + self.also.feature.complexity
        return np.asarray(ends + own + other, dtype=np.int64)

    def event(self, index: int) -> FeatureEvent:
        first, second = (self._places[ends[index]] for ends in self._pairs)
        own = FeatureCondition(self.axis.feature, float(first), float(second))
        return FeatureEvent((own,) if self.also is None else (self.also, own))


@dataclass(frozen=True, eq=False)
class Families:
    """All candidate events of a pair of inputs."""

    families: tuple[IntervalFamily, ...]

    @classmethod
    def of(cls, axes: Axes) -> Families:
        found = [IntervalFamily(axis, axis.cuts) for axis in (*axes.discrete, *axes.numeric)]
        for axis in axes.numeric:
            if isinstance(axis.feature, SummaryFeature) or len(axes.numeric) == 1:
                found += [IntervalFamily(axis, axis.cuts[::EVERY], condition) for condition in axes.partners]
        return cls(tuple(found))

    def counts(self, outputs: Outputs) -> Counts:
        """How often each event happened, family by family."""
        columns = _Columns(FeatureTable(outputs))
        return np.concatenate([family.counts(columns.below(family)) for family in self.families])

    def complexity(self) -> NDArray[np.int64]:
        return np.concatenate([family.complexity() for family in self.families])

    def event(self, index: int) -> FeatureEvent:
        for family in self.families:
            if index < len(family):
                return family.event(index)
            index -= len(family)
        raise IndexError(index)


class _Columns:
    """The features of a sample; what products share is computed once."""

    def __init__(self, table: FeatureTable) -> None:
        self.table = table
        self.parts: dict[Number, list[Array | None]] = {}

    def below(self, family: IntervalFamily) -> Counts:
        """How many of the outputs that the family is about have the feature at most at each cut, and at all."""
        if isinstance(family.axis.feature, Discrete):
            column, times = self.table.weighted(family.axis.feature)
            counts = np.bincount(column.astype(np.int64), weights=times)
            total = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            places = np.clip(np.floor(family.cuts) + 1, 0, len(counts)).astype(np.int64)
            return np.append(total[places], total[-1])
        ordered = np.sort(self._known(family))
        return np.append(np.searchsorted(ordered, family.cuts, side="right"), len(ordered)).astype(np.int64)

    def _known(self, family: IntervalFamily) -> Array:
        """The feature of the outputs that the family is about, where they have it, in any order."""
        feature = family.axis.feature
        if family.also is None:
            return feature.known(self.table)
        forms = self.table.forms_where(family.also.where)
        if forms is None or not isinstance(feature, Number):
            column = feature.column(self.table)[family.also.where(self.table)]
            return column[~np.isnan(column)]
        if feature not in self.parts:
            self.parts[feature] = feature.parts(self.table)
        found = [part for part, chosen in zip(self.parts[feature], forms, strict=True) if chosen and part is not None]
        column = np.concatenate(found) if found else np.zeros(0)
        return column[~np.isnan(column)]


# -------------------------------------------------------------------------------------------------------------- select
# The event selector (Algorithm 3): on samples of its own, which event of which pair speaks most against an ε.


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


# Tasks of a detection, for a worker pool. What they share is how many processes may draw outputs for one of them; back
# come counts and events, never outputs, with the seconds that drawing took.


@dataclass(frozen=True)
class SelectionTask:
    """A trial on which to look for events, for each ε."""

    trial: InputTrial
    epsilons: tuple[float, ...]
    runs: int
    seeds: Seeds
    expected: int  # runs on all trials


@dataclass(frozen=True)
class EventTask:
    """Events of a trial to be counted in runs on either side."""

    trial: InputTrial
    events: tuple[FeatureEvent, ...]
    runs: int
    seeds: tuple[int, int]


@dataclass(frozen=True)
class RunDraws:
    """How runs are drawn: on how many processes, and what was found of their readings."""

    workers: int | None
    chosen_on: SharedTrials  # for runs by which events are chosen
    counted: SharedTrials = field(default_factory=SharedTrials)  # for those that are tested, each input by itself


def finalists(draws: RunDraws, task: SelectionTask) -> tuple[list[list[Scored]], float]:
    """For each ε the events of a trial that look strongest, and the simplest of those that are strong."""
    trial, epsilons, runs, clock = task.trial, task.epsilons, task.runs, Clock()
    families, left, right = _counted(task, draws, clock)
    if families is None:
        return [[] for _ in epsilons], clock.seconds
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
    return found, clock.seconds


def count_events(draws: RunDraws, task: EventTask) -> tuple[Counts, float]:
    """How often each event happened on the left, and on the right."""
    clock, places = Clock(), range(len(task.events))
    with clock:
        sides = [
            tally(
                task.trial.mechanism,
                data,
                task.runs,
                seed,
                events=task.events,
                workers=draws.workers,
                trials=draws.counted,
            )
            for data, seed in zip((task.trial.left, task.trial.right), task.seeds, strict=True)
        ]
    return np.array([[side[place] for place in places] for side in sides], dtype=np.int64), clock.seconds


def owned(selected: Sequence[Sequence[Scored]], trial: InputTrial) -> list[list[Scored]]:
    """The same candidates, of this very trial: a worker sends back a copy, and trials are told apart by identity."""
    known = {id(one.candidate): replace(one.candidate, trial=trial) for scored in selected for one in scored}
    return [[replace(one, candidate=known[id(one.candidate)]) for one in scored] for scored in selected]


def contenders(scored: Sequence[Scored]) -> list[Scored]:
    """The strongest candidates at an ε, where there is some evidence but none that settles it."""
    best = sorted(scored, key=lambda one: -one.score)[:CONTENDERS]
    return best if best and 0 < best[0].score < STRONG else []


def rescored(candidate: EventCandidate, epsilon: float) -> Scored:
    """The candidate with its score at this ε."""
    left, right = np.array([candidate.left]), np.array([candidate.right])
    return Scored(candidate, float(_scores(left, right, candidate.runs, epsilon)[0]))


def _counted(task: SelectionTask, draws: RunDraws, clock: Clock) -> tuple[Families | None, Counts, Counts]:
    """The candidate events of a trial, and how often each happened on either side."""
    trial, runs, families = task.trial, task.runs, None
    left = right = np.zeros(0, dtype=np.int64)
    for part, start in enumerate(range(0, runs, AT_ONCE)):
        count = min(AT_ONCE, runs - start)
        with clock:
            mine, theirs = (
                sample(
                    trial.mechanism,
                    data,
                    count,
                    task.seeds.of(side, part),
                    workers=draws.workers,
                    expected=task.expected,
                    trials=draws.chosen_on,
                )
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


# -------------------------------------------------------------------------------------------------------------- shrink
# Which candidates to go on with: for each ε the simplest that is still significant, else the most significant.


# On the selection sample. Of some 10^5 candidates none gets there by chance, and a fresh sample, of the same size or
# more, takes hardly any of it away.
STILL_SIGNIFICANT = math.log(1e-10)
COMPARED = 6  # candidates of an ε whose p-values are computed: so many of the strongest, and of the simplest


def choose(finalists: Sequence[Sequence[Scored]], epsilons: Sequence[float]) -> list[EventCandidate | None]:
    """For each ε the simplest candidate whose p-value is clearly significant; the strongest where none is.

    Simpler is an event with less to say, then a shorter input; of equally simple ones the more significant goes first.
    At the largest ε the strongest is kept: how far the curve goes on beyond is asked of it.
    """
    lists = [_compared(scored) for scored in finalists]
    logs = iter(_log_p([(one, epsilon) for few, epsilon in zip(lists, epsilons, strict=True) for one in few]))
    chosen: list[EventCandidate | None] = []
    for few, epsilon in zip(lists, epsilons, strict=True):
        known = {one: next(logs) for one in few}
        clear = [one for one, log in known.items() if log <= STILL_SIGNIFICANT and epsilon < max(epsilons)]
        if clear:
            chosen.append(min(clear, key=lambda one: (one.complexity, one.trial.size, known[one])))
        else:
            chosen.append(min(known, key=known.__getitem__, default=None))
    return chosen


def _compared(scored: Sequence[Scored]) -> list[EventCandidate]:
    strongest = sorted(scored, key=lambda one: -one.score)[:COMPARED]
    strong = [one for one in scored if one.score > STRONG]
    plain = sorted(strong, key=lambda one: (one.candidate.complexity, one.candidate.trial.size, -one.score))[:COMPARED]
    return list(dict.fromkeys(one.candidate for one in (*strongest, *plain)))


def _log_p(asked: Sequence[tuple[EventCandidate, float]]) -> list[float]:
    """The logarithms of the p-values on the selection sample, in the direction that speaks against the ε."""
    counts = np.array([(max(one.left, one.right), min(one.left, one.right), one.runs) for one, _ in asked])
    if not len(counts):
        return []
    levels = np.array([epsilon for _, epsilon in asked])
    return [float(log) for log in log_p_values(counts[:, 0], counts[:, 1], counts[:, 2], levels)]


# ----------------------------------------------------------------------------------------------------------- selection
# The first half of a detection: a pair and an event for each test ε, chosen on samples of their own.


SECOND_LOOK = 2  # times as many runs again, for the candidates between which the first look cannot decide
LOOKED_AT_AGAIN = 6  # trials at most

Tell = Callable[[str, float], object]  # what is being done, the share done (0 to 1); raises CutShort if time is over


TrialPool = WorkerPool[RunDraws]


class Selection:
    """Looks at one pair after the other."""

    def __init__(
        self, pool: TrialPool, trials: Trials, most: int, epsilons: Sequence[float], runs: int, seeds: Seeds
    ) -> None:
        self.pool, self.trials, self.most, self.runs, self.seeds = pool, trials, most, runs, seeds
        self.epsilons = tuple(epsilons)
        self.tried: list[InputTrial] = []
        self.looked_again = 0
        self.sampling_seconds = 0.0

    def run(self, tell: Tell) -> list[EventCandidate | None]:
        """The candidate chosen for each ε, of so many pairs at most; None where no event was frequent enough."""
        found: list[list[Scored]] = [[] for _ in self.epsilons]
        for number, (selected, seconds) in enumerate(self.pool.remembered(finalists, self._tasks(tell))):
            for scored, more in zip(found, owned(selected, self.tried[number]), strict=True):
                scored += more
            self.sampling_seconds += seconds
        return choose(self._second_look(found, tell), self.epsilons)

    def _tasks(self, tell: Tell) -> Iterator[SelectionTask]:
        for number, trial in enumerate(self.trials.some(self.most)):
            tell(f"choosing events, {trial.pattern}", number / self.most)
            self.tried.append(trial)
            yield SelectionTask(trial, self.epsilons, self.runs, self.seeds.under(number), 2 * self.runs * self.most)

    def _second_look(self, found: Sequence[Sequence[Scored]], tell: Tell) -> list[list[Scored]]:
        """The candidates, those in doubt with counts of more runs: where no event is strong, luck decides too often."""
        doubtful = [contenders(scored) for scored in found]
        groups: dict[InputTrial, list[EventCandidate]] = {}
        for scored in sorted((one for few in doubtful for one in few), key=lambda one: -one.score):
            groups.setdefault(scored.candidate.trial, []).append(scored.candidate)
        again: dict[EventCandidate, EventCandidate] = {}
        asked = [list(dict.fromkeys(candidates)) for candidates in list(groups.values())[:LOOKED_AT_AGAIN]]
        runs, self.looked_again = SECOND_LOOK * self.runs, len(asked)

        def tasks() -> Iterator[EventTask]:
            for place, candidates in enumerate(asked):
                tell(f"choosing events, again {candidates[0].trial.pattern}", 1.0)
                seeds = self.seeds.under(len(self.tried) + 1 + place)
                events = tuple(one.event for one in candidates)
                yield EventTask(candidates[0].trial, events, runs, (seeds.of(0), seeds.of(1)))

        for candidates, (counts, seconds) in zip(asked, self.pool.remembered(count_events, tasks()), strict=True):
            for one, (left, right) in zip(candidates, counts.T.tolist(), strict=True):
                again[one] = replace(one, left=one.left + left, right=one.right + right, runs=one.runs + runs)
            self.sampling_seconds += seconds
        return [
            [one if one.candidate not in again else rescored(again[one.candidate], epsilon) for one in scored]
            for scored, epsilon in zip(found, self.epsilons, strict=True)
        ]

    def summary(self) -> list[str]:
        """What was searched, in sentences."""
        sizes = sorted({trial.size for trial in self.tried})
        patterns = dict.fromkeys(trial.pattern for trial in self.tried)
        many, pairs = len(self.tried), len(self.trials.pairs)
        what = f"{many} of {pairs} pairs" if many < pairs else count_text(many, "pair")
        lengths = " and ".join(map(str, sizes))
        lines = [f"{what} of length {lengths} ({'; '.join(patterns)}), {self.runs} runs on either side"]
        if self.looked_again:
            more = SECOND_LOOK * self.runs
            lines.append(f"{self.looked_again} of them again, where that did not decide, {more} runs on either side")
        notes = dict.fromkeys(note for trial in self.tried for note in trial.notes)
        return lines + [f"arguments: {note}" for note in notes]
