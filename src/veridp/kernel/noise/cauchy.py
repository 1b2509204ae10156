"""Cauchy noise, whose tails decay like 1/x²."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, Distribution, Number, Price, SmoothNoise, exact, generator_method


class Cauchy(SmoothNoise):
    smooth_width = 1.0  # its density has poles at ±i scales
    tail = 1e18  # P[X > x] is below scale/(πx)
    outlook = 1e3

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.standard_cauchy(count) * float(self.scale)

    @classmethod
    def fill(cls, rng: np.random.Generator, out: Array) -> None:
        out[...] = rng.standard_cauchy(len(out))

    def log_density(self, x: Array) -> Array:
        return np.asarray(-2 * np.log(np.hypot(1.0, x / self.width)) - math.log(math.pi * self.width))

    def log_below(self, x: Array) -> Array:
        z = x / self.width
        with np.errstate(divide="ignore"):
            outer = np.arctan2(1.0, np.abs(z)) / math.pi  # the mass beyond |z|, without cancellation
            return np.where(z < 0, np.log(outer), np.log1p(-outer))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-x)

    @property
    def price(self) -> Price:
        """|Δ|/scale either way, which is above the supremum, 2 asinh(|Δ|/(2 scale)), but comes close to it at 0."""
        return replace(self.steepness_price, rounded=True)

    def price_up_to(self, move: Fraction) -> float:
        return 2 * math.asinh(abs(float(move)) / (2 * float(self.scale)))

    def sum_key(self, factor: Number) -> object:
        return Cauchy

    def sum_of(self, draws: Sequence[tuple[Any, Number]]) -> tuple[Distribution, Number]:
        return Cauchy(exact(sum((abs(Fraction(factor)) * noise.scale for noise, factor in draws), Fraction(0)))), 1

    def density_in_balls(self, z: Any) -> Any:
        return 1 / (type(z).pi() * (1 + z * z))

    def below_in_balls(self, z: Any) -> Any:
        return self.above_in_balls(-z)

    def above_in_balls(self, z: Any) -> Any:
        """The arctangent of 1/z is analytic left and right of 0, that of z between its branch cuts at ±i and beyond."""
        pi = type(z).pi()
        if z.real > 0:
            return (1 / z).atan() / pi
        if z.real < 0:
            return 1 + (1 / z).atan() / pi
        return type(z)(1) / 2 - z.atan() / pi if abs(z.imag) < 1 else type(z)("nan")

    def far(self, bits: int) -> tuple[int, int]:
        return -(2**bits), 2**bits


@generator_method
def standard_cauchy(rng: Any, size: Any = None) -> Any:
    return rng._located(Cauchy, 0.0, 1.0, size)
