"""OLH, optimised local hashing: the value's bucket under a hash function of one's own, by randomised response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.estimate import Counts
from veridp.local.kernels import GRAIN, lying_rate
from veridp.local.oracle import PureOracle, Reports, Sized
from veridp.local.oracles.frequency import respond
from veridp.mechanism import Mechanism

MOST_BUCKETS = 1 << 16
REPORT = np.dtype([("seed", np.uint64), ("bucket", np.uint16)])


def buckets_under(seeds: NDArray[np.uint64], size: int, buckets: int) -> NDArray[np.uint16]:
    """The bucket of every value of the domain under every seed: a row for each seed."""
    from veridp.local.kernels import hash_all

    table = np.empty((len(seeds), size), dtype=np.uint16)
    hash_all(np.ascontiguousarray(seeds), size, buckets, table)
    return table


def respond_hashed(
    rng: Generator, value: int, *, table: Sequence[Sequence[int]], buckets: int, lie: float
) -> tuple[int, int]:
    """Which hash function was drawn, and the bucket of the value under it, by randomised response.

    `table` holds the buckets of all values, a row for each hash function.
    """
    function = int(rng.integers(len(table)))
    return function, respond(rng, table[function][value], size=buckets, lie=lie)


@dataclass(frozen=True)
class OLH(Sized, PureOracle):
    """Optimised local hashing (Wang et al. 2017): g = round(e^ε) + 1 buckets, p = e^ε/(e^ε + g - 1), q = 1/g.

    Every user draws a hash function; its seed is part of the report and independent of the value. Reports stay small
    for any number of values; aggregating takes a hash for each report and value.
    """

    name: ClassVar[str] = "olh"
    buckets: int = 0  # 0: the best number of them

    def __post_init__(self) -> None:
        super().__post_init__()
        best = min(round(math.exp(self.epsilon)) + 1, MOST_BUCKETS)
        object.__setattr__(self, "buckets", self.buckets or best)
        if not 2 <= self.buckets <= MOST_BUCKETS:
            raise BadInput(f"buckets must be from 2 to {MOST_BUCKETS}, or omitted, got {self.buckets}")

    @cached_property
    def lie(self) -> float:
        """How often another bucket than the value's is reported."""
        return lying_rate(self.epsilon, 1, self.buckets - 1)

    @property
    def p(self) -> float:
        return 1 - self.lie

    @property
    def q(self) -> float:
        return 1 / self.buckets

    @property
    def report_bits(self) -> float:
        return 64 + math.ceil(math.log2(self.buckets))

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        from veridp.local.kernels import respond_hashed_all, stream

        column = self._checked(values)
        reports = np.empty(len(column), dtype=REPORT)
        rate = int(self.lie * GRAIN)
        respond_hashed_all(column, self.buckets, rate, stream(rng), reports["seed"], reports["bucket"])
        return reports

    def aggregate(self, reports: Reports) -> Counts:
        from veridp.local.kernels import add_support

        seeds, buckets = self._parts(reports)
        counts = np.zeros(self.size, dtype=np.int64)
        add_support(seeds, buckets, self.buckets, counts)
        return Counts(str(self), len(reports), counts)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        seeds, buckets = self._parts(reports)
        return np.asarray(buckets_under(seeds, self.size, self.buckets) == buckets[:, None])

    def _parts(self, reports: Reports) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
        if np.asarray(reports).dtype != REPORT:
            raise BadInput(
                f"{self}: an array of {np.asarray(reports).dtype} does not hold its reports; they are of {REPORT}"
            )
        buckets = np.ascontiguousarray(reports["bucket"])
        if len(buckets) and buckets.max() >= self.buckets:
            place = int(np.argmax(buckets >= self.buckets))
            raise BadInput(f"{self}: bucket {buckets[place]} of report {place} is not below {self.buckets}")
        return np.ascontiguousarray(reports["seed"]), buckets

    def mechanism(self, seeds: Sequence[int] = range(8)) -> Mechanism:
        """The user's side with these hash functions to draw from rather than all 2^64.

        The loss on a report depends on its own hash function alone, so that it is one of those of the full mechanism,
        and no greater for more functions than where two values fall into different buckets.
        """
        rows = buckets_under(np.array(list(seeds), dtype=np.uint64), self.size, self.buckets)
        table = tuple(tuple(row.tolist()) for row in rows)
        return self._as_mechanism(respond_hashed, range(self.size), table=table, buckets=self.buckets, lie=self.lie)
