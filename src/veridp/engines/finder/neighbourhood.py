"""Where pairs come from: patches of a relation, or where it has none, pairs that are drawn and changed.

A domain that is no interval has no patches; its pairs are drawn, and changed one entry at a time.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Adjacency, Domain, Pair, Patch, is_interval, moving
from veridp.errors import BadInput
from veridp.mechanism import Mechanism

Array = NDArray[np.float64]
TRIES = 32  # random mixtures of corners that must be neighbours before their hull is taken as one polytope
MOST_CORNERS = 64  # of a relation of one's own, past which its hull is not used


def patches(mechanism: Mechanism, size: int, domain: Domain) -> list[Patch] | None:
    """The patches that make up the neighbourhood; None where it has no polytope, or the domain is no interval."""
    if not is_interval(domain):
        return None
    low, high = (float(end) for end in domain)  # type: ignore[arg-type]
    if not low < high:
        raise BadInput(f"domain = {domain!r} is empty; give a pair (low, high) with low < high")
    relation = mechanism.adjacency
    ordered = relation.patches(size, (low, high))
    if ordered is None:
        return _of_corners(relation, size, (low, high))
    return list(_both(_in_orders(ordered) if relation.any_order else ordered))


def _in_orders(ordered: Sequence[Patch]) -> Iterator[Patch]:
    """The patches, also with the right input turned by one, and backwards."""
    yield from ordered
    for patch in ordered:
        yield replace(patch, name=f"{patch.name}, turned", to_right=np.roll(patch.to_right, 1, axis=0))
        yield replace(patch, name=f"{patch.name}, backwards", to_right=patch.to_right[::-1])


def _both(found: Iterable[Patch]) -> Iterator[Patch]:
    """The patches, each in both directions where the two inputs differ in length."""
    for patch in found:
        yield patch
        if patch.sizes[0] != patch.sizes[1]:
            yield patch.reversed()


def _of_corners(relation: Adjacency, size: int, domain: tuple[float, float]) -> list[Patch] | None:
    """The hull of the relation's corners where it is convex, as far as random mixtures tell; else a ray to each."""
    corners = relation.vertices(size)
    if corners is None:
        return None
    hull = moving(f"{relation.name} neighbours", corners.T, 0.0, 1.0, domain)
    hull = replace(hull, total=slice(size, None))
    rng = np.random.default_rng(0)
    if len(corners) <= MOST_CORNERS and all(relation.adjacent(*hull.pair(hull.draw(rng))) for _ in range(TRIES)):
        return [hull]
    return [moving(f"{relation.name} corner", corner[:, None], 0.0, 1.0, domain) for corner in corners]


# --------------------------------------------------------------------------------------------- without a polytope


class PairSource(ABC):
    """Pairs of a neighbourhood that is no polytope."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Pair:
        """A pair at random."""

    @abstractmethod
    def near(self, pair: Pair) -> Iterator[Pair]:
        """Pairs that differ from this one a little."""


@dataclass(frozen=True, eq=False)
class ListedPairs(PairSource):
    """Pairs that somebody listed: those that a relation proposes."""

    pairs: Sequence[Pair]

    def draw(self, rng: np.random.Generator) -> Pair:
        return self.pairs[int(rng.integers(len(self.pairs)))]

    def near(self, pair: Pair) -> Iterator[Pair]:
        yield from ()


@dataclass(frozen=True, eq=False)
class ValuePairs(PairSource):
    """Pairs of lists (or of single values) from a finite domain."""

    relation: Adjacency
    size: int
    values: Sequence[Any]

    def draw(self, rng: np.random.Generator) -> Pair:
        for _ in range(1000):
            left = self._value(rng) if self.relation.single else [self._value(rng) for _ in range(self.size)]
            right = self.relation.random_neighbour(left, self.values, rng)
            if left != right and self.relation.adjacent(left, right):
                return Pair(left, right, "random") if rng.random() < 0.5 else Pair(right, left, "random")
        raise BadInput(
            f"adjacency {self.relation}: no neighbours were found among random inputs from {self.values!r}; "
            f"give a domain in which inputs have neighbours, or pairs to start from"
        )

    def _value(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def near(self, pair: Pair) -> Iterator[Pair]:
        """The pairs in which one entry, of one side or of both, has another value."""
        if self.relation.single:
            for value in self.values:
                yield from (Pair(value, pair.right, "near"), Pair(pair.left, value, "near"))
            return
        left, right = list(pair.left), list(pair.right)  # type: ignore[call-overload]
        for place, value in itertools.product(range(max(len(left), len(right))), self.values):
            mine, theirs = ([*s[:place], value, *s[place + 1 :]] if place < len(s) else s for s in (left, right))
            for changed in ((mine, right), (left, theirs), (mine, theirs)):
                if changed != (left, right) and self.relation.adjacent(*changed) and changed[0] != changed[1]:
                    yield Pair(*changed, "near")


def pair_source(mechanism: Mechanism, size: int, domain: Domain) -> PairSource:
    """The pairs of a neighbourhood without a polytope."""
    relation = mechanism.adjacency
    if relation.listable and not is_interval(domain):
        return ValuePairs(relation, size, list(domain))
    listed = list(relation.pairs(size, domain))
    if not listed:
        raise BadInput(f"{mechanism.name}: no pair of neighbours of size {size} to try in {domain}")
    return ListedPairs(listed)
