"""Records of an interval: all that a mechanism uses of its data, as a few sums over the records.

Data alone decide some conditions, each on one record: they cut its interval into cells. Let the paths on all choices of
a cell for each record be the same but for their data, and let these be sums over the records: in every condition and
released number, what a record adds depends on its own cell alone, and is affine there. Then the mechanism is one of
these sums, for which proofs know what to do; neighbours come in by how far apart their sums can be.

Where that is not so, the sums are the records themselves, and conditions on them are left to the regions of the data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.adjacency import Box, Hull, Polytope
from veridp.engines.prove.events import entry_of
from veridp.engines.prove.regions import is_on_data, regions_of
from veridp.errors import NotExplorable
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine, Condition, function_of
from veridp.kernel.path import Fork, Option, OutputForm, Path, Step, map_leaves
from veridp.kernel.piecewise import Piece, plus, signs
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, Unknown
from veridp.numerics.rational import echelon
from veridp_check.document import MOVES, CertificateFlaw, LinearCondition, LinearForm
from veridp_check.maps import AffinePiece, PiecewiseMap
from veridp_check.records import RecordCell, RecordSums, Seen, Vector, bounds_of, ends_of, sums_of, ways_to_differ

MAX_CHOICES = 20_000  # choices of a cell for each record
MAX_CORNERS = 256  # of the differences of sums; past this they are bounded one by one
ZERO, ONE = Fraction(0), Fraction(1)
Ends = tuple[Fraction, Fraction]


@dataclass(frozen=True, eq=False)
class Summary:
    """A mechanism of sums over records: what the sums are for each size of the data, and its paths on them."""

    sums: tuple[Seen, ...]
    paths: tuple[Path, ...]
    adjacency: str

    @property
    def in_any_order(self) -> bool:
        """Whether the order of the records makes no difference."""
        over_records = [each for each in self.sums if isinstance(each, RecordSums)]
        return all(cells == sums.places[0] for sums in over_records for cells in sums.places)

    def polytopes(self, apart: bool) -> tuple[Polytope, ...]:
        """The differences between neighbours' sums, in both directions; `apart`, one for each way to differ.

        Apart, a difference that every corner has in common is known to proofs; together, there are fewer of them.
        """
        ways = ways_to_differ(self.sums, self.adjacency)
        listed = [sums_of(way, MAX_CORNERS) for way in ways]
        found = [points for points in listed if points is not None]
        if apart and len(found) == len(ways):
            return tuple(dict.fromkeys(_polytope(each) for points in found for each in (points, _negative(points))))
        corners = _both_ways(frozenset().union(*found))
        if len(found) == len(ways) and len(corners) <= MAX_CORNERS:
            return (_polytope(corners),)  # else bounded one by one
        return (Box(*ends_of((_both_ways(frozenset(end for way in ways for end in ends_of(way))),))),)


def _negative(points: frozenset[Vector]) -> frozenset[Vector]:
    return frozenset(tuple(-x for x in point) for point in points)


def _both_ways(points: frozenset[Vector]) -> frozenset[Vector]:
    return points | _negative(points)


def _polytope(points: frozenset[Vector]) -> Polytope:
    """All means of the points: a box where one entry alone moves."""
    low, high = ends_of((points,))
    return Box(low, high) if sum(map(Fraction.__ne__, low, high)) <= 1 else Hull(tuple(sorted(points)))


def summarised(listed: Sequence[Sequence[Path]], size: int, ends: Ends, adjacency: str) -> Summary | None:
    """The mechanism whose paths are listed, for data of this size and maybe one more, as one of sums; None if it is
    none."""
    try:
        grids = [_Grid(paths, size + more, ends) for more, paths in enumerate(listed)]
        return _summary(grids, adjacency)
    except _NotSums:
        return None


def unsummarised(paths: Sequence[Path], size: int, ends: Ends, adjacency: str) -> Summary:
    """The mechanism as it is, its records for sums."""
    units = [tuple({1: ONE} if i == place else {} for i in range(size)) for place in range(size)]
    places = tuple((RecordCell(*ends, "[]", unit),) for unit in units)
    return Summary((RecordSums((ZERO,) * size, places),), tuple(paths), adjacency)


def record_sums(listed: Sequence[Sequence[Path]], start: Sequence[Fraction], ends: Ends) -> RecordSums | None:
    """The sums that the paths of one record, and of two, return in a list, for one record; None where they are none.

    `start` are the sums of no records. Either of two records must add what one does.
    """
    try:
        grids = [_Grid(paths, size, ends) for size, paths in enumerate(listed, start=1)]
        keys = list(grids[0].base)
        one, two = (grid.sums(keys) for grid in grids)
    except _NotSums:
        return None
    alone, both = (_record_sums(grid, mine, mine) for grid, mine in zip(grids, (one, two), strict=True))
    steps = [each.constant - constant for each, constant in zip(one, start, strict=True)]
    twice = [each.constant - constant for each, constant in zip(two, start, strict=True)]
    if len(keys) > 1 or twice != [2 * step for step in steps] or both.places != alone.places * 2:
        return None
    cells = []
    for cell in alone.places[0]:
        terms = [plus(each, {0: step}) for each, step in zip(cell.terms, steps, strict=True)]
        kept = tuple({power: Fraction(c) for power, c in each.items() if c} for each in terms)
        cells.append(RecordCell(cell.low, cell.high, cell.ends, kept))
    return RecordSums(tuple(start), (tuple(cells),))


def bounds_on(sums: Sequence[Seen]) -> list[Condition]:
    """That each sum is between the least and the largest value that it has for records of the domain."""
    found = []
    for bound in bounds_of(sums):
        ((entry, slope),) = bound.slack.data.items()
        found.append(Condition(Affine(bound.slack.constant, {Unknown(f"sum[{entry}]"): slope}), Relation.AT_LEAST))
    return found


class _NotSums(Exception):
    """The mechanism is not one of sums over its records."""


# --------------------------------------------------------------------------------------------------- cells of records


def _own_record(condition: Condition) -> int | None:
    """The record that decides the condition by itself, where it does so along lines."""
    symbols = [symbol for symbol in condition.slack.terms if isinstance(symbol, Unknown)]
    records = {symbol.record for symbol in symbols}
    straight = all(max(piece.terms, default=0) <= 1 for symbol in symbols for piece in symbol.function)
    if len(symbols) < len(condition.slack.terms) or len(records) != 1 or not straight:
        return None
    return entry_of(records.pop())


def _holds(condition: Condition, value: Fraction) -> bool:
    """Whether the record decides so where it has this value."""
    slack = condition.slack.constant
    for symbol, c in condition.slack.terms.items():
        if isinstance(symbol, Unknown):
            slack += c * next(piece.at(value) for piece in symbol.function if piece.has(value))
    return bool(condition.relation.holds(slack))


@dataclass(frozen=True)
class _Cell:
    """An interval of values of a record which all conditions on it take for one, and one of them."""

    low: Fraction
    high: Fraction
    ends: str
    inside: Fraction


def _cells(conditions: Sequence[Condition], ends: Ends) -> list[_Cell]:
    """The cells into which conditions on one record cut its interval, in order."""
    slacks = [function_of(c.slack) for c in conditions]
    cuts = {Fraction(end) for slack in slacks for piece in slack for part in signs(piece) for end in part.bounds[:2]}
    points = sorted({*ends, *(cut for cut in cuts if ends[0] < cut < ends[1])})
    atoms = [(point, point, point) for point in points]
    atoms += [(low, high, (low + high) / 2) for low, high in itertools.pairwise(points)]
    found = []
    for _, group in itertools.groupby(sorted(atoms), key=lambda atom: [_holds(c, atom[2]) for c in conditions]):
        first, *_ = members = list(group)
        last = members[-1]
        closed = f"{'[' if first[0] == first[1] else '('}{']' if last[0] == last[1] else ')'}"
        found.append(_Cell(first[0], last[1], closed, first[2]))
    return found


# ------------------------------------------------------------------------------------------- paths by choices of cells

Choice = tuple[int, ...]  # a cell for each record


class _Grid:
    """The paths of one size of the data, for each choice of cells; `slots` are what depends on data there."""

    def __init__(self, paths: Sequence[Path], size: int, ends: Ends) -> None:
        asked: list[dict[tuple[object, object], Condition]] = [{} for _ in range(size)]
        mine: list[list[list[Condition]]] = []  # of each path, of each record
        for path in paths:
            mine.append([[] for _ in range(size)])
            for condition in path.conditions:
                if (record := _own_record(condition)) is not None:
                    slack = condition.slack
                    key = (condition.relation, (slack.constant, frozenset(slack.terms.items())))
                    mine[-1][record].append(asked[record].setdefault(key, condition))
        self.cells = [_cells(list(conditions.values()), ends) for conditions in asked]
        if math.prod(map(len, self.cells)) > MAX_CHOICES:
            raise _NotSums
        self.skeletons = [Skeleton(path, lambda c: _own_record(c) is not None) for path in paths]
        self.at: dict[Choice, dict[object, Skeleton]] = {}
        for skeleton, conditions in zip(self.skeletons, mine, strict=True):
            allowed = [
                [k for k, cell in enumerate(cells) if all(_holds(c, cell.inside) for c in asked_here)]
                for cells, asked_here in zip(self.cells, conditions, strict=True)
            ]
            for choice in itertools.product(*allowed):
                if self.at.setdefault(choice, {}).setdefault(skeleton.key, skeleton) is not skeleton:
                    raise _NotSums
        if len(self.at) != math.prod(map(len, self.cells)):
            raise _NotSums

    @property
    def base(self) -> dict[object, Skeleton]:
        """The paths where every record is in its first cell."""
        return self.at[(0,) * len(self.cells)]

    def sums(self, keys: Sequence[object]) -> list[_Sum]:
        """What depends on the data, in the order of the keys: each as a sum over the records."""
        for skeletons in self.at.values():
            if skeletons.keys() != set(keys):
                raise _NotSums
        forms = {choice: [form for key in keys for form in here[key].forms] for choice, here in self.at.items()}
        first = (0,) * len(self.cells)
        found = [_Sum(form.constant, [[{}] * len(cells) for cells in self.cells]) for form in forms[first]]
        for record, cells in enumerate(self.cells):
            for cell in range(len(cells)):
                choice = (*first[:record], cell, *first[record + 1 :])
                for each, form in zip(found, forms[choice], strict=True):
                    own = {None: form.constant - each.constant, **form.data.get(record, {})}
                    each.added[record][cell] = {symbol: c for symbol, c in own.items() if c}
        for choice, here in forms.items():
            for each, form in zip(found, here, strict=True):
                if not each.gives(form, choice):
                    raise _NotSums
        return found


Added = Mapping[Unknown | None, Fraction]  # coefficients of functions of a record, and of None for a constant


@dataclass(frozen=True)
class _Form:
    """The part of an expression that is no noise: a constant, and for each record coefficients of functions of it."""

    constant: Fraction
    data: Mapping[int, Added]

    @classmethod
    def of(cls, expression: Affine) -> _Form:
        data: dict[int, dict[Unknown | None, Fraction]] = {}
        for symbol, coefficient in expression.terms.items():
            if isinstance(symbol, Unknown):
                data.setdefault(entry_of(symbol.record), {})[symbol] = Fraction(coefficient)
        return cls(Fraction(expression.constant), data)


@dataclass(frozen=True)
class _Sum:
    """A constant, and what each record adds in each of its cells."""

    constant: Fraction
    added: list[list[Added]]

    def gives(self, form: _Form, choice: Choice) -> bool:
        """Whether it is this form where the records are in these cells."""
        chosen = [cells[k] for cells, k in zip(self.added, choice, strict=True)]
        data = {record: {s: c for s, c in own.items() if s is not None} for record, own in enumerate(chosen)}
        constant = self.constant + sum(own.get(None, ZERO) for own in chosen)
        return constant == form.constant and {r: own for r, own in data.items() if own} == form.data


class Skeleton:
    """A path without the conditions on single records, or on data; its `key` is what is left but for data and
    constants."""

    def __init__(self, path: Path, is_left_out: Callable[[Condition], bool]) -> None:
        self.path, self.is_left_out = path, is_left_out
        self.expressions: list[Affine] = []
        key: list[object] = []
        for step in path.steps:
            if isinstance(step, Noise):
                key.append((step.index, step.distribution))
            elif not step.implied and (kept := self._kept(step)) is not None:
                self.expressions += [condition.slack for condition in kept]
                key.append((step.taken, len(step.options), step.option.weight, tuple(c.relation for c in kept)))
        form = OutputForm.of(path.output)
        self.expressions += form.numbers
        self.key = (*key, form.template, tuple(_noise_of(expression) for expression in self.expressions))
        self.forms = [_Form.of(expression) for expression in self.expressions]

    def _kept(self, fork: Fork) -> tuple[Condition, ...] | None:
        """The conditions of a fork that are not left out; None where these alone decided."""
        kept = tuple(c for c in fork.option.conditions if not self.is_left_out(c))
        return None if fork.option.conditions and not kept else kept

    def on_sums(self, forms: Sequence[Mapping[Symbol, Fraction]]) -> Path:
        """The path with these sums in place of the data of its expressions."""
        new = {
            id(old): Affine(old.constant, {**{s: c for s, c in old.terms.items() if isinstance(s, Noise)}, **sums})
            for old, sums in zip(self.expressions, forms, strict=True)
        }
        steps: list[Step] = []
        for step in self.path.steps:
            if isinstance(step, Fork):
                kept = () if step.implied else self._kept(step)
                if kept is None:
                    continue
                conditions = tuple(Condition(new[id(c.slack)], c.relation) for c in kept)
                step = Fork((Option(conditions, step.option.weight, step.option.label),), 0, step.site)
            steps.append(step)
        return Path(tuple(steps), map_leaves(lambda leaf: new.get(id(leaf), leaf), self.path.output))


def _noise_of(expression: Affine) -> object:
    return frozenset((s, c) for s, c in expression.terms.items() if isinstance(s, Noise))


# ----------------------------------------------------------------------------------------------------------- the sums


def _summary(grids: Sequence[_Grid], adjacency: str) -> Summary:
    keys = list(grids[0].base)
    found = [grid.sums(keys) for grid in grids]
    columns = [_coordinates(together) for together in zip(*found, strict=True)]
    rows = list(dict.fromkeys(name for column in columns for name in column))
    basis = echelon([[column.get(name, ZERO) for column in columns] for name in rows] or [[ZERO]])
    chosen = [[each[k] for k in basis.pivots] for each in found]  # sums that all others are combinations of
    sums = tuple(_record_sums(grid, mine, chosen[0]) for grid, mine in zip(grids, chosen, strict=True))
    if adjacency in MOVES and any(power > 1 for power in _powers(sums)):
        raise _NotSums  # by how much a power moves with its number is not bounded by corners
    entries: list[Symbol] = [Unknown(f"sum[{e}]") for e in range(len(basis.pivots))]
    forms = (
        {entry: row[k] for entry, row in zip(entries, basis.rows, strict=True) if row[k]} for k in range(len(columns))
    )
    paths = [grids[0].base[key] for key in keys]
    on_sums = tuple(path.on_sums(list(itertools.islice(forms, len(path.forms)))) for path in paths)
    return Summary(sums, on_sums, adjacency)


def _powers(sums: Sequence[RecordSums]) -> Iterator[int]:
    cells = (cell for each in sums for place in each.places for cell in place)
    return (power for cell in cells for terms in cell.terms for power in terms)


def _coordinates(sums: Sequence[_Sum]) -> dict[object, Fraction]:
    """A sum over records as a vector: what it is for each size, each record, each cell and each function."""
    found: dict[object, Fraction] = {}
    for size, each in enumerate(sums):
        found[size] = each.constant - sums[0].constant
        for record, cells in enumerate(each.added):
            for cell, own in enumerate(cells):
                found.update({(size, record, cell, symbol): c for symbol, c in own.items()})
    return {name: c for name, c in found.items() if c}


def _record_sums(grid: _Grid, mine: Sequence[_Sum], first: Sequence[_Sum]) -> RecordSums:
    constants = tuple(each.constant - other.constant for each, other in zip(mine, first, strict=True))
    places = []
    for record, cells in enumerate(grid.cells):
        found: list[RecordCell] = []
        for k, cell in enumerate(cells):
            found += _refined(cell, [each.added[record][k] for each in mine])
        places.append(tuple(found))
    return RecordSums(constants, tuple(places))


def _refined(cell: _Cell, added: Sequence[Added]) -> Iterator[RecordCell]:
    """The cell, cut where a function of the record goes over into another piece."""
    cuts = [Piece(cell.low, cell.high, cell.ends, {})]
    symbols = {symbol for each in added for symbol in each if symbol is not None}
    for symbol in symbols:
        parts = [one.within(other, {}) for one in cuts for other in symbol.function]
        cuts = sorted((part for part in parts if not part.is_empty), key=lambda part: (part.low, part.high))
    for cut in cuts:
        here = {s: next(piece.terms for piece in s.function if piece.has(cut.inside)) for s in symbols}
        terms = []
        for each in added:
            total: Mapping[int, Number] = {0: each[None]} if None in each else {}
            for function, c in each.items():
                if function is not None:
                    total = plus(total, {power: a * c for power, a in here[function].items()})
            terms.append({power: Fraction(c) for power, c in total.items()})
        yield RecordCell(Fraction(cut.low), Fraction(cut.high), cut.ends, tuple(terms))


# --------------------------------------------------------------------------------------- continuous functions of data


def mapped(paths: Sequence[Path], size: int, adjacency: str, ends: Ends | None = None) -> Summary | None:
    """The mechanism whose paths are listed as one of a continuous function of its data, or records between the ends,
    that is affine on the regions which data alone tell apart; None where it is none."""
    try:
        regions = regions_of(paths, () if ends is None else _within(size, ends))
        tables = [_table(here) for _, here in regions]
        keys = list(tables[0])
        if any(table.keys() != set(keys) for table in tables):
            return None
        asked = [tuple(map(_on_entries, conditions)) for conditions, _ in regions]
    except (_NotSums, NotExplorable):
        return None
    forms = [[form for key in keys for form in table[key].forms] for table in tables]
    columns = []
    for e, first in enumerate(forms[0]):
        column: dict[object, Fraction] = {(r, None): mine[e].constant - first.constant for r, mine in enumerate(forms)}
        column |= {(r, i): c for r, mine in enumerate(forms) for i, own in mine[e].data.items() for c in own.values()}
        columns.append(column)
    rows = list(dict.fromkeys(name for column in columns for name in column))
    basis = echelon([[column.get(name, ZERO) for column in columns] for name in rows] or [[ZERO]])
    pieces = []
    for r, conditions in enumerate(asked):
        chosen = [columns[k] for k in basis.pivots]
        values = [
            LinearForm({}, {i: c for i in range(size) if (c := column.get((r, i), ZERO))}, column.get((r, None), ZERO))
            for column in chosen
        ]
        pieces.append(AffinePiece(conditions, tuple(values)))
    seen = PiecewiseMap(size, tuple(pieces), ends)
    try:
        seen.check()
    except CertificateFlaw:  # it jumps
        return None
    entries: list[Symbol] = [Unknown(f"sum[{e}]") for e in range(len(basis.pivots))]
    by_entries = (
        {entry: row[k] for entry, row in zip(entries, basis.rows, strict=True) if row[k]} for k in range(len(columns))
    )
    skeletons = [tables[0][key] for key in keys]
    on_values = tuple(each.on_sums(list(itertools.islice(by_entries, len(each.forms)))) for each in skeletons)
    return Summary((seen,), on_values, adjacency)


def _table(paths: Sequence[Path]) -> dict[object, Skeleton]:
    """What the mechanism does on the data of one region."""
    found: dict[object, Skeleton] = {}
    for path in paths:
        skeleton = Skeleton(path, is_on_data)
        symbols = [s for expression in skeleton.expressions for s in expression.terms]
        if any(isinstance(s, Derived) or (isinstance(s, Unknown) and s.source is not None) for s in symbols):
            raise _NotSums
        if found.setdefault(skeleton.key, skeleton) is not skeleton:
            raise _NotSums
    return found


def _within(size: int, ends: Ends) -> list[Condition]:
    """That each record is between the ends."""
    records = [Unknown(f"data[{i}]") for i in range(size)]
    slacks = [
        Affine(-sign * end, {record: sign}) for record in records for sign, end in zip((1, -1), ends, strict=True)
    ]
    return [Condition(slack, Relation.AT_LEAST) for slack in slacks]


def _on_entries(condition: Condition) -> LinearCondition:
    data = {entry_of(s): Fraction(c) for s, c in condition.slack.terms.items() if isinstance(s, Unknown)}
    return LinearCondition(LinearForm({}, data, Fraction(condition.slack.constant)), condition.relation.value)


# ---------------------------------------------------------------------------------------------------- written down


def records_document(seen: RecordSums | PiecewiseMap) -> dict[str, Any]:
    """The sums, or the function that is affine on pieces, as a certificate has them."""
    return _map(seen) if isinstance(seen, PiecewiseMap) else _sums(seen)


def _sums(sums: RecordSums) -> dict[str, Any]:
    places = [[_cell(cell) for cell in place] for place in sums.places]
    return {"constants": [str(c) for c in sums.constants], "places": places}


def _map(function: PiecewiseMap) -> dict[str, Any]:
    def linear(form: LinearForm) -> dict[str, Any]:
        return {"noise": {}, "data": {str(i): str(c) for i, c in form.data.items()}, "constant": str(form.constant)}

    pieces = []
    for piece in function.pieces:
        conditions = [{**linear(condition.slack), "relation": condition.relation} for condition in piece.conditions]
        pieces.append({"conditions": conditions, "values": [linear(value) for value in piece.values]})
    return {"pieces": pieces}


def _cell(cell: RecordCell) -> dict[str, Any]:
    terms = [{str(power): str(c) for power, c in each.items()} for each in cell.terms]
    return {"low": str(cell.low), "high": str(cell.high), "ends": cell.ends, "terms": terms}
