"""Attacks on means, variances and key-value pairs: OPA, IPA, fine-grained poisoning and the key-value attacks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.attributes import KeyValue
from veridp.local.means import SR, BinnedGRR, MeanOracle
from veridp.local.oracle import Counts, Floats, Reports
from veridp.local.piecewise import PM, SQUARE, VALUE, Moments
from veridp.local.poisoning.attack import Attack, Attacked, CheckedProtocol, Freedom, corrupted, share_of

# --------------------------------------------------------------------------------------------------------------- means
# OPA, IPA and the largest input: attacks that push an estimated mean up.
#
# A share β of the users is malicious. OPA sends the report that stands for the most; IPA(θ) is honest, but takes part
# only with a value of θ or more; the largest input claims to have the upper end of the range, and perturbs that
# honestly.


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


# ------------------------------------------------------------------------------------------------------------- moments
# Fine-grained poisoning: mean and variance both brought to chosen targets (Li, Li, Sun, Gong, Li 2023).
#
# Of N = n + m users, m = βN are malicious. The attacker knows (or has estimated) the mean μ₁ of x̃ and μ₂ of x̃² among
# honest users. For the estimates to become t₁ and t₂ = σ² + t₁², each malicious report of x̃ has to stand for
#
#     a₁ = (N t₁ - n μ₁)/m = (t₁ - (1-β) μ₁)/β
#
# on average, and each of x̃² for a₂, alike. Reports can stand for anything up to the reach of the oracle (output
# poisoning), inputs for what lies in the range only (input poisoning); beyond that the target is out of reach, and the
# attack goes as far as it can.


@dataclass(frozen=True)
class FineGrained(Attack[Mapping[str, Counts]]):
    """Aims the estimated mean and variance at `mean` and `variance`, by the reports themselves.

    `known` are the honest mean and variance, as the attacker knows them.
    """

    name: ClassVar[str] = "fine-grained"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.REPORT})
    moments: Moments
    mean: float
    variance: float
    known: tuple[float, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta > 0:
            raise BadInput("beta = 0 leaves nobody to attack; give a share above 0")
        if self.variance < 0 or self.known[1] < 0:
            raise BadInput("a variance cannot be negative; give numbers >= 0")

    @cached_property
    def wanted(self) -> dict[str, float]:
        """a₁ and a₂: what malicious reports have to stand for on average."""
        now, then = (self._inner_moments(*pair) for pair in (self.known, (self.mean, self.variance)))
        return {part: (then[part] - (1 - self.beta) * now[part]) / self.beta for part in (VALUE, SQUARE)}

    @cached_property
    def sent(self) -> dict[str, float]:
        """What they stand for: what is wanted, as far as it can be reached."""
        return {part: float(np.clip(self.wanted[part], *self._limits(part))) for part in (VALUE, SQUARE)}

    @property
    def reachable(self) -> bool:
        """Whether both targets can be met."""
        return self.sent == self.wanted

    @cached_property
    def expected(self) -> tuple[float, float]:
        """The mean and variance that are estimated under the attack, in theory."""
        now = self._inner_moments(*self.known)
        after = {part: (1 - self.beta) * now[part] + self.beta * self.sent[part] for part in (VALUE, SQUARE)}
        half = (self.moments.high - self.moments.low) / 2
        return float(self.moments.outside.outer(after[VALUE])), float(after[SQUARE] - after[VALUE] ** 2) * half**2

    def _inner_moments(self, mean: float, variance: float) -> dict[str, float]:
        half = (self.moments.high - self.moments.low) / 2
        first = (mean - self.moments.low) / half - 1
        return {VALUE: first, SQUARE: variance / half**2 + first**2}

    def _limits(self, part: str) -> tuple[float, float]:
        oracle = self.moments.oracle(part)
        return oracle.outer(-oracle.reach), oracle.outer(oracle.reach)

    def _reports(self, part: str, count: int, rng: Generator) -> Reports:
        oracle = self.moments.oracle(part)
        inner = (self.sent[part] - oracle.low) / (oracle.high - oracle.low) * 2 - 1
        return made_up(oracle, inner, count, rng)

    def collect(self, values: ArrayLike, rng: Generator) -> Attacked[Mapping[str, Counts]]:
        column = np.asarray(values, dtype=float)
        fake = share_of(len(column), self.beta / (1 - self.beta), rng)
        honest = self.moments.aggregate(self.moments.perturb(column, rng))
        squares = int(rng.binomial(fake, 0.5))  # who reports what is drawn for malicious users too
        made = {
            part: self.moments.oracle(part).aggregate(self._reports(part, count, rng))
            for part, count in ((VALUE, fake - squares), (SQUARE, squares))
        }
        return Attacked(honest, {part: honest[part] + made[part] for part in honest}, fake)


@dataclass(frozen=True)
class FineGrainedInput(FineGrained):
    """The same by inputs, perturbed honestly: what has to be stood for must lie within the range."""

    name: ClassVar[str] = "fine-grained-input"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT})

    def _limits(self, part: str) -> tuple[float, float]:
        return self.moments.oracle(part).ends

    def _reports(self, part: str, count: int, rng: Generator) -> Reports:
        return self.moments.oracle(part).perturb(np.full(count, self.sent[part]), rng)


def made_up(oracle: MeanOracle, inner: float, count: int, rng: Generator) -> Reports:
    """Reports of SR or PM that stand for this number on average, within the reach of the oracle."""
    if isinstance(oracle, SR):
        up = share_of(count, (inner / oracle.reach + 1) / 2, rng)
        return rng.permutation(np.repeat(np.array([1, -1], dtype=np.int8), [up, count - up]))
    if isinstance(oracle, PM):  # reports are odd: the two around the place, in the right proportion
        place = (inner / oracle.unit + oracle.levels - 1) / 2
        below = np.clip(np.floor(place), 0, oracle.levels - 2)
        points = below + (rng.random(count) < place - below)
        return np.asarray(2 * points + 1 - oracle.levels, dtype=np.int32)
    raise BadInput(f"forged reports are not available for {oracle}; use SR or PM")


# ------------------------------------------------------------------------------------------------------------ keyvalue
# Attacks on keys and values (Wu, Cao, Jia, Gong 2022): promote target keys, and their means towards 1, at once.


@dataclass(frozen=True)
class KeyValueAttack:
    """M2GA: fake reports show every target with 1, and as many other keys, with random signs, as honest ones do.

    With `honest_rates`, RKVA: a random target with the value 1, perturbed as the oracle says.
    """

    oracle: KeyValue
    targets: tuple[int, ...]
    beta: float
    honest_rates: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.beta < 1 and self.targets and all(0 <= t < self.oracle.size for t in self.targets)):
            raise BadInput(f"give targets from 0 to {self.oracle.size - 1}, and beta from 0 to below 1")

    def allowed_by(self, protocol: CheckedProtocol) -> bool:
        """Whether the protocol leaves malicious users the freedom that this attack needs."""
        return protocol.permits(Freedom.INPUT if self.honest_rates else Freedom.REPORT)

    def reports(self, count: int, rng: Generator) -> Reports:
        """The reports of so many fake users."""
        oracle, targets = self.oracle, np.asarray(self.targets)
        if self.honest_rates:
            return oracle.perturb(targets[rng.integers(len(targets), size=count)], np.ones(count), rng)
        spare = max(0.0, 0.5 + (oracle.size - 1) * oracle.b - len(targets)) / max(oracle.size - len(targets), 1)
        shown = rng.random((count, oracle.size)) < spare
        entries = np.where(shown, np.where(rng.random(shown.shape) < 0.5, 1, -1), 0).astype(np.int8)
        entries[:, targets] = 1
        return entries

    def _pushed(self) -> tuple[float, float]:
        """What a fake report adds to a target's frequency estimate, and to that of frequency times mean."""
        if self.honest_rates:
            return 1 / len(self.targets), 1 / len(self.targets)
        b, unit = self.oracle.b, 0.5 * (1 - 2 * self.oracle.lie)
        return (1 - b) / (0.5 - b), 1 / unit

    def expected_frequency_gain(self, frequencies: Floats) -> float:
        """β [r·pushed - f_T]: what the targets' frequencies rise by in all."""
        chosen = list(self.targets)
        return self.beta * (len(chosen) * self._pushed()[0] - float(frequencies[chosen].sum()))

    def expected_means(self, frequencies: Floats, means: Floats) -> Floats:
        """The targets' estimated means for many users: [(1-β) f m + β pushed]/[(1-β) f + β pushed], clipped."""
        chosen, (share, product) = list(self.targets), self._pushed()
        honest = (1 - self.beta) * frequencies[chosen]
        return np.clip((honest * means[chosen] + self.beta * product) / (honest + self.beta * share), -1.0, 1.0)
