"""The first half of a detection: a pair and an event for each test ε, chosen on samples of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from veridp.adjacency import Pair
from veridp.budget import Deadline, Progress
from veridp.mechanism import Mechanism
from veridp.program.sample import check_returns, sample
from veridp.statdp.inputs import Trial, trials
from veridp.statdp.seeds import Seeds
from veridp.statdp.select import Candidate, Clock, Scored, contenders, finalists, recounted, rescored
from veridp.statdp.shrink import choose

SHARE = 0.5  # of the time that there is
PILOTS = (100, 10_000)  # runs that tell how long a run takes; the second where the first took next to no time
NEXT_TO_NOTHING = 0.01  # of the time that is left
LEAST = 1000  # runs, however little time there is
SECOND_LOOK = 2  # times as many runs again, for the candidates between which the first look cannot decide
LOOKED_AT_AGAIN = 6  # trials at most


class Selection:
    """Looks at one pair after the other.

    Where the time is limited, the number of runs is cut to what it allows for; how many there are never depends
    on their outputs.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        epsilons: Sequence[float],
        runs: int,
        seeds: Seeds,
        deadline: Deadline,
        progress: Progress | None,
    ) -> None:
        self.mechanism, self.epsilons, self.wanted, self.seeds = mechanism, epsilons, runs, seeds
        self.deadline, self.progress = deadline.part(SHARE) if math.isfinite(deadline.seconds) else deadline, progress
        self.runs = runs
        self.tried: list[Trial] = []
        self.pairs = 0
        self.looked_again = 0
        self.clock = Clock()

    @property
    def finished(self) -> bool:
        """Whether every pair was looked at, with as many runs as were asked for."""
        return len(self.tried) == self.pairs and self.runs == self.wanted

    @property
    def seconds_per_run(self) -> float:
        """What a run on one input took."""
        runs = 2 * self.runs * (len(self.tried) + SECOND_LOOK * self.looked_again)
        return self.clock.seconds / max(runs, 1)

    def run(self, pairs: Sequence[Pair]) -> list[Candidate | None]:
        """The candidate chosen for each ε; None where no event was frequent enough."""
        found: list[list[Scored]] = [[] for _ in self.epsilons]
        self.pairs = len(pairs)
        if not self.mechanism.missing():  # arguments that are left open are found for each pair
            check_returns(self.mechanism, (side for pair in pairs for side in (pair.left, pair.right)))
        for number, trial in enumerate(trials(self.mechanism, pairs)):
            if self.progress is not None:
                self.progress(f"choosing events, {trial.pattern}", 0.5 * number / len(pairs), 0.0)
            if not number:
                self._afford(trial)
            selected = finalists(trial, self.epsilons, self.runs, self.seeds.under(number), self.clock)
            for scored, more in zip(found, selected, strict=True):
                scored += more
            self.tried.append(trial)
            if self.deadline.passed:
                break
        if not self.deadline.passed:
            found = self._second_look(found)
        return choose(found, self.epsilons)

    def _second_look(self, found: Sequence[Sequence[Scored]]) -> list[list[Scored]]:
        """The candidates, those in doubt with counts of more runs: where no event is strong, luck decides too often."""
        doubtful = [contenders(scored) for scored in found]
        groups: dict[Trial, list[Candidate]] = {}
        for scored in sorted((one for few in doubtful for one in few), key=lambda one: -one.score):
            groups.setdefault(scored.candidate.trial, []).append(scored.candidate)
        again: dict[Candidate, Candidate] = {}
        for place, trial in enumerate(list(groups)[:LOOKED_AT_AGAIN]):
            if self.progress is not None:
                self.progress(f"choosing events, again {trial.pattern}", 0.5, 0.0)
            seeds = self.seeds.under(self.pairs + 1 + place)
            again |= recounted(trial, list(dict.fromkeys(groups[trial])), SECOND_LOOK * self.runs, seeds, self.clock)
            self.looked_again = place + 1
        return [
            [one if one.candidate not in again else rescored(again[one.candidate], epsilon) for one in scored]
            for scored, epsilon in zip(found, self.epsilons, strict=True)
        ]

    def _afford(self, trial: Trial) -> None:
        """Cut the number of runs to what the time allows for."""
        if math.isinf(self.deadline.seconds):
            return
        for count in PILOTS:
            clock = Clock()
            with clock:
                sample(trial.mechanism, trial.left, count, self.seeds.of(self.pairs))
            cost = clock.seconds / count
            if clock.seconds > NEXT_TO_NOTHING * self.deadline.left:
                break
        affordable = self.deadline.left / (2 * self.pairs * max(cost, 1e-9))
        self.runs = int(min(self.runs, max(affordable, LEAST)))

    def told(self) -> list[str]:
        """What was searched, in sentences."""
        sizes = sorted({trial.size for trial in self.tried})
        patterns = dict.fromkeys(trial.pattern for trial in self.tried)
        many = len(self.tried)
        what = f"{many} of {self.pairs} pairs" if many < self.pairs else f"{many} pair{'' if many == 1 else 's'}"
        lengths = " and ".join(map(str, sizes))
        lines = [f"{what} of length {lengths} ({'; '.join(patterns)}), {self.runs} runs on either side"]
        if self.looked_again:
            more = SECOND_LOOK * self.runs
            lines.append(f"{self.looked_again} of them again, where that did not decide, {more} runs on either side")
        notes = dict.fromkeys(note for trial in self.tried for note in trial.notes)
        return lines + [f"arguments: {note}" for note in notes]
