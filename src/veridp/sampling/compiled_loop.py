"""The loop around a compiled mechanism: from the type of its output to columns, and from these to Outputs.

A scalar of the output is written into a column; one that may be None has a column of flags beside it. A list is written
behind those of the rows before it, into a buffer that grows, and its length into a column; in the end the buffer is
turned into a column for each place of the list.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba as _numba
import numpy as np
from numba.core import types as _types
from numpy.typing import NDArray

from veridp.kernel.output import DTYPES, Kind, Slot, Template, Tree
from veridp.sampling.outputs import Outputs, code_type
from veridp.sampling.tape import Unfit

numba: Any = _numba  # their types are not complete
types: Any = _types


@dataclass(frozen=True)
class ScalarLeaf:
    """A scalar: its kind, the number of its column, and of the column that tells whether it is there and not None."""

    kind: Kind
    column: int
    flags: int | None = None


@dataclass(frozen=True)
class Repeat:
    """A list: the number of the column of its lengths, and the form of each of its entries."""

    lengths: int
    entry: Form


Form = ScalarLeaf | Repeat | tuple["Form", ...]


@dataclass(frozen=True)
class ColumnLayout:
    """The form of an output, the columns it needs, and the statements that write one output into them."""

    form: Form
    setup: tuple[str, ...]
    writes: tuple[str, ...]
    finish: tuple[str, ...]
    columns: tuple[str, ...]

    def loop(
        self, compiled: Any, parameters: int, options: Mapping[str, Any]
    ) -> Callable[..., tuple[NDArray[Any], ...]]:
        """A compiled function of (rng, data, …, count) that gives the columns of `count` outputs."""
        names = ", ".join(f"a{index}" for index in range(parameters))
        lines = [f"def loop(rng, {names}, count):"]
        lines += [f"    {line}" for line in self.setup]
        lines += ["    for row in range(count):", f"        value = mechanism(rng, {names})"]
        lines += [f"        {line}" for line in self.writes]
        lines += [f"    {line}" for line in self.finish]
        lines += [f"    return ({', '.join(self.columns)},)"]
        scope: dict[str, Any] = {"mechanism": compiled, "np": np}
        exec("\n".join(lines), scope)  # noqa: S102 - made of the fixed phrases of this module alone
        compiled_loop: Callable[..., tuple[NDArray[Any], ...]] = numba.njit(**options)(scope["loop"])
        return compiled_loop


class _Writer:
    """Collects the statements of a layout."""

    def __init__(self) -> None:
        self.setup: list[str] = []
        self.finish: list[str] = []
        self.columns: list[str] = []

    def form(self, kind: Any, value: str, writes: list[str]) -> Form:
        """The form of an output of this numba type; adds to `writes` what stores the `value`."""
        if isinstance(kind, types.BaseTuple):
            return tuple(self.form(part, f"{value}[{index}]", writes) for index, part in enumerate(kind.types))
        if isinstance(kind, types.List | types.ListType) or (isinstance(kind, types.Array) and kind.ndim == 1):
            return self._list(kind.dtype, value, writes)
        return self._leaf(kind, value, "count", "row", writes)

    def _leaf(self, kind: Any, value: str, size: str, place: str, writes: list[str]) -> ScalarLeaf:
        """A scalar that is stored at this place of a column of this size."""
        optional = isinstance(kind, types.Optional)
        scalar = _scalar(kind.type if optional else kind)
        column = self._column(f"np.empty({size}, np.{DTYPES[scalar]})")
        if not optional:
            writes.append(f"c{column}[{place}] = {value}")
            return ScalarLeaf(scalar, column)
        flags = self._column(f"np.empty({size}, np.bool_)")
        writes += [
            f"item = {value}",
            "if item is None:",
            f"    c{flags}[{place}] = False",
            f"    c{column}[{place}] = 0",
            "else:",
            f"    c{flags}[{place}] = True",
            f"    c{column}[{place}] = item",
        ]
        return ScalarLeaf(scalar, column, flags)

    def _column(self, made: str) -> int:
        self.setup.append(f"c{len(self.columns)} = {made}")
        self.columns.append(f"c{len(self.columns)}")
        return len(self.columns) - 1

    def _list(self, kind: Any, value: str, writes: list[str]) -> Form:
        lengths = self._column("np.empty(count, np.int32)")
        end = f"end{lengths}"
        first = len(self.columns)
        stores: list[str] = []
        entry = self._entry(kind, f"{value}[place]", end, stores)
        buffers = range(first, len(self.columns))
        self.setup.append(f"{end} = 0")
        writes += [f"size = len({value})", f"c{lengths}[row] = size"]
        for buffer in buffers:
            writes += [
                f"if {end} + size > len(c{buffer}):",
                f"    larger = np.empty(2 * ({end} + size), c{buffer}.dtype)",
                f"    larger[:{end}] = c{buffer}[:{end}]",
                f"    c{buffer} = larger",
            ]
        writes += ["for place in range(size):", *(f"    {store}" for store in stores), f"    {end} += 1"]
        self.finish.append(f"width = c{lengths}.max() if count else 0")
        for buffer in buffers:
            self.finish += [
                f"d{buffer} = np.zeros((width, count), c{buffer}.dtype)",
                "start = 0",
                "for row in range(count):",
                f"    for place in range(c{lengths}[row]):",
                f"        d{buffer}[place, row] = c{buffer}[start + place]",
                f"    start += c{lengths}[row]",
            ]
            self.columns[buffer] = f"d{buffer}"
        return Repeat(lengths, entry)

    def _entry(self, kind: Any, value: str, end: str, stores: list[str]) -> Form:
        if isinstance(kind, types.BaseTuple):
            return tuple(self._entry(part, f"{value}[{i}]", end, stores) for i, part in enumerate(kind.types))
        return self._leaf(kind, value, "2 * count", end, stores)


def _scalar(kind: Any) -> Kind:
    plain = types.unliteral(kind)
    if isinstance(plain, types.Boolean):
        return Kind.BOOL
    if isinstance(plain, types.Integer):
        return Kind.INT
    if isinstance(plain, types.Float):
        return Kind.FLOAT
    raise Unfit(f"its compiled form returns {kind}, which has no columns there")


def layout_of(kind: Any) -> ColumnLayout:
    """The layout for outputs of a numba type; Unfit where they have none."""
    writer, writes = _Writer(), list[str]()
    form = writer.form(kind, "value", writes)
    return ColumnLayout(form, tuple(writer.setup), tuple(writes), tuple(writer.finish), tuple(writer.columns))


# ------------------------------------------------------------------------------------------ from columns to Outputs


def outputs_of(layout: ColumnLayout, columns: Sequence[NDArray[Any]], count: int) -> Outputs:
    """The outputs that the loop wrote."""
    numbers: dict[Slot, NDArray[Any]] = {}
    for leaf, repeated in _leaves(layout.form):
        places = columns[leaf.column] if repeated else [columns[leaf.column]]
        numbers |= {_slot(leaf, place, len(columns)): column for place, column in enumerate(places)}
    told = {(lengths, 0): columns[lengths] for lengths in _repeats(layout.form)}
    for leaf, repeated in _leaves(layout.form):
        if leaf.flags is not None:
            places = columns[leaf.flags] if repeated else [columns[leaf.flags]]
            told |= {(leaf.flags, place): column for place, column in enumerate(places)}
    codes, occurring = _numbered(list(told.values()), count)
    names = tuple(told)
    templates = tuple(
        _template(layout, names, tuple(int(column[row]) for column in told.values())) for row in occurring
    )
    return Outputs(codes, templates, numbers)


def _leaves(form: Form, repeated: bool = False) -> Iterator[tuple[ScalarLeaf, bool]]:
    """The leaves, each with whether it is in a list."""
    if isinstance(form, ScalarLeaf):
        yield form, repeated
    elif isinstance(form, Repeat):
        yield from _leaves(form.entry, repeated=True)
    else:
        for part in form:
            yield from _leaves(part, repeated)


def _repeats(form: Form) -> Iterator[int]:
    """The columns of the lengths of all lists."""
    if isinstance(form, Repeat):
        yield form.lengths
    elif isinstance(form, tuple):
        for part in form:
            yield from _repeats(part)


def _slot(leaf: ScalarLeaf, place: int, columns: int) -> Slot:
    """The slot of a leaf, at a place of a list: the same whatever the lengths of the lists are."""
    return Slot(leaf.kind, place * columns + leaf.column)


def _numbered(told: Sequence[NDArray[Any]], count: int) -> tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.intp]]:
    """For each row the number of its combination of lengths and flags, and for each number one of its rows."""
    combined, bound = np.zeros(count, dtype=np.int64), 1
    for column in told:
        longest = int(column.max(initial=0)) + 1
        if bound * longest > 2**62:
            _, combined = np.unique(combined, return_inverse=True)
            bound = count
        combined, bound = combined * longest + column, bound * longest
    if bound > MANY_LENGTHS:
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        return inverse.astype(code_type(len(first))), first
    row_of = np.full(bound, -1, dtype=np.intp)
    row_of[combined] = np.arange(count)
    occurs = row_of >= 0
    number = (np.cumsum(occurs) - 1).astype(code_type(bound))
    return number[combined], row_of[occurs]


MANY_LENGTHS = 2**16


@functools.lru_cache(maxsize=4096)
def _template(layout: ColumnLayout, names: tuple[tuple[int, int], ...], values: tuple[int, ...]) -> Template:
    """The template of outputs with these lengths and flags, each named by its column and its place in a list."""
    told = dict(zip(names, values, strict=True))

    def tree(part: Form, place: int) -> Tree:
        if isinstance(part, tuple):
            return tuple(tree(branch, place) for branch in part)
        if isinstance(part, Repeat):
            return tuple(tree(part.entry, position) for position in range(told[part.lengths, 0]))
        if part.flags is not None and not told[part.flags, place]:
            return None
        return _slot(part, place, len(layout.columns))

    return Template(tree(layout.form, 0))
