"""What a restart is about and what it came to: plain values that go from process to process."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Domain, Pair, Patch
from veridp.claim import Interval
from veridp.engines.exact.event import ExactEvent
from veridp.engines.finder.events import EventForm
from veridp.engines.finder.problem import Problem, Spot
from veridp.mechanism import Mechanism

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SearchSettings:
    """What a search is about, and what it may spend on each restart."""

    mechanism: Mechanism
    size: int
    domain: Domain
    seed: int
    alpha: float
    target: float
    samples: int
    start: tuple[Pair, ...] = ()


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """A pair and an event, as variables that can be climbed from."""

    place: Patch | Spot
    form: EventForm
    z: Array
    end_low: Array
    end_high: Array

    @classmethod
    def of(cls, problem: Problem, z: Array) -> StartingPoint:
        return cls(problem.place, problem.form, z, problem.end_low, problem.end_high)


@dataclass(frozen=True)
class Restart:
    """What one restart came to: the pair and the event, and ε by the relaxed estimate, unrelaxed, and verified.

    `unrelaxed` is an estimate from fresh noise, and `interval` where it lies by the multivariate central limit
    theorem; `verified` is exact, for this very event, and None where the exact engine cannot evaluate it.
    `relaxed` is None where nothing was relaxed: in the random baseline, and where only pairs were tried.
    """

    number: int
    left: Any
    right: Any
    event: ExactEvent
    relaxed: float | None
    unrelaxed: float
    interval: Interval
    correlation: float
    samples: int
    evaluations: int
    verified: float | None
    seconds: float
    score: float = field(repr=False)  # a lower estimate, by which restarts are ranked where none is verified
    candidate: StartingPoint = field(repr=False, compare=False)
    pair: float | None = None  # the exact ε of the pair over all events, where that was computed

    def to_dict(self) -> dict[str, Any]:
        """The restart as plain data."""
        return {
            "number": self.number,
            "left": self.left,
            "right": self.right,
            "event": str(self.event),
            "relaxed": self.relaxed,
            "unrelaxed": _known(self.unrelaxed),
            "interval": [self.interval.lower, self.interval.upper],
            "verified": self.verified,
            "correlation": _known(self.correlation),
            "samples": self.samples,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
        }

    @property
    def rank(self) -> float:
        """What restarts are compared by: what is known exactly, else a lower estimate."""
        known = [value for value in (self.verified, self.pair) if value is not None]
        return max(known) if known else self.score


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
