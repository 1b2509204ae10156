"""RPA, RIA and MGA, the attacks on frequencies (Cao, Jia, Gong 2021), and an adaptive one that looks honest.

Besides n honest users there are m fake ones, β = m/(n + m). They promote targets T; the gain is the sum over T of
what the estimated frequencies rise by. Let S be how many targets a fake report supports on average. Then, since a
support of 1 counts (1 - q)/(p - q) and one of 0 counts -q/(p - q), and since n of n + m reports are honest,

    E[gain] = β [ (S - r q)/(p - q) - f_T ],

for r targets of true frequency f_T. RIA, which is honest about a target, has (S - rq)/(p - q) = 1.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.estimate import Counts, Floats
from veridp.local.oracle import PureOracle, Reports
from veridp.local.oracles.hashing import OLH
from veridp.local.poisoning.attack import Attack, Attacked, Craft, Freedom, craft, random_rate, random_reports, share_of


@dataclass(frozen=True)
class FrequencyAttack(Attack[Counts]):
    """Fake users that promote the targets."""

    oracle: PureOracle
    targets: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "targets", tuple(int(target) for target in self.targets))
        if not self.targets or len(set(self.targets)) != len(self.targets):
            raise BadInput(f"targets = {self.targets} are none or repeat; give each target once")
        if not all(0 <= target < self.oracle.size for target in self.targets):
            raise BadInput(f"targets = {self.targets} are not all values from 0 to {self.oracle.size - 1}")

    @abstractmethod
    def reports(self, count: int, rng: Generator) -> Reports:
        """The reports of so many fake users."""

    @property
    @abstractmethod
    def supported(self) -> float:
        """S: how many targets a fake report supports on average."""

    def collect(self, values: ArrayLike, rng: Generator) -> Attacked[Counts]:
        column = np.asarray(values)
        fake = share_of(len(column), self.beta / (1 - self.beta), rng)
        before = self.oracle.collect(column, rng)
        return Attacked(before, before + self.oracle.aggregate(self.reports(fake, rng)), fake)

    def gain(self, attacked: Attacked[Counts]) -> float:
        """How much the estimated frequencies of the targets rose in all."""
        before, after = self.oracle.estimate(attacked.before), self.oracle.estimate(attacked.after)
        return float((after.values - before.values)[list(self.targets)].sum())

    def expected_gain(self, frequencies: Floats) -> float:
        """The gain that theory gives, where the values have these true frequencies."""
        p, q = self.oracle.p, self.oracle.q
        pushed = (self.supported - len(self.targets) * q) / (p - q)
        return self.beta * (pushed - float(frequencies[list(self.targets)].sum()))


@dataclass(frozen=True)
class RPA(FrequencyAttack):
    """Random perturbed-value attack: a report drawn uniformly from all there are."""

    name: ClassVar[str] = "rpa"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.REPORT})

    def reports(self, count: int, rng: Generator) -> Reports:
        return random_reports(self.oracle, count, rng)

    @property
    def supported(self) -> float:
        return len(self.targets) * random_rate(self.oracle)


@dataclass(frozen=True)
class RIA(FrequencyAttack):
    """Random item attack: a random target as the value, perturbed as the oracle says."""

    name: ClassVar[str] = "ria"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT})

    def reports(self, count: int, rng: Generator) -> Reports:
        return self.oracle.perturb(np.asarray(self.targets)[rng.integers(len(self.targets), size=count)], rng)

    @property
    def supported(self) -> float:
        return self.oracle.p + (len(self.targets) - 1) * self.oracle.q


@dataclass(frozen=True)
class MGA(FrequencyAttack):
    """Maximal gain attack: reports that support as many targets as a report can.

    For OLH they are the best hash functions that a search over some millions finds; `seed` fixes that search.
    """

    name: ClassVar[str] = "mga"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.REPORT})
    seed: int = 0

    @cached_property
    def craft(self) -> Craft:
        """How the reports are made."""
        return craft(self.oracle, self.targets, np.random.default_rng(self.seed))

    @property
    def freedoms(self) -> frozenset[Freedom]:
        return self.needs | {Freedom.SEED} if isinstance(self.oracle, OLH) else self.needs

    def reports(self, count: int, rng: Generator) -> Reports:
        return self.craft.reports(count, rng)

    @property
    def supported(self) -> float:
        return self.craft.supported


@dataclass(frozen=True)
class AdaptiveMGA(MGA):
    """MGA that mimics honest users, at the price of some gain.

    Reports have the weights of honest ones; a share 1 - `boldness` of the fake users does not attack at all but reports
    honestly on a value drawn from `prior` (uniform if there is none), so that no target stands out too much.
    """

    name: ClassVar[str] = "adaptive"
    boldness: float = 0.5
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.boldness <= 1:
            raise BadInput(f"boldness must be in [0, 1], got {self.boldness!r}")

    @cached_property
    def craft(self) -> Craft:
        return craft(self.oracle, self.targets, np.random.default_rng(self.seed), mimic=True)

    @cached_property
    def _likely(self) -> Floats:
        size = self.oracle.size
        share = np.full(size, 1 / size) if self.prior is None else np.asarray(self.prior, dtype=float)
        if share.shape != (size,) or not (share >= 0).all() or not share.sum() > 0:
            raise BadInput(f"prior must have a frequency for each of the {size} values")
        return np.asarray(share / share.sum())

    def reports(self, count: int, rng: Generator) -> Reports:
        bold = share_of(count, self.boldness, rng)
        honest = self.oracle.perturb(rng.choice(self.oracle.size, size=count - bold, p=self._likely), rng)
        return rng.permutation(np.concatenate((self.craft.reports(bold, rng), honest)))

    @property
    def supported(self) -> float:
        likely = float(self._likely[list(self.targets)].sum())
        honest = len(self.targets) * self.oracle.q + likely * (self.oracle.p - self.oracle.q)
        return self.boldness * self.craft.supported + (1 - self.boldness) * honest
