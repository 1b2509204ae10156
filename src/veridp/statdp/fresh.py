"""The fresh sample: how often the chosen events happen in runs that had no part in choosing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veridp.budget import Deadline, Progress
from veridp.program.tally import tally
from veridp.statdp.inputs import Trial
from veridp.statdp.seeds import Seeds
from veridp.statdp.select import Candidate, Clock

AT_ONCE = 250_000  # runs between two looks at the clock, unless there are very many
PARTS = 16
LEAST = 1000  # runs, however little time there is
CAUTION = 0.7  # the share of the time that is left on which plans are made


@dataclass(frozen=True, eq=False)
class Tested:
    """A candidate with its counts in the fresh sample."""

    candidate: Candidate
    left: int
    right: int
    runs: int


class FreshCounts:
    """Runs of the trials whose events were chosen, counted.

    How many runs there are depends on what was asked for and on the clock, never on the counts.
    """

    def __init__(
        self,
        chosen: Sequence[Candidate | None],
        runs: int,
        seeds: Seeds,
        deadline: Deadline,
        progress: Progress | None,
    ) -> None:
        self.chosen, self.wanted, self.seeds, self.deadline, self.progress = chosen, runs, seeds, deadline, progress
        self.events: dict[Trial, list[Candidate]] = {}
        for candidate in chosen:
            if candidate is not None and candidate not in self.events.setdefault(candidate.trial, []):
                self.events[candidate.trial].append(candidate)
        self.counts = {trial: np.zeros((2, len(events)), dtype=np.int64) for trial, events in self.events.items()}
        self.runs = dict.fromkeys(self.events, 0)
        self.clock = Clock()

    @property
    def finished(self) -> bool:
        """Whether every trial was run as often as was asked for."""
        return all(done == self.wanted for done in self.runs.values())

    def run(self, first: int, seconds_per_run: float) -> None:
        """Run every trial, in turns, the one that is tested at place `first` of the curve before the others.

        Interrupted, keeps what was counted if that trial was run at all.
        """
        leading = self.chosen[first]
        order = sorted(self.events, key=lambda trial: leading is None or trial is not leading.trial)
        planned = self._affordable(seconds_per_run)
        step = max(AT_ONCE, -(-planned // PARTS))
        try:
            for part, start in enumerate(range(0, planned, step)):
                for place, trial in enumerate(order):
                    if self.deadline.passed and all(self.runs.values()):
                        return
                    runs = min(step, planned - start)
                    self._tell((start + runs * place / len(order)) / planned, trial)
                    self._count(trial, part, runs)
        except KeyboardInterrupt:
            if leading is None or not self.runs[leading.trial]:
                raise

    def _affordable(self, seconds_per_run: float) -> int:
        """The number of runs on each input for which there is time, as far as can be told beforehand."""
        cost = 2 * max(len(self.events), 1) * max(seconds_per_run, 1e-12)
        return int(min(self.wanted, max(CAUTION * self.deadline.left / cost, LEAST)))

    def _tell(self, done: float, trial: Trial) -> None:
        if self.progress is not None:
            self.progress(f"testing on fresh runs, {trial.pattern}", 0.5 + 0.5 * done, 0.0)

    def _count(self, trial: Trial, part: int, runs: int) -> None:
        place = list(self.events).index(trial)
        events = [candidate.event for candidate in self.events[trial]]
        with self.clock:
            sides = [
                tally(trial.mechanism, data, runs, self.seeds.of(place, side, part), events=events)
                for side, data in enumerate((trial.left, trial.right))
            ]
        self.counts[trial] += np.array([[side[index] for index in range(len(events))] for side in sides])
        self.runs[trial] += runs

    def tested(self) -> list[Tested | None]:
        """The chosen candidates with their counts, in their order."""
        found: list[Tested | None] = []
        for candidate in self.chosen:
            if candidate is None:
                found.append(None)
                continue
            place = self.events[candidate.trial].index(candidate)
            left, right = self.counts[candidate.trial][:, place].tolist()
            found.append(Tested(candidate, left, right, self.runs[candidate.trial]))
        return found

    def told(self) -> list[str]:
        """What was tested, in sentences."""
        events = sum(map(len, self.events.values()))
        if not events:
            return ["no event happened often enough to be tested"]
        runs = sorted(set(self.runs.values()))
        told = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        plural = "event" if events == 1 else "events"
        pairs = "pair" if len(self.events) == 1 else "pairs"
        return [f"{events} {plural} on {len(self.events)} {pairs} tested on {told} fresh runs on either side"]
