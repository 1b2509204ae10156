"""What two aligned runs of a program show: candidates for bugs, and where noise was lost from sight."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.claim import number
from veridp.engines.pipeline.aligned_runs import AlignedRuns
from veridp.engines.pipeline.alignment import Aligner, Row, is_number, kind_of, near
from veridp.engines.pipeline.prices import ways
from veridp.engines.pipeline.primitives import TOLERANCE, Primitive
from veridp.engines.pipeline.recording import Choice, Coin, Decision, RunEvent, Script, TrackedDraw, UnknownDraw
from veridp.engines.pipeline.releases import alike
from veridp.engines.pipeline.result import DELTA, Candidate, Fault
from veridp.kernel.site import Site
from veridp.verdict import Remark

MAX_LISTED = 5  # candidates of one kind
STEADY = 1e-3  # relatively: a value that noise moves by a steady slope, at two steps


@dataclass(frozen=True, eq=False)
class Faults:
    """The candidates, and where noise was lost from sight, of two aligned runs."""

    runs: AlignedRuns

    def found(self) -> tuple[list[Candidate], list[Remark]]:
        """All candidates and remarks."""
        runs, matching = self.runs, self.runs.matching
        for event in runs.left.events:
            if isinstance(event, UnknownDraw):
                runs.remarks.append(_remark(f"lost track: {event.method} noise is not modelled", event.site))
        candidates = [*self._seeds(), *self._parameters(), *self._sensitivities()]
        if runs.left.raised != matching.right.raised:
            candidates += self._raises()
        elif not matching.whole:
            candidates += [*self._parted(), *self._plain_parts()]
        else:
            candidates += [*self._plain_parts(), *self._residuals()]
        if not candidates and matching.whole:
            candidates += self._open_decisions()
        if runs.alignment.unseparated and runs.alignment.residual:
            runs.remarks.append(Remark("lost track: a value depends on more noise than could be told apart"))
        if not candidates and not runs.aligned and not runs.remarks:
            runs.remarks.append(Remark("lost track: no shift of the noise was found that gives the same output"))
        return candidates, list(dict.fromkeys(runs.remarks))

    def _lost(self, sentence: str, site: Site | None = None) -> None:
        sentence = f"lost track: {sentence}"
        self.runs.remarks.append(Remark(sentence) if site is None else _remark(sentence, site))

    def _seeds(self) -> Iterator[Candidate]:
        if self.runs.left.seeds:
            every = set.intersection(*(set(run.seeds) for run in self.runs.fresh[0]))
            for site, seed in sorted(every, key=lambda entry: (entry[0].file, entry[0].line)):
                sentence = f"a generator is seeded with {seed} in every run: its numbers are no noise"
                yield _candidate(Fault.SEED, sentence, site)
        for site in dict.fromkeys(site for site, _ in self.runs.left.repeated):
            sentence = "a generator gets a seed that another one had in the same run: it repeats its numbers"
            yield _candidate(Fault.SEED, sentence, site)

    def _parameters(self) -> Iterator[Candidate]:
        seen = set[Site]()
        matching = self.runs.matching
        for mine, theirs in matching.shared(TrackedDraw):
            if mine.site not in seen and not alike(mine.distribution, theirs.distribution):
                seen.add(mine.site)
                sides = f"{mine.distribution} on the left, {theirs.distribution} on the right"
                yield _candidate(Fault.PARAMETERS, f"the noise depends on the data: {sides}", mine.site)
        for mine, theirs in matching.shared(Primitive):
            changed = [
                f"{name} = {one} on the left, {other} on the right"
                for (name, one), (_, other) in zip(mine.settings, theirs.settings, strict=False)
                if one != other
            ]
            if changed and mine.site not in seen:
                seen.add(mine.site)
                yield _candidate(Fault.PARAMETERS, f"{mine.name} depends on the data: {'; '.join(changed)}", mine.site)
        if not matching.whole or self.runs.alignment.residual:
            return
        for site in self.runs.costs.uneven:
            sentence = "the noise depends on the data: what this uniform draw becomes is wider on one side"
            yield _candidate(Fault.PARAMETERS, sentence, site)
        for site, factors in self.runs.costs.multiplied.items():
            sides = "multiplied by {:.6g} on the left, by {:.6g} on the right".format(*factors)
            yield _candidate(Fault.PARAMETERS, f"the noise depends on the data: it is {sides}", site)

    def _sensitivities(self) -> Iterator[Candidate]:
        for mine, theirs in self.runs.matching.shared(Primitive):
            distance = mine.distance(theirs)
            if distance > mine.declared * (1 + TOLERANCE):
                sentence = (
                    f"{mine.name} is made for sensitivity {mine.declared:g}, but its value moves by {number(distance)}"
                )
                yield _candidate(Fault.SENSITIVITY, sentence, mine.site)

    # ------------------------------------------------------------------------------------------------------- other ways

    def _raises(self) -> Iterator[Candidate]:
        """One run raises what the other does not."""
        if not self.runs.by_data(lambda run: run.raised and run.raised.type):
            self._lost("whether it raises depends on noise that could not be shifted")
            return
        for run, side in ((self.runs.left, "left"), (self.runs.matching.right, "right")):
            if run.raised is not None:
                fault = Fault.PARAMETERS if run.raised.type.endswith(".NotFinite") else Fault.CONTROL
                what = run.raised.message if fault is Fault.PARAMETERS else repr(run.raised)
                yield _candidate(fault, f"{what} on the {side} only", run.raised_at)
                return

    def _parted(self) -> Iterator[Candidate]:
        """The runs draw, choose or call other things, though all that was released before is the same."""
        both = self.runs.left, self.runs.matching.right
        if not self.runs.by_data(lambda run: [event.signature for event in run.events if _draws(event)]):
            ends = zip(both, self.runs.matching.ends, strict=True)
            events = [run.events[place] for run, place in ends if place < len(run.events)]
            self._lost(
                "what is drawn depends on noise that was not followed up to here", events[0].site if events else None
            )
            return
        counts = [Counter(event.signature for event in run.events if _draws(event)) for run in both]
        unlike = [key for key in dict.fromkeys([*counts[0], *counts[1]]) if counts[0][key] != counts[1][key]]
        tossed = {run.draws[place].signature for run in both for place in run.tossed}
        if unlike and all(key[0] == "choice" or key in tossed for key in unlike):
            sentence = "a random choice is made more often on one side, in a subsample or a shuffle say"
            self._lost(sentence, unlike[0][1])  # type: ignore[arg-type]
            return
        for key in unlike[:MAX_LISTED]:
            times = f"{_times(counts[0][key])} on the left, {_times(counts[1][key])} on the right"
            yield _candidate(Fault.DRAWS, f"{_name(key)} is drawn {times}", key[1])  # type: ignore[arg-type]
        parting = self.runs.parting
        if parting is not None or not unlike:
            sentence = "the data decide here what is drawn next, not what was released"
            yield _candidate(Fault.CONTROL, sentence, parting)

    def _plain_parts(self) -> Iterator[Candidate]:
        """Parts of the output that differ, whatever the noise: no numbers, or numbers of runs that are not aligned."""
        whole = self.runs.matching.whole
        left, right = self.runs.left.leaves, self.runs.matching.right.leaves
        kind = kind_of if whole else lambda value: value
        listed = 0
        for name in dict.fromkeys([*left, *right]):
            mine, theirs = left.get(name, "missing"), right.get(name, "missing")
            numbers = is_number(mine) and is_number(theirs)
            if repr(mine) == repr(theirs) or (numbers and whole):
                continue
            if "missing" in (mine, theirs) and listed:
                continue
            if self.runs.by_data(lambda run, name=name: kind(run.leaves.get(name, "missing"))):  # type: ignore[misc]
                listed += 1
                if listed <= MAX_LISTED:
                    sentence = (
                        f"{name} is {_short(mine)} on the left, {_short(theirs)} on the right, whatever the noise"
                    )
                    yield _candidate(Fault.UNNOISED, sentence, self.runs.returned)
            elif not numbers:
                self._lost(f"{name} depends on noise that was not followed")

    # -------------------------------------------------------------------------------------------------------- conflicts

    def _residuals(self) -> Iterator[Candidate]:
        """Numbers of the output that no shift makes the same."""
        residual = [(row, slope) for row, slope in self.runs.alignment.residual if row.site is None]
        for row, slope in residual[:MAX_LISTED]:
            if np.any(slope):
                yield from self._conflict(row, slope)
            elif self.runs.without_noise(row.name):
                sentence = f"{row.name} is {row.left:.6g} on the left, {row.right:.6g} on the right, without noise"
                yield _candidate(Fault.UNNOISED, sentence, self.runs.returned)
            else:
                self._lost(f"{row.name} depends on noise in a way not followed")

    def _conflict(self, row: Row, slope: Any) -> Iterator[Candidate]:
        """Why a number that depends on noise cannot be restored."""
        left = self.runs.left
        used = np.flatnonzero(slope).tolist()
        draws = [left.draws[place] for place in used]
        rounded = float(row.left).is_integer() and not all(draw.distribution.integer for draw in draws)
        apart, shift = self._least_shift()
        beyond = [
            place
            for place in np.flatnonzero(shift).tolist()
            if place in used and self._leaves(row.name, place, shift[place], slope)
        ]
        steady = all(self._steady(row.name, place) for place in used)
        if rounded or not steady or not (apart or beyond) or self.runs.by_chance(row.name):
            self._lost(f"no shift of this noise restores {row.name}", draws[0].site)
        elif beyond:
            draw = left.draws[beyond[0]]
            sentence = f"{draw.distribution.kind} noise ends where it does: it cannot hide that {row.name} moves"
            yield _candidate(Fault.SUPPORT, sentence, draw.site)
        else:
            sentence = (
                f"this noise is used twice: {row.name} and another value would need it to move by different amounts"
            )
            yield _candidate(Fault.REUSED, sentence, draws[0].site)

    def _least_shift(self) -> tuple[bool, Any]:
        """Whether the slopes of what must be kept, as linear equations, have no solution; and the best one."""
        rows, slopes = self.runs.alignment.matching.rows, self.runs.alignment.slopes
        gaps = np.array([row.gap for row in rows])
        used = np.any(slopes, axis=1) & np.array([not row.soft for row in rows])
        solution, *_ = np.linalg.lstsq(slopes[used], -gaps[used], rcond=None)
        off = np.abs(slopes[used] @ solution + gaps[used])
        return bool(np.any(off > 1e-6 * (1 + np.abs(gaps[used])))), solution

    def _leaves(self, name: str, place: int, shift: float, slope: Any) -> bool:
        """Whether the shift carries more of the noise out of its support than the claimed δ allows, of noise that the
        number follows in proportion; and no other noise moves the number that way without an end."""
        draws = self.runs.left.draws
        noise = draws[place].distribution
        upwards = shift * slope[place] > 0
        for other in np.flatnonzero(slope).tolist():
            if math.isinf(draws[other].distribution.support[1 if (slope[other] > 0) == upwards else 0]):
                return False
        if (ways(noise)[0] if shift > 0 else ways(noise)[1]) is not None:
            return False
        low, high = noise.support
        half = ((high if shift > 0 else low) - draws[place].value) / 2
        if not self._follows(name, place, slope[place], half):
            return False
        lost = noise.log_above(np.array([high - shift])) if shift > 0 else noise.log_below(np.array([low - shift]))
        claim = self.runs.program.mechanism.claim
        return bool(math.exp(lost.item()) > (DELTA if claim is None else claim.delta))

    def _steady(self, name: str, place: int) -> bool:
        """Whether a value moves in proportion to a draw: what is made of a seed, or hashed, does not."""
        draw = self.runs.left.draws[place]
        step = 1.0 if draw.distribution.integer else 1e-6 * draw.distribution.width
        step = -step if draw.value + 2 * step > draw.distribution.support[1] else step
        moved = self._moved(name, place, step)
        return moved is not None and self._follows(name, place, moved / step, 2 * step)

    def _follows(self, name: str, place: int, slope: float, move: float) -> bool:
        """Whether a value moves by so much for each unit of a draw that is moved this far."""
        moved = self._moved(name, place, move)
        return moved is not None and abs(moved - slope * move) <= STEADY * abs(slope * move)

    def _moved(self, name: str, place: int, move: float) -> float | None:
        """By how much a number of the left output moves with a draw."""
        left = self.runs.left.leaves.get(name)
        value = self.runs.run(self.runs.left_data, Script.moving(self.runs.left, place, move)).leaves.get(name)
        return float(value) - float(left) if is_number(left) and is_number(value) else None  # type: ignore[arg-type]

    def _open_decisions(self) -> Iterator[Candidate]:
        """Decisions against noise that the output tells, so that no shift keeps both: where the noise lies between the
        two sides of such a decision, the data alone decide."""
        runs, shifts = self.runs, self.runs.alignment.shifts
        if not runs.between or any(
            isinstance(event, Choice | Coin | UnknownDraw | Primitive) for event in runs.left.events
        ):
            return
        outputs = runs.slopes[[row.site is None for row in runs.matching.rows]]
        if np.linalg.matrix_rank(outputs) < len(shifts):
            return  # there is noise besides, by which the output may differ
        for site, script in runs.between:
            left = runs.run(runs.left_data, script)
            aligner = Aligner(runs.program, left, runs.right_data, runs.marks)
            right = aligner.align().matching.right.leaves  # with the other noise shifted as far as it helps
            runs.runs += aligner.runs
            for name in dict.fromkeys([*left.leaves, *right]):
                mine, theirs = left.leaves.get(name, "missing"), right.get(name, "missing")
                if not near(mine, theirs):
                    sides = f"{name} is {_short(mine)} on the left, {_short(theirs)} on the right"
                    sentence = f"the data decide here, against noise that the output tells: at times {sides}"
                    yield _candidate(Fault.CONTROL, sentence, site)
                    break


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


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
