"""The words in which privacy is claimed and shown to hold or not: Claim, Interval, Witness.

Every comparison with a claim is made here, by one rule: `Claim.covers_proof` and `Claim.refuted_by`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from numbers import Real
from typing import Any

import numpy as np

from veridp.conversions import Event
from veridp.errors import BadInput
from veridp.notions import ApproximateBound, GaussianDP, Notion, PrivacyBounds, RenyiDP, ZeroConcentrated
from veridp.tradeoff import TradeoffCurve

MAKERS: Mapping[str, Callable[[Any], Notion]] = {
    "rho": ZeroConcentrated, "mu": GaussianDP, "rdp": RenyiDP.of, "tradeoff": TradeoffCurve.of,
}  # fmt: skip
MOST_ENTRIES, MOST_RUNS = 24, 6  # of an input that is printed in full
# How far the numbers of a claim are raised before anything is compared with them, as a share of each. The constants of
# a program are floats (1/3 is not a third), so a mechanism written for ε = 1 may truly cost 1.0000000000000002.
CLAIM_TOLERANCE = 1e-9
PROBABILITY_ERROR = 1e-10  # relative error allowed to a probability that was computed in floats
LOSS_ERROR = 2 * PROBABILITY_ERROR  # and so to the log of a ratio of two, absolutely
NEARLY_SHOWN = 1e-3  # the share of a computed ε that events may leave out and still be said to show it
SMALLEST_LOG = -700.0  # of a probability that floats still hold with all their digits


def only_claim(**stated: Any) -> str | None:
    """The name of the notion that is stated; None for (ε, δ) or nothing, BadInput where there are two claims."""
    given = [name for name in MAKERS if stated.get(name) is not None]
    others = [name for name in ("epsilon", "delta") if stated.get(name) is not None]
    if len(given) > 1 or (given and others):
        raise BadInput(
            f"{' and '.join([*others, *given])} are different claims; give {given[0]} alone (an argument of the "
            f"mechanism is set by bind, or --arg)"
        )
    return given[0] if given else None


@dataclass(frozen=True)
class Claim:
    """(ε, δ)-differential privacy: P[M(left) ∈ S] <= e^ε P[M(right) ∈ S] + δ for all neighbours and events S.

    With a `notion`, that is what is claimed, and (ε, δ) is a point that it implies: make one with `Claim.of`. What
    exceeds the point refutes the claim, but a bound within it proves nothing.
    """

    epsilon: float
    delta: float = 0.0
    notion: Notion | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Real) or not self.epsilon >= 0:
            raise BadInput(f"epsilon must be a number >= 0, got {self.epsilon!r}")
        if not isinstance(self.delta, Real) or not 0 <= self.delta <= 1:
            raise BadInput(f"delta must be in [0, 1], got {self.delta!r}")

    @classmethod
    def of(cls, notion: Notion) -> Claim:
        """The claim in this notion, with the first of its implied points."""
        return _claim_of(notion)

    @classmethod
    def stated(cls, epsilon: float | None = None, delta: float | None = None, **notion: Any) -> Claim:
        """The claim that the keywords state: epsilon (and delta), or one of rho, mu, rdp and tradeoff."""
        name = only_claim(epsilon=epsilon, delta=delta, **notion)
        if name is not None:
            return cls.of(MAKERS[name](notion[name]))
        if epsilon is None:
            raise BadInput("no claim; give epsilon, rho, mu, rdp or tradeoff")
        return cls(epsilon, delta or 0.0)

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords that state it."""
        if self.notion is not None:
            return {self.notion.keyword: self.notion.stated}
        return {"epsilon": self.epsilon, "delta": self.delta}

    @cached_property
    def tolerated(self) -> Claim:
        """The claim with its numbers raised by CLAIM_TOLERANCE: the dividing line between covered and refuted."""
        if self.notion is not None:
            return Claim.of(self.notion.raised(CLAIM_TOLERANCE))
        raised = 1 + CLAIM_TOLERANCE
        return Claim(self.epsilon * raised, min(1.0, self.delta * raised))

    @property
    def implied(self) -> tuple[Claim, ...]:
        """The (ε, δ) claims that it implies, as far as they are listed; itself where it has no other notion."""
        return (self,) if self.notion is None else tuple(Claim(*point) for point in self.notion.implied)

    def covers(self, epsilon: float, delta: float = 0.0) -> bool:
        """Whether an upper bound (ε, δ) on the cost is within the tolerated claim, or implies its notion."""
        return self.covers_proof(ApproximateBound(epsilon, delta))

    def covers_proof(self, proof: PrivacyBounds) -> bool:
        """Whether what is proved is within the tolerated claim.

        >>> from veridp.notions import GaussianDP
        >>> claim = Claim.of(GaussianDP(1.0))
        >>> claim.covers_proof(ApproximateBound(0.5)), claim.covers_proof(ApproximateBound(0.5, 1e-9))
        (True, False)
        """
        if self.notion is not None:
            return self.covers_bound(self.bound_of(proof))
        tolerated = self.tolerated
        return proof.epsilon <= tolerated.epsilon and proof.at_delta <= tolerated.delta

    def bound_of(self, proof: PrivacyBounds) -> Notion | None:
        """What the proof says in the notion of the claim; None where it says nothing, or the claim is (ε, δ)."""
        notion = self.tolerated.notion
        return None if notion is None else notion.bound_of(proof)

    def covers_bound(self, bound: Notion | None) -> bool:
        """Whether an upper bound in its notion is within the tolerated claim."""
        notion = self.tolerated.notion
        return notion is not None and bound is not None and notion.covered_by(bound)

    def refuted_by(self, epsilon_lower: Callable[[float], float]) -> bool:
        """Whether a lower bound on ε, as a function of δ, exceeds the tolerated claim at one of its implied points.

        A mechanism whose cost is covered satisfies the tolerated claim, so no valid lower bound refutes it.

        >>> Claim(1.0).refuted_by(lambda delta: 1.0), Claim(1.0).refuted_by(lambda delta: 1.1)
        (False, True)
        """
        return any(epsilon_lower(point.delta) > point.epsilon for point in self.tolerated.implied)

    def refuted_by_delta(self, delta_lower: Callable[[float], float]) -> bool:
        """The same rule for a lower bound on δ, as a function of ε."""
        return any(delta_lower(point.epsilon) > point.delta for point in self.tolerated.implied)

    def refuted_by_event(self, witness: Witness) -> bool:
        """The same rule for an event, which may say more than any implied point."""
        if witness.exceeds is not None and self.exceeded_by(witness.exceeds):
            return True
        return bool(self.violation(witness)) or self.refuted_by(lambda delta: witness.epsilon(delta).lower)

    def exceeded_by(self, point: Claim) -> bool:
        """Whether P[left] > e^ε P[right] + δ, for this (ε, δ), contradicts the tolerated claim."""
        tolerated = self.tolerated
        if tolerated.notion is not None:
            return point.delta >= tolerated.notion.delta(point.epsilon)
        return point.epsilon > tolerated.epsilon and point.delta >= tolerated.delta

    def violation(self, witness: Witness) -> str:
        """What an event shows in the notion of the claim beyond the tolerated claim, in words; empty where nothing."""
        notion = self.tolerated.notion
        if notion is None:
            return ""
        found = witness.divergence
        if found is not None and found.value > float(notion.divergences(np.array([found.order]))[0]):
            return str(found)
        events = [event for event in witness.events if event[1] < event[0]]
        return notion.violation(events) if events else ""

    def excludes(self, epsilon: float) -> bool:
        """Whether this lower bound on ε, at its own δ, exceeds the tolerated claim."""
        return epsilon > self.tolerated.epsilon

    def to_dict(self) -> dict[str, Any]:
        """The claim as plain data."""
        document: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        return document if self.notion is None else {**document, "notion": self.notion.to_dict()}

    def __str__(self) -> str:
        if self.notion is not None:
            return str(self.notion)
        return f"({self.epsilon:g}, {self.delta:g})-DP" if self.delta else f"{self.epsilon:g}-DP"


@lru_cache(maxsize=256)  # to find the points takes a while, and mechanisms are asked for their claim often
def _claim_of(notion: Notion) -> Claim:
    return Claim(*notion.implied[0], notion)


@dataclass(frozen=True)
class Interval:
    """A closed interval that holds the true value, with the confidence its owner states."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise BadInput(
                f"the lower end of an interval must not exceed its upper end, got [{self.lower!r}, {self.upper!r}]"
            )

    @classmethod
    def exactly(cls, value: float) -> Interval:
        """The interval of one point."""
        return cls(value, value)

    @classmethod
    def of_log_probability(cls, log: float) -> Interval:
        """A probability from its computed logarithm, with room for rounding; -inf stands for an impossible event."""
        if -math.inf < log < SMALLEST_LOG:
            return cls(0.0, math.exp(SMALLEST_LOG))
        return cls.of_probability(min(1.0, math.exp(log)))

    @classmethod
    def of_probability(cls, probability: float) -> Interval:
        """A computed probability, with room for rounding."""
        return cls(probability * (1 - PROBABILITY_ERROR), min(1.0, probability * (1 + PROBABILITY_ERROR)))

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        lower, upper = number(self.lower), number(self.upper)
        return lower if lower == upper else f"[{lower}, {upper}]"

    def statement(self, name: str) -> str:
        """What the interval says about the value of this name: `ε = 2`, or `ε in [1, ∞]`."""
        text = str(self)
        return f"{name} in {text}" if text.startswith("[") else f"{name} = {text}"


def number(value: float) -> str:
    """Six digits; ∞ as itself, and zero without a sign."""
    return ("-∞" if value < 0 else "∞") if math.isinf(value) else f"{value + 0.0:.6g}"


@dataclass(frozen=True)
class RenyiLower:
    """A lower bound on the Rényi divergence of an order between two inputs."""

    order: float
    value: float

    def __str__(self) -> str:
        return f"the Rényi divergence of order {self.order:g} is at least {self.value:.9g}"


@dataclass(frozen=True)
class Witness:
    """Two neighbouring inputs and an event, with the probability of the event on either.

    With `confidence` 1 the intervals hold for certain (they are computed, not sampled); below 1 they hold together
    with that probability.
    """

    left: object
    right: object
    event: object  # prints as a sentence about the output
    left_probability: Interval
    right_probability: Interval
    confidence: float = 1.0
    arguments: Mapping[str, object] = field(default_factory=dict)
    as_floats: bool = False  # whether the event may look at the low bits of floats, which rounded outputs do not have
    divergence: RenyiLower | None = None  # a computed one between the two inputs, where that says more than the event
    others: tuple[Event, ...] = ()  # bounds for further events between the two inputs, at the same confidence
    exceeds: Claim | None = None  # an (ε, δ) with P[left] > e^ε P[right] + δ, by a test of this very inequality

    def __post_init__(self) -> None:
        for side, probability in (("left", self.left_probability), ("right", self.right_probability)):
            if probability.lower > 1 or probability.upper < 0:
                raise BadInput(f"{side}_probability must be in [0, 1], got {probability}")
        if not 0 < self.confidence <= 1:
            raise BadInput(f"confidence must be in (0, 1], got {self.confidence!r}")

    @property
    def events(self) -> tuple[Event, ...]:
        """(P[left] at least, P[right] at most) of the event and of all others between the two inputs."""
        return ((self.left_probability.lower, self.right_probability.upper), *self.others)

    def epsilon(self, delta: float = 0.0) -> Interval:
        """What the event says about ε at this δ: every ε below the lower end is refuted.

        The ends are rounded outwards: no claim is refuted by rounding alone.
        """
        above, below = self.left_probability, self.right_probability
        lower = _log_ratio(above.lower - delta, below.upper, -1)
        if self.exceeds is not None and delta <= self.exceeds.delta:
            lower = max(lower, self.exceeds.epsilon)
        return Interval(lower, _log_ratio(above.upper - delta, below.lower, 1))

    def refutes(self, claim: Claim) -> bool:
        """Whether P[left] > e^ε P[right] + δ for the tolerated claim, at all probabilities within the intervals."""
        return claim.refuted_by_event(self)

    def with_error(self, error: float) -> Witness:
        """The same with probabilities that may be off by this much."""
        sides = (
            Interval(max(p.lower - error, 0.0), min(p.upper + error, 1.0))
            for p in (self.left_probability, self.right_probability)
        )
        left, right = sides
        return replace(self, left_probability=left, right_probability=right)

    def to_dict(self) -> dict[str, Any]:
        """Inputs, event and probabilities as plain data."""
        return {
            "left": self.left,
            "right": self.right,
            "event": str(self.event),
            "left_probability": [self.left_probability.lower, self.left_probability.upper],
            "right_probability": [self.right_probability.lower, self.right_probability.upper],
            **({} if self.divergence is None else {"divergence": vars(self.divergence)}),
            **({"other_events": [list(event) for event in self.others]} if self.others else {}),
            **({} if self.exceeds is None else {"exceeds": self.exceeds.to_dict()}),
        }

    def __str__(self) -> str:
        return (
            f"{self.event}: probability {self.left_probability} on {data_text(self.left)}, "
            f"{self.right_probability} on {data_text(self.right)}{' (as floats)' if self.as_floats else ''}"
            f"{'' if self.divergence is None else f'; {self.divergence}'}"
        )


def as_floats_note(epsilon: float, shown: float) -> str:
    """What to say of a computed ε where events show less of it beyond what a library rounds off; else nothing.

    >>> as_floats_note(4.0, 2.5), as_floats_note(4.0, 4.0)
    ('this ε is one as floats: beyond what the library rounds off, events show only 2.5', '')
    """
    if shown >= epsilon * (1 - NEARLY_SHOWN):
        return ""
    return f"this ε is one as floats: beyond what the library rounds off, events show only {number(shown)}"


def data_text(data: object) -> str:
    """An input in a line; a long list as a sum of lists where it has few runs, else with its middle left out.

    >>> data_text([1.0] * 999 + [2.0]), data_text([1.0, 2.0])
    ('[1.0] * 999 + [2.0]', '[1.0, 2.0]')
    """
    values = data.tolist() if hasattr(data, "tolist") else data
    if not isinstance(values, list) or len(values) <= MOST_ENTRIES:
        return str(values)
    runs = [(text, sum(1 for _ in run)) for text, run in itertools.groupby(values, repr)]
    if len(runs) <= MOST_RUNS:
        return " + ".join(f"[{text}]" if count == 1 else f"[{text}] * {count}" for text, count in runs)
    return f"[{', '.join(map(repr, values[:5]))}, …, {', '.join(map(repr, values[-2:]))}] ({len(values)} entries)"


def _log_ratio(above: float, below: float, outwards: int) -> float:
    """ln(above / below), rounded downwards (-1) or upwards (1).

    Nothing above says nothing (-inf), nothing below alone says everything (+inf).
    """
    if above <= 0:
        return -math.inf
    if below <= 0:
        return math.inf
    logs = math.log(above), math.log(below)
    # a last place for each logarithm, one for their difference, and one of 1 for the subtraction that made `above`
    error = 2 * (math.ulp(logs[0]) + math.ulp(logs[1]) + math.ulp(1.0))
    return logs[0] - logs[1] + outwards * error
