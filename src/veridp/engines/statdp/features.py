"""Features of an output: what an event may be about. Each is a number for every output, NaN where it has none.

The kinds of the paper's Algorithm 3: the distance from the noise-free output, how often a value occurs, the length,
single entries, and the average, least, largest and last of the numbers. Features of numbers speak of finite ones; NaN,
the infinities and what a run raises are values that occur or do not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.output import (
    NUMERIC,
    Kind,
    Raised,
    Scalar,
    Slot,
    Template,
    Tree,
    is_finite_number,
    kind_of,
    leaf_kind,
    leaf_text,
    tree_text,
)
from veridp.sampling.outputs import Outputs, Rows

Array = NDArray[np.float64]
NUMBERS = (Kind.INT, Kind.FLOAT)
NO_VALUE = 0.5  # stands for floats that are not values: values are whole numbers


class FeatureTable:
    """Outputs, read for features: what several features need is computed once."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs

    @cached_property
    def forms(self) -> list[tuple[Template, Rows]]:
        """Each form that occurs, with its rows."""
        return list(self.outputs.forms())

    @cached_property
    def _cells(self) -> Outputs:
        """The forms alone, where they tell all values that events can name; else all the outputs."""
        forms = self.outputs.templates
        if any(slot.kind is not Kind.FLOAT for form in forms for slot in form.slots) or self._floats_have_values:
            return self.outputs
        columns = {slot: np.full(len(forms), NO_VALUE) for form in forms for slot in form.slots}
        return Outputs(np.arange(len(forms)).astype(np.uint32), forms, columns)

    @cached_property
    def _floats_have_values(self) -> bool:
        """Whether floats are values that events can name: whole numbers, NaN or infinities."""
        columns = (self.outputs.columns[slot][rows] for form, rows in self.forms for slot in form.slots)
        return any(bool(np.any((column == np.rint(column)) | np.isnan(column))) for column in columns)

    @cached_property
    def _values(self) -> Array:
        return self._cells.matrix()

    @cached_property
    def _kinds(self) -> NDArray[np.uint8]:
        return self._cells.kinds()

    def by_form(self, feature: Callable[[Outputs], Array]) -> Array:
        """A feature that does not depend on floats, for every output."""
        found = feature(self._cells)
        return found if self._cells is self.outputs else found[self.outputs.codes]

    def weighted(self, feature: Discrete) -> tuple[Array, NDArray[np.int64] | None]:
        """The values of a discrete feature, and how often each occurs; None for once each."""
        if self._cells is self.outputs:
            return feature.column(self), None
        return feature.column(self._forms_alone), self._times

    @cached_property
    def _forms_alone(self) -> FeatureTable:
        return FeatureTable(self._cells)

    def forms_where(self, holds: Callable[[FeatureTable], NDArray[np.bool_]]) -> NDArray[np.bool_] | None:
        """Which of the forms that occur satisfy a condition on values; None where the forms do not tell."""
        if self._cells is self.outputs:
            return None
        satisfied = dict(zip(self.outputs.templates, holds(self._forms_alone).tolist(), strict=True))
        return np.array([satisfied[form] for form, _ in self.forms], dtype=np.bool_)

    @cached_property
    def _times(self) -> NDArray[np.int64]:
        return np.bincount(self.outputs.codes, minlength=len(self._cells))

    def shows(self, place: int, value: Scalar) -> NDArray[np.bool_]:
        """Where the cells show this value at this place."""
        if self._cells is self.outputs:
            return self._rows_that_show(place, value)
        if place >= self._values.shape[1]:
            return np.zeros(len(self._cells), dtype=np.bool_)
        if isinstance(value, Raised):
            return np.array([form.tree == value for form in self._cells.templates], dtype=np.bool_)
        if isinstance(value, float) and not math.isfinite(value):
            return np.asarray(self._kinds[:, place] == _NOT_FINITE[str(value)])
        same_kind = np.zeros(len(self._cells), dtype=np.bool_)
        for kind in _kinds_of(value):
            same_kind |= self._kinds[:, place] == kind.value
        if value is None:
            return same_kind
        known = self._cells.vocabulary
        if isinstance(value, str) and value not in known:
            return np.zeros_like(same_kind)
        code = known.index(value) if isinstance(value, str) else value
        return np.asarray(same_kind & (self._values[:, place] == code))

    def _rows_that_show(self, place: int, value: Scalar) -> NDArray[np.bool_]:
        shown = np.zeros(len(self.outputs), dtype=np.bool_)
        for form, rows in self.forms:
            leaf = form.leaves[place] if place < len(form.leaves) else ()
            if leaf_kind(leaf) in _kinds_of(value):  # type: ignore[arg-type]
                numbers = self.outputs.columns[leaf][rows] if isinstance(leaf, Slot) else leaf
                shown[rows] = numbers != numbers if value != value else numbers == value
        return shown

    def of_kind(self, place: int, kinds: Sequence[Kind]) -> NDArray[np.bool_]:
        """Where the cells have one of these kinds at this place; past the end they are ABSENT."""
        forms = self._cells.templates
        table = [
            (leaf_kind(form.leaves[place]) if place < len(form.leaves) else Kind.ABSENT) in kinds for form in forms
        ]
        return np.asarray(np.array(table, dtype=np.bool_)[self._cells.codes])

    def numbers(self, form: Template, rows: Rows) -> list[Array]:
        """The numbers of the outputs of a form, a column each."""
        return [self._column(leaf, rows) for leaf in form.leaves if leaf_kind(leaf) in NUMBERS]

    def number_at(self, form: Template, place: int, rows: Rows) -> Array | None:
        """The number at a place of the outputs of a form; None where there is none."""
        if place >= len(form.leaves) or leaf_kind(form.leaves[place]) not in NUMBERS:
            return None
        return self._column(form.leaves[place], rows)

    def _column(self, leaf: Any, rows: Rows) -> Array:
        if isinstance(leaf, Slot):
            column = np.asarray(self.outputs.columns[leaf][rows], dtype=np.float64)
            finite = np.isfinite(column)
            return column if finite.all() else np.where(finite, column, np.nan)
        count = len(self.outputs) if isinstance(rows, slice) else len(rows)
        return np.full(count, float(leaf) if is_finite_number(leaf) else np.nan)


_NOT_FINITE = {"nan": Kind.NAN, "inf": Kind.INFINITY, "-inf": Kind.MINUS_INFINITY}


def _kinds_of(value: Scalar) -> Sequence[Kind]:
    """The kinds of the leaves that may show the value: numbers compare across their types."""
    kind = kind_of(value)
    return NUMBERS if kind in NUMBERS else () if kind is None else (kind,)


class Feature(ABC):
    """A number for each output."""

    whole: bool = False  # whether it only ever is a whole number
    complexity: ClassVar[int] = 0  # how much more there is to understand than in the simplest of features

    @abstractmethod
    def column(self, table: FeatureTable) -> Array:
        """Its value for each output; NaN where an output has none."""

    def known(self, table: FeatureTable) -> Array:
        """Its values for the outputs that have it, in any order."""
        column = self.column(table)
        return column[~np.isnan(column)]

    @abstractmethod
    def sentence(self, low: float, high: float) -> str:
        """That it is above `low` and at most `high`, in words; either may be infinite, not both."""


# ----------------------------------------------------------------------------------------------------- of values


class Discrete(Feature):
    """A count that does not depend on floats; every output has it."""

    whole = True


@dataclass(frozen=True)
class Occurrences(Discrete):
    """How often a value occurs among the entries."""

    value: Scalar
    scalar: bool  # whether the output is a single value

    def column(self, table: FeatureTable) -> Array:
        def count(cells: Outputs) -> Array:
            total = np.zeros(len(cells))
            for place in range(cells.width):
                total += table.shows(place, self.value)
            return total

        return table.by_form(count)

    def sentence(self, low: float, high: float) -> str:
        if isinstance(self.value, Raised):
            return leaf_text(self.value) if low >= 0 else f"it is not so that it {self.value}"
        if self.scalar:
            return f"output is {'' if low >= 0 else 'not '}{leaf_text(self.value)}"
        if high == 0:
            return f"`{leaf_text(self.value)}` never occurs"
        return f"`{leaf_text(self.value)}` occurs {_amount(low, high, 'time', 'times')}"


@dataclass(frozen=True)
class HasValue(Discrete):
    """1 where an entry has a value, else 0."""

    place: int
    value: Scalar
    name: str
    complexity = 1

    def column(self, table: FeatureTable) -> Array:
        return table.by_form(lambda cells: table.shows(self.place, self.value).astype(np.float64))

    def sentence(self, low: float, high: float) -> str:
        return f"{self.name} is {'' if low >= 0 else 'not '}{leaf_text(self.value)}"


@dataclass(frozen=True)
class LengthFeature(Discrete):
    """The number of entries."""

    complexity = 1

    def column(self, table: FeatureTable) -> Array:
        return table.by_form(lambda cells: cells.lengths().astype(np.float64))

    def sentence(self, low: float, high: float) -> str:
        return f"output has {_amount(low, high, 'entry', 'entries')}"


@dataclass(frozen=True)
class Nesting(Discrete):
    """1 where the output is nested like this, else 0; dicts and lists differ."""

    outline: Tree
    complexity = 1

    def column(self, table: FeatureTable) -> Array:
        def nested(cells: Outputs) -> Array:
            alike = [form.outline == self.outline for form in cells.templates]
            return np.asarray(np.array(alike, dtype=np.float64)[cells.codes])

        return table.by_form(nested)

    def sentence(self, low: float, high: float) -> str:
        shape = tree_text(self.outline, lambda leaf: "_")
        return f"output is {'' if low >= 0 else 'not '}of the form {shape}"


@dataclass(frozen=True)
class Distance(Discrete):
    """In how many places an output differs from a noise-free one; those that only one of them has count as well.

    A number in the reference that is marked as any stands for each number.
    """

    reference: tuple[Scalar, ...]
    input: str  # on which the reference is the noise-free output
    any_number: tuple[bool, ...]  # for each place of the reference, whether it stands for any number
    numbers: tuple[Kind, ...] = (Kind.FLOAT,)
    complexity = 2

    def column(self, table: FeatureTable) -> Array:
        def differing(cells: Outputs) -> Array:
            total = np.zeros(len(cells))
            for place in range(max(cells.width, len(self.reference))):
                total += ~self._same(table, place)
            return total

        return table.by_form(differing)

    def _same(self, table: FeatureTable, place: int) -> NDArray[np.bool_]:
        if place >= len(self.reference):
            return table.of_kind(place, [Kind.ABSENT])
        if self.any_number[place]:
            return table.of_kind(place, self.numbers)
        return table.shows(place, self.reference[place])

    def sentence(self, low: float, high: float) -> str:
        shown = ", ".join(
            NUMERIC if loose else leaf_text(value) for value, loose in zip(self.reference, self.any_number, strict=True)
        )
        noise_free = f"[{shown}], the noise-free output on {self.input}"
        if high == 0:
            return f"output is {noise_free}"
        return f"output differs in {_amount(low, high, 'place', 'places')} from {noise_free}"


def _amount(low: float, high: float, one: str, many: str) -> str:
    """A range of whole numbers, above `low` and at most `high`, in words, and the word for what is counted."""
    first, last = _digits(low + 1), _digits(high)
    if np.isneginf(low):
        return f"at most {last} {one if last == '1' else many}"
    if np.isposinf(high):
        return f"at least {first} {one if first == '1' else many}"
    return f"{last} {one if last == '1' else many}" if first == last else f"{first} to {last} {many}"


# ---------------------------------------------------------------------------------------------------- of numbers


class Number(Feature):
    """A number that outputs have."""

    name: str

    @abstractmethod
    def part(self, table: FeatureTable, form: Template, rows: Rows) -> Array | None:
        """Its values for the outputs of a form; None where they have no such number."""

    def column(self, table: FeatureTable) -> Array:
        column = np.full(len(table.outputs), np.nan)
        for form, rows in table.forms:
            part = self.part(table, form, rows)
            if part is not None:
                column[rows] = part
        return column

    def known(self, table: FeatureTable) -> Array:
        found = [part[~np.isnan(part)] for part in self.parts(table) if part is not None]
        return np.concatenate(found) if found else np.zeros(0)

    def parts(self, table: FeatureTable) -> list[Array | None]:
        """Its values for the outputs of each form that occurs."""
        return [self.part(table, form, rows) for form, rows in table.forms]

    def sentence(self, low: float, high: float) -> str:
        if self.whole:
            return f"{self.name} {_whole_range(low, high)}"
        if high == np.nextafter(low, np.inf):
            return f"{self.name} is {_digits(high)}"
        above, below = _End.of(low), _End.of(high)
        if np.isneginf(low):
            return f"{self.name} {'<' if below.short else '<='} {below.text}"
        if np.isposinf(high):
            return f"{self.name} {'>=' if above.short else '>'} {above.text}"
        left, right = "[" if above.short else "(", ")" if below.short else "]"
        return f"{self.name} is in {left}{above.text}, {below.text}{right}"


def _whole_range(low: float, high: float) -> str:
    if np.isneginf(low):
        return f"<= {_digits(high)}"
    if np.isposinf(high):
        return f">= {_digits(low + 1)}"
    return f"is {_digits(high)}" if high == low + 1 else f"is {_digits(low + 1)} to {_digits(high)}"


@dataclass(frozen=True)
class _End:
    """An end of an interval in words: a number, and whether the end is just short of it."""

    text: str
    short: bool

    @classmethod
    def of(cls, end: float) -> _End:
        after = float(np.nextafter(end, np.inf)) + 0.0
        short = len(repr(after)) + 4 < len(repr(end)) or after == 0  # the number just past the end is what is meant
        return cls(_digits(after if short else end), short)


def _digits(number: float) -> str:
    return f"{number:.12g}"


@dataclass(frozen=True)
class EntryFeature(Number):
    """The number at a place of the output."""

    place: int
    name: str
    whole: bool = False

    def part(self, table: FeatureTable, form: Template, rows: Rows) -> Array | None:
        return table.number_at(form, self.place, rows)


@dataclass(frozen=True)
class SummaryFeature(Number):
    """What all the numbers of an output come to."""

    name: str  # a key of SUMMARIES
    whole: bool = False
    complexity = 1

    def part(self, table: FeatureTable, form: Template, rows: Rows) -> Array | None:
        numbers = table.numbers(form, rows)
        return SUMMARIES[self.name](numbers) if numbers else None


def _average(numbers: Sequence[Array]) -> Array:
    total = numbers[0].copy()
    for column in numbers[1:]:
        total += column
    return total / len(numbers)


def _extreme(choose: np.ufunc) -> Callable[[Sequence[Array]], Array]:
    def extreme(numbers: Sequence[Array]) -> Array:
        found = numbers[0]
        for column in numbers[1:]:
            found = choose(found, column)
        return found

    return extreme


AVERAGE = "the average of the numbers"
SUMMARIES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "the last number": lambda numbers: numbers[-1],
    AVERAGE: _average,
    "the smallest number": _extreme(np.minimum),
    "the largest number": _extreme(np.maximum),
}
