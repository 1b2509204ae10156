"""Who is a neighbour of whom: the relation, its polytope of differences, and the pairs worth trying.

A *domain* says which values data may take: a pair (low, high) of numbers for an interval, or any other collection
(a range, a list) for exactly these values.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput

Domain = tuple[float, float] | Collection[object]
TOLERANCE = 1e-9  # how far rounding may carry a difference past 1
MANY_PAIRS = 10_000  # past this, pairs of a finite domain are not listed in full
MANY_POSITIONS = 16  # past this, records are replaced at the start, in the middle and at the end alone


@dataclass(frozen=True)
class Pair:
    """Two neighbouring inputs, and the name of the pattern that made them."""

    left: object
    right: object
    pattern: str

    def reversed(self) -> Pair:
        return Pair(self.right, self.left, f"{self.pattern}, reversed")


class Adjacency(ABC):
    """A symmetric relation on inputs. Subclass it for a relation of your own."""

    name: str

    @abstractmethod
    def adjacent(self, left: object, right: object) -> bool:
        """Whether the two inputs are neighbours: the same for either order, and true of an input and itself."""

    @abstractmethod
    def example(self, size: int, domain: Domain) -> object:
        """An ordinary input of this size."""

    @abstractmethod
    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """Neighbouring pairs worth trying, in both directions, all within the domain."""

    def vertices(self, size: int) -> NDArray[np.float64] | None:
        """The corners of the polytope(s) of right - left, a row each; None where the relation has no polytope."""
        return None

    def __str__(self) -> str:
        return self.name


# ---------------------------------------------------------------------------------------- vectors of query answers


@dataclass(frozen=True)
class _Levels:
    """The three values that the patterns are made of: a base, and a step above and below it, within the domain."""

    below: float
    base: float
    above: float


def _is_interval(domain: Domain) -> bool:
    return isinstance(domain, tuple) and len(domain) == 2


def _numbers(domain: Domain) -> list[float]:
    """The values of the domain, or its ends where it is an interval, all numbers."""
    if not len(domain) or not all(isinstance(value, int | float | np.number) for value in domain):
        raise BadInput(f"domain must be a pair of numbers such as (-10, 10), or a list of numbers, got {domain!r}")
    return list(domain)  # type: ignore[arg-type]


def _interval(domain: Domain) -> tuple[float, float]:
    low, high = _numbers(domain)
    if not low < high:
        raise BadInput(f"domain = {domain!r} is empty; give a pair (low, high) with low < high")
    return float(low), float(high)


def _levels(domain: Domain) -> _Levels:
    if not _is_interval(domain):
        return _levels_among(domain)
    low, high = _interval(domain)
    step = min(1.0, (high - low) / 2)
    base = min(max(1.0, low + step), high - step)
    return _Levels(max(low, base - step), base, min(high, base + step))  # rounding must not leave the domain


def _levels_among(domain: Domain) -> _Levels:
    """Levels that are values of a finite domain; a step that would leave it, or exceed 1, stays at the base."""
    values = sorted(set(_numbers(domain)))
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
    _check_size(size)
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


def _check_size(size: int) -> None:
    if not isinstance(size, int | np.integer) or size < 1:
        raise BadInput(f"size must be an integer >= 1, got {size!r}")


def _differences(left: object, right: object) -> NDArray[np.float64] | None:
    """right - left as a vector; None where the two are not vectors of numbers of one length."""
    try:
        before, after = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    except (TypeError, ValueError):
        return None
    return after - before if before.shape == after.shape and before.ndim == 1 else None


class _Queries(Adjacency):
    """Relations on vectors of query answers, each of sensitivity 1."""

    def example(self, size: int, domain: Domain) -> list[float]:
        _check_size(size)
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


class EveryQueryMoves(_Queries):
    """Every query moves by at most 1 (L∞; the literature's ALL_DIFFER)."""

    name = "linf"

    def adjacent(self, left: object, right: object) -> bool:
        moves = _differences(left, right)
        return moves is not None and bool(np.all(np.abs(moves) <= 1 + TOLERANCE))

    def vertices(self, size: int) -> NDArray[np.float64]:
        _check_size(size)
        return np.array(list(itertools.product((-1.0, 1.0), repeat=size)))


class OneQueryMoves(_Queries):
    """One query moves, by at most 1 (L1; the literature's ONE_DIFFER)."""

    name = "l1"

    def adjacent(self, left: object, right: object) -> bool:
        moves = _differences(left, right)
        if moves is None or np.count_nonzero(moves) > 1:
            return False
        return bool(np.all(np.abs(moves) <= 1 + TOLERANCE))

    def vertices(self, size: int) -> NDArray[np.float64]:
        _check_size(size)
        return np.concatenate([np.eye(size), -np.eye(size)])

    def _own_patterns(self, size: int, at: _Levels) -> Iterator[Pair]:
        for moved in range(1, size):  # the patterns move the first query only
            left = [at.base] * size
            for name, level in (("above", at.above), ("below", at.below)):
                pair = Pair(left, [*left[:moved], level, *left[moved + 1 :]], f"query {moved + 1} {name}")
                yield pair
                yield pair.reversed()


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
        _check_size(size)
        up = np.array(list(itertools.product((0.0, 1.0), repeat=size)))
        return np.concatenate([up, -up])

    def _own_patterns(self, size: int, at: _Levels) -> Iterator[Pair]:
        half = size // 2
        for name, level in (("above", at.above), ("below", at.below)):
            for moved in ([level] * half + [at.base] * (size - half), [at.base] * half + [level] * (size - half)):
                which = "first" if moved[-1] == at.base else "last"
                pair = Pair([at.base] * size, moved, f"{which} half {name}")
                yield pair
                yield pair.reversed()


# -------------------------------------------------------------------------------------------------------- data sets


def _ends(domain: Domain) -> tuple[object, object]:
    """Two values of the domain as far apart as it has them."""
    if _is_interval(domain):
        return _interval(domain)
    values = list(domain)
    if len(values) < 2:
        raise BadInput(f"domain must have at least two values, got {domain!r}")
    return values[0], values[-1]


def _surplus(left: object, right: object) -> tuple[int, int] | None:
    """How many records only the left has, and only the right; None where either is no collection of records."""
    try:
        before, after = Counter(_records(left)), Counter(_records(right))
    except TypeError:
        return None
    return (before - after).total(), (after - before).total()


def _same(left: object, right: object) -> bool:
    """Whether two inputs are equal, entry by entry."""
    if isinstance(left, list | tuple | np.ndarray) and isinstance(right, list | tuple | np.ndarray):
        return len(left) == len(right) and all(_same(mine, theirs) for mine, theirs in zip(left, right, strict=True))
    return bool(left == right)


def _records(data: object) -> list[object]:
    """The records of a data set: entries of a collection, items of a mapping, rows of an array or a data frame."""
    if isinstance(data, Mapping):
        return [_plain(item) for item in data.items()]
    rows: Any = data
    if hasattr(data, "itertuples"):  # a data frame of pandas
        rows = data.itertuples(index=False, name=None)
    elif hasattr(data, "iter_rows"):  # one of polars
        rows = data.iter_rows()
    return [_plain(record) for record in rows]


def _plain(record: object) -> object:
    """The record with tuples for lists and arrays, so that records can be compared and counted."""
    return tuple(map(_plain, record)) if isinstance(record, list | tuple | np.ndarray) else record


def _has_order(data: object) -> bool:
    return not isinstance(data, Set | Mapping)


class _Records(Adjacency):
    """Relations on data sets, which are collections of records.

    Each comes in two kinds. In the ordered one the records that two neighbours share stand in the same order: it suits
    lists and tables whose order means something. In the unordered one a data set is a multiset, so a neighbour may also
    list the shared records in another order: a mechanism that depends on their order has to hide that too. For a
    mechanism that does not depend on the order the two are the same. Sets and mappings have no order in either.
    """

    order: str  # what becomes of the order of the records, in words
    _allowed: tuple[tuple[int, int], ...]  # how many records either side may have that the other has not

    def adjacent(self, left: object, right: object) -> bool:
        if _has_order(left) and _has_order(right):
            return self._adjacent_in_order(left, right)
        return _surplus(left, right) in self._allowed

    @abstractmethod
    def _adjacent_in_order(self, left: object, right: object) -> bool:
        """Whether two data sets that have an order are neighbours."""

    def example(self, size: int, domain: Domain) -> list[object]:
        _check_size(size)
        return [_ends(domain)[0]] * size

    def __str__(self) -> str:
        return f"{self.name} ({self.order})"


class _Unordered(_Records):
    """The unordered kind of the relation that it is mixed into."""

    order = "records in any order"

    def _adjacent_in_order(self, left: object, right: object) -> bool:
        return _surplus(left, right) in self._allowed

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """The pairs of the ordered kind, and pairs whose shared records stand in another order."""
        ordered = list(super().pairs(size, domain))  # type: ignore[safe-super]
        yield from ordered
        seen = {(repr(pair.left), repr(pair.right)) for pair in ordered}
        for pair in _reordered(size, *_ends(domain)):
            sides = repr(pair.left), repr(pair.right)
            if sides[0] != sides[1] and sides not in seen and self.adjacent(pair.left, pair.right):
                seen |= {sides, sides[::-1]}
                yield pair
                yield pair.reversed()


def _reordered(size: int, low: object, high: object) -> Iterator[Pair]:
    """Data sets that have most or all of their records in common, at other positions."""
    for one, rest, which in ((low, high, "lowest"), (high, low, "highest")):
        if size > 1:
            moved = [rest] * (size - 1) + [one]
            yield Pair(moved[::-1], moved, f"the {which} record moved from the start to the end")
        if size > 2:
            yield Pair(_alternating(one, rest, size), _alternating(rest, one, size), "alternating, all moved")
        in_blocks = [one] * (size - size // 2) + [rest] * (size // 2)
        for longer in (size, size + 1):
            yield Pair(in_blocks, _alternating(one, rest, longer), "sorted against alternating")


def _alternating(one: object, other: object, size: int) -> list[object]:
    return [other if place % 2 else one for place in range(size)]


def _in_order(left: object, right: object) -> tuple[list[object], list[object]] | None:
    """The records of both, the fewer first; None where either is no collection of records."""
    try:
        shorter, longer = sorted((_records(left), _records(right)), key=len)
    except TypeError:
        return None
    return shorter, longer


def _positions(size: int) -> dict[int, str]:
    """The positions worth trying: all of them while they are few, with their names."""
    few = range(size) if size <= MANY_POSITIONS else (0, size // 2, size - 1)
    names = {0: "first record", size - 1: "last record"}
    return {place: names.get(place, f"record {place + 1}") for place in few}


class AddOrRemoveRecord(_Records):
    """One data set has at most one record more than the other, and the others in the same order."""

    name = "add-remove"
    order = "order kept"
    _allowed = ((0, 0), (0, 1), (1, 0))

    def _adjacent_in_order(self, left: object, right: object) -> bool:
        both = _in_order(left, right)
        if both is None or len(both[1]) - len(both[0]) > 1:
            return False
        shorter, longer = both
        if len(shorter) == len(longer):
            return shorter == longer
        unlike = (k for k, record in enumerate(shorter) if record != longer[k])
        place = next(unlike, len(shorter))  # where the record was added
        return shorter[place:] == longer[place + 1 :]

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        _check_size(size)
        low, high = _ends(domain)
        for rest, which in ((low, "lowest"), (high, "highest")):
            for record, extra in ((low, "lowest"), (high, "highest")):
                for place, where in {0: "at the start", size // 2: "in the middle", size: "at the end"}.items():
                    if record == rest and place < size:
                        continue  # the same data set
                    right = [rest] * size
                    right.insert(place, record)
                    pair = Pair([rest] * size, right, f"all {which}, one {extra} record added {where}")
                    yield pair
                    yield pair.reversed()
        pair = Pair(_alternating(low, high, size), _alternating(high, low, size + 1), "alternating, all moved by one")
        if size > 1:  # else it is one of those above
            yield pair
            yield pair.reversed()


class AddOrRemoveRecordUnordered(_Unordered, AddOrRemoveRecord):
    """One data set has at most one record more than the other, whatever the order of the records."""

    name = "add-remove-unordered"


class ReplaceRecord(_Records):
    """One record of the data set is replaced by another, and the others stay in their positions."""

    name = "replace"
    order = "position by position"
    _allowed = ((0, 0), (1, 1))

    def _adjacent_in_order(self, left: object, right: object) -> bool:
        both = _in_order(left, right)
        if both is None or len(both[0]) != len(both[1]):
            return False
        return sum(mine != theirs for mine, theirs in zip(*both, strict=True)) <= 1

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        _check_size(size)
        low, high = _ends(domain)
        for rest, other, which in ((low, high, "lowest"), (high, low, "highest")):
            for place, where in _positions(size).items():
                right = [rest] * size
                right[place] = other
                pair = Pair([rest] * size, right, f"all {which}, {where} replaced")
                yield pair
                yield pair.reversed()


class ReplaceRecordUnordered(_Unordered, ReplaceRecord):
    """One record of the data set is replaced by another, whatever the order of the records."""

    name = "replace-unordered"


class AnyTwoValues(Adjacency):
    """Any two values are neighbours (local differential privacy: the input is one person's value)."""

    name = "any"

    def adjacent(self, left: object, right: object) -> bool:
        return True

    def example(self, size: int, domain: Domain) -> object:
        return _ends(domain)[0]

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """All ordered pairs of a finite domain while they are few; else every value against the first and the last."""
        low, high = _ends(domain)
        if _is_interval(domain):
            values: Sequence[object] = [low, (low + high) / 2, high]  # type: ignore[operator]
        else:
            values = list(domain)
        if len(values) * (len(values) - 1) <= MANY_PAIRS:
            yield from (Pair(a, b, f"{a!r} against {b!r}") for a, b in itertools.permutations(values, 2))
            return
        for a, b in itertools.product((low, high), values):
            if a != b:
                pair = Pair(a, b, f"{a!r} against {b!r}")
                yield pair
                yield pair.reversed()


# ------------------------------------------------------------------------------------------- other sensitivities


@dataclass(frozen=True)
class Scaled(Adjacency):
    """A relation on query answers whose moves are `factor` times as far: for queries of that sensitivity.

    >>> Scaled(adjacency("linf"), 3.0).adjacent([0, 0], [3, -2])
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

    def _own_domain(self, domain: Domain) -> Domain:
        ends = [number / self.factor for number in _numbers(domain)]
        return (ends[0], ends[1]) if _is_interval(domain) else ends

    def _shrunk(self, data: object) -> list[float]:
        return [value / self.factor for value in data]  # type: ignore[attr-defined]

    def _grown(self, data: object) -> list[float]:
        grown = [value * self.factor for value in data]  # type: ignore[attr-defined]
        return [round(value) if abs(value - round(value)) < TOLERANCE else value for value in grown]


# ---------------------------------------------------------------------------------------------------- one's own


@dataclass(frozen=True)
class OwnAdjacency(Adjacency):
    """A relation given by plain functions: `test(left, right)`, and `candidates(size)` that lists pairs.

    The relation is reflexive and symmetric whatever the test says: every input is its own neighbour, a test that holds
    in one direction counts for both, and each candidate (left, right) is tried in both. The domain is the candidates'
    own concern.
    """

    name: str
    test: Callable[[object, object], bool]
    candidates: Callable[[int], Collection[tuple[object, object]]]
    corners: Callable[[int], NDArray[np.float64]] | None = None

    def adjacent(self, left: object, right: object) -> bool:
        return _same(left, right) or bool(self.test(left, right) or self.test(right, left))

    def example(self, size: int, domain: Domain) -> object:
        for left, _ in self.candidates(size):
            return left
        raise BadInput(
            f"adjacency {self.name!r}: no candidates of size {size}; let its candidates list at least one pair"
        )

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        for number, (left, right) in enumerate(self.candidates(size), start=1):
            if not self.adjacent(left, right):
                raise BadInput(
                    f"adjacency {self.name!r}: its candidate {number}, {left!r} and {right!r}, is not adjacent"
                )
            pair = Pair(left, right, f"{self.name} {number}")
            yield pair
            yield pair.reversed()

    def vertices(self, size: int) -> NDArray[np.float64] | None:
        return None if self.corners is None else self.corners(size)


BY_NAME: dict[str, Adjacency] = {
    relation.name: relation
    for relation in (
        EveryQueryMoves(),
        OneQueryMoves(),
        AllMoveTogether(),
        AddOrRemoveRecord(),
        AddOrRemoveRecordUnordered(),
        ReplaceRecord(),
        ReplaceRecordUnordered(),
        AnyTwoValues(),
    )
}
ALSO_CALLED = {"add-remove-ordered": "add-remove", "replace-ordered": "replace"}


def adjacency(relation: str | Adjacency) -> Adjacency:
    """The relation of this name, or the relation itself."""
    if isinstance(relation, Adjacency):
        return relation
    try:
        return BY_NAME[ALSO_CALLED.get(relation, relation)]
    except (KeyError, TypeError):
        known = ", ".join(BY_NAME)
        raise BadInput(f"adjacency = {relation!r} is unknown; use one of {known}, or an Adjacency object") from None
