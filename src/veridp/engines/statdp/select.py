"""The event selector (Algorithm 3): count many events at once, and choose the strongest evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

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
    first_alike,
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
# A column of numbers is cut once; then the count of every interval between cuts is a difference of two sums.
# A product of a discrete and a numeric condition is the same among the outputs that satisfy the discrete one. What does
# not depend on floats is computed once for each form of output, not for each output.


Counts = NDArray[np.int64]
EVERY = 2  # of the cuts of a number is used in products
MOST_FORMS = 64  # that are counted one by one where no product asks for it
MOST_GROUPS = 2**10  # different outputs that are looked at once each, instead of all their runs


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
        columns = _Columns(outputs)
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
    """The features of a sample; what products share is computed once, and so is what equal outputs share."""

    def __init__(self, outputs: Outputs) -> None:
        groups = outputs.grouped(MOST_GROUPS)
        self.times = None if groups is None else np.bincount(groups[1], minlength=len(groups[0]))
        self.table = FeatureTable(outputs if groups is None else groups[0])
        self.parts: dict[Number, Counts] = {}  # for each form, how many are at most each cut, and at all
        self.chosen: dict[str, NDArray[np.bool_] | None] = {}  # the forms that satisfy the condition of this name

    def below(self, family: IntervalFamily) -> Counts:
        """How many of the outputs that the family is about have the feature at most at each cut, and at all."""
        if self.times is not None:
            column = family.axis.feature.column(self.table)
            times = self.times if family.also is None else self.times * family.also.where(self.table)
            return _at_most(column, family.cuts, times)
        if isinstance(family.axis.feature, Discrete):
            column, weights = self.table.weighted(family.axis.feature)
            counts = np.bincount(column.astype(np.int64), weights=weights)
            total = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            places = np.clip(np.floor(family.cuts) + 1, 0, len(counts)).astype(np.int64)
            return np.append(total[places], total[-1])
        return self._of_numbers(family)

    def _of_numbers(self, family: IntervalFamily) -> Counts:
        """The same for a number, of which the outputs of each form are counted once for all products with it."""
        feature = family.axis.feature
        if family.also is None:
            if isinstance(feature, Number) and len(self.table.forms) <= MOST_FORMS:
                return np.asarray(self._by_form(feature, family.cuts).sum(axis=0))
            return _at_most(feature.known(self.table), family.cuts)
        if family.also.name not in self.chosen:
            self.chosen[family.also.name] = self.table.forms_where(family.also.where)
        forms = self.chosen[family.also.name]
        if forms is None or not isinstance(feature, Number):
            return _at_most(feature.column(self.table)[family.also.where(self.table)], family.cuts)
        below = self._by_form(feature, family.axis.cuts)[forms].sum(axis=0)
        return np.append(below[:-1][::EVERY], below[-1])

    def _by_form(self, feature: Number, cuts: Array) -> Counts:
        """For the outputs of each form that occurs, how many have the number at most at each cut of its axis."""
        if feature not in self.parts:
            parts = [np.zeros(0) if part is None else part for part in feature.parts(self.table)]
            self.parts[feature] = np.array([_at_most(part, cuts) for part in parts])
        return self.parts[feature]


def _at_most(column: Array, cuts: Array, times: Counts | None = None) -> Counts:
    """How many numbers are at most each cut, and how many there are; NaN is none, others count once or many `times`."""
    known = ~np.isnan(column)
    places = cuts.searchsorted(column[known], side="left")
    between = np.bincount(places, None if times is None else times[known], minlength=len(cuts) + 1)
    return np.asarray(np.cumsum(between), dtype=np.int64)


# -------------------------------------------------------------------------------------------------------------- select
# The event selector (Algorithm 3): on samples of its own, which event of which pair speaks most against an ε.


RARE = 0.001  # times n e^ε: events that happened less often, on both sides together, are skipped
FINALISTS = 3  # events of a trial whose p-values are compared exactly, for each ε
EVIDENCE = 1.0  # the least score of some evidence: among many events, luck gives more to one of them
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
    seeds: tuple[Seeds, Seeds]  # of either side; the left one's is the same for trials that have the same left input
    expected: int  # runs on all trials


@dataclass(frozen=True)
class EventTask:
    """Events of a trial to be counted in runs on either side."""

    trial: InputTrial
    events: tuple[FeatureEvent, ...]
    runs: int
    seeds: tuple[int, int]
    choosing: bool = False  # whether runs of their own test what is chosen by these


class LastOutputs:
    """The outputs drawn last; pairs that follow one another often have one input in common."""

    def __init__(self) -> None:
        self._key: object = None
        self._outputs: Outputs | None = None

    def drawn(self, key: object, draw: Callable[[], Outputs]) -> Outputs:
        """The outputs of this key, drawn unless they are the last ones."""
        if self._outputs is None or self._key != key:
            self._outputs = None  # so that two samples are not held at once
            self._key, self._outputs = key, draw()
        return self._outputs


@dataclass(frozen=True)
class RunDraws:
    """How runs are drawn: on how many processes, and what was found of their readings."""

    workers: int | None
    chosen_on: SharedTrials  # for runs by which events are chosen
    counted: SharedTrials = field(default_factory=SharedTrials)  # for those that are tested, each input by itself
    left: LastOutputs = field(default_factory=LastOutputs)  # by which events are chosen


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
                trials=draws.chosen_on if task.choosing else draws.counted,
            )
            for data, seed in zip((task.trial.left, task.trial.right), task.seeds, strict=True)
        ]
    return np.array([[side[place] for place in places] for side in sides], dtype=np.int64), clock.seconds


def owned(selected: Sequence[Sequence[Scored]], trial: InputTrial) -> list[list[Scored]]:
    """The same candidates, of this very trial: a worker sends back a copy, and trials are told apart by identity."""
    known = {id(one.candidate): replace(one.candidate, trial=trial) for scored in selected for one in scored}
    return [[replace(one, candidate=known[id(one.candidate)]) for one in scored] for scored in selected]


def settled(looks: Mapping[InputTrial, Sequence[Sequence[Scored]]]) -> bool:
    """Whether some pair shows a clear violation, for every ε."""
    by_level = zip(*looks.values(), strict=True)
    return all(any(one.score > CLEAR for scored in level for one in scored) for level in by_level)


def most_promising(looks: Mapping[InputTrial, Sequence[Sequence[Scored]]], count: int) -> list[InputTrial]:
    """The trials that look strongest at some ε, and so many at least; of those that are strong, the shorter ones."""

    def strength(trial: InputTrial, place: int) -> tuple[float, int, float]:
        best = max((one.score for one in looks[trial][place]), default=-math.inf)
        return min(best, STRONG), -trial.size, best

    levels = range(len(next(iter(looks.values()))))
    orders = [sorted(looks, key=lambda trial: strength(trial, place), reverse=True) for place in levels]
    leaders = dict.fromkeys(order[0] for order in orders)
    by_rank = dict.fromkeys(trial for rank in zip(*orders, strict=True) for trial in rank)
    return list(by_rank)[: max(count, len(leaders))]


def contenders(scored: Sequence[Scored]) -> list[Scored]:
    """The strongest candidates at an ε, where there is some evidence but none that settles it."""
    best = sorted(scored, key=lambda one: -one.score)[:CONTENDERS]
    return best if best and EVIDENCE < best[0].score < STRONG else []


def rescored(candidate: EventCandidate, epsilon: float) -> Scored:
    """The candidate with its score at this ε."""
    left, right = np.array([candidate.left]), np.array([candidate.right])
    return Scored(candidate, float(_scores(left, right, candidate.runs, epsilon)[0]))


def _counted(task: SelectionTask, draws: RunDraws, clock: Clock) -> tuple[Families | None, Counts, Counts]:
    """The candidate events of a trial, and how often each happened on either side."""
    trial, runs, families = task.trial, task.runs, None
    left = right = np.zeros(0, dtype=np.int64)

    def drawn(side: int, data: object, part: int, count: int) -> Outputs:
        return sample(
            trial.mechanism,
            data,
            count,
            task.seeds[side].of(side, part),
            workers=draws.workers,
            expected=task.expected,
            trials=draws.chosen_on,
        )

    for part, start in enumerate(range(0, runs, AT_ONCE)):
        count = min(AT_ONCE, runs - start)
        with clock:
            mine = draws.left.drawn((task.seeds[0], part, count), partial(drawn, 0, trial.left, part, count))
            theirs = drawn(1, trial.right, part, count)
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


# Gross violations are clear from few runs: then other pairs need no more. In doubt all pairs get all the runs. Where
# only the four that led after a quarter of the runs got them, the mean bound of noisy_max1 fell from 0.059 to 0.036 and
# that of noisy_max4 from 0.126 to 0.043 (six seeds, 10,000 runs to choose): the luckiest events of all pairs lead.
EARLY = 2  # the stream of early looks; 0 and 1 are the two sides
EARLY_LOOK = 16  # one in so many runs, on all pairs
CLEAR = 5.0  # a score that luck seldom gives to any of 10^5 events; all the runs make it four times as large
LEAST_EARLY_RUNS = 1_000
PROMISING = 2  # pairs that get all the runs where the early look settles it
SECOND_LOOK = 2  # times as many runs again, for the candidates between which the first look cannot decide
LOOKED_AT_AGAIN = 6  # trials at most

Tell = Callable[[str, float], object]  # what is being done, the share done (0 to 1); raises CutShort if time is over


TrialPool = WorkerPool[RunDraws]
Finalists = list[list[Scored]]  # for each ε


def _between(tell: Tell, start: float, end: float) -> Tell:
    """Tells of a part of the whole, which begins and ends at these shares of it."""
    return lambda stage, share: tell(stage, start + (end - start) * share)


class Selection:
    """Looks at one pair after the other: at all of them, unless few runs show that the best will do."""

    def __init__(
        self, pool: TrialPool, trials: Trials, most: int, epsilons: Sequence[float], runs: int, seeds: Seeds
    ) -> None:
        self.pool, self.trials, self.most, self.runs, self.seeds = pool, trials, most, runs, seeds
        self.epsilons = tuple(epsilons)
        self.tried: list[InputTrial] = []
        self.rounds: list[tuple[int, int]] = []  # how many pairs, and how many runs on either side of each
        self.looked_again = 0
        self.sampling_seconds = 0.0

    def run(self, tell: Tell) -> list[EventCandidate | None]:
        """The candidate chosen for each ε, of so many pairs at most; None where no event was frequent enough."""
        self.tried = trials = list(self.trials.some(self.most))
        few, done = self.runs // EARLY_LOOK, 0.0
        if few >= LEAST_EARLY_RUNS and len(trials) > PROMISING:
            done = 1 / (EARLY_LOOK + 1)
            looks = self._looks(trials, few, _between(tell, 0.0, done), EARLY)
            if settled(looks):
                trials = most_promising(looks, PROMISING)
        looks = self._looks(trials, self.runs, _between(tell, done, 1.0))
        found = [[one for look in looks.values() for one in look[place]] for place in range(len(self.epsilons))]
        return choose(self._second_look(found, tell), self.epsilons)

    def _looks(self, trials: Sequence[InputTrial], runs: int, tell: Tell, *stream: int) -> dict[InputTrial, Finalists]:
        """What each trial shows in so many runs on either side."""
        self.rounds.append((len(trials), runs))
        sharing = list(first_alike(trials))

        def tasks() -> Iterator[SelectionTask]:
            for number, trial in enumerate(trials):
                tell(f"choosing events, {trial.pattern}", number / len(trials))
                seeds = self.seeds.under(sharing[number], *stream), self.seeds.under(number, *stream)
                yield SelectionTask(trial, self.epsilons, runs, seeds, 2 * self.runs * self.most)

        found = {}
        for trial, (selected, seconds) in zip(trials, self.pool.remembered(finalists, tasks()), strict=True):
            found[trial] = owned(selected, trial)
            self.sampling_seconds += seconds
        return found

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
                yield EventTask(candidates[0].trial, events, runs, (seeds.of(0), seeds.of(1)), choosing=True)

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
        lines = [f"{what} of length {lengths} ({'; '.join(patterns)}), {self.rounds[0][1]} runs on either side"]
        for few, runs in self.rounds[1:]:
            which = "all of them" if few == many else f"the {few} most promising"
            lines.append(f"{which}, {runs} runs on either side")
        if self.looked_again:
            more = SECOND_LOOK * self.runs
            lines.append(f"{self.looked_again} of them again, where that did not decide, {more} runs on either side")
        notes = dict.fromkeys(note for trial in self.tried for note in trial.notes)
        return lines + [f"arguments: {note}" for note in notes]
