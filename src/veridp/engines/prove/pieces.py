"""Events without the noise that decides nothing but how likely they are.

Noise that is compared with constants alone makes a finite choice: it has a probability, which is exact where the noise
is uniform, geometric or binomial. What is left of the event is a polyhedron of noise that can be shifted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.engines.prove.events import NoiseEvent
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Relation


@dataclass(frozen=True, eq=False)
class WeightedEvent:
    """An event, with the probability of its finite choices and what else its noise satisfies."""

    event: NoiseEvent
    weight: Fraction
    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]

    @property
    def numbers(self) -> tuple[Affine, ...]:
        return self.event.numbers


def piece_of(event: NoiseEvent) -> WeightedEvent:
    """The event without its finite choices; conditions on data alone are left out, as its case has them."""
    weight = Fraction(event.weight)
    kept: list[Noise] = []
    for noise in event.noises:
        asked = [condition for condition in event.conditions if noise in condition.slack.terms]
        released = any(noise in number.terms for number in event.numbers)
        alone = all(len(condition.slack.terms) == 1 for condition in asked)
        chance = None if released or not alone else probability(noise, asked)
        if chance is None:
            kept.append(noise)
        else:
            weight *= chance
    conditions = [c for c in event.conditions if any(noise in c.slack.terms for noise in kept)]
    return WeightedEvent(event, weight, tuple(kept), tuple(conditions))


def probability(noise: Noise, conditions: Sequence[Condition]) -> Fraction | None:
    """The probability that noise satisfies conditions on it alone; None where it is not rational."""
    if not conditions:
        return Fraction(1)
    low, high = None, None
    for condition in conditions:
        slope = Fraction(condition.slack.terms[noise])
        bound = -Fraction(condition.slack.constant) / slope
        strict = condition.relation is Relation.ABOVE
        equal = condition.relation is Relation.EQUAL
        if slope > 0 or equal:
            least = math.floor(bound) + 1 if noise.distribution.integer and strict else bound
            low = Fraction(least) if low is None else max(low, Fraction(least))
        if slope < 0 or equal:
            most = math.ceil(bound) - 1 if noise.distribution.integer and strict else bound
            high = Fraction(most) if high is None else min(high, Fraction(most))
    return noise.distribution.probability_between(low, high)
