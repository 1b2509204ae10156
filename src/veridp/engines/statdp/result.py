"""What a detection found: the curve of p-values, the bound for ε, the witness."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veridp.claim import Claim, Interval, Witness
from veridp.engines.statdp.candidates import FeatureEvent
from veridp.mechanism import Mechanism
from veridp.presentation import Presentable


@dataclass(frozen=True, eq=False)
class CurvePoint:
    """A test ε, the event that was chosen for it, and what a fresh sample says.

    `forward` and `backward` are the expected p-values of Algorithm 2 against P[left] <= e^ε P[right], and against the
    same with left and right exchanged; 1 where no event was frequent enough to be tested.
    """

    epsilon: float
    forward: float
    backward: float
    corrected_forward: float
    corrected_backward: float
    event: FeatureEvent | None = None
    left: Any = None
    right: Any = None
    arguments: Mapping[str, Any] | None = None
    left_count: int = 0
    right_count: int = 0
    runs: int = 0

    @property
    def p_value(self) -> float:
        """The smaller of the two, as the paper reports it: not corrected for anything."""
        return min(self.forward, self.backward)

    @property
    def corrected_p_value(self) -> float:
        """The smaller of the two directions, corrected for all that was tested."""
        return min(self.corrected_forward, self.corrected_backward)

    def to_dict(self) -> dict[str, Any]:
        """The point as plain data."""
        return {
            "epsilon": self.epsilon,
            "p_value": self.p_value,
            "corrected_p_value": self.corrected_p_value,
            "forward": self.forward,
            "backward": self.backward,
            "corrected_forward": self.corrected_forward,
            "corrected_backward": self.corrected_backward,
            "event": None if self.event is None else str(self.event),
            "left": self.left,
            "right": self.right,
            "arguments": dict(self.arguments or {}),
            "counts": [self.left_count, self.right_count],
            "runs": self.runs,
        }


@dataclass(frozen=True, eq=False)
class Detection(Presentable):
    """Whether a claim of ε-differential privacy stands up to a statistical test.

    For each test ε an event was chosen on one sample and tested on another, level after level with more runs. The curve
    and the witness are those of the last level, or of the last that refutes the claim if there is one; the bound is
    the best of all levels. `corrected_p_value` of a point, and of the whole (at the claimed ε), allows for everything
    that was tested on fresh samples: if the mechanism is ε-private,
    then with probability at least 1 - α no point at or above that ε has a corrected p-value <= α, and `epsilon_lower`
    does not exceed it. See `veridp.statdp.detect` for why.
    """

    mechanism: Mechanism
    claim: Claim
    curve: tuple[CurvePoint, ...]
    epsilon_lower: float  # every smaller ε is refuted, at confidence 1 - alpha
    alpha: float
    witness: Witness | None
    searched: tuple[str, ...]
    finished: bool
    seconds: float
    sampling_seconds: float  # of these, spent on running the mechanism and counting the chosen events

    @property
    def claimed(self) -> CurvePoint:
        """The point of the curve at the claimed ε."""
        return next(point for point in self.curve if point.epsilon == self.claim.epsilon)

    @property
    def p_value(self) -> float:
        """The p-value at the claimed ε as the paper reports it: the smaller of the two directions."""
        return self.claimed.p_value

    @property
    def corrected_p_value(self) -> float:
        """The p-value at the claimed ε, corrected for all that was tested."""
        return self.claimed.corrected_p_value

    @property
    def event(self) -> FeatureEvent | None:
        """The event that was tested at the claimed ε."""
        return self.claimed.event

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted at level alpha."""
        return self.corrected_p_value < self.alpha

    @property
    def bounds(self) -> Interval:
        """Every ε below the lower end is refuted, at confidence 1 - alpha; nothing is proved."""
        return Interval(self.epsilon_lower, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """The detection as plain data, in the words of `veridp schema`."""
        witness = self.witness
        return {
            "mechanism": str(self.mechanism),
            "claim": self.claim.to_dict(),
            "assumed": self.mechanism.assumptions,
            "refuted": self.refuted,
            "p_value": self.p_value,
            "corrected_p_value": self.corrected_p_value,
            "alpha": self.alpha,
            "epsilon_lower": self.epsilon_lower,
            "witness": witness
            and {**witness.to_dict(), "confidence": witness.confidence, "arguments": dict(witness.arguments)},
            "curve": [point.to_dict() for point in self.curve],
            "searched": list(self.searched),
            "finished": self.finished,
            "seconds": self.seconds,
        }

    def at(self, epsilon: float) -> CurvePoint:
        """The point of the curve at the test ε nearest to this."""
        return min(self.curve, key=lambda point: abs(point.epsilon - epsilon))

    def __str__(self) -> str:
        stands = "refuted" if self.refuted else "not refuted"
        return (
            f"{self.mechanism.name}: {self.claim} is {stands}, p = {self.corrected_p_value:.3g} "
            f"({self.p_value:.3g} uncorrected); ε >= {self.epsilon_lower:.4g} at confidence {1 - self.alpha:g}"
            f"{'' if self.finished else '; cut short'}"
        )
