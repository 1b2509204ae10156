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
from veridp.confidence import log_ratio_lower

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


# ---------------------------------------------------------------------------------------------------------- the engines


def above(rng: Any, queries: Sequence[float]) -> list[bool]:
    """The mechanism of `idea.md`: whether each query passes a noisy threshold, up to the first that does."""
    threshold = rng.laplace(scale=2)
    answers: list[bool] = []
    for query in queries:
        if query + rng.laplace(scale=4) >= threshold:
            return [*answers, True]
        answers.append(False)
    return answers


def exact() -> Figure:
    """The probability of every output on two neighbours, and the one whose ratio is largest."""
    figure, axes = _axes(*WIDE)
    left, right = [0, 0], [1, -1]
    comparison = veridp.exact.compare(above, left, right)
    outputs = [path.output for path in veridp.explore(above, left)]
    for data, colour, shift in ((left, LEFT, -0.2), (right, RIGHT, 0.2)):
        distribution = veridp.exact.law(above, data)
        chances = [distribution.probability(output) for output in outputs]
        axes.bar(np.arange(len(outputs)) + shift, chances, 0.38, color=colour, label=f"on {data}")
    axes.set(ylabel="probability", xticks=range(len(outputs)), xticklabels=[str(output) for output in outputs])
    axes.set_title(f"ε = {comparison.epsilon:.4f}, where {comparison.witness.event}", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    return figure


def alignment() -> Figure:
    """The plane of two draws: where `above` says True on two neighbours, and the shift between."""
    figure, axes = _axes(4.6, 3.4)
    ends = np.array([-6.0, 6.0])
    for query, colour in ((0.0, LEFT), (-1.0, RIGHT)):
        axes.plot(ends, ends - query, colour, label=f"query {query:g}: True above this line")
    axes.fill_between(ends, ends, 8, color=LEFT, alpha=0.12)
    for threshold, noise in ((-3, -2), (0, 1.5), (2, 4)):
        axes.annotate("", (threshold, noise + 1), (threshold, noise), arrowprops={"arrowstyle": "->", "color": GREY})
        axes.plot(threshold, noise, ".", color=GREY)
    cost = veridp.prove(above, 1).epsilon
    axes.set(xlabel="noise of the threshold, n0", ylabel="noise of the query, n1", xlim=(-6, 6), ylim=(-6, 8))
    axes.set_title(f"True stays True if n1 is 1 higher: ε = {cost:g}", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def profile() -> Figure:
    """The least δ at each ε, of Laplace noise and of normal noise with the same standard deviation."""
    figure, axes = _axes(*WIDE)
    grid = np.linspace(0, 2, 81)

    def laplace(rng: Any, data: Sequence[float]) -> Any:
        return data[0] + rng.laplace(scale=1)

    def normal(rng: Any, data: Sequence[float]) -> Any:
        return data[0] + rng.normal(scale=2**0.5)

    for mechanism, name, colour in ((laplace, "Laplace, scale 1", LEFT), (normal, "normal, σ = √2", RIGHT)):
        comparison = veridp.exact.compare(mechanism, [0], [1])
        axes.plot(grid, [comparison.delta(float(epsilon)) for epsilon in grid], colour, label=name)
    axes.set(xlabel="ε", ylabel="δ", ylim=(0, None), xlim=(0, 2))
    axes.legend(frameon=False, fontsize=9)
    return figure


def statdp() -> Figure:
    """p against test ε of a noisy maximum that returns the value, and of one that returns the index."""
    figure, axes = _axes(*WIDE)
    settings: dict[str, Any] = {"size": 5, "selection_samples": 20_000, "samples": 100_000, "seconds": 300}
    tested = [round(0.1 * step, 1) for step in range(2, 26)]
    for name, colour in (("noisy_max1", LEFT), ("noisy_max3", RIGHT)):
        detection = veridp.statdp.detect(veridp.catalogue[name], 0.7, test_epsilons=tested, **settings)
        points = [(point.epsilon, point.corrected_p_value) for point in detection.curve]
        label = f"{name}, {'refuted' if detection.refuted else 'not refuted'}"
        axes.plot(*zip(*points, strict=True), "o-", color=colour, label=label)
    axes.axvline(0.7, color=GREY, linestyle="--", linewidth=1)
    axes.text(0.72, 0.5, "claimed: ε = 0.7", color=GREY)
    axes.set(xlabel="test ε", ylabel="p, corrected")
    axes.legend(frameon=False, fontsize=9)
    return figure


def sniper() -> Figure:
    """What counts certify for frequent and for rare events of Laplace noise whose ε is 0.1."""
    figure, axes = _axes(*WIDE)
    masses = np.geomspace(1e-4, 0.5 * np.exp(-0.1), 40)  # of half-lines beyond both answers: their ratio is e^0.1
    for runs, colour in ((10**5, LEFT), (10**7, RIGHT)):
        counts = np.floor(masses * np.exp(0.1) * runs), np.floor(masses * runs)  # as many as are expected
        bounds = log_ratio_lower(counts[0], runs, counts[1], runs, alpha=0.05)
        axes.plot(masses, np.maximum(bounds, 0), colour, label=f"{runs:,} outputs of either input")
    axes.axhline(0.1, color=GREY, linestyle="--", linewidth=1)
    axes.text(0.3, 0.103, "true ε", color=GREY)
    axes.axvline(0.01, color=GREY, linestyle=":", linewidth=1)
    axes.text(0.0105, 0.005, "the paper's floor", color=GREY)
    axes.set(xscale="log", xlabel="probability of the event on the right", ylabel="certified ε", ylim=(0, 0.15))
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def finder() -> Figure:
    """ε between (x, y) and (x+1, y-1) for `above`, and the pairs in which climbs of the finder end."""
    figure, axes = _axes(4.8, 3.6)
    grid = np.linspace(-9, 9, 13)
    costs = [[veridp.exact.compare(above, [x, y], [x + 1, y - 1]).epsilon for x in grid] for y in grid]
    drawn = axes.contourf(grid, grid, costs, levels=10, cmap="Blues")
    figure.colorbar(drawn, ax=axes, label="ε")
    found = veridp.finder.search(above, 2, adjacency="linf", domain=(-10, 10), restarts=6, seconds=300, workers=1)
    starts = [restart.left for restart in found.restarts]
    axes.plot(*zip(*starts, strict=True), "o", color=RIGHT, label="restarts")
    axes.plot(*found.witness.left, "*", markersize=14, color=RIGHT, label=f"climbed exactly: ε = {found.epsilon:.4f}")
    axes.set(xlabel="first query", ylabel="second query", xlim=(-9.5, 9.5), ylim=(-9.5, 9.5))
    axes.legend(fontsize=9, loc="upper right")
    return figure


FIRST_PAGE = (noise, adjacency, domain, size)
ENGINES = (exact, alignment, profile, statdp, sniper, finder)
PICTURES: dict[str, Callable[[], Figure]] = {one.__name__: one for one in (*FIRST_PAGE, *ENGINES)}


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
