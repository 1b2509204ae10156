"""Which pairs of inputs to try: the classic patterns, corners of the domain, random ones, moves from the best.

Every pair is made by changing inputs blindly and then asking the adjacency whether the two are neighbours, so a
relation of one's own is searched too. A pair stands for its reversal as well: both are tried with one classifier.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veridp.adjacency import Adjacency, Domain, Pair, is_interval, moved_within
from veridp.errors import BadInput
from veridp.mechanism import Mechanism
from veridp.tidy import tidied

ATTEMPTS = 20  # tries to make one random pair
MOST_CUTS = 2  # between runs of equal entries that are moved


class Source(enum.StrEnum):
    """Where pairs come from, in the order in which they are tried."""

    PATTERNS = "patterns"
    CORNERS = "corners"
    RANDOM = "random"
    MOVES = "moves"


def sources_named(names: Iterable[str]) -> tuple[Source, ...]:
    """The sources of these names, in the order in which they are tried."""
    wanted = list(names)
    for name in wanted:
        if name not in list(Source):
            known = ", ".join(Source)
            raise BadInput(f"pairs = {name!r} is unknown; use some of {known}, or pairs (left, right)")
    return tuple(source for source in Source if source in wanted)


def given_pairs(pairs: Iterable[Any], relation: Adjacency | None) -> list[Pair]:
    """The pairs that a caller names; BadInput where the relation does not call them neighbours."""
    found = []
    for number, given in enumerate(pairs, start=1):
        if isinstance(given, Pair):
            pair = given
        else:
            try:
                left, right = given
            except (TypeError, ValueError):
                raise BadInput(f"pair {number} is {given!r}; give two inputs, as (left, right)") from None
            pair = Pair(left, right, f"given {number}")
        if relation is not None and not relation.adjacent(pair.left, pair.right):
            raise BadInput(
                f"{pair.left!r} and {pair.right!r} are not neighbours under {relation}; "
                f"give two that are, or give the mechanism another adjacency"
            )
        found.append(pair)
    if not found:
        raise BadInput("pairs is empty; give at least one (left, right), or omit pairs to search for them")
    return found


@dataclass
class PairStream:
    """The pairs of a mechanism's inputs of one size, each given out once."""

    mechanism: Mechanism
    size: int
    seen: set[frozenset[str]] = field(default_factory=set)

    @property
    def domain(self) -> Domain:
        return self.mechanism.domain

    def new(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Those of the pairs, tidied, that are neighbours and were not given out, in either direction."""
        for made in pairs:
            pair = tidied(made, self.mechanism.adjacency, self.domain)
            sides = frozenset((repr(pair.left), repr(pair.right)))
            if len(sides) == 2 and sides not in self.seen and self._adjacent(pair):
                self.seen.add(sides)
                yield pair

    def _adjacent(self, pair: Pair) -> bool:
        return self.mechanism.adjacency.adjacent(pair.left, pair.right)

    def patterns(self) -> Iterator[Pair]:
        """The pairs that the mechanism lists: those of its adjacency are the seven patterns for vectors of queries."""
        return self.new(self.mechanism.pairs(self.size, self.domain))

    def corners(self) -> Iterator[Pair]:
        """Vectors at the ends of an interval, in two runs, that move inwards, outwards, together or at one place."""
        if self._is_vector() and is_interval(self.domain):
            yield from self.new(_corners(self.size, *self._ends()))

    def random(self, seed: int) -> Iterator[Pair]:
        """Pairs drawn anew, without end; ends where none can be made."""
        rng = np.random.default_rng(seed)
        make = self._random_vectors if self._is_vector() else self._random_records
        while True:
            drawn = (next(self.new([make(rng)]), None) for _ in range(ATTEMPTS))
            pair = next((pair for pair in drawn if pair is not None), None)
            if pair is None:
                return
            yield pair

    def moves(self, pair: Pair, seed: int) -> Iterator[Pair]:
        """Pairs near this one, the larger changes first."""
        if self._is_vector() and _vectors(pair):
            yield from self.new(self._vector_moves(pair))
        else:
            rng = np.random.default_rng(seed)
            yield from self.new(self._record_moves(pair, rng))

    # -------------------------------------------------------------------------------------------------- vectors

    def _is_vector(self) -> bool:
        """Whether inputs are vectors of numbers that move."""
        return self.mechanism.adjacency.vertices(1) is not None

    def _ends(self) -> tuple[float, float]:
        numbers = [float(value) for value in self.domain]  # type: ignore[arg-type]
        return min(numbers), max(numbers)

    def _inside(self, values: Sequence[float], moves: Sequence[float], name: str) -> Pair:
        """The pair of these values and their moves, carried back into the domain."""
        if is_interval(self.domain):
            return moved_within(*self._ends(), values, moves, name)
        members = sorted(float(value) for value in self.domain)  # type: ignore[arg-type]
        left = [_nearest(members, value) for value in values]
        right = [_nearest(members, value + move) for value, move in zip(left, moves, strict=True)]
        whole = all(isinstance(value, int) for value in self.domain)
        return Pair([int(v) for v in left], [int(v) for v in right], name) if whole else Pair(left, right, name)

    def _random_vectors(self, rng: np.random.Generator) -> Pair:
        low, high = self._ends()
        moves = _random_moves(self.size, rng)
        if rng.random() < 0.5:  # all at a few levels, or each by itself
            values = rng.choice(rng.uniform(low, high, size=2), size=self.size)
        else:
            values = rng.uniform(low, high, size=self.size)
        return self._inside(np.round(values, 3).tolist(), moves, "random")

    def _vector_moves(self, pair: Pair) -> Iterator[Pair]:
        low, high = self._ends()
        left = np.asarray(pair.left, dtype=float)
        move = np.asarray(pair.right, dtype=float) - left
        reach = (high - low) / 2

        def near(values: Any, moves: Any) -> Pair:
            return self._inside(list(map(float, values)), list(map(float, moves)), "move")

        for signs in (np.sign(move), np.sign(left), np.ones(len(left))):
            for far in (reach / 2, -reach / 2, reach / 5, -reach / 5):
                yield near(left + far * signs, move)
        for factor in (0.5, 2.0, 0.0):
            yield near(left * factor, move)
        for sources in _moved_cuts(left, move):
            yield near(left[sources], move[sources])
        for place in range(len(left)):
            for changed in dict.fromkeys((-float(move[place]), 0.0, 1.0, -1.0)):
                yield near(left, np.where(np.arange(len(left)) == place, changed, move))
        for place in range(len(left)):
            for level in (low, high, 0.0):
                yield near(np.where(np.arange(len(left)) == place, level, left), move)

    # ------------------------------------------------------------------------------------- records and single values

    def _value(self, rng: np.random.Generator) -> Any:
        if is_interval(self.domain):
            low, high = self._ends()
            return float(np.round(rng.uniform(low, high), 3)) if rng.random() < 0.5 else float(rng.choice([low, high]))
        return list(self.domain)[int(rng.integers(len(self.domain)))]

    def _random_records(self, rng: np.random.Generator) -> Pair:
        """A random input of the shape that the adjacency's example has, and a random change of it."""
        example = self.mechanism.adjacency.example(self.size, self.domain)
        if not isinstance(example, list):
            return Pair(self._value(rng), self._value(rng), "random")
        left = [self._value(rng) for _ in example]
        return Pair(left, self._changed(left, rng), "random")

    def _changed(self, data: list[Any], rng: np.random.Generator) -> list[Any]:
        place = int(rng.integers(len(data) + 1))
        ways: list[Callable[[], list[Any]]] = [
            lambda: [*data[:place], self._value(rng), *data[place + 1 :]],
            lambda: [*data[:place], self._value(rng), *data[place:]],
            lambda: [*data[:place], *data[place + 1 :]],
        ]
        return ways[int(rng.integers(len(ways)))]()

    def _record_moves(self, pair: Pair, rng: np.random.Generator) -> Iterator[Pair]:
        """One side, or both alike, changed at random."""
        for _ in range(200):
            left, right = pair.left, pair.right
            if isinstance(left, list) and isinstance(right, list):
                if rng.random() < 0.5 and left and right:
                    place, value = int(rng.integers(min(len(left), len(right)))), self._value(rng)
                    left, right = ([*data[:place], value, *data[place + 1 :]] for data in (left, right))
                else:
                    right = self._changed(left, rng)
            elif rng.random() < 0.5:
                left = self._value(rng)
            else:
                right = self._value(rng)
            yield Pair(left, right, "move")


def _vectors(pair: Pair) -> bool:
    return isinstance(pair.left, list) and isinstance(pair.right, list) and len(pair.left) == len(pair.right)


def _nearest(members: Sequence[float], value: float) -> float:
    return min(members, key=lambda member: abs(member - value))


def _moved_cuts(left: Any, move: Any) -> Iterator[list[int]]:
    """Where a run of equal entries ends, it ends earlier or later: for each entry, of which it takes value and move."""
    places = list(range(len(left)))
    alike = (np.diff(left) == 0) & (np.diff(move) == 0)
    for cut in (np.flatnonzero(~alike) + 1).tolist()[:MOST_CUTS]:
        for far in dict.fromkeys((max(1, len(left) // 3), 1)):
            yield [cut - 1 if cut <= place < cut + far else place for place in places]
            yield [cut if cut - far <= place < cut else place for place in places]


def _random_moves(size: int, rng: np.random.Generator) -> list[float]:
    """Moves of every entry, of all alike, or of one."""
    way = rng.integers(3)
    if way == 0:
        return [float(sign) for sign in rng.choice([-1.0, 1.0], size=size)]
    sign = float(rng.choice([-1.0, 1.0]))
    if way == 1:
        return [sign] * size
    moved = int(rng.integers(size))
    return [sign if place == moved else 0.0 for place in range(size)]


def _corners(size: int, low: float, high: float) -> Iterator[Pair]:
    runs = [[True] * cut + [False] * (size - cut) for cut in sorted({0, 1, size // 2, size - 1, size})]
    levels = list(dict.fromkeys(map(tuple, [*runs, *([not top for top in run] for run in runs)])))
    signed = [(at_top, [sign if top else -sign for top in at_top]) for at_top in levels for sign in (-1.0, 1.0)]
    together = [(at_top, [sign] * size) for at_top in levels for sign in (-1.0, 1.0)]
    alone = [
        (at_top, [float(place == moved) for place in range(size)])
        for at_top in levels
        for moved in sorted({0, size - 1})
    ]
    for at_top, moves in itertools.chain(signed, together, alone):
        yield moved_within(low, high, [high if top else low for top in at_top], moves, "corner")
