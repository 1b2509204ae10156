"""Verdicts as one HTML file that needs nothing else: for a review board, to be read, searched, printed and kept.

The same parts make up what a notebook shows of a verdict. On the page, charts answer to the mouse: plotly.js is
embedded once, compressed, for all targets, and the page's policy forbids it to load anything.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import PurePath

from rich.text import Text
from rich.tree import Tree

from veridp.claim import Claim, Witness, data_text, number
from veridp.errors import extra
from veridp.report.audit import UNJUDGED, Audited
from veridp.report.charts import Chart, plotly_chart
from veridp.report.exhibits import Exhibits, SourceCode, verdict_exhibits
from veridp.verdict import Standing, Verdict, assumed_text

Drawn = Callable[[Chart], str]  # a chart as HTML
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
FOOTER = '<footer class="note">Drag across a chart to zoom in, double-click it to return.</footer>'
CLASSES = {Standing.PROVED: "proved", Standing.REFUTED: "refuted", Standing.NOT_REFUTED: "open"}
MEANING = {
    Standing.PROVED: "The claim holds for all neighbours of the stated kind.",
    Standing.REFUTED: "Two neighbouring inputs and an event break the claim.",
    Standing.NOT_REFUTED: "Nothing above the claim was found, and nothing proves it.",
}
TRUST = {
    Standing.PROVED: "The proof was written as a certificate and accepted by an independent checker that uses exact "
    "arithmetic and the standard library alone. Before that, plain runs of the function did what its explored paths "
    "say. You still trust this checker, Python, and that the generator draws what its documentation says.",
    Standing.REFUTED: "Anybody can check the witness: run the function on both inputs and count the event, or run the "
    "lines below.",
    Standing.NOT_REFUTED: "This is no proof. It says where a violation was looked for, and how rare an event could "
    "have been missed.",
}


# ------------------------------------------------------------------------------------------------------------ the page


def audited_html(results: Sequence[Audited], exhibits: Sequence[Exhibits] | None = None) -> str:
    """The page: an index where there are several targets, and a section for each.

    Raises MissingExtra where plotly is not installed.
    """
    library = _library()
    shown = [_exhibits(one) for one in results] if exhibits is None else list(exhibits)

    def body(drawn: Drawn) -> str:
        sections = [
            _section(place, one, illustrated, drawn, alone=len(results) == 1)
            for place, (one, illustrated) in enumerate(zip(results, shown, strict=True))
        ]
        return "".join([*([] if len(results) == 1 else [_index(results)]), *sections])

    title = f"{results[0].target}: privacy audit" if len(results) == 1 else f"Privacy audit of {len(results)} targets"
    return whole_page(title, body, library)


def whole_page(title: str, body: Callable[[Drawn], str], library: str | None = None) -> str:
    """A page of this title around a body, which is made with what draws its charts; MissingExtra without plotly."""
    library = _library() if library is None else library
    charts: list[dict[str, object]] = []

    def placeholder(chart: Chart) -> str:
        charts.append(plotly_chart(chart))
        label = escape(f"{chart.title}: {chart.y} against {chart.x}", quote=True)
        return f'<div class="plot" role="img" aria-label="{label}" data-chart="{len(charts) - 1}"></div>'

    parts = [_masthead(title), body(placeholder), FOOTER]
    data = json.dumps(charts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<style>{_own('page.css')}</style></head>\n<body><main>\n{''.join(parts)}\n</main>\n"
        f'<script type="application/json" id="charts">{data}</script>\n'
        f'<script type="text/plain" id="library">{library}</script>\n'
        f"<script>{_own('page.js')}</script></body></html>\n"
    )


def _library() -> str:
    """plotly.js, compressed, as text."""
    with extra("page", "the page needs"):
        from plotly.offline import get_plotlyjs
    script: str = get_plotlyjs()
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def _own(name: str) -> str:
    return (files("veridp.report") / name).read_text("utf-8")


def notebook_style() -> str:
    """The style of the page, for the inside of an element of the class `veridp` alone."""
    style = ("\n" + _own("page.css")).replace(':root[data-theme="dark"] {', '[data-jp-theme-light="false"] & {')
    for whole in (":root {", "body {"):
        style = style.replace(f"\n{whole}", "\n& {")
    return f".veridp {{\n{style}}}\n.veridp .chart svg {{ background: #fff; border-radius: 8px; }}"


def _exhibits(one: Audited) -> Exhibits:
    return Exhibits() if one.verdict is None else verdict_exhibits(one.verdict)


def _masthead(title: str) -> str:
    return (
        f'<header class="masthead"><h1>{escape(title)}</h1>'
        '<button type="button" id="theme" aria-label="Switch between light and dark">◐</button></header>'
        "<noscript><p>The charts need JavaScript; all else on this page does not.</p></noscript>"
    )


def _index(results: Sequence[Audited]) -> str:
    """A table of all targets that sorts by any column, and how many there are of each kind."""
    counts = Counter(_class(one) for one in results)
    totals = "".join(
        f'<button type="button" class="total {kind}" data-kind="{kind}" aria-pressed="false"><b>{counts[kind]}</b> '
        f"{word}</button>"
        for kind, word in (("refuted", "refuted"), ("open", "not refuted"), ("proved", "proved"), (UNJUDGED, UNJUDGED))
        if counts[kind]
    )
    rows = []
    for place, one in enumerate(results):
        verdict, kind = one.verdict, _class(one)
        link = f'<a href="#target-{place}">{escape(one.target)}</a>'
        cells = [link, _badge(one), "", "", "", ""]
        keys = [one.target, kind, "", "", "", ""]
        if verdict is not None:
            claim, epsilon = verdict.claim, verdict.epsilon
            rests_on = "; ".join(filter(None, (verdict.how, verdict.assumption)))
            cells[2:] = [escape(str(claim)), str(epsilon), escape(rests_on), f"{verdict.seconds:.1f}"]
            keys[2:] = [str(claim.epsilon), str(epsilon.lower), rests_on, str(verdict.seconds)]
        else:
            cells[4] = escape(one.reason)
        rows.append((kind, cells, keys))
    headings = ("target", "verdict", "claims", "ε", "rests on", "seconds")
    return f'<nav class="index"><div class="totals">{totals}</div>{table(headings, rows, numeric={2, 3, 5})}</nav>'


def table(
    headings: Sequence[str],
    rows: Iterable[tuple[str, Sequence[str], Sequence[str]]],
    numeric: Iterable[int] = (),
) -> str:
    """A table that sorts: for each row a class, its cells as HTML, and what each is sorted by."""
    numbers = set(numeric)
    head = "".join(
        f'<th scope="col"{" class=number" if place in numbers else ""}><button type="button">{escape(name)}</button>'
        "</th>"
        for place, name in enumerate(headings)
    )
    body = []
    for kind, cells, keys in rows:
        columns = "".join(
            f'<td data-label="{escape(name, quote=True)}" data-key="{escape(key, quote=True)}"'
            f"{' class=number' if place in numbers else ''}>{cell}</td>"
            for place, (name, cell, key) in enumerate(zip(headings, cells, keys, strict=True))
        )
        body.append(f'<tr class="{kind}">{columns}</tr>')
    return f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


# --------------------------------------------------------------------------------------------------------- each target


def _section(place: int, one: Audited, exhibits: Exhibits, drawn: Drawn, alone: bool) -> str:
    verdict = one.verdict
    if verdict is None:
        inner = f'<div class="verdict {UNJUDGED}">{_badge(one)}<p class="lead">{escape(one.reason)}</p></div>'
    else:
        inner = verdict_parts(verdict, exhibits, drawn)
    if alone:
        return f'<section id="target-0">{inner}</section>'
    known = "" if verdict is None else f'<span class="known">{escape(verdict.bounds_text)}</span>'
    head = f"<summary><h2>{escape(one.target)}</h2>{_badge(one)}{known}</summary>"
    return f'<details class="target {_class(one)}" id="target-{place}">{head}{inner}</details>'


def verdict_parts(verdict: Verdict, exhibits: Exhibits, drawn: Drawn) -> str:
    """All that a page, or a notebook, shows of a verdict; charts as `drawn` draws them."""
    parts = [
        _headline(verdict),
        witness_part(verdict.witness, verdict.claim) if verdict.witness is not None else "",
        charts_part(exhibits, drawn),
        _proof_part(verdict, exhibits.source),
        _paths_part(exhibits),
        _search_part(verdict),
        _trust_part(verdict),
    ]
    return "\n".join(part for part in parts if part)


def _headline(verdict: Verdict) -> str:
    """The verdict and what it assumes, before all else; and the interval with the claim."""
    kind = CLASSES[verdict.standing]
    subject = f"<b>{escape(verdict.mechanism)}</b> claims <b>{escape(str(verdict.claim))}</b>"
    known = f"What is known: {escape(verdict.bounds_text)} ({escape(verdict.how)})"
    lines = [f'<p class="lead">{subject}. {MEANING[verdict.standing]} {known}.</p>']
    if verdict.assumed:
        options = ", ".join(f"--{name}" for name in verdict.assumed)
        lines.append(
            f'<p class="warning"><b>Nobody stated this.</b> {escape(assumed_text(verdict.assumed).capitalize())}; '
            f"state it with {escape(options)}, or in the decorator.</p>"
        )
    lines += [f'<p class="warning"><b>Depends on:</b> {escape(caveat)}</p>' for caveat in verdict.caveats]
    if verdict.as_floats is not None:
        cost = "; ".join(
            map(str, filter(None, (verdict.as_floats, verdict.as_floats.witness, *verdict.as_floats.faults)))
        )
        lines.append(f'<p class="note"><b>As floats:</b> {escape(cost)}</p>')
    if not verdict.finished:
        lines.append('<p class="warning"><b>Cut short.</b> The search ended before its work was done.</p>')
    return (
        f'<div class="verdict {kind}"><span class="badge {kind}">{verdict.standing.value}</span>'
        f"{''.join(lines)}{_interval(verdict)}</div>"
    )


def _interval(verdict: Verdict) -> str:
    """The interval for ε on a line, with the claim."""
    lower, upper, claim = verdict.epsilon.lower, verdict.epsilon.upper, verdict.claim.epsilon
    finite = [value for value in (lower, upper, claim) if math.isfinite(value)]
    top = 1.2 * max(finite) or 1.0

    def at(value: float) -> float:
        return 100.0 if math.isinf(value) else 100.0 * value / top

    start, end = at(lower), at(upper)
    known = number(lower) if lower == upper else f"{number(lower)} to {number(upper)}"
    delta = f" at δ = {verdict.claim.delta:g}" if verdict.claim.delta else ""
    text = f"ε{delta}: known {known}, claimed {number(claim)}"
    arrow = " unbounded" if math.isinf(upper) else ""
    return (
        f'<figure class="interval" role="img" aria-label="{escape(text, quote=True)}"><div class="track">'
        f'<span class="known{arrow}" style="left:{start:.2f}%;width:{max(end - start, 0.0):.2f}%"></span>'
        f'<span class="end" style="left:{start:.2f}%"></span>'
        f'<span class="claim" style="left:{at(claim):.2f}%"><i>claim {number(claim)}</i></span></div>'
        f'<figcaption><span>0</span><span class="what">true ε{escape(delta)}: <b>{escape(known)}</b></span>'
        f"<span>{'∞' if math.isinf(upper) or math.isinf(lower) else number(top)}</span></figcaption></figure>"
    )


def witness_part(witness: Witness, claim: Claim) -> str:
    """The two inputs and the event, with both probabilities as bars."""
    sure = "computed exactly" if witness.confidence == 1 else f"at confidence {witness.confidence:g}"
    shown = claim.violation(witness) or f"ε ≥ {number(max(witness.epsilon(claim.tolerated.delta).lower, 0.0))}"
    floats = " The event may look at the low bits of floats." if witness.as_floats else ""
    sampled = witness.confidence < 1
    rows = "".join(
        f'<tr class="{side}"><th scope="row">{side}</th><td><code>{escape(data_text(data))}</code></td>'
        f'<td class="mass"><span class="bar" style="width:{100 * min(max(shown_mass, 0.0), 1.0):.3f}%"></span>'
        f"<b>{escape(f'{bound} {number(shown_mass)}' if sampled else str(mass))}</b></td></tr>"
        for side, data, mass, shown_mass, bound in (
            ("left", witness.left, witness.left_probability, witness.left_probability.lower, "at least"),
            ("right", witness.right, witness.right_probability, witness.right_probability.upper, "at most"),
        )
    )
    arguments = ", ".join(f"{name} = {value}" for name, value in witness.arguments.items())
    with_arguments = f'<p class="note">With {escape(arguments)}.</p>' if arguments else ""
    return (
        '<section class="card"><h3>Two neighbours and an event</h3>'
        f'<p>Where <code class="event">{escape(str(witness.event))}</code>, the two inputs differ most: '
        f"{escape(shown)} ({sure}).{floats}</p>"
        '<table class="witness"><thead><tr><th></th><th>input</th><th>probability of the event</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{with_arguments}</section>"
    )


def charts_part(exhibits: Exhibits, drawn: Drawn) -> str:
    """All charts, each with what it rests on, and what is missing."""
    figures = "".join(
        f'<figure class="chart" data-name="{chart.name}"><h3>{escape(chart.title)}</h3>{drawn(chart)}'
        f"<figcaption>{escape(chart.note)}</figcaption></figure>"
        for chart in exhibits.charts
    )
    missing = "".join(f"<li>{escape(reason)}</li>" for reason in exhibits.missing)
    listed = f'<ul class="note missing">{missing}</ul>' if missing else ""
    return f'<div class="charts">{figures}</div>{listed}' if figures or listed else ""


def _proof_part(verdict: Verdict, source: SourceCode | None) -> str:
    """The alignment in words, what to look at first, and the code with the lines that they name."""
    lines = []
    if math.isfinite(verdict.epsilon.upper):
        proved = verdict.proved or f"{number(verdict.epsilon.upper)}-DP"
        lines.append(f"<p><b>{escape(str(proved))} is proved {escape(verdict.scope)}.</b></p>")
    if verdict.alignment:
        lines.append(f'<p>Where it costs most: <q class="alignment">{escape(verdict.alignment)}</q></p>')
    if verdict.look_at:
        items = "".join(f"<li>{escape(str(remark))}</li>" for remark in verdict.look_at)
        lines.append(f"<p><b>First look at</b></p><ul>{items}</ul>")
    if source is not None:
        lines.append(_source(source))
    title = "The proof and the code" if verdict.alignment else "The code"
    return f'<section class="card"><h3>{title}</h3>{"".join(lines)}</section>' if lines else ""


def _source(source: SourceCode) -> str:
    rows = "".join(
        f'<span class="line{" marked" if number in source.marked else ""}"><i>{number}</i>{escape(line)}\n</span>'
        for number, line in enumerate(source.lines, source.first)
    )
    return f'<p class="note">{escape(PurePath(source.file).name)}</p><pre class="source">{rows}</pre>'


def _paths_part(exhibits: Exhibits) -> str:
    if exhibits.paths is None:
        return ""
    count = f"{exhibits.path_count:,} path{'' if exhibits.path_count == 1 else 's'}"
    return (
        f'<details class="card paths"><summary><h3>The paths of the program</h3> {count}</summary>'
        "<p class=note>Every way in which a run on the left input can go: what it draws, how it branches, and what it "
        f"returns.</p>{_tree(exhibits.paths)}</details>"
    )


def _tree(tree: Tree) -> str:
    """The children of a tree, each fork a part that folds."""
    items = []
    for child in tree.children:
        label = child.label if isinstance(child.label, Text) else Text.from_markup(str(child.label))
        text = escape(label.plain)
        if child.children:
            items.append(f"<li><details open><summary>{text}</summary>{_tree(child)}</details></li>")
        else:
            items.append(f"<li{' class=output' if label.plain.startswith('→') else ''}>{text}</li>")
    return f'<ul class="tree">{"".join(items)}</ul>'


def _search_part(verdict: Verdict) -> str:
    """What was searched, and what could have been noticed; what each engine found."""
    searched = "".join(f"<li>{escape(what)}</li>" for what in verdict.searched)
    power = []
    if verdict.smallest_mass:
        power.append(f"Events of probability below {verdict.smallest_mass:.2g} could not be noticed.")
    elif verdict.smallest_mass == 0:
        power.append("Probabilities were computed: no event of the pairs that were compared is too rare to be noticed.")
    if verdict.detectable is not None:
        power.append(f"{escape(str(verdict.detectable))}.")
    power.append(
        f"A false alarm has probability at most {verdict.alpha:g}."
        if verdict.alpha
        else "No statement rests on samples: there are no false alarms by chance."
    )
    if verdict.rate_text:
        power.append(f"{escape(verdict.rate_text).capitalize()}.")
    rows = [
        (
            "",
            [escape(one.engine), escape(one.finding), f"{one.seconds:.1f}"],
            [one.engine, one.finding, str(one.seconds)],
        )
        for one in verdict.evidence
    ]
    return (
        '<section class="card"><h3>What was searched, and with which power</h3>'
        f"{f'<ul>{searched}</ul>' if searched else ''}<p>{' '.join(power)}</p>"
        f"{table(('engine', 'found', 'seconds'), rows, numeric={2})}</section>"
    )


def _trust_part(verdict: Verdict) -> str:
    """What has to be trusted, and what it takes to see it again."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in _made_by(verdict))
    snippet = f"<p><b>To see the witness again</b></p><pre>{escape(verdict.snippet)}</pre>" if verdict.snippet else ""
    return (
        f'<section class="card"><h3>What this rests on</h3><p>{TRUST[verdict.standing]}</p>{snippet}'
        f'<dl class="made-by">{items}</dl></section>'
    )


def _made_by(verdict: Verdict) -> list[tuple[str, str]]:
    versions: Mapping[str, str] = verdict.versions
    kept = [("from the cache", f"made on {verdict.cached}")] if verdict.cached else []
    return [("seed", str(verdict.seed)), *versions.items(), ("took", f"{verdict.seconds:.1f} s"), *kept]


def _class(one: Audited) -> str:
    return UNJUDGED if one.verdict is None else CLASSES[one.verdict.standing]


def _badge(one: Audited) -> str:
    kind = _class(one)
    return f'<span class="badge {kind}">{UNJUDGED if one.verdict is None else one.verdict.standing.value}</span>'
