"""Seeds for the parts of a detection: each its own, all from one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Seeds:
    """A family of independent seeds.

    >>> Seeds(0).of(1) != Seeds(0).of(2)
    True
    """

    seed: int
    path: tuple[int, ...] = ()

    def under(self, *path: int) -> Seeds:
        """The family of seeds at this place within the family."""
        return Seeds(self.seed, (*self.path, *path))

    def of(self, *path: int) -> int:
        """The seed at this place within the family."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(*self.path, *path))
        return int(sequence.generate_state(1, np.uint64)[0])
