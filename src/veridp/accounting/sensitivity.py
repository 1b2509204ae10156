"""How far a query's answer can move between neighbours: exactly where it is piecewise affine, else from below."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.norm_bound import Image, Polyhedron, farthest
from veridp.adjacency import Adjacency, Domain, Patch, adjacency, box_of
from veridp.budget import OutOfTime, at_most
from veridp.errors import BadInput, BadOutput, CutShort, MechanismFailed, NotExact, NotExplorable, VeridpError
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, unknowns
from veridp.kernel.output import Raised, Template
from veridp.kernel.path import Path, entries_of, outline_of
from veridp.kernel.symbols import Relation, Unknown
from veridp.mechanism import Function, Mechanism

# ----------------------------------------------------------------------------------------------------- neighbour pairs
# Who is a neighbour of whom, as two inputs made of the same open values: what can be explored and optimised over.


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


# --------------------------------------------------------------------------------------------------------- sensitivity
# How far a query's answer can move between neighbours: exactly where it is piecewise affine, else from below.
#
# The query is run on open data, for both neighbours at once: each path of that is a polyhedron of pairs of neighbours
# on which both answers are affine, and the largest move on it is a matter of linear programs. Finitely many data sets
# are tried one by one.


Norm = float  # 1, 2 or inf
MAX_PATHS = 20_000
MOST_DATA_SETS = 50_000  # of a finite domain that are tried one by one
MOST_SHOWN = 8  # numbers of an answer that a message shows one by one
TRIES = 2_000  # of the search, where nothing better is possible, for each way to be neighbours


@dataclass(frozen=True)
class Sensitivity:
    """The largest move of an answer between neighbours, with two inputs that attain it.

    Where `exact`, no neighbours within the domain, of the sizes looked at, move it further (up to rounding); where the
    query jumps, the value may be approached only. Else it is a lower bound, for the `reason` given.
    """

    value: float
    exact: bool
    norm: Norm
    relation: str
    size: int
    domain: Domain
    left: object
    right: object
    reason: str = ""

    def __str__(self) -> str:
        how = "=" if self.exact else ">="
        why = "" if self.exact else f"; a lower bound, for {self.reason}"
        return f"L{self.norm:g}-sensitivity {how} {self.value:.6g}, between {self.left} and {self.right}{why}"


def sensitivity(
    query: Function,
    size: int = 3,
    *,
    domain: Domain = (0.0, 1.0),
    relation: str | Adjacency = "add-remove",
    norm: Norm = 1,
    seconds: float = 60.0,
    seed: int = 0,
) -> Sensitivity:
    """The sensitivity of a plain function of the data, in the L1, L2 or L∞ norm.

    Under `add-remove`, over all data sets of up to `size` records, the empty one too; under the other relations, over
    inputs of exactly that size. `domain` is what a record (or a query answer) may be: an interval, or finitely many
    values. Where the `seconds` do not do for an exact answer, or nothing does, a search gives a lower bound; only then
    does `seed` matter.

    >>> def total(data): return sum(min(max(value, 0), 2) for value in data)
    >>> sensitivity(total, 2, domain=(-5, 5)).value
    2.0
    """
    if norm not in (1, 2, math.inf):
        raise BadInput(f"norm must be 1, 2 or inf, got {norm!r}")
    if size < 1:
        raise BadInput(f"size must be an integer >= 1, got {size!r}")
    measure = _Measure(query, size, domain, adjacency(relation), norm)
    if not (isinstance(domain, tuple) and len(domain) == 2):
        return measure.enumerated()
    try:
        with at_most(seconds):
            return measure.solved()
    except (OutOfTime, CutShort):
        return measure.searched(seed, f"{seconds:g} seconds were not enough to solve it")
    except (NotExplorable, NotExact) as error:
        return measure.searched(seed, str(error))
    except MechanismFailed as error:  # on open values; perhaps not on plain ones
        try:
            return measure.searched(seed, str(error))
        except VeridpError:
            raise
        except Exception:  # the query's own, whatever it is: the error above names its line
            raise error from None


@dataclass(frozen=True)
class _Found:
    value: float
    two: Two


@dataclass(frozen=True, eq=False)
class _Answer:
    """The numbers of an answer, and how it nests them."""

    numbers: Array
    outline: Template

    def same(self, other: _Answer) -> bool:
        return self.outline == other.outline and np.array_equal(self.numbers, other.numbers)


class _Measure:
    def __init__(self, query: Function, size: int, domain: Domain, relation: Adjacency, norm: Norm) -> None:
        self.query, self.size, self.domain, self.relation, self.norm = query, size, domain, relation, norm
        self.symmetric = lru_cache(maxsize=None)(self._symmetric)

    def _result(self, found: _Found, exact: bool, reason: str = "") -> Sensitivity:
        return Sensitivity(
            found.value, exact, self.norm, self.relation.name, self.size, self.domain, found.two.left, found.two.right,
            reason,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------ solving

    def solved(self) -> Sensitivity:
        """By exploring both neighbours at once, and linear programs; NotExplorable or NotExact where that fails."""
        best: _Found | None = None
        for move in moves(self.relation, self.size, self.domain, self.symmetric):
            middle = self._rounded(move.two(list((move.low + move.high) / 2)))
            best = _Found(0.0, middle) if best is None else best
            for path in self._paths(move):
                found = farthest(_image(path, move), self.norm, best.value)
                if found is not None and found.point is not None:
                    best = _Found(_snapped(found.norm), self._rounded(move.two(list(found.point))))
        return self._result(best or _Found(0.0, Two([], [])), True)

    def _rounded(self, two: Two) -> Two:
        """The inputs without the rounding of a linear program."""
        low, high = interval(self.domain)
        sides = (
            [_snapped(round(value / (high - low), 9) * (high - low)) for value in s] for s in (two.left, two.right)
        )
        return Two(*sides)

    def _paths(self, move: NeighbourMove) -> Iterator[Path]:
        """The polyhedra of open values on which both answers are affine."""

        def both(_rng: object, values: Values) -> Any:
            bounds = zip(values, move.low, move.high, strict=True)
            inside = (condition for value, low, high in bounds for condition in (value >= low, value <= high))
            if not all(itertools.chain(inside, move.conditions(values))):
                return None
            two = move.two(values)
            return [self.query(two.left), self.query(two.right)]

        both.__name__ = getattr(self.query, "__name__", "the query")
        for path in explore(Mechanism(both), unknowns("x", len(move.low)), max_paths=MAX_PATHS, functions=False):
            if isinstance(path.output, Raised):
                raise MechanismFailed(f"{both.__name__} {path.output} on some data; return a number there")
            if path.output is not None:
                yield path

    def _symmetric(self, size: int) -> bool:
        """Whether the query gives the same on every order of so many records: two of the orders make all of them."""
        if size < 2:
            return True
        orders = {(1, 0, *range(2, size)), (*range(1, size), 0)}
        turns = [reordering(order, self.domain) for order in orders]
        return not any(_moves_at_all(_image(path, turn)) for turn in turns for path in self._paths(turn))

    # ------------------------------------------------------------------------------------------- trying pairs

    def _answer(self, data: list[Any]) -> _Answer:
        output = self.query(data)
        return _Answer(np.array([_finite(number) for number in _numbers(output)]), outline_of(output))

    def _distance(self, mine: _Answer, theirs: _Answer) -> float:
        if mine.outline != theirs.outline:
            raise _unlike(mine.outline, theirs.outline)
        return float(np.linalg.norm(mine.numbers - theirs.numbers, ord=self.norm)) if len(mine.numbers) else 0.0

    def enumerated(self) -> Sensitivity:
        """Over all data sets of a finite domain, in every order."""
        relation = self.relation
        if not (relation.on_records or relation.single):
            raise BadInput(
                f"a sensitivity under {relation.name} over finitely many values is not supported; give an "
                f"interval (low, high) as the domain, or a relation on records"
            )
        values = list(self.domain)
        if not values:
            raise BadInput("domain must not be empty; give the values that a record may have")
        sizes = [1] if relation.single else range(self.size + 1) if relation.extra else [self.size]
        if sum(len(values) ** size for size in sizes) > MOST_DATA_SETS:
            raise BadInput(
                f"{len(values)} values make more than {MOST_DATA_SETS} data sets of up to {self.size}; give a smaller "
                f"size, or an interval (low, high) as the domain"
            )
        known = {size: self._answers(values, size, ordered=False) for size in sizes}
        ordered = not relation.any_order and any(len(a) > 1 for by in known.values() for a in by.values())
        if ordered:  # else the query does not depend on the order, and multisets are fewer
            known = {size: self._answers(values, size, ordered=True) for size in sizes}
        pairs = _pairs_of_sets(values, sizes, bool(relation.extra), ordered)
        best = _Found(-1.0, Two([], []))
        for left, right in pairs:
            for (mine, first), (theirs, second) in itertools.product(known[len(left)][left], known[len(right)][right]):
                distance = self._distance(mine, theirs)
                if distance > best.value:
                    best = _Found(distance, Two(first, second))
        return self._result(best, True)

    def _answers(
        self, values: list[Any], size: int, ordered: bool
    ) -> dict[tuple[int, ...], list[tuple[_Answer, list[Any]]]]:
        """For each sequence of so many values (their places in the domain), its answer.

        If not `ordered`, for each multiset of them, the different answers over its orders.
        """
        found: dict[tuple[int, ...], list[tuple[_Answer, list[Any]]]] = {}
        for places in itertools.product(range(len(values)), repeat=size):
            data = [values[place] for place in places]
            answer = self._answer(data)
            known = found.setdefault(places if ordered else tuple(sorted(places)), [])
            if not any(answer.same(other) for other, _ in known):
                known.append((answer, data))
        return found

    def searched(self, seed: int, reason: str) -> Sensitivity:
        """The best of random neighbours, many of them at the ends of the domain, and of moves from the best."""
        rng = np.random.default_rng(seed)
        best = _Found(-1.0, Two([], []))
        for move in moves(self.relation, self.size, self.domain, lambda size: True):
            at: Array | None = None
            here = -1.0
            for attempt in range(TRIES):
                point = _tried(move, rng, None if attempt < TRIES // 4 else at)
                if not all(move.conditions(list(point))):
                    continue
                two = move.two([float(value) for value in point])
                distance = self._distance(self._answer(two.left), self._answer(two.right))
                if distance > here:
                    here, at = distance, point
                if distance > best.value:
                    best = _Found(distance, two)
        return self._result(best, False, reason)


def _numbers(output: Any) -> list[Any]:
    """The numbers of an answer, those of a dict by its sorted keys; BadInput where it has other entries."""
    try:
        return entries_of(output)
    except BadOutput as error:
        raise BadInput(f"the query returns {output!r}, which is not a number: {error}") from None


def _unlike(left: Template, right: Template) -> BadInput:
    return BadInput(
        f"the query gives {_shape(left)} on one input and {_shape(right)} on a neighbour; a sensitivity needs as many "
        f"on both, nested alike and under the same keys"
    )


def _shape(outline: Template) -> str:
    count = len(outline.slots)
    return f"{count} numbers" if count > MOST_SHOWN else str(outline)


def _tried(move: NeighbourMove, rng: np.random.Generator, near: Array | None) -> Array:
    """A random point of the box, each value at an end of it as often as not; or a move of a few values from a point."""
    width = move.high - move.low
    ends = np.where(rng.random(len(width)) < 0.5, move.low, move.high)
    fresh = np.where(rng.random(len(width)) < 0.5, ends, move.low + width * rng.random(len(width)))
    if near is None:
        return fresh
    closer = np.clip(near + width * rng.normal(scale=10.0 ** -rng.integers(1, 7), size=len(width)), move.low, move.high)
    return np.where(rng.random(len(width)) < 0.3, np.where(rng.random() < 0.5, fresh, closer), near)


def _pairs_of_sets(
    values: list[Any], sizes: Any, added: bool, ordered: bool
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Neighbouring sequences (if not `ordered`, multisets), by the places of their values in the domain."""
    places = range(len(values))

    def joined(shared: tuple[int, ...], at: int, one: int) -> tuple[int, ...]:
        together = (*shared[:at], one, *shared[at:])
        return together if ordered else tuple(sorted(together))

    for size in sizes:
        if added and size + 1 not in sizes:
            continue
        count = size if added else size - 1
        chosen = (
            itertools.product(places, repeat=count)
            if ordered
            else itertools.combinations_with_replacement(places, count)
        )
        for shared, at in itertools.product(chosen, range(count + 1) if ordered else [0]):
            if added:
                yield from ((shared, joined(shared, at, one)) for one in places)
            else:
                for one, other in itertools.combinations_with_replacement(places, 2):
                    yield joined(shared, at, one), joined(shared, at, other)


# ---------------------------------------------------------------------------------------------- paths as polyhedra


def _image(path: Path, move: NeighbourMove) -> Image:
    """The differences of the two answers over the polyhedron of a path."""
    outlines = [outline_of(output) for output in path.output]
    if outlines[0] != outlines[1]:
        raise _unlike(*outlines)
    left, right = map(_numbers, path.output)
    count = len(move.low)
    rows = [_row(mine, count) - _row(theirs, count) for mine, theirs in zip(left, right, strict=True)]
    inside = [_row(c.slack, count) for c in path.conditions if c.relation in (Relation.AT_LEAST, Relation.ABOVE)]
    level = [_row(c.slack, count) for c in path.conditions if c.relation is Relation.EQUAL]
    differences, within, on = (np.array(r).reshape(-1, count + 1) for r in (rows, inside, level))
    polyhedron = Polyhedron(move.low, move.high, within[:, :-1], -within[:, -1], on[:, :-1], -on[:, -1])
    return Image(polyhedron, differences[:, :-1], differences[:, -1])


def _row(number: Any, count: int) -> Array:
    """The coefficients of the open values, and the constant."""
    row = np.zeros(count + 1)
    if not isinstance(number, Affine):
        row[-1] = _finite(number)
        return row
    row[-1] = _finite(number.constant)
    for symbol, coefficient in number.terms.items():
        if not isinstance(symbol, Unknown):
            raise BadInput(f"the query draws noise ({symbol.name}); a query must be deterministic")
        row[int(symbol.name[2:-1])] = float(coefficient)
    return row


def _finite(number: Any) -> float:
    """The number, as a float; BadInput where it is none, or not finite."""
    try:
        value = float(number)
    except (TypeError, ValueError):
        raise BadInput(f"the query returns {number!r}, which is not a number; return numbers") from None
    if not math.isfinite(value):
        raise BadInput(
            f"the query returns {value!r} on some data, e.g. on the empty data set; return a finite number there"
        )
    return value


def _moves_at_all(image: Image) -> bool:
    return farthest(image, math.inf, 0.0) is not None


def _snapped(value: float) -> float:
    """The value to twelve digits: without the rounding of a linear program."""
    return float(f"{value:.12g}") + 0.0
