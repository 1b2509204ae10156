"""Laplace noise that is drawn again until it lies in an interval. No generator has a method for it: code loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import (
    ROUNDED_UP,
    Array,
    ExponentialNoise,
    ExponentialPiece,
    LossBound,
    Number,
    Price,
    log_difference,
)
from veridp.kernel.noise.laplace import Laplace


@dataclass(frozen=True)
class TruncatedLaplace(ExponentialNoise):
    """Laplace noise given that it lies between `low` < 0 and `high` > 0."""

    low: Number
    high: Number

    @property
    def _whole(self) -> Laplace:
        return Laplace(self.scale)

    @property
    def _log_kept(self) -> float:
        """ln of the probability that Laplace noise lies in the interval."""
        return float(self._whole.log_between(np.array([float(self.low)]), np.array([float(self.high)]))[0])

    @property
    def pieces(self) -> tuple[ExponentialPiece, ...]:
        """Its density; the coefficient is rounded to a float."""
        rate, top = 1 / Fraction(self.scale), Fraction(math.exp(-self._log_kept) / (2 * self.width))
        low, zero, high = Fraction(self.low), Fraction(0), Fraction(self.high)
        return ExponentialPiece(low, zero, top, rate), ExponentialPiece(zero, high, top, -rate)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        kept = np.empty(0)
        while len(kept) < count:
            drawn = rng.laplace(scale=self.width, size=count)
            kept = np.concatenate([kept, drawn[(drawn >= float(self.low)) & (drawn <= float(self.high))]])
        return kept[:count]

    def log_density(self, x: Array) -> Array:
        inside = (x >= float(self.low)) & (x <= float(self.high))
        return np.where(inside, self._whole.log_density(x) - self._log_kept, -np.inf)

    def log_below(self, x: Array) -> Array:
        x = np.clip(x, float(self.low), float(self.high))
        left = self._whole.log_below(np.full_like(x, float(self.low)))
        return log_difference(self._whole.log_below(x), left) - self._log_kept

    def log_above(self, x: Array) -> Array:
        x = np.clip(x, float(self.low), float(self.high))
        right = self._whole.log_above(np.full_like(x, float(self.high)))
        return log_difference(self._whole.log_above(x), right) - self._log_kept

    @property
    def price(self) -> Price:
        why_not = "truncatedlaplace noise has no pure-ε price: any shift carries part of it out of its support"
        return Price(None, None, why_not)

    @property
    def price_with_delta(self) -> Price:
        return self.steepness_price

    @property
    def _reach(self) -> Fraction:
        """How many scales the nearer end is from 0."""
        return min(-Fraction(self.low), Fraction(self.high)) / Fraction(self.scale)

    def shift_loss(self, move: Fraction) -> LossBound:
        """|Δ|/scale, but for what leaves the support: no more than what lies within |Δ| of the nearer end, counted as
        if the density rose from there by e^(1/scale) without end, which makes it convex in Δ."""
        pure = abs(move) / self.scale
        if pure > self._reach + 1:
            return LossBound(pure=pure, lost=Fraction(1))
        left = math.expm1(float(pure)) * math.exp(-float(self._reach) - self._log_kept) / 2
        return LossBound(pure=pure, lost=min(Fraction(left) * ROUNDED_UP, Fraction(1)))

    def delta_alone(self, pure: Any, epsilon: Any) -> Any:
        """(1 - e^((ε - pure)/2) + (e^ε - 1) e^-reach/2)/kept for 0 <= ε <= pure, if both ends are far enough.

        The loss grows with the noise, so the best event is that the noise is above t = (ε - pure)/2 in scales; and with
        the shift, above t + pure. These are the probabilities of both.
        """
        low, high, reach = (
            pure * 0 + q.numerator / (pure * 0 + q.denominator)
            for q in (Fraction(self.low) / self.scale, Fraction(self.high) / self.scale, self._reach)
        )
        if not (epsilon >= 0 and epsilon <= pure and (epsilon + pure) / 2 <= reach):
            return None
        kept = 1 - (low.exp() + (-high).exp()) / 2
        return (1 - ((epsilon - pure) / 2).exp() + (epsilon.exp() - 1) * (-reach).exp() / 2) / kept
