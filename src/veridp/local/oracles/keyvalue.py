"""Key and value together: which key a user has, and a number from -1 to 1 for it (PCKV-UE, one pair per user)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.adjacency import adjacency
from veridp.errors import BadInput
from veridp.local.counts import Counts
from veridp.local.estimate import Estimate
from veridp.local.oracle import Reports, Sized
from veridp.local.rates import GRAIN, exp_below, lying_rate
from veridp.mechanism import Mechanism


def respond_by_key(rng: Generator, pair: tuple[int, float], *, size: int, b: float, lie: float) -> list[int]:
    """An entry for each key: 1 or -1 for a key that is claimed, with the sign of its value, and 0 for others."""
    key, value = pair
    sign = 1 if rng.random() < (1 + value) / 2 else -1
    entries = []
    for other in range(size):
        if other != key:
            drawn = rng.random()
            entries.append(1 if drawn < b / 2 else -1 if drawn < b else 0)
        elif rng.random() < 0.5:
            entries.append(-sign if rng.random() < lie else sign)
        else:
            entries.append(0)
    return entries


@dataclass(frozen=True)
class KeyValue(Sized):
    """PCKV with unary encoding (Gu et al. 2020): the own key is claimed with a = 1/2, any other with b = 2/(e^ε + 3).

    The value is rounded to a sign, which is right with p = e^ε/(e^ε + 1); other keys have random signs. The most
    telling report shows the own key with the right sign and not the other: 2p · (1-b)/b = e^ε; a wrong sign alone tells
    p/(1-p) = e^ε.
    """

    name: ClassVar[str] = "keyvalue"

    @cached_property
    def lie(self) -> float:
        """How often the sign of the own key is turned."""
        return lying_rate(self.epsilon, 1, 1)

    @cached_property
    def b(self) -> float:
        """How often another key is claimed: the smallest even multiple of 2^-53 with 2p(1-b)/b <= e^ε."""
        twice = 2 * (1 - Fraction(self.lie))
        return math.ceil(twice / (twice + exp_below(self.epsilon)) * (GRAIN // 2)) / (GRAIN // 2)

    def perturb(self, keys: ArrayLike, values: ArrayLike, rng: Generator) -> Reports:
        """Rows of -1, 0 and 1, an entry for each key."""
        key, value = np.asarray(keys), np.asarray(values, dtype=float)
        if len(key) != len(value) or not (np.abs(value) <= 1).all():
            raise BadInput(f"{self}: give a key for each value, and values from -1 to 1")
        if key.dtype.kind not in "iu" or (len(key) and not 0 <= key.min() <= key.max() < self.size):
            raise BadInput(f"{self}: keys must be integers from 0 to {self.size - 1}")
        drawn = rng.random((len(key), self.size))
        entries = (drawn < self.b).astype(np.int8) - 2 * ((drawn >= self.b / 2) & (drawn < self.b))
        sign = np.where(rng.random(len(key)) < (1 + value) / 2, 1, -1)
        sign = np.where(rng.random(len(key)) < self.lie, -sign, sign)
        entries[np.arange(len(key)), key] = np.where(rng.random(len(key)) < 0.5, sign, 0)
        return entries.astype(np.int8)

    def aggregate(self, reports: Reports) -> Counts:
        """How many reports show each key with 1, and with -1."""
        rows = np.asarray(reports)
        if rows.ndim != 2 or rows.shape[1] != self.size or not np.isin(rows, (-1, 0, 1)).all():
            raise BadInput(f"{self}: reports are rows of {self.size} entries -1, 0 or 1")
        return Counts(str(self), len(rows), np.stack(((rows == 1).sum(axis=0), (rows == -1).sum(axis=0))))

    def frequencies(self, counts: Counts) -> Estimate:
        """How many users have each key; unbiased."""
        users, shown = counts.owned_by(self).users, counts.sums.sum(axis=0)
        values = (shown / users - self.b) / (0.5 - self.b)
        share = np.clip(values, 0.0, 1.0)
        spread = (share / 4 + (1 - share) * self.b * (1 - self.b)) / (users * (0.5 - self.b) ** 2)
        return Estimate(values, np.sqrt(spread), users, tuple(range(self.size)))

    def means(self, counts: Counts) -> Estimate:
        """The mean value of the users of each key: a ratio, right for many users of the key, and clipped to [-1, 1]."""
        frequency = self.frequencies(counts)
        unit = 0.5 * (1 - 2 * self.lie)
        plus, minus = counts.sums
        held = np.maximum(frequency.values, 1 / counts.users)
        raw = (plus - minus) / (counts.users * unit * held)
        spread = np.sqrt((plus + minus) / counts.users**2) / (unit * held)
        return Estimate(raw, spread, counts.users, frequency.names).after("clip", np.clip(raw, -1.0, 1.0))

    def mechanism(self) -> Mechanism:
        """The user's side; neighbours are any two pairs, those tried have the values -1 and 1."""
        pairs = [(key, value) for key in range(self.size) for value in (-1.0, 1.0)]
        arguments = {"size": self.size, "b": self.b, "lie": self.lie}
        return Mechanism(
            respond_by_key,
            epsilon=self.epsilon,
            adjacency=adjacency("any"),
            domain=pairs,
            arguments=arguments,
            size=1,
        )
