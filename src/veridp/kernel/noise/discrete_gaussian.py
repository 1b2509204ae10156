"""Discrete Gaussian noise. No generator has a method for it: code draws whole numbers and rejects some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, IntegerNoise, LossBound, Number, Price

REACH = 40  # standard deviations: e^-800 is left beyond


@dataclass(frozen=True)
class DiscreteGaussian(IntegerNoise):
    """Whole numbers k with probabilities in proportion to e^(-k²/2v), v being the `variance`: a little more than that
    of the noise itself (Canonne, Kamath and Steinke 2020)."""

    variance: Number
    tail = 12.0

    @classmethod
    def of(cls, rng: Any, *parameters: Any) -> DiscreteGaussian:
        raise TypeError("no generator draws discrete Gaussian noise")

    @property
    def reach(self) -> tuple[int, int]:
        return -self._far, self._far

    @property
    def _far(self) -> int:
        return math.ceil(REACH * self.width) + 1

    @cached_property
    def width(self) -> float:
        return math.sqrt(float(self.variance))

    @property
    def unit(self) -> float:
        return max(self.width, 1.0)

    @property
    def typical(self) -> float:
        return 0

    @cached_property
    def _values(self) -> Array:
        """The whole numbers within reach."""
        return np.arange(-self._far, self._far + 1.0)

    @cached_property
    def _log_total(self) -> float:
        return math.log(math.fsum(np.exp(self._log_weight(self._values))))

    def _log_weight(self, k: Array) -> Array:
        return np.asarray(-(k**2) / (2 * float(self.variance)))

    @cached_property
    def _log_tails(self) -> Array:
        """ln P[X >= k] of the values within reach."""
        last = self._log_beyond(self._values[-1:])
        return (
            np.logaddexp.accumulate(np.append(self._log_weight(self._values[:-1]), last)[::-1])[::-1] - self._log_total
        )

    def _log_beyond(self, k: Array) -> Array:
        """ln of the sum of weights from k on, far out: as if each were the same share of the one before."""
        return np.asarray(self._log_weight(k) - np.log(-np.expm1(-(k + 0.5) / float(self.variance))))

    def masses(self, far: int) -> Array:
        """The probabilities of -far, …, far."""
        return np.exp(self.log_density(np.arange(-far, far + 1.0)))

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        masses = self.masses(self._far)
        return rng.choice(self._values.astype(np.int64), size=count, p=masses / masses.sum())

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        return np.where(np.abs(x - whole) < 1e-9, self._log_weight(whole) - self._log_total, -np.inf)

    def log_above(self, x: Array) -> Array:
        k = np.ceil(x - 1e-9)
        inside = self._log_tails[np.clip(k + self._far, 0, len(self._log_tails) - 1).astype(int)]
        return np.where(k > self._far, self._log_beyond(np.maximum(k, self._far)) - self._log_total, inside)

    def log_below(self, x: Array) -> Array:
        return self.log_above(-np.floor(x + 1e-9))

    def log_transform_below(self, t: float) -> float:
        return float(np.logaddexp.reduce(self._log_weight(self._values) + t * self._values)) - self._log_total

    @property
    def price(self) -> Price:
        why_not = "discretegaussian noise has no pure-ε price: under any shift the ratio of its masses is unbounded"
        return Price(None, None, why_not)

    @property
    def price_with_delta(self) -> Price:
        slope = 1 / Fraction(self.width)
        return Price(slope, slope)

    def shift_loss(self, move: Fraction) -> LossBound:
        """All may be lost: more is known only where no other noise moves."""
        return LossBound(lost=Fraction(1))

    # ---------------------------------------------------------------------------------------------------- in balls

    def mass_in_balls(self, k: int, variance: Any) -> Any:
        return self._weight(k, variance) / (2 * self._weights_from(1, variance) + 1)

    def above_in_balls(self, k: int, variance: Any) -> Any:
        if k < 1:
            return 1 - self.above_in_balls(1 - k, variance)
        return self._weights_from(k, variance) / (2 * self._weights_from(1, variance) + 1)

    def _weight(self, k: int, variance: Any) -> Any:
        return (-(k * k) / (2 * variance)).exp()

    def _weights_from(self, k: int, variance: Any) -> Any:
        """The sum of e^(-j²/2v) from k >= 1 on: beyond reach, less than a geometric series of the ratio e^(-j/v)."""
        stop = max(k, self._far)
        total = sum((self._weight(j, variance) for j in range(k, stop)), start=variance * 0)
        return total.union(total + self._weight(stop, variance) / (1 - (-stop / variance).exp()))

    def cut(self, bits: int) -> int:
        """Beyond k, no more than e^(-k²/2v)/(1 - e^(-k/v)) lies on either side, and 1/(1 - e^(-k/v)) <= 1 + v/k."""
        return math.isqrt(math.ceil(2 * self.variance * (bits + math.log1p(self.variance)))) + 2
