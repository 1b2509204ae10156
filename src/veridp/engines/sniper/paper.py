"""The published configuration: Algorithm 1 (DP-Sniper) as it is printed, to be read beside the paper.

Its line numbers are in the comments. What is not printed there is said so. The classifiers are trained by the
published rules: logistic regression by gradient descent with rate 0.3, momentum 0.3 and regularisation 0.001, the
network (10 and 5 rectified units) by Adam with rate 0.1 and regularisation 0.0001, ten epochs each.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from veridp.adjacency import Pair
from veridp.engines.sniper.attack import HighestScores, Scorer, ThresholdAttack, paper_threshold
from veridp.engines.sniper.classifier import HIDDEN, ConstantModel, ModelFamily, Scale, TrainingRows, network_of
from veridp.engines.sniper.features import Columns, columns_for
from veridp.engines.sniper.levels import SEARCHING, LevelSearch
from veridp.engines.sniper.pair_attack import COLUMN_ROWS, MOST_NUMBERS, AttackCandidate, PairTask, Setting, seed_for
from veridp.engines.sniper.pairs import Source
from veridp.errors import BadInput
from veridp.kernel.symbols import count_text
from veridp.sampling.outputs import concatenate

C = 0.01  # the least probability of an event on the right
FINAL_SAMPLES = 200_000_000
EPOCHS = 10
CHUNK = 2**16  # outputs of either side that are held at once
BATCH = 1000  # the paper names no size


class PaperSearch(LevelSearch):
    """Algorithm 2, DD-Search: Algorithm 1 on every pair and its reversal, the best of them confirmed by one look."""

    def run(self, sources: Sequence[Source], given: Sequence[Pair]) -> None:
        forward = list(given) if given else self.starting_pairs(sources)  # line 1
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


def _drawn(setting: Setting, data: Any, count: int, key: tuple[int, ...]) -> Iterator[Any]:
    """The outputs in chunks, so that memory does not grow with their number; the same from the same key."""
    for number, start in enumerate(range(0, count, CHUNK)):
        yield setting.draw(data, min(CHUNK, count - start), *key, number)


# ---------------------------------------------------------------------------------------------------------- training


def train_classifier(setting: Setting, task: PairTask) -> Scorer:
    """A classifier of outputs by the input that they come from, trained on `samples` outputs of either (line 2)."""
    first = [setting.draw(d, COLUMN_ROWS, *task.key, 9, side) for side, d in enumerate(_sides(task))]
    columns = columns_for(concatenate(first), composed=False)
    if not columns.columns:
        return Scorer(columns, ConstantModel())
    scale = Scale.of(columns.matrix(concatenate(first)))
    learner = _learner(task.families[0], seed_for(setting.seed, *task.key, 8))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # ten epochs need not converge
        kept: list[TrainingRows] | None = None
        if 2 * task.samples * len(columns.columns) <= MOST_NUMBERS:
            kept = list(_batches(setting, task, columns))
        for _ in range(EPOCHS):
            for batch in kept if kept is not None else _batches(setting, task, columns):
                learner.partial_fit(scale(batch.matrix).astype(np.float32), batch.labels, classes=(0, 1))
    return Scorer(columns, network_of(scale, learner))


def _sides(task: PairTask) -> tuple[Any, Any]:
    return task.pair.left, task.pair.right


def _batches(setting: Setting, task: PairTask, columns: Columns) -> Iterator[TrainingRows]:
    """The training set in chunks; one that does not fit in memory is drawn again, the same, in every epoch."""
    sides = [_drawn(setting, data, task.samples, (*task.key, 0, side)) for side, data in enumerate(_sides(task))]
    for left, right in zip(*sides, strict=True):
        yield TrainingRows.of(columns.matrix(left), columns.matrix(right))


def _learner(family: ModelFamily, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    shared = {"batch_size": BATCH, "random_state": seed % 2**32}
    if family is ModelFamily.NETWORK:
        return MLPClassifier(HIDDEN, solver="adam", learning_rate_init=0.1, alpha=1e-4, **shared)
    # A network without hidden layers is a logistic regression.
    return MLPClassifier(
        (), solver="sgd", learning_rate_init=0.3, momentum=0.3, nesterovs_momentum=False, alpha=1e-3, **shared
    )
