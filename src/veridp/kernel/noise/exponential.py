"""Exponential noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.kernel.distributions import (
    Array,
    ExponentialNoise,
    ExponentialPiece,
    Pole,
    Price,
    generator_method,
)


class Exponential(ExponentialNoise):
    @property
    def pieces(self) -> tuple[ExponentialPiece, ...]:
        rate = 1 / Fraction(self.scale)
        return (ExponentialPiece(Fraction(0), None, rate, -rate),)

    @classmethod
    def fill(cls, rng: np.random.Generator, out: Array) -> None:
        rng.standard_exponential(out=out)

    def log_density(self, x: Array) -> Array:
        return np.where(x >= 0, -x / self.width - math.log(self.width), -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(-np.maximum(x, 0.0) / self.width))

    def log_above(self, x: Array) -> Array:
        return -np.maximum(x, 0.0) / self.width

    def upper_tail(self, factor: float) -> Pole | None:
        rate = 1 / (abs(factor) * self.width)
        return Pole(rate, 1, math.log(rate)) if factor > 0 else None

    def log_transform(self, t: float) -> float:
        return -math.log1p(-t * self.width)

    @property
    def price(self) -> Price:
        """Δ/scale upwards; downwards it leaves the support."""
        why_not = "exponential noise cannot be shifted downwards: that carries part of it out of its support"
        return Price(1 / Fraction(self.scale), None, why_not)


@generator_method
def exponential(rng: Any, scale: Any = 1.0, size: Any = None) -> Any:
    return rng._located(Exponential, 0.0, scale, size)


@generator_method
def standard_exponential(rng: Any, size: Any = None, **options: Any) -> Any:
    rng._check_options("standard_exponential", options)
    return rng._located(Exponential, 0.0, 1.0, size)
