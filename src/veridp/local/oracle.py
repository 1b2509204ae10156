"""What every oracle can do: perturb on the user's side, aggregate and estimate on the server's; estimates with
standard errors and intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from veridp.adjacency import Domain, adjacency
from veridp.budget import Progress
from veridp.errors import BadInput
from veridp.local.kernels import checked_epsilon
from veridp.mechanism import Function, Mechanism

# -------------------------------------------------------------------------------------------------------------- counts
# Partial sums of reports, which shards and machines make on their own and add up.


@dataclass(frozen=True, eq=False)
class Counts:
    """How many users reported, and the sums of what they reported; `of` says to which oracle.

    `a + b` is what one would have got from all the reports together; counts of different oracles do not add up.
    """

    of: str
    users: int
    sums: NDArray[Any]

    def __post_init__(self) -> None:
        if self.users < 0:
            raise BadInput(f"users must be >= 0, got {self.users}")

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if self.of != other.of or self.sums.shape != other.sums.shape:
            raise BadInput(f"counts of {self.of} and of {other.of} cannot be added; aggregate with the same oracle")
        return Counts(self.of, self.users + other.users, self.sums + other.sums)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return (self.of, self.users) == (other.of, other.users) and np.array_equal(self.sums, other.sums)

    def owned_by(self, oracle: object) -> Counts:
        """The counts, if they are this oracle's and anybody reported."""
        if self.of != str(oracle):
            raise BadInput(f"these are counts of {self.of}, not of {oracle}; estimate with the oracle that aggregated")
        if not self.users:
            raise BadInput(f"{oracle}: no reports to estimate from")
        return self

    def as_json(self) -> dict[str, object]:
        """The counts in the words of JSON."""
        return {
            "of": self.of,
            "users": self.users,
            "type": str(self.sums.dtype),
            "shape": list(self.sums.shape),
            "sums": self.sums.ravel().tolist(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Counts:
        """The counts that `as_json` wrote."""
        try:
            sums = np.array(document["sums"], dtype=document["type"]).reshape(document["shape"])
            return cls(str(document["of"]), int(document["users"]), sums)
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"not a document of counts ({error!r}); make one with: veridp local aggregate") from None


# ------------------------------------------------------------------------------------------------------------ estimate
# What a collection says about its users: values with standard errors and confidence intervals.


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated values, one for each of `names`, with the standard errors of the estimator.

    `steps` are the post-processing steps that the values went through. With none the estimator is unbiased; each
    trades bias for variance, and leaves the standard errors as they were before it.
    """

    values: Floats
    standard_errors: Floats
    users: int
    names: tuple[object, ...]
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.values) == len(self.standard_errors) == len(self.names):
            raise BadInput("an estimate needs as many names and standard errors as values")

    @property
    def value(self) -> float:
        """The one value of an estimate that has but one, such as a mean."""
        if len(self.values) != 1:
            raise BadInput(f"this estimate has {len(self.values)} values; use .values, or .of(name)")
        return float(self.values[0])

    @property
    def standard_error(self) -> float:
        """The standard error of `value`."""
        self.value  # noqa: B018  complains if there are several
        return float(self.standard_errors[0])

    def of(self, name: object) -> float:
        """The value of this name."""
        try:
            return float(self.values[self.names.index(name)])
        except ValueError:
            raise BadInput(f"there is no estimate of {name!r}; there are {_few(self.names)}") from None

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Intervals:
        """Intervals that hold the truth, each with this confidence, or with it all of them at once (Bonferroni).

        They rest on the central limit theorem: the confidence is a normal distribution's, and holds for many users.
        Of a post-processed estimate they are not known, and refused.
        """
        if not 0 < confidence < 1:
            raise BadInput(f"confidence must be in (0, 1), such as 0.95, got {confidence!r}")
        if self.steps:
            raise BadInput(f"no intervals after {', '.join(self.steps)}; use those of the unbiased estimate")
        alpha = (1 - confidence) / (len(self.values) if simultaneous else 1)
        reach = NormalDist().inv_cdf(1 - alpha / 2) * self.standard_errors
        return Intervals(self.values - reach, self.values + reach, confidence)

    def after(self, step: str, values: ArrayLike) -> Estimate:
        """The estimate with other values, which this step made of them."""
        return replace(self, values=np.asarray(values, dtype=float), steps=(*self.steps, step))

    def named(self, names: Sequence[object]) -> Estimate:
        """The same estimate under other names."""
        return replace(self, names=tuple(names))


@dataclass(frozen=True, eq=False)
class Intervals:
    """The lower and upper ends of intervals, and the confidence they hold with."""

    lower: Floats
    upper: Floats
    confidence: float

    def hold(self, truth: ArrayLike) -> NDArray[np.bool_]:
        """Which of the intervals hold the true values."""
        values = np.asarray(truth, dtype=float)
        return np.asarray((self.lower <= values) & (values <= self.upper))


def _few(names: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown}, …" if len(names) > most else shown


# -------------------------------------------------------------------------------------------------------------- oracle
# What every oracle can do: perturb on the user's side, aggregate and estimate on the server's.
#
# A report batch is a NumPy array with a row for each user (several columns where a report has several parts), so that
# batches can be sliced, concatenated and stored as they are.


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
        """The number of the label; None where it is not in the domain."""
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
