"""What a search found: the certified bound, its witness in words, and the privacy profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.claim import Claim, Interval, Witness
from veridp.confidence import detectable_by_one_test, detectable_probability
from veridp.conversions import Event, tradeoff_divergences
from veridp.engines.sniper.attack import BOUND_SHARE, ThresholdAttack
from veridp.engines.sniper.classifier import LinearModel, Model, Network, SingleFeature
from veridp.engines.sniper.confirm import CountedBounds, LinearBounds, Look, SequentialBounds, by_candidate
from veridp.engines.sniper.pair_attack import Setting, seed_for
from veridp.errors import BadInput
from veridp.kernel.output import Raised, leaf_text, tree_text
from veridp.mechanism import Mechanism
from veridp.notions import mu_shown, rho_shown
from veridp.presentation import Presentable
from veridp.sampling.outputs import Outputs, concatenate
from veridp.verdict import Detectable

# ------------------------------------------------------------------------------------------------------------- wording
# Attacks as sentences about the output, as plain as the classifier allows.


MAX_LISTED_OUTPUTS = 64  # different outputs that can be listed
SHOWN = 6
TERMS = 4
SPANS = 3
SLIGHT = 0.02  # weights below this share of the largest are not worth a word


def described(attack: ThresholdAttack, outputs: Outputs) -> str:
    """A sentence about which outputs belong to the attack; the outputs are some that occur on either side.

    It tells them for certain only where it is a comparison: rare outputs that are not among these are not listed, small
    weights are left out, and a classifier of many columns is only named.
    """
    sign = attack.scorer.sign
    model, names = attack.scorer.model, attack.scorer.columns.names
    listed = _listed(attack, outputs)
    if listed is not None:
        return listed + _coin(attack)
    if isinstance(model, SingleFeature):
        direction = sign * model.sign
        bound = direction * attack.level
        if names[0].startswith("[") and 0 < bound <= 1:  # a flag, which is 0 or 1
            return f"{'' if direction > 0 else 'not '}{names[0]}{_coin(attack)}"
        return f"{names[0]} {'>=' if direction > 0 else '<='} {bound:.6g}{_coin(attack)}"
    weights = _weights(model)
    if weights is not None:
        return _weighted(weights[0], weights[1], names, sign, attack.level) + _coin(attack)
    spans = _spans(attack, outputs) if len(names) == 1 and attack.tie in (0.0, 1.0) else None
    if spans is not None:
        return spans
    shown = ", ".join(names[:TERMS]) + (f" and {len(names) - TERMS} more columns" if len(names) > TERMS else "")
    return f"score by {model.family} of {shown} {'>=' if sign > 0 else '<='} {sign * attack.level:.6g}{_coin(attack)}"


def _coin(attack: ThresholdAttack) -> str:
    return "" if attack.tie in (0.0, 1.0) else f", with probability {attack.tie:.6g} where equal"


def _listed(attack: ThresholdAttack, outputs: Outputs) -> str | None:
    """The outputs of the attack one by one, or those that are not of it, where there are few in all."""
    first = np.nan_to_num(outputs.matrix()[:500])
    if any(template.slots for template in outputs.templates) and len(np.unique(first, axis=0)) > MAX_LISTED_OUTPUTS:
        return None
    counts = outputs.distinct()
    if len(counts) > MAX_LISTED_OUTPUTS or attack.tie not in (0.0, 1.0):
        return None
    by_count = sorted(counts, key=lambda output: -counts[output])
    taken = [output for output in by_count if attack.holds(output)]
    left_out = [output for output in by_count if not attack.holds(output)]
    if len(left_out) < len(taken):
        return _choice(left_out, "not ", "none of ") if left_out else "any output"
    return _choice(taken, "", "one of ") if taken else "none of the outputs that were seen"


def _choice(outputs: Sequence[Any], one: str, several: str) -> str:
    if len(outputs) == 1:
        only = outputs[0]
        return str(only) if isinstance(only, Raised) and not one else f"output is {one}{_shown(only)}"
    more = f" or {len(outputs) - SHOWN} more" if len(outputs) > SHOWN else ""
    return f"output is {several}{', '.join(map(_shown, outputs[:SHOWN]))}{more}"


def _shown(output: Any) -> str:
    def text(leaf: Any) -> str:
        return (
            f"{leaf:.6g}" if isinstance(leaf, float) else f"({leaf})" if isinstance(leaf, Raised) else leaf_text(leaf)
        )

    return tree_text(output, text)


def _weights(model: Model) -> tuple[NDArray[np.float64], float] | None:
    """Weights on the columns as they are, and the constant, where the score is a weighted sum."""
    if isinstance(model, LinearModel):
        scaled, bias = model.weights, 0.0
    elif isinstance(model, Network) and len(model.layers) == 1:
        scaled, bias = model.layers[0][0][:, 0].astype(np.float64), float(model.layers[0][1][0])
    else:
        return None
    weights = scaled / model.scale.deviations
    return weights, bias - float(weights @ model.scale.means)


def _weighted(weights: NDArray[np.float64], constant: float, names: Sequence[str], sign: int, level: float) -> str:
    """The weighted sum against its level, scaled so that the largest weight is 1."""
    weights, level = sign * weights, level - sign * constant
    size = float(np.max(np.abs(weights))) or 1.0
    order = [place for place in np.argsort(-np.abs(weights)).tolist() if abs(weights[place]) >= SLIGHT * size]
    if len(order) == 1 and weights[order[0]] < 0:
        return f"{names[order[0]]} <= {-level / size:.6g}"
    text = ""
    for place in order[:TERMS]:
        factor = weights[place] / size
        size_text = "" if abs(factor) == 1 else f"{abs(factor):.3g}·"
        joint = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{joint}{size_text}{names[place]}"
    more = f" + {len(order) - TERMS} more terms" if len(order) > TERMS else ""
    return f"{text}{more} >= {level / size:.6g}"


def _spans(attack: ThresholdAttack, outputs: Outputs) -> str | None:
    """The intervals of the one column in which outputs belong to the attack, as far as these outputs tell."""
    column = attack.scorer.columns.matrix(outputs)[:, 0]
    order = np.argsort(column)
    column, inside = column[order], attack(outputs)[order]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(np.int8), [0]])))
    spans = list(zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True))
    if not 1 <= len(spans) <= SPANS or np.isnan(column).any():
        return None
    name = attack.scorer.columns.names[0]
    return " or ".join(_span(name, column, first, last) for first, last in spans)


def _span(name: str, column: NDArray[np.float64], first: int, last: int) -> str:
    if first == 0:
        return f"{name} <= {column[last]:.6g}"
    if last == len(column) - 1:
        return f"{name} >= {column[first]:.6g}"
    return f"{name} in [{column[first]:.6g}, {column[last]:.6g}]"


# -------------------------------------------------------------------------------------------------------------- result
# What a search found: the certified bound, its witness, the privacy profile below it, and what it rests on.


POINTS = 21  # of the privacy profile
TRADEOFF_CONVERSION = (
    "from certified points of the trade-off curve: μ by the best point, ρ by the Rényi divergences of their hull "
    "(Dong, Roth and Su, JRSS B 2022, Theorem 2.10)"
)
DESCRIBED = 4000  # outputs of either side, at most, by which an event is put into words


@dataclass(frozen=True)
class ProfilePoint:
    """No δ below this is kept at this ε."""

    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False)
class AttackResult(Presentable):
    """A lower bound on ε at δ = `delta`, that is too high with probability at most 1 - `confidence`.

    The bound, those on ρ, μ and Rényi divergences, the witness and all points of the profile hold together with that
    confidence. Nothing is said about inputs and events that are worse than those that were found.
    """

    mechanism: Mechanism
    size: int
    claim: Claim | None
    delta: float
    confidence: float
    epsilon_lower: float
    estimate: float  # of ε from the frequencies of the event, without confidence
    witness: Witness | None
    model: str
    samples: int  # of either side, on which the bound rests
    counts: tuple[int, int]  # how often the event happened among them, on the left and on the right
    drawn: int  # outputs in all, those of the search included
    tried: int  # pairs
    searched: tuple[str, ...]
    finished: bool
    seconds: float
    events: tuple[CountedBounds, ...] = ()  # what the profile rests on
    tradeoffs: tuple[tuple[Event, ...], ...] = ()  # for each attack: P[left] at least, P[right] at most, of its events

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted, at the confidence."""
        claim = self.claim
        by_point = claim is not None and any(claim.refuted_by(event.epsilon) for event in self.events)
        return by_point or (claim is not None and self.witness is not None and self.witness.refutes(claim))

    @cached_property
    def profile(self) -> tuple[ProfilePoint, ...]:
        """The largest δ that any of the events certifies, from ε = 0 to where nothing is left."""
        top = max((event.epsilon() for event in self.events), default=0.0)
        if top <= 0:
            return ()
        epsilons = np.linspace(0.0, top, POINTS, endpoint=False).tolist()
        points = (ProfilePoint(epsilon, self.delta_lower(epsilon)) for epsilon in epsilons)
        return tuple(point for point in points if point.delta > 0)

    @cached_property
    def detectable(self) -> Detectable | None:
        """The smallest violation of the claim that its last test would have shown with probability 0.9.

        By the event that shows most of those that were counted on most samples: one that shows less may be too frequent
        to show a larger ε at all. None without a claim of (ε, δ).
        """
        claim, most = self.claim, max((event.samples for event in self.events), default=0)
        if claim is None or claim.notion is not None:
            return None
        stopped = (SequentialBounds,)  # at the first look that refuted
        tested = [e for e in self.events if e.samples == most and not (isinstance(e, stopped) and e.exceeds)]
        best = max(tested, key=lambda event: event.epsilon(claim.delta), default=None)
        return None if best is None else _detectable(best, claim.tolerated)

    @property
    def rho_lower(self) -> float:
        """A lower bound on ρ (zCDP): the largest Rényi divergence over its order, between the outcomes of an attack's
        events."""
        return max((rho_shown(events)[0] for events in self.tradeoffs), default=0.0)

    @property
    def mu_lower(self) -> float:
        """A lower bound on μ (Gaussian DP): Φ⁻¹(P[left]) - Φ⁻¹(P[right]) of the best event."""
        return max(map(mu_shown, self.tradeoffs), default=0.0)

    def rdp_lower(self, alpha: float) -> float:
        """A lower bound on the Rényi divergence of this order, between the outcomes of an attack's events."""
        if not alpha > 1 or math.isinf(alpha):
            raise BadInput(f"alpha must be finite and > 1, got {alpha!r}")
        order = np.array([alpha], dtype=np.float64)
        return max((float(tradeoff_divergences(events, order)[0]) for events in self.tradeoffs), default=0.0)

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
            "notions": {"rho_lower": self.rho_lower, "mu_lower": self.mu_lower, "conversion": TRADEOFF_CONVERSION},
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


def _detectable(event: CountedBounds, claim: Claim) -> Detectable | None:
    """What a test like this one, of an event as probable, would have shown; None where it could have shown nothing."""
    right = (event.right + 0.5) / (event.samples + 1)
    if isinstance(event, LinearBounds):
        alpha = (1 - BOUND_SHARE) * event.alpha
        left = detectable_by_one_test(right, event.samples, alpha, claim.epsilon, claim.delta)
    else:
        left = detectable_probability(right, event.samples, event.alpha, claim.epsilon, claim.delta)
    if left >= 1:
        return None
    delta = left - math.exp(min(claim.epsilon, 700.0)) * right
    return Detectable(math.log((left - claim.delta) / right), delta, right)


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
    """What the looks certify together; the best of them is the witness, of those that refute the claim if some do.

    Its event is put into words by so many outputs of either side, unless the `texts` know it or there are none.
    """
    groups = by_candidate(looks)
    refuting = [group for group in groups if claim is not None and group.refutes(claim)]
    judged = claim if refuting else None
    group = max(refuting or groups, key=lambda group: group.best(judged).epsilon)
    best, witness = group.best(judged), None
    bound = max(look.epsilon for look in looks)
    if bound > -math.inf:
        pair, attack = best.candidate.pair, best.attack
        if outputs and best not in texts:
            draws = [
                replace(setting, expected=0).draw(data, outputs, seed_for(setting.seed, 99), side)
                for side, data in enumerate((pair.left, pair.right))
            ]
            texts[best] = described(attack, concatenate(draws))
        event = replace(attack, text=texts.get(best, ""))
        found = group.witness(judged, confidence)
        witness = replace(found, event=event, arguments=dict(setting.mechanism.arguments))
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
        model=str(best.attack.scorer.family),
        samples=best.bounds.samples,
        counts=(best.bounds.left, best.bounds.right),
        events=events,
        tradeoffs=tuple(group.events for group in groups if group.events),
        **rest,
    )
