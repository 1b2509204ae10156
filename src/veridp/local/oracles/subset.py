"""Subset selection: a random set of values that holds the user's own more often than not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.oracle import Reports, Sized
from veridp.local.oracles.unary import BitReports
from veridp.local.rates import lying_rate
from veridp.mechanism import Mechanism


def select(rng: Generator, value: int, *, size: int, count: int, lie: float) -> list[int]:
    """A set of `count` values in order, uniform among those with the own value, or (with rate `lie`) those without."""
    others = [other for other in range(size) if other != value]
    if rng.random() < lie:
        return sorted(rng.choice(others, size=count, replace=False))
    return sorted([value, *rng.choice(others, size=count - 1, replace=False)])


@dataclass(frozen=True)
class SubsetSelection(Sized, BitReports):
    """ω-subset selection (Ye and Barg 2018; Wang et al. 2019): sets of ω = d/(e^ε + 1) values; GRR where that is 1.

    A set holds the user's own value with probability p = ωe^ε/(ωe^ε + d - ω), any other with (p(ω-1) + (1-p)ω)/(d-1).
    """

    name: ClassVar[str] = "subset"
    count: int = 0  # ω; 0: the best

    def __post_init__(self) -> None:
        super().__post_init__()
        best = max(1, round(self.size / (math.exp(self.epsilon) + 1)))
        object.__setattr__(self, "count", self.count or best)
        if not 1 <= self.count < self.size:
            raise BadInput(f"count must be from 1 to {self.size - 1}, or omitted, got {self.count}")

    @cached_property
    def lie(self) -> float:
        """How often the set is without the user's own value."""
        return lying_rate(self.epsilon, self.count, self.size - self.count)

    @property
    def p(self) -> float:
        return 1 - self.lie

    @property
    def q(self) -> float:
        return (self.p * (self.count - 1) + self.lie * self.count) / (self.size - 1)

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        from veridp.local.kernels import random_subsets, stream, word_count

        column = self._checked(values)
        words = np.empty((len(column), word_count(self.size)), dtype=np.uint64)
        random_subsets(column, self.size, self.count, rng.random(len(column)) >= self.lie, stream(rng), words)
        return words

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(select, range(self.size), size=self.size, count=self.count, lie=self.lie)
