"""Relations on data sets, which are collections of records, and on the single value of one person."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.adjacency.base import Adjacency, Domain, Pair, check_size, extremes, interval_ends, is_interval, register
from veridp.adjacency.polytope import Box, Patch, Polytope, box_of
from veridp.errors import BadInput

MANY_PAIRS = 10_000  # past this, pairs of a finite domain are not listed in full
NAN = "not a number"  # stands for NaN where records are compared
MANY_POSITIONS = 16  # past this, records are replaced at the start, in the middle and at the end alone


def _surplus(left: object, right: object) -> tuple[int, int] | None:
    """How many records only the left has, and only the right; None where either is not a collection of records."""
    try:
        before, after = Counter(_records(left)), Counter(_records(right))
    except TypeError:
        return None
    return (before - after).total(), (after - before).total()


def _records(data: object) -> list[object]:
    """The records of a data set: entries of a collection, items of a mapping, rows of an array or a data frame."""
    if isinstance(data, Mapping):
        return [_plain(item) for item in data.items()]
    return [_plain(record) for record in rows_of(data)]


def rows_of(data: Any) -> Iterable[Any]:
    """The rows of a data frame of pandas or polars, as tuples; else the entries of the data."""
    if hasattr(data, "itertuples"):
        return data.itertuples(index=False, name=None)  # type: ignore[no-any-return]
    return data.iter_rows() if hasattr(data, "iter_rows") else data  # type: ignore[no-any-return]


class Rows(Sequence[Any]):
    """A domain of rows: data are frames of such rows, with the columns and types of an example.

    The example is a frame of pandas or polars, or a function of a generator that draws one. Its rows are the values of
    the domain, each once, and each also with the least and the greatest value of every column that has `bounds`.
    """

    def __init__(self, example: Any, *, seed: int = 0, **bounds: tuple[Any, Any]) -> None:
        drawn = example(np.random.default_rng(seed)) if callable(example) else example
        if not is_frame(drawn):
            raise BadInput(f"rows: {type(drawn).__name__} is not a data frame; give one of pandas or polars")
        names = list(drawn.columns)
        unknown = [name for name in bounds if name not in names]
        if unknown:
            raise BadInput(f"rows: there is no column {unknown[0]!r}; the columns are {', '.join(map(str, names))}")
        rows = [tuple(_scalar(entry) for entry in row) for row in rows_of(drawn)]
        for name, ends in bounds.items():
            place = names.index(name)
            rows += [(*row[:place], end, *row[place + 1 :]) for row in rows for end in interval_ends(ends)]
        self.example, self.rows = drawn, list(dict.fromkeys(rows))

    def frame(self, rows: Sequence[Any]) -> Any:
        """The frame of these rows."""
        columns = {name: [row[k] for row in rows] for k, name in enumerate(self.example.columns)}
        made = type(self.example)(columns)
        if hasattr(made, "astype"):
            return made.astype(dict(self.example.dtypes))
        return made.cast(dict(self.example.schema))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __repr__(self) -> str:
        return f"{len(self)} rows of {', '.join(map(str, self.example.columns))}"


def is_frame(data: object) -> bool:
    """Whether this is a data frame of pandas or polars."""
    return hasattr(data, "columns") and (hasattr(data, "itertuples") or hasattr(data, "iter_rows"))


def _scalar(entry: Any) -> Any:
    return entry.item() if isinstance(entry, np.generic) else entry


def _plain(record: object) -> object:
    """The record with tuples for lists and arrays, so that records can be compared and counted; NaN equals itself."""
    if isinstance(record, list | tuple | np.ndarray):
        return tuple(map(_plain, record))
    return NAN if isinstance(record, float) and record != record else record


def _has_order(data: object) -> bool:
    return not isinstance(data, Set | Mapping)


class _Records(Adjacency):
    """Relations on data sets, which are collections of records.

    Each comes in two kinds. In the ordered one the records that two neighbours share stand in the same order: it suits
    lists and tables whose order means something. In the unordered one a data set is a multiset, so a neighbour may also
    list the shared records in another order: a mechanism that depends on their order has to hide that too. For a
    mechanism that does not depend on the order the two are the same. Sets and mappings have no order in either.
    """

    listable = True
    on_records = True
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
        check_size(size)
        return [extremes(domain)[0]] * size

    def __str__(self) -> str:
        return f"{self.name} ({self.order})"


class _Unordered(_Records):
    """The unordered kind of the relation that it is mixed into."""

    aliases: tuple[str, ...] = ()
    order = "records in any order"
    any_order = True
    within_one_part = False  # the order of shared records may show in every part

    @property
    def ordered_name(self) -> str:
        return super().name

    def _adjacent_in_order(self, left: object, right: object) -> bool:
        return _surplus(left, right) in self._allowed

    def random_neighbour(self, data: Any, values: Sequence[Any], rng: np.random.Generator) -> Any:
        return super().random_neighbour([data[place] for place in rng.permutation(len(data))], values, rng)

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """The pairs of the ordered kind, and pairs whose shared records stand in another order."""
        ordered = list(super().pairs(size, domain))  # type: ignore[safe-super]
        yield from ordered
        seen = {(repr(pair.left), repr(pair.right)) for pair in ordered}
        for pair in _reordered(size, *extremes(domain)):
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
    """The records of both, the fewer first; None where either is not a collection of records."""
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


@register
class AddOrRemoveRecord(_Records):
    """One data set has at most one record more than the other, and the others in the same order."""

    name = "add-remove"
    aliases: tuple[str, ...] = ("add-remove-ordered",)
    order = "order kept"
    extra = 1
    within_one_part = True
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
        check_size(size)
        low, high = extremes(domain)
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

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        return [self._inserting(size, place, domain) for place in range(size + 1)]

    def _inserting(self, size: int, place: int, domain: tuple[float, float]) -> Patch:
        """right has a record more, at this place."""
        every = np.eye(size + 1)
        order = [*range(place), size, *range(place, size)]
        return Patch(f"record {place + 1} added", every[:size], every[order], *box_of(size + 1, domain), domain)

    def random_neighbour(self, data: Any, values: Sequence[Any], rng: np.random.Generator) -> Any:
        place = int(rng.integers(len(data) + 1))
        return [*data[:place], values[int(rng.integers(len(values)))], *data[place:]]


@register
class AddOrRemoveRecordUnordered(_Unordered, AddOrRemoveRecord):
    """One data set has at most one record more than the other, whatever the order of the records."""

    name = "add-remove-unordered"


@register
class ReplaceRecord(_Records):
    """One record of the data set is replaced by another, and the others stay in their positions."""

    name = "replace"
    aliases: tuple[str, ...] = ("replace-ordered",)
    order = "position by position"
    _allowed = ((0, 0), (1, 1))

    def _adjacent_in_order(self, left: object, right: object) -> bool:
        both = _in_order(left, right)
        if both is None or len(both[0]) != len(both[1]):
            return False
        return sum(mine != theirs for mine, theirs in zip(*both, strict=True)) <= 1

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        check_size(size)
        low, high = extremes(domain)
        for rest, other, which in ((low, high, "lowest"), (high, low, "highest")):
            for place, where in _positions(size).items():
                right = [rest] * size
                right[place] = other
                pair = Pair([rest] * size, right, f"all {which}, {where} replaced")
                yield pair
                yield pair.reversed()

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        return [self._replacing(size, place, domain) for place in range(size)]

    def _replacing(self, size: int, place: int, domain: tuple[float, float]) -> Patch:
        every = np.eye(size + 1)
        order = [*range(place), size, *range(place + 1, size)]
        return Patch(f"record {place + 1} replaced", every[:size], every[order], *box_of(size + 1, domain), domain)

    def random_neighbour(self, data: Any, values: Sequence[Any], rng: np.random.Generator) -> Any:
        return self._with_moves(data, values, [int(rng.integers(len(data)))], rng)


@register
class ReplaceRecordUnordered(_Unordered, ReplaceRecord):
    """One record of the data set is replaced by another, whatever the order of the records."""

    name = "replace-unordered"


@register
class AnyTwoValues(Adjacency):
    """Any two values are neighbours (local differential privacy: the input is one person's value)."""

    name = "any"
    listable = True
    single = True

    def adjacent(self, left: object, right: object) -> bool:
        return True

    def example(self, size: int, domain: Domain) -> object:
        return extremes(domain)[0]

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """All ordered pairs of a finite domain while they are few; else every value against the first and the last."""
        low, high = extremes(domain)
        if is_interval(domain):
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

    def polytopes(self, size: int, domain: Domain) -> tuple[Polytope, ...] | None:
        """Two numbers of an interval are as far apart as it is long; no polytope for other domains."""
        match domain:
            case (int() | float() as low, int() | float() as high) if is_interval(domain) and low < high:
                width = Fraction(high) - Fraction(low)
                return (Box((-width,), (width,)),)
        return None

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        both = np.eye(2)
        return [Patch("any two values", both[:1], both[1:], *box_of(2, domain), domain, scalar=True)]

    def random_neighbour(self, data: Any, values: Sequence[Any], rng: np.random.Generator) -> Any:
        return values[int(rng.integers(len(values)))]
