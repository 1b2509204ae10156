"""Uniform noise. The generators stretch it between their bounds themselves: `random` and `uniform` are theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, ExponentialNoise, ExponentialPiece, LossBound, Number, Price


@dataclass(frozen=True)
class Uniform(ExponentialNoise):
    """Uniform on [0, scale)."""

    scale: Number = 1

    @property
    def pieces(self) -> tuple[ExponentialPiece, ...]:
        zero, width = Fraction(0), Fraction(self.scale)
        return (ExponentialPiece(zero, width, 1 / width, zero),)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.random(size=count) * float(self.scale)

    @property
    def typical(self) -> float:
        return self.width / 2

    @property
    def middle(self) -> float:  # type: ignore[override]
        return self.width / 2

    def log_density(self, x: Array) -> Array:
        return np.where((x >= 0) & (x <= self.width), -math.log(self.width), -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.clip(x / self.width, 0.0, 1.0))

    def log_above(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.clip((self.width - x) / self.width, 0.0, 1.0))

    def log_transform(self, t: float) -> float:
        z = t * self.width
        return (z if z > 0 else 0.0) + math.log(-math.expm1(-abs(z)) / abs(z))

    def probability_between(self, low: Fraction | None, high: Fraction | None) -> Fraction:
        width = Fraction(self.scale)
        last = width if high is None else min(high, width)
        return max(last - max(low or Fraction(0), Fraction(0)), Fraction(0)) / width

    @property
    def price(self) -> Price:
        why_not = "uniform noise has no pure-ε price: any shift carries part of it out of its support"
        return Price(None, None, why_not)

    @property
    def price_with_delta(self) -> Price:
        return self.steepness_price

    def shift_loss(self, move: Fraction) -> LossBound:
        return LossBound(lost=min(abs(move) / self.scale, Fraction(1)))
