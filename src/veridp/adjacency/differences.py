"""Relations on vectors of query answers: by how much the answers of neighbours differ."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency.base import (
    TOLERANCE,
    Adjacency,
    Domain,
    Pair,
    Phases,
    check_size,
    interval_ends,
    is_interval,
    numbers_of,
    register,
)
from veridp.adjacency.polytope import Box, Hull, Patch, Polytope, moving
from veridp.errors import BadInput


@dataclass(frozen=True)
class _Levels:
    """The three values that the patterns are made of: a base, and a step above and below it, within the domain."""

    below: float
    base: float
    above: float


def _levels(domain: Domain) -> _Levels:
    if not is_interval(domain):
        return _levels_among(domain)
    low, high = interval_ends(domain)
    step = min(1.0, (high - low) / 2)
    base = min(max(1.0, low + step), high - step)
    return _Levels(max(low, base - step), base, min(high, base + step))  # rounding must not leave the domain


def _levels_among(domain: Domain) -> _Levels:
    """Levels that are values of a finite domain; a step that would leave it, or exceed 1, stays at the base."""
    values = sorted(set(numbers_of(domain)))
    choices = [
        _Levels(_nearby(values, place, -1), base, _nearby(values, place, +1)) for place, base in enumerate(values)
    ]
    chosen = min(choices, key=lambda at: ((at.below == at.base) + (at.above == at.base), abs(at.base - 1)))
    if chosen.below == chosen.above:
        raise BadInput(f"domain = {domain!r} has no two values within 1 of each other; give a finer one")
    return chosen


def _nearby(values: Sequence[float], place: int, step: int) -> float:
    """The farthest of the sorted values in this direction that is within 1, or the value at the place itself."""
    reach = 1 + TOLERANCE
    base = values[place]
    return values[bisect_right(values, base + reach) - 1 if step > 0 else bisect_left(values, base - reach)]


def patterns(size: int, domain: Domain = (-10, 10)) -> list[Pair]:
    """The seven classic patterns of query answers (Ding et al. 2018, Table 1), in both directions.

    In a domain of two values only, those patterns are left out whose two sides are the same.

    >>> [str(pair.right) for pair in patterns(3)[:2]]
    ['[2.0, 1.0, 1.0]', '[1.0, 1.0, 1.0]']
    """
    check_size(size)
    at = _levels(domain)
    half = (size + 1) // 2
    base = [at.base] * size
    crossing = size // 2
    table = {
        "one above": (base, [at.above] + [at.base] * (size - 1)),
        "one below": (base, [at.below] + [at.base] * (size - 1)),
        "one above, rest below": (base, [at.above] + [at.below] * (size - 1)),
        "one below, rest above": (base, [at.below] + [at.above] * (size - 1)),
        "half half": (base, [at.below] * half + [at.above] * (size - half)),
        "all above, all below": (base, [at.above] * size),
        "x shape": (
            [at.base] * crossing + [at.below] * (size - crossing),
            [at.below] * crossing + [at.base] * (size - crossing),
        ),
    }
    forward = [Pair(left, right, name) for name, (left, right) in table.items() if left != right]
    return [pair for one in forward for pair in (one, one.reversed())]


def moved_within(low: float, high: float, values: Sequence[float], moves: Sequence[float], pattern: str) -> Pair:
    """The pair of these values and the values moved so, each shifted just so far that both stay between the ends.

    A move that is wider than the domain goes from end to end.

    >>> moved_within(0.0, 5.0, [5.0, 1.0], [1.0, -9.0], "")
    Pair(left=[4.0, 5.0], right=[5.0, 0.0], pattern='')
    """
    near = [min(max(move, low - high), high - low) for move in moves]
    left = [
        min(max(value, low - min(move, 0.0)), high - max(move, 0.0)) for value, move in zip(values, near, strict=True)
    ]
    right = [min(max(value + move, low), high) for value, move in zip(left, near, strict=True)]
    return Pair(left, right, pattern)


def _differences(left: object, right: object) -> NDArray[np.float64] | None:
    """right - left as a vector; None where the two are not vectors of numbers of one length."""
    try:
        before, after = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    except (TypeError, ValueError):
        return None
    return after - before if before.shape == after.shape and before.ndim == 1 else None


class _Queries(Adjacency):
    """Relations on vectors of query answers, each of sensitivity 1."""

    listable = True

    def example(self, size: int, domain: Domain) -> list[float]:
        check_size(size)
        return [_levels(domain).base] * size

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """The classic patterns that the relation allows, and its own, each pair once."""
        seen: set[tuple[str, str]] = set()
        for pair in itertools.chain(patterns(size, domain), self._own_patterns(size, _levels(domain))):
            sides = (repr(pair.left), repr(pair.right))
            if sides[0] != sides[1] and sides not in seen and self.adjacent(pair.left, pair.right):
                seen.add(sides)
                yield pair

    def _own_patterns(self, size: int, at: _Levels) -> Iterator[Pair]:
        """Pairs beside the classic ones, in both directions."""
        yield from ()


def _cube(size: int, least: int, most: int) -> Box:
    check_size(size)
    return Box((Fraction(least),) * size, (Fraction(most),) * size)


@register
class EveryQueryMoves(_Queries):
    """Every query moves by at most 1 (L∞; the literature's ALL_DIFFER)."""

    name = "linf"

    def adjacent(self, left: object, right: object) -> bool:
        moves = _differences(left, right)
        return moves is not None and bool(np.all(np.abs(moves) <= 1 + TOLERANCE))

    def vertices(self, size: int) -> NDArray[np.float64]:
        check_size(size)
        return np.array(list(itertools.product((-1.0, 1.0), repeat=size)))

    def polytopes(self, size: int, domain: Domain) -> tuple[Polytope, ...]:
        return (_cube(size, -1, 1),)

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        return [moving("every query moves", np.eye(size), -1.0, 1.0, domain)]

    def phases(self, period: int) -> list[Phases]:
        return [{"any": [(1, "any"), (-1, "any")]}]


@register
class OneQueryMoves(_Queries):
    """One query moves, by at most 1 (L1; the literature's ONE_DIFFER)."""

    name = "l1"

    def adjacent(self, left: object, right: object) -> bool:
        moves = _differences(left, right)
        if moves is None or np.count_nonzero(moves) > 1:
            return False
        return bool(np.all(np.abs(moves) <= 1 + TOLERANCE))

    def vertices(self, size: int) -> NDArray[np.float64]:
        check_size(size)
        return np.concatenate([np.eye(size), -np.eye(size)])

    def polytopes(self, size: int, domain: Domain) -> tuple[Polytope, ...]:
        return (Hull.of(self.vertices(size), whole_at_corners=True),)

    def segments(self, size: int, domain: Domain) -> tuple[Polytope, ...]:
        """One for each query: regions tell which of them moves."""
        ends = [tuple(Fraction(i == moved) for i in range(size)) for moved in range(size)]
        return tuple(Box(tuple(-x for x in end), end) for end in ends)

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        return [moving(f"query {k + 1} moves", np.eye(size)[:, [k]], -1.0, 1.0, domain) for k in range(size)]

    def phases(self, period: int) -> list[Phases]:
        """The phase remembers for two periods how long ago the query moved."""
        last = 2 * period
        phases: dict[str, list[tuple[int, str]]] = {"before": [(0, "before"), (1, "up 1"), (-1, "down 1")]}
        for way in ("up", "down"):
            for age in range(1, last + 1):
                phases[f"{way} {age}"] = [(0, f"{way} {min(age + 1, last)}")]
        return [phases]

    def random_neighbour(self, data: Any, values: Sequence[Any], rng: np.random.Generator) -> Any:
        return self._with_moves(data, values, [int(rng.integers(len(data)))], rng)

    def _own_patterns(self, size: int, at: _Levels) -> Iterator[Pair]:
        for moved in range(1, size):  # the patterns move the first query only
            left = [at.base] * size
            for name, level in (("above", at.above), ("below", at.below)):
                pair = Pair(left, [*left[:moved], level, *left[moved + 1 :]], f"query {moved + 1} {name}")
                yield pair
                yield pair.reversed()


@register
class AllMoveTogether(_Queries):
    """All queries move the same way, each by at most 1 (monotone queries, such as counts)."""

    name = "monotone"

    def adjacent(self, left: object, right: object) -> bool:
        moves = _differences(left, right)
        if moves is None or np.any(np.abs(moves) > 1 + TOLERANCE):
            return False
        return bool(np.all(moves >= 0) or np.all(moves <= 0))

    def vertices(self, size: int) -> NDArray[np.float64]:
        """The corners of [0, 1]^size, then those of [-1, 0]^size: a union of two polytopes, convex one by one."""
        check_size(size)
        up = np.array(list(itertools.product((0.0, 1.0), repeat=size)))
        return np.concatenate([up, -up])

    def polytopes(self, size: int, domain: Domain) -> tuple[Polytope, ...]:
        return _cube(size, 0, 1), _cube(size, -1, 0)

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        rising, falling = ("all rise", 0.0, 1.0), ("all fall", -1.0, 0.0)
        return [moving(name, np.eye(size), least, most, domain) for name, least, most in (rising, falling)]

    def phases(self, period: int) -> list[Phases]:
        return [{"up": [(0, "up"), (1, "up")]}, {"down": [(0, "down"), (-1, "down")]}]

    def _own_patterns(self, size: int, at: _Levels) -> Iterator[Pair]:
        half = size // 2
        for name, level in (("above", at.above), ("below", at.below)):
            for moved in ([level] * half + [at.base] * (size - half), [at.base] * half + [level] * (size - half)):
                which = "first" if moved[-1] == at.base else "last"
                pair = Pair([at.base] * size, moved, f"{which} half {name}")
                yield pair
                yield pair.reversed()


@dataclass(frozen=True)
class Scaled(Adjacency):
    """A relation on query answers whose moves are `factor` times as far: for queries of that sensitivity.

    >>> Scaled(EveryQueryMoves(), 3.0).adjacent([0, 0], [3, -2])
    True
    """

    relation: Adjacency
    factor: float

    def __post_init__(self) -> None:
        if not isinstance(self.relation, _Queries):
            raise BadInput(f"{self.relation} is not a relation on query answers and cannot be scaled")
        if not 0 < self.factor < float("inf"):
            raise BadInput(f"factor must be finite and > 0, got {self.factor!r}")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.relation.name}, {self.factor:g} apart"

    def adjacent(self, left: object, right: object) -> bool:
        return _differences(left, right) is not None and self.relation.adjacent(self._shrunk(left), self._shrunk(right))

    def example(self, size: int, domain: Domain) -> object:
        return self._grown(self.relation.example(size, self._own_domain(domain)))

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        for pair in self.relation.pairs(size, self._own_domain(domain)):
            yield Pair(self._grown(pair.left), self._grown(pair.right), pair.pattern)

    def vertices(self, size: int) -> NDArray[np.float64] | None:
        corners = self.relation.vertices(size)
        return None if corners is None else corners * self.factor

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch] | None:
        found = self.relation.patches(size, domain) or []
        scales = [np.where(np.arange(len(patch.low)) < size, 1.0, self.factor) for patch in found]
        scaled = zip(found, scales, strict=True)
        return [replace(patch, low=patch.low * scale, high=patch.high * scale) for patch, scale in scaled] or None

    def _own_domain(self, domain: Domain) -> Domain:
        ends = [number / self.factor for number in numbers_of(domain)]
        return (ends[0], ends[1]) if is_interval(domain) else ends

    def _shrunk(self, data: object) -> list[float]:
        return [value / self.factor for value in data]  # type: ignore[attr-defined]

    def _grown(self, data: object) -> list[float]:
        grown = [value * self.factor for value in data]  # type: ignore[attr-defined]
        return [round(value) if abs(value - round(value)) < TOLERANCE else value for value in grown]
