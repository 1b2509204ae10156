"""A program run on two inputs, aligned; and the further runs that tell what depends on noise and what on data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.pipeline.alignment import (
    NOISY_DECISION,
    Aligner,
    Matching,
    RunAlignment,
    kind_of,
    near,
)
from veridp.engines.pipeline.mixtures import continuous, ends_of_tails, redrawn
from veridp.engines.pipeline.recording import (
    Choice,
    Coin,
    Decision,
    NoisyValue,
    Program,
    ProgramRun,
    Script,
)
from veridp.engines.pipeline.releases import ReleaseCosts
from veridp.errors import MechanismFailed
from veridp.kernel.noise import Uniform
from veridp.kernel.site import Site, branch_to
from veridp.verdict import Remark

Array = NDArray[np.float64]
MIN_SAME_WAY = 3  # runs that go one way, to tell what noise does not change there
FRESH_RUNS = 6  # on either side, with other noise: what they share does not depend on noise
MORE_RUNS = 40  # where the noise decides something: a biased coin may well fall the same way seven times
OFTEN = 0.25  # of the runs on one side have a value that no run on the other has: chance does not explain it
MAX_TURNED = 16  # coins and choices that are turned, to see whether a value depends on them
MAX_LINES = 4  # whose first draw, toss or choice is turned or moved far, to see where rare noise leads
MAX_OPTIONS = 4  # of a choice that are tried
RARE = 1e-4  # probability of the tail into which noise is moved


@dataclass(eq=False)
class AlignedRuns:
    """The runs, and what follows from them."""

    program: Program
    left_data: Any
    right_data: Any
    seed: int
    script: Script | None = None  # of the left run, where the seed alone does not say it

    def __post_init__(self) -> None:
        self.runs, self.marks = 0, True
        self.remarks: list[Remark] = []
        script = self.script or Script(self.seed)
        first = self.run(self.left_data, script)
        plain = self.run(self.left_data, Script.repeating(first), marks=False)
        if not same_output(first, plain):
            again = self.run(self.left_data, Script.repeating(first), marks=False)
            self.marks = False
            if same_output(plain, again):
                sentence = "the program treats marked numbers in another way than floats; decisions are not followed"
            else:
                sentence = "it gives other outputs on the same noise: some of its randomness is out of sight"
            self.remarks.append(Remark(sentence))
            first = self.run(self.left_data, script, marks=False)
        self.left = first
        aligner = Aligner(self.program, self.left, self.right_data, self.marks)
        self.alignment: RunAlignment = aligner.align()
        self.runs += aligner.runs
        if self.left.raised is not None and self.left.raised == self.matching.right.raised:
            where = "" if self.left.raised_at is None else self.left.raised_at.prefix
            raise MechanismFailed(
                f"{where}{self.program.mechanism.name} {self.left.raised} on both inputs; give two on which it returns"
            )

    def run(self, data: Any, script: Script, *, marks: bool | None = None, follow: bool = False) -> ProgramRun:
        """One run more, on marked numbers if the program takes them."""
        self.runs += 1
        return self.program.run(data, script, marks=self.marks if marks is None else marks, follow=follow)

    @property
    def matching(self) -> Matching:
        """The two runs, the right one with its noise shifted."""
        return self.alignment.matching

    @cached_property
    def aligned(self) -> bool:
        """Whether the right run on plain numbers, with shifted noise, gives the output of the left one."""
        if not self.matching.whole or self.alignment.residual:
            return False
        run = self.run(self.right_data, Script.repeating(self.left, self.alignment.shifts), marks=False)
        return same_output(self.left, run)

    @cached_property
    def costs(self) -> ReleaseCosts:
        """All that was released in both runs, with its cost."""
        uniform = any(isinstance(draw.distribution, Uniform) for draw in self.left.draws)
        others = self.others if uniform else []
        sides = self.left_data, self.right_data
        return ReleaseCosts(self.program, *sides, self.left, others, self.alignment, self.marks)

    # ------------------------------------------------------------------------------------------------------ other noise

    @cached_property
    def others(self) -> list[ProgramRun]:
        """Runs on the left with other noise."""
        return self._fresh_runs(self.left_data, range(FRESH_RUNS))

    @cached_property
    def fresh(self) -> tuple[list[ProgramRun], list[ProgramRun]]:
        """The first run, and runs on either side with other noise."""
        return [self.left, *self.others], self._fresh_runs(self.right_data, range(FRESH_RUNS))

    @cached_property
    def _more(self) -> tuple[list[ProgramRun], list[ProgramRun]]:
        """Further runs on either side, of a program whose noise decides something."""
        if not any(isinstance(event, Choice | Decision) for event in self.left.events if type(event) is not NoisyValue):
            return [], []
        numbers = range(FRESH_RUNS, FRESH_RUNS + MORE_RUNS)
        return self._fresh_runs(self.left_data, numbers), self._fresh_runs(self.right_data, numbers)

    def _fresh_runs(self, data: Any, numbers: range) -> list[ProgramRun]:
        seeds = (np.random.SeedSequence([self.seed, 1 + k]).generate_state(1)[0].item() for k in numbers)
        return [self.run(data, Script(seed)) for seed in seeds]

    def other_noise(self, *, rare: bool) -> list[Script]:
        """Other noise with which the two runs may show more, or cost more, than with this one.

        That is noise for which the left run goes another way through the program or draws from other distributions, and
        noise for which the shift found here does not keep the output; the latter comes first. It is fresh noise. With
        `rare` it is also this noise moved between two values of the data that it is compared with, or with a coin or a
        choice turned, or with a draw in one of its tails.
        """
        sources: list[list[tuple[Script, ProgramRun]]] = [[(Script(run.script.seed), run) for run in self.others]]
        between = (script for _, script in self.between)
        for scripts in (between, self._turned, self._extreme) if rare else ():
            sources.append([(script, self.run(self.left_data, script)) for script in scripts])
        seen = {_noisy_way(self.left)}
        apart, others = ([list[Script]() for _ in sources] for _ in range(2))
        for place, source in enumerate(sources):
            for script, left in source:
                shifts = self.alignment.shifts if len(left.draws) == len(self.left.draws) else None
                right = self.run(self.right_data, Script.repeating(left, shifts))
                if _way(left) != _way(right) or not same_output(left, right):
                    apart[place].append(script)
                elif _noisy_way(left) not in seen:
                    others[place].append(script)
                seen.add(_noisy_way(left))
        turns = itertools.chain(itertools.zip_longest(*apart), itertools.zip_longest(*others))
        return [script for turn in turns for script in turn if script is not None]

    @cached_property
    def slopes(self) -> Array:
        """Of the values that are to be the same, on the right, by the draws."""
        matching, slopes = self.matching, self.alignment.slopes
        if len(slopes) != len(matching.rows):
            aligner = Aligner(self.program, self.left, self.right_data, self.marks)
            slopes = aligner.slopes(matching, self.alignment.shifts)
            self.runs += aligner.runs
        return slopes

    @cached_property
    def between(self) -> list[tuple[Site, Script]]:
        """Lines that compare noise with data, each with noise that lies between the values of the two sides."""
        rows, found = self.matching.rows, dict[Site, Script]()
        for row, slope in zip(rows, self.slopes, strict=True) if self.matching.whole else ():
            if row.site is not None and row.price == NOISY_DECISION and not row.same and np.any(slope):
                moves = slope * -(row.left + row.right) / 2 / (slope @ slope)
                found.setdefault(row.site, Script.repeating(self.left, moves))
        return list(found.items())[:MAX_LINES]

    @property
    def _turned(self) -> Iterator[Script]:
        """The same noise with one coin that falls the other way, or another choice: the first of each line."""
        draws, lost = self.left.draws, self._ignored
        for toss in _first_of_lines(event for event in self.left.events if isinstance(event, Coin)):
            place = next(place for place in self.left.tossed if draws[place].value == toss.drawn[0])
            value, threshold = float(toss.drawn[0]), float(toss.thresholds[0])
            chance, other = (threshold, threshold / 2) if value >= threshold else (1 - threshold, (1 + threshold) / 2)
            if chance > lost:
                yield Script.moving(self.left, place, other - value)
        for choice in _first_of_lines(self.left.choices):
            options = sorted(range(len(choice.weights)), key=lambda option: choice.weights[option])
            able = [option for option in options if choice.weights[option] > lost and option != choice.chosen]
            place = self.left.choices.index(choice)
            yield from (Script.choosing(self.left, place, option) for option in able[:MAX_OPTIONS])

    @property
    def _extreme(self) -> Iterator[Script]:
        """The same noise with one draw far out in a tail: the first of each line."""
        tail = max(RARE, 2 * self._ignored)
        noise = (draw for draw in self.left.draws if not isinstance(draw.distribution, Uniform))
        for draw in _first_of_lines(noise):
            place = self.left.draws.index(draw)
            yield from (
                Script.moving(self.left, place, end - draw.value) for end in ends_of_tails(draw.distribution, tail)
            )

    @property
    def _ignored(self) -> float:
        """The probability of what a claim gives up."""
        claim = self.program.mechanism.claim
        return 0.0 if claim is None else claim.delta

    def by_data(self, view: Callable[[ProgramRun], object]) -> bool:
        """Whether the view of a run is one thing on the left, whatever the noise, and another on the right."""
        left, right = ({repr(view(run)) for run in side} for side in self.fresh)
        if len(left) != 1 or len(right) != 1 or left == right:
            return False
        more = [{repr(view(run)) for run in side} for sides in (self._more, self._turned_runs) for side in sides]
        return all(seen <= (left, right)[place % 2] for place, seen in enumerate(more))

    def without_noise(self, name: str) -> bool:
        """Whether this part of the output is one thing in all left runs that go the way of the two aligned ones, and
        another in all such right ones; and these things do not occur on the other side, on any way.

        Where coins decide the way, and by it the output, no single way has noise, and yet all of them together do: by
        chance, one of many may be given out on another way, too.
        """
        left, right = ([*side, *more] for side, more in zip(self.fresh, self._more, strict=True))
        sides, seen = ([self.left, *left], [self.matching.right, *right]), []
        for own, runs in zip((self.left, self.matching.right), sides, strict=True):
            alike = [repr(run.leaves.get(name)) for run in runs if _way(run) == _way(own)]
            if len(set(alike)) != 1 or len(alike) <= MIN_SAME_WAY:
                return False
            seen.append(alike[0])
        if seen[0] == seen[1]:
            return False
        ways = {_way(self.left), _way(self.matching.right)}
        if self._varies(name, [run for run in (*left, *right) if _way(run) not in ways]):
            return False
        counts = [[sum(repr(run.leaves.get(name)) == one for run in runs) for runs in (left, right)] for one in seen]
        often = counts[0][0] >= OFTEN * len(left) and counts[1][1] >= OFTEN * len(right)
        return often and not counts[0][1] and not counts[1][0]

    @cached_property
    def _turned_runs(self) -> tuple[list[ProgramRun], list[ProgramRun]]:
        """The two runs again, each with one coin or choice that falls in another way."""
        runs = []
        for data, run in ((self.left_data, self.left), (self.right_data, self.matching.right)):
            tossed = ((place, run.draws[place].value) for place in run.tossed[:MAX_TURNED])
            scripts = [Script.moving(run, place, 1.0 - 2.0 * value) for place, value in tossed]
            choices = itertools.islice(enumerate(run.choices), MAX_TURNED)
            scripts += [Script.choosing(run, place, (one.chosen + 1) % len(one.weights)) for place, one in choices]
            runs.append([self.run(data, script) for script in scripts])
        return runs[0], runs[1]

    def _varies(self, name: str, runs: list[ProgramRun]) -> bool:
        """Whether this part of the output is one of several by chance, on a way that these runs go."""
        ways: dict[tuple[object, ...], list[ProgramRun]] = {}
        for run in runs:
            ways.setdefault(_way(run), []).append(run)
        for way, alike in ways.items():
            if len(alike) <= MIN_SAME_WAY:
                again = [self.run(self.left_data, redrawn(alike[0], seed)) for seed in range(FRESH_RUNS)]
                alike = [*alike, *(run for run in again if _way(run) == way)]
            values = [run.leaves.get(name) for run in alike]
            if not all(map(continuous, values)) and len(set(map(repr, values))) > 1:
                return True
        return False

    def by_chance(self, name: str) -> bool:
        """Whether this part of the left output becomes another where a coin or a choice falls in another way."""
        mine = self.left.leaves.get(name)
        return any(not near(mine, run.leaves.get(name)) for run in self._turned_runs[0])

    # ----------------------------------------------------------------------------------------------------- where it was

    @cached_property
    def returned(self) -> Site | None:
        """Where the program returns, for what is found in its output."""
        run = self.run(self.left_data, Script.repeating(self.left), follow=True)
        return None if run.trace is None else run.trace.returned

    @property
    def parting(self) -> Site | None:
        """The line where the ways of the two runs part, before the first event that they do not share."""
        shifts = self.alignment.shifts
        runs = [
            self.run(self.left_data, Script.repeating(self.left), follow=True),
            self.run(self.right_data, Script.repeating(self.left, shifts), follow=True),
        ]
        pairs, ways = self.matching.pairs[-1:], []
        befores = [(pair.left, pair.right) for pair in pairs] or [(-1, -1)]
        for run, first, last in zip(runs, befores[0], self.matching.ends, strict=True):
            blocks = [] if run.trace is None else run.trace.blocks
            start = run.places[first] if 0 <= first < len(run.places) else 0
            end = run.places[last] if last < len(run.places) else len(blocks)
            ways.append(blocks[start:end])
        for way, other in (ways, ways[::-1]):
            met = set(other)
            for before, block in reversed(list(itertools.pairwise([None, *way]))):
                if block is not None and block not in met and (before is None or before in met):
                    return branch_to(*block)
        return None


# -------------------------------------------------------------------------------------------------------------- pieces


def _way(run: ProgramRun) -> tuple[object, ...]:
    """The way of a run, and its output but for finite numbers."""
    return *run.way, repr([(name, kind_of(value)) for name, value in run.leaves.items()])


def _noisy_way(run: ProgramRun) -> tuple[object, ...]:
    """The same with the distributions that were drawn from, and the chances: a line may have one or another."""
    return *_way(run), tuple(str(draw.distribution) for draw in run.draws), tuple(one.weights for one in run.choices)


def _first_of_lines(events: Iterable[Any]) -> Iterator[Any]:
    first: dict[Site, Any] = {}
    for event in events:
        first.setdefault(event.site, event)
    return itertools.islice(first.values(), MAX_LINES)


def same_output(mine: ProgramRun, theirs: ProgramRun) -> bool:
    """Whether both runs have the same output, but for how floats are rounded."""
    if mine.raised != theirs.raised or mine.leaves.keys() != theirs.leaves.keys():
        return False
    return all(near(value, theirs.leaves[name]) for name, value in mine.leaves.items())
