"""Several attributes of a user: one sampled and reported with all of ε (SMP), or all with a share of it (SPL)."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.adjacency import adjacency
from veridp.errors import BadInput
from veridp.local.counts import Counts
from veridp.local.estimate import Estimate
from veridp.local.oracle import Oracle, Reports
from veridp.local.rates import checked_epsilon
from veridp.mechanism import Mechanism

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

    def mechanism(self) -> Mechanism:
        return self._as_mechanism(report_all)
