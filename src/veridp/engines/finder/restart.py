"""One restart: a random pair and event, climbed from, here or in a worker process; and one draw of the random
baseline."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Domain, Pair, Patch
from veridp.budget import Deadline
from veridp.claim import Interval
from veridp.confidence import log_ratio_lower
from veridp.engines.finder.ascent import (
    PROBE,
    Climb,
    exact_ascent,
    exact_value,
    pair_ascent,
    pair_epsilon,
    relaxed_ascent,
)
from veridp.engines.finder.candidates import EventForm, Forms, PairSource, draw_ends, pair_source, patches
from veridp.engines.finder.estimate import SampleMoments, adaptive, multivariate_clt
from veridp.engines.finder.indicator import Draws
from veridp.engines.finder.problem import ClosedData, Explored, OpenData, Problem, Spot, with_ends
from veridp.engines.finder.result import Restart, SearchSettings, StartingPoint
from veridp.errors import CutShort, NotExact, WorkerLost
from veridp.sampling.worker_pool import WorkerPool

# ------------------------------------------------------------------------------------------------------------- restart
# One restart: a random pair and event, climbed from; and one draw of the random baseline. Runs in any process.


Array = NDArray[np.float64]
BLOCK = 2**14  # draws that are evaluated at a time
LOOK = 2**11  # draws that tell what numbers an output has
EVENTS = 16  # events among which a short climb chooses
TRIES = 8  # random starts, until one meets an event
BASELINE = 128  # random pairs and events for each restart of the baseline: more than a climb evaluates


class Searcher:
    """The restarts of one search."""

    def __init__(self, settings: SearchSettings, deadline: Deadline | None = None) -> None:
        self.settings = settings
        mechanism, size, domain = settings.mechanism, settings.size, settings.domain
        self.patches = patches(mechanism, size, domain)
        self.source: PairSource | None = None if self.patches else pair_source(mechanism, size, domain)
        self.in_time = True  # whether the clock had no say in how the mechanism is explored
        self.explored: Explored = self._opened(deadline or Deadline()) or ClosedData(mechanism)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process explores the mechanism itself, without a limit."""
        return Searcher, (self.settings,)

    def _opened(self, deadline: Deadline) -> OpenData | None:
        if not self.patches:
            return None
        sizes = sorted({size for patch in self.patches for size in patch.sizes})
        try:
            return OpenData.of(self.settings.mechanism, sizes, self.patches[0].scalar, deadline)
        except CutShort:
            self.in_time = False
            return None

    @cached_property
    def _forms(self) -> Forms | None:
        """The forms of outputs on open data; None where they depend on the input."""
        if isinstance(self.explored, OpenData):
            return Forms([path for paths in self.explored.open.values() for path in paths])
        return None

    def searched(self) -> tuple[str, ...]:
        """What the restarts look at, as sentences."""
        pairs = f"inputs of size {self.settings.size} in {_domain_text(self.settings.domain)}"
        if self.patches:
            kinds = f"{len(self.patches)} kinds of neighbours" if len(self.patches) > 1 else self.patches[0].name
            pairs += f" ({kinds})"
        how = (
            "climbs by gradients"
            if isinstance(self.explored, OpenData)
            else "climbs by differences, as the data cannot be left open"
            if self.patches
            else "pairs drawn and changed one entry at a time"
        )
        return pairs, f"{self._forms or 'outputs that occur'}", how

    # ------------------------------------------------------------------------------------------------- restarts

    def restart(self, number: int, seconds: float) -> Restart:
        """The restart of this number: what it does depends on the seed and the number alone."""
        deadline = Deadline(max(seconds, 1e-3))
        problem, z, before = self._met(number, deadline)
        climb, relaxed, pair = Climb(z), None, None
        unbounded = before.epsilon == math.inf and self._is_candidate(problem, z, before)
        if not unbounded and len(z):
            climb = relaxed_ascent(problem, self._noise_seed(number, 0), z, deadline)
            relaxed = climb.value
        if self.source is not None and not unbounded:
            problem, pair = self._climb_pairs(self.source, problem, climb, deadline)
        return replace(self._restart(number, problem, climb, deadline), relaxed=relaxed, pair=pair)

    def baseline(self, number: int, seconds: float) -> Restart:
        """The best, by the estimate, of random pairs and events: as many as a climb evaluates, and more."""
        deadline, rng = Deadline(max(seconds, 1e-3)), self._rng(number)
        draws = Draws(self._noise_seed(number, 0), 0, BLOCK)
        best, z = self._drawn(number, rng)
        climb, problem = Climb(z), best
        while True:
            score = _score(problem.drawn(draws).moments(z), self.settings.alpha)
            climb.evaluations += 1
            if score > climb.value:
                best, climb.best, climb.value = problem, z, score
            if climb.evaluations == BASELINE or deadline.passed:
                break
            problem, z = self._drawn(number, rng)
        return self._restart(number, best, climb, deadline)

    def _drawn(self, number: int, rng: np.random.Generator) -> tuple[Problem, Array]:
        return next(iter(self._random(number, 0, rng, 0)), None) or self._plain(number, rng)

    def polish(self, restart: Restart, seconds: float) -> Restart:
        """The restart climbed on, by the exact ε of its event; the restart itself where that is out of reach.

        An event with ends is left behind: of numbers, the worst event of a pair follows from the pair. The estimates
        stay those of where the climb began.
        """
        if restart.candidate.form.ends:
            return self.polish_pair(restart, seconds)
        problem = self._problem(restart.candidate)
        try:
            climb = exact_ascent(problem, restart.candidate.z, Deadline(max(seconds, 1e-3)))
        except NotExact:
            return restart
        return replace(self._moved(restart, climb), verified=climb.value)

    def polish_pair(self, restart: Restart, seconds: float) -> Restart:
        """The restart climbed on, by the exact ε of its pair over all events; itself where that is out of reach."""
        problem = self._problem(restart.candidate)
        try:
            climb = pair_ascent(problem, restart.candidate.z, Deadline(max(seconds, 1e-3)))
        except NotExact:
            return restart
        if climb.value == -math.inf:
            return restart
        moved = self._moved(restart, climb)
        return replace(moved, verified=exact_value(problem, moved.candidate.z), pair=climb.value)

    def _moved(self, restart: Restart, climb: Climb) -> Restart:
        """The restart at the pair, and at the ends if these moved too, that a climb led to."""
        problem = self._problem(restart.candidate)
        z = np.concatenate([climb.best, restart.candidate.z[len(climb.best) :]])
        left, right = problem.pair(z)
        return replace(
            restart,
            left=left,
            right=right,
            event=problem.event(z),
            evaluations=restart.evaluations + climb.evaluations,
            candidate=StartingPoint.of(problem, z),
        )

    # --------------------------------------------------------------------------------------------------- stages

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.settings.seed, spawn_key=(number,)))

    def _noise_seed(self, number: int, stage: int) -> int:
        return int(np.random.SeedSequence(self.settings.seed, spawn_key=(number, stage)).generate_state(1)[0])

    def _problem(self, candidate: StartingPoint) -> Problem:
        return Problem(self.explored, candidate.place, candidate.form, candidate.end_low, candidate.end_high)

    def _met(self, number: int, deadline: Deadline) -> tuple[Problem, Array, SampleMoments]:
        """A pair and an event to climb from, and how often the event happens: where never, others are tried."""
        rng, draws = self._rng(number), Draws(self._noise_seed(number, 0), 0, BLOCK)
        for attempt in range(TRIES):
            problem, z = self._begin(number, number // 2 + attempt, rng, deadline)
            moments = problem.drawn(draws).moments(z)
            if moments.left or moments.right or deadline.passed:
                break
        return problem, z, moments

    def _is_candidate(self, problem: Problem, z: Array, moments: SampleMoments) -> bool:
        """Whether an event that no draw met on the right is a candidate for ε = ∞ as it is.

        The exact engine decides; where it cannot, draws must have met the event often enough on the left.
        """
        exact = exact_value(problem, z)
        return _score(moments, self.settings.alpha) > 0 if exact is None else exact == math.inf

    def _begin(self, number: int, turn: int, rng: np.random.Generator, deadline: Deadline) -> tuple[Problem, Array]:
        """A pair and an event: the event in turn, or the one of several that a short climb favours."""
        opened = isinstance(self.explored, OpenData)  # else a climb takes too long to be a probe
        begun: list[tuple[Problem, Array]] = []
        for _ in range(TRIES):
            begun = self._random(number, turn, rng, 1 if number % 2 or not opened else EVENTS)
            if begun:
                break
        if not begun:
            return self._plain(number, rng)
        if len(begun) == 1:
            return begun[0]
        seed = self._noise_seed(number, 0)
        best, value = begun[0], -math.inf
        for problem, z in begun:
            climb = relaxed_ascent(problem, seed, z, deadline, (PROBE,))
            if climb.value > value:
                best, value = (problem, z), climb.value
            if deadline.passed:
                break
        return best

    def _random(self, number: int, turn: int, rng: np.random.Generator, count: int) -> list[tuple[Problem, Array]]:
        """A random pair, with so many events that some draws meet."""
        draws = Draws(self._noise_seed(number, 1), 0, LOOK)
        place, point = self._place(number, rng)
        forms = self._forms or Forms(self.explored.paths(place.pair(point)[0]))
        begun = [
            with_ends(self.explored, place, draw_ends(form, rng), point, draws, rng)
            for form in _some(forms, turn, count, rng)
        ]
        return [found for found in begun if found is not None]

    def _plain(self, number: int, rng: np.random.Generator) -> tuple[Problem, Array]:
        """A random pair and output, where draws met none whose numbers could have ends."""
        place, point = self._place(number, rng)
        form = (self._forms or Forms(self.explored.paths(place.pair(point)[0]))).draw(rng).with_ends(())
        return Problem(self.explored, place, form, np.zeros(0), np.zeros(0)), point

    def _place(self, number: int, rng: np.random.Generator) -> tuple[Patch | Spot, Array]:
        """A pair: one of those given to start from, while there are any, else a random one."""
        if number < len(self.settings.start):
            pair = self.settings.start[number]
            for patch in self.patches or ():
                if (point := patch.point(pair.left, pair.right)) is not None:
                    return patch, point
            return Spot(pair.left, pair.right), np.zeros(0)
        if self.patches:
            patch = self.patches[rng.integers(len(self.patches))]
            return patch, patch.draw(rng)
        if self.source is None:
            raise RuntimeError("a neighbourhood is made of patches or of pairs")
        pair = self.source.draw(rng)
        return Spot(pair.left, pair.right), np.zeros(0)

    def _climb_pairs(
        self, source: PairSource, problem: Problem, climb: Climb, deadline: Deadline
    ) -> tuple[Problem, float | None]:
        """The pair changed one entry at a time, as long as its ε grows; and the exact ε of the last pair.

        Where that is out of reach, a lower estimate of the event's is climbed on.
        """
        pair = Pair(*problem.place.pair(climb.best), "start")
        best, improved = self._value(problem, climb.best, pair), True
        while improved and best < math.inf and not deadline.passed:
            improved = False
            for near in source.near(pair):
                value = self._value(problem, climb.best, near)
                climb.evaluations += 1
                if value > best:
                    best, pair, improved = value, near, True
                if deadline.passed or best == math.inf:
                    break
        return replace(problem, place=Spot(pair.left, pair.right)), self._exact_pair(pair)

    def _value(self, problem: Problem, z: Array, pair: Pair) -> float:
        exact = self._exact_pair(pair)
        if exact is not None:
            return exact
        spot = replace(problem, place=Spot(pair.left, pair.right))
        return _score(spot.drawn(Draws(self._noise_seed(0, 3), 0, BLOCK)).moments(z), self.settings.alpha)

    def _exact_pair(self, pair: Pair) -> float | None:
        try:
            return pair_epsilon(self.explored, pair.left, pair.right)
        except NotExact:
            return None

    def _restart(self, number: int, problem: Problem, climb: Climb, deadline: Deadline) -> Restart:
        """What is known of these variables: estimated on fresh noise, and exactly where that can be."""
        z = problem.inside(climb.best)
        moments = self._estimate(problem, z, number, deadline)
        left, right = problem.pair(z)
        met = bool(moments.left and moments.right)
        return Restart(
            number,
            left,
            right,
            problem.event(z),
            None,
            moments.epsilon,
            multivariate_clt(moments, self.settings.alpha) if met else Interval(-math.inf, math.inf),
            moments.correlation,
            moments.count,
            climb.evaluations,
            exact_value(problem, z),
            deadline.spent,
            _score(moments, self.settings.alpha),
            StartingPoint.of(problem, z),
        )

    def _estimate(self, problem: Problem, z: Array, number: int, deadline: Deadline) -> SampleMoments:
        """The unrelaxed estimate on fresh noise, as much of it as is needed."""
        seed, blocks = self._noise_seed(number, 2), iter(range(2**31))

        def more(count: int) -> SampleMoments:
            total = SampleMoments()
            for size in [BLOCK] * (count // BLOCK) + [count % BLOCK] * bool(count % BLOCK):
                total += problem.drawn(Draws(seed, next(blocks), size)).moments(z)
            return total

        return adaptive(more, self.settings.alpha, self.settings.samples, self.settings.target, deadline=deadline)


def _some(forms: Forms, turn: int, count: int, rng: np.random.Generator) -> Sequence[EventForm]:
    """This many forms: all of them if there are not more, one in turn if it is 1, a random one if it is 0."""
    if forms.listed is None or not count:
        return [forms.draw(rng) for _ in range(max(count, 1))]
    if count == 1:
        return [forms.listed[turn % len(forms.listed)]]
    chosen = rng.permutation(len(forms.listed))[:count]
    return [forms.listed[int(place)] for place in chosen]


def _score(moments: SampleMoments, alpha: float) -> float:
    """A lower estimate of ε, which does not prefer rare events for their noise."""
    if moments.left and moments.right:
        return multivariate_clt(moments, alpha).lower
    left, right = (min(round(total), moments.count) for total in (moments.left, moments.right))
    return float(log_ratio_lower(left, moments.count, right, moments.count, alpha))


def _domain_text(domain: Domain) -> str:
    if isinstance(domain, tuple) and len(domain) == 2:
        return f"[{domain[0]:g}, {domain[1]:g}]"
    return f"a domain of {len(domain)} values"


# ------------------------------------------------------------------------------------------------------------- workers
# Runs the tasks of a search in order: here, or in worker processes.


WORTH_IT = 10.0  # seconds of work past which starting processes pays


class RestartPool(WorkerPool[Searcher]):
    """Who carries out the tasks of a search; to be used as a context, which ends the workers."""

    def run(self, task: str, arguments: Sequence[Any], deadline: Deadline) -> Iterator[Any]:
        """What the Searcher's method of this name gives for each argument, until the time is up.

        The first is always computed, and here: it tells whether the others are worth starting processes for.
        """
        if self.journal is None:
            return self._computed(task, iter(arguments), len(arguments), deadline)
        return self.journal.completed(
            task,
            arguments,
            lambda others: self._computed(task, others, len(arguments), deadline),
            keep=lambda _: self.shared.in_time and not deadline.passed,  # else the clock had a say in it
        )

    def _computed(self, task: str, arguments: Iterator[Any], count: int, deadline: Deadline) -> Iterator[Any]:
        started = time.monotonic()
        for argument in itertools.islice(arguments, 1):
            yield _carried_out(self.shared, (task, argument, deadline.left))
        work = (time.monotonic() - started) * (count - 1)
        unanswered: deque[Any] = deque()

        def tasks(arguments: Iterable[Any]) -> Iterator[tuple[str, Any, float]]:
            """As long as there is time, with the seconds that are left: other machines have other clocks."""
            for argument in arguments:
                if deadline.passed:
                    return
                unanswered.append(argument)
                yield task, argument, deadline.left

        if self.executor is not None or self.own is not None or (work >= WORTH_IT and self.payload is not None):
            try:
                for result in self.results(_carried_out, tasks(arguments), per_worker=1):
                    unanswered.popleft()
                    yield result
                return
            except WorkerLost:  # what is not done yet is done here
                pass
        for one in tasks(itertools.chain(list(unanswered), arguments)):
            yield _carried_out(self.shared, one)


def _carried_out(searcher: Searcher, task: tuple[str, Any, float]) -> Any:
    name, argument, seconds = task
    return getattr(searcher, name)(argument, seconds)
