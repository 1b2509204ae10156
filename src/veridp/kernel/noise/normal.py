"""Normal noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.kernel.distributions import (
    Array,
    Distribution,
    LossBound,
    Number,
    Price,
    SmoothNoise,
    exact,
    generator_method,
)


class Normal(SmoothNoise):
    smooth_width = 2.0
    tail = 12.0

    @classmethod
    def fill(cls, rng: np.random.Generator, out: Array) -> None:
        rng.standard_normal(out=out)

    def log_density(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            z = x / self.width
            return -z * z / 2 - math.log(self.width * math.sqrt(2 * math.pi))

    def log_below(self, x: Array) -> Array:
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(x / self.width))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-x)

    def log_transform(self, t: float) -> float:
        z = t * self.width
        return z * z / 2

    @property
    def price(self) -> Price:
        why_not = "normal noise has no pure-ε price: under any shift the ratio of its densities is unbounded"
        return Price(None, None, why_not)

    @property
    def price_with_delta(self) -> Price:
        return self.steepness_price

    def shift_loss(self, move: Fraction) -> LossBound:
        return LossBound(squared=(move / self.scale) ** 2)

    def sum_key(self, factor: Number) -> object:
        return Normal

    def sum_of(self, draws: Sequence[tuple[Any, Number]]) -> tuple[Distribution, Number]:
        scales = [abs(Fraction(factor)) * noise.scale for noise, factor in draws]
        largest = max(scales)
        ratio = math.sqrt(math.fsum(float(scale / largest) ** 2 for scale in scales))
        return Normal(exact(largest * Fraction(ratio))), 1

    def density_in_balls(self, z: Any) -> Any:
        return (-z * z / 2).exp() / (2 * type(z).pi()).sqrt()

    def below_in_balls(self, z: Any) -> Any:
        return self.above_in_balls(-z)

    def above_in_balls(self, z: Any) -> Any:
        return (z / type(z)(2).sqrt()).erfc() / 2

    def far(self, bits: int) -> tuple[int, int]:
        far = math.isqrt(2 * bits) + 1  # P[|Z| > z] < e^(-z²/2) from z = 1 on
        return -far, far


@generator_method
def normal(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return rng._located(Normal, loc, scale, size)


@generator_method
def standard_normal(rng: Any, size: Any = None, **options: Any) -> Any:
    rng._check_options("standard_normal", options)
    return rng._located(Normal, 0.0, 1.0, size)
