"""The page of a local-DP study: figures 1 to 9 and table 2 of the source study under their numbers, with what the
source reads from them, what this run says, and why the two differ; and their CSV."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from veridp.collect.evaluation import (
    PUBLISHED_FIGURE_9,
    PUBLISHED_TABLE_2,
    SAFE_PRIMES,
    ProtocolStudy,
    figure_9_conclusions,
    table_2_conclusions,
)
from veridp.errors import extra
from veridp.local.conclusions import PUBLISHED, Agreement, Bilingual, Conclusion, conclusions
from veridp.local.oracle import Estimate
from veridp.local.study import CLIPPED, LIKELY, Figure, Study, StudyPoint, as_rows

STYLE = """
:root { --ink: #1f2937; --soft: #6b7280; --rule: #d1d5db; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 80rem; margin: 1.5rem auto 4rem; padding: 0 1rem;
  color: var(--ink); overflow-wrap: break-word; }
h1 { line-height: 1.25; } h2 { margin: 3rem 0 .4rem; border-bottom: 2px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } .note { color: var(--soft); font-size: .92rem; } a { color: #075985; }
.published { border-left: 3px solid var(--rule); padding-left: .8rem; margin: .6rem 0; }
.mark { display: inline-block; font-size: .78rem; font-weight: 600; border-radius: .3rem; padding: 0 .45rem;
  margin-right: .5rem; color: #fff; background: #6b7280; }
.agrees { background: #15803d; } .differs { background: #b45309; } .corrected { background: #7e22ce; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); gap: .4rem; }
.row svg { display: block; width: 100%; height: auto; max-width: 34rem; }
.key { font-size: .88rem; } .key > span { white-space: nowrap; margin-right: 1.1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .7rem; text-align: right; vertical-align: top; } th { border-bottom: 1px solid var(--soft); }
td:first-child, th:first-child { text-align: left; }
"""
COLOURS = ("#0b6e99", "#c2410c", "#15803d", "#7e22ce", "#a16207")
MARKERS = ("o", "s", "^", "D", "v")
SIGNS = ("●", "■", "▲", "◆", "▼")  # the markers in the key


def study_csv(figure: Figure) -> str:
    """The points of a figure as CSV."""
    text = io.StringIO()
    rows = list(as_rows(figure))
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def study_page(study: Study, protocols: ProtocolStudy) -> str:
    """One HTML page: every figure and table with its published reading, its conclusions, its plots and its numbers."""
    people, settings = study.people, study.settings
    title = f"Local privacy and poisoning on {people.name}"
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>",
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{len(people.values):,} people, values from {people.low:g} to {people.high:g}, mean {people.mean:.5f}. "
        f"Every point is the mean of {settings.repetitions} repetitions (seed {settings.seed}) with its 95 % interval; "
        "dashed lines are analytic values, shaded bands two analytic standard deviations of a single collection. "
        "Points at the same place are drawn side by side, and all panels of a row have the same axes.</p>",
        f"<p class='note'>{html.escape(people.source)}</p>" if people.source else "",
        "<p class='note'>Figures and tables have the numbers of the source study: H. Kikuchi, T. Murakami, Evaluation "
        "on Partial Opening of Committed Values to prevent poisoning attack of Local Differential Privacy. "
        "Its readings are of the Adult ages.</p>",
        "" if study.finished else "<p><strong>Stopped early: figures are missing.</strong></p>",
        *_contents(study, protocols),
    ]
    for figure in study.figures:
        said = conclusions(figure, people, settings)
        name = f"Figure {figure.number}: {figure.title}"
        parts += [*_heading(figure.name, name, PUBLISHED[figure.number], said), *_plots(figure), _details(figure)]
    parts += [*_figure_9(protocols), *_table_2(protocols), *_costs(protocols), *_open_questions(protocols)]
    return "\n".join(part for part in parts if part) + "\n</body></html>\n"


# ---------------------------------------------------------------------------------------------------------- words


def agreement(figure: Figure) -> tuple[int, int]:
    """How many points with an analytic value agree with it, and how many there are."""
    judged = [point.agrees for point in figure.points if point.agrees is not None]
    return sum(judged), len(judged)


def _contents(study: Study, protocols: ProtocolStudy) -> Iterator[str]:
    """All figures and tables, with how they stand."""
    entries = [
        (figure.name, f"Figure {figure.number}: {figure.title}", conclusions(figure, study.people, study.settings))
        for figure in study.figures
    ]
    entries.append(("figure-9", "Figure 9: what commitments cost", figure_9_conclusions(protocols.commitments)))
    entries.append(("table-2", "Table 2: the protocols compared", table_2_conclusions(protocols.summaries)))
    yield "<ul>"
    for name, title, said in entries:
        marks = "".join(_mark(one) for one in dict.fromkeys(c.standing for c in said) if one != Agreement.NOT_COMPARED)
        yield f"<li><a href='#{name}'>{html.escape(title)}</a> {marks}</li>"
    yield "<li><a href='#costs'>What a verified session costs</a></li>"
    yield "<li><a href='#questions'>The open questions of the source</a></li></ul>"


def _mark(agreement: Agreement) -> str:
    words = "source corrected" if agreement == Agreement.CORRECTED else str(agreement)
    return f"<span class='mark {agreement.replace(' ', '-')}'>{words}</span>"


def _heading(name: str, title: str, published: Bilingual, said: Sequence[Conclusion]) -> Iterator[str]:
    """The title, what the source reads, and what this run says."""
    whole = title.replace(" = ", "\u00a0=\u00a0")  # narrow screens break the line elsewhere
    yield f"<h2 id='{name}'>{html.escape(whole)}</h2>"
    yield f"<p class='published'>The source reads: {html.escape(published.en)}</p>"
    for one in said:
        yield f"<p>{_mark(one.standing)}{html.escape(one.text.en)}</p>"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<div class='scroll'><table><tr>{titles}</tr>{body}</table></div>"


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else html.escape(str(value))


def _details(figure: Figure) -> str:
    rows = list(as_rows(figure))
    shown = _table(list(rows[0]), [list(row.values()) for row in rows])
    return f"<details><summary>numbers</summary>{shown}</details>"


def _figure_9(protocols: ProtocolStudy) -> Iterator[str]:
    costs = protocols.commitments
    yield from _heading("figure-9", "Figure 9: what commitments cost", PUBLISHED_FIGURE_9, figure_9_conclusions(costs))
    by_bits = [cost for cost in costs if cost.scheme.startswith("modular")]
    points = tuple(
        StudyPoint("to commit and verify", "", bits, seconds, seconds, seconds, 0.0, math.nan)
        for bits, cost in zip(SAFE_PRIMES, by_bits, strict=True)
        for seconds in [(cost.commit + cost.verify) * 1e3]
    )
    yield from _plots(Figure(9, "figure-9", "", "bits of the prime", "processor milliseconds", points))
    yield _table(
        ("commitments", "entries", "ms to commit", "ms to verify", "bytes sent"),
        [(cost.scheme, cost.entries, cost.commit * 1e3, cost.verify * 1e3, cost.sent) for cost in costs],
    )


def _table_2(protocols: ProtocolStudy) -> Iterator[str]:
    rows = protocols.summaries
    yield from _heading(
        "table-2", "Table 2: the protocols compared", PUBLISHED_TABLE_2, table_2_conclusions(protocols.summaries)
    )
    yield _table(
        ("", *(row.protocol for row in rows)),
        [
            ("ε, a report costs", *(row.epsilon for row in rows)),
            ("robustness, published", *(row.published for row in rows)),
            ("robustness, computed", *(row.standing for row in rows)),
            ("S_in: best honest input", *(row.s_in for row in rows)),
            ("S_max: best accepted", *(row.s_max for row in rows)),
            ("S_out: unchecked", *(row.s_out for row in rows)),
            ("ℓ: entries", *(row.entries for row in rows)),
            ("standard error of the mean", *(row.error for row in rows)),
            ("gain, 5 % malicious", *(row.gain for row in rows)),
        ],
    )


def _costs(protocols: ProtocolStudy) -> Iterator[str]:
    yield "<h2 id='costs'>What a verified session costs</h2>"
    yield (
        "<p>One session at ε = ln 2, by protocol (vgrr with 73 items; numbers from 17 to 90) and commitment scheme, in "
        "processor time: the client commits and opens; the server invites, challenges and verifies in three "
        "transactions of SQLite. Sessions a second are those of one core of the server, without HTTP.</p>"
    )
    yield _table(
        ("protocol", "scheme", "entries", "client ms", "server ms", "sessions/s", "bytes sent", "rows", "bytes stored"),
        [
            (c.protocol, c.scheme, c.entries, *times, round(c.sessions_per_second), c.sent, c.rows, round(c.stored))
            for c in protocols.sessions
            for times in [(round(c.client * 1e3, 2), round(c.server * 1e3, 2))]
        ],
    )


def _open_questions(protocols: ProtocolStudy) -> Iterator[str]:
    yield "<h2 id='questions'>The open questions of the source</h2>"
    yield "<h3>(1) Cheaper commitments</h3><p>Hashes: see figure 9 and the costs above.</p>"
    yield (
        "<h3>(2) Several numbers of a client</h3><p>Three attributes at ε = 1: one that the session draws, with all of "
        "ε (sr-smp), or all with a third of it each (sr-spl). Both are robust: what is accepted scores no more than an "
        "honest input. Scores and the standard error of one report are in shares of an attribute's range.</p>"
    )
    yield _table(
        ("protocol", "ε, a report costs", "robustness", "S_in", "S_max", "entries", "standard error"),
        [tuple(vars(row).values()) for row in protocols.several],
    )
    yield (
        "<h3>(3) Finer attacks</h3><p>Malicious clients play whole sessions against the verifier: they may leave after "
        "the invitation (seed-shopping) or after the challenge (drop-out) and return with another token. The score is "
        "what one accepted report adds to the mean, played (± one standard error) and exact; a session that is left "
        "counts as an abort, in the abort rate and in the worst-case bounds of an estimate.</p>"
    )
    yield _table(
        ("protocol", "attack", "score, played", "±", "exact", "sessions per report", "exact"),
        [
            (row.protocol, row.attack, *(f"{value:.2f}" for value in list(vars(row).values())[2:]))
            for row in protocols.attacks
        ],
    )


# ---------------------------------------------------------------------------------------------------------- plots


@dataclass(frozen=True)
class _PanelRow:
    """Panels side by side with the same axes: which series, in panels whose name begins so."""

    title: str
    series: tuple[str, ...] = ()  # none: all
    prefix: str = ""
    log_y: bool = False


_ESTIMATES = (
    _PanelRow("GRR clipped at 0 and normalised, as the source has it, beside SR and PM", (CLIPPED, "SR", "PM")),
    _PanelRow("GRR unbiased", ("GRR",)),
    _PanelRow("GRR by the most likely frequencies (iterative Bayesian update), beside clipped ones", (LIKELY, CLIPPED)),
)
_GAINS = (
    _PanelRow("IPA on SR and PM", ("SR", "PM"), "IPA"),
    _PanelRow("IPA on GRR", ("GRR",), "IPA"),
    _PanelRow("OPA, on a logarithmic scale", prefix="OPA", log_y=True),
)
_ROWS = {
    **dict.fromkeys((2, 4, 5), _ESTIMATES),
    **dict.fromkeys((6, 7, 8), _GAINS),
    3: (
        _PanelRow("GRR clipped at 0 and normalised, as the source has it", prefix="clipped"),
        _PanelRow("GRR unbiased, on a logarithmic scale", prefix="unbiased", log_y=True),
    ),
}


def _plots(figure: Figure) -> Iterator[str]:
    """The figure in rows of panels, each panel an SVG element, so that narrow pages can stack them.

    A series looks the same in every row.
    """
    looks = {name: place for place, name in enumerate(dict.fromkeys(point.series for point in figure.points))}
    for row in _ROWS.get(figure.number, (_PanelRow(""),)):
        points = [
            point
            for point in figure.points
            if point.panel.startswith(row.prefix) and (not row.series or point.series in row.series)
        ]
        series = {name: looks[name] for name in dict.fromkeys(point.series for point in points)}
        key = "".join(
            f"<span><span style='color:{COLOURS[look]}'>{SIGNS[look]}</span> {html.escape(name)}</span>"
            for name, look in series.items()
        )
        level = "" if figure.level is None else "<span>· · · true mean</span>"
        yield (f"<h3>{html.escape(row.title)}</h3>" if row.title else "") + f"<p class='key'>{key}{level}</p>"
        panels = [_svg(figure, row, series, points, panel) for panel in dict.fromkeys(point.panel for point in points)]
        yield f"<div class='row'>{''.join(panels)}</div>"


def _svg(figure: Figure, row: _PanelRow, series: Mapping[str, int], points: Sequence[StudyPoint], panel: str) -> str:
    """One panel, with the limits of all points of its row; series have the number of their look."""
    with extra("plot", "the page needs"):
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    name = f"{figure.name} {row.title} {panel}"
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):  # the same page from the same numbers
        canvas = Canvas(figsize=(4.4, 3.1))
        axes = canvas.add_axes((0.16, 0.15, 0.81, 0.76))
        for place, (one, look) in enumerate(series.items()):
            own = [point for point in points if (point.series, point.panel) == (one, panel)]
            _draw(axes, own, look, place, len(series), log_x=figure.log_x)
        if figure.level is not None:
            axes.axhline(figure.level, color="grey", linestyle=":", linewidth=1)
        if figure.log_x:
            axes.set_xscale("log")
        if row.log_y:
            axes.set_yscale("log")
        axes.set_ylim(*_limits(points, figure.level, log=row.log_y))
        axes.set_xlabel(figure.x)
        axes.set_ylabel(figure.y)
        axes.set_title(panel, fontsize=10)
        axes.grid(visible=True, color="#e5e7eb", linewidth=0.6)
        axes.set_axisbelow(True)
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    _, start, rest = text.getvalue().partition("<svg")
    label = html.escape(f"Figure {figure.number}. {row.title} {panel}".strip(), quote=True)
    return f"{start} role='img' aria-label='{label}'{rest}"


def _limits(points: Sequence[StudyPoint], level: float | None, *, log: bool) -> tuple[float, float]:
    """The ends of the y axis that a row of panels shares."""
    ends = [] if level is None else [level]
    for point in points:
        band = 0.0 if math.isnan(point.analytic_deviation) else 2 * point.analytic_deviation
        drawn = point.lower, point.upper, point.analytic - band, point.analytic + band
        ends += [value for value in drawn if not math.isnan(value)]
    if log:
        positive = [value for value in ends if value > 0]
        return min(positive) / 1.3, max(positive) * 1.3
    room = 0.06 * (max(ends) - min(ends)) or 1.0
    return min(ends) - room, max(ends) + room


def _draw(axes: Any, points: Sequence[StudyPoint], look: int, place: int, number: int, *, log_x: bool) -> None:
    """One of so many series, a little beside the others; where lines coincide, their dashes take turns."""
    colour, aside = COLOURS[look], place - (number - 1) / 2
    places = [point.x for point in points]
    width = max(places) - min(places) or 1.0
    beside = [x * 1.05**aside if log_x else x + 0.012 * width * aside for x in places]
    means = [point.mean for point in points]
    errors = [[p.mean - p.lower for p in points], [p.upper - p.mean for p in points]]
    exact = all(point.lower == point.upper for point in points)
    style = "-" if exact else ""
    axes.errorbar(
        beside, means, errors, marker="" if len(points) > 40 else MARKERS[look], markersize=4, linestyle=style,
        color=colour, linewidth=1.1, elinewidth=1,
    )  # fmt: skip
    if not math.isnan(points[0].analytic):
        dashes = (4.0 * place, (4.0, 4.0 * max(number - 1, 1)))
        axes.plot(places, [point.analytic for point in points], color=colour, linewidth=1.2, linestyle=dashes)
    elif not exact:
        axes.plot(beside, means, color=colour, linewidth=0.8)
    if not math.isnan(points[0].analytic_deviation):
        low = [point.analytic - 2 * point.analytic_deviation for point in points]
        high = [point.analytic + 2 * point.analytic_deviation for point in points]
        axes.fill_between(places, low, high, color=colour, alpha=0.1, linewidth=0)


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
