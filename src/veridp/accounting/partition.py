"""A data space in parts, and what a neighbouring relation has to satisfy there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from veridp.adjacency import Adjacency
from veridp.errors import BadInput


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
