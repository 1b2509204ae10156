"""DP-Sniper on one pair of inputs: train classifiers, and turn the best of them into an attack; many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Pair
from veridp.budget import whole
from veridp.budget.worker import one_thread, one_thread_for_good
from veridp.engines.sniper.attack import Goal, Scorer, ThresholdAttack, best_thresholds, bit_columns, profile_levels
from veridp.engines.sniper.classifier import ConstantModel, Fit, ModelFamily, OutputTable, Training, fitted
from veridp.engines.sniper.features import Columns, columns_for
from veridp.mechanism import Mechanism
from veridp.sampling.checkpoint import Journal
from veridp.sampling.outputs import Outputs, concatenate
from veridp.sampling.plan import SharedTrials
from veridp.sampling.sample import sample
from veridp.sampling.worker_pool import ATTEMPTS, WorkerPool

# --------------------------------------------------------------------------------------------------------------- tasks
# Tasks of a search, run in parallel by a worker pool.
#
# A task is a function of the search's setting and an argument, and draws from its own streams: results do not depend on
# the worker. The setting is sent to a worker once; `changes` to it are sent with each task.


Argument = TypeVar("Argument")
Found = TypeVar("Found")


class TaskPool(WorkerPool[Any]):
    """Who runs the tasks of a search; to be used as a context, which ends the workers."""

    def __init__(
        self,
        setting: Any,
        executor: Executor | None = None,
        workers: int | None = None,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(setting, executor, None if workers is None else whole("workers", workers), journal=journal)
        self.changes: dict[str, Any] = {}
        self.limits: Any = None

    @property
    def setting(self) -> Any:
        """The setting of the tasks that are run now."""
        return replace(self.shared, **self.changes)

    @property
    def hands(self) -> int:
        """How many tasks run at a time."""
        return 1 if self.payload is None else self.size

    def __enter__(self) -> TaskPool:
        if self.payload is None:
            self.limits = one_thread()
        return self

    def __exit__(self, *error: object) -> None:
        if self.limits is not None:
            self.limits.restore_original_limits()
        super().__exit__(*error)

    def run(self, function: Callable[[Any, Argument], Found], arguments: Iterable[Argument]) -> Iterator[Found]:
        """What the function finds for each argument, in their order; the arguments are taken as they are needed."""
        if self.payload is None and self.journal is None:
            return (function(self.setting, argument) for argument in arguments)
        tasks = ((function, self.changes, argument) for argument in arguments)
        carried_out = _here if self.payload is None else _in_worker
        lost = f"a task of the search ended its worker {ATTEMPTS} times"
        return self.remembered(carried_out, tasks, name=function.__qualname__, lost=lambda _: lost)


def _in_worker(setting: Any, task: tuple[Callable[[Any, Any], Any], dict[str, Any], Any]) -> Any:
    one_thread_for_good()  # tasks run side by side, and are small: their threads would wait for each other
    return _here(setting, task)


def _here(setting: Any, task: tuple[Callable[[Any, Any], Any], dict[str, Any], Any]) -> Any:
    function, changes, argument = task
    return function(replace(setting, **changes), argument)


# --------------------------------------------------------------------------------------------------------- pair attack
# DP-Sniper on one pair of inputs: train classifiers, and turn the best of them into a threshold attack.
#
# Algorithm 1 of the paper, with its parts exchangeable: which families are tried, and how the threshold is chosen. One
# classifier distinguishes left from right, and its negative right from left: a pair and its reversal cost one training.


Floats = NDArray[np.float64]
COLUMN_ROWS = 10_000  # outputs of either side from which the columns are learnt
PIECE = 2**20  # outputs that are drawn at once
MOST_HELD_OUT = 2**22  # of either side: their scores are kept until the threshold is chosen
MOST_NUMBERS = 2**26  # entries of a training matrix, 512 MB: more samples than fit are left out
SEEN_WELL = 500  # outputs for each that a table knows
WORTH = 0.05  # a family less simple must promise so much more, relatively
PROFILE_EVENTS = 6
TRADEOFF_EVENTS = 10  # for claims of notions that many events refute together
NEAR_LEVELS = 12


@dataclass(frozen=True)
class Setting:
    """What all tasks of a search share."""

    mechanism: Mechanism
    seed: int
    goal: Goal
    bits: bool = False
    reading: str | None = None
    time_limit: float | None = 60.0
    expected: int = 0  # samples of the whole level: compiling may pay for these
    trials: SharedTrials = field(default_factory=SharedTrials, compare=False, repr=False)
    search_trials: SharedTrials = field(default_factory=SharedTrials, compare=False, repr=False)

    def draw(self, data: object, count: int, *key: int) -> Outputs:
        """Fresh outputs to learn from, not to certify anything by; which ones depends on the seed and the key alone."""
        return sample(
            self.mechanism,
            data,
            count,
            seed_for(self.seed, *key),
            reading=self.reading,
            workers=1,
            time_limit=self.time_limit,
            expected=self.expected,
            trials=self.search_trials,
        )


def seed_for(seed: int, *key: int) -> int:
    """A seed of its own for each key."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class PairTask:
    """A pair to look into: with so many training and as many held-out samples of either side."""

    pair: Pair
    samples: int
    held_out: int
    families: tuple[ModelFamily, ...]
    key: tuple[int, ...]  # makes the samples its own
    learnt: Scorer | None = None  # on another pair: nothing is trained then


@dataclass(frozen=True, eq=False)
class AttackCandidate:
    """An attack on a pair, and what it promises: the bound to expect from its confirmation."""

    pair: Pair
    attack: ThresholdAttack
    promise: float
    left: float  # the share of held-out outputs of the left input that the attack takes
    right: float
    ranking: tuple[ModelFamily, ...]  # the families tried, the most promising first
    levels: tuple[float, ...]  # other thresholds worth a look
    columns: int  # that tell outputs apart
    drawn: int
    held_out: int = 1  # outputs of either input that these shares are of
    near: tuple[float, ...] = ()  # thresholds of rarer and more frequent events that promise almost as much

    @property
    def estimate(self) -> float:
        """ln of the ratio of the held-out shares: an estimate, not a bound."""
        return math.log(self.left / self.right) if self.left and self.right else math.inf if self.left else -math.inf

    def optimistic_bound(self, goal: Goal) -> float:
        """The bound that the confirmation may come to if held-out luck was against the attack."""
        left, right = (np.array([round(share * self.held_out)], dtype=np.float64) for share in (self.left, self.right))
        return float(goal.optimistic_bound(left, self.held_out, right, self.held_out)[0])


class Stream:
    """Fresh outputs of an input, drawn piece by piece as they are taken: memory is needed for one piece at a time."""

    def __init__(self, setting: Setting, data: object, count: int, key: tuple[int, ...]) -> None:
        sizes = [min(PIECE, count - start) for start in range(0, count, PIECE)]
        self.pieces = (setting.draw(data, size, *key, number) for number, size in enumerate(sizes))
        self.piece: Outputs | None = None
        self.drawn = 0

    def take(self, count: int) -> Iterator[Outputs]:
        """The next `count` outputs, in parts."""
        while count > 0:
            if self.piece is None or not len(self.piece):
                self.piece = next(self.pieces)
                self.drawn += len(self.piece)
            part, self.piece = self.piece[:count], self.piece[count:]
            count -= len(part)
            yield part


def best_attack(setting: Setting, task: PairTask) -> AttackCandidate:
    """The most promising attack on the pair, in either direction."""
    pair, held_out = task.pair, min(task.held_out, MOST_HELD_OUT)
    sides = enumerate((pair.left, pair.right))
    samples = task.samples if task.learnt is None else 0
    streams = [Stream(setting, data, samples + held_out, (*task.key, side)) for side, data in sides]
    columns, scorers = _trained(setting, task, streams) if task.learnt is None else (task.learnt.columns, [task.learnt])
    left, right = (_scores(scorers, stream.take(held_out)) for stream in streams)
    scored = zip(scorers, left, right, strict=True)
    found = [_aimed(scorer, pair, mine, theirs, setting.goal) for scorer, mine, theirs in scored]
    drawn = sum(stream.drawn for stream in streams)
    if not found:
        return _nothing(pair, columns, drawn)
    best = _simplest_good(found)
    ranking = tuple(c.attack.scorer.family for c in sorted(found, key=lambda c: -c.promise))
    return replace(best, ranking=ranking, columns=len(columns.columns), drawn=drawn)


def _trained(setting: Setting, task: PairTask, streams: Sequence[Stream]) -> tuple[Columns, list[Scorer]]:
    """The columns that vary, and a scorer of each family that serves."""
    training = _training(setting, task, streams)
    columns = training.columns
    seed = seed_for(setting.seed, *task.key, len(streams))
    fits = list(_fits(task.families, training, seed)) if columns.columns else []
    return columns, [Scorer(columns.only(fit.places), fit.model) for fit in fits]


def _fits(families: Sequence[ModelFamily], training: Training, seed: int) -> Iterator[Fit]:
    """A model of each family that serves; where a table knows every output well, one entry is all else that is tried.

    The order of an entry's numbers tells about rare ones what counts cannot.
    """
    known_well = False
    for family in families:
        if known_well and family is not ModelFamily.ENTRY:
            continue
        fit = fitted(family, training, seed)
        if fit is not None:
            yield fit
            known_well |= isinstance(fit.model, OutputTable) and SEEN_WELL * len(fit.model.keys) <= len(training)


def _training(setting: Setting, task: PairTask, streams: Sequence[Stream]) -> Training:
    """The columns, learnt from the first outputs, and as much of the training set as its matrix has room for."""
    extra = [bit_columns((task.pair.left, task.pair.right))] if setting.bits else []
    first = [concatenate(list(stream.take(min(task.samples, COLUMN_ROWS)))) for stream in streams]
    columns = columns_for(concatenate([replace(side, notes=()) for side in first]), extra=extra)
    rows = min(task.samples, MOST_NUMBERS // (2 * max(1, len(columns.columns))))
    left, right = ([side, *stream.take(max(0, rows - len(side)))] for side, stream in zip(first, streams, strict=True))
    return Training(columns, left, right)


def _scores(scorers: Sequence[Scorer], parts: Iterator[Outputs]) -> list[Floats]:
    """The scores of all parts by each of the scorers, sorted."""
    scored: list[list[Floats]] = [[] for _ in scorers]
    for part in parts:
        for scorer, scores in zip(scorers, scored, strict=True):
            scores.append(scorer(part))
    return [np.sort(np.concatenate(scores)) for scores in scored]


def _aimed(scorer: Scorer, pair: Pair, left: Floats, right: Floats, goal: Goal) -> AttackCandidate:
    """The best threshold on the sorted scores of held-out outputs, in the better direction."""
    forward = best_thresholds(left, right, goal, 1 + NEAR_LEVELS)
    backward = best_thresholds(-right[::-1], -left[::-1], goal, 1 + NEAR_LEVELS)
    turned = backward[0].promise > forward[0].promise
    chosen, *near = backward if turned else forward
    if turned:
        scorer, pair, left, right = scorer.turned(), pair.reversed(), -right[::-1], -left[::-1]
    top, events = chosen.promise, PROFILE_EVENTS
    if goal.notion is not None:
        top, events = best_thresholds(left, right, replace(goal, notion=None))[0].promise, TRADEOFF_EVENTS
    levels = profile_levels(left, right, np.linspace(0.0, max(top, 0.0), events))
    return AttackCandidate(
        pair,
        ThresholdAttack(scorer, chosen.level, chosen.tie),
        chosen.promise,
        chosen.left,
        chosen.right,
        (),
        tuple(level for level in np.unique(levels).tolist() if level != chosen.level),
        0,
        0,
        len(left),
        tuple(other.level for other in near),
    )


def _simplest_good(found: Sequence[AttackCandidate]) -> AttackCandidate:
    """The most promising candidate, or the simplest that is hardly worse."""
    best = max(candidate.promise for candidate in found)
    order = list(ModelFamily)
    enough = best - WORTH * abs(best)
    good = [candidate for candidate in found if candidate.promise >= enough]
    return min(good, key=lambda candidate: order.index(candidate.attack.scorer.family))


def _nothing(pair: Pair, columns: Columns, drawn: int) -> AttackCandidate:
    """Where no column varies, there is nothing to tell the inputs apart by."""
    attack = ThresholdAttack(Scorer(columns, ConstantModel()), 0.0, text="any output")
    return AttackCandidate(pair, attack, -math.inf, 1.0, 1.0, (), (), 0, drawn)


# --------------------------------------------------------------------------------------------------------------- pilot
# A few samples ahead of a level, which tell whether few outputs differ.
#
# Every worker draws them, the same ones: what is done once in a process, such as compiling the mechanism, is done in
# all at a time, and what they tell does not depend on how many workers there are.


MAX_PILOT_SAMPLES = 50_000  # samples


@dataclass(frozen=True)
class PilotTask:
    """So many samples of this input to draw."""

    data: object
    samples: int
    key: tuple[int, ...]


def piloted(setting: Setting, task: PilotTask) -> bool:
    outputs = setting.draw(task.data, task.samples, *task.key)
    return outputs.grouped(len(outputs) // SEEN_WELL) is not None


def few_outputs(pool: TaskPool, data: object, samples: int, key: tuple[int, ...]) -> tuple[bool, int]:
    """Whether so few outputs differ that each is seen often, among at most so many samples; and how many were drawn."""
    task = PilotTask(data, min(samples, MAX_PILOT_SAMPLES), key)
    few = set(pool.run(piloted, [task] * pool.hands))
    return few == {True}, task.samples
