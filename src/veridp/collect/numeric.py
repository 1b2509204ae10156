"""Protocols that estimate the mean of numbers in a range: GRR-HO, SR-HO and PM-HO, all exactly unbiased."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, SupportsFloat

from veridp.collect.frequency import one_raised
from veridp.collect.harmless import Harmless, Outputs, ScaledMean
from veridp.collect.layout import Counts, Layout
from veridp.errors import BadInput


@dataclass(frozen=True)
class OfNumbers(Harmless):
    """Estimates the mean of numbers from `low` to `high`.

    A number is rounded at random to one of the two nearest of `inputs` evenly spaced ones, so that it is right on
    average.
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadInput(f"low must be below high, both finite, got {self.low} and {self.high}")

    @property
    def columns(self) -> tuple[str, ...]:
        return ("mean",)

    def choose(self, value: object, rng: random.Random) -> int:
        if isinstance(value, str | SupportsFloat):
            try:
                number = float(value)
            except ValueError:
                number = math.nan
        else:
            number = math.nan
        if not self.low <= number <= self.high:
            raise BadInput(f"{value!r} is not a number from {self.low:g} to {self.high:g}")
        place = (number - self.low) / (self.high - self.low) * (self.inputs - 1)
        return min(math.floor(place) + (rng.random() < place - math.floor(place)), self.inputs - 1)

    def number(self, chosen: int) -> Fraction:
        """The number that an input stands for."""
        return self._from_unit(Fraction(chosen, self.inputs - 1))

    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        return value

    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        return [int(outputs.sum())]

    @property
    def highest(self) -> int:
        return self.layout.values - 1

    @property
    def scaled(self) -> ScaledMean:
        lowest, span = self._mean_supports
        width = Fraction(self.high) - Fraction(self.low)
        return ScaledMean(Fraction(self.low) - width * lowest / span, width / span)

    @property
    def _mean_supports(self) -> tuple[Fraction, Fraction]:
        """The mean support of the lowest input, and by how much that of the highest exceeds it.

        The mean support is affine in the input, which makes the estimate unbiased for each of them.
        """
        means = [
            sum((value * share for value, share in enumerate(self.law(chosen, b"")[0])), Fraction(0))
            for chosen in (0, self.inputs - 1)
        ]
        return means[0], means[1] - means[0]

    def _from_unit(self, share: Fraction) -> Fraction:
        return Fraction(self.low) + (Fraction(self.high) - Fraction(self.low)) * share


@dataclass(frozen=True)
class GRRHO(OfNumbers):
    """VGRR over `points` evenly spaced numbers; its error grows with their number."""

    name: ClassVar[str] = "grr-ho"
    points: int = 16

    @property
    def inputs(self) -> int:
        return self.points

    @cached_property
    def layout(self) -> Layout:
        held, other = self.rates.held, self.rates.other
        return Layout(1, held + (self.points - 1) * other, (other,) * self.points)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        return (one_raised(self.points, chosen, self.rates.held, self.rates.other),)


@dataclass(frozen=True)
class SRHO(OfNumbers):
    """Stochastic rounding to the two ends, with a fixed number opened of each.

    With `times` copies of the shortest vector, the (held - other) · times + 1 numbers of ones between the floors
    stand for as many evenly spaced inputs, and every vector that is accepted is one of theirs. With times = 1 the
    client rounds to an end first: 3 entries at ε = ln 2.
    """

    name: ClassVar[str] = "sr-ho"
    times: int = 1

    @property
    def inputs(self) -> int:
        return (self.rates.held - self.rates.other) * self.times + 1

    @cached_property
    def layout(self) -> Layout:
        if self.times < 1:
            raise BadInput(f"times must be >= 1, got {self.times}")
        other = self.rates.other * self.times
        return Layout(1, (self.rates.held + self.rates.other) * self.times, (other, other))

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        ones = self.layout.floors[1] + chosen
        return ((self.layout.length - ones, ones),)


@dataclass(frozen=True)
class PMHO(OfNumbers):
    """The piecewise mechanism on `bins` bins: a window of them around the number has `held` copies each.

    The place of the window says the number. Not robust: the copies that stay closed may all be of the last bin.
    """

    name: ClassVar[str] = "pm-ho"
    bins: int = 16

    @cached_property
    def window(self) -> int:
        """The bins of the window: the share 1/(e^(ε/2) + 1) of all, as in the piecewise mechanism."""
        return max(1, round(self.bins / (math.exp(self.epsilon / 2) + 1)))

    @property
    def inputs(self) -> int:
        return self.bins - self.window + 1

    @cached_property
    def layout(self) -> Layout:
        if self.bins < 2:
            raise BadInput(f"{self.bins} bins are too few for a window; give 2 or more")
        held, other, w = self.rates.held, self.rates.other, self.window
        return Layout(1, w * held + (self.bins - w) * other, (other,) * self.bins)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        held, other, w = self.rates.held, self.rates.other, self.window
        return ((other,) * chosen + (held,) * w + (other,) * (self.bins - w - chosen),)

    @property
    def spacing(self) -> Fraction:
        """How far apart, on the scale where the range is [-1, 1], the reports of neighbouring bins are."""
        free = (self.rates.held - self.rates.other) * self.window
        return Fraction(2 * self.layout.length, free * (self.bins - self.window))
