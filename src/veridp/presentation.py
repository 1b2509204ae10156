"""How every result shows itself: in a line, in a notebook, as a picture and as a table.

Results lie below reports, which know how to draw them. So the report is found by its name, when somebody looks.
"""

from __future__ import annotations

import importlib
from os import PathLike
from typing import Any

REPORT = "veridp.report.notebook"


class Presentable:
    """A result that notebooks show with its charts: what it prints in a line is its `str`."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__repr__" not in vars(cls):  # set before a dataclass writes one that lists all fields
            cls.__repr__ = Presentable.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).splitlines()[0]}>"

    def _repr_html_(self) -> str:
        """The parts of the page: what notebooks show. Charts need matplotlib, and are left out without it."""
        text: str = importlib.import_module(REPORT).result_html(self)
        return text

    def plot(self, file: str | PathLike[str] | None = None, *, only: str | None = None, seconds: float = 20.0) -> Any:
        """Its charts as a figure of matplotlib, also written to the file if one is given: .pdf, .svg or .png.

        `only` names one chart: outputs, density, profile, tradeoff, p-values or bounds. Curves that the result does not
        hold are computed by the exact engine, in at most so many seconds. BadInput where there is nothing to draw.
        """
        return importlib.import_module(REPORT).result_figure(self, file, only, seconds)

    def to_frame(self) -> Any:
        """A pandas DataFrame: the outputs of a comparison, the curve of a detection, the profile of an attack, the
        restarts of a search, the releases of a program, the bounds of an account; for other results one row."""
        return importlib.import_module(REPORT).result_frame(self)
