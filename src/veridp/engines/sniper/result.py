"""What a search found: the certified bound, its witness, the privacy profile below it, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridp.claim import Claim, Interval, Witness
from veridp.engines.sniper.confirm import CountedBounds, Look
from veridp.engines.sniper.pair_attack import Setting, seed_for
from veridp.engines.sniper.wording import described
from veridp.mechanism import Mechanism
from veridp.sampling.outputs import concatenate

POINTS = 21  # of the privacy profile
DESCRIBED = 4000  # outputs of either side, at most, by which an event is put into words


@dataclass(frozen=True)
class ProfilePoint:
    """No δ below this is kept at this ε."""

    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False)
class AttackResult:
    """A lower bound on ε at δ = `delta`, that is too high with probability at most 1 - `confidence`.

    The bound, the witness and all points of the profile hold together with that confidence. Nothing is said about
    inputs and events that are worse than those that were found.
    """

    mechanism: Mechanism
    size: int
    claim: Claim | None
    delta: float
    confidence: float
    epsilon_lower: float
    estimate: float  # of ε from the frequencies of the event, without confidence
    witness: Witness | None
    profile: tuple[ProfilePoint, ...]
    model: str
    samples: int  # of either side, on which the bound rests
    counts: tuple[int, int]  # how often the event happened among them, on the left and on the right
    drawn: int  # outputs in all, those of the search included
    tried: int  # pairs
    searched: tuple[str, ...]
    finished: bool
    seconds: float
    events: tuple[CountedBounds, ...] = ()  # what the profile rests on

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted, at the confidence."""
        claim = self.claim
        return claim is not None and any(claim.refuted_by(event.epsilon) for event in self.events)

    def delta_lower(self, epsilon: float) -> float:
        """No δ below this is kept at this ε; for all ε at once."""
        return max(0.0, *(event.delta(epsilon) for event in self.events)) if self.events else 0.0

    @property
    def bounds(self) -> Interval:
        """The certified lower bound on ε at δ = `delta`; nothing is proved."""
        return Interval(self.epsilon_lower, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, in the words of `veridp schema`."""
        witness, claim = self.witness, self.claim
        return {
            "mechanism": str(self.mechanism),
            "adjacency": self.mechanism.adjacency.name,
            "size": self.size,
            "epsilon_lower": self.epsilon_lower,
            "delta": self.delta,
            "confidence": self.confidence,
            "estimate": self.estimate,
            "claim": claim and claim.to_dict(),
            "assumed": self.mechanism.assumptions,
            "refuted": self.refuted,
            "witness": None
            if witness is None
            else {
                "left": witness.left,
                "right": witness.right,
                "event": str(witness.event),
                "left_probability_at_least": witness.left_probability.lower,
                "right_probability_at_most": witness.right_probability.upper,
                "left_count": self.counts[0],
                "right_count": self.counts[1],
                "as_floats": witness.as_floats,
            },
            "profile": [{"epsilon": point.epsilon, "delta": point.delta} for point in self.profile],
            "model": self.model,
            "samples": self.samples,
            "drawn": self.drawn,
            "tried": self.tried,
            "searched": list(self.searched),
            "finished": self.finished,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        at = f" at δ = {self.delta:g}" if self.delta else ""
        end = "" if self.finished else "; cut short"
        return f"{self.mechanism.name}: ε >= {self.epsilon_lower:.6g}{at} with confidence {self.confidence:g}{end}"


def finding_of(
    setting: Setting,
    looks: Sequence[Look],
    texts: dict[Look, str],
    *,
    size: int,
    claim: Claim | None,
    confidence: float,
    outputs: int,
    **rest: Any,
) -> AttackResult:
    """What the looks certify together; the best of them is the witness.

    Its event is put into words by so many outputs of either side, unless the `texts` know it or there are none.
    """
    best = max(looks, key=lambda look: look.epsilon)
    bound = best.epsilon
    witness = None
    if bound > -math.inf:
        pair, attack = best.candidate.pair, best.attack
        if outputs and best not in texts:
            draws = [
                replace(setting, expected=0).draw(data, outputs, seed_for(setting.seed, 99), side)
                for side, data in enumerate((pair.left, pair.right))
            ]
            texts[best] = described(attack, concatenate(draws))
        attack = replace(attack, text=texts.get(best, ""))
        witness = replace(best.witness(attack, confidence), arguments=dict(setting.mechanism.arguments))
    events = tuple(look.bounds for look in looks)
    return AttackResult(
        mechanism=setting.mechanism,
        size=size,
        claim=claim,
        confidence=confidence,
        epsilon_lower=max(0.0, bound),
        estimate=best.bounds.estimate(best.delta),
        delta=best.delta,
        witness=witness,
        profile=_profile(events),
        model=str(best.attack.scorer.family),
        samples=best.bounds.samples,
        counts=(best.bounds.left, best.bounds.right),
        events=events,
        **rest,
    )


def _profile(events: Sequence[CountedBounds]) -> tuple[ProfilePoint, ...]:
    """The largest δ that any of the events certifies, from ε = 0 to where nothing is left."""
    top = max((event.epsilon() for event in events), default=0.0)
    if top <= 0:
        return ()
    points = []
    for epsilon in np.linspace(0.0, top, POINTS, endpoint=False).tolist():
        delta = max(event.delta(epsilon) for event in events)
        if delta > 0:
            points.append(ProfilePoint(epsilon, delta))
    return tuple(points)
