"""Outputs: what a mechanism returned, many times over, by columns. One representation for all engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.output import DTYPES, Kind, Raised, Slot, Template, leaf_kind, mark_not_finite
from veridp.kernel.returned import identity

Rows = slice | NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Outputs:
    """`count` outputs, independent and in the order of their draws.

    Row i has the form `templates[codes[i]]`; its numbers are the i-th entries of the columns that the form's slots
    name. A row comes back as a plain Python value that can be hashed: lists, tuples and arrays as tuples, a dict as the
    `Pairs` of its keys and values sorted by key, a run that raised as `Raised`. `reading` tells how they were drawn,
    `notes` why no other reading was used.
    """

    codes: NDArray[np.unsignedinteger[Any]]
    templates: tuple[Template, ...]
    columns: Mapping[Slot, NDArray[Any]] = field(default_factory=dict)
    reading: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, key: int) -> Any: ...
    @overload
    def __getitem__(self, key: slice | NDArray[Any]) -> Outputs: ...
    def __getitem__(self, key: int | slice | NDArray[Any]) -> Any:
        """The row at an index; or the Outputs of a slice, of a mask, or of an array of indices."""
        if isinstance(key, slice | np.ndarray):
            columns = {slot: column[key] for slot, column in self.columns.items()}
            return replace(self, codes=self.codes[key], columns=columns)
        template = self.templates[int(self.codes[key])]
        return template.fill({slot: self.columns[slot][key].item() for slot in template.slots})

    def __iter__(self) -> Iterator[Any]:
        columns = {slot: column.tolist() for slot, column in self.columns.items()}
        for index, code in enumerate(self.codes.tolist()):
            template = self.templates[code]
            yield template.fill({slot: columns[slot][index] for slot in template.slots})

    def __eq__(self, other: object) -> bool:
        """Whether all rows are the same, as `identity` has it."""
        return self.agrees(other) if isinstance(other, Outputs) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(self[index]) for index in range(min(len(self), 3)))
        more = ", ..." if len(self) > 3 else ""
        return f"<{len(self)} outputs{f' by {self.reading}' if self.reading else ''}: {shown}{more}>"

    # ------------------------------------------------------------------------------------------ as matrices

    @cached_property
    def width(self) -> int:
        """The largest number of leaves of an output."""
        return max((len(template.leaves) for template in self.templates), default=0)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All strings that occur as leaves, sorted; `matrix` gives a string as its place here."""
        return tuple(sorted({leaf for form in self.templates for leaf in form.leaves if isinstance(leaf, str)}))

    def matrix(self, missing: float = np.nan) -> NDArray[np.float64]:
        """A row of numbers for each output, a column for each leaf from left to right.

        Truth values are 0 and 1, strings their place in `vocabulary`; NaN and infinities are themselves. None, what is
        absent and a run that raised are `missing`. `kinds` tells them all apart.
        """
        place = {text: float(index) for index, text in enumerate(self.vocabulary)}
        table = np.full((max(len(self.templates), 1), self.width), missing, dtype=np.float64)
        for code, template in enumerate(self.templates):
            for position, leaf in enumerate(template.leaves):
                if not isinstance(leaf, Slot | Raised) and leaf is not None:
                    table[code, position] = place[leaf] if isinstance(leaf, str) else leaf
        numbers: NDArray[np.float64] = table[self.codes]
        for template, rows in self.forms():
            for position, leaf in enumerate(template.leaves):
                if isinstance(leaf, Slot):
                    numbers[rows, position] = self.columns[leaf][rows]
        return numbers

    def kinds(self) -> NDArray[np.uint8]:
        """The `Kind` of each entry of `matrix`, by its value; NaN and the infinities have their own."""
        table = np.full((max(len(self.templates), 1), self.width), Kind.ABSENT.value, dtype=np.uint8)
        for code, template in enumerate(self.templates):
            table[code, : len(template.leaves)] = [leaf_kind(leaf).value for leaf in template.leaves]
        kinds: NDArray[np.uint8] = table[self.codes]
        mark_not_finite(self.matrix(), kinds)
        return kinds

    def lengths(self) -> NDArray[np.int64]:
        """The number of leaves of each output."""
        table = np.array([len(template.leaves) for template in self.templates] or [0], dtype=np.int64)
        lengths: NDArray[np.int64] = table[self.codes]
        return lengths

    def outlines(self) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
        """For each output the code of its nesting, and the nestings: tuples with None for every leaf."""
        known: dict[Any, int] = {}
        table = [known.setdefault(template.outline, len(known)) for template in self.templates]
        codes: NDArray[np.int64] = np.array(table or [0], dtype=np.int64)[self.codes]
        return codes, tuple(known)

    def forms(self) -> Iterator[tuple[Template, Rows]]:
        """Each template that occurs, with its rows."""
        if len(self.templates) == 1:
            yield self.templates[0], slice(None)
            return
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.templates)))
        start = 0
        for template, end in zip(self.templates, ends.tolist(), strict=True):
            if end > start:
                yield template, order[start:end]
            start = end

    # -------------------------------------------------------------------------------------------- counting

    def grouped(self, most: int) -> tuple[Outputs, NDArray[np.intp]] | None:
        """One row of each different output, and for every row the place of its like; None if more than `most` differ.

        Whatever is computed for the few rows holds for all of them. Outputs of different types are different here.
        """
        columns = [self.columns[slot] for slot in {slot: None for form in self.templates for slot in form.slots}]
        if len(self.templates) > most or any(map(_mostly_different, columns)):
            return None
        codes, bound = self.codes.astype(np.intp), max(len(self.templates), 1)
        for column in columns:
            numbers, distinct = _numbered(column)
            if bound * distinct > 2**62:
                codes, bound = _renumbering(codes, bound)
            codes, bound = codes * distinct + numbers, bound * distinct
        places, bound = _renumbering(codes, bound)
        if bound > most:
            return None
        examples = np.empty(bound, dtype=np.intp)
        examples[places] = np.arange(len(places))
        return self[examples], places

    def distinct(self) -> OutputCounts:
        """How often each output occurs."""
        counts = OutputCounts()
        add = counts.add
        if any(template.slots for template in self.templates):
            for template, rows in self.forms():
                for value, times in _distinct_rows(template, {s: self.columns[s][rows] for s in template.slots}):
                    add(value, times or (len(self) if isinstance(rows, slice) else len(rows)))
        else:
            occurring = np.bincount(self.codes, minlength=len(self.templates)).tolist()
            for template, times in zip(self.templates, occurring, strict=True):
                if times:
                    add(template.tree, times)
        return counts

    # ------------------------------------------------------------------------------------------ comparison

    def agrees(self, other: Outputs, tolerance: float = 0.0) -> bool:
        """Whether all rows are the same, floats within this relative tolerance."""
        return len(self) == len(other) and self.first_difference(other, tolerance) is None

    def first_difference(self, other: Outputs, tolerance: float = 0.0) -> int | None:
        """The first row (of as many as both have) that is not the same in the other; None if there is none."""
        size = min(len(self), len(other))
        pairs = self.codes[:size].astype(np.int64) * max(len(other.templates), 1) + other.codes[:size]
        differs = np.zeros(size, dtype=np.bool_)
        for pair in np.unique(pairs).tolist():
            rows = np.flatnonzero(pairs == pair)
            ours, theirs = divmod(pair, max(len(other.templates), 1))
            differs[rows] = _differing(self, self.templates[ours], other, other.templates[theirs], rows, tolerance)
        return int(np.argmax(differs)) if differs.any() else None


class OutputCounts(Mapping[Any, int]):
    """How often each output occurs, by its identity: True and 1 are two, 1 and 1.0 are one."""

    def __init__(self) -> None:
        self._outputs: dict[Template, Any] = {}
        self._times: dict[Template, int] = {}

    def add(self, output: Any, times: int) -> None:
        """Count an output, given as a row of Outputs."""
        key = Template(output)
        self._outputs.setdefault(key, output)
        self._times[key] = self._times.get(key, 0) + times

    def __getitem__(self, output: object) -> int:
        return self._times[identity(output)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._outputs.values())

    def __len__(self) -> int:
        return len(self._times)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        theirs = other._times if isinstance(other, OutputCounts) else {identity(key): other[key] for key in other}
        return self._times == theirs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{output!r}: {self._times[key]}' for key, output in self._outputs.items())}}}"


def _distinct_rows(template: Template, numbers: Mapping[Slot, NDArray[Any]]) -> Iterator[tuple[Any, int]]:
    """The distinct outputs of one form with their counts; a count of 0 says that all rows are this one."""
    if not template.slots:
        yield template.tree, 0
        return
    codes, bound = np.zeros(len(numbers[template.slots[0]]), dtype=np.int64), 1
    for slot in template.slots:
        column, distinct = _numbered(numbers[slot])
        if bound * distinct > 2**62:
            codes, bound = _renumbering(codes, bound)
        codes, bound = codes * distinct + column, bound * distinct
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    chosen = {slot: numbers[slot][first].tolist() for slot in template.slots}
    for index, times in enumerate(counts.tolist()):
        yield template.fill({slot: column[index] for slot, column in chosen.items()}), times


def _mostly_different(column: NDArray[Any]) -> bool:
    """Whether the first entries differ so much that all of them will."""
    first = column[:512]
    return column.dtype == np.float64 and len(np.unique(first)) > max(16, len(first) // 2)


def _renumbering(codes: NDArray[np.intp], bound: int) -> tuple[NDArray[np.intp], int]:
    """The codes as 0, 1, ... in their order, and how many there are."""
    if bound > max(2**12, 4 * len(codes)):  # a table of them all would take longer than to sort
        values, places = np.unique(codes, return_inverse=True)
        return places.astype(np.intp, copy=False), len(values)
    occurs = np.bincount(codes, minlength=bound) > 0
    return (np.cumsum(occurs) - 1)[codes], int(np.count_nonzero(occurs))


def _numbered(column: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """The column as small integers, equal where it is equal, and a bound on them."""
    if column.dtype == np.bool_:
        return column.astype(np.int64), 2
    if column.dtype == np.int64 and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < 2**20:
            return column - low, high - low + 1
    values, inverse = np.unique(column, return_inverse=True)
    return inverse.astype(np.int64, copy=False), max(len(values), 1)


def _differing(
    left: Outputs, ours: Template, right: Outputs, theirs: Template, rows: NDArray[np.intp], tolerance: float
) -> NDArray[np.bool_]:
    """Which of the rows, all of our form on the left and of theirs on the right, are not the same."""
    if ours.outline != theirs.outline:
        return np.ones(len(rows), dtype=np.bool_)
    differs = np.zeros(len(rows), dtype=np.bool_)
    for one, two in zip(ours.leaves, theirs.leaves, strict=True):
        kinds = {leaf_kind(one), leaf_kind(two)}
        if len(kinds) > 1 and not kinds <= {Kind.INT, Kind.FLOAT}:
            return np.ones(len(rows), dtype=np.bool_)
        here = left.columns[one][rows] if isinstance(one, Slot) else one
        there = right.columns[two][rows] if isinstance(two, Slot) else two
        if Kind.FLOAT in kinds and tolerance:
            differs |= ~np.isclose(here, there, rtol=tolerance, atol=tolerance, equal_nan=True)  # type: ignore[arg-type]
        else:
            differs |= _unequal(here, there, exactly=len(kinds) > 1)
    return differs


def _unequal(here: Any, there: Any, exactly: bool) -> NDArray[np.bool_]:
    """Where values differ; NaN equals NaN. `exactly`: an integer is not rounded to be compared with a float."""
    if exactly:
        here, there = np.asarray(here, dtype=object), np.asarray(there, dtype=object)
    return np.asarray((here != there) & ((here == here) | (there == there)), dtype=np.bool_)


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """All rows of the parts, in order."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Outputs(np.zeros(0, dtype=np.uint8), ())
    known: dict[Template, int] = {}
    tables = [[known.setdefault(template, len(known)) for template in part.templates] for part in parts]
    dtype = code_type(len(known))
    codes = [_renumbered(part.codes, table, dtype) for table, part in zip(tables, parts, strict=True)]
    slots = {slot: None for part in parts for slot in part.columns}
    columns = {slot: np.concatenate([_column(part, slot) for part in parts]) for slot in slots}
    return Outputs(np.concatenate(codes), tuple(known), columns, parts[0].reading)


@dataclass(frozen=True)
class OutputRows:
    """Rows of one form: their places among all rows (None for all of them), and their numbers."""

    template: Template
    rows: NDArray[np.intp] | None
    columns: Mapping[Slot, NDArray[Any]]


def assemble(parts: Sequence[OutputRows], count: int) -> Outputs:
    """The `count` rows that the parts make up together, in memory of their own."""
    known: dict[Template, int] = {}
    for part in parts:
        known.setdefault(part.template, len(known))
    codes: NDArray[np.unsignedinteger[Any]] = np.zeros(count, dtype=code_type(len(known)))
    columns: dict[Slot, NDArray[Any]] = {}
    for part in parts:
        if part.rows is None:
            return Outputs(codes, (part.template,), {slot: column.copy() for slot, column in part.columns.items()})
        codes[part.rows] = known[part.template]
        for slot, numbers in part.columns.items():
            if slot not in columns:
                columns[slot] = np.zeros(count, dtype=DTYPES[slot.kind])
            columns[slot][part.rows] = numbers
    return Outputs(codes, tuple(known), columns)


def _renumbered(
    codes: NDArray[np.unsignedinteger[Any]], table: list[int], dtype: type[np.unsignedinteger[Any]]
) -> NDArray[np.unsignedinteger[Any]]:
    """The codes in a new numbering; by pieces, since an index takes eight bytes while it is used."""
    numbers, renumbered = np.array(table, dtype=dtype), np.empty(len(codes), dtype=dtype)
    for start in range(0, len(codes), PIECE):
        renumbered[start : start + PIECE] = numbers[codes[start : start + PIECE]]
    return renumbered


PIECE = 2**14


def _column(part: Outputs, slot: Slot) -> NDArray[Any]:
    column = part.columns.get(slot)
    return np.zeros(len(part), dtype=DTYPES[slot.kind]) if column is None else column


def code_type(count: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that numbers so many templates."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32
