"""Plots as SVG that can stand within a page: their text stays text, and their ids do not clash."""

from __future__ import annotations

import io
import math
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduction.artefact import Panel, Plot, Series

COLOURS = ("#0b6e99", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c", "#334155", "#0f766e", "#9333ea", "#64748b")
WIDTH, HEIGHT = 4.2, 3.1  # inches of a panel
PANELS_IN_A_ROW = 3
MARKED = "#6b7280"


def svg(plot: Plot, name: str) -> str:
    """The plot as an SVG element; the same for the same plot and name."""
    columns = min(len(plot.panels), PANELS_IN_A_ROW)
    rows = -(-len(plot.panels) // columns)
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.size": 9,
    }
    with rc_context(settings):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
        for place, panel in enumerate(plot.panels):
            _draw(figure.add_subplot(rows, columns, place + 1), panel)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _element(text.getvalue(), plot.caption.en)


def _element(document: str, label: str) -> str:
    """The element alone, which scales with the page and says to a screen reader what it shows."""
    start = document.index("<svg")
    head, rest = document[start:].split(">", 1)
    kept = " ".join(part for part in head.split() if not part.startswith(("width=", "height=")))
    escaped = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return f'{kept} role="img" aria-label="{escaped}">{rest}'


def _draw(axes: Axes, panel: Panel) -> None:
    for place, series in enumerate(panel.series):
        _draw_series(axes, series, COLOURS[place % len(COLOURS)])
    for value, label in panel.at_x:
        if math.isfinite(value):
            axes.axvline(value, color=MARKED, linestyle=":", linewidth=1, label=label or None)
    for value, label in panel.at_y:
        if math.isfinite(value):
            axes.axhline(value, color=MARKED, linestyle="--", linewidth=1, label=label or None)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    axes.grid(visible=True, color="#e5e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if any(series.label for series in panel.series):
        axes.legend(fontsize=7, frameon=False)


def _draw_series(axes: Axes, series: Series, colour: str) -> None:
    x, y = list(series.x), list(series.y)
    if series.low:
        axes.fill_between(x, list(series.low), list(series.high), color=colour, alpha=0.15, linewidth=0)
    if series.style == "area":
        axes.fill_between(x, y, color=colour, alpha=0.3, linewidth=0, label=series.label)
    elif series.style == "points":
        axes.plot(x, y, "o", color=colour, markersize=3.5, label=series.label)
    elif series.style == "steps":
        axes.step(x, y, where="post", color=colour, label=series.label)
    else:
        axes.plot(x, y, "-", color=colour, linewidth=1.4, label=series.label)
