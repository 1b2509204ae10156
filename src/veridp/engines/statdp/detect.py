"""Counterexample detection (Algorithm 1): choose events on one sample, test them on a fresh one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from veridp.adjacency import Pair
from veridp.budget import GROWTH, Deadline, Level, Progress, levels, out_of_time
from veridp.budget.child_process import Reporter, contained
from veridp.budget.notebook_progress import shows_progress
from veridp.claim import Claim, Interval, Witness
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper
from veridp.engines.statdp.candidates import InputTrial, Seeds, Trials, given_pairs, usual_pairs
from veridp.engines.statdp.hypothesis_test import p_values
from veridp.engines.statdp.result import CurvePoint, Detection
from veridp.engines.statdp.select import (
    EventCandidate,
    EventTask,
    RunDraws,
    Selection,
    Tell,
    TrialPool,
    count_events,
    score,
)
from veridp.errors import BadInput, CutShort
from veridp.kernel.symbols import count_text
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.sampling.checkpoint import Journal
from veridp.sampling.plan import SharedTrials
from veridp.sampling.sample import check_returns

# -------------------------------------------------------------------------------------------------------- confirmation
# The fresh sample: how often the chosen events happen in runs that had no part in choosing them.


AT_ONCE = 2**19  # runs between two looks at the clock, unless there are very many: one block of a batch
PARTS = 16


@dataclass(frozen=True, eq=False)
class Tested:
    """A candidate with its counts in the fresh sample."""

    candidate: EventCandidate
    left: int
    right: int
    runs: int


class FreshCounts:
    """Runs of the trials whose events were chosen, counted."""

    def __init__(self, pool: TrialPool, chosen: Sequence[EventCandidate | None], runs: int, seeds: Seeds) -> None:
        self.pool, self.chosen, self.runs, self.seeds = pool, chosen, runs, seeds
        self.events: dict[InputTrial, list[EventCandidate]] = {}
        for candidate in chosen:
            if candidate is not None and candidate not in self.events.setdefault(candidate.trial, []):
                self.events[candidate.trial].append(candidate)
        self.counts = {trial: np.zeros((2, len(events)), dtype=np.int64) for trial, events in self.events.items()}
        self.sampling_seconds = 0.0

    def run(self, tell: Tell) -> None:
        """Run every trial as often as asked for, in turns."""
        turns = itertools.cycle(self.events)
        for trial, (counts, seconds) in zip(turns, self.pool.remembered(count_events, self._tasks(tell)), strict=False):
            self.counts[trial] += counts
            self.sampling_seconds += seconds

    def _tasks(self, tell: Tell) -> Iterator[EventTask]:
        step = max(AT_ONCE, -(-self.runs // PARTS))
        for part, start in enumerate(range(0, self.runs, step)):
            runs = min(step, self.runs - start)
            for place, (trial, candidates) in enumerate(self.events.items()):
                done = (start + runs * place / len(self.events)) / self.runs
                tell(f"testing on fresh runs, {trial.pattern}", done)
                left, right = (self.seeds.of(place, side, part) for side in (0, 1))
                yield EventTask(trial, tuple(one.event for one in candidates), runs, (left, right))

    def tested(self) -> list[Tested | None]:
        """The chosen candidates with their counts, in their order."""
        found: list[Tested | None] = []
        for candidate in self.chosen:
            if candidate is None:
                found.append(None)
                continue
            place = self.events[candidate.trial].index(candidate)
            left, right = self.counts[candidate.trial][:, place].tolist()
            found.append(Tested(candidate, left, right, self.runs))
        return found

    def summary(self) -> list[str]:
        """What was tested, in sentences."""
        events = sum(map(len, self.events.values()))
        if not events:
            return ["no event happened often enough to be tested"]
        what = f"{count_text(events, 'event')} on {count_text(len(self.events), 'pair')}"
        return [f"{what} tested on {self.runs} fresh runs on either side"]


# -------------------------------------------------------------------------------------------------------------- detect
# Counterexample detection (Algorithm 1): choose events on one sample, test them on another.


GRID = np.arange(2, 23) / 10  # the usual test ε, as shares of the claimed one
# Twice, since the mean of p-values over the thinning is a p-value only up to a factor of 2; and twice again, since the
# smaller of two directions is taken.
CORRECTION = 4
LEAST_RUNS = 30  # of the first level
ROUNDS, DETECTION_PARTS = 4, 5  # in each round an interval that holds a crossing is cut into so many parts
NEAR = 0.05  # how far off, relatively, the normal approximation of a crossing may well be


@shows_progress
def detect(
    mechanism: Mechanism | Function,
    epsilon: float | None = None,
    size: int | None = None,
    *,
    test_epsilons: Sequence[float] | None = None,
    pairs: Sequence[Any] | None = None,
    first_pairs: Sequence[Any] = (),
    selection_samples: int = 100_000,
    samples: int = 500_000,
    seconds: float = math.inf,
    alpha: float = 0.05,
    seed: int = 0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    **arguments: Any,
) -> Detection:
    """Whether the mechanism's claim stands up to statistical tests, and the curve of p-values around it.

    `epsilon` is the claimed budget: the mechanism's argument of that name, or what it claims where it has none. The
    mechanism is run with it, and tested against each of the test ε (from 0.2 to 2.2 times the claim if not given, the
    claim always among them). `pairs` replaces the patterns of neighbours, of lengths 5 and 10 or of `size`;
    `first_pairs` are tried before them.
    Arguments that are neither given here nor part of the claim are searched for; `arguments` fixes them.

    For each test ε, the pair and the event that speak most against it are chosen on `selection_samples` runs on either
    side (twice as many more for a few pairs, where these do not decide), and tested on `samples` fresh ones. What is
    guaranteed: a corrected p-value is four times the smaller of the two directions' expected p-values, divided by the
    share of α that its level has, and at least that of every smaller test ε. It is <= α with probability at most α if
    the mechanism is private with that ε, and all of the curve's are so together: claims are nested (private with ε
    means private with each larger one), so the first true one on the way up would have to be rejected for any true one
    to be, and its p-value alone counts. What is not: that a claim which is not refuted is true.

    Before that, all of it is done with a quarter of the runs and pairs, with a 16th, and so on, each time on fresh runs
    and at a share of α of its own. The best bound of these levels counts, and a claim that one of them refutes stays
    refuted. What is found depends on the seed and these options alone, and not on the speed of the machine, unless it
    is cut short by `seconds`, by the limit on memory or by Ctrl-C. Then it is what the levels until then found, and
    `finished` is False; more seconds never give a smaller bound, unless the noise cannot be seeded.
    Raises CutShort where no level was completed.
    With an `executor`, pairs are looked at on its workers, and the `seconds` are kept between tasks only. What was
    counted is kept in the file `checkpoint`; with `resume`, the detection goes on from there, with as many `seconds`
    again, and ends with what it would have found uninterrupted.
    """
    deadline = Deadline(seconds)
    bound, claim = _claimed(as_mechanism(mechanism, **arguments), epsilon)
    _check(selection_samples, samples, alpha)
    epsilons = _grid(claim, test_epsilons)
    chosen_pairs = given_pairs(bound, pairs) if pairs is not None else usual_pairs(bound, size)
    chosen_pairs = [*given_pairs(bound, first_pairs), *chosen_pairs] if first_pairs else chosen_pairs
    # Where tasks run here, one after the other, each may draw its outputs on as many processes as there are cores.
    draws = RunDraws(None if executor is None else 1, SharedTrials([pair.left for pair in chosen_pairs]))
    options = claim, epsilons, chosen_pairs, selection_samples, samples, alpha, seed
    journal = Journal.at(checkpoint, resume, "statdp", bound, options)
    pool = TrialPool(draws, executor, 1 if executor is None else None, journal=journal)
    run = _DetectionRun(bound, claim, epsilons, chosen_pairs, selection_samples, samples, alpha, seed, deadline, pool)
    return contained(run, deadline, known=(bound,), progress=progress, here=executor is not None)


@dataclass(frozen=True, eq=False)
class _LevelTests:
    """What one level found."""

    curve: tuple[CurvePoint, ...]
    epsilon_lower: float
    witness: Witness | None
    searched: tuple[str, ...]
    sampling_seconds: float


@dataclass(eq=False)
class _DetectionRun:
    """A detection, level after level."""

    mechanism: Mechanism
    claim: Claim
    epsilons: list[float]
    pairs: Sequence[Pair]
    selection_samples: int
    samples: int
    alpha: float
    seed: int
    deadline: Deadline
    pool: TrialPool
    done: list[_LevelTests] = field(default_factory=list)

    def __call__(self, reporter: Reporter) -> Detection:
        if not self.mechanism.missing():  # arguments that are left open are found for each pair
            check_returns(self.mechanism, (side for pair in self.pairs for side in (pair.left, pair.right)))
        trials = Trials(self.mechanism, self.pairs)
        steps = levels(min(self.selection_samples, self.samples), LEAST_RUNS)
        try:
            with self.pool:
                for level in steps:
                    self.done.append(self._tests(level, trials, reporter))
                    reporter.best(self._result(len(steps)))
        except (CutShort, KeyboardInterrupt):
            if not self.done:
                raise
        return self._result(len(steps))

    def _tests(self, level: Level, trials: Trials, reporter: Reporter) -> _LevelTests:
        start = GROWTH ** (-level.below - 1) if self.done else 0.0

        def tell(stage: str, share: float) -> None:
            if self.done and self.deadline.passed:  # the first level leaves something to report
                raise out_of_time(self.deadline.seconds)
            reporter.progress(stage, start + share * (GROWTH**-level.below - start), 0.0)

        runs, seeds = level.of(self.selection_samples), Seeds(self.seed, (2, level.below) if level.below else ())
        selection = Selection(self.pool, trials, level.of(len(self.pairs)), self.epsilons, runs, seeds.under(0))
        chosen = selection.run(lambda stage, share: tell(stage, share / 2))
        counts = FreshCounts(self.pool, chosen, level.of(self.samples), seeds.under(1))
        counts.run(lambda stage, share: tell(stage, (1 + share) / 2))
        tested, correction = counts.tested(), CORRECTION / level.alpha_share
        curve = _curve(self.epsilons, tested, correction)
        at_claim = tested[self.epsilons.index(self.claim.epsilon)]
        return _LevelTests(
            curve,
            _epsilon_lower(curve, self.alpha, correction),
            _witness(self.mechanism, at_claim, self.alpha, level.alpha_share),
            (*selection.summary(), *counts.summary()),
            selection.sampling_seconds + counts.sampling_seconds,
        )

    def _result(self, planned: int) -> Detection:
        """What the levels found together, by the curve and the witness of the last that refutes, or of the last."""
        done = self.done
        finished = len(done) == planned
        cut = () if finished else (f"cut short at level {len(done) + 1} of {planned}",)
        results = [
            Detection(
                self.mechanism,
                self.claim,
                tests.curve,
                max(one.epsilon_lower for one in done),
                self.alpha,
                tests.witness,
                (*done[-1].searched, *cut),
                finished,
                self.deadline.spent,
                sum(one.sampling_seconds for one in done),
            )
            for tests in done
        ]
        return next((result for result in reversed(results) if result.refuted), results[-1])


def _claimed(mechanism: Mechanism, epsilon: float | None) -> tuple[Mechanism, Claim]:
    mechanism = mechanism.claiming(epsilon)
    claim = mechanism.claim
    if claim is None:
        raise BadInput(f"{mechanism.name} has no claimed ε; give epsilon=…")
    if claim.delta:
        raise BadInput(
            f"{mechanism.name} claims {claim}, but StatDP tests only ε; use the exact engine or the sniper for δ > 0"
        )
    return mechanism, claim


def _check(selection_samples: int, samples: int, alpha: float) -> None:
    for name, count in (("selection_samples", selection_samples), ("samples", samples)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise BadInput(f"{name} must be an integer >= 1, got {count!r}")
    if not 0 < alpha < 1:
        raise BadInput(f"alpha must be in (0, 1), got {alpha!r}")


def _grid(claim: Claim, given: Sequence[float] | None) -> list[float]:
    """The test ε in rising order, the claimed one among them."""
    wanted = (GRID * claim.epsilon).tolist() if given is None else [float(epsilon) for epsilon in given]
    for epsilon in wanted:
        if not (math.isfinite(epsilon) and epsilon >= 0):
            raise BadInput(f"test_epsilons must be finite numbers >= 0, got {epsilon!r}")
    others = [epsilon for epsilon in wanted if not math.isclose(epsilon, claim.epsilon, rel_tol=1e-9)]
    return sorted({*others, claim.epsilon})


# ------------------------------------------------------------------------------------------------------------ tests


def _curve(epsilons: Sequence[float], tested: Sequence[Tested | None], correction: float) -> tuple[CurvePoint, ...]:
    """The points of the curve, with corrected p-values that never fall."""
    left, right, runs = (
        np.array([getattr(one, name) if one is not None else 0 for one in tested]) for name in ("left", "right", "runs")
    )
    levels = [Claim(epsilon).tolerated.epsilon for epsilon in epsilons]  # so that a rejection excludes the claim
    forward, backward = p_values([left, right], [right, left], runs, levels)
    points = []
    least = 0.0  # what the smaller test ε had
    for place, (epsilon, one) in enumerate(zip(epsilons, tested, strict=True)):
        top, bottom = float(forward[place]), float(backward[place])
        corrected_top, corrected_bottom = (max(least, min(correction * p, 1.0)) for p in (top, bottom))
        point = CurvePoint(epsilon, top, bottom, corrected_top, corrected_bottom)
        least = point.corrected_p_value
        if one is not None:
            trial = one.candidate.trial
            point = replace(
                point,
                event=one.candidate.event,
                left=trial.left,
                right=trial.right,
                arguments=dict(trial.arguments),
                left_count=one.left,
                right_count=one.right,
                runs=one.runs,
            )
        points.append(point)
    return tuple(points)


def _epsilon_lower(curve: Sequence[CurvePoint], alpha: float, correction: float) -> float:
    """The ε below which everything is refuted at level alpha, were there a test at each.

    Between two test ε, and below the first, the event of the upper one is tested, beyond the last that of the last:
    chosen without using the fresh sample, so that the argument for the grid holds for all ε.
    """
    reached = 0.0
    for point in curve:
        if point.corrected_p_value > alpha:
            return _crossing(point, reached, point.epsilon, alpha / correction)
        reached = point.epsilon
    return _crossing(curve[-1], reached, math.inf, alpha / correction)


def _crossing(point: CurvePoint, low: float, high: float, alpha: float) -> float:
    """The largest ε within low..high, to some digits and from below, at which the event's p-value is at most alpha."""
    above, below = max(point.left_count, point.right_count), min(point.left_count, point.right_count)

    def significant(levels: Any) -> Any:
        return p_values(above, below, point.runs, levels) <= alpha

    if point.event is None or not point.runs or not significant(low):
        return low
    guess = _normal_crossing(above, below, point.runs, alpha)
    low, high = _bracket(significant, low, high, guess)
    for _ in range(ROUNDS):
        levels = np.linspace(low, high, DETECTION_PARTS + 1)
        last = int(np.count_nonzero(significant(levels[1:-1])))  # significant at the first, and not at the last
        low, high = float(levels[last]), float(levels[last + 1])
    return low


def _bracket(significant: Any, low: float, high: float, guess: float) -> tuple[float, float]:
    """A part of low..high, or all of it, that ends where `significant` does; it holds at low."""
    near = [min(max(level, low), high) for level in (guess * (1 - NEAR), guess * (1 + NEAR))]
    begins, ends = significant(np.array(near)).tolist()
    if not begins:
        return low, near[0]
    if not ends:
        return near[0], near[1]
    while math.isinf(high):
        beyond = 2 * near[1] + 1
        if not significant(beyond):
            return near[1], beyond
        near[1] = beyond
    return near[1], high


def _normal_crossing(above: int, below: int, runs: int, alpha: float) -> float:
    """Where the normal approximation of the p-value crosses alpha; only a guess."""
    from scipy.special import ndtri

    low, high, wanted = 0.0, 50.0, -float(ndtri(alpha))
    while high - low > 1e-6:
        middle = (low + high) / 2
        passed = float(score(np.array([above]), np.array([below]), runs, middle)[0]) > wanted
        low, high = (middle, high) if passed else (low, middle)
    return low


def _witness(mechanism: Mechanism, tested: Tested | None, alpha: float, share: float) -> Witness | None:
    """The event that was tested at the claimed ε, with intervals for both probabilities that hold together.

    They fail with probability at most this share of alpha, so that those of all levels hold together too.
    """
    if tested is None or not tested.runs:
        return None
    trial = tested.candidate.trial
    sides = [(trial.left, tested.left), (trial.right, tested.right)]
    if tested.right > tested.left:
        sides.reverse()
    (left, more), (right, less) = sides
    return Witness(
        left,
        right,
        tested.candidate.event,
        _interval(more, tested.runs, share * alpha / 4),
        _interval(less, tested.runs, share * alpha / 4),
        1 - alpha,
        {**mechanism.arguments, **trial.arguments},
    )


def _interval(count: int, runs: int, alpha: float) -> Interval:
    """An interval for a probability, of which either end fails with probability at most alpha."""
    return Interval(float(clopper_pearson_lower(count, runs, alpha)), float(clopper_pearson_upper(count, runs, alpha)))
