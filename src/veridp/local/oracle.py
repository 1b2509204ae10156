"""What every oracle can do: perturb on the user's side, aggregate and estimate on the server's.

A report batch is a NumPy array with a row for each user (several columns where a report has several parts), so that
batches can be sliced, concatenated and stored as they are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.adjacency import Domain, adjacency
from veridp.budget import Progress
from veridp.errors import BadInput
from veridp.local.estimate import Counts, Estimate, Floats
from veridp.local.kernels import checked_epsilon
from veridp.mechanism import Function, Mechanism

Reports = NDArray[Any]
MOST_VALUES = 2**31 - 1
CHUNK = 1 << 18  # users that are perturbed and aggregated at a time


class Oracle(ABC):
    """A way to collect one value from each of many users under ε-local differential privacy."""

    name: ClassVar[str]  # as in the literature, in lower case
    epsilon: float

    @abstractmethod
    def perturb(self, values: ArrayLike, rng: Generator) -> Reports:
        """A report for each value; what leaves the user's device."""

    @abstractmethod
    def aggregate(self, reports: Reports) -> Counts:
        """The sums of the reports: all that an estimate needs of them."""

    @abstractmethod
    def estimate(self, counts: Counts) -> Estimate:
        """Unbiased estimates with standard errors."""

    @abstractmethod
    def mechanism(self) -> Mechanism:
        """One user's side as a mechanism that the engines of veridp can read: `function(rng, value)`, any two values
        neighbours, and ε its claim."""

    @property
    @abstractmethod
    def report_bits(self) -> float:
        """How many bits a report has to carry."""

    def collect(
        self, values: ArrayLike, rng: Generator, *, chunk: int = CHUNK, progress: Progress | None = None
    ) -> Counts:
        """The counts of perturbed values, a chunk of users at a time: memory does not grow with their number."""
        column = np.asarray(values)
        if not len(column):
            raise BadInput(f"{self}: there are no values to collect; give at least one")
        total: Counts | None = None
        for start in range(0, len(column), chunk):
            part = self.aggregate(self.perturb(column[start : start + chunk], rng))
            total = part if total is None else total + part
            if progress is not None:
                progress("collecting", min(1.0, (start + chunk) / len(column)), 0.0)
        assert total is not None  # noqa: S101  there was at least one chunk
        return total

    def _as_mechanism(self, function: Function, domain: Domain, **arguments: object) -> Mechanism:
        return Mechanism(
            function,
            epsilon=self.epsilon,
            adjacency=adjacency("any"),
            domain=domain,
            arguments=arguments,
            size=1,
        )


class FrequencyOracle(Oracle):
    """Collects one of `size` values, numbered from 0, and estimates how frequent each of them is."""

    size: int

    @abstractmethod
    def variance(self, users: int, frequencies: ArrayLike = 0.0) -> Floats:
        """The variance of the estimated frequency of a value that has this frequency, over the noise of the oracle.

        Given a whole vector of frequencies: the variance for each value. The users' values are taken as given.
        """

    def frequencies(self, values: ArrayLike) -> Floats:
        """How frequent each value is among these, with no privacy at all: what `estimate` estimates."""
        column = self._checked(values)
        return np.bincount(column, minlength=self.size) / len(column)

    def _checked(self, values: ArrayLike) -> NDArray[np.int64]:
        """The values, if all of them are in the domain."""
        given = np.asarray(values)
        if given.ndim != 1:
            raise BadInput(f"{self}: values of shape {given.shape} are not a column; give one value for each user")
        if given.size and given.dtype.kind not in "iub":
            raise BadInput(
                f"{self}: values of type {given.dtype} are not codes; give integers from 0 to {self.size - 1}"
            )
        column = given.astype(np.int64, copy=False)
        if len(column) and not (column.min() >= 0 and column.max() < self.size):
            place = int(np.argmax((column < 0) | (column >= self.size)))
            raise BadInput(f"{self}: value {column[place]} of user {place} is not between 0 and {self.size - 1}")
        return column


class PureOracle(FrequencyOracle):
    """An oracle whose report *supports* a set of values: the user's own with rate p, any other with rate q < p.

    Then (support/n - q)/(p - q) is an unbiased estimate, whose variance follows from p and q alone (Wang et al. 2017).
    """

    @property
    @abstractmethod
    def p(self) -> float:
        """How often a report supports the user's own value."""

    @property
    @abstractmethod
    def q(self) -> float:
        """How often a report supports any other value."""

    @abstractmethod
    def support(self, reports: Reports) -> NDArray[np.bool_]:
        """Which values each report supports: a row for each report, a column for each value."""

    def estimate(self, counts: Counts) -> Estimate:
        shares = counts.owned_by(self).sums / counts.users
        values = (shares - self.q) / (self.p - self.q)
        errors = np.sqrt(self.variance(counts.users, np.clip(values, 0.0, 1.0)))
        return Estimate(values, errors, counts.users, tuple(range(self.size)))

    def variance(self, users: int, frequencies: ArrayLike = 0.0) -> Floats:
        """[f p(1-p) + (1-f) q(1-q)] / (n (p-q)²): the support of a value is a sum of independent bits."""
        share, p, q = np.asarray(frequencies, dtype=float), self.p, self.q
        return np.asarray((share * p * (1 - p) + (1 - share) * q * (1 - q)) / (users * (p - q) ** 2))


@dataclass(frozen=True)
class Sized:
    """What most oracles are made of: the number of values, and ε."""

    size: int
    epsilon: float

    def __post_init__(self) -> None:
        if not isinstance(self.size, Integral) or not 2 <= self.size <= MOST_VALUES:
            raise BadInput(f"size must be an integer from 2 to 2^31 - 1, got {self.size!r}")
        checked_epsilon(self.epsilon)


def checked_numbers(oracle: Oracle, values: ArrayLike, low: float, high: float) -> Floats:
    """The values as numbers, if all of them lie between the two ends."""
    try:
        column = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise BadInput(f"{oracle}: values are not numbers; give one number for each user") from None
    if column.ndim != 1:
        raise BadInput(f"{oracle}: values of shape {column.shape} are not a column; give one value for each user")
    inside = (column >= low) & (column <= high)
    if not inside.all():
        place = int(np.argmin(inside))
        raise BadInput(f"{oracle}: value {column[place]:g} of user {place} is not in [{low:g}, {high:g}]")
    return column


def checked_ends(low: float, high: float) -> None:
    """Complain unless the two are ends of a range."""
    if not (isinstance(low, Real) and isinstance(high, Real)) or not -math.inf < low < high < math.inf:
        raise BadInput(f"low and high must be finite numbers with low < high, got {low!r} and {high!r}")


def listed(values: Sequence[float] | None, ends: tuple[float, float]) -> Domain:
    """The values as a domain of their own, or the whole range where none are given."""
    return ends if values is None else [float(value) for value in values]


def whole_steps(place: float, most: int) -> int:
    """How many whole steps lie below a place, at least 0 and at most so many.

    Found by comparisons alone, so that engines can follow it for a place that is left open, too.

    >>> whole_steps(2.9, 10), whole_steps(12.0, 10)
    (2, 10)
    """
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if place >= middle:
            least = middle
        else:
            most = middle - 1
    return least


class Labelled:
    """Codes for the labels of a domain, and back.

    >>> colours = Labelled(["red", "green", "blue"])
    >>> colours.codes(["blue", "red"])
    array([2, 0])
    """

    def __init__(self, labels: Sequence[object]) -> None:
        self.labels = tuple(labels)
        if len(self._places) != len(self.labels):
            raise BadInput("a label occurs twice in the domain; give every label once")

    @cached_property
    def _places(self) -> dict[object, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def code(self, label: object) -> int | None:
        """The number of the label; None where the domain has it not."""
        return self._places.get(label)

    def codes(self, column: Sequence[object]) -> NDArray[np.int64]:
        """The numbers of all the labels; an error names the first that the domain has not."""
        found = [self._places.get(label, -1) for label in column]
        if -1 in found:
            place = found.index(-1)
            raise BadInput(
                f"{column[place]!r}, label {place}, is not in the domain; its labels begin {self.labels[:4]}"
            )
        return np.array(found, dtype=np.int64)
