"""Mean and variance of a number together: half of the users report the number, the other half its square."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.counts import Counts
from veridp.local.estimate import Estimate
from veridp.local.oracle import Reports
from veridp.local.oracles.attributes import SMP
from veridp.local.oracles.means import SR, MeanOracle
from veridp.local.oracles.piecewise import PM
from veridp.mechanism import Mechanism

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
