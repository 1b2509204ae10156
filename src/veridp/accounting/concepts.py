"""The notions that privacy rests on: how well two distributions can be told apart, and a data space in parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veridp.adjacency import Adjacency
from veridp.errors import BadInput

# ------------------------------------------------------------------------------------------------ indistinguishability
# How well two distributions are told apart: the notion on which differential privacy rests.


@dataclass(frozen=True)
class Indistinguishability:
    """Two distributions on the same finite set, and what tells them apart.

    They are ε-indistinguishable if P(S) <= e^ε Q(S) and Q(S) <= e^ε P(S) for every event S. It is enough to look at
    single outcomes: if the inequality holds for each, it holds for their sum.
    """

    left: Mapping[Hashable, float]
    right: Mapping[Hashable, float]

    def __post_init__(self) -> None:
        for name, law in (("left", self.left), ("right", self.right)):
            if min(law.values(), default=-1.0) < 0 or not math.isclose(math.fsum(law.values()), 1.0, abs_tol=1e-9):
                raise BadInput(f"{name} is not a distribution; give outcomes with probabilities >= 0 that sum to 1")

    @property
    def outcomes(self) -> list[Hashable]:
        return list(dict.fromkeys([*self.left, *self.right]))

    def loss(self, outcome: Hashable) -> float:
        """ln P/Q of an outcome: what seeing it says for left against right."""
        p, q = self.left.get(outcome, 0.0), self.right.get(outcome, 0.0)
        if p == 0:
            return -math.inf if q else 0.0
        return math.log(p) - math.log(q) if q else math.inf

    @property
    def epsilon(self) -> float:
        """The least ε for which they are ε-indistinguishable.

        >>> round(Indistinguishability({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}).epsilon, 6)
        1.098612
        """
        return max(abs(self.loss(outcome)) for outcome in self.outcomes)

    def delta(self, epsilon: float) -> float:
        """The least δ such that P(S) <= e^ε Q(S) + δ and Q(S) <= e^ε P(S) + δ for every event S."""
        return max(
            math.fsum(
                max(0.0, law.get(outcome, 0.0) - math.exp(epsilon) * other.get(outcome, 0.0))
                for outcome in self.outcomes
            )
            for law, other in ((self.left, self.right), (self.right, self.left))
        )

    def event(self, epsilon: float) -> list[Hashable]:
        """The event S that makes P(S) - e^ε Q(S) largest: all outcomes with a loss above ε."""
        return [outcome for outcome in self.outcomes if self.loss(outcome) > epsilon]


# ----------------------------------------------------------------------------------------------------------- partition
# A data space in parts, and what a neighbouring relation has to satisfy there.


@dataclass(frozen=True, eq=False)
class Partition:
    """The parts that records belong to, each record to one, by what it holds."""

    names: Sequence[Hashable]
    of: Callable[[Any], Hashable]

    def split(self, data: Iterable[Any]) -> dict[Hashable, list[Any]]:
        """The records of each part, in their order.

        >>> Partition(("even", "odd"), lambda n: "odd" if n % 2 else "even").split([1, 2, 3])
        {'even': [2], 'odd': [1, 3]}
        """
        parts: dict[Hashable, list[Any]] = {name: [] for name in self.names}
        for record in data:
            name = self.of(record)
            if name not in parts:
                raise BadInput(
                    f"record {record!r} belongs to {name!r}, which is not a part; the parts are {[*self.names]}"
                )
            parts[name].append(record)
        return parts


@dataclass(frozen=True)
class RelationGap:
    """Two inputs that show what a relation lacks."""

    lacks: str  # "reflexive", "symmetric" or "local"
    left: object
    right: object

    def __str__(self) -> str:
        return f"not {self.lacks}: {self.left} and {self.right}"


def flaw(relation: Adjacency, inputs: Sequence[Any], partition: Partition | None = None) -> RelationGap | None:
    """A pair of the inputs by which the relation is not reflexive, not symmetric, or not local to one part; else None.

    Sequential composition and post-processing hold for any relation. Parallel composition needs neighbours to differ
    within one part: adding or removing a record does, replacing one does not, for the new record may belong elsewhere.
    """
    for left, right in itertools.product(inputs, repeat=2):
        neighbours = relation.adjacent(left, right)
        if left is right and not neighbours:
            return RelationGap("reflexive", left, right)
        if neighbours and not relation.adjacent(right, left):
            return RelationGap("symmetric", left, right)
        if neighbours and partition is not None and _parts_that_differ(partition, left, right) > 1:
            return RelationGap("local", left, right)
    return None


def _parts_that_differ(partition: Partition, left: Any, right: Any) -> int:
    mine, theirs = partition.split(left), partition.split(right)
    return sum(list(mine[name]) != list(theirs[name]) for name in partition.names)
