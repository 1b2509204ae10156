"""Hadamard response: a point of a small set that is chosen for the value by a row of a Hadamard matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.estimate import Counts, Estimate, Floats
from veridp.local.kernels import lying_rate
from veridp.local.oracle import FrequencyOracle, Reports, Sized
from veridp.mechanism import Mechanism


def respond_in_block(rng: Generator, value: int, *, block: int, points: int, lie: float) -> int:
    """One of `points` points: of those that the value favours, or with probability `lie` of the others.

    The points come in blocks; a value favours those of its block where its row of the Hadamard matrix is +1.
    """
    start, row = value // (block - 1) * block, value % (block - 1) + 1
    favoured = [start + column for column in range(block) if (row & column).bit_count() % 2 == 0]
    if rng.random() < lie:
        others = [point for point in range(points) if point not in favoured]
        return others[int(rng.integers(len(others)))]
    return favoured[int(rng.integers(len(favoured)))]


@dataclass(frozen=True)
class Hadamard(Sized, FrequencyOracle):
    """Hadamard response (Acharya, Sun, Zhang 2019): a report of about log2 d bits, decoded in d log d steps.

    There are B blocks of b points, where B is about e^ε/2; a value has a block and a row in it, and favours the s = b/2
    points of the block where its row is +1: each with e^ε times the probability of any other point.
    """

    name: ClassVar[str] = "hadamard"

    @cached_property
    def block(self) -> int:
        """The points of a block, b: a power of 2, one more than the values that share it."""
        blocks = 2 ** (math.ceil(math.log2(min(math.exp(min(self.epsilon, 40)), 2 * self.size))) - 1)
        return int(2 ** math.ceil(math.log2(self.size / blocks + 1)))

    @cached_property
    def points(self) -> int:
        """All points of all blocks."""
        return -(-self.size // (self.block - 1)) * self.block

    @cached_property
    def lie(self) -> float:
        """How often a point is reported that the value does not favour."""
        return lying_rate(self.epsilon, self.block // 2, self.points - self.block // 2)

    @cached_property
    def _odds(self) -> float:
        """How much likelier a favoured point is than another: e^ε, but for rounding."""
        half = self.block // 2
        return ((1 - self.lie) / half) / (self.lie / (self.points - half))

    @cached_property
    def _scale(self) -> float:
        """1 / (P[own block, +1] - P[own block, -1]): a report in one's block counts as much, with its sign."""
        return 1 / ((1 - self.lie) * (1 - 1 / self._odds))

    @property
    def report_bits(self) -> float:
        return math.ceil(math.log2(self.points))

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        column = self._checked(values)
        half = self.block // 2
        start, row = column // (self.block - 1) * self.block, column % (self.block - 1) + 1
        inside = rng.integers(self.block, size=len(column))
        wanted = np.ones(len(column), dtype=bool)  # the sign of the point: + unless a lie falls into the block
        lies = np.flatnonzero(rng.random(len(column)) < self.lie)
        elsewhere = rng.integers(self.points - half, size=len(lies))
        wanted[lies] = False
        # flipping the lowest set bit of the row in the column flips the sign: a bijection between + and - points
        wrong = (np.bitwise_count(row & inside) % 2 == 0) != wanted
        inside ^= np.where(wrong, row & -row, 0)
        reports = start + inside
        away = elsewhere >= half
        point = elsewhere[away] - half
        own = start[lies[away]]
        reports[lies[away]] = point + np.where(point >= own, self.block, 0)
        return reports.astype(np.int32 if self.points < 2**31 else np.int64)

    def aggregate(self, reports: Reports) -> Counts:
        column = np.asarray(reports)
        if column.dtype.kind not in "iu" or (len(column) and not 0 <= column.min() <= column.max() < self.points):
            raise BadInput(f"{self}: reports must be integers from 0 to {self.points - 1}")
        return Counts(str(self), len(column), np.bincount(column, minlength=self.points))

    def estimate(self, counts: Counts) -> Estimate:
        """The Walsh-Hadamard transform of each block, scaled: E[Σ_y H(row, y) c(y)] = n f / scale."""
        blocks = counts.owned_by(self).sums.reshape(-1, self.block).astype(float)
        transformed = walsh_hadamard(blocks)[:, 1:].ravel()[: self.size]
        values = self._scale * transformed / counts.users
        errors = np.sqrt(self.variance(counts.users, np.clip(values, 0.0, 1.0)))
        return Estimate(values, errors, counts.users, tuple(range(self.size)))

    def variance(self, users: int, frequencies: ArrayLike = 0.0) -> Floats:
        """scale² P[report in the value's block] - f, over n: a report counts ±scale there and 0 elsewhere.

        P is (1-lie)(1 + 1/e^ε) for users of the same block, b lie/(points - b/2) for others.
        """
        share = np.asarray(frequencies, dtype=float)
        together = self._block_shares(share)
        near = (1 - self.lie) * (1 + 1 / self._odds)
        far = self.block * self.lie / (self.points - self.block // 2)
        return np.asarray((self._scale**2 * (together * near + (1 - together) * far) - share) / users)

    def _block_shares(self, share: Floats) -> Floats:
        """How many users have a value of the same block, for each value."""
        if share.ndim == 0:
            return share
        per_block = np.add.reduceat(share, np.arange(0, self.size, self.block - 1))
        return np.asarray(np.repeat(per_block, self.block - 1)[: self.size])

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(
            respond_in_block, range(self.size), block=self.block, points=self.points, lie=self.lie
        )


def walsh_hadamard(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row times the Hadamard matrix of its length, which is a power of 2.

    >>> walsh_hadamard(np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([[10., -2., -4.,  0.]])
    """
    length, step = rows.shape[1], 1
    while step < length:
        pairs = rows.reshape(len(rows), -1, 2, step)
        rows = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        rows = rows.reshape(-1, length)
        step *= 2
    return rows
