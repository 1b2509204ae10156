"""Oracles for the mean of a number in a range: SR, Laplace, and GRR on levels of the range."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.frequency import GRR, respond
from veridp.local.kernels import MARGIN, checked_epsilon, lying_rate
from veridp.local.oracle import (
    Counts,
    Estimate,
    Floats,
    Oracle,
    Reports,
    checked_ends,
    checked_numbers,
    listed,
    whole_steps,
)
from veridp.mechanism import Mechanism

# --------------------------------------------------------------------------------------------------------------- means
# Oracles for the mean of a number between two ends: what they share, SR and Laplace.
#
# Numbers x in [low, high] are first brought to x̃ = -1 + 2(x - low)/(high - low) in [-1, 1]. A report stands for a
# number whose expectation is x̃; estimates are brought back to [low, high].


@dataclass(frozen=True)
class MeanOracle(Oracle):
    """Collects a number between `low` and `high`, and estimates the mean."""

    low: float
    high: float
    epsilon: float

    def __post_init__(self) -> None:
        checked_ends(self.low, self.high)
        checked_epsilon(self.epsilon)

    @property
    def ends(self) -> tuple[float, float]:
        """The two ends of the range."""
        return float(self.low), float(self.high)

    @abstractmethod
    def numbers(self, reports: Reports) -> Floats:
        """What each report stands for: an unbiased estimate of the user's x̃."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest number that a report can stand for; the smallest is its opposite. inf where there is none."""

    @abstractmethod
    def largest(self, count: int) -> Reports:
        """So many reports that stand for the largest number that there is."""

    @abstractmethod
    def noise_variance(self, inner: Floats) -> Floats:
        """The variance of the number that a report stands for, for each x̃."""

    def inner(self, values: ArrayLike) -> Floats:
        """x̃ of each value: its place in the range, from -1 to 1."""
        column = checked_numbers(self, values, self.low, self.high)
        return np.clip(-1 + 2 * (column - self.low) / (self.high - self.low), -1.0, 1.0)

    def outer(self, inner: float) -> float:
        """The value that has this x̃."""
        return self.low + (inner + 1) * (self.high - self.low) / 2

    def aggregate(self, reports: Reports) -> Counts:
        numbers = self.numbers(reports)
        return Counts(str(self), len(numbers), np.array([numbers.sum(), np.square(numbers).sum()]))

    def estimate(self, counts: Counts) -> Estimate:
        """The mean, with a standard error that also counts that these users are a sample of all users."""
        total, squares = (float(part) for part in counts.owned_by(self).sums)
        mean = total / counts.users
        spread = max(squares / counts.users - mean**2, 0.0) / max(counts.users - 1, 1)
        error = math.sqrt(spread) * (self.high - self.low) / 2
        return Estimate(np.array([self.outer(mean)]), np.array([error]), counts.users, ("mean",))

    def mean(self, counts: Counts) -> Estimate:
        """The estimated mean, as `estimate` gives it."""
        return self.estimate(counts)

    def expected_mean(self, values: ArrayLike, weights: Floats | None = None) -> float:
        """What is estimated on average from users with these values, where the user of each counts with its weight."""
        return float(np.average(np.asarray(values, dtype=float), weights=weights))

    @property
    def furthest(self) -> float:
        """What the largest report stands for, as a number of the range or far beyond it."""
        return self.outer(self.reach)

    def variance(self, users: int, values: ArrayLike | None = None) -> float:
        """The variance of the estimated mean of so many users over the noise, where their values are spread as these.

        Without values: the largest that there can be.
        """
        inner = np.linspace(-1.0, 1.0, 3) if values is None else self.inner(np.atleast_1d(values))
        noise = self.noise_variance(inner)
        return float(noise.max() if values is None else noise.mean()) * ((self.high - self.low) / 2) ** 2 / users


def round_to_sign(rng: Generator, value: float, *, low: float, high: float, lie: float) -> int:
    """-1 or 1: 1 with probability lie + (1 - 2 lie)(1 + x̃)/2, kept between lie and 1 - lie."""
    inner = -1 + 2 * (value - low) / (high - low)
    up = min(max(lie + (1 - 2 * lie) * (1 + inner) / 2, lie), 1 - lie)
    return 1 if rng.random() < up else -1


@dataclass(frozen=True)
class SR(MeanOracle):
    """Stochastic rounding (Duchi, Jordan, Wainwright 2018): a sign, that is 1 with probability q + (p-q)(1+x̃)/2.

    p = e^ε/(e^ε + 1), q = 1 - p; the sign divided by p - q is unbiased.
    """

    name: ClassVar[str] = "sr"

    @cached_property
    def lie(self) -> float:
        """How often the sign is wrong at the ends of the range."""
        return lying_rate(self.epsilon, 1, 1)

    @property
    def reach(self) -> float:
        return 1 / (1 - 2 * self.lie)

    @property
    def report_bits(self) -> float:
        return 1

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        inner = self.inner(values)
        up = np.clip(self.lie + (1 - 2 * self.lie) * (1 + inner) / 2, self.lie, 1 - self.lie)
        return np.where(rng.random(len(inner)) < up, np.int8(1), np.int8(-1))

    def numbers(self, reports: Reports) -> Floats:
        signs = np.asarray(reports)
        if signs.dtype.kind not in "if" or not (np.abs(signs) == 1).all():
            raise BadInput(f"{self}: reports must be -1 or 1")
        return signs * self.reach

    def largest(self, count: int) -> Reports:
        return np.ones(count, dtype=np.int8)

    def noise_variance(self, inner: Floats) -> Floats:
        """reach² - x̃²: the number is ±reach."""
        return np.asarray(self.reach**2 - inner**2)

    def mechanism(self, values: Sequence[float] | None = None) -> Mechanism:
        """The user's side, for all values of the range or for these alone."""
        low, high = self.ends
        return self._as_mechanism(round_to_sign, listed(values, self.ends), low=low, high=high, lie=self.lie)


def add_laplace(rng: Generator, value: float, *, low: float, high: float, scale: float) -> float:
    """x̃ and Laplace noise."""
    return -1 + 2 * (value - low) / (high - low) + rng.laplace(scale=scale)


SCALES = range(1 << 31, (1 << 31) + 1000)  # of the noise, in steps of the grid


@dataclass(frozen=True)
class LaplaceMean(MeanOracle):
    """Laplace noise of scale 2/ε on x̃ (Dwork et al. 2006): any number can be reported, of any size.

    x̃ is rounded at random to a grid of `steps` steps to 1, and the noise is discrete: its scale is some 2^31 steps,
    drawn without any rounding. So ε holds for the numbers that are sent, which floats with Laplace noise cannot say of
    themselves (Mironov 2012).
    """

    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps:
            raise BadInput(f"epsilon = {self.epsilon!r} needs more noise than 64 bits hold; give 1e-8 or more")

    @cached_property
    def scale(self) -> int:
        """The scale of the noise in steps: of some thousand, the one that comes closest to ε from below."""
        return max(SCALES, key=lambda scale: Fraction(self._steps(scale), scale))

    @cached_property
    def steps(self) -> int:
        """How many steps of the grid there are to 1; two inputs are at most twice as many apart."""
        return self._steps(self.scale)

    def _steps(self, scale: int) -> int:
        """The most steps for which 2 steps/scale <= ε."""
        return math.floor(Fraction(self.epsilon) * (1 - MARGIN) * scale / 2)

    @property
    def reach(self) -> float:
        return math.inf

    @property
    def report_bits(self) -> float:
        return 64

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        from veridp.local.kernels import add_discrete_laplace, stream

        places = self.inner(values) * self.steps
        reports = np.floor(places).astype(np.int64)
        reports += rng.random(len(places)) < places - reports
        add_discrete_laplace(self.scale, stream(rng), reports)
        return reports

    def numbers(self, reports: Reports) -> Floats:
        numbers = np.asarray(reports)
        if numbers.dtype.kind not in "iu":
            raise BadInput(f"{self}: reports must be integers, not {numbers.dtype}")
        return np.asarray(numbers / self.steps)

    def largest(self, count: int) -> Reports:
        raise BadInput(f"{self}: there is no largest report, a single one can move the mean anywhere; clip the reports")

    def noise_variance(self, inner: Floats) -> Floats:
        """2 scale², which the grid changes by less than 2^-60 of it."""
        return np.full_like(inner, 2 * (self.scale / self.steps) ** 2)

    def mechanism(self) -> Mechanism:
        """The mechanism with continuous noise, of which the grid's is the discrete one."""
        low, high = self.ends
        return self._as_mechanism(add_laplace, self.ends, low=low, high=high, scale=self.scale / self.steps)


# -------------------------------------------------------------------------------------------------------------- binned
# GRR on d levels of a numeric range: a histogram of it, and its mean.


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
