"""Results in notebooks and papers: the parts of the page with charts by matplotlib, figures, and tables."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from typing import Any

import numpy as np

from veridp.accounting.account import Account
from veridp.claim import Claim, Witness
from veridp.engines.exact import Comparison, Worst
from veridp.engines.finder import FinderResult
from veridp.engines.pipeline import PipelineResult, PipelineSearch
from veridp.engines.prove import Proof, ProofForSizes
from veridp.engines.sniper import AttackResult
from veridp.engines.statdp import Detection
from veridp.errors import BadInput, MissingExtra, extra
from veridp.report.charts import BARS, CLAIM, PLAIN, POINTS, Chart, Series, draw
from veridp.report.exhibits import (
    Exhibits,
    attack_charts,
    comparison_exhibits,
    p_value_chart,
    verdict_exhibits,
    witness_exhibits,
)
from veridp.report.page import Drawn, charts_part, notebook_style, verdict_parts, whole_page, witness_part
from veridp.verdict import Verdict

SECONDS_FOR_A_PAGE = 30.0
SECONDS_IN_A_NOTEBOOK = 8.0  # for what a cell shows beside the result itself
CHART_SIZE = (4.6, 3.4)  # inches
COLUMNS = 2
PROOF_POINTS = 101


def result_exhibits(result: object, seconds: float) -> Exhibits:
    """What illustrates a result of any engine."""
    if isinstance(result, Verdict):
        return verdict_exhibits(result, seconds)
    if isinstance(result, Comparison | Worst):
        return comparison_exhibits(result if isinstance(result, Comparison) else result.comparison, seconds)
    if isinstance(result, Detection):
        chart = p_value_chart(result)
        return Exhibits(() if chart is None else (chart,))
    if isinstance(result, AttackResult):
        return Exhibits(tuple(attack_charts(result)))
    if isinstance(result, FinderResult):
        return witness_exhibits(result.mechanism, result.witness, result.claim, seconds)
    if isinstance(result, Proof | ProofForSizes):
        return Exhibits(_proved_profile(result if isinstance(result, Proof) else result.proofs[-1]))
    if isinstance(result, PipelineResult | PipelineSearch):
        return Exhibits(_program_profile(result if isinstance(result, PipelineResult) else result.shown))
    if isinstance(result, Account):
        return Exhibits(_bounds_chart(result))
    return Exhibits(missing=("a proof for every size is about no pair of inputs",))


def _program_profile(result: PipelineResult | None) -> tuple[Chart, ...]:
    """The δ that keeping all releases of a run costs at each ε, between its two inputs."""
    if result is None or not result.priced:
        return ()
    claim, epsilon = result.claim, result.epsilon
    top = 1.25 * max(epsilon if math.isfinite(epsilon) else 0.0, claim.epsilon if claim is not None else 0.0) or 1.0
    grid = np.linspace(0.0, top, PROOF_POINTS).tolist()
    series = [Series("δ(ε) of all releases", tuple(grid), tuple(map(result.delta_at, grid)), PLAIN)]
    note = "The composed cost of the releases of one run, between its two inputs."
    return (Chart("profile", "Cost of all releases", "ε", "δ", (*series, *_claimed(claim)), note),)


def _claimed(claim: Claim | None) -> list[Series]:
    """The claim as a point of a profile."""
    if claim is None:
        return []
    return [Series(f"claimed {claim}", (claim.epsilon,), (claim.delta,), CLAIM, POINTS)]


def _bounds_chart(account: Account) -> tuple[Chart, ...]:
    """ε by each method that gives one."""
    bounds = [bound for bound in account.bounds if math.isfinite(bound.epsilon)]
    places, heights = tuple(map(float, range(len(bounds)))), tuple(bound.epsilon for bound in bounds)
    series = Series("upper bound", places, heights, PLAIN, BARS)
    note = f"At δ = {account.delta:g}; {account.standing}."
    names = tuple(bound.method for bound in bounds)
    return (Chart("bounds", "Cost by each method", "method", "ε", (series,), note, places=names),)


def _proved_profile(proof: Proof) -> tuple[Chart, ...]:
    """The δ that a proof gives at each ε, for all neighbours."""
    if not math.isfinite(proof.epsilon):
        return ()
    claim: Claim | None = proof.claim
    top = 1.25 * max(proof.epsilon, claim.epsilon if claim is not None else 0.0) or 1.0
    grid = np.linspace(0.0, top, PROOF_POINTS).tolist()
    series = [Series("δ(ε) that is proved", tuple(grid), tuple(proof.delta(epsilon) for epsilon in grid), PLAIN)]
    series += _claimed(claim)
    note = f"An upper bound for all neighbours under {proof.mechanism.adjacency}, size {proof.size}."
    return (Chart("profile", "Privacy profile that is proved", "ε", "δ", tuple(series), note),)


# --------------------------------------------------------------------------------------------------------- in notebooks


def result_html(result: object) -> str:
    """The result for a notebook: the parts of the page, in a style that ends with them."""
    exhibits = result_exhibits(result, SECONDS_IN_A_NOTEBOOK)
    if isinstance(result, Verdict):
        parts = verdict_parts(result, exhibits, _svg)
    else:
        parts = _plain_parts(result, exhibits, _svg)
    return f'<div class="veridp"><style>{notebook_style()}</style>{parts}</div>'


def result_page(result: object, title: str) -> str:
    """The result as a page for a browser, in one file; MissingExtra where plotly is not installed."""
    exhibits = result_exhibits(result, SECONDS_FOR_A_PAGE)
    return whole_page(title, lambda drawn: _plain_parts(result, exhibits, drawn))


def _plain_parts(result: Any, exhibits: Exhibits, drawn: Drawn) -> str:
    witness: Witness | None = getattr(result, "witness", None)
    claim: Claim | None = getattr(result, "claim", None)
    judged = "" if claim is None else f"<p>claimed: {escape(str(claim))}</p>"
    lead, *more = str(result).splitlines()
    details = f"<pre>{escape(chr(10).join(more))}</pre>" if more else ""
    searched = "".join(f"<li>{escape(what)}</li>" for what in getattr(result, "searched", ()))
    shown = "" if witness is None else witness_part(witness, claim or Claim(0.0))
    return (
        f'<div class="card"><p class="lead">{escape(lead)}</p>{details}{judged}<ul>{searched}</ul></div>'
        f"{shown}{charts_part(exhibits, drawn)}"
    )


def _svg(chart: Chart) -> str:
    """The chart as an SVG element; a note where matplotlib is missing."""
    try:
        figure = _figure([chart], titled=False)
    except MissingExtra as missing:
        return f'<p class="note">{escape(str(missing))}</p>'
    shown: str = figure._repr_svg_()
    return shown


# ---------------------------------------------------------------------------------------------------------- in papers


def result_figure(result: object, file: str | PathLike[str] | None, only: str | None, seconds: float) -> Any:
    """The charts of the result, side by side; written to the file if one is given."""
    exhibits = result_exhibits(result, seconds)
    charts = [chart for chart in exhibits.charts if only in (None, chart.name)]
    if not charts:
        have = ", ".join(chart.name for chart in exhibits.charts)
        why = f"; it has {have}" if have else "".join(f"; {reason}" for reason in exhibits.missing)
        raise BadInput(f"there is {'nothing' if only is None else f'no chart {only!r}'} to draw{why}")
    figure = _figure(charts)
    if file is not None:
        try:
            figure.savefig(file)
        except (OSError, ValueError) as error:
            raise BadInput(f"{file}: {error}; give a file that ends in .pdf, .svg or .png") from None
    return figure


def _figure(charts: Sequence[Chart], *, titled: bool = True) -> Any:
    with extra("plot", "charts need"):
        from matplotlib.figure import Figure

    class PaperFigure(Figure):
        """A figure that notebooks show, whatever backend they use."""

        def _repr_svg_(self) -> str:
            text = io.StringIO()
            self.savefig(text, format="svg", metadata={"Date": None})
            return text.getvalue()[text.getvalue().index("<svg") :]

    columns = min(len(charts), COLUMNS)
    rows = -(-len(charts) // columns)
    figure = PaperFigure(figsize=(CHART_SIZE[0] * columns, CHART_SIZE[1] * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for chart, place in zip(charts, axes, strict=False):
        draw(chart, place, titled=titled)
    for unused in axes[len(charts) :]:
        unused.set_visible(False)
    return figure


# ---------------------------------------------------------------------------------------------------------- as tables


def result_frame(result: Any) -> Any:
    """The result as a table of pandas."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise MissingExtra("to_frame needs pandas; install it with: pip install pandas") from None
    return pd.DataFrame(_rows(result))


def _rows(result: Any) -> list[dict[str, Any]]:
    """Rows of a table: those that the result lists, or one with all that it says."""
    if isinstance(result, Comparison | Worst):
        comparison = result if isinstance(result, Comparison) else result.comparison
        return [
            {"output": str(row.event), "left": row.left, "right": row.right, "loss": row.loss}
            for row in comparison.table
        ]
    if isinstance(result, Detection):
        return [point.to_dict() for point in result.curve]
    if isinstance(result, AttackResult):
        return [{"epsilon": point.epsilon, "delta": point.delta} for point in result.profile]
    if isinstance(result, FinderResult):
        return [
            {
                "restart": one.number,
                "relaxed": one.relaxed,
                "unrelaxed": one.unrelaxed,
                "verified": one.verified,
                "left": one.left,
                "right": one.right,
                "event": str(one.event),
            }
            for one in result.restarts
        ]
    if isinstance(result, PipelineResult | PipelineSearch):
        return _release_rows(result)
    if isinstance(result, Account):
        bounds: list[dict[str, Any]] = result.to_dict()["bounds"]
        return bounds
    return [_flat(result.to_dict())]


def _release_rows(result: PipelineResult | PipelineSearch) -> list[dict[str, Any]]:
    """The releases of a run; for a search those of every pair that shows a fault, or else of the costliest."""
    runs: list[PipelineResult | None] = [result] if isinstance(result, PipelineResult) else [*result.found]
    if isinstance(result, PipelineSearch) and not runs:
        runs = [result.costliest]
    return [
        {"left": run.left, "right": run.right, **release}
        for run in runs
        if run is not None
        for release in run.to_dict()["releases"]
    ]


def _flat(document: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested names joined by dots."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found
