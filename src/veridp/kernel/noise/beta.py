"""Beta noise: a number between 0 and 1, as posterior sampling draws it. Being bounded, it hides no shift."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, Number, Price, ScaledNoise, Shaped, generator_method

UNDERFLOW = 1e-280  # below it, floats of a probability lose digits


@dataclass(frozen=True)
class Beta(ScaledNoise):
    """The density is x^(a - 1) (1 - x)^(b - 1) / B(a, b) on [0, 1], for scale 1."""

    a: Number
    b: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.beta(float(self.a), float(self.b), count) * float(self.scale)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, self.width

    @property
    def kinks(self) -> tuple[float, ...]:
        return self.support

    @property
    def unit(self) -> float:
        """Its standard deviation."""
        total = float(self.a + self.b)
        return self.width * math.sqrt(float(self.a * self.b) / (total + 1)) / total

    @property
    def smooth_width(self) -> float:  # type: ignore[override]
        return self.unit / self.width

    @property
    def typical(self) -> float:
        return self.width * float(self.a / (self.a + self.b))

    @property
    def middle(self) -> float:  # type: ignore[override]
        return self.typical

    @property
    def _log_constant(self) -> float:
        a, b = float(self.a), float(self.b)
        return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)

    def log_density(self, x: Array) -> Array:
        from scipy.special import xlog1py, xlogy

        z = np.asarray(x, dtype=float) / self.width
        inside = (z >= 0) & (z <= 1)
        z = np.where(inside, z, 0.5)
        with np.errstate(all="ignore"):
            logs = xlogy(float(self.a) - 1, z) + xlog1py(float(self.b) - 1, -z)
        return np.where(inside, logs + self._log_constant - math.log(self.width), -np.inf)

    def log_below(self, x: Array) -> Array:
        return self._log_part(np.asarray(x, dtype=float) / self.width, float(self.a), float(self.b))

    def log_above(self, x: Array) -> Array:
        return self._log_part((self.width - np.asarray(x, dtype=float)) / self.width, float(self.b), float(self.a))

    def _log_part(self, z: Array, a: float, b: float) -> Array:
        """ln of the regularised incomplete beta function; where that underflows, by its hypergeometric series."""
        from scipy.special import betainc, hyp2f1, xlog1py, xlogy

        z = np.clip(z, 0.0, 1.0)
        with np.errstate(all="ignore"):
            near = betainc(a, b, z)
            far = xlogy(a, z) + xlog1py(b, -z) + self._log_constant - math.log(a) + np.log(hyp2f1(a + b, 1, a + 1, z))
            return np.where(near > UNDERFLOW, np.log(near), np.where(z > 0, far, -np.inf))

    @property
    def price(self) -> Price:
        return Price(None, None, "beta noise has no price: any shift carries part of it out of its support")


@generator_method
def beta(rng: Any, a: Any, b: Any, size: Any = None) -> Any:
    return rng._located(Shaped.of(Beta, rng, a, b), 0.0, 1.0, size)
