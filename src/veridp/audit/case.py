"""What is to be judged: a mechanism, its claim, the inputs that count."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from veridp.claim import Claim
from veridp.errors import BadInput
from veridp.mechanism import Mechanism


@dataclass(frozen=True)
class AuditCase:
    """A mechanism and its claim, for inputs of a size; `alpha` is the false-alarm rate that all engines share."""

    mechanism: Mechanism
    claim: Claim
    size: int
    alpha: float
    seed: int

    @classmethod
    def of(cls, mechanism: Mechanism, size: int | None, alpha: float, seed: int) -> AuditCase:
        """The case of a mechanism as it is bound; BadInput where there is nothing to judge."""
        mechanism = mechanism.stating(size=size)
        mechanism.bound()  # an error if arguments are missing
        claim = mechanism.claim
        if claim is None:
            raise BadInput(f"{mechanism.name} has no claim; state one with epsilon=…, or --epsilon")
        if math.isinf(claim.epsilon) or claim.delta == 1:
            raise BadInput(f"{claim} holds for every function; claim a finite epsilon and a delta below 1")
        if not isinstance(alpha, Real) or not 0 < alpha < 1:
            raise BadInput(f"alpha must be in (0, 1), got {alpha!r}")
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise BadInput(f"seed must be an integer >= 0, got {seed!r}")
        return cls(mechanism, claim, int(mechanism.size), alpha, int(seed))

    @property
    def example(self) -> object:
        """An ordinary input."""
        return self.mechanism.adjacency.example(self.size, self.mechanism.domain)

    @property
    def scope(self) -> str:
        """The neighbours that a proof speaks of."""
        return f"for all neighbours under {self.mechanism.adjacency}, size {self.size}"

    def seed_of(self, stage: int) -> int:
        """A seed of its own for each stage."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(stage,)).generate_state(1)[0])

    def defined_at(self) -> tuple[str, int]:
        """The file and line where the author's function begins; nothing where that is not known."""
        function = inspect.unwrap(self.mechanism.function)
        try:
            return inspect.getsourcefile(function) or "", inspect.getsourcelines(function)[1]
        except (TypeError, OSError, IndexError):  # no source, or one that has changed
            return "", 0
