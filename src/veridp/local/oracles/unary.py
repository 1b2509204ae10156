"""SUE and OUE: a bit for each value, each turned at random."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput
from veridp.local.counts import Counts
from veridp.local.oracle import PureOracle, Reports, Sized
from veridp.local.rates import GRAIN, lying_rate
from veridp.mechanism import Mechanism


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
