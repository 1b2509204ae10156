"""Pairs on a secret random sample of the data, made of the pairs without it.

That of Poisson samples under add-remove, in either direction, and that of a sample without replacement under replace
(Zhu, Dong and Wang, "Optimal Accounting of Differential Privacy via Characteristic Function", AISTATS 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from veridp.accounting.pairs import Array, DominatingPair
from veridp.numerics.privacy_loss_distribution import LossSpan, Tails


@dataclass(frozen=True, eq=False)
class RemovedFromSample(DominatingPair):
    """((1-γ)Q + γP, Q): one person fewer, where each person is taken into a sample with probability γ = `rate`."""

    pair: DominatingPair
    rate: float

    def above(self, levels: Array) -> Tails:
        # ln((1-γ) + γ e^l) > x where l > ln(e^x - (1-γ)) - ln γ, and everywhere where x is below ln(1-γ)
        everything = levels < _log1m(self.rate)
        rest = (1 - self.rate) * np.exp(-np.where(everything, 0.0, levels))
        inner = self.pair.above(levels + _log1p(-rest) - math.log(self.rate))
        left = (1 - self.rate) * inner.right + self.rate * inner.left
        return Tails(np.where(everything, 1.0, left), np.where(everything, 1.0, inner.right))

    def delta_above(self, epsilon: float) -> float:
        # (1-γ)Q + γP - e^ε Q = γ (P - e^l Q) at the l above
        if epsilon <= _log1m(self.rate) or (rest := -(1 - self.rate) * math.exp(-epsilon)) <= -1:
            return -math.expm1(epsilon)
        inner = epsilon + math.log1p(rest) - math.log(self.rate)
        return self.rate * self.pair.delta_above(inner)

    @property
    def span(self) -> LossSpan:
        if self.rate == 1:
            return self.pair.span
        low = math.log1p(-self.rate)
        return LossSpan(low, float(np.logaddexp(low, math.log(self.rate) + self.pair.span.high)))

    @property
    def infinite(self) -> float:
        return self.rate * self.pair.infinite

    @property
    def largest_finite(self) -> float:
        return float(np.logaddexp(_log1m(self.rate), math.log(self.rate) + self.pair.largest_finite))


@dataclass(frozen=True, eq=False)
class AddedToSample(DominatingPair):
    """(P, (1-γ)P + γQ): one person more, where each person is taken into a sample with probability γ = `rate`."""

    pair: DominatingPair
    rate: float

    def above(self, levels: Array) -> Tails:
        # -ln((1-γ) + γ e^-l) > x where l > ln γ - ln(e^-x - (1-γ)), and nowhere where x is above -ln(1-γ)
        nothing = levels >= -_log1m(self.rate)
        rest = (1 - self.rate) * np.exp(np.where(nothing, 0.0, levels))
        inner = self.pair.above(levels - _log1p(-rest) + math.log(self.rate))
        right = (1 - self.rate) * inner.left + self.rate * inner.right
        return Tails(np.where(nothing, 0.0, inner.left), np.where(nothing, 0.0, right))

    def delta_above(self, epsilon: float) -> float:
        # P - e^ε ((1-γ)P + γQ) = (1 - (1-γ) e^ε) (P - e^l Q) at the l above
        if epsilon >= -_log1m(self.rate) or (rest := -(1 - self.rate) * math.exp(epsilon)) <= -1:
            return 0.0
        return (1 + rest) * self.pair.delta_above(epsilon - math.log1p(rest) + math.log(self.rate))

    @property
    def span(self) -> LossSpan:
        if self.rate == 1:
            return self.pair.span
        inner = self.pair.span
        top = inner.high if not self.pair.infinite else math.inf
        low = -float(np.logaddexp(math.log1p(-self.rate), math.log(self.rate) - inner.low))
        return LossSpan(low, -math.log1p(self.rate * math.expm1(-top)))

    @property
    def infinite(self) -> float:
        return self.pair.infinite if self.rate == 1 else 0.0

    @property
    def largest_finite(self) -> float:
        # below a rate of 1, an infinite loss becomes -ln(1-γ)
        inner = self.pair.largest_finite if self.rate == 1 else self.pair.supremum
        return -float(np.logaddexp(_log1m(self.rate), math.log(self.rate) - inner))


@dataclass(frozen=True, eq=False)
class SampledWithoutReplacement(DominatingPair):
    """A sample of a fixed share γ = `rate` of the people, one of whom is replaced by another.

    δ is that of `RemovedFromSample` for ε >= 0 and that of `AddedToSample` below (Zhu, Dong and Wang 2022, Theorem 11).
    """

    pair: DominatingPair
    rate: float

    def above(self, levels: Array) -> Tails:
        removed, added = RemovedFromSample(self.pair, self.rate), AddedToSample(self.pair, self.rate)
        upper, lower = removed.above(np.maximum(levels, 0.0)), added.above(np.minimum(levels, 0.0))
        return Tails(np.where(levels >= 0, upper.left, lower.left), np.where(levels >= 0, upper.right, lower.right))

    def delta_above(self, epsilon: float) -> float:
        kind = RemovedFromSample if epsilon >= 0 else AddedToSample
        return kind(self.pair, self.rate).delta_above(epsilon)

    @property
    def span(self) -> LossSpan:
        removed, added = RemovedFromSample(self.pair, self.rate), AddedToSample(self.pair, self.rate)
        return LossSpan(min(added.span.low, 0.0), max(removed.span.high, 0.0))

    @property
    def infinite(self) -> float:
        return self.rate * self.pair.infinite

    @property
    def largest_finite(self) -> float:
        return RemovedFromSample(self.pair, self.rate).largest_finite


def _log1m(rate: float) -> float:
    return math.log1p(-rate) if rate < 1 else -math.inf


def _log1p(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log1p(np.maximum(values, -1.0))
