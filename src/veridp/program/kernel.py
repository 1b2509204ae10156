"""The loop around a compiled mechanism: from the type of its output to columns, and from these to Outputs.

A scalar of the output is written into a column. A list is written behind those of the rows before it, into a buffer
that grows, and its length into a column.
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

from veridp.program.outputs import Outputs, Part, assemble
from veridp.program.tape import Unfit
from veridp.program.template import DTYPES, Kind, Slot, Template, Tree

numba: Any = _numba  # their types are not complete
types: Any = _types


@dataclass(frozen=True)
class Leaf:
    """A scalar: its kind, and the number of its column."""

    kind: Kind
    column: int


@dataclass(frozen=True)
class Repeat:
    """A list: the number of the column of its lengths, and the form of each of its entries."""

    lengths: int
    entry: Form


Form = Leaf | Repeat | tuple["Form", ...]


@dataclass(frozen=True)
class Layout:
    """The form of an output, the columns it needs, and the statements that write one output into them."""

    form: Form
    setup: tuple[str, ...]
    writes: tuple[str, ...]
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
        lines += [f"    return ({', '.join(self.columns)},)"]
        scope: dict[str, Any] = {"mechanism": compiled, "np": np}
        exec("\n".join(lines), scope)  # noqa: S102 - made of the fixed phrases of this module alone
        compiled_loop: Callable[..., tuple[NDArray[Any], ...]] = numba.njit(**options)(scope["loop"])
        return compiled_loop


class _Writer:
    """Collects the statements of a layout."""

    def __init__(self) -> None:
        self.setup: list[str] = []
        self.columns: list[str] = []

    def form(self, kind: Any, value: str, writes: list[str]) -> Form:
        """The form of an output of this numba type; adds to `writes` what stores the `value`."""
        if isinstance(kind, types.BaseTuple):
            return tuple(self.form(part, f"{value}[{index}]", writes) for index, part in enumerate(kind.types))
        if isinstance(kind, types.List | types.ListType) or (isinstance(kind, types.Array) and kind.ndim == 1):
            return self._list(kind.dtype, value, writes)
        scalar = _scalar(kind)
        column = self._column(f"np.empty(count, np.{DTYPES[scalar]})")
        writes.append(f"c{column}[row] = {value}")
        return Leaf(scalar, column)

    def _column(self, made: str) -> int:
        self.columns.append(f"c{len(self.columns)}")
        self.setup.append(f"{self.columns[-1]} = {made}")
        return len(self.columns) - 1

    def _list(self, kind: Any, value: str, writes: list[str]) -> Form:
        lengths = self._column("np.empty(count, np.int64)")
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
        return Repeat(lengths, entry)

    def _entry(self, kind: Any, value: str, end: str, stores: list[str]) -> Form:
        if isinstance(kind, types.BaseTuple):
            return tuple(self._entry(part, f"{value}[{i}]", end, stores) for i, part in enumerate(kind.types))
        scalar = _scalar(kind)
        buffer = self._column(f"np.empty(2 * count, np.{DTYPES[scalar]})")
        stores.append(f"c{buffer}[{end}] = {value}")
        return Leaf(scalar, buffer)


def _scalar(kind: Any) -> Kind:
    plain = types.unliteral(kind)
    if isinstance(plain, types.Boolean):
        return Kind.BOOL
    if isinstance(plain, types.Integer):
        return Kind.INT
    if isinstance(plain, types.Float):
        return Kind.FLOAT
    raise Unfit(f"its compiled form returns {kind}, which has no columns there")


def layout_of(kind: Any) -> Layout:
    """The layout for outputs of a numba type; Unfit where they have none."""
    writer, writes = _Writer(), list[str]()
    form = writer.form(kind, "value", writes)
    return Layout(form, tuple(writer.setup), tuple(writes), tuple(writer.columns))


# ------------------------------------------------------------------------------------------ from columns to Outputs


def outputs_of(layout: Layout, columns: Sequence[NDArray[Any]], count: int) -> Outputs:
    """The outputs that the loop wrote."""
    repeats = list(_repeats(layout.form))
    if not repeats:
        template, places = _template(layout.form, ())
        return assemble([Part(template, None, {slot: columns[column] for slot, column, _ in places})], count)
    starts = {repeat.lengths: np.cumsum(columns[repeat.lengths]) - columns[repeat.lengths] for repeat in repeats}
    parts = []
    for lengths, rows in _by_lengths([columns[repeat.lengths] for repeat in repeats]):
        template, places = _template(layout.form, lengths)
        numbers = {}
        for slot, column, (repeat, place) in places:
            numbers[slot] = columns[column].take(rows if repeat < 0 else starts[repeat].take(rows) + place)
        parts.append(Part(template, rows, numbers))
    return assemble(parts, count)


def _repeats(form: Form) -> Iterator[Repeat]:
    if isinstance(form, Repeat):
        yield form
    elif isinstance(form, tuple):
        for part in form:
            yield from _repeats(part)


def _by_lengths(lengths: Sequence[NDArray[np.int64]]) -> Iterator[tuple[tuple[int, ...], NDArray[np.intp]]]:
    """The rows whose lists have the same lengths, with these lengths."""
    code = lengths[0]
    for column in lengths[1:]:
        code = code * (int(column.max(initial=0)) + 1) + column
    order = np.argsort(code, kind="stable")
    edges = np.flatnonzero(np.diff(code[order])) + 1
    for rows in np.split(order, edges) if len(order) else []:
        yield tuple(int(column[rows[0]]) for column in lengths), rows


@functools.lru_cache(maxsize=4096)
def _template(form: Form, lengths: tuple[int, ...]) -> tuple[Template, tuple[tuple[Slot, int, tuple[int, int]], ...]]:
    """The template of outputs with lists of these lengths; for each slot its column, and its list and place there."""
    counts: dict[Kind, int] = {}
    places: list[tuple[Slot, int, tuple[int, int]]] = []
    left = iter(lengths)

    def tree(part: Form, within: tuple[int, int]) -> Tree:
        if isinstance(part, tuple):
            return tuple(tree(branch, within) for branch in part)
        if isinstance(part, Repeat):
            return tuple(tree(part.entry, (part.lengths, place)) for place in range(next(left)))
        counts[part.kind] = counts.get(part.kind, -1) + 1
        slot = Slot(part.kind, counts[part.kind])
        places.append((slot, part.column, within))
        return slot

    return Template(tree(form, (-1, 0))), tuple(places)
