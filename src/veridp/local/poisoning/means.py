"""OPA, IPA and the largest input: attacks that push an estimated mean up.

A share β of the users is malicious. OPA sends the report that stands for the most; IPA(θ) is honest, but takes part
only with a value of θ or more; the largest input claims to have the upper end of the range, and perturbs that honestly.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.counts import Counts
from veridp.local.estimate import Floats
from veridp.local.oracle import Reports
from veridp.local.oracles.binned import BinnedGRR
from veridp.local.oracles.means import MeanOracle
from veridp.local.poisoning.attack import Attack, Attacked, Freedom, corrupted


@dataclass(frozen=True)
class MeanAttack(Attack[Counts]):
    """Malicious users among those who hold the values."""

    oracle: MeanOracle | BinnedGRR

    @abstractmethod
    def poisoned(self, reports: Reports, values: Floats, malicious: NDArray[np.bool_], rng: Generator) -> Reports:
        """What is sent in place of the honest reports on these values."""

    @abstractmethod
    def expected_mean(self, values: ArrayLike, weights: Floats | None = None) -> float:
        """The mean that is estimated under the attack, on average, where users hold these values (so many of each)."""

    def collect(self, values: ArrayLike, rng: Generator) -> Attacked[Counts]:
        column = np.asarray(values, dtype=float)
        malicious = corrupted(len(column), self.beta, rng)
        reports = self.oracle.perturb(column, rng)
        sent = self.poisoned(reports, column, malicious, rng)
        return Attacked(self.oracle.aggregate(reports), self.oracle.aggregate(sent), int(malicious.sum()))

    def gain(self, attacked: Attacked[Counts]) -> float:
        """How much the estimated mean rose."""
        return self.oracle.mean(attacked.after).value - self.oracle.mean(attacked.before).value

    def expected_gain(self, values: ArrayLike, weights: Floats | None = None) -> float:
        """How much it rises in theory, where users hold these values (so many of each)."""
        return self.expected_mean(values, weights) - self.oracle.expected_mean(values, weights)


@dataclass(frozen=True)
class OPA(MeanAttack):
    """Output poisoning: malicious users send the report that stands for the largest number.

    E[mean] = (1-β) μ + β L, where L is that number: for SR (e^ε+1)/(e^ε-1) and for PM (e^{ε/2}+1)/(e^{ε/2}-1) half
    ranges above the middle, for GRR on levels (high - qΣl)/(p-q). As ε grows, L falls to the upper end.
    """

    name: ClassVar[str] = "opa"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.REPORT})

    def poisoned(self, reports: Reports, values: Floats, malicious: NDArray[np.bool_], rng: Generator) -> Reports:
        sent = reports.copy()
        sent[malicious] = self.oracle.largest(int(malicious.sum()))
        return sent

    def expected_mean(self, values: ArrayLike, weights: Floats | None = None) -> float:
        return (1 - self.beta) * self.oracle.expected_mean(values, weights) + self.beta * self.oracle.furthest


@dataclass(frozen=True)
class IPA(MeanAttack):
    """Input poisoning by absence: malicious users take part, honestly, only with a value of `theta` or more.

    E[mean] = [(1-β) μ + β E[x; x >= θ]] / [(1-β) + β P[x >= θ]], whatever ε is.
    """

    name: ClassVar[str] = "ipa"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.ABSENCE})
    theta: float = 0.0

    def poisoned(self, reports: Reports, values: Floats, malicious: NDArray[np.bool_], rng: Generator) -> Reports:
        sent = reports[~malicious | (values >= self.theta)]
        if not len(sent):
            raise BadInput(f"nobody takes part with a value of theta = {self.theta:g} or more; lower it")
        return sent

    def expected_mean(self, values: ArrayLike, weights: Floats | None = None) -> float:
        column = np.asarray(values, dtype=float)
        taking_part = np.where(column >= self.theta, 1.0, 1 - self.beta)
        return self.oracle.expected_mean(column, taking_part if weights is None else taking_part * weights)


@dataclass(frozen=True)
class LargestInput(MeanAttack):
    """Input poisoning by a lie: malicious users claim the upper end of the range, and perturb it honestly.

    E[mean] = (1-β) μ + β high: the most that any attack with honest perturbation achieves.
    """

    name: ClassVar[str] = "largest-input"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT})

    def poisoned(self, reports: Reports, values: Floats, malicious: NDArray[np.bool_], rng: Generator) -> Reports:
        sent = reports.copy()
        sent[malicious] = self.oracle.perturb(np.full(int(malicious.sum()), float(self.oracle.high)), rng)
        return sent

    def expected_mean(self, values: ArrayLike, weights: Floats | None = None) -> float:
        return (1 - self.beta) * self.oracle.expected_mean(values, weights) + self.beta * float(self.oracle.high)
