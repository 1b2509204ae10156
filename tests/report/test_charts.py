"""One chart drawn by two libraries shows the same numbers."""

from __future__ import annotations

import math

import pytest

from veridp.report.charts import BARS, LEFT, POINTS, RIGHT, Chart, Series, draw, plotly_chart, shortened

BARRED = Chart(
    "outputs", "Outputs", "output", "probability",
    (Series("left", (0, 1), (0.25, 0.75), LEFT, BARS), Series("right", (0, 1), (0.5, 0.5), RIGHT, BARS)),
    places=("output is [True]", "output is " + "x" * 30), spans=((-9.0, 0.5),), level=(0.6, "claim"),
)  # fmt: skip
CURVE = Chart(
    "tradeoff", "Trade-off", "α", "β",
    (Series("lower", (0.0, 0.123456789, 1.0), (1.0, math.inf, 0.0)), Series("seen", (0.5,), (0.25,), kind=POINTS)),
    marks=((0.5, "here"),), unit_square=True,
)  # fmt: skip


def test_bars_for_the_page() -> None:
    drawn = plotly_chart(BARRED)
    assert [(one["name"], one["type"], one["y"]) for one in drawn["data"]] == [
        ("left", "bar", [0.25, 0.75]),
        ("right", "bar", [0.5, 0.5]),
    ]
    layout = drawn["layout"]
    assert layout["xaxis"]["ticktext"] == ["[True]", "x" * 17 + "…"]
    assert layout["yaxis"]["rangemode"] == "tozero"
    span, level = layout["shapes"]
    assert (span["x0"], span["x1"]) == (-0.5, 0.5)  # cut to the axis
    assert (level["y0"], level["y1"]) == (0.6, 0.6)
    assert [word["text"] for word in layout["annotations"]] == ["claim"]


def test_what_is_infinite_is_not_drawn() -> None:
    drawn = plotly_chart(CURVE)
    assert drawn["data"][0]["x"] == [0.0, 0.1234568, 1.0]
    assert drawn["data"][0]["y"] == [1.0, None, 0.0]
    assert (drawn["data"][0]["mode"], drawn["data"][1]["mode"]) == ("lines", "markers")
    assert drawn["layout"]["xaxis"]["range"] == [-0.02, 1.02]


def test_matplotlib_draws_the_same_numbers() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    bars, curve = Figure().subplots(1, 2)
    draw(BARRED, bars)
    draw(CURVE, curve, titled=False)
    assert [patch.get_height() for patch in bars.patches[:4]] == [0.25, 0.75, 0.5, 0.5]
    assert bars.get_title() == "Outputs"
    assert [tuple(line.get_xdata()) for line in curve.lines[:2]] == [(0.0, 0.123456789, 1.0), (0.5,)]
    assert curve.get_xlim() == (-0.02, 1.02)


def test_names_are_shortened() -> None:
    assert shortened("output is in (-inf, 3]", 10) == "in (-inf,…"
    assert shortened("short") == "short"
