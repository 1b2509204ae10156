"""Binomial noise: a finite choice where there are few trials, else integer noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from veridp.kernel.distributions import IntegerNoise, Number, Price, exact, generator_method
from veridp.kernel.weights import Weight

FEW_TRIALS = 32  # a binomial of up to so many trials is a finite choice, a longer one is integer noise


@dataclass(frozen=True)
class Binomial(IntegerNoise):
    trials: int
    p: Number

    @classmethod
    def of(cls, rng: Any, n: Any, p: Any) -> Binomial:
        trials = rng._integer(n, "the number of binomial trials")
        chance = (rng._chance if trials <= FEW_TRIALS else rng._probability)(p)
        if trials < 0:
            raise ValueError("n < 0")
        return cls(trials, chance)

    @property
    def choices(self) -> tuple[Number, ...] | None:
        return _weights(self.trials, self.p) if self.trials <= FEW_TRIALS else None

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, float(self.trials)

    @property
    def reach(self) -> tuple[int, int]:
        return 0, self.trials

    @property
    def unit(self) -> float:
        return float(self.trials) + 1.0

    @property
    def typical(self) -> float:
        return math.floor((self.trials + 1) * self.p)

    @property
    def middle(self) -> float:  # type: ignore[override]
        return math.floor(self.trials * float(self.p))

    @property
    def width(self) -> float:
        p = float(self.p)
        return max(1.0, math.sqrt(self.trials * p * (1 - p)))

    @cached_property
    def law(self) -> Any:
        from scipy.stats import binom

        return binom(self.trials, float(self.p))

    def log_transform_below(self, t: float) -> float:
        return self.trials * math.log1p(float(self.p) * math.expm1(t))

    def probability_between(self, low: Fraction | None, high: Fraction | None) -> Fraction:
        first = 0 if low is None else max(math.ceil(low), 0)
        last = self.trials if high is None else max(math.floor(high), -1)
        return sum((Fraction(weight) for weight in _weights(self.trials, self.p)[first : last + 1]), start=Fraction(0))

    @property
    def price(self) -> Price:
        why_not = "binomial noise has no pure-ε price: any shift carries part of it out of its support"
        return Price(None, None, why_not)

    def mass_in_balls(self, k: int, trials: Any, p: Any) -> Any:
        return math.comb(self.trials, k) * p**k * (1 - p) ** (self.trials - k)

    def above_in_balls(self, k: int, trials: Any, p: Any) -> Any:
        return sum((self.mass_in_balls(j, trials, p) for j in range(k, self.trials + 1)), start=type(p)(0))

    def cut(self, bits: int) -> int:
        return self.trials


@lru_cache(maxsize=256)
def _weights(trials: int, p: Number | Weight) -> tuple[Any, ...]:
    """P[k successes] for k = 0..trials, exactly."""
    chance: Any = p if isinstance(p, Weight) else Fraction(p)
    ways, weights = 1, []
    for k in range(trials + 1):
        weight = ways * chance**k * (1 - chance) ** (trials - k)
        weights.append(weight if isinstance(weight, Weight) else exact(weight))
        ways = ways * (trials - k) // (k + 1)
    return tuple(weights)


@generator_method
def binomial(rng: Any, n: Any, p: Any, size: Any = None) -> Any:
    return rng._whole(Binomial, (n, p), size)
