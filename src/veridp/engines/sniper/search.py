"""DD-Search: the strongest certified attack on a mechanism that can only be run; and the configuration of the paper."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from veridp.adjacency import Adjacency, Pair
from veridp.budget import Deadline, Level, Progress, levels, share, whole
from veridp.budget.child_process import Reporter, contained
from veridp.budget.notebook_progress import shows_progress
from veridp.claim import Claim
from veridp.engines.sniper.attack import Goal, HighestScores, Scorer, ThresholdAttack, paper_threshold, sample_size
from veridp.engines.sniper.classifier import (
    ALL,
    DEFAULT,
    HIDDEN,
    ConstantModel,
    ModelFamily,
    Scale,
    TrainingRows,
    check_installed,
    network_of,
)
from veridp.engines.sniper.confirm import ALL_AT_ONCE, Look, Spending
from veridp.engines.sniper.features import Columns, columns_for
from veridp.engines.sniper.levels import ABOUT_IN_ALL, SEARCHING, LevelPlan, LevelSearch
from veridp.engines.sniper.pair_attack import (
    COLUMN_ROWS,
    AttackCandidate,
    PairTask,
    Setting,
    TaskPool,
    seed_for,
)
from veridp.engines.sniper.pairs import PairStream, Source, given_pairs, sources_named
from veridp.engines.sniper.refutation import RefutationSearch
from veridp.engines.sniper.result import DESCRIBED, AttackResult, finding_of
from veridp.errors import BadInput, CutShort
from veridp.kernel.symbols import count_text
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.sampling.checkpoint import Journal
from veridp.sampling.outputs import concatenate
from veridp.sampling.plan import SharedTrials

# --------------------------------------------------------------------------------------------------------------- paper
# The published configuration: Algorithm 1 (DP-Sniper) as it is printed, to be read beside the paper.
#
# Its line numbers are in the comments. What is not printed there is said so. The classifiers are trained by the
# published rules: logistic regression by gradient descent with rate 0.3, momentum 0.3 and regularisation 0.001, the
# network (10 and 5 rectified units) by Adam with rate 0.1 and regularisation 0.0001. What the paper does not say is in
# its code (github.com/eth-sri/dp-sniper): the “ten epochs” are ten steps on each batch of 10^5 outputs of either side,
# batch by batch, and the rate is a tenth after every 500 steps.


C = 0.01  # the least probability of an event on the right
FINAL_SAMPLES = 200_000_000
CHUNK = 2**16  # outputs of either side that are held at once
BATCH = 100_000  # outputs of either side that a step learns from
STEPS = 10  # on each batch
STEPS_AT_RATE = 500  # after which the rate is a tenth


class PaperSearch(LevelSearch):
    """Algorithm 2, DD-Search: Algorithm 1 on every pair and its reversal, the best of them confirmed by one look."""

    def run(self, sources: Sequence[Source], given: Sequence[Pair]) -> None:
        forward = [*self.first, *(given or self.starting_pairs(sources))]  # line 1
        pairs = [pair for one in forward for pair in (one, one.reversed())]
        self.searched.append("both directions")
        self.begin(self.plan)
        n, families = self.plan.samples, self.plan.families
        tries = enumerate(itertools.product(pairs, families))
        tasks = [PairTask(pair, n, n, (family,), (SEARCHING, number)) for number, (pair, family) in tries]
        best: AttackCandidate | None = None
        for done, candidate in enumerate(self.pool.run(dp_sniper, tasks), start=1):  # lines 2 to 4
            self.tried.add(done)
            self.drawn += candidate.drawn
            if best is None or candidate.promise > best.promise:  # line 5
                best = candidate
            self.tell(f"DP-Sniper on {count_text(len(tasks), 'pair')}", done / len(tasks))
            self.keep_time()
        if best is None:
            raise BadInput(f"{self.setting.mechanism.name}: no pair of neighbours to try; give pairs=[(left, right)]")
        self.confirmed(best)  # line 6
        self.finished = True


def dp_sniper(setting: Setting, task: PairTask) -> AttackCandidate:
    """Algorithm 1 on the pair in its given direction, with an estimate of its power on fresh samples.

    The estimate is line 4 of Algorithm 2; it stands in `promise`, and is neither certified nor a bound.
    """
    pair = task.pair
    scorer = train_classifier(setting, task)  # line 2
    highest = HighestScores(math.ceil(C * task.held_out) + 1)
    for outputs in _drawn(setting, pair.right, task.held_out, (*task.key, 1)):  # lines 3 and 4
        highest.add(scorer(outputs))
    level, tie = paper_threshold(highest, C)  # lines 5 to 7
    attack = ThresholdAttack(scorer, level, tie)  # line 8
    left, right = (_mass(setting, attack, data, task, side) for side, data in enumerate((pair.left, pair.right)))
    power = math.log(left / right) if left and right else -math.inf
    drawn = 2 * task.samples + 3 * task.held_out
    return AttackCandidate(pair, attack, power, left, right, (scorer.family,), (), len(scorer.columns.columns), drawn)


def _mass(setting: Setting, attack: ThresholdAttack, data: Any, task: PairTask, side: int) -> float:
    """The share of fresh outputs that the attack takes; of those that tie, the share that it expects to take."""
    taken = 0.0
    for outputs in _drawn(setting, data, task.held_out, (*task.key, 2 + side)):
        scores = attack.scorer(outputs)
        taken += np.count_nonzero(scores > attack.level) + attack.tie * np.count_nonzero(scores == attack.level)
    return taken / task.held_out


def _drawn(setting: Setting, data: Any, count: int, key: tuple[int, ...], chunk: int = CHUNK) -> Iterator[Any]:
    """The outputs in chunks, so that memory does not grow with their number; the same from the same key."""
    for number, start in enumerate(range(0, count, chunk)):
        yield setting.draw(data, min(chunk, count - start), *key, number)


# ---------------------------------------------------------------------------------------------------------- training


def train_classifier(setting: Setting, task: PairTask) -> Scorer:
    """A classifier of outputs by the input that they come from, trained on `samples` outputs of either (line 2)."""
    first = [setting.draw(d, COLUMN_ROWS, *task.key, 9, side) for side, d in enumerate(_sides(task))]
    columns = columns_for(concatenate(first), composed=False)
    if not columns.columns:
        return Scorer(columns, ConstantModel())
    scale = Scale.of(columns.matrix(concatenate(first)))
    learner = _learner(task.families[0], min(task.samples, BATCH), seed_for(setting.seed, *task.key, 8))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # so few steps need not converge
        for number, batch in enumerate(_batches(setting, task, columns)):
            matrix = scale(batch.matrix).astype(np.float32)
            for step in range(number * STEPS, (number + 1) * STEPS):
                if step and step % STEPS_AT_RATE == 0:
                    _slow_down(learner)
                learner.partial_fit(matrix, batch.labels, classes=(0, 1))
    return Scorer(columns, network_of(scale, learner))


def _sides(task: PairTask) -> tuple[Any, Any]:
    return task.pair.left, task.pair.right


def _batches(setting: Setting, task: PairTask, columns: Columns) -> Iterator[TrainingRows]:
    """The training set, batch by batch."""
    sides = [_drawn(setting, data, task.samples, (*task.key, 0, side), BATCH) for side, data in enumerate(_sides(task))]
    for left, right in zip(*sides, strict=True):
        yield TrainingRows.of(columns.matrix(left), columns.matrix(right))


def _learner(family: ModelFamily, batch: int, seed: int) -> Any:
    """A learner that takes one step on each batch that it is given."""
    from sklearn.neural_network import MLPClassifier

    shared = {"batch_size": 2 * batch, "shuffle": False, "random_state": seed % 2**32}
    # The published loss has λ times the squared weights, scikit-learn's has α/2 of them for all rows together.
    if family is ModelFamily.NETWORK:
        return MLPClassifier(HIDDEN, solver="adam", learning_rate_init=0.1, alpha=4e-4 * batch, **shared)
    # A network without hidden layers is a logistic regression.
    return MLPClassifier(
        (), solver="sgd", learning_rate_init=0.3, momentum=0.3, nesterovs_momentum=False, alpha=4e-3 * batch, **shared
    )


def _slow_down(learner: Any) -> None:
    """A tenth of the rate from here on; scikit-learn has no such schedule."""
    optimizer = learner._optimizer
    optimizer.learning_rate_init /= 10
    optimizer.learning_rate = optimizer.learning_rate_init


# -------------------------------------------------------------------------------------------------------------- search
# DD-Search: the strongest certified attack on a mechanism that can only be run.
#
# Algorithm 2 of the paper, made stronger: pairs compete by successive halving, the best lead to more pairs near them,
# these are trained with all samples, a playoff on many more settles which of them wins, and what the winner certifies
# is counted on fresh ones. All of this is done first with few samples, then with more, up to as many as were asked for;
# the best bound of all these levels counts. `paper=True` runs the algorithm as published, at one level.


SAMPLES, FINAL = 1_000_000, 10_000_000
SECONDS = 120.0
LEAST_SAMPLES = 30  # of the first level, for training
FEW_SAMPLES = 50_000  # with fewer in all, starting workers takes longer than the search


@shows_progress
def search(
    mechanism: Mechanism | Function,
    size: int | None = None,
    *,
    pairs: str | Iterable[Any] | None = None,
    first_pairs: Sequence[Any] = (),
    samples: int | None = None,
    final_samples: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
    claim: Claim | float | None = None,
    delta: float | None = None,
    width: float | None = None,
    models: Iterable[str] | None = None,
    bits: bool = False,
    paper: bool = False,
    until_refuted: bool = False,
    reading: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    time_limit: float | None = 60.0,
    **arguments: Any,
) -> AttackResult:
    """The strongest certified attack found: a lower bound on ε that is too high with probability 1 - confidence.

    `pairs` are sources of inputs to try ("patterns", "corners", "random", "moves"; all, if not given), or pairs
    (left, right) themselves; `first_pairs` are tried before these, in every level. The winner is trained on `samples`
    outputs of either input and confirmed on `final_samples` fresh ones, after searches with a quarter of the samples
    and pairs, a 16th and so on: the best bound of all these levels counts. With a `claim`, no level follows one that
    refutes it and has at least a quarter of the samples. The confirmation of the top level ends as soon as the claim
    is refuted; with a `width`, as soon as the bound is that close to its estimate. With `until_refuted`, the search
    is for a refutation alone, of the claim or else of the mechanism's own: it tests events as it finds them, block by
    block, and ends with the first block that refutes the claim, often after some hundred samples; the bound is then
    seldom tight. The bound is for δ = `delta` (that of the claim, or of the mechanism's claim, if not given). `models`
    restricts the families of classifiers. `bits` adds what the bits of floating-point outputs tell, and draws them by
    the author's own arithmetic (one by one, or vectorised). `paper` runs the published configuration: patterns and
    reversals, one classifier with a fixed c = 0.01, one look at the end.

    What is found depends on the seed and these options alone, and not on executor, workers or the speed of the machine,
    unless it is cut short by `seconds`, by the limit on memory or by Ctrl-C. Then it is the best bound until then, and
    `finished` is False; more seconds never give a smaller bound, unless the noise cannot be seeded.
    CutShort is raised where there is no bound yet.
    Nothing is guaranteed about inputs that were not tried; the bound holds whatever was tried. With an `executor` the
    `seconds` are kept between tasks only. Results of tasks are kept in the file `checkpoint`; with `resume`, the search
    goes on from there, with as many `seconds` again, and ends with what it would have found uninterrupted.
    """
    declared = isinstance(mechanism, Mechanism)
    mechanism = as_mechanism(mechanism, **arguments).stating(size=size)
    stated = declared or "adjacency" not in mechanism.assumed
    confidence, seed = share("confidence", confidence), whole("seed", seed, 0)
    if until_refuted:
        claim = mechanism.claim if claim is None else claim
        if claim is None or paper:
            reason = "cannot be combined with paper" if paper else "needs a claim to refute; give claim=..."
            raise BadInput(f"until_refuted {reason}")
    claim, goal_delta = _claims(mechanism, claim, delta)
    plan = LevelPlan(
        level=Level(0, 1.0),
        samples=whole("samples", (sample_size() if paper else SAMPLES) if samples is None else samples),
        final=whole("final_samples", (FINAL_SAMPLES if paper else FINAL) if final_samples is None else final_samples),
        families=_families(models, paper),
        spending=ALL_AT_ONCE if paper else Spending(),
        alpha=1 - confidence,
        stop_at=claim,
        width=width,
    )
    check_installed(ALL if paper else plan.families)
    plans = [plan] if paper else [plan.at(level) for level in levels(plan.samples, LEAST_SAMPLES)]
    if bits and reading is None:
        reading = "vectorised" if mechanism.vectorised else "one-by-one"
    known = claim or mechanism.claim
    notion = None if known is None or delta is not None else known.notion
    goal = Goal(plan.final, plans[-1].alpha * plan.spending.last, goal_delta, notion)
    if workers is None and executor is None and ABOUT_IN_ALL * plan.samples < FEW_SAMPLES:
        workers = 1
    deadline = Deadline((math.inf if paper else SECONDS) if seconds is None else seconds)
    kind = PaperSearch if paper else RefutationSearch if until_refuted else LevelSearch
    chosen = _chosen_pairs(pairs, first_pairs, mechanism.adjacency if stated else None, paper)
    options = kind.__name__, plans, goal, seed, bits, reading, chosen
    run = _SearchRun(
        kind,
        plans,
        Setting(mechanism, seed, goal, bits, reading, time_limit),
        executor,
        workers,
        Journal.at(checkpoint, resume, "sniper", mechanism, options),
        *chosen,
        claim if claim is not None else mechanism.claim,
        confidence,
        deadline,
    )
    return contained(run, deadline, known=(mechanism,), progress=progress, here=executor is not None)


@dataclass(frozen=True, eq=False)
class _SearchRun:
    """A search that reports the best bound as it goes on."""

    kind: type[LevelSearch]
    plans: list[LevelPlan]
    setting: Setting
    executor: Executor | None
    workers: int | None
    journal: Journal | None
    sources: tuple[Source, ...]
    given: list[Pair]
    first: list[Pair]
    claim: Claim | None
    confidence: float
    deadline: Deadline

    def __call__(self, reporter: Reporter) -> AttackResult:
        pairs = PairStream(self.setting.mechanism, self.setting.mechanism.size)
        setting = replace(self.setting, search_trials=SharedTrials(self._examples(replace(pairs, seen=set()))))
        pool, texts = TaskPool(setting, self.executor, self.workers, self.journal), dict[Look, str]()
        search_run = self.kind(self.plans, pool, pairs, self.deadline, reporter.progress, self.first)

        def result(in_words: bool) -> AttackResult:
            return finding_of(
                search_run.setting,
                search_run.looks,
                texts,
                size=pairs.size,
                claim=self.claim,
                confidence=self.confidence,
                outputs=min(DESCRIBED, search_run.plan.samples) if in_words else 0,
                drawn=search_run.drawn,
                tried=len(search_run.tried),
                searched=tuple(search_run.summary()),
                finished=search_run.finished,
                seconds=self.deadline.spent,
            )

        search_run.certified = lambda: reporter.best(result(in_words=False))
        search_run.completed = lambda: reporter.best(result(in_words=True))
        try:
            with pool:
                search_run.run(self.sources, self.given)
        except (CutShort, KeyboardInterrupt):
            if not search_run.looks:
                raise
        return result(in_words=True)

    def _examples(self, pairs: PairStream) -> list[object]:
        """Inputs such as those that will be tried."""
        return [pair.left for pair in (*self.first, *(self.given or itertools.islice(pairs.patterns(), 1)))]


def _claims(mechanism: Mechanism, claim: Claim | float | None, delta: float | None) -> tuple[Claim | None, float]:
    """The claim to refute, and the δ at which ε is bounded."""
    if claim is not None and not isinstance(claim, Claim):
        claim = Claim(claim, delta or 0.0)
    if delta is not None:
        return claim, Claim(0.0, delta).delta
    known = claim or mechanism.claim
    return claim, known.delta if known is not None else 0.0


def _families(models: Iterable[str] | None, paper: bool) -> tuple[ModelFamily, ...]:
    if models is None:
        return (ModelFamily.LINEAR,) if paper else DEFAULT
    wanted = [models] if isinstance(models, str) else list(models)
    for name in wanted:
        if name not in ALL:
            raise BadInput(f"models = {name!r} is unknown; use some of {', '.join(repr(str(f)) for f in ALL)}")
    return tuple(family for family in ALL if family in wanted)


def _chosen_pairs(
    pairs: str | Iterable[Any] | None, first: Sequence[Any], relation: Adjacency | None, paper: bool
) -> tuple[tuple[Source, ...], list[Pair], list[Pair]]:
    """The sources to draw pairs from, the pairs that were given, and those to try first."""
    first = given_pairs(first, relation) if first else []
    if pairs is None:
        return ((Source.PATTERNS,) if paper else tuple(Source)), [], first
    if isinstance(pairs, str):
        pairs = [pairs]
    given = list(pairs)
    if given and all(isinstance(name, str) for name in given):
        return sources_named(given), [], first
    return (), given_pairs(given, relation), first
