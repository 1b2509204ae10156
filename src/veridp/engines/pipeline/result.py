"""What a comparison of two runs found: releases with their costs, candidates for bugs, what was lost from sight."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from veridp.accounting.lattice import Composition, Part
from veridp.accounting.pairs import GaussianPair
from veridp.accounting.tree import DominatingPairs
from veridp.adjacency import Pair
from veridp.claim import Claim, data_text, number
from veridp.mechanism import Mechanism
from veridp.presentation import Presentable
from veridp.verdict import Remark

DELTA = 1e-6  # at which ε is given where no δ is claimed and the noise has no ε without one


class Fault(enum.StrEnum):
    """What is wrong with a program, as far as two runs can show it."""

    DRAWS = "draws"  # one run draws what the other does not
    PARAMETERS = "parameters"  # the parameters of noise depend on the data
    UNNOISED = "unnoised"  # a value reaches the output without noise
    CONTROL = "control flow"  # it depends on the data, and not on what was released
    REUSED = "reused noise"  # two values share their noise, and their difference has none
    SUPPORT = "support"  # the noise cannot be moved as the data moved: it stays on one side
    SEED = "seed"  # the same in every run
    SENSITIVITY = "sensitivity"  # a release of a library is moved by more than it was made for
    COST = "cost"  # all releases together cost more than is claimed


@dataclass(frozen=True)
class Candidate:
    """A fault that two runs show, and where. It is not a verdict: `exact`, `prove` or fresh samples confirm it."""

    fault: Fault
    sentence: str
    file: str = ""
    line: int = 0

    @property
    def remark(self) -> Remark:
        return Remark(f"{self.fault}: {self.sentence}", self.file, self.line)

    def __str__(self) -> str:
        return str(self.remark)


@dataclass(frozen=True)
class PipelineRelease:
    """Noise of one line, all draws of one kind together, and how far the values that it hides are apart.

    `distance` is the largest of any draw, `l1` and `l2` are norms over all of them. `epsilon` is what keeping all its
    values costs without δ. `reaches_output` tells whether a number of the output depends on it,
    and not a decision alone; `output_parts` are what the output shows of the costs of its draws.
    """

    noise: str
    file: str
    line: int
    draws: int
    distance: float
    l1: float
    l2: float
    scale: float | None
    epsilon: float
    reaches_output: bool
    parts: tuple[DominatingPairs | None, ...] = field(repr=False, compare=False)
    output_parts: tuple[DominatingPairs | None, ...] = field(repr=False, compare=False)

    def __str__(self) -> str:
        place = Remark("", self.file, self.line)
        times = "" if self.draws == 1 else f", {self.draws} draws"
        moved = f"moves by {self.distance:.6g}" if self.draws == 1 else f"moves by {self.l1:.6g} in all"
        return f"{place}{self.noise}{times}: {moved}, ε = {number(self.epsilon)}"


@dataclass(frozen=True)
class PipelineResult(Presentable):
    """Two runs of a program, the right one with its noise shifted so that all releases are those of the left one.

    `aligned` tells whether the right run, on plain numbers, then gave the same output. What is in `candidates` is not
    proved; what is not there may be wrong all the same: two runs of one pair were compared.
    """

    mechanism: Mechanism
    left: object
    right: object
    releases: tuple[PipelineRelease, ...]
    candidates: tuple[Candidate, ...]
    lost: tuple[Remark, ...]  # where noise went out of sight
    aligned: bool
    runs: int  # of the program
    seconds: float
    seed: int = 0
    pattern: str = "given"  # how the pair was made
    finished: bool = True

    @property
    def claim(self) -> Claim | None:
        """What the program claims."""
        return self.mechanism.claim

    @property
    def pair(self) -> Pair:
        """The two inputs, for `sniper.search(pairs=[…])` or `audit(pairs=[…])`."""
        return Pair(self.left, self.right, f"pipeline: {self.pattern}")

    @cached_property
    def tight(self) -> bool:
        """Whether the output shows all that is charged: what decides alone, say, may be kept for less."""
        return all(
            len(release.output_parts) == len(release.parts)
            and all(map(operator.is_, release.output_parts, release.parts))
            for release in self.releases
        )

    def _composed(self, parts: Sequence[DominatingPairs | None]) -> tuple[Composition, Composition] | None:
        known = [part for part in parts if part is not None]
        if not self.aligned or len(known) < len(parts):
            return None
        forwards = Composition(Part(part.removed) for part in known)
        return forwards, Composition(Part(part.added) for part in known)

    @cached_property
    def _compositions(self) -> tuple[Composition, Composition] | None:
        return self._composed([part for release in self.releases for part in release.parts])

    @property
    def priced(self) -> bool:
        """Whether the cost of every release is known; that of normal noise is, though it has no ε without δ."""
        return self._compositions is not None

    def epsilon_at(self, delta: float) -> float:
        """What keeping every release costs between these two inputs, at this δ; inf where that is not known.

        It holds for the releases of this run. Other noise may take other ways through the program.
        """
        return _epsilon(self._compositions, delta)

    def delta_at(self, epsilon: float) -> float:
        """The same as δ at this ε; 1 where it is not known."""
        return max((one.delta(epsilon) for one in self._compositions or ()), default=1.0)

    @cached_property
    def output_epsilon(self) -> float:
        """The cost at `delta` that the output itself shows: a lower bound, where the composed cost is an upper one."""
        return _epsilon(
            self._composed([part for release in self.releases for part in release.output_parts]), self.delta
        )

    @property
    def delta(self) -> float:
        """The δ at which `epsilon` is given: the claimed one, else 0 where that is enough, else 1e-6."""
        if self.claim is not None and self.claim.delta:
            return self.claim.delta
        return 0.0 if self.claim is not None or math.isfinite(self.epsilon_at(0.0)) else DELTA

    @cached_property
    def epsilon(self) -> float:
        """The composed cost at `delta`."""
        return self.epsilon_at(self.delta)

    @cached_property
    def rho(self) -> float:
        """The composed cost as ρ of zero-concentrated privacy: μ²/2 for normal noise, ε²/2 for all other."""
        if not self.priced:
            return math.inf
        return math.fsum(_rho(part) for release in self.releases for part in release.parts if part is not None)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, in the words of `veridp schema`."""
        return {
            "mechanism": str(self.mechanism),
            "claim": self.claim and self.claim.to_dict(),
            "left": self.left,
            "right": self.right,
            "pattern": self.pattern,
            "aligned": self.aligned,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "releases": [
                {
                    "noise": release.noise,
                    "file": release.file,
                    "line": release.line,
                    "draws": release.draws,
                    "distance": release.distance,
                    "l1": release.l1,
                    "l2": release.l2,
                    "scale": release.scale,
                    "epsilon": release.epsilon,
                    "reaches_output": release.reaches_output,
                }
                for release in self.releases
            ],
            "candidates": [
                {"fault": one.fault.value, "sentence": one.sentence, "file": one.file, "line": one.line}
                for one in self.candidates
            ],
            "lost": [{"sentence": one.sentence, "file": one.file, "line": one.line} for one in self.lost],
            "runs": self.runs,
            "seed": self.seed,
            "seconds": self.seconds,
            "finished": self.finished,
        }

    @property
    def cost_text(self) -> str:
        """The composed cost in words."""
        if not self.priced:
            return "the composed cost is not known"
        at = f" at δ = {self.delta:g}" if self.delta else ""
        bound = "" if self.tight else "at most "
        return f"all releases together cost {bound}ε = {number(self.epsilon)}{at}, ρ = {number(self.rho)}"

    def __str__(self) -> str:
        claim = "" if self.claim is None else f" ({self.claim} is claimed)"
        lines = [
            f"{self.mechanism}: {data_text(self.left)} against {data_text(self.right)} ({self.pattern})",
            *(f"  {release}" for release in self.releases),
            f"  {self.cost_text}{claim}",
            *(f"  candidate: {candidate}" for candidate in self.candidates),
            *(f"  lost: {remark}" for remark in self.lost),
        ]
        return "\n".join(lines)


def _epsilon(compositions: tuple[Composition, Composition] | None, delta: float) -> float:
    return math.inf if compositions is None else max(composition.epsilon(delta) for composition in compositions)


def _rho(pair: DominatingPairs) -> float:
    """ρ of a pair: an ε without δ is ε²/2 (Bun and Steinke, TCC 2016, Proposition 1.4)."""
    if isinstance(pair.removed, GaussianPair):
        return pair.removed.ratio**2 / 2
    return pair.supremum**2 / 2


def norms(moves: Sequence[float]) -> tuple[float, float, float]:
    """The largest, the sum and the Euclidean norm of the distances."""
    sizes = [abs(move) for move in moves]
    return max(sizes, default=0.0), math.fsum(sizes), math.sqrt(math.fsum(size * size for size in sizes))
