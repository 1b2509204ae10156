"""Proofs for one size, step after step: where a loop has too many paths to list them.

A loop that goes on whatever it finds has 2^n outputs. They need not be listed: what a step adds to the output follows
from its own noise and from the variables before it. So an alignment is found step by step, as for every size (see
`induction`), but with the queries counted: shifts and differences may depend on how many were asked, and the cost may
grow with them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from veridp.adjacency import Phases
from veridp.engines.prove.alignment.proof import Proof
from veridp.engines.prove.explanation import Blame
from veridp.engines.prove.induction.proof import (
    AlignedLoop,
    AlignedMove,
    Place,
    StepAlignment,
    induction_certificate_of,
    phases_of,
    system_in_rationals,
)
from veridp.engines.prove.induction.system import LoopSystem
from veridp.engines.prove.replay import spot_check
from veridp.errors import ExplorationDisagrees, NotInductive
from veridp.kernel.symbols import Noise, count_text, number_text
from veridp.mechanism import Mechanism
from veridp_check.checker import check

MAX_LISTED_PATHS = 4096  # paths: up to as many are listed, as an alignment that knows the whole output may be cheaper
FEW_QUERIES = 7  # queries: up to as many, few loops have more paths
PLAIN_RUNS = 96  # of the function at this size


@dataclass(frozen=True, eq=False)
class StepwiseProof(Proof):
    """For all neighbours of this size: an ε that is proved step by step. One that knew all paths might be smaller."""

    system: LoopSystem
    loops: tuple[AlignedLoop, ...]  # one for each polytope of differences
    compared: str

    @property
    def certificate(self) -> dict[str, Any]:
        return induction_certificate_of(self, self.size)

    @property
    def restriction(self) -> str:
        return ""

    @property
    def extent(self) -> str:
        return f"{count_text(self.size, 'step')}, one after the other"

    @property
    def confirmed(self) -> str:
        return f"{self.compared}, certificate accepted"

    @cached_property
    def dearest(self) -> list[AlignedMove]:
        """The moves of a run that costs most."""
        loop = max(self.loops, key=lambda each: each.cost)
        ways: dict[Place | None, list[AlignedMove]] = {}
        for each in loop.moves:
            ways.setdefault(each.move.source, []).append(each)
        run: list[AlignedMove] = []
        place: Place | None = None
        while not run or place is not None:
            run.append(max(ways[place], key=lambda each: each.cost + _left(loop, each)))
            place = run[-1].move.target
        return run

    @property
    def moves(self) -> list[list[float]]:
        asked = [float(each.move.by) for each in self.dearest if each.move.source is not None]
        return [(asked + [0.0] * self.size)[: self.size]]

    @cached_property
    def _prices(self) -> Counter[tuple[Noise, Fraction]]:
        """What shifts of noise cost in the dearest run, by the line that draws it and by how much it is shifted."""
        found: Counter[tuple[Noise, Fraction]] = Counter()
        first: dict[object, Noise] = {}
        for each in self.dearest:
            for noise, shift in zip(each.move.step.noises, each.shifts, strict=True):
                known = first.setdefault((noise.site, noise.distribution), noise)
                found[known, abs(shift)] += 1 if shift else 0
        return Counter({key: times for key, times in found.items() if times})

    @property
    def blame(self) -> Blame | None:
        if not self._prices:
            return None
        (noise, shift), times = max(self._prices.items(), key=lambda item: _price(*item[0]) * item[1])
        sentence = f"its noise shifts by {number_text(shift)} in {count_text(times, 'step')} of a run that costs most"
        return Blame("condition", sentence, noise.site.file, noise.site.line, float(_price(noise, shift) * times))

    @property
    def explained(self) -> str:
        parts = [
            f"the noise of {noise.site} shifts by {number_text(shift)} in {count_text(times, 'step')}, "
            f"each at a cost of {number_text(_price(noise, shift))}"
            for (noise, shift), times in self._prices.items()
        ]
        return f"to give the same output on the neighbour, in a run that costs most: {'; '.join(parts) or 'no shift'}"


def _price(noise: Noise, shift: Fraction) -> Fraction:
    return max(Fraction(noise.distribution.price.of(way * shift)) for way in (1, -1))


def _left(loop: AlignedLoop, each: AlignedMove) -> Fraction:
    return Fraction(0) if each.move.target is None else loop.left[each.move.target]


def prove_by_steps(mechanism: Mechanism, size: int) -> StepwiseProof | None:
    """The proof of a loop that has too many paths of this size to list them; None where that is not so, or fails.

    Plain runs agreed with its steps, else ExplorationDisagrees is raised.
    """
    if size <= FEW_QUERIES:
        return None
    try:
        system = system_in_rationals(mechanism)
        if path_count(system, size) <= MAX_LISTED_PATHS:
            return None
        phases = [_counted(each, size) for each in phases_of(mechanism.adjacency, system.period)]
        loops = tuple(StepAlignment(system, each, counted=True).solved() for each in phases)
    except NotInductive:
        return None
    cost = max(loop.cost for loop in loops)
    proof = StepwiseProof(mechanism, size, float(cost), cost, system, loops, "")
    checked = check(proof.certificate)
    if checked.rejection is not None:
        return proof  # the caller checks all certificates, and says what is wrong
    checked = spot_check(checked, mechanism.bound(), PLAIN_RUNS, seed=0)
    if checked.rejection is not None:
        raise ExplorationDisagrees(f"{proof}, but at {checked.rejection.place}: {checked.rejection.reason}")
    return StepwiseProof(mechanism, size, float(cost), cost, system, loops, checked.steps[-1].finding)


def path_count(system: LoopSystem, size: int) -> int:
    """How many paths there are for so many queries."""
    ended = 0
    here = Counter(entry.target for entry in system.entries.values())
    for ways in [system.steps] * size + [system.exits]:
        following: Counter[Any] = Counter()
        for state, paths in here.items():
            for step in ways[state].values() if state is not None else ():
                following[step.target] += paths
        ended += here[None]
        here = following
    return ended + here[None]


def _counted(phases: Phases, size: int) -> Phases:
    """The phases, each with the number of queries that were asked; the checker makes the same."""
    return {
        f"{phase} after {k}": tuple((by, f"{following} after {k + 1}") for by, following in moves if k < size)
        for k in range(size + 1)
        for phase, moves in phases.items()
    }
