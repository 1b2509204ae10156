"""PM and HM, the piecewise and the hybrid mechanism: means with less variance than a sign allows, for larger ε; and
mean and variance together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.attributes import SMP
from veridp.local.kernels import GRAIN, lying_rate
from veridp.local.means import SR, MeanOracle, round_to_sign
from veridp.local.oracle import Counts, Estimate, Floats, Reports, checked_numbers, listed, whole_steps
from veridp.mechanism import Mechanism

LEVELS = 1 << 20  # points of the grid that PM reports from


def respond_piecewise(rng: Generator, value: float, *, low: float, high: float, window: float, lie: float) -> float:
    """A place in [0, 1]: uniform within a window whose place shows x̃, or with probability `lie` uniform outside it."""
    start = min(max((value - low) / (high - low), 0.0), 1.0) * (1 - window)
    if rng.random() < lie:
        place = rng.uniform(0, 1 - window)
        return place if place < start else place + window
    return start + rng.uniform(0, window)


def respond_on_grid(
    rng: Generator, value: float, *, low: float, high: float, levels: int, window: int, lie: float
) -> int:
    """The same on a grid of `levels` points: the window starts at one of the two points around its place, at random."""
    place = min(max((value - low) / (high - low), 0.0), 1.0) * (levels - window)
    start = whole_steps(place, levels - window - 1)
    start += int(rng.random() < place - start)
    if rng.random() < lie:
        point = int(rng.integers(levels - window))
        return point if point < start else point + window
    return start + int(rng.integers(window))


@dataclass(frozen=True)
class PM(MeanOracle):
    """The piecewise mechanism (Wang et al. 2019): with E = e^{ε/2}, most reports fall into a window of 1/(E + 1) of
    their range [-s, s], s = (E+1)/(E-1), whose place shows x̃: the density is e^ε times higher there.

    Reports are odd integers, points of a grid of `levels` points, and the grid's own window and unit make them unbiased
    exactly. So ε holds for the numbers that are sent; of continuous reports, the last bits would tell x̃.
    """

    name: ClassVar[str] = "pm"
    levels: int = LEVELS

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 4 <= self.levels <= 2**30:
            raise BadInput(f"levels must be from 4 to 2^30, got {self.levels}")

    @cached_property
    def window(self) -> int:
        """The points within the window."""
        return max(1, round(self.levels / (math.exp(self.epsilon / 2) + 1)))

    @cached_property
    def lie(self) -> float:
        """How often a point outside of the window is reported."""
        return lying_rate(self.epsilon, self.window, self.levels - self.window)

    @cached_property
    def unit(self) -> float:
        """The number that a report of 1 stands for: 1 / (window's weight · (levels - window)).

        E[report | window starts at k] = (1 - lie - lie window/(levels-window)) (2k - (levels-window)), and k is
        x̃ (levels-window)/2 from the middle, on average.
        """
        free = self.levels - self.window
        return 1 / ((1 - self.lie - self.lie * self.window / free) * free)

    @property
    def reach(self) -> float:
        return (self.levels - 1) * self.unit

    @property
    def report_bits(self) -> float:
        return math.ceil(math.log2(self.levels))

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        place = (self.inner(values) + 1) / 2 * (self.levels - self.window)
        start = np.minimum(place.astype(np.int64), self.levels - self.window - 1)
        start += rng.random(len(place)) < place - start
        points = start + rng.integers(self.window, size=len(place))
        lies = np.flatnonzero(rng.random(len(place)) < self.lie)
        outside = rng.integers(self.levels - self.window, size=len(lies))
        points[lies] = outside + np.where(outside >= start[lies], self.window, 0)
        return (2 * points + 1 - self.levels).astype(np.int32)

    def numbers(self, reports: Reports) -> Floats:
        points = np.asarray(reports)
        if (
            points.dtype.kind not in "if"
            or not ((np.abs(points) < self.levels) & ((points + self.levels) % 2 == 1)).all()
        ):
            ends = f"{1 - self.levels}, {3 - self.levels}, … {self.levels - 1}"
            raise BadInput(f"{self}: reports must be points of its grid, {ends}")
        return points * self.unit

    def largest(self, count: int) -> Reports:
        return np.full(count, self.levels - 1, dtype=np.int32)

    def noise_variance(self, inner: Floats) -> Floats:
        """x̃²/(E-1) + (E+3)/(3(E-1)²), which the grid adds less than 4/levels² to."""
        root = math.exp(self.epsilon / 2)
        return np.asarray(inner**2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2))

    def mechanism(self) -> Mechanism:
        """The mechanism with continuous reports, of which the grid's are the rounded ones."""
        low, high = self.ends
        window = self.window / self.levels
        return self._as_mechanism(respond_piecewise, self.ends, low=low, high=high, window=window, lie=self.lie)

    def grid_mechanism(self, values: Sequence[float] | None = None) -> Mechanism:
        """The mechanism on the grid, on these values or all; engines that list outputs need few levels."""
        low, high = self.ends
        return self._as_mechanism(
            respond_on_grid,
            listed(values, self.ends),
            low=low,
            high=high,
            levels=self.levels,
            window=self.window,
            lie=self.lie,
        )


# Below this ε, rounding alone has less variance than any mixture (Wang et al. 2019, Lemma 4).
_CUBES = [(6353 + sign * 405 * math.sqrt(241)) ** (1 / 3) for sign in (-1, 1)]
MIXING_STARTS = math.log((-5 + 2 * sum(_CUBES)) / 27)
HYBRID = np.dtype([("rounded", np.bool_), ("number", np.int32)])


def respond_hybrid_on_grid(
    rng: Generator,
    value: float,
    *,
    low: float,
    high: float,
    piecewise: float,
    levels: int,
    window: int,
    lies: tuple[float, float],
) -> tuple[str, int]:
    """The same with the grid of PM."""
    if rng.random() < piecewise:
        point = respond_on_grid(rng, value, low=low, high=high, levels=levels, window=window, lie=lies[0])
        return "piecewise", point
    return "rounded", round_to_sign(rng, value, low=low, high=high, lie=lies[1])


def respond_hybrid(
    rng: Generator, value: float, *, low: float, high: float, piecewise: float, window: float, lies: tuple[float, float]
) -> tuple[str, float]:
    """Which of the two was used, chosen whatever the value is, and its report."""
    if rng.random() < piecewise:
        return "piecewise", respond_piecewise(rng, value, low=low, high=high, window=window, lie=lies[0])
    return "rounded", round_to_sign(rng, value, low=low, high=high, lie=lies[1])


@dataclass(frozen=True)
class HM(MeanOracle):
    """The hybrid mechanism (Wang et al. 2019): PM with probability 1 - e^{-ε/2}, else SR; SR alone up to ε = 0.61.

    A report says which of the two it comes from. Its worst variance is never above that of either.
    """

    name: ClassVar[str] = "hm"
    levels: int = LEVELS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pm  # noqa: B018  checks levels

    @cached_property
    def piecewise(self) -> float:
        """How often PM is used."""
        if self.epsilon <= MIXING_STARTS:
            return 0.0
        return round((1 - math.exp(-self.epsilon / 2)) * GRAIN) / GRAIN

    @cached_property
    def _pm(self) -> PM:
        return PM(self.low, self.high, self.epsilon, self.levels)

    @cached_property
    def _sr(self) -> SR:
        return SR(self.low, self.high, self.epsilon)

    @property
    def reach(self) -> float:
        return max(self._sr.reach, self._pm.reach) if self.piecewise else self._sr.reach

    @property
    def report_bits(self) -> float:
        return 1 + self._pm.report_bits

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        column = checked_numbers(self, values, self.low, self.high)
        reports = np.empty(len(column), dtype=HYBRID)
        rounded = rng.random(len(column)) >= self.piecewise
        reports["rounded"] = rounded
        reports["number"][rounded] = self._sr.perturb(column[rounded], rng)
        reports["number"][~rounded] = self._pm.perturb(column[~rounded], rng)
        return reports

    def numbers(self, reports: Reports) -> Floats:
        if np.asarray(reports).dtype != HYBRID:
            raise BadInput(
                f"{self}: an array of {np.asarray(reports).dtype} does not hold its reports; they are of {HYBRID}"
            )
        numbers = np.empty(len(reports))
        rounded = reports["rounded"]
        numbers[rounded] = self._sr.numbers(reports["number"][rounded])
        numbers[~rounded] = self._pm.numbers(reports["number"][~rounded])
        return numbers

    def largest(self, count: int) -> Reports:
        rounded = self._sr.reach >= self.reach
        reports = np.empty(count, dtype=HYBRID)
        reports["rounded"] = rounded
        reports["number"] = (self._sr if rounded else self._pm).largest(count)
        return reports

    def noise_variance(self, inner: Floats) -> Floats:
        """The mean of the two variances, since both parts have the same expectation."""
        share = self.piecewise
        return np.asarray(share * self._pm.noise_variance(inner) + (1 - share) * self._sr.noise_variance(inner))

    def mechanism(self) -> Mechanism:
        """As that of PM: its piecewise part has continuous reports."""
        low, high = self.ends
        return self._as_mechanism(
            respond_hybrid,
            self.ends,
            low=low,
            high=high,
            piecewise=self.piecewise,
            window=self._pm.window / self.levels,
            lies=(self._pm.lie, self._sr.lie),
        )

    def grid_mechanism(self, values: Sequence[float] | None = None) -> Mechanism:
        """The mechanism on the grid, like that of PM."""
        low, high = self.ends
        return self._as_mechanism(
            respond_hybrid_on_grid,
            listed(values, self.ends),
            low=low,
            high=high,
            piecewise=self.piecewise,
            levels=self.levels,
            window=self._pm.window,
            lies=(self._pm.lie, self._sr.lie),
        )


# ------------------------------------------------------------------------------------------------------------- moments
# Mean and variance of a number together: half of the users report the number, the other half its square.


VALUE, SQUARE = "value", "square"


@dataclass(frozen=True)
class Moments:
    """Mean and variance by SR or PM (Li et al. 2023): each user draws whether to report x̃ or x̃², with all of ε.

    Reports, counts and partial sums go by the two names "value" and "square", as those of SMP.
    """

    kind: type[SR] | type[PM]
    low: float
    high: float
    epsilon: float

    def __post_init__(self) -> None:
        if self.kind not in (SR, PM):
            raise BadInput(f"kind = {self.kind!r} is neither SR nor PM")
        self.outside  # noqa: B018  checks the range and ε

    @cached_property
    def outside(self) -> MeanOracle:
        """An oracle on the range itself, which knows x̃ of each x."""
        return self.kind(self.low, self.high, self.epsilon)

    @cached_property
    def parts(self) -> SMP:
        """The two attributes: x̃ in [-1, 1] and its square in [0, 1]."""
        return SMP(self.epsilon, {VALUE: partial(self.kind, -1.0, 1.0), SQUARE: partial(self.kind, 0.0, 1.0)})

    def oracle(self, part: str) -> MeanOracle:
        """The oracle of one of the two parts."""
        found = self.parts.oracles[part]
        assert isinstance(found, MeanOracle)  # noqa: S101  as made above
        return found

    def perturb(self, values: ArrayLike, rng: Generator) -> dict[str, Reports]:
        inner = self.outside.inner(values)
        return self.parts.perturb({VALUE: inner, SQUARE: inner**2}, rng)

    def aggregate(self, reports: Mapping[str, Reports]) -> dict[str, Counts]:
        return self.parts.aggregate(reports)

    def estimate(self, counts: Mapping[str, Counts]) -> Estimate:
        """Mean and variance in the units of the range. The variance is E[x̃²] - E[x̃]²: its bias is the variance of the
        estimated mean, which its standard error is far above."""
        first, second = (self.parts.oracles[part].estimate(counts[part]) for part in (VALUE, SQUARE))
        half = (self.high - self.low) / 2
        values = [self.outside.outer(first.value), (second.value - first.value**2) * half**2]
        spread = math.hypot(second.standard_error, 2 * first.value * first.standard_error)
        errors = [first.standard_error * half, spread * half**2]
        return Estimate(np.array(values), np.array(errors), first.users + second.users, ("mean", "variance"))

    def mechanism(self) -> Mechanism:
        return self.parts.mechanism()
