"""The fresh sample: how often the chosen events happen in runs that had no part in choosing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veridp.engines.statdp.inputs import InputTrial, Seeds
from veridp.engines.statdp.select import Clock, EventCandidate, Tell
from veridp.kernel.symbols import count_text
from veridp.sampling.sample import tally

AT_ONCE = 250_000  # runs between two looks at the clock, unless there are very many
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

    def __init__(self, chosen: Sequence[EventCandidate | None], runs: int, seeds: Seeds) -> None:
        self.chosen, self.runs, self.seeds = chosen, runs, seeds
        self.events: dict[InputTrial, list[EventCandidate]] = {}
        for candidate in chosen:
            if candidate is not None and candidate not in self.events.setdefault(candidate.trial, []):
                self.events[candidate.trial].append(candidate)
        self.counts = {trial: np.zeros((2, len(events)), dtype=np.int64) for trial, events in self.events.items()}
        self.clock = Clock()

    def run(self, tell: Tell) -> None:
        """Run every trial as often as asked for, in turns."""
        step = max(AT_ONCE, -(-self.runs // PARTS))
        for part, start in enumerate(range(0, self.runs, step)):
            runs = min(step, self.runs - start)
            for place, trial in enumerate(self.events):
                done = (start + runs * place / len(self.events)) / self.runs
                tell(f"testing on fresh runs, {trial.pattern}", done)
                self._count(trial, part, runs)

    def _count(self, trial: InputTrial, part: int, runs: int) -> None:
        place = list(self.events).index(trial)
        events = [candidate.event for candidate in self.events[trial]]
        with self.clock:
            sides = [
                tally(trial.mechanism, data, runs, self.seeds.of(place, side, part), events=events)
                for side, data in enumerate((trial.left, trial.right))
            ]
        self.counts[trial] += np.array([[side[index] for index in range(len(events))] for side in sides])

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

    def told(self) -> list[str]:
        """What was tested, in sentences."""
        events = sum(map(len, self.events.values()))
        if not events:
            return ["no event happened often enough to be tested"]
        what = f"{count_text(events, 'event')} on {count_text(len(self.events), 'pair')}"
        return [f"{what} tested on {self.runs} fresh runs on either side"]
