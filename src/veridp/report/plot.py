"""Plots: the distributions and privacy profile of an exact comparison, and what an attack certifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.exact import Comparison
from veridp.engines.exact.entry_loss import EntryLoss
from veridp.engines.exact.loss import Mixture, PrivacyLoss, Product
from veridp.engines.sniper import AttackResult
from veridp.errors import BadInput, NotExact, extra

# -------------------------------------------------------------------------------------------------------------- sniper
# A picture of what an attack certifies: the privacy profile that no honest claim can be below.


def plot_profile(finding: AttackResult, path: Path) -> None:
    """Write a picture (PNG, SVG or PDF by its ending) of the certified δ against ε, with the claim in it."""
    with extra("plot", "plots need"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    epsilons = [point.epsilon for point in finding.profile]
    deltas = [point.delta for point in finding.profile]
    axes.plot(epsilons, deltas, label=f"certified: δ is at least this, confidence {finding.confidence:g}")
    axes.fill_between(epsilons, deltas, alpha=0.2)
    if finding.claim is not None:
        axes.plot([finding.claim.epsilon], [finding.claim.delta], "o", label=f"claimed {finding.claim}")
    axes.set_xlabel("ε")
    axes.set_ylabel("δ")
    axes.set_ylim(bottom=0.0)
    axes.set_title(str(finding))
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"--plot {path}: {error}; give a file that ends in .png, .svg or .pdf") from None


# ---------------------------------------------------------------------------------------------------------------- plot
# Plots of an exact comparison: the two distributions, and the privacy profile.


Array = NDArray[np.float64]
MOST_BARS = 24
GRID = 1001  # places on a curve
SEEN = 1e-3  # a density below this share of the highest is not drawn


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Write a picture (PNG, SVG or PDF by its ending) of the outputs on either side and of δ against ε."""
    with extra("plot", "plots need"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    outputs, profile = figure.subplots(1, 2)
    figure.suptitle(f"{comparison.mechanism}: ε = {comparison.epsilon:.6g}")
    line = _only_line(comparison.loss)
    if line is not None:
        _draw_densities(outputs, line)
    else:
        _draw_bars(outputs, comparison)
    outputs.legend()
    _draw_profile(profile, comparison)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"--plot {path}: {error}; give a file that ends in .png, .svg or .pdf") from None


def _only_line(loss: PrivacyLoss) -> EntryLoss | None:
    """The one numeric entry on which all the loss is, if that is so."""
    if isinstance(loss, Product):
        moving = [part for part in loss.parts if not part.trivial]
        return _only_line(moving[0]) if len(moving) == 1 else None
    return loss if isinstance(loss, EntryLoss) else None


def _draw_densities(axes: Any, line: EntryLoss) -> None:
    """Two curves, or, where the entry moves in whole steps, a mark for each value."""
    places = _visible(line)
    left, right = _densities(line, places)
    styles = ("-", "--") if line.lattice is None else ("o", "x")
    axes.plot(places, left, styles[0], label="left")
    axes.plot(places, right, styles[1], label="right")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(str(line.entry))
    axes.set_ylabel("density" if line.lattice is None else "probability")


def _visible(line: EntryLoss) -> Array:
    """Where the densities are drawn: a fine even grid over what can be seen of them, and where they bend.

    The engine's own points are too few for a curve; they find the range, and lie beside every bend.
    """
    points = line.points[3:-3] if line.lattice is None else line.points
    highest = np.maximum(*_densities(line, points))
    seen = np.flatnonzero(highest > SEEN * highest.max())
    shown = points[seen[0] : seen[-1] + 1]
    if line.lattice is not None or len(shown) < 2:
        return shown
    return np.union1d(np.linspace(shown[0], shown[-1], GRID), shown)


def _densities(line: EntryLoss, places: Array) -> tuple[Array, Array]:
    return np.exp(line.left.density(places[:, None])), np.exp(line.right.density(places[:, None]))


def _draw_bars(axes: Any, comparison: Comparison) -> None:
    rows = comparison.table[:MOST_BARS]
    places = np.arange(len(rows))
    axes.bar(places - 0.2, [row.left for row in rows], 0.4, label="left")
    axes.bar(places + 0.2, [row.right for row in rows], 0.4, label="right")
    axes.set_xticks(places, [_short(str(row.event)) for row in rows], rotation=90, fontsize=7)
    axes.set_ylabel("probability")
    if isinstance(comparison.loss, Mixture) and len(comparison.table) > MOST_BARS:
        axes.set_title(f"the {MOST_BARS} worst of {len(comparison.table)} outputs", fontsize=9)


def _short(text: str) -> str:
    text = text.removeprefix("output is ")
    return text if len(text) <= 30 else text[:29] + "…"


def _draw_profile(axes: Any, comparison: Comparison) -> None:
    try:
        epsilons, deltas = comparison.profile()
    except NotExact as error:
        axes.text(0.5, 0.5, f"no profile: {error}", ha="center", va="center", wrap=True, transform=axes.transAxes)
        axes.set_axis_off()
        return
    axes.plot(epsilons, deltas)
    claim = comparison.mechanism.claim
    if claim is not None:
        axes.axvline(claim.epsilon, color="grey", linestyle=":", label=f"claimed {claim}")
        axes.legend()
    axes.set_xlabel("ε")
    axes.set_ylabel("δ(ε)")
