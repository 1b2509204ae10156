"""Oracles for the frequency of each value: GRR, SUE, OUE, subset selection and Hadamard response."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.kernels import GRAIN, lying_rate
from veridp.local.oracle import Counts, Estimate, Floats, FrequencyOracle, PureOracle, Reports, Sized
from veridp.mechanism import Mechanism

# --------------------------------------------------------------------------------------------------------------- unary
# SUE and OUE: a bit for each value, each turned at random.


def set_bits(rng: Generator, value: int, *, size: int, p: float, q: float) -> list[bool]:
    """A bit for each value of the domain: set with probability p for the user's own, q for any other."""
    return [rng.random() < (p if other == value else q) for other in range(size)]


class BitReports(PureOracle):
    """Oracles whose report is a set of values, packed as bits into words."""

    @property
    def report_bits(self) -> float:
        return self.size

    def aggregate(self, reports: Reports) -> Counts:
        from veridp.local.kernels import add_bits

        words = self._words(reports)
        counts = np.zeros(self.size, dtype=np.int64)
        add_bits(words, counts)
        return Counts(str(self), len(words), counts)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        from veridp.local.kernels import unpacked

        return unpacked(self._words(reports), self.size)

    def _words(self, reports: Reports) -> NDArray[np.uint64]:
        from veridp.local.kernels import WORD, word_count

        words = np.ascontiguousarray(reports)
        if words.dtype != np.uint64 or words.shape[1:] != (word_count(self.size),):
            raise BadInput(f"{self}: an array of {words.dtype} and shape {words.shape} does not hold its reports")
        if spare := word_count(self.size) * WORD - self.size:
            strange = words[:, -1] >> np.uint64(WORD - spare)
            if strange.any():
                raise BadInput(f"{self}: report {int(np.argmax(strange > 0))} sets a bit beyond the {self.size} values")
        return words


@dataclass(frozen=True)
class _Unary(Sized, BitReports):
    """One bit for each value; the rates tell the kinds apart."""

    @property
    @abstractmethod
    def p(self) -> float: ...

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        from veridp.local.kernels import noisy_one_hot, stream, word_count

        column = self._checked(values)
        words = np.empty((len(column), word_count(self.size)), dtype=np.uint64)
        noisy_one_hot(column, self.size, int(self.p * GRAIN), int(self.q * GRAIN), stream(rng), words)
        return words

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(set_bits, range(self.size), size=self.size, p=self.p, q=self.q)


@dataclass(frozen=True)
class SUE(_Unary):
    """Symmetric unary encoding, which is basic one-time RAPPOR: every bit is turned with probability 1/(e^{ε/2} + 1).

    Two values differ in two bits, each of which may tell e^{ε/2}.
    """

    name: ClassVar[str] = "sue"

    @cached_property
    def q(self) -> float:
        return lying_rate(self.epsilon / 2, 1, 1)

    @property
    def p(self) -> float:
        return 1 - self.q


@dataclass(frozen=True)
class OUE(_Unary):
    """Optimised unary encoding (Wang et al. 2017): p = 1/2, q = 1/(e^ε + 1), the least variance of all such rates.

    The two bits in which two values differ tell (p/q)((1-q)/(1-p)) = (1-q)/q = e^ε together.
    """

    name: ClassVar[str] = "oue"

    @cached_property
    def q(self) -> float:
        return lying_rate(self.epsilon, 1, 1)

    @property
    def p(self) -> float:
        return 0.5


# -------------------------------------------------------------------------------------------------------------- subset
# Subset selection: a random set of values that holds the user's own more often than not.


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


# -------------------------------------------------------------------------------------------------------------- direct
# GRR, generalised randomised response: the value itself, or another at random.


def respond(rng: Generator, value: int, *, size: int, lie: float) -> int:
    """The value, or with probability `lie` one of the others, each equally likely."""
    if rng.random() < lie:
        other = rng.integers(size - 1)
        return other + (other >= value)  # type: ignore[return-value]
    return value


@dataclass(frozen=True)
class GRR(Sized, PureOracle):
    """Generalised randomised response (Kairouz, Bonawitz, Ramage 2016), Warner's for two values.

    p = e^ε/(e^ε + d - 1), q = 1/(e^ε + d - 1). The best oracle for few values: d < 3e^ε + 2.
    """

    name: ClassVar[str] = "grr"

    @cached_property
    def lie(self) -> float:
        """How often another value is reported."""
        return lying_rate(self.epsilon, 1, self.size - 1)

    @property
    def p(self) -> float:
        return 1 - self.lie

    @property
    def q(self) -> float:
        return self.lie / (self.size - 1)

    @property
    def report_bits(self) -> float:
        return math.ceil(math.log2(self.size))

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        from veridp.local.kernels import respond_all, stream

        reports = self._checked(values).astype(np.int32)
        respond_all(reports, self.size, int(self.lie * GRAIN), stream(rng))
        return reports

    def aggregate(self, reports: Reports) -> Counts:
        column = self._checked(reports)
        return Counts(str(self), len(column), np.bincount(column, minlength=self.size))

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        return np.asarray(self._checked(reports)[:, None] == np.arange(self.size))

    def covariance(self, users: int, frequencies: Floats) -> Floats:
        """The covariance matrix of the estimated frequencies: reports are multinomial, given the values."""
        p, q = self.p, self.q
        rates = np.full((self.size, self.size), q) + (p - q) * np.eye(self.size)  # of each report, for each value
        mean = frequencies @ rates
        return np.asarray((np.diag(mean) - (rates.T * frequencies) @ rates) / (users * (p - q) ** 2))

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(respond, range(self.size), size=self.size, lie=self.lie)


# ------------------------------------------------------------------------------------------------------------ hadamard
# Hadamard response: a point of a small set that is chosen for the value by a row of a Hadamard matrix.


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
        """How much likelier a favoured point is than another: e^ε, up to rounding."""
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
