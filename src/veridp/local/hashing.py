"""Oracles that hash the value: OLH, optimised local hashing, and RAPPOR, a Bloom filter with a remembered response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import mmh3
import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.frequency import respond
from veridp.local.kernels import GRAIN, checked_epsilon, log_above, lying_rate, rounded_rate
from veridp.local.oracle import Counts, Estimate, Floats, FrequencyOracle, PureOracle, Reports, Sized
from veridp.mechanism import Mechanism

# ------------------------------------------------------------------------------------------------------------- hashing
# OLH, optimised local hashing: the value's bucket under a hash function of one's own, by randomised response.


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


# --------------------------------------------------------------------------------------------------------------- bloom
# RAPPOR: a Bloom filter of the value, a permanent response that is remembered, and an instantaneous one per report.


Bits = NDArray[np.bool_]
MOST_COHORTS = 1 << 16
RANK = 1e-9  # of singular values: below this, relative to the largest, candidates cannot be distinguished


def permanent_bits(rng: Generator, value: int, *, filters: Sequence[Sequence[bool]], turn: float) -> list[bool]:
    """The bits of the value's Bloom filter, each turned with probability `turn`."""
    return [rng.random() < (1 - turn if bit else turn) for bit in filters[value]]


def reported_bits(
    rng: Generator, value: int, *, filters: Sequence[Sequence[bool]], turn: float, set_rate: float, clear_rate: float
) -> list[bool]:
    """One report: each bit of the permanent response is reported as 1 with the rate for set or for clear bits."""
    report = []
    for bit in filters[value]:
        permanent = rng.random() < (1 - turn if bit else turn)
        report.append(rng.random() < np.where(permanent, set_rate, clear_rate))
    return report  # type: ignore[return-value]


@dataclass(frozen=True)
class RAPPOR(FrequencyOracle):
    """RAPPOR (Erlingsson, Pihur, Korolova 2014) over `candidates`, the strings whose frequencies are wanted.

    A user is in one of `cohorts`, each with its own hash functions. The value's Bloom filter of `hashes` hashes has its
    bits turned with probability f/2 once and for all (the permanent response: ε = 2h ln((1-f/2)/(f/2)), for ever); each
    report shows a set bit of it as 1 with probability `set_rate`, a clear one with `clear_rate` (the instantaneous
    response, which costs `report_epsilon` for one report). ε holds for all strings, candidates or not.
    """

    name: ClassVar[str] = "rappor"
    candidates: tuple[str, ...]
    epsilon: float  # of the permanent response: for any number of reports
    bits: int = 64
    hashes: int = 2
    cohorts: int = 8
    set_rate: float = 0.75
    clear_rate: float = 0.25

    def __post_init__(self) -> None:
        if isinstance(self.candidates, str):
            raise BadInput(f"{self.name}: candidates = {self.candidates!r} is one string; give a tuple of them")
        object.__setattr__(self, "candidates", tuple(str(candidate) for candidate in self.candidates))
        for name in ("set_rate", "clear_rate"):
            object.__setattr__(self, name, rounded_rate(getattr(self, name)))
        checked_epsilon(self.epsilon)
        if len(set(self.candidates)) != len(self.candidates) or len(self.candidates) < 2:
            raise BadInput(f"{self.name}: give two candidates or more, each once")
        if not (self.bits >= 2 and 1 <= self.hashes <= self.bits and 1 <= self.cohorts <= MOST_COHORTS):
            raise BadInput(
                f"{self.name}: give at least 2 bits, 1 hash and no more hashes than bits, 1 to {MOST_COHORTS} cohorts"
            )
        if not self.clear_rate < self.set_rate:
            raise BadInput(f"{self.name}: clear_rate = {self.clear_rate} must be below set_rate = {self.set_rate}")

    def __str__(self) -> str:
        return (
            f"RAPPOR({len(self.candidates)} candidates #{mmh3.hash('|'.join(self.candidates), signed=False):08x}, "
            f"epsilon={self.epsilon}, bits={self.bits}, hashes={self.hashes}, cohorts={self.cohorts}, "
            f"set_rate={self.set_rate}, clear_rate={self.clear_rate})"
        )

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.candidates)

    @property
    def report_bits(self) -> float:
        return self.bits + math.ceil(math.log2(self.cohorts))

    @cached_property
    def turn(self) -> float:
        """f/2: how often a bit of the filter is turned for good. At most h bits differ each way, so ε/(2h) for each."""
        return lying_rate(self.epsilon / (2 * self.hashes), 1, 1)

    @cached_property
    def rates(self) -> tuple[float, float]:
        """How often a set and a clear bit of the filter are reported as 1: q* and p* of the paper."""
        turn = self.turn
        return (
            (1 - turn) * self.set_rate + turn * self.clear_rate,
            turn * self.set_rate + (1 - turn) * self.clear_rate,
        )

    @cached_property
    def report_epsilon(self) -> float:
        """What one report costs: h ln(q*(1-p*)/(p*(1-q*))), where h bits differ each way. Never above ε."""
        turn, up, down = Fraction(self.turn), Fraction(self.set_rate), Fraction(self.clear_rate)
        high, low = (1 - turn) * up + turn * down, turn * up + (1 - turn) * down
        return min(self.epsilon, self.hashes * log_above(high * (1 - low) / (low * (1 - high))))

    @cached_property
    def filters(self) -> Bits:
        """The Bloom filters of the candidates: cohort, candidate, bit. MurmurHash3, a seed for each cohort and hash."""
        filled = np.zeros((self.cohorts, self.size, self.bits), dtype=bool)
        for place, candidate in enumerate(self.candidates):
            filled[:, place] = self.filter_of(candidate)
        return filled

    def filter_of(self, text: str) -> Bits:
        """The Bloom filter of any string, in each cohort."""
        filled = np.zeros((self.cohorts, self.bits), dtype=bool)
        for cohort in range(self.cohorts):
            for number in range(self.hashes):
                filled[cohort, mmh3.hash(text, cohort * self.hashes + number) % self.bits] = True
        return filled

    @property
    def report_type(self) -> np.dtype[np.void]:
        from veridp.local.kernels import word_count

        return np.dtype([("cohort", np.uint16), ("bits", np.uint64, (word_count(self.bits),))])

    # ------------------------------------------------------------------------------------------ the user's side

    def permanent(self, values: ArrayLike, rng: Generator) -> Reports:
        """The permanent responses, each in a random cohort: what a device remembers for its value, and never sends."""
        column = self._checked(values)
        responses = np.empty(len(column), dtype=self.report_type)
        responses["cohort"] = rng.integers(self.cohorts, size=len(column))
        packed_filters = self._packed_filters
        true = packed_filters[responses["cohort"], column]
        responses["bits"] = self._noisy(true, 1 - self.turn, self.turn, rng)
        return responses

    def respond(self, permanent: Reports, rng: Generator) -> Reports:
        """Reports on permanent responses; may be drawn again and again."""
        reports = np.empty(len(permanent), dtype=self.report_type)
        reports["cohort"] = permanent["cohort"]
        reports["bits"] = self._noisy(permanent["bits"], self.set_rate, self.clear_rate, rng)
        return reports

    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        return self.respond(self.permanent(values, rng), rng)

    @cached_property
    def _packed_filters(self) -> NDArray[np.uint64]:
        from veridp.local.kernels import packed

        return packed(self.filters.reshape(-1, self.bits)).reshape(self.cohorts, self.size, -1)

    def _noisy(self, true: NDArray[np.uint64], set_rate: float, clear_rate: float, rng: Generator) -> Reports:
        from veridp.local.kernels import noisy_words, stream

        true = np.ascontiguousarray(true)
        noisy = np.empty_like(true)
        noisy_words(true, self.bits, int(set_rate * GRAIN), int(clear_rate * GRAIN), stream(rng), noisy)
        return noisy

    # ---------------------------------------------------------------------------------------- the server's side

    def aggregate(self, reports: Reports) -> Counts:
        """How often each bit was reported as 1, in each cohort."""
        from veridp.local.kernels import add_bits

        if np.asarray(reports).dtype != self.report_type:
            raise BadInput(f"{self}: an array of {np.asarray(reports).dtype} does not hold its reports")
        if len(reports) and reports["cohort"].max() >= self.cohorts:
            raise BadInput(f"{self}: a report is of cohort {reports['cohort'].max()}; there are {self.cohorts}")
        counts = np.zeros((self.cohorts, self.bits + 1), dtype=np.int64)
        for cohort in range(self.cohorts):
            words = np.ascontiguousarray(reports["bits"][reports["cohort"] == cohort])
            add_bits(words, counts[cohort, :-1])
            counts[cohort, -1] = len(words)  # how many reported from the cohort
        return Counts(str(self), len(reports), counts)

    @cached_property
    def _decoder(self) -> Floats:
        """cohort, candidate, bit: the weights with which bits add up to a frequency, by least squares."""
        design = self.filters.transpose(0, 2, 1).reshape(self.cohorts * self.bits, self.size).astype(float)
        values = np.linalg.svd(design, compute_uv=False)
        if len(values) < self.size or values[-1] < RANK * values[0]:
            raise BadInput(
                f"{self}: {self.size} candidates cannot be distinguished by {self.cohorts} cohorts of {self.bits} "
                f"bits; use more cohorts or more bits"
            )
        return np.asarray(np.linalg.pinv(design).reshape(self.size, self.cohorts, self.bits).transpose(1, 0, 2))

    def estimate(self, counts: Counts) -> Estimate:
        """Least squares of the bit counts on the candidates' filters.

        Unbiased where every user's value is a candidate; others add to the candidates that share bits with them.
        """
        sums = counts.owned_by(self).sums
        set_rate, clear_rate = self.rates
        shown = (sums[:, :-1] - clear_rate * sums[:, -1:]) / (set_rate - clear_rate)
        values = self.cohorts * np.einsum("cvb,cb->v", self._decoder, shown) / counts.users
        errors = np.sqrt(self.variance(counts.users, np.clip(values, 0.0, 1.0)))
        return Estimate(values, errors, counts.users, self.candidates)

    def variance(self, users: int, frequencies: ArrayLike = 0.0) -> Floats:
        """The variance of each estimate over noise and cohorts: a user adds cohorts · weights · (bits - p*)/(q* - p*).

        Given the value v the expectation of that is the unit vector of v; the second moment is a mean over cohorts.
        """
        share = np.broadcast_to(np.asarray(frequencies, dtype=float), (self.size,))
        set_rate, clear_rate = self.rates
        spread = np.where(self.filters, set_rate * (1 - set_rate), clear_rate * (1 - clear_rate))
        spread = spread / (set_rate - clear_rate) ** 2  # cohort, value, bit
        noise = np.einsum("cjb,cvb->jv", self._decoder**2, spread)
        signal = np.einsum("cjb,cvb->cjv", self._decoder, self.filters.astype(float))
        second = self.cohorts * (noise + np.square(signal).sum(axis=0))
        rest = max(0.0, 1 - float(share.sum()))  # users of other values, taken to have a filter of clear bits
        background = clear_rate * (1 - clear_rate) / (set_rate - clear_rate) ** 2
        other = self.cohorts * background * np.square(self._decoder).sum(axis=(0, 2))
        return np.asarray((second @ share - share + rest * other) / users)

    # ------------------------------------------------------------------------------------------- as mechanisms

    def mechanism(self) -> Mechanism:
        """The permanent response of a user of the first cohort, which bounds what any number of reports tell."""
        return self._as_mechanism(permanent_bits, range(self.size), filters=self._table(), turn=self.turn)

    def report_mechanism(self) -> Mechanism:
        """One report of a user of the first cohort; its claim is `report_epsilon`."""
        from dataclasses import replace

        arguments = {"turn": self.turn, "set_rate": self.set_rate, "clear_rate": self.clear_rate}
        whole = self._as_mechanism(reported_bits, range(self.size), filters=self._table(), **arguments)
        return replace(whole, epsilon=self.report_epsilon)

    def _table(self) -> tuple[tuple[bool, ...], ...]:
        return tuple(tuple(bits.tolist()) for bits in self.filters[0])


class RapporDevice:
    """One user's device: it remembers a permanent response for each value, and reports on that alone.

    However often it reports a value, all its reports together tell no more than `oracle.epsilon`. Each *different*
    value that it reports costs as much again.
    """

    def __init__(self, oracle: RAPPOR, rng: Generator) -> None:
        self._oracle, self._rng = oracle, rng
        self._cohort = int(rng.integers(oracle.cohorts))
        self._memory: dict[int, Reports] = {}

    def report(self, value: int) -> Reports:
        """A report on the value, as a batch of one."""
        if value not in self._memory:
            self._memory[value] = self._permanent(value)
        return self._oracle.respond(self._memory[value], self._rng)

    def _permanent(self, value: int) -> Reports:
        response = np.empty(1, dtype=self._oracle.report_type)
        response["cohort"] = self._cohort
        true = self._oracle._packed_filters[self._cohort, [value]]
        response["bits"] = self._oracle._noisy(true, 1 - self._oracle.turn, self._oracle.turn, self._rng)
        return response
