"""Two runs of a program, on two inputs, whose releases are kept the same by shifting the noise; and what that shows."""

from __future__ import annotations

import inspect
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.claim import LOSS_ERROR, number
from veridp.engines.pipeline.alignment import Aligner, Matching, Row, RunAlignment, is_number
from veridp.engines.pipeline.primitives import TOLERANCE, Primitive
from veridp.engines.pipeline.recording import (
    Coin,
    Decision,
    Program,
    ProgramRun,
    RunEvent,
    Script,
    TrackedDraw,
    UnknownDraw,
)
from veridp.engines.pipeline.releases import ReleaseCosts, alike, ways
from veridp.engines.pipeline.result import Candidate, Fault, PipelineRelease, PipelineResult
from veridp.errors import MechanismFailed
from veridp.kernel.noise import Uniform
from veridp.kernel.site import Site, branch_to
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.verdict import Remark

FRESH_RUNS = 6  # on either side, with other noise: what they share does not depend on noise
MAX_LISTED = 5  # candidates of one kind
COST_ERROR = 1e-4  # relative error allowed to a cost that rests on measured slopes
SECONDS = 60.0


def compare(
    program: Mechanism | Function,
    left: Any,
    right: Any,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    pattern: str = "given",
    **arguments: Any,
) -> PipelineResult:
    """What two runs of the program show, the right one with its noise shifted to release what the left one did.

    All sources of randomness are adopted, as for every mechanism. The noise of the left run follows from the seed. Each
    fault found is a candidate: the runs show it, but for two inputs and one sequence of noise, and nothing is proved by
    their silence.

    >>> def clipped(rng, data): return min(sum(data), 10) + rng.laplace(scale=2.0)
    >>> round(compare(clipped, [1, 2], [1, 2, 1]).epsilon, 9)
    0.5
    """
    mechanism = as_mechanism(program, **arguments)
    return contained(
        lambda _: compared(mechanism, left, right, seed, pattern), Deadline(seconds), known=(mechanism, left, right)
    )


def compared(mechanism: Mechanism, left: Any, right: Any, seed: int = 0, pattern: str = "given") -> PipelineResult:
    """The same, in this process and without a limit of its own."""
    started = time.monotonic()
    comparison = _Comparison(Program.of(mechanism), left, right, seed)
    candidates, lost = comparison.found()
    if not candidates:
        unknown = [release for release in comparison.releases if None in release.parts]
        lost += [Remark("what this noise costs is not known", release.file, release.line) for release in unknown]
    result = PipelineResult(
        mechanism=mechanism,
        left=left,
        right=right,
        releases=tuple(comparison.releases),
        candidates=tuple(candidates),
        lost=tuple(lost),
        aligned=comparison.aligned,
        runs=comparison.runs,
        seconds=time.monotonic() - started,
        seed=seed,
        pattern=pattern,
    )
    dear = _too_dear(result)
    return result if dear is None else replace(result, candidates=(*result.candidates, dear))


def _too_dear(result: PipelineResult) -> Candidate | None:
    """A candidate where the releases together cost more than is claimed; what decisions cost is only a bound."""
    claim = result.claim
    epsilon = result.output_epsilon
    if claim is None or not result.priced or not claim.excludes(epsilon * (1 - COST_ERROR) - LOSS_ERROR):
        return None
    released = [release for release in result.releases if release.reaches_output]
    most = max(released, key=lambda release: (release.epsilon, release.l2 / (release.scale or 1.0)))
    scale = "" if most.scale is None else f", but the scale of its noise is only {most.scale:.6g}"
    sentence = f"the value here moves by {most.distance:.6g} between the two inputs{scale}; {result.cost_text}"
    return Candidate(Fault.COST, f"{sentence}, and {claim} is claimed", most.file, most.line)


@dataclass(eq=False)
class _Comparison:
    """The runs, and what follows from them."""

    program: Program
    left_data: Any
    right_data: Any
    seed: int

    def __post_init__(self) -> None:
        self.runs, self.marks = 0, True
        self.remarks: list[Remark] = []
        first = self._run(self.left_data, Script(self.seed))
        plain = self._run(self.left_data, Script.repeating(first), marks=False)
        if not _same_output(first, plain):
            again = self._run(self.left_data, Script.repeating(first), marks=False)
            self.marks = False
            if _same_output(plain, again):
                sentence = "the program treats marked numbers in another way than floats; decisions are not followed"
            else:
                sentence = "it gives other outputs on the same noise: some of its randomness is out of sight"
            self.remarks.append(Remark(sentence))
            first = self._run(self.left_data, Script(self.seed), marks=False)
        self.left = first
        aligner = Aligner(self.program, self.left, self.right_data, self.marks)
        self.alignment: RunAlignment = aligner.align()
        self.runs += aligner.runs
        if self.left.raised is not None and self.left.raised == self.matching.right.raised:
            where = "" if self.left.raised_at is None else self.left.raised_at.prefix
            raise MechanismFailed(
                f"{where}{self.program.mechanism.name} {self.left.raised} on both inputs; give two on which it returns"
            )

    def _run(self, data: Any, script: Script, *, marks: bool = True, follow: bool = False) -> ProgramRun:
        self.runs += 1
        return self.program.run(data, script, marks=marks, follow=follow)

    @property
    def matching(self) -> Matching:
        return self.alignment.matching

    @cached_property
    def aligned(self) -> bool:
        """Whether the right run on plain numbers, with shifted noise, gives the output of the left one."""
        if not self.matching.whole or self.alignment.residual:
            return False
        run = self._run(self.right_data, Script.repeating(self.left, self.alignment.shifts), marks=False)
        return _same_output(self.left, run)

    @cached_property
    def fresh(self) -> tuple[list[ProgramRun], list[ProgramRun]]:
        """Runs on either side with other noise."""
        seeds = [np.random.SeedSequence([self.seed, 1 + k]).generate_state(1)[0].item() for k in range(FRESH_RUNS)]
        sides = (self.left_data, self.right_data)
        left, right = ([self._run(data, Script(seed), marks=self.marks) for seed in seeds] for data in sides)
        return [self.left, *left], right

    def _by_data(self, view: Any) -> bool:
        """Whether the view of a run is one thing on the left, whatever the noise, and another on the right."""
        left, right = ({repr(view(run)) for run in side} for side in self.fresh)
        return len(left) == 1 and len(right) == 1 and left != right

    # ------------------------------------------------------------------------------------------------------ candidates

    def found(self) -> tuple[list[Candidate], list[Remark]]:
        """The candidates, and where noise was lost from sight."""
        for event in self.left.events:
            if isinstance(event, UnknownDraw):
                self.remarks.append(_remark(f"lost track: {event.method} noise is not modelled", event.site))
        candidates = [*self._seeds(), *self._parameters(), *self._sensitivities()]
        if self.left.raised != self.matching.right.raised:
            candidates += self._raises()
        elif not self.matching.whole:
            candidates += [*self._parted(), *self._plain_parts()]
        else:
            candidates += [*self._plain_parts(), *self._residuals()]
        if self.alignment.unseparated and self.alignment.residual:
            self.remarks.append(Remark("lost track: a value depends on more noise than could be told apart"))
        if not candidates and not self.aligned and not self.remarks:
            self.remarks.append(Remark("lost track: no shift of the noise was found that gives the same output"))
        return candidates, list(dict.fromkeys(self.remarks))

    def _seeds(self) -> Iterator[Candidate]:
        if not self.left.seeds:
            return
        runs = [set(run.seeds) for run in self.fresh[0]]
        for site, seed in sorted(set.intersection(*runs), key=lambda entry: (entry[0].file, entry[0].line)):
            yield _candidate(
                Fault.SEED, f"a generator is seeded with {seed} in every run: its numbers are no noise", site
            )

    def _parameters(self) -> Iterator[Candidate]:
        seen = set[Site]()
        for mine, theirs in self.matching.shared(TrackedDraw):
            if mine.site not in seen and not alike(mine.distribution, theirs.distribution):
                seen.add(mine.site)
                sides = f"{mine.distribution} on the left, {theirs.distribution} on the right"
                yield _candidate(Fault.PARAMETERS, f"the noise depends on the data: {sides}", mine.site)
        for mine, theirs in self.matching.shared(Primitive):
            changed = [
                f"{name} = {one} on the left, {other} on the right"
                for (name, one), (_, other) in zip(mine.settings, theirs.settings, strict=False)
                if one != other
            ]
            if changed and mine.site not in seen:
                seen.add(mine.site)
                yield _candidate(Fault.PARAMETERS, f"{mine.name} depends on the data: {'; '.join(changed)}", mine.site)

    def _sensitivities(self) -> Iterator[Candidate]:
        for mine, theirs in self.matching.shared(Primitive):
            distance = mine.distance(theirs)
            if distance > mine.declared * (1 + TOLERANCE):
                sentence = (
                    f"{mine.name} is made for sensitivity {mine.declared:g}, but its value moves by {number(distance)}"
                )
                yield _candidate(Fault.SENSITIVITY, sentence, mine.site)

    def _raises(self) -> Iterator[Candidate]:
        """One run raises what the other does not."""
        if not self._by_data(lambda run: run.raised and run.raised.type):
            self.remarks.append(Remark("lost track: whether it raises depends on noise that could not be shifted"))
            return
        for run, side in ((self.left, "left"), (self.matching.right, "right")):
            if run.raised is not None:
                fault = Fault.PARAMETERS if run.raised.type.endswith(".NotFinite") else Fault.CONTROL
                what = run.raised.message if fault is Fault.PARAMETERS else repr(run.raised)
                yield _candidate(fault, f"{what} on the {side} only", run.raised_at)
                return

    def _parted(self) -> Iterator[Candidate]:
        """The runs draw, choose or call other things, though all that was released before is the same."""
        place = self.matching.common
        if not self._by_data(lambda run: [event.signature for event in run.events if _draws(event)]):
            events = [run.events[place] for run in (self.left, self.matching.right) if place < len(run.events)]
            site = events[0].site if events else None
            sentence = "lost track: what is drawn depends on noise that was not followed up to here"
            self.remarks.append(Remark(sentence) if site is None else _remark(sentence, site))
            return
        counts = [
            Counter(event.signature for event in run.events if _draws(event))
            for run in (self.left, self.matching.right)
        ]
        unlike = [key for key in dict.fromkeys([*counts[0], *counts[1]]) if counts[0][key] != counts[1][key]]
        coins = {event.site for event in self.left.events if isinstance(event, Coin)}
        if unlike and all(key[0] == "choice" or (key[2] == "uniform" and key[1] in coins) for key in unlike):
            sentence = "lost track: a random choice is made more often on one side, in a subsample or a shuffle say"
            self.remarks.append(_remark(sentence, unlike[0][1]))  # type: ignore[arg-type]
            return
        for key in unlike[:MAX_LISTED]:
            times = f"{_times(counts[0][key])} on the left, {_times(counts[1][key])} on the right"
            yield _candidate(Fault.DRAWS, f"{_name(key)} is drawn {times}", key[1])  # type: ignore[arg-type]
        parting = self._parting()
        if parting is not None or not unlike:
            sentence = "the data decide here what is drawn next, not what was released"
            yield _candidate(Fault.CONTROL, sentence, parting)

    def _parting(self) -> Site | None:
        """The line where the ways of the two runs part, before the first event that they do not share."""
        shifts = self.alignment.shifts
        runs = [
            self._run(self.left_data, Script.repeating(self.left), marks=self.marks, follow=True),
            self._run(self.right_data, Script.repeating(self.left, shifts), marks=self.marks, follow=True),
        ]
        place = self.matching.common
        ways = []
        for run in runs:
            blocks = [] if run.trace is None else run.trace.blocks
            start = run.places[place - 1] if 0 < place <= len(run.places) else 0
            end = run.places[place] if place < len(run.places) else len(blocks)
            ways.append(blocks[start:end])
        for way, other in (ways, ways[::-1]):
            met = set(other)
            for before, block in reversed(list(itertools.pairwise([None, *way]))):
                if block is not None and block not in met and (before is None or before in met):
                    return branch_to(*block)
        return None

    def _plain_parts(self) -> Iterator[Candidate]:
        """Parts of the output that differ, whatever the noise: no numbers, or numbers of runs that are not aligned."""
        left, right = self.left.leaves, self.matching.right.leaves
        kind = _kind if self.matching.whole else lambda value: value
        listed = 0
        for name in dict.fromkeys([*left, *right]):
            mine, theirs = left.get(name, "missing"), right.get(name, "missing")
            numbers = is_number(mine) and is_number(theirs)
            if _identical(mine, theirs) or (numbers and self.matching.whole):
                continue
            if "missing" in (mine, theirs) and listed:
                continue
            if self._by_data(lambda run, name=name: kind(run.leaves.get(name, "missing"))):
                listed += 1
                if listed <= MAX_LISTED:
                    sentence = (
                        f"{name} is {_short(mine)} on the left, {_short(theirs)} on the right, whatever the noise"
                    )
                    yield _candidate(Fault.UNNOISED, sentence, self._returned)
            elif not numbers:
                self.remarks.append(Remark(f"lost track: {name} depends on noise that was not followed"))

    def _residuals(self) -> Iterator[Candidate]:
        """Numbers of the output that no shift makes the same."""
        residual = [(row, slope) for row, slope in self.alignment.residual if row.site is None]
        for row, slope in residual[:MAX_LISTED]:
            if not np.any(slope):
                if self._by_data(lambda run, row=row: run.leaves.get(row.name)):
                    sentence = f"{row.name} is {row.left:.6g} on the left, {row.right:.6g} on the right, without noise"
                    yield _candidate(Fault.UNNOISED, sentence, self._returned)
                else:
                    self.remarks.append(Remark(f"lost track: {row.name} depends on noise in a way not followed"))
                continue
            yield from self._conflict(row, slope)

    def _conflict(self, row: Row, slope: Any) -> Iterator[Candidate]:
        """Why a number that depends on noise cannot be restored."""
        draws = [self.left.draws[place] for place in np.flatnonzero(slope)]
        rounded = float(row.left).is_integer() and not all(draw.distribution.integer for draw in draws)
        if rounded or not self._contradictory():
            self.remarks.append(_remark(f"lost track: no shift of this noise restores {row.name}", draws[0].site))
            return
        one_sided = [draw for draw in draws if None in ways(draw.distribution)]
        if one_sided:
            sentence = f"{one_sided[0].distribution.kind} noise stays on one side: it cannot hide that {row.name} moves"
            yield _candidate(Fault.SUPPORT, sentence, one_sided[0].site)
        else:
            sentence = (
                f"this noise is used twice: {row.name} and another value would need it to move by different amounts"
            )
            yield _candidate(Fault.REUSED, sentence, draws[0].site)

    def _contradictory(self) -> bool:
        """Whether the slopes, as linear equations, have no solution, or none that stays within the support."""
        rows, slopes = self.alignment.matching.rows, self.alignment.slopes
        gaps = np.array([row.gap for row in rows])
        used = np.any(slopes, axis=1)
        solution, *_ = np.linalg.lstsq(slopes[used], -gaps[used], rcond=None)
        off = np.abs(slopes[used] @ solution + gaps[used])
        apart = bool(np.any(off > 1e-6 * (1 + np.abs(gaps[used]))))
        one_sided = any(None in ways(self.left.draws[place].distribution) for place in np.flatnonzero(solution))
        return apart or one_sided

    @cached_property
    def _returned(self) -> Site | None:
        """Where the program begins, for what is found in its output."""
        function = inspect.unwrap(self.program.mechanism.function)
        try:
            return Site(inspect.getsourcefile(function) or "", inspect.getsourcelines(function)[1])
        except (TypeError, OSError, IndexError):
            return None

    # -------------------------------------------------------------------------------------------------------- releases

    @cached_property
    def releases(self) -> list[PipelineRelease]:
        """All that was released in both runs, line by line, with its cost."""
        uniform = any(isinstance(draw.distribution, Uniform) for draw in self.left.draws)
        others = self.fresh[0][1:] if uniform else []
        sides = self.left_data, self.right_data
        costs = ReleaseCosts(self.program, *sides, self.left, others, self.alignment, self.marks)
        found = costs.releases
        self.runs += costs.runs
        return found


# -------------------------------------------------------------------------------------------------------------- pieces


def _candidate(fault: Fault, sentence: str, site: Site | None) -> Candidate:
    return Candidate(fault, sentence) if site is None else Candidate(fault, sentence, site.file, site.line)


def _remark(sentence: str, site: Site) -> Remark:
    return Remark(sentence, site.file, site.line)


def _draws(event: RunEvent) -> bool:
    return not isinstance(event, Decision)


def _name(signature: tuple[object, ...]) -> str:
    kind, _, detail = signature
    return {"noise": f"{detail} noise", "choice": f"a choice of {detail}"}.get(str(kind), str(detail))


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _same_output(mine: ProgramRun, theirs: ProgramRun) -> bool:
    if mine.raised != theirs.raised or mine.leaves.keys() != theirs.leaves.keys():
        return False
    return all(_near(value, theirs.leaves[name]) for name, value in mine.leaves.items())


def _near(mine: object, theirs: object) -> bool:
    if is_number(mine) and is_number(theirs):
        return Row("", None, float(mine), float(theirs)).same  # type: ignore[arg-type]
    return _identical(mine, theirs)


def _identical(mine: object, theirs: object) -> bool:
    return repr(mine) == repr(theirs)


def _kind(value: object) -> object:
    """A part of an output as far as noise cannot change it: any finite number is one kind."""
    return "a number" if is_number(value) else value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
