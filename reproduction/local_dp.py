"""Local DP with commitments: figures 1 to 9, tables 1 and 2, the theorems, and the worked examples recomputed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, partial

from reproduction.artefact import (
    Artefact,
    Column,
    Effort,
    Finding,
    Panel,
    Plot,
    Row,
    Series,
    Shown,
    Source,
    Standing,
    TableView,
    Text,
    column,
    corrected,
    distinct,
    judged,
    number,
    where,
)
from veridp.collect import GRRHO, PMHO, SRHO, VGRR, Harmless, Rates
from veridp.collect.estimate import leak, robustness
from veridp.collect.evaluation import (
    PUBLISHED_FIGURE_9,
    PUBLISHED_TABLE_2,
    CommitmentCost,
    ProtocolSummary,
    figure_9,
    figure_9_conclusions,
    pedersen,
    table_2,
    table_2_conclusions,
)
from veridp.local import PM
from veridp.local.conclusions import PUBLISHED, conclusions
from veridp.local.study import Figure, Study, StudyPoint, StudySettings, adult_ages, evaluate

TWO = math.log(2)
PEOPLE, SETTINGS = adult_ages(), StudySettings()


# ------------------------------------------------------------------------------------------------------ figures 1 to 8


@cache
def study(repetitions: int, seed: int) -> Study:
    """The evaluation on the Adult ages, once for all figures."""
    return evaluate(adult_ages(), StudySettings(repetitions=repetitions, seed=seed))


def measure_study(case: str, effort: Effort, seed: int) -> list[Row]:
    """The points of one figure: the mean of the repetitions, its 95 % interval, and the analytic value."""
    found = next(one for one in study(effort.pick(4, 20), seed).figures if one.name == case)
    return [
        {
            "series": point.series,
            "panel": point.panel,
            "x": point.x,
            "mean": point.mean,
            "lower": point.lower,
            "upper": point.upper,
            "analytic": None if math.isnan(point.analytic) else point.analytic,
            "agrees": point.agrees,
        }
        for point in found.points
    ]


def panels(rows: Sequence[Row], x: str, y: str, *, log_x: bool = False, level: float = math.nan) -> list[Panel]:
    """A panel for each; measured points with their intervals."""
    found = []
    for panel in distinct(rows, "panel"):
        mine, series = where(rows, panel=panel), []
        for name in map(str, distinct(mine, "series")):
            of = where(mine, series=name)
            intervals = (column(of, "lower"), column(of, "upper"))
            series.append(Series(name, column(of, "x"), column(of, "mean"), "line", *intervals))
        found.append(Panel(str(panel or ""), x, y, series, log_x=log_x, at_y=[(level, "true mean")]))
    return found


def show_study(number_: int, x: str, y: str, caption: Text, rows: Sequence[Row]) -> Shown:
    """A figure of the study: what the product concludes from it, and its panels."""
    points = tuple(
        StudyPoint(str(row["series"]), str(row["panel"] or ""), x_, mean, low, high, math.nan, number(row, "analytic"))
        for row in rows
        for x_, mean, low, high in [[number(row, key) for key in ("x", "mean", "lower", "upper")]]
    )
    said = conclusions(Figure(number_, "", "", x, y, points), PEOPLE, SETTINGS)
    gains = y == "gain"
    shown = [row for row in rows if not gains or str(row["panel"]).startswith("IPA")]
    drawn = panels(shown, x, y, log_x=x == "ε", level=math.nan if gains else PEOPLE.mean)
    drawn = [Panel(p.title, p.x, p.y, p.series, log_x=p.log_x, log_y=p.title == "unbiased", at_y=p.at_y) for p in drawn]
    return Shown(said, (), [Plot(caption, drawn)])


# ------------------------------------------------------------------------------------------------------------ figure 9


def measure_times(case: str, effort: Effort, seed: int) -> list[Row]:
    """Processor seconds to commit to the entries of GRR-HO with d = 73 at ε = ln 2, and to verify them."""
    return [vars(cost) for cost in figure_9(effort.pick(2, 20))]


def show_times(rows: Sequence[Row]) -> Shown:
    costs = [
        CommitmentCost(str(row["scheme"]), int(number(row, "entries")), *times, int(number(row, "sent")))
        for row in rows
        for times in [(number(row, "commit"), number(row, "verify"))]
    ]
    columns = (
        Column("scheme", Text("commitments", "コミットメント")),
        Column("entries", Text("entries ℓ", "要素数 ℓ")),
        Column("commit", Text("s to commit", "コミット 秒"), 3),
        Column("verify", Text("s to verify", "検証 秒"), 3),
        Column("sent", Text("bytes sent", "送信バイト")),
    )
    by_bits = [cost for cost in costs if cost.scheme.startswith("modular-")]
    total = [cost.commit + cost.verify for cost in by_bits]
    bits = [float(cost.scheme.removeprefix("modular-")) for cost in by_bits]
    panel = Panel("", "bits", "processor seconds", [Series("commit and verify", bits, total)])
    title = Text("Processor time of the commitments of GRR-HO", "GRR-HO のコミットメントの CPU 時間")
    return Shown(figure_9_conclusions(costs), [TableView(title, columns, rows)], [Plot(title, [panel])])


# -------------------------------------------------------------------------------------------------------------- tables

POSITION = (
    ("frequency", "GRR, OUE, OLH, RAPPOR", "veridp.local: GRR, OUE, OLH, RAPPOR, SUE, Hadamard, SubsetSelection"),
    ("frequency, attacks", "RPA, RIA, MGA", "veridp.local.poisoning: RPA, RIA, MGA, AdaptiveMGA"),
    ("frequency, detection", "normalisation, detection", "veridp.local.defences: detect, weigh, recover"),
    ("frequency, commitments", "VGRR, VOUE", "veridp.collect: VGRR, VOUE, VOLH"),
    ("mean", "SR, PM", "veridp.local: SR, PM, HM, LaplaceMean, BinnedGRR"),
    ("mean, attacks", "fine-grained attack", "veridp.local.poisoning: OPA, IPA, FineGrained"),
    ("mean, commitments", "this source: GRR-HO, SR-HO, PM-HO", "veridp.collect: GRRHO, SRHO, PMHO"),
)


def measure_position(case: str, effort: Effort, seed: int) -> list[Row]:
    """What the source places where, and the names of veridp that do it; every name is looked up."""
    import importlib

    rows: list[Row] = []
    for task, published, ours in POSITION:
        module, names = ours.split(": ")
        found = importlib.import_module(module)
        missing = [name for name in names.split(", ") if not hasattr(found, name)]
        rows.append({"task": task, "published": published, "ours": ours, "missing": ", ".join(missing)})
    return rows


def show_position(rows: Sequence[Row]) -> Shown:
    missing = [str(row["missing"]) for row in rows if row["missing"]]
    finding = judged(
        not missing,
        Text("Every cell of the table has its counterpart in veridp.", "表のすべての項目に veridp の対応物がある。"),
        Text(f"Missing: {', '.join(missing)}.", f"ない物：{', '.join(missing)}。"),
    )
    columns = (
        Column("task", Text("task", "課題")),
        Column("published", Text("in the source", "出典")),
        Column("ours", Text("in veridp", "veridp")),
    )
    return Shown([finding], [TableView(Text("Where things are", "位置づけ"), columns, rows)])


def measure_schemes(case: str, effort: Effort, seed: int) -> list[Row]:
    """Each protocol at ε = ln 2: its standing, computed from all vectors that are accepted, entries, error and gains."""
    return [vars(row) for row in table_2(PEOPLE)]


def show_schemes(rows: Sequence[Row]) -> Shown:
    said = table_2_conclusions([ProtocolSummary(**row) for row in rows])  # type: ignore[arg-type]
    columns = (
        Column("protocol", Text("protocol", "方式")),
        Column("epsilon", Text("ε", "ε")),
        Column("published", Text("published", "公表")),
        Column("standing", Text("computed", "計算結果")),
        Column("s_in", Text("S_in, years", "S_in（歳）")),
        Column("s_max", Text("S_max", "S_max")),
        Column("s_out", Text("S_out", "S_out")),
        Column("entries", Text("ℓ", "ℓ")),
        Column("error", Text("standard error", "標準誤差"), 3),
        Column("gain", Text("gain, β = 5 %", "利得（β = 5 %）"), 3),
    )
    return Shown(said, [TableView(Text("The protocols at ε = ln 2", "ε = ln 2 での各方式"), columns, rows)])


# ------------------------------------------------------------------------------------------------------------ theorems


def measure_theorems(case: str, effort: Effort, seed: int) -> list[Row]:
    """Each theorem of the source, and what enumeration says of it for a small protocol."""
    small = VGRR(Rates(3, 1), ("a", "b"))
    sr, pm = SRHO(Rates(2, 1), 0.0, 1.0, 2), PMHO(Rates(2, 1), 0.0, 1.0, 4)
    law = [small.law(chosen, b"")[0] for chosen in range(2)]
    ratio = max(left / right for left, right in zip(*law, strict=True))
    leaks = [leak(protocol).distance for protocol in (small, sr, pm)]
    evident = {"theorem": "after 3.3", "says": "SR-HO and PM-HO show no more than y"}
    return [
        {"theorem": "2.1", "says": "VGRR is ln(ℓ1/ℓ2)-LDP", "computed": f"largest ratio {ratio}", "holds": ratio == 3},
        {
            "theorem": "2.2",
            "says": "the view shows no more than y",
            "computed": f"distance {leaks[0]}",
            "holds": not leaks[0],
        },
        _robust("2.3", "VGRR is robust", small, "robust"),
        _robust("3.1", "GRR-HO is robust", GRRHO(Rates(3, 1), 0.0, 1.0, 3), "robust"),
        _robust("3.2", "SR-HO is semi-robust", sr, "semi-robust"),
        _robust("3.3", "PM-HO is robust", pm, "robust"),
        {**evident, "computed": f"distances {leaks[1]}, {leaks[2]}", "holds": not any(leaks[1:])},
    ]


def _robust(name: str, says: str, protocol: Harmless, published: str) -> Row:
    known = robustness(protocol, None if isinstance(protocol, GRRHO | SRHO | PMHO) else [0])
    return {"theorem": name, "says": says, "computed": str(known), "holds": str(known.standing) == published}


def show_theorems(rows: Sequence[Row]) -> Shown:
    wrong = [str(row["theorem"]) for row in rows if not row["holds"]]
    found = [
        judged(
            wrong == ["3.2", "3.3"],
            Text(
                "Theorems 2.1 to 2.3 and 3.1 hold, by exact enumeration for small protocols, and so does what the source "
                "calls evident of SR-HO and PM-HO.",
                "定理 2.1〜2.3 と 3.1 は小さな方式の完全な列挙で成り立つ。出典が自明とする SR-HO と PM-HO の性質も同様。",
            ),
            Text(f"Theorems that fail: {', '.join(wrong)}.", f"成り立たない定理：{', '.join(wrong)}。"),
        ),
        corrected(
            wrong == ["3.2", "3.3"],
            Text(
                "Theorem 3.2 says too little: SR-HO is robust. Theorem 3.3 is wrong: PM-HO is not robust.",
                "定理 3.2 は弱すぎる（SR-HO は robust）。定理 3.3 は誤り（PM-HO は robust でない）。",
            ),
        ),
        Finding(
            Standing.CORRECTED,
            Text(
                "Misprints in section 2: SR's probabilities have p - q where q - p is printed, and the report is divided "
                "by 2p - 1, not p - 1; PM's s is (E + 1)/(E - 1), and its window ends are divided by E - 1, not 2E + 1 (E = e^(ε/2)).",
                "2 節の誤植：SR の確率は q − p ではなく p − q、報告は p − 1 ではなく 2p − 1 で割る。PM の s は (E + 1)/(E − 1)、窓の端の分母は 2E + 1 ではなく E − 1（E = e^(ε/2)）。",
            ),
        ),
    ]
    columns = (
        Column("theorem", Text("theorem", "定理")),
        Column("says", Text("says", "内容")),
        Column("computed", Text("computed", "計算結果")),
        Column("holds", Text("holds as published", "公表どおり成立")),
    )
    return Shown(found, [TableView(Text("The theorems", "定理"), columns, rows)])


# ----------------------------------------------------------------------------------------------------- worked examples

# The published table, whose ninth of ten columns is lost; its value must be 1, for six copies of x = 1 to be there.
MU = (0, 1, 1, 2, 1, 0, 2, 1, None, 1)
TAU = (14, 8, 2, 12, 1, 8, 0, 5, None, 15)
ETA = (2, 15, 1, 16, 6, 16, 4, 10, None, 12)
OPENED = (0, 1, 3, 5, 6, 9)
SELECTED = 8


def measure_grr(case: str, effort: Effort, seed: int) -> list[Row]:
    """The entries of the example, with commitments modulo 17 recomputed for g = 2, h = 3."""
    return [
        {
            "index": i,
            "value": MU[i] if MU[i] is not None else 1,
            "scalar": TAU[i],
            "published": ETA[i],
            "recomputed": None if (m := MU[i]) is None or (t := TAU[i]) is None else pedersen(m, t, 17, 2, 3),
            "opened": i in OPENED,
            "selected": i == SELECTED,
        }
        for i in range(10)
    ]


def show_grr(rows: Sequence[Row]) -> Shown:
    same = all(row["published"] == row["recomputed"] for row in rows)
    protocol = VGRR(Rates(6, 2), ("0", "1", "2"))
    values = [int(number(row, "value")) for row in rows]
    counts = tuple(values.count(v) for v in range(3))
    opened = tuple(sum(values[i] == v for i in OPENED) for v in range(3))
    found = [
        judged(
            same and counts == protocol.counts(1, b"")[0] and opened == protocol.layout.floors,
            Text(
                "All nine commitments that are printed are g^μ h^τ modulo 17 with g = 2 and h = 3; the vector has six copies "
                "of x = 1 and two of each other value, and two of each value are opened.",
                "印刷された九つのコミットメントはすべて g = 2、h = 3 の g^μ h^τ mod 17 に一致する。ベクトルは x = 1 を六つ、他を二つずつ含み、各値が二つずつ開示される。",
            ),
            Text("The example does not recompute.", "例は再計算できない。"),
        ),
        corrected(
            math.isclose(protocol.epsilon, math.log(3)) and protocol.layout.length == 10 and SELECTED not in OPENED,
            Text(
                f"ℓ1 = 6, ℓ2 = 2 is ε = ln 3 = {protocol.epsilon:.4f}, not ln 2; the length is ℓ1 + (d-1)ℓ2 = "
                f"{protocol.layout.length}, not ℓ1 + dℓ2 = 12; and J must contain the selected entry 8, which the printed "
                "J = {0, 1, 3, 5, 6, 9} does not: open 8 in place of 9.",
                f"ℓ1 = 6、ℓ2 = 2 は ε = ln 2 ではなく ln 3 = {protocol.epsilon:.4f}。長さは ℓ1 + dℓ2 = 12 ではなく ℓ1 + (d−1)ℓ2 = {protocol.layout.length}。"
                "また J は選ばれた 8 を含む必要があるが、印刷の J = {0, 1, 3, 5, 6, 9} は含まない（9 の代わりに 8 を開示する）。",
            ),
        ),
    ]
    columns = (
        Column("index", Text("i", "i")),
        Column("value", Text("μ", "μ")),
        Column("scalar", Text("τ", "τ")),
        Column("published", Text("η, published", "η（公表）")),
        Column("recomputed", Text("η, recomputed", "η（再計算）")),
        Column("opened", Text("in J", "J に含む")),
        Column("selected", Text("selected", "選択")),
    )
    return Shown(found, [TableView(Text("ℓ1 = 6, ℓ2 = 2, d = 3", "ℓ1 = 6, ℓ2 = 2, d = 3"), columns, rows)])


SR_PUBLISHED = (
    (0, "-1", "1/3", 4, 8),
    (1, "-1/2", "5/12", 5, 7),
    (2, "0", "1/2", 6, 6),
    (3, "1/2", "7/12", 7, 5),
    (4, "1", "2/3", 8, 4),
)


def measure_sr(case: str, effort: Effort, seed: int) -> list[Row]:
    """The counts of SR-HO with four times the shortest vector, which has the five inputs of the example."""
    protocol = SRHO(Rates(2, 1), 0.0, 4.0, 4)
    rows: list[Row] = []
    for x, unit, share, ones, minus in SR_PUBLISHED:
        below, above = protocol.counts(x, b"")[0]
        rows.append(
            {
                "x": x,
                "unit": str(Fraction(x, 2) - 1),
                "published_unit": unit,
                "published_share": share,
                "share": str(protocol.law(x, b"")[0][1]),
                "published_counts": f"{ones}, {minus}",
                "counts": f"{above}, {below}",
                "length": protocol.layout.length,
            }
        )
    return rows


def show_sr(rows: Sequence[Row]) -> Shown:
    same = all(
        str(Fraction(str(r["share"]))) == r["published_share"] and r["counts"] == r["published_counts"] for r in rows
    )
    finding = judged(
        same,
        Text(
            f"All five rows recompute, with ℓ = {number(rows[0], 'length'):.0f}. Rounding to ±1 first needs only 3 entries.",
            f"五行すべて再計算と一致し、ℓ = {number(rows[0], 'length'):.0f}。先に ±1 に丸めれば 3 要素で済む。",
        ),
        Text("The table does not recompute.", "表は再計算と一致しない。"),
    )
    columns = (
        Column("x", Text("x", "x")),
        Column("unit", Text("x̃", "x̃")),
        Column("published_share", Text("p*, published", "p*（公表）")),
        Column("share", Text("p*, ours", "p*（veridp）")),
        Column("published_counts", Text("ℓ₁, ℓ₋₁, published", "ℓ₁, ℓ₋₁（公表）")),
        Column("counts", Text("ℓ₁, ℓ₋₁, ours", "ℓ₁, ℓ₋₁（veridp）")),
    )
    return Shown([finding], [TableView(Text("SR-HO, d = 5, ε = ln 2", "SR-HO, d = 5, ε = ln 2"), columns, rows)])


PM_PUBLISHED = ((0, -5.8, -1.0), (1, -4.0, 0.7), (2, -2.4, 2.4), (3, -0.7, 4.1), (4, 1.0, 5.8))


def measure_pm(case: str, effort: Effort, seed: int) -> list[Row]:
    """The windows of PM at ε = ln 2: those of the oracle's grid, and by the right formula."""
    oracle, e = PM(0.0, 4.0, TWO), math.exp(TWO / 2)
    rows: list[Row] = []
    for x, low, high in PM_PUBLISHED:
        start = x / 4 * (oracle.levels - oracle.window)
        ends = [(2 * k - (oracle.levels - 1)) * oracle.unit for k in (start, start + oracle.window - 1)]
        unit = x / 2 - 1
        formula = (e * unit - 1) / (e - 1), (e * unit + 1) / (e - 1)
        rows.append(
            {
                "x": x,
                "unit": unit,
                "published_low": low,
                "published_high": high,
                "low": ends[0],
                "high": ends[1],
                "formula_low": formula[0],
                "formula_high": formula[1],
                "s": oracle.reach,
            }
        )
    return rows


def show_pm(rows: Sequence[Row]) -> Shown:
    far = [r for r in rows for end in ("low", "high") if abs(number(r, end) - number(r, f"published_{end}")) > 0.051]
    grid = max(abs(number(r, end) - number(r, f"formula_{end}")) for r in rows for end in ("low", "high"))
    found = [
        judged(
            grid < 0.01 and len(far) <= 1,
            Text(
                f"s = {number(rows[0], 's'):.3f} (published 5.8), and the windows are the published ones to one digit; the "
                f"oracle's grid is within {grid:.1g} of the formula.",
                f"s = {number(rows[0], 's'):.3f}（公表 5.8）。窓は一桁の精度で公表どおり。オラクルの格子と式の差は {grid:.1g} 以内。",
            ),
            Text(f"{len(far)} ends of windows differ.", f"{len(far)} 個の窓の端が異なる。"),
        ),
        corrected(
            abs(number(rows[1], "low") + 4.12) < 0.01,
            Text(
                f"At x = 1 the window begins at {number(rows[1], 'low'):.2f}, not -4; and s is (√2 + 1)/(√2 - 1), printed "
                "with √1, which would be infinite.",
                f"x = 1 の窓の左端は −4 ではなく {number(rows[1], 'low'):.2f}。s は (√2 + 1)/(√2 − 1) で、印刷の √1 では無限大になる。",
            ),
        ),
    ]
    columns = (
        Column("x", Text("x", "x")),
        Column("unit", Text("x̃", "x̃")),
        Column("published_low", Text("ℓ(x̃), published", "ℓ(x̃)（公表）")),
        Column("low", Text("ℓ(x̃), ours", "ℓ(x̃)（veridp）")),
        Column("published_high", Text("r(x̃), published", "r(x̃)（公表）")),
        Column("high", Text("r(x̃), ours", "r(x̃)（veridp）")),
    )
    return Shown(found, [TableView(Text("Windows of PM, ε = ln 2", "PM の窓, ε = ln 2"), columns, rows)])


def one(case: str, effort: Effort) -> tuple[str]:
    return (case,)


def figure(number_: int, title: Text, case: str, x: str, y: str = "estimated mean") -> Artefact:
    name = Text(f"Figure {number_}: {title.en}", f"図 {number_}：{title.ja}")
    show = partial(show_study, number_, x, y, title)
    return Artefact(f"local-figure-{number_}", name, PUBLISHED[number_], measure_study, show, partial(one, case))


SOURCE = Source(
    "local-dp",
    Text("Local DP with commitments", "コミットメントによる局所差分プライバシー"),
    "H. Kikuchi, T. Murakami: Evaluation on Partial Opening of Committed Values to prevent poisoning attack of Local "
    "Differential Privacy. Ages: Becker and Kohavi (1996), Adult, UCI, doi.org/10.24432/C5XW20, CC BY 4.0.",
    (
        figure(1, Text("the mean after rounding to d levels", "d 値に離散化した平均"), "bins", "d", "mean"),
        figure(
            2, Text("GRR against d at ε = 0.1", "ε = 0.1 での d に対する GRR"), "estimates-by-d-at-least-epsilon", "d"
        ),
        figure(3, Text("GRR under attack", "攻撃下の GRR"), "attacked-by-epsilon", "ε"),
        figure(4, Text("estimates against ε", "ε に対する推定平均"), "estimates-by-epsilon", "ε"),
        figure(5, Text("estimates against d", "d に対する推定平均"), "estimates-by-d", "d"),
        figure(6, Text("gain against ε", "ε に対する利得"), "gains-by-epsilon", "ε", "gain"),
        figure(7, Text("gain against β", "β に対する利得"), "gains-by-beta", "β", "gain"),
        figure(8, Text("gain against θ", "θ に対する利得"), "gains-by-theta", "θ", "gain"),
        Artefact(
            "local-figure-9",
            Text("Figure 9: time by the bits of the prime", "図 9：素数のビット数と時間"),
            PUBLISHED_FIGURE_9,
            measure_times,
            show_times,
        ),
        Artefact(
            "local-table-1",
            Text("Table 1: where the work stands", "表 1：研究の位置づけ"),
            Text("tasks, mechanisms, attacks and mitigations.", "課題・機構・攻撃・対策。"),
            measure_position,
            show_position,
        ),
        Artefact(
            "local-table-2",
            Text("Table 2: the protocols compared", "表 2：方式の比較"),
            PUBLISHED_TABLE_2,
            measure_schemes,
            show_schemes,
        ),
        Artefact(
            "local-theorems",
            Text("The theorems, corrected", "定理とその訂正"),
            Text("theorems 2.1 to 2.3 (of Song et al.) and 3.1 to 3.3.", "定理 2.1〜2.3（Song ら）と 3.1〜3.3。"),
            measure_theorems,
            show_theorems,
        ),
        Artefact(
            "local-example-grr",
            Text("Worked example: GRR-HO", "計算例：GRR-HO"),
            Text(
                "ε = ln 2, D = {0, 1, 2}, ℓ1 = 6, ℓ2 = 2, commitments modulo 17, j = 8.",
                "ε = ln 2、D = {0, 1, 2}、ℓ1 = 6、ℓ2 = 2、コミットメントは mod 17、j = 8。",
            ),
            measure_grr,
            show_grr,
        ),
        Artefact(
            "local-example-sr",
            Text("Worked example: SR-HO", "計算例：SR-HO"),
            Text("ε = ln 2, d = 5: ℓ = 12.", "ε = ln 2、d = 5：ℓ = 12。"),
            measure_sr,
            show_sr,
        ),
        Artefact(
            "local-example-pm",
            Text("Worked example: windows of PM", "計算例：PM の窓"),
            Text("ε = ln 2, five inputs, s = 5.8.", "ε = ln 2、五つの入力、s = 5.8。"),
            measure_pm,
            show_pm,
        ),
    ),
)
