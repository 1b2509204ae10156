"""Partial sums of reports, which shards and machines make on their own and add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput


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
