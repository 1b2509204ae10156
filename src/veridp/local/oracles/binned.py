"""GRR on d levels of a numeric range: a histogram of it, and its mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.estimate import Counts, Estimate, Floats
from veridp.local.oracle import Oracle, Reports, checked_ends, checked_numbers, listed, whole_steps
from veridp.local.oracles.frequency import GRR, respond
from veridp.mechanism import Mechanism

Rounding = Literal["random", "nearest"]


def respond_with_level(
    rng: Generator, value: float, *, low: float, high: float, size: int, lie: float, rounding: str
) -> int:
    """The level that the value is rounded to, by randomised response."""
    place = (value - low) / (high - low) * (size - 1)
    if rounding == "nearest":
        level = whole_steps(place + 0.5, size - 1)
    else:
        level = whole_steps(place, size - 2)
        level += int(rng.random() < place - level)
    return respond(rng, level, size=size, lie=lie)


@dataclass(frozen=True)
class BinnedGRR(Oracle):
    """GRR on `size` levels from `low` to `high`, both of them levels themselves.

    With random rounding (to one of the two levels around a value, the nearer the likelier) the estimated mean is
    unbiased. Rounding to the nearest level gives a histogram of bins around the levels, and a mean that is off by
    what the bins hide.
    """

    name: ClassVar[str] = "binned"
    low: float
    high: float
    size: int
    epsilon: float
    rounding: Rounding = "random"

    def __post_init__(self) -> None:
        checked_ends(self.low, self.high)
        if self.rounding not in ("random", "nearest"):
            raise BadInput(f"rounding = {self.rounding!r} is unknown; use random or nearest")
        self.grr  # noqa: B018  checks size and epsilon

    @cached_property
    def grr(self) -> GRR:
        """The oracle that perturbs the levels."""
        return GRR(self.size, self.epsilon)

    @cached_property
    def levels(self) -> Floats:
        """The numbers that values are rounded to."""
        return np.linspace(self.low, self.high, self.size)

    @property
    def report_bits(self) -> float:
        return self.grr.report_bits

    def rounded(self, values: ArrayLike, rng: Generator | None = None) -> NDArray[np.int64]:
        """The number of each value's level; random rounding draws from `rng`."""
        column = checked_numbers(self, values, self.low, self.high)
        places = (column - self.low) / (self.high - self.low) * (self.size - 1)
        if self.rounding == "nearest":
            return np.minimum((places + 0.5).astype(np.int64), self.size - 1)
        if rng is None:
            raise BadInput(f"{self}: random rounding needs a generator; give rng")
        below = np.minimum(places.astype(np.int64), self.size - 2)
        return below + (rng.random(len(column)) < places - below)

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        return self.grr.perturb(self.rounded(values, rng), rng)

    def aggregate(self, reports: Reports) -> Counts:
        counts = self.grr.aggregate(reports)
        return Counts(str(self), counts.users, counts.sums)

    def estimate(self, counts: Counts) -> Estimate:
        """How frequent each level is."""
        own = counts.owned_by(self)
        return self.grr.estimate(Counts(str(self.grr), own.users, own.sums)).named(self.levels.tolist())

    def mean(self, counts: Counts) -> Estimate:
        """The mean of the levels, each weighted with its frequency."""
        histogram = self.estimate(counts)
        variance = self._mean_variance(counts.users, np.clip(histogram.values, 0.0, None))
        return mean_of(histogram, self.levels, math.sqrt(variance))

    def expected_mean(self, values: ArrayLike, weights: Floats | None = None) -> float:
        """What is estimated on average from users with these values, where the user of each counts with its weight."""
        column = np.asarray(values, dtype=float)
        if self.rounding == "nearest":
            column = self.levels[self.rounded(column)]
        return float(np.average(column, weights=weights))

    @property
    def furthest(self) -> float:
        """What a report of the top level adds to the mean: (high - qΣl)/(p - q)."""
        p, q = self.grr.p, self.grr.q
        return float(self.high - q * self.levels.sum()) / (p - q)

    def largest(self, count: int) -> Reports:
        """So many reports of the top level."""
        return np.full(count, self.size - 1, dtype=np.int32)

    def mean_variance(self, users: int, values: ArrayLike) -> float:
        """The variance of the estimated mean over the noise, for values spread as these; random rounding included."""
        column = np.asarray(values, dtype=float)
        places = (column - self.low) / (self.high - self.low) * (self.size - 1)
        step = (self.high - self.low) / (self.size - 1)
        if self.rounding == "nearest":
            share = np.bincount(self.rounded(column), minlength=self.size) / len(column)
            return self._mean_variance(users, share)
        below = np.minimum(places.astype(np.int64), self.size - 2)
        above = places - below
        spread = np.bincount(below, 1 - above, self.size) + np.bincount(below + 1, above, self.size)
        rounding = float((above * (1 - above)).mean()) * step**2 / users
        return self._mean_variance(users, spread / len(column)) + rounding

    def _mean_variance(self, users: int, share: Floats) -> float:
        """Of Σ level·f̂: the variance of the level that a user reports, given the value, over n (p-q)².

        For a value of level a it is p a² + q(Σl² - a²) - (p a + q(Σl - a))².
        """
        p, q, levels = self.grr.p, self.grr.q, self.levels
        second = q * np.square(levels).sum() + (p - q) * levels**2
        first = q * levels.sum() + (p - q) * levels
        per_user = float(share @ (second - first**2)) / max(float(share.sum()), 1e-300)
        return per_user / (users * (p - q) ** 2)

    def mechanism(self, values: Sequence[float] | None = None) -> Mechanism:
        """The user's side, for all values of the range or for these alone."""
        low, high = float(self.low), float(self.high)
        return self._as_mechanism(
            respond_with_level,
            listed(values, (low, high)),
            low=low,
            high=high,
            size=self.size,
            lie=self.grr.lie,
            rounding=self.rounding,
        )


def mean_of(histogram: Estimate, levels: Floats, error: float) -> Estimate:
    """The mean of a histogram, which keeps the steps that the histogram went through."""
    mean = np.array([float(histogram.values @ levels)])
    return Estimate(mean, np.array([error]), histogram.users, ("mean",), histogram.steps)
