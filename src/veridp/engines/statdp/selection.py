"""The first half of a detection: a pair and an event for each test ε, chosen on samples of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from veridp.engines.statdp.inputs import InputTrial, Trials
from veridp.engines.statdp.seeds import Seeds
from veridp.engines.statdp.select import Clock, EventCandidate, Scored, contenders, finalists, recounted, rescored
from veridp.engines.statdp.shrink import choose
from veridp.kernel.wording import count_text

SECOND_LOOK = 2  # times as many runs again, for the candidates between which the first look cannot decide
LOOKED_AT_AGAIN = 6  # trials at most

Tell = Callable[[str, float], object]  # what is being done, the share done (0 to 1); raises CutShort if time is over


class Selection:
    """Looks at one pair after the other."""

    def __init__(self, trials: Trials, most: int, epsilons: Sequence[float], runs: int, seeds: Seeds) -> None:
        self.trials, self.most, self.epsilons, self.runs, self.seeds = trials, most, epsilons, runs, seeds
        self.tried: list[InputTrial] = []
        self.looked_again = 0
        self.clock = Clock()

    def run(self, tell: Tell) -> list[EventCandidate | None]:
        """The candidate chosen for each ε, of so many pairs at most; None where no event was frequent enough."""
        found: list[list[Scored]] = [[] for _ in self.epsilons]
        for number, trial in enumerate(self.trials.some(self.most)):
            tell(f"choosing events, {trial.pattern}", number / self.most)
            selected = finalists(trial, self.epsilons, self.runs, self.seeds.under(number), self.clock)
            for scored, more in zip(found, selected, strict=True):
                scored += more
            self.tried.append(trial)
        return choose(self._second_look(found, tell), self.epsilons)

    def _second_look(self, found: Sequence[Sequence[Scored]], tell: Tell) -> list[list[Scored]]:
        """The candidates, those in doubt with counts of more runs: where no event is strong, luck decides too often."""
        doubtful = [contenders(scored) for scored in found]
        groups: dict[InputTrial, list[EventCandidate]] = {}
        for scored in sorted((one for few in doubtful for one in few), key=lambda one: -one.score):
            groups.setdefault(scored.candidate.trial, []).append(scored.candidate)
        again: dict[EventCandidate, EventCandidate] = {}
        for place, trial in enumerate(list(groups)[:LOOKED_AT_AGAIN]):
            tell(f"choosing events, again {trial.pattern}", 1.0)
            seeds = self.seeds.under(len(self.tried) + 1 + place)
            again |= recounted(trial, list(dict.fromkeys(groups[trial])), SECOND_LOOK * self.runs, seeds, self.clock)
            self.looked_again = place + 1
        return [
            [one if one.candidate not in again else rescored(again[one.candidate], epsilon) for one in scored]
            for scored, epsilon in zip(found, self.epsilons, strict=True)
        ]

    def told(self) -> list[str]:
        """What was searched, in sentences."""
        sizes = sorted({trial.size for trial in self.tried})
        patterns = dict.fromkeys(trial.pattern for trial in self.tried)
        many, pairs = len(self.tried), len(self.trials.pairs)
        what = f"{many} of {pairs} pairs" if many < pairs else count_text(many, "pair")
        lengths = " and ".join(map(str, sizes))
        lines = [f"{what} of length {lengths} ({'; '.join(patterns)}), {self.runs} runs on either side"]
        if self.looked_again:
            more = SECOND_LOOK * self.runs
            lines.append(f"{self.looked_again} of them again, where that did not decide, {more} runs on either side")
        notes = dict.fromkeys(note for trial in self.tried for note in trial.notes)
        return lines + [f"arguments: {note}" for note in notes]
