"""Triangular noise: its density rises linearly to a mode and falls linearly after it. It is bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, Number, Price, ScaledNoise, Shaped, exact, generator_method


@dataclass(frozen=True)
class Triangular(ScaledNoise):
    """On [0, scale], with its mode at `mode` times the scale."""

    mode: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.triangular(0.0, float(self.mode) * self.width, self.width, count)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, self.width

    @property
    def kinks(self) -> tuple[float, ...]:
        return tuple(sorted({0.0, self.middle, self.width}))

    @property
    def typical(self) -> float:
        return self.width * float(1 + self.mode) / 3

    @property
    def middle(self) -> float:  # type: ignore[override]
        return self.width * float(self.mode)

    def log_density(self, x: Array) -> Array:
        x = np.asarray(x, dtype=float)
        with np.errstate(all="ignore"):
            height = np.where(x < self.middle, x / self.middle, (self.width - x) / (self.width - self.middle))
            return np.log(np.maximum(np.where(x == self.middle, 1.0, height), 0.0)) + math.log(2 / self.width)

    def log_below(self, x: Array) -> Array:
        return self._log_part(np.asarray(x, dtype=float), self.middle)

    def log_above(self, x: Array) -> Array:
        return self._log_part(self.width - np.asarray(x, dtype=float), self.width - self.middle)

    def _log_part(self, x: Array, mode: float) -> Array:
        """ln P[X <= x] for a mode there: x²/mode up to it, for scale 1."""
        x = np.clip(x, 0.0, self.width)
        rest = self.width - x
        with np.errstate(all="ignore"):
            rising = 2 * np.log(x) - math.log(self.width) - np.log(mode)
            falling = np.log1p(-(rest**2) / (self.width * (self.width - mode)))
            return np.where((x <= mode) & (mode > 0), rising, np.where(rest > 0, falling, 0.0))

    @property
    def price(self) -> Price:
        return Price(None, None, "triangular noise has no price: any shift carries part of it out of its support")


@generator_method
def triangular(rng: Any, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
    if any(map(np.ndim, (left, mode, right))):
        rng._check_options("triangular", {"arrays": (left, mode, right)})
    width, rise = (rng._number(end - left, "the width of noise") for end in (right, mode))
    if not (0 <= rise <= width and width):
        raise ValueError("left > mode" if rise < 0 else "mode > right" if rise > width else "left == right")
    return rng._located(Shaped(Triangular, (exact(Fraction(rise) / Fraction(width)),)), left, float(width), size)
