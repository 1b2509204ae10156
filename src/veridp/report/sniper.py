"""A picture of what an attack certifies: the privacy profile that no honest claim can be below."""

from __future__ import annotations

from pathlib import Path

from veridp.engines.sniper import AttackResult
from veridp.errors import BadInput, extra


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
