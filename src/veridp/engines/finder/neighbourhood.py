"""Neighbouring pairs as points: a vector of variables within bounds, from which both inputs follow.

A relation is one or more *patches*: left and right are affine in the variables, which lie in a polytope. A domain
that is no interval has no such polytope; its pairs are drawn, and changed one entry at a time.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import (
    AddOrRemoveRecord,
    AddOrRemoveRecordUnordered,
    Adjacency,
    AllMoveTogether,
    AnyTwoValues,
    Domain,
    EveryQueryMoves,
    OneQueryMoves,
    Pair,
    ReplaceRecord,
    ReplaceRecordUnordered,
)
from veridp.errors import BadInput
from veridp.mechanism import Mechanism

Array = NDArray[np.float64]
TRIES = 32  # random mixtures of corners that must be neighbours before their hull is taken as one polytope
MOST_CORNERS = 64  # of a relation of one's own, past which its hull is not used
DIGITS = 12
NEAR = 1e-9  # how far rounding may carry a given pair from what the variables say


@dataclass(frozen=True, eq=False)
class Patch:
    """left = `to_left` v and right = `to_right` v, for low <= v <= high with both inputs inside the domain."""

    name: str
    to_left: Array
    to_right: Array
    low: Array
    high: Array
    domain: tuple[float, float]
    scalar: bool = False  # whether an input is a number and not a list of numbers
    moves: bool = False  # whether the variables are the left input, and then how far the right one is from it
    total: slice | None = None  # variables that must sum to 1

    @property
    def sizes(self) -> tuple[int, int]:
        """The lengths of left and right."""
        return len(self.to_left), len(self.to_right)

    def reversed(self) -> Patch:
        return replace(self, name=f"{self.name}, reversed", to_left=self.to_right, to_right=self.to_left, moves=False)

    def inside(self, point: Array) -> Array:
        """The nearest variables within their bounds."""
        point = np.clip(point, self.low, self.high)
        if self.total is not None:
            share = point[self.total]
            point = point.copy()
            point[self.total] = share / share.sum() if share.sum() > 0 else 1 / len(share)
        return self._shifted(point) if self.moves else point

    def _shifted(self, point: Array) -> Array:
        """The left input shifted just so far that the right one is in the domain with it, and the move is kept."""
        size, (low, high) = len(self.to_left), self.domain
        moves = self.to_right[:, size:] @ point[size:]
        left = np.clip(point[:size], low - np.minimum(moves, 0.0), high - np.maximum(moves, 0.0))
        return np.concatenate([left, point[size:]])

    def vectors(self, point: Array) -> tuple[Array, Array]:
        """Both inputs as vectors, inside the domain."""
        point = self.inside(point)
        return np.clip(self.to_left @ point, *self.domain), np.clip(self.to_right @ point, *self.domain)

    def pair(self, point: Array) -> tuple[Any, Any]:
        """Both inputs as the mechanism takes them."""
        left, right = (vector.tolist() for vector in self.vectors(point))
        return (left[0], right[0]) if self.scalar else (left, right)

    def draw(self, rng: np.random.Generator) -> Array:
        """Variables drawn at random."""
        return self.inside(rng.uniform(self.low, self.high))

    def slopes(self) -> tuple[Array, Array]:
        """Rows A and numbers b such that A v + b >= 0 keeps both inputs in the domain."""
        both = np.concatenate([self.to_left, self.to_right])
        both = both[np.count_nonzero(both, axis=1) > 1]  # what a single variable gives, its own bounds keep inside
        low, high = self.domain
        return np.concatenate([both, -both]), np.concatenate([np.full(len(both), -low), np.full(len(both), high)])

    def point(self, left: Any, right: Any) -> Array | None:
        """The variables that give this pair; None where none do."""
        try:
            given = np.concatenate([np.atleast_1d(np.asarray(side, dtype=float)) for side in (left, right)])
        except (TypeError, ValueError):
            return None
        maps = np.concatenate([self.to_left, self.to_right])
        if len(given) != len(maps) or np.ndim(left) != (0 if self.scalar else 1):
            return None
        solution: Array = np.linalg.lstsq(maps, given, rcond=None)[0]
        point = self.inside(solution.round(DIGITS))  # so that what people wrote comes back as they wrote it
        return point if np.allclose(np.concatenate(self.vectors(point)), given, rtol=0, atol=NEAR) else None


def patches(mechanism: Mechanism, size: int, domain: Domain) -> list[Patch] | None:
    """The patches that make up the neighbourhood; None where it has no polytope, or the domain is no interval."""
    if not (isinstance(domain, tuple) and len(domain) == 2):
        return None
    low, high = (float(end) for end in domain)
    if not low < high:
        raise BadInput(f"domain = {domain!r} is empty; give a pair (low, high) with low < high")
    match mechanism.adjacency:
        case EveryQueryMoves():
            return [_moving("every query moves", np.eye(size), -1.0, 1.0, (low, high))]
        case OneQueryMoves():
            return [_moving(f"query {k + 1} moves", np.eye(size)[:, [k]], -1.0, 1.0, (low, high)) for k in range(size)]
        case AllMoveTogether():
            return [
                _moving("all rise", np.eye(size), 0.0, 1.0, (low, high)),
                _moving("all fall", np.eye(size), -1.0, 0.0, (low, high)),
            ]
        case AddOrRemoveRecord() as relation:
            inserting = [_inserting(size, place, (low, high)) for place in range(size + 1)]
            return list(_both(_in_orders(relation, inserting)))
        case ReplaceRecord() as relation:
            return list(_in_orders(relation, [_replacing(size, place, (low, high)) for place in range(size)]))
        case AnyTwoValues():
            both = np.eye(2)
            return [Patch("any two values", both[:1], both[1:], *_box(2, (low, high)), (low, high), scalar=True)]
        case other:
            return _of_corners(other, size, (low, high))


def _in_orders(relation: Adjacency, ordered: Sequence[Patch]) -> Iterator[Patch]:
    """The patches; where the order of records is free, also with the right input turned by one, and backwards."""
    yield from ordered
    if isinstance(relation, AddOrRemoveRecordUnordered | ReplaceRecordUnordered):
        for patch in ordered:
            yield replace(patch, name=f"{patch.name}, turned", to_right=np.roll(patch.to_right, 1, axis=0))
            yield replace(patch, name=f"{patch.name}, backwards", to_right=patch.to_right[::-1])


def _box(count: int, domain: tuple[float, float]) -> tuple[Array, Array]:
    return np.full(count, domain[0]), np.full(count, domain[1])


def _both(found: Iterator[Patch]) -> Iterator[Patch]:
    for patch in found:
        yield patch
        yield patch.reversed()


def _moving(name: str, directions: Array, least: float, most: float, domain: tuple[float, float]) -> Patch:
    """left is free, right is left plus a combination of the directions (columns)."""
    size, count = directions.shape
    low, high = _box(size, domain)
    return Patch(
        name,
        np.hstack([np.eye(size), np.zeros((size, count))]),
        np.hstack([np.eye(size), directions]),
        np.concatenate([low, np.full(count, least)]),
        np.concatenate([high, np.full(count, most)]),
        domain,
        moves=True,
    )


def _inserting(size: int, place: int, domain: tuple[float, float]) -> Patch:
    """right has a record more, at this place."""
    every = np.eye(size + 1)
    order = [*range(place), size, *range(place, size)]
    return Patch(f"record {place + 1} added", every[:size], every[order], *_box(size + 1, domain), domain)


def _replacing(size: int, place: int, domain: tuple[float, float]) -> Patch:
    every = np.eye(size + 1)
    order = [*range(place), size, *range(place + 1, size)]
    return Patch(f"record {place + 1} replaced", every[:size], every[order], *_box(size + 1, domain), domain)


def _of_corners(relation: Adjacency, size: int, domain: tuple[float, float]) -> list[Patch] | None:
    """The hull of the relation's corners where it is convex, as far as random mixtures tell; else a ray to each."""
    corners = relation.vertices(size)
    if corners is None:
        return None
    hull = _moving(f"{relation.name} neighbours", corners.T, 0.0, 1.0, domain)
    hull = replace(hull, total=slice(size, None))
    rng = np.random.default_rng(0)
    if len(corners) <= MOST_CORNERS and all(relation.adjacent(*hull.pair(hull.draw(rng))) for _ in range(TRIES)):
        return [hull]
    return [_moving(f"{relation.name} corner", corner[:, None], 0.0, 1.0, domain) for corner in corners]


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
            left = self._value(rng) if self._single else [self._value(rng) for _ in range(self.size)]
            right = self._moved(left, rng)
            if left != right and self.relation.adjacent(left, right):
                return Pair(left, right, "random") if rng.random() < 0.5 else Pair(right, left, "random")
        raise BadInput(
            f"adjacency {self.relation}: no neighbours were found among random inputs from {self.values!r}; "
            f"give a domain in which inputs have neighbours, or pairs to start from"
        )

    @property
    def _single(self) -> bool:
        return isinstance(self.relation, AnyTwoValues)

    def _value(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def _moved(self, left: Any, rng: np.random.Generator) -> Any:
        if self._single:
            return self._value(rng)
        if isinstance(self.relation, AddOrRemoveRecordUnordered | ReplaceRecordUnordered):
            left = [left[place] for place in rng.permutation(len(left))]
        if isinstance(self.relation, AddOrRemoveRecord):
            place = int(rng.integers(self.size + 1))
            return [*left[:place], self._value(rng), *left[place:]]
        alone = isinstance(self.relation, ReplaceRecord | OneQueryMoves)
        moved = [int(rng.integers(self.size))] if alone else range(self.size)
        right = list(left)
        for place in moved:
            choices = self._choices(left, place)
            right[place] = choices[int(rng.integers(len(choices)))]
        return right

    def _choices(self, left: Any, place: int) -> list[Any]:
        """The values that the entry may move to, if it is the only one that moves."""
        fits = [v for v in self.values if self.relation.adjacent(left, [*left[:place], v, *left[place + 1 :]])]
        return fits or [left[place]]

    def near(self, pair: Pair) -> Iterator[Pair]:
        """The pairs in which one entry, of one side or of both, has another value."""
        if self._single:
            for value in self.values:
                yield from (Pair(value, pair.right, "near"), Pair(pair.left, value, "near"))
            return
        left, right = list(pair.left), list(pair.right)  # type: ignore[call-overload]
        for place, value in itertools.product(range(max(len(left), len(right))), self.values):
            mine, theirs = ([*s[:place], value, *s[place + 1 :]] if place < len(s) else s for s in (left, right))
            for changed in ((mine, right), (left, theirs), (mine, theirs)):
                if changed != (left, right) and self.relation.adjacent(*changed) and changed[0] != changed[1]:
                    yield Pair(*changed, "near")


KNOWN = (EveryQueryMoves, OneQueryMoves, AllMoveTogether, AddOrRemoveRecord, ReplaceRecord, AnyTwoValues)


def pair_source(mechanism: Mechanism, size: int, domain: Domain) -> PairSource:
    """The pairs of a neighbourhood without a polytope."""
    relation = mechanism.adjacency
    finite = not (isinstance(domain, tuple) and len(domain) == 2)
    if finite and isinstance(relation, KNOWN):
        return ValuePairs(relation, size, list(domain))
    listed = list(relation.pairs(size, domain))
    if not listed:
        raise BadInput(f"{mechanism.name}: no pair of neighbours of size {size} to try in {domain}")
    return ListedPairs(listed)
