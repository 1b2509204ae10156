"""From partial sums of reports to estimates with standard errors and confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veridp.errors import BadInput

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
