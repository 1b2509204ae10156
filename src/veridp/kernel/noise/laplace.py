"""Laplace noise, and sums of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import (
    Array,
    Distribution,
    ExponentialNoise,
    ExponentialPiece,
    Number,
    Pole,
    Price,
    ScaledNoise,
    exact,
    generator_method,
)

IN_CACHE = 2**14  # draws that are finished while they are near


class Laplace(ExponentialNoise):
    @property
    def pieces(self) -> tuple[ExponentialPiece, ...]:
        rate, half = 1 / Fraction(self.scale), 1 / Fraction(2 * self.scale)
        zero = Fraction(0)
        return ExponentialPiece(None, zero, half, rate), ExponentialPiece(zero, None, half, -rate)

    @classmethod
    def fill(cls, rng: np.random.Generator, out: Array) -> None:
        """Fill the array with draws of scale 1: exponential draws with a random sign.

        The distribution of `Generator.laplace`, which takes a logarithm for each draw, in less than half its time.
        """
        rng.standard_exponential(out=out)
        words = rng.bit_generator.random_raw(len(out) // 64 + 1)
        signs = np.unpackbits(np.asarray(words).view(np.uint8), count=len(out))
        bits = out.view(np.uint64)
        for start in range(0, len(out), IN_CACHE):
            part = slice(start, start + IN_CACHE)
            flips = signs[part].astype(np.uint64)
            flips <<= np.uint64(63)
            np.bitwise_xor(bits[part], flips, out=bits[part])

    def log_density(self, x: Array) -> Array:
        return -np.abs(x) / self.width - math.log(2 * self.width)

    def log_below(self, x: Array) -> Array:
        z = x / self.width
        return np.where(z < 0, z - math.log(2), np.log1p(np.exp(-np.abs(z)) * -0.5))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-x)

    def upper_tail(self, factor: float) -> Pole:
        rate = 1 / (abs(factor) * self.width)
        return Pole(rate, 1, math.log(rate / 2))

    def log_transform(self, t: float) -> float:
        z = t * self.width
        return -math.log1p(-z * z)

    @property
    def price(self) -> Price:
        """|Δ|/scale either way."""
        return self.steepness_price

    def delta_alone(self, pure: Any, epsilon: Any) -> Any:
        """1 - e^((ε - pure)/2) for -pure <= ε <= pure."""
        return 1 - ((epsilon - pure) / 2).exp() if -pure <= epsilon and epsilon <= pure else None

    def sum_key(self, factor: Number) -> object:
        return Laplace, abs(Fraction(factor)) * self.scale

    def sum_of(self, draws: Sequence[tuple[Any, Number]]) -> tuple[Distribution, Number]:
        noise, factor = draws[0]
        return LaplaceSum(exact(abs(Fraction(factor)) * noise.scale), len(draws)), 1


@generator_method
def laplace(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return rng._located(Laplace, loc, scale, size)


@dataclass(frozen=True)
class LaplaceSum(ScaledNoise):
    """The sum of `count` Laplace draws: e^-|x| times a polynomial in |x| whose coefficients are all positive.

    It is the difference of two gamma variables, whose convolution is expanded by the binomial theorem. No generator has
    a method for it.
    """

    count: int

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return np.asarray(rng.laplace(scale=float(self.scale), size=(self.count, count)).sum(axis=0))

    @property
    def tail(self) -> float:  # type: ignore[override]
        return 45.0 + 4.0 * self.count

    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0,)

    @cached_property
    def _log_coefficients(self) -> Array:
        """ln of the coefficients of the density's polynomial, by power, for scale 1."""
        k = self.count
        found = [math.comb(k - 1, m) * math.factorial(2 * k - 2 - m) << m for m in range(k)]
        return np.array([math.log(c) for c in found]) - 2 * math.lgamma(k) - (2 * k - 1) * math.log(2)

    @cached_property
    def _log_tail_coefficients(self) -> Array:
        """The same for the probability above x: each power, integrated by parts, leaves all lower ones."""
        from scipy.special import gammaln

        powers = gammaln(np.arange(1.0, self.count + 1))
        from_top = np.logaddexp.accumulate((self._log_coefficients + powers)[::-1])[::-1]
        return np.asarray(from_top - powers)

    def _log_polynomial(self, coefficients: Array, z: Array) -> Array:
        from scipy.special import xlogy

        logs = coefficients + xlogy(np.arange(self.count), np.asarray(z)[..., None])
        return np.asarray(np.logaddexp.reduce(np.where(np.isnan(logs), -np.inf, logs), axis=-1) - z)

    def log_density(self, x: Array) -> Array:
        return self._log_polynomial(self._log_coefficients, np.abs(x) / self.width) - math.log(self.width)

    def log_below(self, x: Array) -> Array:
        z = np.asarray(x) / self.width
        outer = self._log_polynomial(self._log_tail_coefficients, np.minimum(np.abs(z), 1e300))
        outer = np.where(np.isinf(z), -np.inf, outer)
        return np.where(z < 0, outer, np.log1p(-np.exp(outer)))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-x)

    def upper_tail(self, factor: float) -> Pole:
        rate = 1 / (abs(factor) * self.width)
        return Pole(rate, self.count, self.count * math.log(rate / 2))

    def log_transform(self, t: float) -> float:
        z = t * self.width
        return -self.count * math.log1p(-z * z)

    @property
    def price(self) -> Price:
        """|Δ|/scale either way: that of one of its draws, which is moved."""
        return self.steepness_price
