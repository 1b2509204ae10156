"""DP-Sniper on one pair of inputs: train classifiers, and turn the best of them into a threshold attack.

Algorithm 1 of the paper, with its parts exchangeable: which families are tried, and how the threshold is chosen. Left
and right are told apart by one classifier, whose negative tells them apart the other way round: a pair and its
reversal cost one training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from veridp.adjacency import Pair
from veridp.mechanism import Mechanism
from veridp.program.outputs import Outputs, concatenate
from veridp.program.sample import sample
from veridp.sniper.attack import Scorer, ThresholdAttack
from veridp.sniper.bits import bit_columns
from veridp.sniper.classifier import Constant, Family, Labelled, fitted
from veridp.sniper.columns import Columns, columns_for
from veridp.sniper.power import Goal, best_threshold, profile_levels

COLUMN_ROWS = 20_000  # outputs from which the columns are learnt
MOST_NUMBERS = 2**25  # entries of a training matrix, 256 MB: more samples than fit are left out
WORTH = 0.03  # a family less simple must promise so much more, relatively
PROFILE_EVENTS = 8


@dataclass(frozen=True)
class Setting:
    """What all tasks of a search share."""

    mechanism: Mechanism
    seed: int
    goal: Goal
    bits: bool = False
    reading: str | None = None
    time_limit: float | None = 60.0

    def draw(self, data: object, count: int, *key: int) -> Outputs:
        """Fresh outputs; which ones depends on the seed and the key alone."""
        return sample(
            self.mechanism,
            data,
            count,
            seed_for(self.seed, *key),
            reading=self.reading,
            workers=1,
            time_limit=self.time_limit,
        )


def seed_for(seed: int, *key: int) -> int:
    """A seed of its own for each key."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Task:
    """A pair to look into: with so many training and as many held-out samples of either side."""

    pair: Pair
    samples: int
    held_out: int
    families: tuple[Family, ...]
    key: tuple[int, ...]  # makes the samples its own


@dataclass(frozen=True, eq=False)
class Candidate:
    """An attack on a pair, and what it promises: the bound to expect from its confirmation."""

    pair: Pair
    attack: ThresholdAttack
    promise: float
    left: float  # the share of held-out outputs of the left input that the attack takes
    right: float
    ranking: tuple[Family, ...]  # the families tried, the most promising first
    levels: tuple[float, ...]  # of scores: events for the privacy profile
    columns: int  # that tell outputs apart
    drawn: int

    @property
    def estimate(self) -> float:
        """ln of the ratio of the held-out shares: an estimate, not a bound."""
        return math.log(self.left / self.right) if self.left and self.right else math.inf if self.left else -math.inf


def scout(setting: Setting, task: Task) -> Candidate:
    """The most promising attack on the pair, in either direction."""
    pair = task.pair
    count = task.samples + task.held_out
    drawn = [setting.draw(data, count, *task.key, side) for side, data in enumerate((pair.left, pair.right))]
    columns, training = _training(setting, task, [outputs[: task.samples] for outputs in drawn])
    held_out = [outputs[task.samples :] for outputs in drawn]
    found = []
    for family in task.families if columns.columns else ():
        fit = fitted(family, training, seed_for(setting.seed, *task.key, len(drawn)))
        if fit is not None:
            found.append(_aimed(Scorer(columns.only(fit.places), fit.model), pair, held_out, setting.goal))
    if not found:
        return _nothing(pair, columns, 2 * count)
    best = _simplest_good(found)
    ranking = tuple(c.attack.scorer.family for c in sorted(found, key=lambda c: -c.promise))
    return replace(best, ranking=ranking, columns=len(columns.columns), drawn=2 * count)


def _training(setting: Setting, task: Task, outputs: list[Outputs]) -> tuple[Columns, Labelled]:
    extra = [bit_columns((task.pair.left, task.pair.right))] if setting.bits else []
    some = concatenate([replace(side[: COLUMN_ROWS // 2], notes=()) for side in outputs])
    columns = columns_for(some, extra=extra)
    rows = MOST_NUMBERS // (2 * max(1, len(columns.columns)))
    left, right = (columns.matrix(side[:rows]) for side in outputs)
    return columns, Labelled.of(left, right)


def _aimed(scorer: Scorer, pair: Pair, held_out: Sequence[Outputs], goal: Goal) -> Candidate:
    """The best threshold on the scores, in the better direction."""
    left, right = (np.sort(scorer(outputs)) for outputs in held_out)
    forward, backward = best_threshold(left, right, goal), best_threshold(-right[::-1], -left[::-1], goal)
    turned = backward.promise > forward.promise
    chosen = backward if turned else forward
    if turned:
        scorer, pair, left, right = scorer.turned(), pair.reversed(), -right[::-1], -left[::-1]
    levels = profile_levels(left, right, np.linspace(0.0, max(chosen.promise, 0.0), PROFILE_EVENTS, endpoint=False))
    return Candidate(
        pair,
        ThresholdAttack(scorer, chosen.level, chosen.tie),
        chosen.promise,
        chosen.left,
        chosen.right,
        (),
        tuple(np.unique(levels).tolist()),
        0,
        0,
    )


def _simplest_good(found: Sequence[Candidate]) -> Candidate:
    """The most promising candidate, or the simplest that is hardly worse."""
    best = max(candidate.promise for candidate in found)
    order = list(Family)
    enough = best - WORTH * abs(best)
    good = [candidate for candidate in found if candidate.promise >= enough]
    return min(good, key=lambda candidate: order.index(candidate.attack.scorer.family))


def _nothing(pair: Pair, columns: Columns, drawn: int) -> Candidate:
    """Where no column varies, there is nothing to tell the inputs apart by."""
    attack = ThresholdAttack(Scorer(columns, Constant()), 0.0, text="any output")
    return Candidate(pair, attack, -math.inf, 1.0, 1.0, (), (), 0, drawn)
