"""The result of a search: its restarts, and the best pair and event, confirmed exactly or on fresh samples."""

from __future__ import annotations

import math
import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Domain, Pair, Patch
from veridp.budget import Deadline, OutOfTime, at_most
from veridp.claim import LOSS_ERROR, Interval, Witness, as_floats_note
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper, hoeffding_radius
from veridp.engines.exact import compare
from veridp.engines.exact.distribution import replayed_paths
from veridp.engines.exact.event import ExactEvent
from veridp.engines.finder.candidates import EventForm
from veridp.engines.finder.problem import Problem, Spot, log_probability
from veridp.errors import CutShort, NotExact, NotExplorable
from veridp.kernel.symbols import count_text
from veridp.mechanism import Mechanism
from veridp.result import LowerBound
from veridp.sampling.sample import tally

# -------------------------------------------------------------------------------------------------------------- result
# The settings and results of restarts: plain values that go from process to process.


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
    """The result of one restart: the pair and the event, and ε by the relaxed estimate, unrelaxed, and verified.

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


@dataclass(frozen=True, eq=False)
class FinderResult(LowerBound):
    """The worst pair and event found: `epsilon` is a lower bound on the mechanism's ε for inputs of this size.

    `verified` says how it is known: "exact" (up to rounding), or from samples at a stated confidence. An exact ε is the
    supremum over all events of the pair; where only ever narrower events of numbers attain it, the witness's event
    comes close. Nothing is claimed about pairs that were not tried.
    """

    mechanism: Mechanism
    size: int
    epsilon: float
    witness: Witness
    verified: str
    searched: tuple[str, ...]
    finished: bool  # whether the search ended by itself, and not for lack of time or by an interrupt
    seconds: float
    restarts: tuple[Restart, ...] = field(repr=False)
    hoeffding: float | None = None  # the bound by Hoeffding's inequality from the same samples, where there were any

    @property
    def correlations(self) -> tuple[float, ...]:
        """Between both sides of each restart's event, where both vary."""
        return tuple(restart.correlation for restart in self.restarts if not math.isnan(restart.correlation))

    @property
    def as_floats(self) -> str:
        """A note where an exact ε rests on what a library rounds off; empty where it does not."""
        error = self.mechanism.probability_error
        if not error or self.verified != "exact":
            return ""
        return as_floats_note(self.epsilon, max(0.0, self.witness.with_error(error).epsilon().lower))

    def _lower(self, delta: float) -> float:
        """What the witness, or at δ = 0 the exact ε between its inputs, shows of ε."""
        error = self.mechanism.probability_error
        if self.verified != "exact" or delta or error:
            return self.witness.with_error(error).epsilon(delta).lower
        return self.epsilon - LOSS_ERROR

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, in the words of `veridp schema`."""
        return {
            "mechanism": str(self.mechanism),
            "adjacency": self.mechanism.adjacency.name,
            "size": self.size,
            "epsilon": self.epsilon,
            "verified": self.verified,
            "hoeffding": self.hoeffding,
            "claim": self.claim and self.claim.to_dict(),
            "assumed": self.mechanism.assumptions,
            "refuted": self.claim and self.refuted,
            "as_floats": bool(self.as_floats),
            "witness": {**self.witness.to_dict(), "confidence": self.witness.confidence},
            "searched": list(self.searched),
            "finished": self.finished,
            "seconds": self.seconds,
            "restarts": [restart.to_dict() for restart in self.restarts],
        }

    def __str__(self) -> str:
        relation = "=" if self.verified == "exact" else ">="
        count = count_text(len(self.restarts), "restart")
        end = "" if self.finished else "; cut short"
        note = f"; {self.as_floats}" if self.as_floats else ""
        return (
            f"{self.mechanism.name}: ε {relation} {self.epsilon:.6g} ({self.verified}) between {self.witness.left} and "
            f"{self.witness.right}, where {self.witness.event} ({count}{end}){note}"
        )


# -------------------------------------------------------------------------------------------------------------- verify
# Confirms what was found: exactly where the exact engine can, else on fresh samples.


MOST_SAMPLES = 10**7
PILOT = 20_000  # samples that tell how fast samples are drawn; they are not counted
EVENT = "event"
MIN_EXACT_SECONDS = 0.3  # seconds that an exact comparison is given even where the time is up


@dataclass(frozen=True)
class VerifiedPair:
    """What is known of a pair: an ε that the mechanism has at least, the event that shows it, and how it is known.

    `epsilon` is exact (`how` says so) or a lower bound at the witness's confidence. `hoeffding` is the lower bound at
    the same confidence that Hoeffding's inequality gives from the same samples; None where nothing was sampled.
    """

    epsilon: float
    witness: Witness
    how: str
    hoeffding: float | None = None
    finished: bool = True  # whether there was time for as many samples as were asked for


def judge_pair(mechanism: Mechanism, left: Any, right: Any, seconds: float) -> VerifiedPair | None:
    """The exact ε between two inputs, with the event that attains it; None where that is out of reach, or of time."""
    try:
        with at_most(max(seconds, MIN_EXACT_SECONDS)):
            comparison = compare(mechanism, left, right)
            return VerifiedPair(comparison.epsilon, comparison.witness, "exact")
    except (NotExact, NotExplorable, CutShort, OutOfTime):
        return None


def judge_event(mechanism: Mechanism, left: Any, right: Any, event: ExactEvent) -> VerifiedPair | None:
    """The exact ε of one event between two inputs, after plain runs agreed with their paths; None if out of reach."""
    try:
        above, below = (log_probability(replayed_paths(mechanism, data), event) for data in (left, right))
    except (NotExact, NotExplorable, CutShort):
        return None
    epsilon = 0.0 if above == -math.inf else math.inf if below == -math.inf else max(0.0, above - below)
    p, q = (Interval.of_log_probability(log) for log in (above, below))
    return VerifiedPair(epsilon, Witness(left, right, event, p, q, arguments=dict(mechanism.arguments)), "exact")


def judge_by_samples(
    mechanism: Mechanism,
    left: Any,
    right: Any,
    event: ExactEvent,
    *,
    confidence: float,
    most: int,
    deadline: Deadline,
    seed: int,
    executor: Executor | None = None,
    workers: int | None = None,
) -> VerifiedPair:
    """A lower bound on the ε of the event, from up to `most` fresh samples of either input.

    How many is settled before any of them is drawn, by how fast a pilot run was; so the bounds, four one-sided ones by
    Clopper and Pearson, hold together with the confidence.
    """
    seeds = np.random.SeedSequence(seed).generate_state(3, np.uint64).tolist()

    def hits_of(data: Any, count: int, seed: int) -> int:
        return tally(mechanism, data, count, seed, events={EVENT: event}, executor=executor, workers=workers)[EVENT]

    start = time.monotonic()
    hits_of(left, min(PILOT, most), seeds[2])
    pace = max(time.monotonic() - start, 1e-3) / min(PILOT, most)
    count = int(min(most, max(PILOT, 0.8 * deadline.left / (2 * pace))))
    hits = [hits_of(data, count, own) for data, own in zip((left, right), seeds[:2], strict=True)]
    alpha = 1 - confidence
    p, q = (
        Interval(
            float(clopper_pearson_lower(number, count, alpha / 4)),
            float(clopper_pearson_upper(number, count, alpha / 4)),
        )
        for number in hits
    )
    witness = Witness(left, right, event, p, q, confidence=confidence, arguments=dict(mechanism.arguments))
    how = f"{count} samples of either input at confidence {confidence:g}"
    return VerifiedPair(max(0.0, witness.epsilon().lower), witness, how, _hoeffding(hits, count, alpha), count == most)


def _hoeffding(hits: list[int], count: int, alpha: float) -> float:
    radius = float(hoeffding_radius(count, alpha / 2))
    above, below = hits[0] / count - radius, hits[1] / count + radius
    return math.log(above / below) if above > 0 else -math.inf
