"""Charts as plain data, drawn by two libraries: by Plotly on a page that answers to the mouse, by matplotlib for
notebooks and papers. Both draw the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LEFT, RIGHT, CLAIM, PLAIN = "left", "right", "claim", "plain"  # what a series is about, which decides its colour
LINE, DASHED, BARS, POINTS, STEPS = "line", "dashed", "bars", "points", "steps"
COLOURS = {LEFT: "#0b6e99", RIGHT: "#c2571a", CLAIM: "#6b7280", PLAIN: "#4b3f92"}  # on white paper
DIGITS = 7  # of a number that is drawn
PLOTLY_MODES = {LINE: ("lines", "solid"), DASHED: ("lines", "dash"), STEPS: ("lines", "solid"), POINTS: ("markers", "")}


@dataclass(frozen=True)
class Series:
    """Points of one colour and kind, under a name."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    about: str = PLAIN
    kind: str = LINE


@dataclass(frozen=True)
class Chart:
    """What is drawn over one pair of axes, and a sentence on what it rests on."""

    name: str
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    note: str = ""
    places: tuple[str, ...] = ()  # the names of x = 0, 1, 2, … where these are outputs and no numbers
    spans: tuple[tuple[float, float], ...] = ()  # of x, that belong to the event
    marks: tuple[tuple[float, str], ...] = ()  # values of x with a line and a word
    level: tuple[float, str] | None = None  # a value of y with a line and a word
    unit_square: bool = False  # whether both axes run from 0 to 1


# -------------------------------------------------------------------------------------------------------- for the page


def plotly_chart(chart: Chart) -> dict[str, Any]:
    """The chart in the words of plotly.js; colours are names that the page looks up in its style."""
    data = [_trace(chart, series) for series in chart.series]
    ends = _ends(chart)
    shapes: list[dict[str, Any]] = [
        {"type": "rect", "x0": _clipped(low, ends), "x1": _clipped(high, ends), "y0": 0, "y1": 1, "yref": "paper"}
        for low, high in chart.spans
    ]
    shapes += [{"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper"} for x, _ in chart.marks]
    words = [
        {"x": x, "y": 1, "yref": "paper", "yanchor": "top", "xanchor": "left", "text": word} for x, word in chart.marks
    ]
    if chart.level is not None:
        y, word = chart.level
        shapes.append({"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": y, "y1": y})
        words.append({"x": 1, "xref": "paper", "xanchor": "right", "y": y, "yanchor": "bottom", "text": word})
    axes: tuple[dict[str, Any], dict[str, Any]] = {"title": {"text": chart.x}}, {"title": {"text": chart.y}}
    if chart.places:
        names = [shortened(place) for place in chart.places]
        axes[0].update(tickmode="array", tickvals=[*range(len(names))], ticktext=names)
    if chart.unit_square:
        for axis in axes:
            axis["range"] = [-0.02, 1.02]
    elif all(min(series.y, default=0.0) >= 0 for series in chart.series):
        axes[1]["rangemode"] = "tozero"
    layout = {"xaxis": axes[0], "yaxis": axes[1], "shapes": shapes, "annotations": words}
    return {"name": chart.name, "data": data, "layout": layout}


def _trace(chart: Chart, series: Series) -> dict[str, Any]:
    trace: dict[str, Any] = {"name": series.name, "about": series.about}
    trace |= {"x": _rounded(series.x), "y": _rounded(series.y)}
    if chart.places:
        trace["text"] = [chart.places[round(x)] for x in series.x]
    if series.kind == BARS:
        return {**trace, "type": "bar", "textposition": "none"}
    mode, dash = PLOTLY_MODES[series.kind]
    line = {"dash": dash, "shape": "hvh" if series.kind == STEPS else "linear"}
    return {**trace, "type": "scatter", "mode": mode, **({"line": line} if dash else {})}


def _rounded(values: Sequence[float]) -> list[float | None]:
    """Numbers as they are drawn; what is infinite is not."""
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values]


def _ends(chart: Chart) -> tuple[float, float]:
    if chart.places:
        return -0.5, len(chart.places) - 0.5
    values = [x for series in chart.series for x in series.x]
    return min(values, default=0.0), max(values, default=1.0)


def _clipped(value: float, ends: tuple[float, float]) -> float:
    return min(max(value, ends[0]), ends[1])


def shortened(text: str, most: int = 18) -> str:
    """The name of an event or an output in so many letters."""
    text = text.removeprefix("output is ")
    return text if len(text) <= most else text[: most - 1] + "…"


# ------------------------------------------------------------------------------------------- for notebooks and papers


def draw(chart: Chart, axes: Any, *, titled: bool = True) -> None:
    """Draw the chart on axes of matplotlib."""
    bars = [series for series in chart.series if series.kind == BARS]
    for series in chart.series:
        colour = COLOURS[series.about]
        if series.kind == BARS:
            width = 0.8 / len(bars)
            offset = (bars.index(series) - (len(bars) - 1) / 2) * width
            axes.bar(np.array(series.x) + offset, series.y, width, color=colour, label=series.name)
        elif series.kind == POINTS:
            axes.plot(series.x, series.y, "o", markersize=4, color=colour, label=series.name)
        else:
            style = "--" if series.kind == DASHED else "-"
            drawn = "steps-mid" if series.kind == STEPS else "default"
            axes.plot(series.x, series.y, style, color=colour, label=series.name, drawstyle=drawn, linewidth=1.3)
    ends = _ends(chart)
    for low, high in chart.spans:
        axes.axvspan(_clipped(low, ends), _clipped(high, ends), color="#d9a400", alpha=0.18, linewidth=0)
    for x, word in chart.marks:
        axes.axvline(x, color=COLOURS[CLAIM], linestyle=":", linewidth=1, label=word)
    if chart.level is not None:
        axes.axhline(chart.level[0], color=COLOURS[CLAIM], linestyle=":", linewidth=1, label=chart.level[1])
    if chart.places:
        names = [shortened(place) for place in chart.places]
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    if chart.unit_square:
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if titled:
        axes.set_title(chart.title, fontsize=10)
    axes.legend(fontsize=7, frameon=False)
