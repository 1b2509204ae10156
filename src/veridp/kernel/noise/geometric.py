"""Geometric noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from veridp.kernel.distributions import Array, IntegerNoise, LinearStretch, Number, Pole, Price, generator_method


@dataclass(frozen=True)
class Geometric(IntegerNoise):
    """The number of trials up to the first success: 1, 2, …"""

    p: Number
    middle = 1.0

    @classmethod
    def of(cls, rng: Any, p: Any) -> Geometric:
        chance = rng._probability(p)
        if not chance:
            raise ValueError("p <= 0, p > 1 or p contains NaNs")
        return cls(chance)

    @property
    def support(self) -> tuple[float, float]:
        return 1.0, math.inf

    @property
    def reach(self) -> tuple[int, int]:
        return 1, math.ceil(700 / self.p)  # (1 - p)^(700/p) < exp(-700)

    @property
    def unit(self) -> float:
        return float(1 / self.p) + 1.0

    @property
    def typical(self) -> float:
        return 1

    @cached_property
    def decay(self) -> float:
        """A trial fails with probability e^-decay."""
        return -math.log1p(-float(self.p)) if self.p < 1 else math.inf

    @property
    def width(self) -> float:
        return 1 / self.decay if self.p < 1 else 1.0

    @property
    def stretches(self) -> tuple[LinearStretch, ...] | None:
        """On integers alone: between them it has no mass."""
        if math.isinf(self.decay):
            return None
        return (LinearStretch(1.0, math.inf, math.log(-math.expm1(-self.decay)) + self.decay, -self.decay),)

    def _log_failures(self, count: Array) -> Array:
        """ln of the probability that so many trials fail."""
        if math.isinf(self.decay):
            return np.where(count > 0, -np.inf, 0.0)
        return np.maximum(count, 0.0) * -self.decay

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        log_success = math.log(-math.expm1(-self.decay))
        return np.where((np.abs(x - whole) < 1e-9) & (whole >= 1), self._log_failures(whole - 1) + log_success, -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(self._log_failures(np.floor(x + 1e-9))))

    def log_above(self, x: Array) -> Array:
        return self._log_failures(np.ceil(x - 1e-9) - 1)

    def upper_tail(self, factor: float) -> Pole | None:
        if factor > 0 and math.isfinite(self.decay):
            return Pole(self.decay / factor, 1, math.log(math.expm1(self.decay)))
        return None

    def log_transform_below(self, t: float) -> float:
        return math.log(math.expm1(self.decay)) + t - self.decay - math.log(-math.expm1(t - self.decay))

    def probability_between(self, low: Fraction | None, high: Fraction | None) -> Fraction:
        fail = 1 - Fraction(self.p)
        first = 1 if low is None else max(math.ceil(low), 1)
        beyond = Fraction(0) if high is None else fail ** max(math.floor(high), 0)
        return max(fail ** (first - 1) - beyond, Fraction(0))

    @property
    def price(self) -> Price:
        """Δ ln(1/(1 - p)) upwards, in whole steps; downwards it leaves the support."""
        why_not = "geometric noise cannot be shifted downwards: that carries part of it out of its support"
        return Price(Fraction(self.decay) if self.p < 1 else None, None, why_not, rounded=True)

    def mass_in_balls(self, k: int, p: Any) -> Any:
        return p * self.above_in_balls(k, p)

    def above_in_balls(self, k: int, p: Any) -> Any:
        return (1 - p) ** (k - 1)

    def cut(self, bits: int) -> int:
        return math.ceil(bits * math.log(2) / self.decay) + 2


@generator_method
def geometric(rng: Any, p: Any, size: Any = None) -> Any:
    return rng._whole(Geometric, (p,), size)
