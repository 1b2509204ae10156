"""Logistic noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veridp.kernel.distributions import Array, Pole, Price, SmoothNoise, generator_method


class Logistic(SmoothNoise):
    smooth_width = 2.0

    def log_density(self, x: Array) -> Array:
        z = np.abs(x) / self.width
        return np.asarray(-z - 2 * np.log1p(np.exp(-z)) - math.log(self.width))

    def log_below(self, x: Array) -> Array:
        return -np.logaddexp(0.0, -x / self.width)

    def log_above(self, x: Array) -> Array:
        return -np.logaddexp(0.0, x / self.width)

    def upper_tail(self, factor: float) -> Pole:
        rate = 1 / (abs(factor) * self.width)
        return Pole(rate, 1, math.log(rate))

    def log_transform(self, t: float) -> float:
        z = t * self.width
        return math.lgamma(1 - z) + math.lgamma(1 + z)

    @property
    def price(self) -> Price:
        """|Δ|/scale either way: a supremum, approached in the tails."""
        return self.steepness_price

    def density_in_balls(self, z: Any) -> Any:
        return self.below_in_balls(z) * self.above_in_balls(z)

    def below_in_balls(self, z: Any) -> Any:
        return self.above_in_balls(-z)

    def above_in_balls(self, z: Any) -> Any:
        return 1 / (1 + z.exp())


@generator_method
def logistic(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return rng._located(Logistic, loc, scale, size)
