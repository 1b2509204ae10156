"""Who is a neighbour of whom, as two inputs made of the same open values: what can be explored and optimised over."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Adjacency, Domain, Patch, box_of
from veridp.errors import BadInput, NotExact

Array = NDArray[np.float64]
Values = Sequence[Any]
MOST_ORDERS = 24  # of records that a query heeds the order of


@dataclass(frozen=True)
class Two:
    """Two neighbouring inputs."""

    left: list[Any]
    right: list[Any]


@dataclass(frozen=True, eq=False)
class NeighbourMove:
    """A way to be neighbours: a box of open values, the two inputs that these make, and conditions on the values."""

    low: Array
    high: Array
    two: Callable[[Values], Two]
    conditions: Callable[[Values], Iterator[Any]]


def interval(domain: Domain) -> tuple[float, float]:
    """The ends of a bounded interval."""
    low, high = (float(end) for end in domain)  # type: ignore[arg-type]
    if not low < high or not math.isfinite(high - low):
        raise BadInput(f"domain = {domain!r} is not a bounded interval; give a pair (low, high) with low < high")
    return low, high


def moves(relation: Adjacency, size: int, domain: Domain, symmetric: Callable[[int], bool]) -> Iterator[NeighbourMove]:
    """All ways to be neighbours; `symmetric(n)` tells whether the order of n records is of no account.

    Where data sets may gain a record, over all that have up to `size` of them. Raises NotExact where the relation is
    none that linear conditions describe.
    """
    ends = interval(domain)
    for length in range(size) if relation.extra else [size]:
        patches = relation.patches(length, ends)
        if patches is None:
            raise NotExact(f"neighbours under {relation} are not described by linear conditions")
        if relation.on_records and symmetric(length + relation.extra) and symmetric(length):
            yield _of_patch(patches[-1], ascending=True)
        elif relation.any_order:
            yield from map(_of_patch, _in_every_order(patches[-1]))
        else:
            yield from map(_of_patch, patches)


def _in_every_order(patch: Patch) -> Iterator[Patch]:
    """The patch with its right input in every order; that of the left is as open as its values are."""
    count = len(patch.to_right)
    if math.factorial(count) > MOST_ORDERS:
        raise NotExact(f"the query depends on the order of its records, and {count} records have too many orders")
    for order in itertools.permutations(range(count)):
        yield replace(patch, to_right=patch.to_right[list(order)])


def _of_patch(patch: Patch, ascending: bool = False) -> NeighbourMove:
    """The patch as two inputs; where `ascending`, with the records that both share in ascending order."""
    shared = np.flatnonzero(patch.to_left.any(axis=0) & patch.to_right.any(axis=0)).tolist()

    def two(x: Values) -> Two:
        return Two(_combined(patch.to_left, x), _combined(patch.to_right, x))

    def conditions(x: Values) -> Iterator[Any]:
        if ascending:
            for below, above in itertools.pairwise(shared):
                yield x[below] <= x[above]
        if patch.moves:
            for value in two(x).right:
                yield value >= patch.domain[0]
                yield value <= patch.domain[1]

    return NeighbourMove(patch.low, patch.high, two, conditions)


def _combined(rows: Array, x: Values) -> list[Any]:
    """The rows times the values, each of them a sum of values as they are where its factors are 1."""
    return [
        functools.reduce(operator.add, (x[k] if row[k] == 1 else row[k] * x[k] for k in np.flatnonzero(row).tolist()))
        for row in rows
    ]


def reordering(order: tuple[int, ...], domain: Domain) -> NeighbourMove:
    """Two inputs that differ in the order of their records alone."""
    every = np.eye(len(order))
    ends = interval(domain)
    return _of_patch(Patch("reordered", every, every[list(order)], *box_of(len(order), ends), ends))
