"""Neighbouring data for a program: from an example and an adjacency, the inputs on which programs go wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.adjacency import Adjacency, Domain, Pair, Rows
from veridp.adjacency.base import extremes, is_interval
from veridp.adjacency.records import is_frame, rows_of
from veridp.errors import BadInput
from veridp.mechanism import Mechanism

MAX_PLACES = 4  # of a data set where records are removed or replaced
MAX_VALUES = 4  # of a column, or of a listed domain, that are tried
MAX_LISTED_PAIRS = 16  # of those that the mechanism lists
LARGE = (2**31, 2**53 + 1, 2**63)  # where 32-bit integers, floats and 64-bit integers end
A_LARGE = "a large integer"
UNSEEN = "unseen category"


@dataclass(frozen=True)
class TrialValue:
    """A record that may stand in the data, what is special about it, and whether the stated domain holds it."""

    record: Any
    name: str
    inside: bool = True


@dataclass(frozen=True)
class Table:
    """Data as a list of records, and back."""

    build: Callable[[Sequence[Any]], Any]
    example: tuple[Any, ...]
    values: tuple[TrialValue, ...]

    @classmethod
    def of(cls, example: Any, domain: Domain, assumed: bool, size: int) -> Table:
        """The table of an example; of the domain alone, and this size, where there is none. `assumed`: whether nobody
        stated the domain, so that any value may stand in the data."""
        if is_frame(example):
            rows = [tuple(row) for row in rows_of(example)]
            return cls(_frames(example), tuple(rows), tuple(_row_values(rows)))
        if isinstance(domain, Rows):
            return cls(list, tuple(itertools.islice(itertools.cycle(domain), size)), tuple(_row_values(list(domain))))
        build: Callable[[Sequence[Any]], Any] = list
        records = () if example is None else tuple(example)
        if isinstance(example, np.ndarray):
            build = _arrays(example)
            records = tuple(tuple(row) if isinstance(row, list) else row for row in example.tolist())
        if records and all(isinstance(record, tuple | list) for record in records):
            return cls(build, records, tuple(_row_values([tuple(record) for record in records])))
        if records and assumed and not all(isinstance(record, int | float) for record in records):
            domain = list(dict.fromkeys(records))  # categories: the numbers that are assumed are none
        return cls(build, records, tuple(_plain_values(records, domain, assumed)))


def _arrays(example: Any) -> Callable[[Sequence[Any]], Any]:
    """Arrays of the kind of numbers, or of whatever the example holds, where it can hold the records."""
    width = example.shape[1:]

    def build(records: Sequence[Any]) -> Any:
        if not records:
            return np.empty((0, *width), dtype=example.dtype)
        made = np.array(list(records))
        with np.errstate(invalid="ignore"):
            kept = made.astype(example.dtype) if made.dtype.kind in "biuf" and example.dtype.kind in "biuf" else made
        return kept if np.array_equal(kept, made, equal_nan=kept.dtype.kind == "f") else made

    return build


def _frames(example: Any) -> Callable[[Sequence[Any]], Any]:
    rows = Rows(example)

    def build(records: Sequence[Any]) -> Any:
        try:
            return rows.frame(records)
        except (TypeError, ValueError, OverflowError):  # a value that the column cannot hold: as pandas would read it
            columns = {name: [record[k] for record in records] for k, name in enumerate(example.columns)}
            return type(example)(columns)

    return build


def _plain_values(records: Sequence[Any], domain: Domain, assumed: bool) -> Iterator[TrialValue]:
    """Values of records that are single numbers or categories."""
    low, high = extremes(domain)
    listed = [] if is_interval(domain) else list(domain)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (low, high))
    yield TrialValue(high, "the greatest value")
    yield TrialValue(low, "the least value")
    for value in listed[1 : MAX_VALUES - 1]:
        yield TrialValue(value, f"{value!r}")
    if records:
        yield TrialValue(records[0], "a duplicate")
    if numeric:
        width = high - low  # type: ignore[operator]
        middle = (low + high) / 2  # type: ignore[operator]
        yield TrialValue(middle, "a middle value", is_interval(domain))
        yield TrialValue(high + 10 * width, "a value above the bounds", assumed)
        yield TrialValue(low - 10 * width, "a value below the bounds", assumed)
        yield TrialValue(math.nan, "NaN", assumed)
        yield from (TrialValue(large, A_LARGE, assumed) for large in LARGE)
    elif isinstance(low, str):
        yield TrialValue(UNSEEN, "an unseen category", assumed)


def _row_values(rows: list[tuple[Any, ...]]) -> Iterator[TrialValue]:
    """Rows of a table: those of the example, and with each column at its extremes, or at what it never held."""
    if not rows:
        return
    yield TrialValue(rows[0], "a duplicate row")
    for place in range(len(rows[0])):
        column = [row[place] for row in rows if row[place] is not None and row[place] == row[place]]
        if not column:
            continue
        for value, name in _column_values(column):
            yield TrialValue((*rows[0][:place], value, *rows[0][place + 1 :]), f"{name} in column {place + 1}")
    if all(isinstance(entry, int | float) for entry in rows[0]):
        columns = [[row[place] for row in rows] for place in range(len(rows[0]))]
        yield TrialValue(tuple(max(column) for column in columns), "the greatest value in every column")
        yield TrialValue(tuple(1e6 for _ in columns), "a large value in every column")
    for row in rows[1:MAX_VALUES]:
        yield TrialValue(row, "a duplicate row")


def _column_values(column: list[Any]) -> Iterator[tuple[Any, str]]:
    if isinstance(column[0], str):
        yield UNSEEN, "an unseen category"
        yield from ((value, f"{value!r}") for value in sorted(set(column))[:MAX_VALUES])
        return
    if not isinstance(column[0], int | float) or isinstance(column[0], bool):
        return
    low, high = min(column), max(column)
    yield math.nan, "NaN"
    yield high + 10 * (high - low + 1), "a value above all others"
    yield low - 10 * (high - low + 1), "a value below all others"
    yield high, "the greatest value"
    yield low, "the least value"
    yield 2**53 + 1, A_LARGE


# --------------------------------------------------------------------------------------------------------------- pairs


def neighbours(table: Table, mechanism: Mechanism) -> Iterator[Pair]:
    """Pairs worth trying: those that the mechanism lists, and changes of the example and of small data sets. Each once.

    The ones that the stated domain does not hold come last, and say so.
    """
    relation = mechanism.adjacency
    seen = set[tuple[str, str]]()
    outside = []
    for made, inside in _made(table, mechanism):
        key = repr(made.left), repr(made.right)
        if key[0] == key[1] or key in seen:
            continue
        seen.add(key)
        try:
            pair = Pair(table.build(made.left), table.build(made.right), made.pattern) if relation.on_records else made  # type: ignore[arg-type]
            adjacent = relation.adjacent(pair.left, pair.right)
        except (TypeError, ValueError, OverflowError, BadInput):
            continue
        if adjacent and inside:
            yield pair
        elif adjacent:
            outside.append(Pair(pair.left, pair.right, f"{pair.pattern}, outside the stated domain"))
    yield from outside


def _made(table: Table, mechanism: Mechanism) -> Iterator[tuple[Pair, bool]]:
    relation, size = mechanism.adjacency, mechanism.size
    listed = itertools.islice(mechanism.pairs(size, mechanism.domain), MAX_LISTED_PAIRS)
    if not relation.on_records:
        yield from ((pair, True) for pair in listed)
        return
    if not table.example:
        yield from ((pair, True) for pair in listed)
    bases = list(_bases(table, size))
    yield from _changes(*bases[0], table.values, relation)
    rest = [_changes(name, base, table.values, relation) for name, base in bases[1:]]
    more = [_further_changes(name, base, table.values, relation) for name, base in bases]
    for group in itertools.zip_longest(*rest, *more):  # one of each in turn: there may be no time for all
        yield from filter(None, group)


def _bases(table: Table, size: int) -> Iterator[tuple[str, list[Any]]]:
    """Data sets that are changed: the example, none, one record, a large one too, all different, and all the same."""
    inside = [value.record for value in table.values if value.inside]
    if table.example:
        yield "the example", list(table.example)
    yield "no records", []
    different = list({repr(record): record for record in inside}.values())
    if len(different) > 2:
        yield "different records", different[1:]
    for record in inside[:2]:
        yield "one record", [record]
    yield from (("one record", [value.record]) for value in table.values if value.inside and value.name == A_LARGE)
    length = len(table.example) or size
    for record in inside[:2]:
        yield "records all the same", [record] * length
    if len(inside) > 1:
        yield "ties", [inside[place % 2] for place in range(length)]


def _changes(
    name: str, base: list[Any], values: Sequence[TrialValue], relation: Adjacency
) -> Iterator[tuple[Pair, bool]]:
    """The data set with each value added, or in place of its first record; without a record; in another order."""
    for value in values:
        if relation.extra:
            yield Pair(base, [*base, value.record], f"{name}, {value.name} added"), value.inside
        elif base:
            yield _replaced(name, base, 0, value), value.inside
    for place in _places(base) if relation.extra else []:
        yield Pair(base, [*base[:place], *base[place + 1 :]], f"{name}, record {place + 1} removed"), True
    if relation.any_order:
        yield Pair(base, base[::-1], f"{name}, in reverse order"), True


def _further_changes(
    name: str, base: list[Any], values: Sequence[TrialValue], relation: Adjacency
) -> Iterator[tuple[Pair, bool]]:
    """The same the other way round, and at other places."""
    for pair, inside in _changes(name, base, values, relation):
        yield pair.reversed(), inside
    for value in values:
        for place in _places(base):
            pair = _replaced(name, base, place, value)
            yield pair, value.inside
            yield pair.reversed(), value.inside


def _replaced(name: str, base: list[Any], place: int, value: TrialValue) -> Pair:
    changed = [*base[:place], value.record, *base[place + 1 :]]
    return Pair(base, changed, f"{name}, record {place + 1} replaced by {value.name}")


def _places(base: list[Any]) -> list[int]:
    """The first, the last and the middle record, and some more."""
    few = [0, len(base) - 1, len(base) // 2, *range(len(base))] if base else []
    return list(dict.fromkeys(few))[:MAX_PLACES]


# ----------------------------------------------------------------------------------------------------------- shrinking


def simpler(left: Sequence[Any], right: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The records of a pair with fewer of them, or with simpler values in them; the boldest first."""
    mine, theirs = list(left), list(right)
    size = min(len(mine), len(theirs))
    length = max(size // 2, 1)
    while length:
        for start in range(0, size, length):
            for shift in (0, len(theirs) - len(mine)):  # records after one that was added stand further on
                end = min(start + length, size)
                there = slice(max(start + shift, 0), end + shift)
                if repr(mine[start:end]) == repr(theirs[there]):
                    yield [*mine[:start], *mine[end:]], [*theirs[: there.start], *theirs[there.stop :]]
        length //= 2
    for place in range(max(len(mine), len(theirs))):
        sides = [side[place] if place < len(side) else None for side in (mine, theirs)]
        for side in (0, 1):
            for value in _simpler_values(sides[side]):
                trial = [list(mine), list(theirs)]
                for other in (0, 1):
                    alike = other == side or repr(sides[other]) == repr(sides[side])
                    if alike and place < len(trial[other]):
                        trial[other][place] = value
                yield trial[0], trial[1]


def _simpler_values(value: Any) -> Iterator[Any]:
    """Simpler values of the same kind."""
    if isinstance(value, tuple | list):
        for place, entry in enumerate(value):
            yield from (type(value)([*value[:place], new, *value[place + 1 :]]) for new in _simpler_values(entry))
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        options = [0, 1, round(value)] if abs(value) < 2**53 else [0, 1]
        yield from (
            type(value)(new) for new in options if abs(new) < abs(value) or (new != value and new == round(value))
        )
