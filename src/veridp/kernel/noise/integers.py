"""A whole number from a range that is too long to list. The generators begin the range where it begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, IntegerNoise, Price


@dataclass(frozen=True)
class Integers(IntegerNoise):
    """0, 1, …, count - 1, each with the same probability."""

    count: int

    @classmethod
    def of(cls, rng: Any, *parameters: Any) -> Integers:
        raise TypeError("rng.integers is the generators' own")

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        return rng.integers(self.count, size=count)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, self.count - 1.0

    @property
    def reach(self) -> tuple[int, int]:
        return 0, self.count - 1

    @property
    def unit(self) -> float:
        return float(self.count)

    @property
    def width(self) -> float:
        return float(self.count)

    @property
    def typical(self) -> float:
        return self.count // 2

    @property
    def middle(self) -> float:  # type: ignore[override]
        return float(self.count // 2)

    def _log_share(self, number: Array) -> Array:
        """ln of the probability of so many of its values."""
        with np.errstate(divide="ignore"):
            return np.log(np.clip(number / self.count, 0.0, 1.0))

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        inside = (np.abs(x - whole) < 1e-9) & (whole >= 0) & (whole < self.count)
        return np.where(inside, -math.log(self.count), -np.inf)

    def log_below(self, x: Array) -> Array:
        return self._log_share(np.floor(x + 1e-9) + 1)

    def log_above(self, x: Array) -> Array:
        return self._log_share(self.count - np.ceil(x - 1e-9))

    def log_transform_below(self, t: float) -> float:
        return math.log(math.expm1(t * self.count) / math.expm1(t) / self.count) if t * self.count < 700 else math.inf

    def probability_between(self, low: Fraction | None, high: Fraction | None) -> Fraction:
        first = 0 if low is None else max(math.ceil(low), 0)
        last = self.count - 1 if high is None else min(math.floor(high), self.count - 1)
        return Fraction(max(last - first + 1, 0), self.count)

    @property
    def price(self) -> Price:
        why_not = "integers noise has no pure-ε price: any shift carries part of it out of its range"
        return Price(None, None, why_not)

    def mass_in_balls(self, k: int, count: Any) -> Any:
        return 1 / count

    def above_in_balls(self, k: int, count: Any) -> Any:
        return (count - k) / count

    def cut(self, bits: int) -> int:
        return self.count - 1
