"""Staircase noise (Geng and Viswanath 2014): its density falls by steps, each a multiple of the scale from 0 or from a
part of it. No generator draws it; code makes it of a sign, a geometric draw, a uniform one and a coin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Array, Number, Price, ScaledNoise


@dataclass(frozen=True)
class StepPrice(Price):
    """A price in whole steps of this length: a part of a step is priced as all of it, so it is not convex.

    `up` is that of a step for its length; `excess` is what the first one may cost beyond that.
    """

    convex = False
    step: Fraction = Fraction(1)
    excess: Fraction = Fraction(0)

    def of(self, move: Fraction) -> Fraction:
        steps = math.ceil(abs(move) / self.step)
        return steps * self.step * (self.up or 0) + self.excess if steps else Fraction(0)


@dataclass(frozen=True)
class Staircase(ScaledNoise):
    """A random sign times k + V, for scale 1: k has the probability p(1 - p)^k, and V is uniform on [0, lower] with
    probability `chance`, and else on [lower, 1]."""

    p: Number
    lower: Number
    chance: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        lower, within = float(self.lower), rng.random(count)
        part = np.where(rng.random(count) < float(self.chance), lower * within, lower + (1 - lower) * within)
        steps = rng.geometric(float(self.p), count) - 1
        return np.asarray(rng.choice([-1.0, 1.0], count) * (steps + part) * float(self.scale), dtype=np.float64)

    @property
    def fall(self) -> float:
        """By how much the logarithm of the density falls over one scale."""
        return -math.log(1 - self.p)

    @property
    def width(self) -> float:
        return float(self.scale) / self.fall

    @property
    def kinks(self) -> tuple[float, ...]:
        steps = range(math.ceil(self.tail / self.fall))
        ends = {float((k + part) * self.scale) for k in steps for part in (0, Fraction(self.lower))}
        return tuple(sorted(ends | {-end for end in ends}))

    def log_density(self, x: Array) -> Array:
        steps, part = np.divmod(np.abs(x) / float(self.scale), 1.0)
        heights = [math.log(height) for height in self._heights]
        first = math.log(self.p / 2 / self.scale)
        return np.asarray(first - steps * self.fall + np.where(part < float(self.lower), *heights))

    @property
    def _heights(self) -> tuple[Fraction, Fraction]:
        """The density of V on its two parts."""
        lower, chance = Fraction(self.lower), Fraction(self.chance)
        return chance / lower, (1 - chance) / (1 - lower)

    def log_below(self, x: Array) -> Array:
        return self.log_above(-np.asarray(x))

    def log_above(self, x: Array) -> Array:
        """P[|X| > x] is (1 - p)^k (1 - p + p P[V > v]) at x = k + v."""
        steps, part = np.divmod(np.abs(x) / float(self.scale), 1.0)
        lower, (low, high) = float(self.lower), map(float, self._heights)
        rest = np.where(part < lower, 1 - low * part, high * (1 - part))
        tail = -steps * self.fall + np.log(float(1 - self.p) + float(self.p) * rest) - math.log(2)
        return np.asarray(np.where(np.asarray(x) < 0, np.log1p(-np.exp(tail)), tail))

    @property
    def price(self) -> Price:
        """A shift by n scales multiplies the density by (1 - p)^n at least. Up to one scale it leads from one height to
        the next or the one after that, which differs by 1 - p."""
        low, high = self._heights
        down, after = low / high, high / (low * (1 - Fraction(self.p)))
        excess = max(abs(math.log(down)), abs(math.log(after)), self.fall) - self.fall
        unit = Fraction(self.fall) / Fraction(self.scale)
        return StepPrice(unit, unit, rounded=True, step=Fraction(self.scale), excess=Fraction(excess))

    def price_up_to(self, move: Fraction) -> float:
        return float(self.price.of(move))

    @property
    def price_with_delta(self) -> Price:
        return Price(None, None, "staircase noise has a price of pure ε alone")
