"""Draws the pictures of the pages: run `python docs/draw.py`, or with names of pictures for these alone.

Every number in them is computed by veridp. Text stays text in the SVG files, and the same numbers give the same files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import veridp

FOLDER = Path(__file__).with_name("pictures")
LEFT, RIGHT, GREY = "#0b6e99", "#c2571a", "#6b7280"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "veridp",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}
WIDE = (7.2, 2.8)


def mean_age(rng: Any, ages: Sequence[float]) -> Any:
    """The noisy mean that the first page starts with."""
    return np.mean(ages) + rng.laplace(scale=24)


def noise() -> Figure:
    """How likely each published number is for two groups that differ in one person."""
    groups = {"with you, aged 45": [30, 41, 29, 55, 45], "with somebody aged 85 instead": [30, 41, 29, 55, 85]}
    figure, axes = _axes(*WIDE)
    numbers = np.linspace(-60, 150, 421)
    for (name, ages), colour in zip(groups.items(), (LEFT, RIGHT), strict=True):
        distribution = veridp.exact.law(mean_age, ages)
        axes.plot(numbers, [distribution.density(number) for number in numbers], colour, label=name)
        axes.axvline(np.mean(ages), color=colour, linestyle=":", linewidth=1)
    epsilon = veridp.exact.compare(mean_age, *groups.values()).epsilon
    axes.set(xlabel="published number", ylabel="how likely", yticks=[], ylim=(0, None))
    axes.set_title(f"nowhere more than e^{epsilon:.2f} = {np.exp(epsilon):.2f} times as likely", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    return figure


def adjacency() -> Figure:
    """A data set above one neighbour of it for each of three relations."""
    figure, axes = _axes(7.2, 2.5)
    ages = [30, 41, 29, 55, 45]
    rows = [
        ("your data", ages, ()),
        ("replace: one record changes", [30, 41, 29, 55, 85], (4,)),
        ("add-remove: one record comes or goes", ages[:4], (4,)),
        ("linf: every value may move by 1", [31, 40, 30, 55, 44], (0, 1, 2, 4)),
    ]
    for line, (name, values, changed) in enumerate(rows):
        axes.text(0, -line, name, va="center")
        for place in range(5):
            there = place < len(values)
            colour = RIGHT if place in changed else LEFT
            style: dict[str, Any] = {"facecolor": colour} if there else {"facecolor": "white", "linestyle": "--"}
            axes.scatter(4.4 + place, -line, s=620, edgecolor=colour, **style)
            axes.text(4.4 + place, -line, str(values[place]) if there else "", ha="center", va="center", color="white")
    axes.set(xlim=(-0.1, 9), ylim=(-3.6, 0.6))
    axes.axis("off")
    return figure


def domain() -> Figure:
    """How far one record moves the mean of five, where records lie in two domains."""
    figure, axes = _axes(7.2, 2.4)
    for line, high in enumerate((120, 240)):
        left, right = [0.0] * 5, [float(high)] + [0.0] * 4
        epsilon = veridp.exact.compare(mean_age, left, right).epsilon
        axes.plot([0, high], [-line, -line], color=GREY, linewidth=1)
        axes.scatter([0, high], [-line, -line], color=[LEFT, RIGHT], s=60, zorder=3)
        for ages, colour in ((left, LEFT), (right, RIGHT)):
            axes.scatter(np.mean(ages), -line - 0.22, marker="^", color=colour, s=60)
        moved = np.mean(right) - np.mean(left)
        text = f"ages 0 to {high}: the mean moves by {moved:.0f}, ε = {epsilon:.3g}"
        axes.text(0, -line + 0.22, text, va="bottom", ha="left")
    axes.set(xlabel="dots: the age that changes; triangles: the mean of five", yticks=[], ylim=(-1.6, 0.75))
    axes.spines["left"].set_visible(False)
    return figure


def size() -> Figure:
    """ε of the same noise for groups of one to twelve people, beside the claim."""
    figure, axes = _axes(*WIDE)
    counts = range(1, 13)
    costs = [veridp.exact.compare(mean_age, [0] * count, [120] + [0] * (count - 1)).epsilon for count in counts]
    axes.bar(counts, costs, color=[RIGHT if cost > 1 + 1e-9 else LEFT for cost in costs])
    axes.axhline(1, color=GREY, linestyle="--", linewidth=1)
    axes.text(12.5, 1.08, "claimed: ε = 1", ha="right", color=GREY)
    axes.set(xlabel="people in the group (noise of scale 24, ages 0 to 120)", ylabel="ε", xticks=list(counts))
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {one.__name__: one for one in (noise, adjacency, domain, size)}


def svg(name: str) -> bytes:
    """The picture of that name, as the bytes of an SVG file."""
    import io

    with mpl.rc_context(STYLE):
        figure, file = PICTURES[name](), io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure((width, height), layout="constrained")
    return figure, figure.add_subplot()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for picture in sys.argv[1:] or PICTURES:
        (FOLDER / f"{picture}.svg").write_bytes(svg(picture))
