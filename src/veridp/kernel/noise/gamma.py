"""Gamma noise: sums of exponential draws, and the shares of such."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, Number, Pole, Price, ScaledNoise, Shaped, exact, generator_method

UNDERFLOW = 1e-280  # below it, floats of a probability lose digits
FAR_TERMS = 40  # of the expansion that holds there


@dataclass(frozen=True)
class Gamma(ScaledNoise):
    """The density is x^(shape - 1) e^-x / Γ(shape), for scale 1."""

    shape: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.standard_gamma(float(self.shape), count) * float(self.scale)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def kinks(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def unit(self) -> float:
        return float(self.scale) * (1 + float(self.shape))

    @property
    def typical(self) -> float:
        return float(self.scale) * float(self.shape)

    @property
    def middle(self) -> float:  # type: ignore[override]
        return self.typical

    @property
    def tail(self) -> float:  # type: ignore[override]
        return 45.0 + 4.0 * float(self.shape)

    def log_density(self, x: Array) -> Array:
        from scipy.special import xlogy

        k, z = float(self.shape), np.asarray(x) / self.width
        with np.errstate(all="ignore"):
            logs = xlogy(k - 1, np.maximum(z, 0.0)) - z - math.lgamma(k) - math.log(self.width)
        return np.where(z >= 0, logs, -np.inf)

    def log_below(self, x: Array) -> Array:
        """By the series of the incomplete gamma function where its value is small."""
        from scipy.special import gammaincc, hyp1f1, xlogy

        k, z = float(self.shape), np.maximum(np.asarray(x) / self.width, 0.0)
        with np.errstate(all="ignore"):
            near = np.minimum(z, k + 1)
            series = xlogy(k, near) - near - math.lgamma(k + 1) + np.log(hyp1f1(1.0, k + 1, near))
            return np.asarray(np.where(z < k + 1, series, np.log1p(-gammaincc(k, z))))

    def log_above(self, x: Array) -> Array:
        """Far out by the asymptotic expansion, e^-x x^(shape - 1) (1 + (shape - 1)/x + …)/Γ(shape)."""
        from scipy.special import gammaincc

        k, z = float(self.shape), np.maximum(np.asarray(x, dtype=float) / self.width, 0.0)
        with np.errstate(all="ignore"):
            near = gammaincc(k, z)
            total, term = np.ones_like(z), np.ones_like(z)
            for n in range(1, FAR_TERMS):
                following = term * (k - n) / z
                term = np.where(np.abs(following) < np.abs(term), following, 0.0)
                total += term
            far = (k - 1) * np.log(z) - z - math.lgamma(k) + np.log(total)
            return np.where(near > UNDERFLOW, np.log(near), np.where(np.isinf(z), -np.inf, far))

    def upper_tail(self, factor: float) -> Pole | None:
        rate = 1 / (abs(factor) * self.width)
        whole = factor > 0 and Fraction(self.shape).denominator == 1
        return Pole(rate, int(self.shape), float(self.shape) * math.log(rate)) if whole else None

    def log_transform(self, t: float) -> float:
        z = t * self.width
        return -float(self.shape) * math.log1p(-z) if z < 1 else math.inf

    @property
    def price(self) -> Price:
        """Δ/scale upwards from shape 1 on: the loss is Δ - (shape - 1) ln(1 + Δ/x); downwards it leaves the support."""
        if self.shape >= 1:
            why_not = "gamma noise cannot be shifted downwards: that carries part of it out of its support"
            return Price(1 / Fraction(self.scale), None, why_not)
        return Price(None, None, "gamma noise of a shape below 1 has no price: its density is unbounded at 0")

    def sum_key(self, factor: Number) -> object:
        return Gamma, Fraction(factor) * self.scale

    def sum_of(self, draws: Any) -> tuple[Gamma, Number]:
        return Gamma(draws[0][0].scale, exact(sum(Fraction(noise.shape) for noise, _ in draws))), draws[0][1]


@generator_method
def gamma(rng: Any, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
    return rng._located(Shaped.of(Gamma, rng, shape), 0.0, scale, size)


@generator_method
def standard_gamma(rng: Any, shape: Any, size: Any = None, **options: Any) -> Any:
    rng._check_options("standard_gamma", options)
    return rng._located(Shaped.of(Gamma, rng, shape), 0.0, 1.0, size)


@generator_method
def chisquare(rng: Any, df: Any, size: Any = None) -> Any:
    return rng._located(Shaped.of(Gamma, rng, df, factor=Fraction(1, 2)), 0.0, 2.0, size)
