"""Exact comparisons for people: a table of outputs, the catalogue compared, and plots, also of what an attack
certifies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from veridp.claim import Claim, number
from veridp.engines.exact import Comparison, Worst
from veridp.engines.exact.compare import NotionCosts
from veridp.engines.exact.entry_loss import EntryLoss
from veridp.engines.exact.loss import Mixture, PrivacyLoss, Product
from veridp.errors import BadInput, NotExact, extra
from veridp.kernel.symbols import count_text
from veridp.report.charts import shortened
from veridp.verdict import with_assumptions

if TYPE_CHECKING:
    from veridp.engines.sniper import AttackResult

SAME_LOSS = 1e-9  # losses this close are shown as one number


def comparison_page(
    comparison: Comparison, search: Worst | None, most: int, costs: NotionCosts | None = None
) -> RenderableType:
    """The outputs with their probabilities on either side, the worst first, and what follows from them."""
    table = Table("output", "p (left)", "q (right)", "ln p/q")
    for row in comparison.table[:most]:
        ratio = _log_ratio(row.left, row.right)
        loss = number(ratio) if abs(abs(ratio) - row.loss) < SAME_LOSS else f"up to ±{number(row.loss)}"
        table.add_row(Text(str(row.event)), number(row.left), number(row.right), loss)
    hidden = len(comparison.table) - most
    more = [Text(f"… and {hidden} more classes of outputs")] if hidden > 0 else []
    return Group(table, *more, *(Text(line) for line in _lines(comparison, search, costs)))


def _lines(comparison: Comparison, search: Worst | None, costs: NotionCosts | None) -> list[str]:
    witness = comparison.witness
    lines = [
        f"left   {comparison.left}",
        f"right  {comparison.right}",
        f"ε = {number(comparison.epsilon)}, for instance where {witness.event}:",
        f"    probability {witness.left_probability} on {witness.left}",
        f"    against     {witness.right_probability} on {witness.right}",
    ]
    if costs is not None:
        lines.append(str(costs))
    if search is not None:
        ended = "" if search.finished else ", cut short"
        tried = count_text(search.tried, "pair")
        lines.append(f"the worst of {tried} ({', '.join(search.searched)}{ended}); others may be worse")
    claim = comparison.claim
    if claim is not None:
        sentence = f"claimed {claim}: {judged(comparison, claim)}"
        lines.append(with_assumptions(sentence, comparison.mechanism.assumptions))
    elif comparison.as_floats:
        lines.append(comparison.as_floats)
    return lines


def judged(comparison: Comparison, claim: Claim) -> str:
    """How the claim stands between the two inputs, in words."""
    refuted = comparison.refutes(claim)
    verdict = "exceeded" if refuted else "kept between these two"
    if not claim.delta:
        return f"{verdict}; {comparison.as_floats}" if comparison.as_floats and not refuted else verdict
    bounds = comparison.delta_bounds(claim.epsilon)
    point = math.isclose(bounds.lower, bounds.upper, rel_tol=1e-6, abs_tol=1e-300)
    if not point and not refuted and not claim.implied[0].covers(claim.epsilon, bounds.upper):
        verdict = "undecided between these two"
    return f"{verdict}, δ({claim.epsilon:g}) {'=' if point else 'is in'} {bounds}"


def _log_ratio(left: float, right: float) -> float:
    if left > 0 and right > 0:
        return math.log(left / right)
    return 0.0 if left == right else math.copysign(math.inf, left - right)


# ------------------------------------------------------------------------------------------------ the catalogue


@dataclass(frozen=True)
class ComparedMechanism:
    """A mechanism of the catalogue, compared: or why it was not."""

    name: str
    size: int
    claim: Claim | None
    true: float | None
    found: float | None
    mass: float | None
    seconds: float
    note: str = ""

    def cells(self) -> list[str]:
        def shown(value: float | None) -> str:
            return "" if value is None else number(value)

        return [
            self.name,
            str(self.size),
            "" if self.claim is None else str(self.claim),
            shown(self.found),
            shown(self.true),
            shown(self.mass),
            f"{self.seconds:.2f}",
            self.note,
        ]

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"claim": self.claim and self.claim.to_dict()}


HEADINGS = ["mechanism", "size", "claims", "found ε", "true ε", "event mass", "seconds", ""]


def catalogue_table(lines: Sequence[ComparedMechanism]) -> Table:
    table = Table(*HEADINGS)
    for line in lines:
        table.add_row(*map(Text, line.cells()))
    return table


def catalogue_markdown(lines: Sequence[ComparedMechanism]) -> str:
    rows = [HEADINGS, ["---"] * len(HEADINGS), *(line.cells() for line in lines)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return (
        "# The catalogue, compared exactly\n\n"
        "For each mechanism: the worst pair of neighbours that the search found in its time, the exact ε between them "
        "(a lower bound on the mechanism's), and the true ε as derived by hand or in the literature. The event mass is "
        "the probability of the event that attains it.\n\n" + table + "\n"
    )


# -------------------------------------------------------------------------------------------------------------- sniper
# A picture of what an attack certifies: the privacy profile that no honest claim can be below.


def plot_profile(finding: AttackResult, path: Path) -> None:
    """Write a picture (PNG, SVG or PDF by its ending) of the certified δ against ε, with the claim in it."""
    figure = _figure(6)
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
    _save(figure, path)


# ---------------------------------------------------------------------------------------------------------------- plot
# Plots of an exact comparison: the two distributions, and the privacy profile.


Array = NDArray[np.float64]
MOST_BARS = 24
GRID = 1001  # places on a curve
SEEN = 1e-3  # a density below this share of the highest is not drawn


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Write a picture (PNG, SVG or PDF by its ending) of the outputs on either side and of δ against ε."""
    figure = _figure(11)
    outputs, profile = figure.subplots(1, 2)
    figure.suptitle(f"{comparison.mechanism}: ε = {comparison.epsilon:.6g}")
    line = only_line(comparison.loss)
    if line is not None:
        _draw_densities(outputs, line)
    else:
        _draw_bars(outputs, comparison)
    outputs.legend()
    _draw_profile(profile, comparison)
    _save(figure, path)


def _figure(width: float) -> Any:
    with extra("plot", "plots need"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, 4.5), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"--plot {path}: {error}; give a file that ends in .png, .svg or .pdf") from None


def only_line(loss: PrivacyLoss) -> EntryLoss | None:
    """The one numeric entry on which all the loss is, if that is so."""
    if isinstance(loss, Product):
        moving = [part for part in loss.parts if not part.trivial]
        return only_line(moving[0]) if len(moving) == 1 else None
    return loss if isinstance(loss, EntryLoss) else None


def _draw_densities(axes: Any, line: EntryLoss) -> None:
    """Two curves, or, where the entry moves in whole steps, a mark for each value."""
    places = visible_places(line)
    left, right = densities(line, places)
    styles = ("-", "--") if line.lattice is None else ("o", "x")
    axes.plot(places, left, styles[0], label="left")
    axes.plot(places, right, styles[1], label="right")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(str(line.entry))
    axes.set_ylabel("density" if line.lattice is None else "probability")


def visible_places(line: EntryLoss) -> Array:
    """Where the densities are drawn: a fine even grid over what can be seen of them, and where they bend.

    The engine's own points are too few for a curve; they find the range, and lie beside every bend.
    """
    points = line.points[3:-3] if line.lattice is None else line.points
    highest = np.maximum(*densities(line, points))
    seen = np.flatnonzero(highest > SEEN * highest.max())
    shown = points[seen[0] : seen[-1] + 1]
    if line.lattice is not None or len(shown) < 2:
        return shown
    return np.union1d(np.linspace(shown[0], shown[-1], GRID), shown)


def densities(line: EntryLoss, places: Array) -> tuple[Array, Array]:
    return np.exp(line.left.density(places[:, None])), np.exp(line.right.density(places[:, None]))


def _draw_bars(axes: Any, comparison: Comparison) -> None:
    rows = comparison.table[:MOST_BARS]
    places = np.arange(len(rows))
    axes.bar(places - 0.2, [row.left for row in rows], 0.4, label="left")
    axes.bar(places + 0.2, [row.right for row in rows], 0.4, label="right")
    axes.set_xticks(places, [shortened(str(row.event), 30) for row in rows], rotation=90, fontsize=7)
    axes.set_ylabel("probability")
    if isinstance(comparison.loss, Mixture) and len(comparison.table) > MOST_BARS:
        axes.set_title(f"the {MOST_BARS} worst of {len(comparison.table)} outputs", fontsize=9)


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
