"""One self-contained page: contents by source, each artefact with its findings, plots and tables, in two languages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from reproduction.artefact import Effort, Finding, Shown, Source, Standing, TableView, Text, shown
from reproduction.plots import svg
from reproduction.registry import SOURCES
from reproduction.results import Run
from reproduction.steps import Measured

FOLDED_ROWS = 40  # a longer table is folded; its CSV file has everything

NAMES = {
    Standing.AGREES: Text("agrees", "一致"),
    Standing.DIFFERS: Text("differs", "不一致"),
    Standing.CORRECTED: Text("source corrected", "出典を訂正"),
    Standing.NOT_COMPARED: Text("not compared", "比較なし"),
}

STYLE = """
:root { color-scheme: light; --ink: #1f2937; --soft: #6b7280; --rule: #d1d5db; }
* { box-sizing: border-box; }
html[data-language=en] [lang=ja], html[data-language=ja] [lang=en] { display: none; }
body { font: 16px/1.6 system-ui, "Hiragino Sans", "Noto Sans JP", sans-serif; color: var(--ink); margin: 0 auto;
  padding: 0 1rem 4rem; max-width: 76rem; overflow-wrap: break-word; }
h1 { line-height: 1.25; margin-top: 2rem; } h2 { border-bottom: 2px solid var(--rule); margin-top: 3.5rem; }
h3 { margin: 2.5rem 0 .5rem; } .soft { color: var(--soft); font-size: .9rem; }
nav ol { padding-left: 1.4rem; } nav > ol > li { margin-top: .6rem; } a { color: #075985; }
button { font: inherit; padding: .25rem .8rem; border: 1px solid var(--rule); border-radius: .4rem; background: #fff; }
.published { border-left: 3px solid var(--rule); padding-left: .8rem; color: #374151; }
.finding { margin: .5rem 0; } .mark { display: inline-block; font-size: .78rem; font-weight: 600; border-radius: .3rem;
  padding: 0 .45rem; margin-right: .5rem; color: #fff; background: #6b7280; }
.agrees { background: #15803d; } .differs { background: #b45309; } .corrected { background: #7e22ce; }
.scroll { overflow-x: auto; margin: .6rem 0; } table { border-collapse: collapse; font-size: .86rem;
  font-variant-numeric: tabular-nums; } caption { text-align: left; font-weight: 600; padding: .3rem 0; }
td, th { padding: .18rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #eef0f3; }
td { max-width: 24rem; } th { border-bottom: 1px solid var(--soft); } td.number { text-align: right; white-space: nowrap; }
figure { margin: 1rem 0; } figure svg { display: block; width: 100%; height: auto; max-width: 64rem; }
figcaption { font-size: .9rem; color: #374151; }
@media (max-width: 640px) { figure .wide { overflow-x: auto; } figure .wide svg { min-width: 46rem; } }
@media print { body { font-size: 10pt; max-width: none; padding: 0; } button { display: none; }
  h2 { break-before: page; } h2, h3, caption { break-after: avoid; } figure, tr { break-inside: avoid; }
  .scroll, figure .wide { overflow: visible; } table { font-size: 7.5pt; } }
"""

SCRIPT = """
const page = document.documentElement;
function speak(language) { page.dataset.language = language; page.lang = language; }
document.getElementById("language").addEventListener("click",
  () => speak(page.dataset.language === "en" ? "ja" : "en"));
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
if (location.hash === "#ja" || (!location.hash && (navigator.language || "").startsWith("ja"))) speak("ja");
"""


def page(measured: Sequence[Measured], run: Run) -> str:
    """The whole page, of all sources that something was measured of; it loads nothing from elsewhere."""
    views = {one.artefact.name: (one, one.artefact.show(one.rows)) for one in measured}
    sources = [source for source in SOURCES if any(artefact.name in views for artefact in source.artefacts)]
    parts = [
        '<!doctype html><html lang="en" data-language="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">',
        f"<title>veridp: the sources, reproduced</title><style>{STYLE}</style></head><body>",
        '<p><button id="language" type="button"><span lang="en">日本語で読む</span>'
        '<span lang="ja">Read in English</span></button></p>',
        _head([view for _, view in views.values()], run),
        *_contents(sources),
    ]
    for source in sources:
        parts.append(f'<h2 id="{source.name}">{_both(source.title)}</h2>')
        parts.append(f'<p class="soft">{escape(source.citation)}</p>')
        for artefact in source.artefacts:
            if artefact.name in views:
                parts += _section(*views[artefact.name])
    return "\n".join([*parts, f"<script>{SCRIPT}</script></body></html>\n"])


def _both(text: Text) -> str:
    return f'<span lang="en">{escape(text.en)}</span><span lang="ja">{escape(text.ja)}</span>'


def _head(views: Sequence[Shown], run: Run) -> str:
    counts = Counter(finding.standing for view in views for finding in view.findings)
    marks = " ".join(f'<span class="mark {_class(s)}">{counts[s]} {_both(NAMES[s])}</span>' for s in Standing)
    made = f"veridp {run.version}, Python {run.python}, {run.machine}"
    efforts = {
        Effort.QUICK: Text(
            "a quick run: few samples, so sampled bounds are looser than those of a full run",
            "簡易実行：サンプルが少ないため、サンプリングによる下限は完全実行より緩い",
        ),
        Effort.FULL: Text("a full run", "完全実行"),
    }
    about = Text(
        "Every figure, table, theorem and worked example of the five source documents stands here beside what veridp "
        "computes, with the truth where it is known, and says whether they agree. Labels within plots, and events that "
        "a search put into words, are in English.",
        "五つの出典にあるすべての図・表・定理・計算例を、veridp の計算結果と（分かっている場合は）真の値と並べ、"
        "一致するかどうかを述べる。図中のラベルと、探索が言葉にした事象は英語のままである。",
    )
    title = Text("The sources, reproduced", "出典の再現")
    return (
        f"<h1>{_both(title)}</h1><p>{_both(about)}</p><p>{marks}</p>"
        f'<p class="soft">{_both(efforts[run.effort])}. <code>{run.command}</code>, seed {run.seed}; {escape(made)}.</p>'
    )


def _class(standing: Standing) -> str:
    return standing.value.replace(" ", "-")


def _contents(sources: Sequence[Source]) -> Iterator[str]:
    yield "<nav><ol>"
    for source in sources:
        yield f'<li><a href="#{source.name}">{_both(source.title)}</a><ol>'
        for artefact in source.artefacts:
            yield f'<li><a href="#{artefact.name}">{_both(artefact.title)}</a></li>'
        yield "</ol></li>"
    yield "</ol></nav>"


def _section(one: Measured, view: Shown) -> Iterator[str]:
    artefact = one.artefact
    published = Text("Published:", "出典：") + artefact.published
    yield f'<section><h3 id="{artefact.name}">{_both(artefact.title)}</h3>'
    yield f'<p class="published">{_both(published)}</p>'
    yield from map(_finding, view.findings)
    for place, plot in enumerate(view.plots):
        wide = ' class="wide"' if len(plot.panels) > 1 else ""
        drawn = svg(plot, f"{artefact.name}-{place}")
        yield f"<figure><div{wide}>{drawn}</div><figcaption>{_both(plot.caption)}</figcaption></figure>"
    for table in view.tables:
        yield from _table(table)
    seconds = Text(f"· {one.seconds:.1f} processor seconds to measure", f"· 計測の CPU 時間 {one.seconds:.1f} 秒")
    took = "" if math.isnan(one.seconds) else _both(seconds)
    yield f'<p class="soft"><a href="{artefact.name}.csv">{artefact.name}.csv</a> {took}</p></section>'


def _finding(finding: Finding) -> str:
    mark = f'<span class="mark {_class(finding.standing)}">{_both(NAMES[finding.standing])}</span>'
    return f'<p class="finding">{mark}{_both(finding.text)}</p>'


def _table(table: TableView) -> Iterator[str]:
    folded = len(table.rows) > FOLDED_ROWS
    if folded:
        summary = table.title + Text(f"({len(table.rows)} rows)", f"（{len(table.rows)} 行）")
        yield f"<details><summary>{_both(summary)}</summary>"
    head = "".join(f"<th>{_both(column.title)}</th>" for column in table.columns)
    caption = "" if folded else f"<caption>{_both(table.title)}</caption>"
    yield f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>'
    for row in table.rows:
        cells = []
        for column in table.columns:
            cell = row.get(column.key)
            plain = isinstance(cell, int | float) and not isinstance(cell, bool)
            text = escape(shown(cell, column.digits))
            cells.append(f'<td class="number">{text}</td>' if plain else f"<td>{text}</td>")
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>" + "</details>" * folded
