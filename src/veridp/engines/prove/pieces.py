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
from veridp.kernel import distributions as d
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.generator import binomial_weights
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
        if (
            released
            or not alone
            or (asked and not isinstance(noise.distribution, d.Uniform | d.Geometric | d.Binomial))
        ):
            kept.append(noise)
        elif asked:
            weight *= probability(noise, asked)
    conditions = [c for c in event.conditions if any(noise in c.slack.terms for noise in kept)]
    return WeightedEvent(event, weight, tuple(kept), tuple(conditions))


def probability(noise: Noise, conditions: Sequence[Condition]) -> Fraction:
    """The probability that uniform, geometric or binomial noise satisfies conditions on it alone."""
    low, high = _support(noise.distribution)
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
    if high is not None and low is not None and high < low:
        return Fraction(0)
    return _between(noise.distribution, low, high)


def _support(noise: d.Distribution) -> tuple[Fraction | None, Fraction | None]:
    if isinstance(noise, d.Uniform):
        return Fraction(0), Fraction(noise.scale)
    return Fraction(noise.support[0]), None if math.isinf(noise.support[1]) else Fraction(noise.support[1])


def _between(noise: d.Distribution, low: Fraction | None, high: Fraction | None) -> Fraction:
    match noise:
        case d.Uniform():
            return ((high or Fraction(0)) - (low or Fraction(0))) / Fraction(noise.scale)
        case d.Geometric():
            fail = 1 - Fraction(noise.p)
            first = max(math.ceil(low or 1), 1)
            beyond = Fraction(0) if high is None else fail ** math.floor(high)
            return max(fail ** (first - 1) - beyond, Fraction(0))
        case d.Binomial():
            weights = binomial_weights(noise.trials, noise.p)
            first, last = math.ceil(low or 0), math.floor(noise.trials if high is None else high)
            return sum((Fraction(w) for w in weights[first : last + 1]), start=Fraction(0))
    raise TypeError(f"{noise} has no rational probabilities")
