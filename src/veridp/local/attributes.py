"""Several attributes of a user, and keys with values: SMP, SPL and PCKV-UE."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.adjacency import adjacency
from veridp.errors import BadInput
from veridp.local.kernels import GRAIN, checked_epsilon, exp_below, lying_rate
from veridp.local.means import MeanOracle
from veridp.local.oracle import Counts, Estimate, Floats, Oracle, Reports, Sized
from veridp.mechanism import Mechanism

# ---------------------------------------------------------------------------------------------------------- attributes
# Several attributes of a user: one sampled and reported with all of ε (SMP), or all with a share of it (SPL).


Maker = Callable[[float], Oracle]  # an oracle for an attribute, with this ε


def sample_one(rng: Generator, values: tuple[Any, ...], *, parts: tuple[Callable[..., Any], ...]) -> tuple[int, Any]:
    """Which attribute was drawn, whatever the values are, and the report on it."""
    drawn = int(rng.integers(len(parts)))
    return drawn, parts[drawn](rng, values[drawn])


def report_all(rng: Generator, values: tuple[Any, ...], *, parts: tuple[Callable[..., Any], ...]) -> list[Any]:
    """The reports on all attributes."""
    return [part(rng, value) for part, value in zip(parts, values, strict=True)]


@dataclass(frozen=True)
class Attributes(ABC):
    """Oracles for several attributes that together keep ε. Values, reports, counts and estimates go by attribute.

    `makers` gives an oracle for each attribute from the ε that it may spend: `partial(GRR, 5)`, say.
    """

    epsilon: float
    makers: Mapping[str, Maker] = field(hash=False)

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if not self.makers:
            raise BadInput("there are no attributes; give a maker for at least one")

    @property
    def share(self) -> float:
        """The ε of each attribute's oracle."""
        raise NotImplementedError

    @cached_property
    def oracles(self) -> dict[str, Oracle]:
        """The oracle of each attribute."""
        return {name: make(self.share) for name, make in self.makers.items()}

    def perturb(self, values: Mapping[str, ArrayLike], rng: Generator) -> dict[str, Reports]:
        """Reports by attribute, in columns: `values` has a column for each attribute, with a row for each user."""
        raise NotImplementedError

    def aggregate(self, reports: Mapping[str, Reports]) -> dict[str, Counts]:
        """Counts by attribute; those of shards add up attribute by attribute."""
        return {name: oracle.aggregate(reports[name]) for name, oracle in self.oracles.items()}

    def estimate(self, counts: Mapping[str, Counts]) -> dict[str, Estimate]:
        """Estimates by attribute."""
        return {name: oracle.estimate(counts[name]) for name, oracle in self.oracles.items()}

    def mean_variances(self, values: Mapping[str, ArrayLike]) -> dict[str, float]:
        """The exact variance of the estimated mean of each numeric attribute, where users hold these values."""
        return {
            name: self._mean_variance(oracle, np.asarray(column, dtype=float))
            for name, column in self._columns(values).items()
            if isinstance(oracle := self.oracles[name], MeanOracle)
        }

    def _mean_variance(self, oracle: MeanOracle, column: Floats) -> float:
        raise NotImplementedError

    def _columns(self, values: Mapping[str, ArrayLike]) -> dict[str, Any]:
        columns = {name: np.asarray(values[name]) for name in self.oracles if name in values}
        if missing := [name for name in self.oracles if name not in columns]:
            raise BadInput(f"there are no values of {', '.join(missing)}; give a column for each attribute")
        if len({len(column) for column in columns.values()}) != 1:
            raise BadInput("the columns of the attributes have different lengths; give one row for each user")
        return columns

    def _as_mechanism(self, function: Callable[..., Any]) -> Mechanism:
        """The user's side; neighbours are any two tuples of values, and those tried have every attribute at an end."""
        mechanisms = [oracle.mechanism() for oracle in self.oracles.values()]
        ends = [_ends(mechanism) for mechanism in mechanisms]
        return Mechanism(
            function,
            epsilon=self.epsilon,
            adjacency=adjacency("any"),
            domain=[tuple(low for low, _ in ends), *_mixed(ends), tuple(high for _, high in ends)],
            arguments={"parts": tuple(mechanism.bound() for mechanism in mechanisms)},
            size=1,
        )


def _ends(mechanism: Mechanism) -> tuple[Any, Any]:
    values = list(mechanism.domain)
    return values[0], values[-1]


def _mixed(ends: list[tuple[Any, Any]]) -> Iterator[tuple[Any, ...]]:
    """One attribute at its high end, the others at their low ones."""
    if len(ends) > 1:
        for place in range(len(ends)):
            yield tuple(high if other == place else low for other, (low, high) in enumerate(ends))


@dataclass(frozen=True)
class SMP(Attributes):
    """Every user reports on one attribute, drawn at random, with all of ε (Nguyên et al. 2016; Wang et al. 2019).

    Which one is part of the report. An estimate rests on the users who drew its attribute.
    """

    @property
    def share(self) -> float:
        return self.epsilon

    def perturb(self, values: Mapping[str, ArrayLike], rng: Generator) -> dict[str, Reports]:
        columns = self._columns(values)
        drawn = rng.integers(len(columns), size=len(next(iter(columns.values()))))
        return {
            name: self.oracles[name].perturb(column[drawn == number], rng)
            for number, (name, column) in enumerate(columns.items())
        }

    def _mean_variance(self, oracle: MeanOracle, column: Floats) -> float:
        """Over who drew the attribute as well, given that somebody did.

        M users, Bin(n, 1/k) of them, are a sample without replacement: its mean varies by S² (1/M - 1/n), and the noise
        by v/M.
        """
        from scipy.stats import binom

        users = len(column)
        drew = np.arange(1, users + 1)
        weights = binom.pmf(drew, users, 1 / len(self.makers))
        inverse = float((weights / drew).sum() / weights.sum())  # E[1/M | M >= 1]
        spread = float(column.var(ddof=1)) if users > 1 else 0.0
        return oracle.variance(1, column) * inverse + spread * (inverse - 1 / users)

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(sample_one)


@dataclass(frozen=True)
class SPL(Attributes):
    """Every user reports on all k attributes, with ε/k for each."""

    @property
    def share(self) -> float:
        return math.nextafter(self.epsilon / len(self.makers), 0.0)

    def perturb(self, values: Mapping[str, ArrayLike], rng: Generator) -> dict[str, Reports]:
        return {name: self.oracles[name].perturb(column, rng) for name, column in self._columns(values).items()}

    def _mean_variance(self, oracle: MeanOracle, column: Floats) -> float:
        return oracle.variance(len(column), column)

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(report_all)


# ------------------------------------------------------------------------------------------------------------ keyvalue
# Key and value together: which key a user has, and a number from -1 to 1 for it (PCKV-UE, one pair per user).


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
