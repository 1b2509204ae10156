"""The words of a reproduction: an artefact of a source, how it is measured, and what is shown of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from veridp.local.conclusions import Agreement as Standing
from veridp.local.conclusions import Bilingual as Text
from veridp.local.conclusions import Conclusion as Finding
from veridp.local.conclusions import corrected, judged

__all__ = [
    "Artefact",
    "Column",
    "Effort",
    "Finding",
    "Panel",
    "Plot",
    "Row",
    "Series",
    "Shown",
    "Source",
    "Standing",
    "TableView",
    "Text",
    "column",
    "corrected",
    "distinct",
    "judged",
    "number",
    "shown",
    "where",
]

Cell = str | float | bool | None
Row = Mapping[str, Cell]
T = TypeVar("T")


class Effort(StrEnum):
    """How much is spent: a quick run takes minutes, a full one a night."""

    QUICK = "quick"
    FULL = "full"

    def pick(self, quick: T, full: T) -> T:
        return quick if self is Effort.QUICK else full


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its cells, its title, and the significant digits of its numbers."""

    key: str
    title: Text
    digits: int = 4


@dataclass(frozen=True)
class TableView:
    """Rows as a table."""

    title: Text
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Series:
    """Points of one curve; `low` and `high` are the ends of their intervals."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "line"  # or "points", "steps", "area"
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """Curves over one pair of axes, with values that are marked across."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    at_x: Sequence[tuple[float, str]] = ()
    at_y: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Plot:
    """Panels side by side, and what they show."""

    caption: Text
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Shown:
    """What the page says of an artefact."""

    findings: Sequence[Finding]
    tables: Sequence[TableView] = ()
    plots: Sequence[Plot] = ()


Measure = Callable[[str, Effort, int], Sequence[Row]]  # a case, the effort and the seed to rows of plain data


@dataclass(frozen=True)
class Artefact:
    """A figure, table, theorem or worked example of a source.

    `measure` is called once for each case, and each call is one step that is not repeated; artefacts that share it
    share its rows. `show` draws all rows together, and costs nothing.
    """

    name: str
    title: Text
    published: Text
    measure: Measure
    show: Callable[[Sequence[Row]], Shown]
    cases: Callable[[Effort], Sequence[str]] = lambda effort: ("all",)


@dataclass(frozen=True)
class Source:
    """A document whose figures and tables are reproduced."""

    name: str
    title: Text
    citation: str
    artefacts: Sequence[Artefact]


# ----------------------------------------------------------------------------------------------------- reading rows


def number(row: Row, key: str) -> float:
    """The number in a cell; NaN where it is empty.

    >>> number({"a": "0.5", "b": None}, "a"), number({"a": "inf"}, "a")
    (0.5, inf)
    """
    cell = row.get(key)
    return math.nan if cell is None or cell == "" else float(cell)


def where(rows: Sequence[Row], **wanted: Cell) -> list[Row]:
    """The rows with these cells."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def column(rows: Sequence[Row], key: str) -> list[float]:
    return [number(row, key) for row in rows]


def distinct(rows: Sequence[Row], key: str) -> list[Cell]:
    """The different values of a column, in the order in which they first occur."""
    return list(dict.fromkeys(row.get(key) for row in rows))


def shown(cell: Cell, digits: int = 4) -> str:
    """A cell as people read it.

    >>> shown(0.123456), shown(math.inf), shown(None), shown(20000000.0), shown(True)
    ('0.1235', '∞', '', '2e+07', 'yes')
    """
    if cell is None or cell == "":
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    if math.isnan(cell):
        return ""
    if math.isinf(cell):
        return "∞" if cell > 0 else "-∞"
    return f"{cell:.{digits}g}"
