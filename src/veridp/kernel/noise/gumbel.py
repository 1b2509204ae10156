"""Gumbel noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.kernel.distributions import Array, Pole, Price, SmoothNoise, generator_method


class Gumbel(SmoothNoise):
    smooth_width = 1.0

    def log_density(self, x: Array) -> Array:
        z = x / self.width
        with np.errstate(over="ignore"):
            return -z - np.exp(-z) - math.log(self.width)

    def log_below(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return -np.exp(-x / self.width)

    def log_above(self, x: Array) -> Array:
        with np.errstate(over="ignore", divide="ignore"):
            return np.log(-np.expm1(-np.exp(-x / self.width)))

    def upper_tail(self, factor: float) -> Pole | None:
        rate = 1 / (abs(factor) * self.width)
        return Pole(rate, 1, math.log(rate)) if factor > 0 else None

    def log_transform(self, t: float) -> float:
        return math.lgamma(1 - t * self.width)

    @property
    def price(self) -> Price:
        """Δ/scale upwards: with x in units of the scale, ln f is -x - e^-x, so the loss is Δ - e^-x (1 - e^-Δ)."""
        why_not = "gumbel noise has no pure-ε price downwards: the ratio of its densities is unbounded that way"
        return Price(1 / Fraction(self.scale), None, why_not)

    def density_in_balls(self, z: Any) -> Any:
        return (-z - (-z).exp()).exp()

    def below_in_balls(self, z: Any) -> Any:
        return (-(-z).exp()).exp()

    def above_in_balls(self, z: Any) -> Any:
        return -(-(-z).exp()).expm1()

    def far(self, bits: int) -> tuple[int, int]:
        return -(bits.bit_length() + 1), bits


@generator_method
def gumbel(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return rng._located(Gumbel, loc, scale, size)
