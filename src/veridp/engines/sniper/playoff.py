"""The playoff: attacks that held-out samples cannot separate are counted on many more, and the best one is confirmed.

There are far fewer held-out samples than samples of the confirmation, and the best of many attacks on them is partly
the luckiest. The playoff counts a few attacks, fixed in advance, in rounds: half of them advance to twice as many
samples. It stores only the counts. The confirmation draws fresh samples, so the selection costs no α.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from veridp.engines.sniper.confirm import Counts, counted
from veridp.engines.sniper.pair_attack import AttackCandidate
from veridp.engines.sniper.power import Goal
from veridp.engines.sniper.tasks import TaskPool

Floats = NDArray[np.float64]
DOUBT = 1.0  # standard errors by which rates are taken pessimistically: few attacks leave less to luck than many


@dataclass
class Contender:
    """A candidate, and how often outputs reached its thresholds so far: its own first, then others."""

    candidate: AttackCandidate
    levels: tuple[float, ...]
    key: tuple[int, ...]
    totals: Counts
    samples: int = 0

    @classmethod
    def of(cls, candidate: AttackCandidate, key: tuple[int, ...]) -> Contender:
        levels = tuple(dict.fromkeys((*candidate.levels, *candidate.near)))
        return cls(candidate, levels, key, np.zeros((2, 1 + len(levels)), dtype=np.int64))

    def count(self, pool: TaskPool, samples: int) -> Iterator[int]:
        """Count until `samples` of either side are seen; yield the size of each part."""
        key = (*self.key, self.samples)
        for side, part, counts in counted(pool, self.candidate, self.levels, samples - self.samples, key):
            self.totals[side] += counts
            yield part
        self.samples = samples

    @property
    def seen(self) -> tuple[Floats, int, Floats, int]:
        """How often outputs of either side reached each threshold, of how many."""
        left, right = self.totals.astype(np.float64)
        return left, self.samples, right, self.samples

    def optimistic_bound(self, goal: Goal) -> float:
        """The bound that the confirmation may reach if the candidate was unlucky here."""
        return float(goal.optimistic_bound(*self.seen).max())

    def settled(self, goal: Goal) -> AttackCandidate:
        """The candidate with its best threshold so far, and the bound that it promises now."""
        bounds = goal.expected(*self.seen, DOUBT)
        best = int(np.argmax(bounds))
        left, right = (self.totals[:, best] / self.samples).tolist()
        chosen = replace(self.candidate, promise=float(bounds[best]), left=left, right=right, held_out=self.samples)
        if best == 0:
            return chosen
        level = self.levels[best - 1]
        others = tuple(other for other in chosen.levels if other != level)
        return replace(chosen, attack=replace(chosen.attack, level=level, tie=1.0), levels=others)


@dataclass(frozen=True)
class PlayoffState:
    """How a playoff stands: the best after the last round, how many outputs were drawn, and the share that is done."""

    best: AttackCandidate
    drawn: int
    share: float


def _rounds(contenders: int) -> int:
    return (contenders - 1).bit_length()


def playoff(
    pool: TaskPool, candidates: Sequence[AttackCandidate], samples: int, key: tuple[int, ...], goal: Goal
) -> Iterator[PlayoffState]:
    """The state after each counted part; at most two candidates are counted on `samples` of either input.

    Each earlier round counts twice as many candidates on half as many samples. Candidates advance only if their
    optimistic bound reaches the leader's.
    """
    left = [Contender.of(candidate, (*key, number)) for number, candidate in enumerate(candidates)]
    rounds = _rounds(len(left))
    best, drawn = candidates[0], 0
    for number in range(rounds):
        for place, contender in enumerate(left):
            for part in contender.count(pool, max(1, samples >> (rounds - 1 - number))):
                drawn += part
                yield PlayoffState(best, drawn, (number + place / len(left)) / rounds)
        standing = sorted(((one.settled(goal), one) for one in left), key=lambda pair: -pair[0].promise)
        best = standing[0][0]
        yield PlayoffState(best, drawn, (number + 1) / rounds)
        going_on = [one for _, one in standing[: (len(left) + 1) // 2]]
        left = [one for one in going_on if one.optimistic_bound(goal) >= best.promise]
        if len(left) < 2:
            return
