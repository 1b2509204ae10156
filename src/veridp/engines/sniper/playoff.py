"""The playoff: attacks that held-out samples cannot tell apart are counted on many more, and the best of them goes on.

Held-out samples are few beside those of the confirmation, and the best of many attacks on them is in part the luckiest.
Here a few attacks, fixed beforehand, are counted by rounds: half of them go on to twice as many samples. Memory is
needed for the counts alone. The confirmation draws samples of its own, so that nothing is to be paid for the choice.
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
DOUBT = 1.0  # standard errors by which rates are read pessimistically: a few attacks leave less to luck than many


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

    def count(self, crew: TaskPool, samples: int) -> Iterator[int]:
        """Count until so many samples of either side are seen, telling after each part how many it had."""
        key = (*self.key, self.samples)
        for side, part, counts in counted(crew, self.candidate, self.levels, samples - self.samples, key):
            self.totals[side] += counts
            yield part
        self.samples = samples

    @property
    def seen(self) -> tuple[Floats, int, Floats, int]:
        """How often outputs of either side reached each threshold, of how many."""
        left, right = self.totals.astype(np.float64)
        return left, self.samples, right, self.samples

    def hoped(self, goal: Goal) -> float:
        """The bound that the confirmation may come to if luck was against the candidate here."""
        return float(goal.hoped(*self.seen).max())

    def settled(self, goal: Goal) -> AttackCandidate:
        """The candidate with the threshold that has turned out best, and what that promises now."""
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
    crew: TaskPool, candidates: Sequence[AttackCandidate], samples: int, key: tuple[int, ...], goal: Goal
) -> Iterator[PlayoffState]:
    """How it stands, after each part that is counted; two candidates at most are counted on `samples` of either input.

    In each round before, twice as many are counted on half as many samples. Who has no hope is out.
    """
    left = [Contender.of(candidate, (*key, number)) for number, candidate in enumerate(candidates)]
    rounds = _rounds(len(left))
    best, drawn = candidates[0], 0
    for number in range(rounds):
        for place, contender in enumerate(left):
            for part in contender.count(crew, max(1, samples >> (rounds - 1 - number))):
                drawn += part
                yield PlayoffState(best, drawn, (number + place / len(left)) / rounds)
        standing = sorted(((one.settled(goal), one) for one in left), key=lambda pair: -pair[0].promise)
        best = standing[0][0]
        yield PlayoffState(best, drawn, (number + 1) / rounds)
        going_on = [one for _, one in standing[: (len(left) + 1) // 2]]
        left = [one for one in going_on if one.hoped(goal) >= best.promise]
        if len(left) < 2:
            return
