"""GRR, generalised randomised response: the value itself, or another at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.local.counts import Counts
from veridp.local.estimate import Floats
from veridp.local.oracle import PureOracle, Reports, Sized
from veridp.local.rates import GRAIN, lying_rate
from veridp.mechanism import Mechanism


def respond(rng: Generator, value: int, *, size: int, lie: float) -> int:
    """The value, or with probability `lie` one of the others, each equally likely."""
    if rng.random() < lie:
        other = rng.integers(size - 1)
        return other + (other >= value)  # type: ignore[return-value]
    return value


@dataclass(frozen=True)
class GRR(Sized, PureOracle):
    """Generalised randomised response (Kairouz, Bonawitz, Ramage 2016), Warner's for two values.

    p = e^ε/(e^ε + d - 1), q = 1/(e^ε + d - 1). The best oracle for few values: d < 3e^ε + 2.
    """

    name: ClassVar[str] = "grr"

    @cached_property
    def lie(self) -> float:
        """How often another value is reported."""
        return lying_rate(self.epsilon, 1, self.size - 1)

    @property
    def p(self) -> float:
        return 1 - self.lie

    @property
    def q(self) -> float:
        return self.lie / (self.size - 1)

    @property
    def report_bits(self) -> float:
        return math.ceil(math.log2(self.size))

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        from veridp.local.kernels import respond_all, stream

        reports = self._checked(values).astype(np.int32)
        respond_all(reports, self.size, int(self.lie * GRAIN), stream(rng))
        return reports

    def aggregate(self, reports: Reports) -> Counts:
        column = self._checked(reports)
        return Counts(str(self), len(column), np.bincount(column, minlength=self.size))

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        return np.asarray(self._checked(reports)[:, None] == np.arange(self.size))

    def covariance(self, users: int, frequencies: Floats) -> Floats:
        """The covariance matrix of the estimated frequencies: reports are multinomial, given the values."""
        p, q = self.p, self.q
        rates = np.full((self.size, self.size), q) + (p - q) * np.eye(self.size)  # of each report, for each value
        mean = frequencies @ rates
        return np.asarray((np.diag(mean) - (rates.T * frequencies) @ rates) / (users * (p - q) ** 2))

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(respond, range(self.size), size=self.size, lie=self.lie)
