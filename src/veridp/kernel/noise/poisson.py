"""Poisson noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from veridp.kernel.distributions import Distribution, IntegerNoise, Number, Price, exact, generator_method


@dataclass(frozen=True)
class Poisson(IntegerNoise):
    rate: Number

    @classmethod
    def of(cls, rng: Any, lam: Any) -> Poisson:
        rate = rng._number(lam, "the rate of a Poisson draw")
        if rate < 0:
            raise ValueError("lam < 0 or lam is NaN")
        return cls(rate)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def reach(self) -> tuple[int, int]:
        return 0, math.ceil(self.rate + 40 * math.sqrt(self.rate) + 800)  # by Bernstein's inequality

    @property
    def unit(self) -> float:
        return float(self.rate) + 1.0

    @property
    def typical(self) -> float:
        return math.floor(self.rate)

    @property
    def middle(self) -> float:  # type: ignore[override]
        return math.floor(float(self.rate))

    @property
    def width(self) -> float:
        return max(1.0, math.sqrt(float(self.rate)))

    @cached_property
    def law(self) -> Any:
        from scipy.stats import poisson

        return poisson(float(self.rate))

    def log_transform_below(self, t: float) -> float:
        return float(self.rate) * math.expm1(t)

    @property
    def price(self) -> Price:
        why_not = "poisson noise has no pure-ε price: under any shift the ratio of its probabilities is unbounded"
        return Price(None, None, why_not)

    def sum_key(self, factor: Number) -> object:
        return Poisson, factor

    def sum_of(self, draws: Sequence[tuple[Any, Number]]) -> tuple[Distribution, Number]:
        return Poisson(exact(sum((Fraction(noise.rate) for noise, _ in draws), start=Fraction(0)))), draws[0][1]

    def mass_in_balls(self, k: int, rate: Any) -> Any:
        return (-rate).exp() * rate**k / type(rate)(k).fac()

    def above_in_balls(self, k: int, rate: Any) -> Any:
        return rate.gamma_lower(type(rate)(k), regularized=1) if k else type(rate)(1)

    def cut(self, bits: int) -> int:
        """From 2e² rates on, the masses beyond k are below e^-k: a Chernoff bound."""
        return max(math.ceil(15 * self.rate), bits)


@generator_method
def poisson(rng: Any, lam: Any = 1.0, size: Any = None) -> Any:
    return rng._whole(Poisson, (lam,), size)
