"""A program run on two inputs, aligned; and the further runs that tell what depends on noise and what on data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veridp.engines.pipeline.alignment import Aligner, Matching, Row, RunAlignment, is_number
from veridp.engines.pipeline.recording import (
    Choice,
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

MIN_SAME_WAY = 3  # runs that go one way, to tell what noise does not change there
FRESH_RUNS = 6  # on either side, with other noise: what they share does not depend on noise
MORE_RUNS = 40  # where the noise decides something: a biased coin may well fall the same way seven times
OFTEN = 0.25  # of the runs on one side have a value that no run on the other has: chance does not explain it
MAX_TURNED = 16  # coins and choices that are turned, to see whether a value depends on them


@dataclass(eq=False)
class AlignedRuns:
    """The runs, and what follows from them."""

    program: Program
    left_data: Any
    right_data: Any
    seed: int

    def __post_init__(self) -> None:
        self.runs, self.marks = 0, True
        self.remarks: list[Remark] = []
        first = self.run(self.left_data, Script(self.seed))
        plain = self.run(self.left_data, Script.repeating(first), marks=False)
        if not same_output(first, plain):
            again = self.run(self.left_data, Script.repeating(first), marks=False)
            self.marks = False
            if same_output(plain, again):
                sentence = "the program treats marked numbers in another way than floats; decisions are not followed"
            else:
                sentence = "it gives other outputs on the same noise: some of its randomness is out of sight"
            self.remarks.append(Remark(sentence))
            first = self.run(self.left_data, Script(self.seed), marks=False)
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

    @property
    def other_ways(self) -> list[int]:
        """Seeds with which the left run goes another way through the program, ends in another kind of output, or draws
        other noise on that way.

        Those with which the right run then goes yet another way come first: on the same noise, the data decide. Where
        the same noise gives the same output here, also those with which it does not.
        """
        own = _noisy_way(self.left)
        ways = {way: run.script.seed for run in reversed(self.others) if (way := _noisy_way(run)) != own}
        still = self.matching.settled and not np.any(self.alignment.shifts)
        pairs = list(zip(self.others, self.fresh[1], strict=True)) if ways or still else []
        apart = [left.script.seed for left, right in pairs if ways and _way(left) != _way(right)]
        apart += [left.script.seed for left, right in pairs if still and not same_output(left, right)]
        return list(dict.fromkeys([*apart, *ways.values()]))

    def by_data(self, view: Callable[[ProgramRun], object]) -> bool:
        """Whether the view of a run is one thing on the left, whatever the noise, and another on the right."""
        left, right = ({repr(view(run)) for run in side} for side in self.fresh)
        if len(left) != 1 or len(right) != 1 or left == right:
            return False
        more = [{repr(view(run)) for run in side} for side in self._more]
        return more[0] <= left and more[1] <= right

    def without_noise(self, name: str) -> bool:
        """Whether this part of the output is one thing in all left runs that go the way of the two aligned ones, and
        another in all such right ones; and these things do not occur on the other side, on any way.

        Where coins decide the way, and by it the output, no single way has noise, and yet all of them together do.
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
        counts = [[sum(repr(run.leaves.get(name)) == one for run in runs) for runs in (left, right)] for one in seen]
        often = counts[0][0] >= OFTEN * len(left) and counts[1][1] >= OFTEN * len(right)
        return often and not counts[0][1] and not counts[1][0]

    def by_chance(self, name: str) -> bool:
        """Whether this part of the left output becomes another where a coin or a choice falls in another way."""
        draws, choices = self.left.draws, self.left.choices
        scripts = []
        for place in self.left.tossed[:MAX_TURNED]:
            moves = np.zeros(len(draws))
            moves[place] = 1.0 - 2.0 * draws[place].value
            scripts.append(Script.repeating(self.left, moves))
        scripts += [Script.choosing(self.left, place) for place in range(min(len(choices), MAX_TURNED))]
        mine = self.left.leaves.get(name)
        return any(not near(mine, self.run(self.left_data, script).leaves.get(name)) for script in scripts)

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
    """The same with the distributions that were drawn from: a line may draw from one or from another."""
    return *_way(run), tuple(str(draw.distribution) for draw in run.draws)


def kind_of(value: object) -> object:
    """A part of an output as far as noise cannot change it: any finite number is one kind."""
    return "a number" if is_number(value) else value


def same_output(mine: ProgramRun, theirs: ProgramRun) -> bool:
    """Whether both runs have the same output, but for how floats are rounded."""
    if mine.raised != theirs.raised or mine.leaves.keys() != theirs.leaves.keys():
        return False
    return all(near(value, theirs.leaves[name]) for name, value in mine.leaves.items())


def near(mine: object, theirs: object) -> bool:
    """Whether two parts of an output are the same, but for how floats are rounded."""
    if is_number(mine) and is_number(theirs):
        return Row("", None, float(mine), float(theirs)).same  # type: ignore[arg-type]
    return repr(mine) == repr(theirs)
