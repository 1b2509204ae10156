"""StatDP: p-value against test ε (figures 2 to 4), the input patterns (Table 1), the counterexamples (Table 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import veridp
from reproduction.artefact import (
    Artefact,
    Cell,
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
    judged,
    number,
    where,
)
from veridp.errors import VeridpError

CLAIMS = (0.2, 0.7, 1.5)
ALPHA = 0.05


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the paper: its name there and in the catalogue, and where its p-values rise as published."""

    paper: str
    name: str
    right: bool
    rises: tuple[str, str, str]  # at ε0 = 0.2, 0.7 and 1.5


FIGURES = {
    "2": (
        Algorithm("noisy max 1a (Laplace, index)", "noisy_max1", True, ("0.2", "0.7", "1.5")),
        Algorithm("noisy max 1b (exponential, index)", "noisy_max2", True, ("0.2", "0.7", "1.5")),
        Algorithm("noisy max 2a (Laplace, value)", "noisy_max3", False, ("0.4", "> 2.2", "> 2.2")),
        Algorithm("noisy max 2b (exponential, value)", "noisy_max4", False, ("> 0.2", "> 2.2", "> 2.2")),
    ),
    "3": (
        Algorithm("histogram", "noisy_hist1", True, ("0.2", "0.7", "1.5")),
        Algorithm("histogram, wrong scale", "noisy_hist2", False, ("0.6", "> 1", "0.6")),
    ),
    "4": (
        Algorithm("SVT", "svt1", True, ("0.2", "0.7", "1.5")),
        Algorithm("iSVT1 (no noise on queries)", "svt5", False, ("never", "never", "never")),
        Algorithm("iSVT2 (no cut-off)", "svt6", False, ("0.5", "2.1", "3.0")),
        Algorithm("iSVT3 (noise too small)", "svt4", False, ("0.3", "1.1", "2.3")),
        Algorithm("iSVT4 (releases the noisy query)", "svt3", False, ("> 0.2", "> 0.7", "> 1.5")),
    ),
}
ALGORITHMS = {algorithm.name: algorithm for figure in FIGURES.values() for algorithm in figure}
LONGEST = 10  # the longer of the two lengths that are tried: the true cost is that of this length


# ----------------------------------------------------------------------------------------------------- the curves


def measure_curve(case: str, effort: Effort, seed: int) -> list[Row]:
    """One curve of p-values, and the exact ε between the two inputs of the counterexample at the claim."""
    name, claim = case.split(":")[0], float(case.split(":")[1])
    mechanism = veridp.catalogue[name].claiming(claim)
    true = mechanism.true_epsilon(LONGEST)
    grid = [share * claim / 10 for share in range(2, 23, effort.pick(2, 1))]
    if true is not None and math.isfinite(true):
        grid += [0.9 * true, 1.1 * true]
    found = veridp.statdp.detect(
        veridp.catalogue[name],
        claim,
        test_epsilons=sorted(set(grid)),
        selection_samples=effort.pick(3_000, 100_000),
        samples=effort.pick(12_000, 500_000),
        seed=seed,
    )
    rows: list[Row] = []
    for point in found.curve:
        row: dict[str, Cell] = {"algorithm": name, "claim": claim, "test_epsilon": point.epsilon, "true": true}
        row |= {"p": point.p_value, "corrected_p": point.corrected_p_value, "refuted": found.refuted}
        row["bound"] = found.epsilon_lower
        if point is found.claimed and point.event is not None:
            row |= {"event": str(point.event), "left": str(point.left), "right": str(point.right)}
            arguments = {key: value for key, value in (point.arguments or {}).items() if key != "epsilon"}
            row["arguments"] = ", ".join(f"{key} = {value:.4g}" for key, value in arguments.items())
            try:
                bound = mechanism.bind(**arguments)
                row["exact"] = veridp.exact.compare(bound, point.left, point.right, seconds=300).epsilon
            except VeridpError:
                row["exact"] = None
        rows.append(row)
    return rows


def rise(rows: Sequence[Row]) -> float:
    """The least test ε from which on no p-value is below α: where the curve has risen."""
    low = [number(row, "test_epsilon") for row in rows if number(row, "p") < ALPHA]
    above = [e for e in column(rows, "test_epsilon") if e > max(low, default=0.0)]
    return min(above, default=math.inf)


def show_figure(algorithms: Sequence[Algorithm], rows: Sequence[Row]) -> Shown:
    findings, panels = [], []
    table: list[Row] = []
    for algorithm in algorithms:
        mine = where(rows, algorithm=algorithm.name)
        claims = [claim for claim in CLAIMS if where(mine, claim=claim)]  # all, unless a run was cut short
        findings.append(_judged_curves(algorithm, mine, claims))
        for claim in claims:
            curve, rises = where(mine, claim=claim), algorithm.rises[CLAIMS.index(claim)]
            table.append(
                {
                    "algorithm": algorithm.paper,
                    "claim": claim,
                    "published": rises,
                    "rise": rise(curve),
                    "bound": number(curve[0], "bound"),
                    "true": number(curve[0], "true"),
                }
            )
        panels.append(
            Panel(
                algorithm.paper,
                "test ε",
                "p",
                [_curve(mine, claim) for claim in claims],
                at_x=[(number(where(mine, claim=claim)[0], "true"), "") for claim in claims],
            )
        )
    caption = Text(
        "p-value as the paper reports it, against test ε; dotted: the true cost for inputs of length 10, where finite.",
        "論文と同じ定義の p 値を検定の ε に対して示す。点線は長さ 10 の入力での真のコスト（有限の場合）。",
    )
    columns = (
        Column("algorithm", Text("algorithm", "アルゴリズム")),
        Column("claim", Text("claimed ε0", "主張 ε0")),
        Column("published", Text("p rises at, published", "p の上昇（公表）")),
        Column("rise", Text("p rises at, ours", "p の上昇（veridp）"), 3),
        Column("bound", Text("refuted up to, 95 %", "反証された範囲（95 %）"), 3),
        Column("true", Text("true cost", "真のコスト"), 4),
    )
    return Shown(
        findings,
        [TableView(Text("Where the curves rise", "曲線が立ち上がる位置"), columns, table)],
        [Plot(caption, panels)],
    )


def _curve(rows: Sequence[Row], claim: float) -> Series:
    curve = where(rows, claim=claim)
    return Series(f"ε0 = {claim:g}", column(curve, "test_epsilon"), column(curve, "p"))


def _judged_curves(algorithm: Algorithm, rows: Sequence[Row], claims: Sequence[float]) -> Finding:
    """Right ones are not refuted at the claim, wrong ones are (unless their cost is below it), none beyond its cost."""
    if len(claims) < len(CLAIMS):
        missing = ", ".join(f"{claim:g}" for claim in CLAIMS if claim not in claims)
        return Finding(
            Standing.NOT_COMPARED,
            Text(
                f"{algorithm.paper}: this run has no curve for ε0 = {missing}.",
                f"{algorithm.paper}：この実行には ε0 = {missing} の曲線がない。",
            ),
        )
    wrong = []
    for claim in claims:
        curve = where(rows, claim=claim)
        refuted, true = bool(curve[0]["refuted"]), number(curve[0], "true")
        if refuted != (true > claim) or number(curve[0], "bound") > true:
            wrong.append(f"{claim:g}")
    name = algorithm.paper
    if algorithm.right:
        agrees = Text(
            f"{name}: not refuted at any claim; the curves rise at or below ε0, as published.",
            f"{name}：どの主張も反証されず、曲線は公表どおり ε0 以下で立ち上がる。",
        )
    else:
        agrees = Text(
            f"{name}: refuted at every ε0 below its true cost and at no other, as published.",
            f"{name}：真のコストより小さい ε0 ではすべて反証され、それ以外では反証されない。公表どおりである。",
        )
    return judged(
        not wrong,
        agrees,
        Text(
            f"{name}: not as published at ε0 = {', '.join(wrong)}; the violation is rarer than these samples show.",
            f"{name}：ε0 = {', '.join(wrong)} で公表と異なる。この標本数では違反が稀すぎて見えない。",
        ),
    )


def cases(algorithms: Sequence[Algorithm], claims: Sequence[float], effort: Effort) -> list[str]:
    return [f"{algorithm.name}:{claim}" for algorithm in algorithms for claim in claims]


# ---------------------------------------------------------------------------------------------------------- Table 1

TABLE_1 = {
    "one above": ([1, 1, 1, 1, 1], [2, 1, 1, 1, 1]),
    "one below": ([1, 1, 1, 1, 1], [0, 1, 1, 1, 1]),
    "one above, rest below": ([1, 1, 1, 1, 1], [2, 0, 0, 0, 0]),
    "one below, rest above": ([1, 1, 1, 1, 1], [0, 2, 2, 2, 2]),
    "half half": ([1, 1, 1, 1, 1], [0, 0, 0, 2, 2]),
    "all above, all below": ([1, 1, 1, 1, 1], [2, 2, 2, 2, 2]),
    "x shape": ([1, 1, 0, 0, 0], [0, 0, 1, 1, 1]),
}


def measure_patterns(case: str, effort: Effort, seed: int) -> list[Row]:
    """The pairs that veridp tries for five queries, beside the published ones."""
    mechanism = veridp.catalogue["noisy_max1"]
    ours: dict[str, Any] = {}
    for pair in mechanism.adjacency.pairs(5, mechanism.domain):
        ours.setdefault(pair.pattern, pair)
    return [
        {
            "pattern": name,
            "published_left": str(left),
            "published_right": str(right),
            "left": str([int(entry) for entry in ours[name].left]) if name in ours else "",
            "right": str([int(entry) for entry in ours[name].right]) if name in ours else "",
        }
        for name, (left, right) in TABLE_1.items()
    ]


def show_patterns(rows: Sequence[Row]) -> Shown:
    same = [row["left"] == row["published_left"] and row["right"] == row["published_right"] for row in rows]
    found = judged(
        all(same),
        Text(
            f"All {len(rows)} patterns are the published ones, entry by entry; veridp tries them in both directions.",
            f"{len(rows)} 個のパターンはすべて公表のものと成分ごとに一致する。veridp は両方向を試す。",
        ),
        Text(f"{same.count(False)} patterns differ.", f"{same.count(False)} 個のパターンが異なる。"),
    )
    columns = (
        Column("pattern", Text("pattern", "パターン")),
        Column("published_left", Text("D1, published", "D1（公表）")),
        Column("published_right", Text("D2, published", "D2（公表）")),
        Column("left", Text("left, ours", "左（veridp）")),
        Column("right", Text("right, ours", "右（veridp）")),
    )
    return Shown([found], [TableView(Text("Patterns of neighbours", "隣接入力のパターン"), columns, rows)])


# ---------------------------------------------------------------------------------------------------------- Table 2

SHOWN_CLAIM = 0.7
TABLE_2 = {
    "noisy_max3": "all 1 | all 0: output < 0",
    "noisy_max4": "(inputs not given): output < 1.0",
    "noisy_hist2": "all 1 | first bin 2: first bin < 1.0",
    "svt5": "ten times 1 | half 0, half 2: as without noise",
    "svt6": "x shape, length 10: nine entries differ from the noise-free output",
    "svt4": "x shape, length 10: as without noise",
    "svt3": "nine times False, then a number in (-2.4, 2.4)",
}


def show_counterexamples(rows: Sequence[Row]) -> Shown:
    table = []
    for name, published in TABLE_2.items():
        shown = [row for row in where(rows, algorithm=name, claim=SHOWN_CLAIM) if row.get("event")]
        if shown:
            table.append({**shown[0], "paper": ALGORITHMS[name].paper, "published": published})
    confirmed = [row for row in table if number(row, "exact") > SHOWN_CLAIM]
    missing = [str(row["paper"]) for row in table if row not in confirmed]
    seen = [str(row["paper"]) for row in table if not row["refuted"]]
    both = len(table) == len(TABLE_2) and not missing
    findings = [
        judged(
            both,
            Text(
                f"A counterexample for each of the {len(TABLE_2)} wrong algorithms; the exact ε between its two inputs "
                f"exceeds the claim {SHOWN_CLAIM} every time, so none is a false alarm.",
                f"誤った {len(TABLE_2)} アルゴリズムすべてに反例がある。二つの入力間の正確な ε は毎回主張 {SHOWN_CLAIM} を"
                "超えるので、誤報はない。",
            ),
            Text(
                f"No confirmed counterexample at ε0 = {SHOWN_CLAIM} for {', '.join(missing) or 'some algorithms'}.",
                f"ε0 = {SHOWN_CLAIM} で確認された反例がない：{', '.join(missing) or '一部のアルゴリズム'}。",
            ),
        ),
        Finding(
            Standing.DIFFERS,
            Text(
                "Inputs and events need not be those of the paper: several pairs and events show each violation, and "
                "veridp prefers the simplest among the clearly significant ones.",
                "入力と事象は論文と同じとは限らない。どの違反も複数の組と事象で示せ、veridp は十分有意なもののうち最も単純な"
                "ものを選ぶ。",
            ),
        ),
    ]
    if seen:
        findings.append(
            Finding(
                Standing.NOT_COMPARED,
                Text(
                    f"With the samples of this run the test does not yet reject {', '.join(seen)}; its pair does violate "
                    "the claim by the exact ε.",
                    f"この実行の標本数では {', '.join(seen)} はまだ棄却されないが、正確な ε によればその組は主張に反する。",
                ),
            )
        )
    columns = (
        Column("paper", Text("algorithm", "アルゴリズム")),
        Column("published", Text("published counterexample", "公表された反例")),
        Column("left", Text("left", "左の入力")),
        Column("right", Text("right", "右の入力")),
        Column("arguments", Text("arguments found", "見つかった引数")),
        Column("event", Text("event", "事象")),
        Column("corrected_p", Text("corrected p", "補正 p 値"), 2),
        Column("exact", Text("exact ε of the pair", "組の正確な ε")),
    )
    return Shown(findings, [TableView(Text("Counterexamples at ε0 = 0.7", "ε0 = 0.7 での反例"), columns, table)])


def figure(number_: str, title: Text, published: Text) -> Artefact:
    algorithms = FIGURES[number_]
    show: Callable[[Sequence[Row]], Shown] = partial(show_figure, algorithms)
    return Artefact(
        f"statdp-figure-{number_}", title, published, measure_curve, show, partial(cases, algorithms, CLAIMS)
    )


WRONG = tuple(ALGORITHMS[name] for name in TABLE_2)
SOURCE = Source(
    "statdp",
    Text("StatDP", "StatDP"),
    "Z. Ding, Y. Wang, G. Wang, D. Zhang, D. Kifer: Detecting Violations of Differential Privacy. ACM CCS 2018.",
    (
        figure(
            "2",
            Text("Figure 2: noisy max", "図 2：noisy max"),
            Text(
                "right versions rise at ε0; the version that releases a Laplace value rises at 0.4 for ε0 = 0.2 and stays "
                "at 0 up to 2.2 for the others.",
                "正しい版は ε0 で立ち上がる。値を出すラプラス版は ε0 = 0.2 で 0.4、他は 2.2 まで 0 のまま。",
            ),
        ),
        figure(
            "3",
            Text("Figure 3: histogram", "図 3：ヒストグラム"),
            Text(
                "the wrong scale costs 1/ε0: more than claimed at 0.2 and 0.7, less at 1.5, where p rises at 0.6.",
                "誤った尺度のコストは 1/ε0。0.2 と 0.7 では主張より大きく、1.5 では小さく 0.6 で立ち上がる。",
            ),
        ),
        figure(
            "4",
            Text("Figure 4: sparse vector", "図 4：スパースベクトル"),
            Text(
                "SVT rises at ε0; iSVT1 never; iSVT2 at 0.5, 2.1, 3.0; iSVT3 at 0.3, 1.1, 2.3 (true 0.35, 1.225, 2.625); "
                "iSVT4 beyond ε0, noisily.",
                "SVT は ε0、iSVT1 は立ち上がらず、iSVT2 は 0.5, 2.1, 3.0、iSVT3 は 0.3, 1.1, 2.3（真値 0.35, 1.225, 2.625）、"
                "iSVT4 は ε0 より先で立ち上がる。",
            ),
        ),
        Artefact(
            "statdp-table-1",
            Text("Table 1: patterns of neighbours", "表 1：隣接入力のパターン"),
            Text("seven pairs of five query answers.", "五つのクエリ応答の七つの組。"),
            measure_patterns,
            show_patterns,
        ),
        Artefact(
            "statdp-table-2",
            Text("Table 2: counterexamples", "表 2：反例"),
            Text(
                "one for each wrong algorithm, arguments by MaxSMT.",
                "誤ったアルゴリズムごとに一つ。引数は MaxSMT による。",
            ),
            measure_curve,
            show_counterexamples,
            partial(cases, WRONG, (SHOWN_CLAIM,)),
        ),
    ),
)
