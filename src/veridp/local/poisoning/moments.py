"""Fine-grained poisoning: mean and variance both brought to chosen targets (Li, Li, Sun, Gong, Li 2023).

Of N = n + m users, m = βN are malicious. The attacker knows (or has estimated) the mean μ₁ of x̃ and μ₂ of x̃² among
honest users. For the estimates to become t₁ and t₂ = σ² + t₁², each malicious report of x̃ has to stand for

    a₁ = (N t₁ - n μ₁)/m = (t₁ - (1-β) μ₁)/β

on average, and each of x̃² for a₂, alike. Reports can stand for anything up to the reach of the oracle (output
poisoning), inputs for what lies in the range only (input poisoning); beyond that the target is out of reach, and the
attack goes as far as it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.counts import Counts
from veridp.local.oracle import Reports
from veridp.local.oracles.means import SR, MeanOracle
from veridp.local.oracles.moments import SQUARE, VALUE, Moments
from veridp.local.oracles.piecewise import PM
from veridp.local.poisoning.attack import Attack, Attacked, Freedom, share_of


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
