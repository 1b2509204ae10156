"""Attacks on keys and values (Wu, Cao, Jia, Gong 2022): promote target keys, and their means towards 1, at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from veridp.errors import BadInput
from veridp.local.estimate import Floats
from veridp.local.oracle import Reports
from veridp.local.oracles.keyvalue import KeyValue
from veridp.local.poisoning.attack import CheckedProtocol, Freedom


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
