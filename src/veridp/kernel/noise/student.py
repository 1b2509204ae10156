"""Student's t: normal noise of random spread, whose tails decay like a power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, Number, Price, ScaledNoise, Shaped, generator_method


@dataclass(frozen=True)
class StudentT(ScaledNoise):
    """The density is proportional to (1 + x²/degrees)^(-(degrees + 1)/2), for scale 1."""

    degrees: Number
    smooth_width = 1.0  # its density has poles at ±i √degrees scales
    outlook = 1e3

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.standard_t(float(self.degrees), count) * float(self.scale)

    @property
    def tail(self) -> float:  # type: ignore[override]
        """P[X > x] is below (√degrees/x)^degrees."""
        degrees = float(self.degrees)
        return float(math.sqrt(degrees) * 10.0 ** min(20 / degrees, 60.0))

    def log_density(self, x: Array) -> Array:
        v, z = float(self.degrees), np.asarray(x) / self.width
        constant = math.lgamma((v + 1) / 2) - math.lgamma(v / 2) - math.log(v * math.pi) / 2 - math.log(self.width)
        return np.asarray(constant - (v + 1) * np.log(np.hypot(1.0, z / math.sqrt(v))))

    def log_below(self, x: Array) -> Array:
        """P[X > x] = I_t(degrees/2, 1/2)/2 at t = 1/(1 + x²/degrees), by its series in t where that is small.

        Else by its complement, I_(1-t)(1/2, degrees/2), as 1 - t has all its digits.
        """
        from scipy.special import betainc, betaln, hyp2f1

        a, z = float(self.degrees) / 2, np.asarray(x) / self.width
        with np.errstate(all="ignore"):
            log_t = -2 * np.log(np.hypot(1.0, z / math.sqrt(2 * a)))
            t = np.exp(log_t)
            small = np.minimum(t, 0.5)
            series = a * log_t + np.log1p(-small) / 2 - math.log(a) - betaln(a, 0.5)
            series += np.log(hyp2f1(a + 0.5, 1.0, a + 1, small))
            y = np.minimum(np.square(z / math.sqrt(2 * a)), 1.0)
            inner = np.log1p(-betainc(0.5, a, y / (1 + y)))
            outer = np.where(t < 0.5, series, inner) - math.log(2)
            return np.asarray(np.where(z < 0, outer, np.log1p(-np.exp(outer))))

    def log_above(self, x: Array) -> Array:
        return self.log_below(-np.asarray(x))

    @property
    def price(self) -> Price:
        """The slope of ln f is at most (degrees + 1)/(2 √degrees) per scale, which it has at √degrees scales."""
        steepest = Fraction((float(self.degrees) + 1) / (2 * math.sqrt(self.degrees))) / Fraction(self.scale)
        return Price(steepest, steepest, rounded=True)

    def price_up_to(self, move: Fraction) -> float:
        """(degrees + 1) asinh(Δ/2a), a = scale √degrees.

        ln f is (degrees + 1)/2 times the logarithm of 1/(a² + x²), but for a constant; and (a² + (x + Δ)²)/(a² + x²) is
        at most e^(2 asinh(Δ/2a)), which it is at a finite x.
        """
        width = 2 * float(self.scale) * math.sqrt(self.degrees)
        return (float(self.degrees) + 1) * math.asinh(abs(float(move)) / width)


@generator_method
def standard_t(rng: Any, df: Any, size: Any = None) -> Any:
    return rng._located(Shaped.of(StudentT, rng, df), 0.0, 1.0, size)
