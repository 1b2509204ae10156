"""The page of a local-DP study: its figures as pictures in one HTML file, beside what theory says; and their CSV."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from veridp.errors import extra
from veridp.local.oracle import Estimate
from veridp.local.study import Figure, Study, StudyPoint, as_rows

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
figure { margin: 2rem 0; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .8rem; text-align: right; }
th { border-bottom: 1px solid #888; } td:first-child, th:first-child { text-align: left; }
details { margin: .5rem 0; } .note { color: #555; }
"""
PANELS_IN_A_ROW = 3
FAR = 30  # times the least: values further apart are drawn on a logarithmic scale


def study_csv(figure: Figure) -> str:
    """The points of a figure as CSV."""
    text = io.StringIO()
    rows = list(as_rows(figure))
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def study_page(study: Study) -> str:
    """One HTML page with all figures as SVG, the numbers in tables, and how often theory and measurement agree."""
    people, settings = study.people, study.settings
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Local privacy on {html.escape(people.name)}</title><style>{STYLE}</style></head><body>",
        f"<h1>Local privacy on {html.escape(people.name)}</h1>",
        f"<p>{len(people.values):,} people, values from {people.low:g} to {people.high:g}, mean {people.mean:.5f}. "
        f"Every point is the mean of {settings.repetitions} repetitions (seed {settings.seed}) with its 95 % interval; "
        "lines are analytic values, and shaded bands two analytic standard deviations of a single collection.</p>",
        f"<p class='note'>{html.escape(people.source)}</p>" if people.source else "",
        "" if study.finished else "<p><strong>Stopped early: figures are missing.</strong></p>",
        _agreement(study.figures),
    ]
    for figure in study.figures:
        parts.append(
            f"<figure id='{figure.name}'><h2>{html.escape(figure.title)}</h2>{_svg(figure)}{_details(figure)}</figure>"
        )
    return "\n".join(part for part in parts if part) + "\n</body></html>\n"


def agreement(figure: Figure) -> tuple[int, int]:
    """How many points with an analytic value agree with it, and how many there are."""
    judged = [point.agrees for point in figure.points if point.agrees is not None]
    return sum(judged), len(judged)


def _agreement(figures: Sequence[Figure]) -> str:
    rows = []
    for figure in figures:
        agreeing, judged = agreement(figure)
        shown = f"{agreeing} of {judged}" if judged else "no noise, no theory needed"
        rows.append(f"<tr><td><a href='#{figure.name}'>{html.escape(figure.title)}</a></td><td>{shown}</td></tr>")
    head = "<tr><th>figure</th><th>points within twice their interval of theory</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _details(figure: Figure) -> str:
    rows = list(as_rows(figure))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<details><summary>numbers</summary><table><tr>{head}</tr>{body}</table></details>"


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else html.escape(str(value))


def _svg(figure: Figure) -> str:
    """The figure as an SVG element, a panel for each of its panels."""
    with extra("plot", "the page needs"):
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    panels = sorted(dict.fromkeys(point.panel for point in figure.points), key=lambda panel: panel.rpartition(",")[0])
    columns = min(len(panels), PANELS_IN_A_ROW)
    rows = math.ceil(len(panels) / columns)
    canvas = Canvas(figsize=(4.2 * columns + 0.6, 3.2 * rows), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    for place, panel in enumerate(panels):
        _draw(axes[place], figure, [point for point in figure.points if point.panel == panel], panel)
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):  # the same page from the same numbers
        canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]


def _draw(axes: Any, figure: Figure, points: Sequence[StudyPoint], panel: str) -> None:
    for number, series in enumerate(dict.fromkeys(point.series for point in points)):
        own = [point for point in points if point.series == series]
        places, colour = [point.x for point in own], f"C{number}"
        means = [point.mean for point in own]
        errors = [[p.mean - p.lower for p in own], [p.upper - p.mean for p in own]]
        plain = all(point.lower == point.upper for point in own)
        axes.errorbar(places, means, errors, fmt="-" if plain else "o", markersize=3, color=colour, label=series)
        if not math.isnan(own[0].analytic):
            axes.plot(places, [point.analytic for point in own], color=colour, linewidth=1)
        if not math.isnan(own[0].analytic_deviation):
            low = [point.analytic - 2 * point.analytic_deviation for point in own]
            high = [point.analytic + 2 * point.analytic_deviation for point in own]
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    spread = [value for point in points for value in (point.lower, point.upper)]
    if min(spread) > 0 and max(spread) > FAR * min(spread):
        axes.set_yscale("log")  # what is small would not be seen beside what is large
    if figure.level is not None:
        axes.axhline(figure.level, color="grey", linestyle=":", linewidth=1)
        room = 0.1 * (max(spread) - min(spread)) or 1.0
        if axes.get_yscale() == "linear":
            axes.set_ylim(min(*spread, figure.level) - room, max(*spread, figure.level) + room)
    if figure.log_x:
        axes.set_xscale("log")
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    axes.set_title(panel, fontsize=10)


def estimate_table(estimate: Estimate, confidence: float, most: int | None = None) -> Table:
    """Estimates with standard errors and intervals, the largest first where not all are shown."""
    table = Table(box=None, pad_edge=False)
    for name in ("value", "estimate", "error", *(() if estimate.steps else (f"{confidence:.0%} interval",))):
        table.add_column(name, justify="left" if name == "value" else "right")
    order = range(len(estimate.values))
    if most is not None and most < len(estimate.values):
        order = sorted(order, key=lambda place: -estimate.values[place])[:most]  # type: ignore[assignment]
    ends = None if estimate.steps else estimate.interval(confidence)
    for place in order:
        row = [str(estimate.names[place]), f"{estimate.values[place]:.6g}", f"{estimate.standard_errors[place]:.2g}"]
        if ends is not None:
            row.append(f"[{ends.lower[place]:.6g}, {ends.upper[place]:.6g}]")
        table.add_row(*row)
    return table
