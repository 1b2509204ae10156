"""What expressions are made of: draws of noise and open values; and how an expression may stand to 0."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from veridp.kernel.distributions import Distribution
from veridp.kernel.site import Site


@dataclass(frozen=True, eq=False)
class Noise:
    """One draw on a path: the index counts the draws from 0."""

    index: int
    distribution: Distribution
    site: Site

    @property
    def name(self) -> str:
        return f"n{self.index}"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Noise) and self.index == other.index and self.distribution == other.distribution
        )

    def __hash__(self) -> int:
        return self.index

    def __lt__(self, other: Symbol) -> bool:
        return isinstance(other, Noise) and self.index < other.index


@dataclass(frozen=True)
class Unknown:
    """A value left open: an entry of the data, or an argument."""

    name: str

    def __lt__(self, other: Symbol) -> bool:
        return not isinstance(other, Unknown) or self.name < other.name


Symbol = Noise | Unknown


class Relation(enum.Enum):
    """How an expression stands to 0."""

    AT_LEAST = ">="
    ABOVE = ">"
    EQUAL = "=="
    UNEQUAL = "!="

    def holds(self, slack: Any) -> Any:
        """Whether an expression of this value stands so to 0: a number, an array, or a term of z3."""
        return _COMPARE[self](slack, 0)


_COMPARE: dict[Relation, Callable[[Any, Any], Any]] = {
    Relation.AT_LEAST: operator.ge,
    Relation.ABOVE: operator.gt,
    Relation.EQUAL: operator.eq,
    Relation.UNEQUAL: operator.ne,
}
