"""Who is a neighbour of whom, as two inputs made of the same open values: what can be explored and optimised over."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Adjacency, Domain, Scaled
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

    Raises NotExact where the relation is none that linear conditions describe.
    """
    name, factor = relation.name, 1.0
    if isinstance(relation, Scaled):
        name, factor = relation.relation.name, relation.factor
    low, high = interval(domain)
    if name in ("add-remove", "add-remove-unordered"):
        for shared in range(size):
            yield from _of_records(shared, name, low, high, symmetric)
    elif name in ("replace", "replace-unordered"):
        yield from _of_records(size - 1, name, low, high, symmetric)
    elif name == "any":
        yield NeighbourMove(_all(low, 2), _all(high, 2), lambda x: Two([x[0]], [x[1]]), _unconditional)
    elif name in ("linf", "l1", "monotone"):
        yield from _of_answers(name, factor, size, low, high)
    else:
        raise NotExact(f"neighbours under {relation} are not described by linear conditions")


def _all(value: float, count: int) -> Array:
    return np.full(count, value)


def _unconditional(_values: Values) -> Iterator[Any]:
    return iter(())


def _of_records(
    shared: int, name: str, low: float, high: float, symmetric: Callable[[int], bool]
) -> Iterator[NeighbourMove]:
    """`shared` records on both sides, and one more on the right; or another one on either side.

    Where the query does not depend on the order of its records, the shared ones may be taken in ascending order. Else
    the record that differs may be at every position; and if the relation is an unordered one, the right side counts
    in every order (that of the left is as open as its values are).
    """
    added = name.startswith("add-remove")
    count = shared + (1 if added else 2)
    box = _all(low, count), _all(high, count)

    def at(place: int) -> Callable[[Values], Two]:
        def two(x: Values) -> Two:
            before, after = list(x[:place]), list(x[place:shared])
            left = [*before, *after] if added else [*before, x[shared], *after]
            return Two(left, [*before, x[-1], *after])

        return two

    two = at(shared)
    if symmetric(shared + 1) and (not added or symmetric(shared)):

        def ascending(x: Values) -> Iterator[Any]:
            for below, above in itertools.pairwise(x[:shared]):
                yield below <= above

        yield NeighbourMove(*box, two, ascending)
        return
    if not name.endswith("-unordered"):
        yield from (NeighbourMove(*box, at(place), _unconditional) for place in range(shared + 1))
        return
    if math.factorial(shared + 1) > MOST_ORDERS:
        raise NotExact(f"the query depends on the order of its records, and {shared + 1} records have too many orders")
    for order in itertools.permutations(range(shared + 1)):
        yield NeighbourMove(*box, _shuffled(two, order), _unconditional)


def _shuffled(two: Callable[[Values], Two], order: tuple[int, ...]) -> Callable[[Values], Two]:
    def shuffled(x: Values) -> Two:
        both = two(x)
        return Two(both.left, [both.right[place] for place in order])

    return shuffled


def reordering(order: tuple[int, ...], domain: Domain) -> NeighbourMove:
    """Two inputs that differ in the order of their records alone."""
    low, high = interval(domain)
    count = len(order)
    return NeighbourMove(
        _all(low, count), _all(high, count), lambda x: Two(list(x), [x[place] for place in order]), _unconditional
    )


def _of_answers(name: str, factor: float, size: int, low: float, high: float) -> Iterator[NeighbourMove]:
    """Vectors of answers: `size` values, and how far one of them moves, or each of them."""
    if name == "l1":
        for place in range(size):
            yield _moved(size, low, high, [place], -factor, factor)
    elif name == "linf":
        yield _moved(size, low, high, list(range(size)), -factor, factor)
    else:
        yield _moved(size, low, high, list(range(size)), 0.0, factor)
        yield _moved(size, low, high, list(range(size)), -factor, 0.0)


def _moved(size: int, low: float, high: float, places: list[int], least: float, most: float) -> NeighbourMove:
    def two(x: Values) -> Two:
        right = list(x[:size])
        for place, move in zip(places, x[size:], strict=True):
            right[place] = right[place] + move
        return Two(list(x[:size]), right)

    def inside(x: Values) -> Iterator[Any]:
        for value in two(x).right:
            yield value >= low
            yield value <= high

    lows = np.concatenate([_all(low, size), _all(least, len(places))])
    return NeighbourMove(lows, np.concatenate([_all(high, size), _all(most, len(places))]), two, inside)
