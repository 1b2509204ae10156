"""The basics: each definition and theorem with a check that runs, and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from scipy.stats import norm

import veridp
from reproduction.artefact import (
    Artefact,
    Column,
    Effort,
    Panel,
    Plot,
    Row,
    Series,
    Shown,
    Source,
    TableView,
    Text,
    column,
    corrected,
    judged,
    number,
    where,
)
from veridp import accounting
from veridp.accounting import (
    Leaf,
    Partition,
    Repeated,
    Sequential,
    account,
    flaw,
    mechanisms,
    parallel,
    post_processed,
    sensitivity,
    sequential,
)
from veridp.adjacency import adjacency

CHECKS = (
    Column("what", Text("what", "内容")),
    Column("theorem", Text("by the theorem", "定理による値"), 6),
    Column("exact", Text("computed", "計算結果"), 6),
)


def held(rows: Sequence[Row]) -> bool:
    """Whether nothing that was computed exceeds what the theorem says."""
    return all(number(row, "exact") <= number(row, "theorem") + 1e-9 for row in rows)


# ------------------------------------------------------------------------------------- indistinguishability, Laplace


def measure_laplace(case: str, effort: Effort, seed: int) -> list[Row]:
    """Two Laplace densities of neighbours at ε = 1, their ratio, and the exact ε in both directions."""
    noisy = mechanisms.laplace.bind(epsilon=1.0)
    rows: list[Row] = [
        {
            "part": "check",
            "what": f"ε of Laplace noise between {left} and {right}",
            "theorem": 1.0,
            "exact": veridp.exact.compare(noisy, left, right).epsilon,
        }
        for left, right in (([0], [1]), ([1], [0]), ([0], [0]))
    ]
    for x in np.linspace(-4, 5, 91).tolist():
        left, right = math.exp(-abs(x)) / 2, math.exp(-abs(x - 1)) / 2
        rows.append({"part": "density", "x": x, "left": left, "right": right, "ratio": left / right})
    return rows


def show_laplace(rows: Sequence[Row]) -> Shown:
    checks, density = where(rows, part="check"), where(rows, part="density")
    attained = abs(number(checks[0], "exact") - 1) < 1e-9 and abs(number(checks[1], "exact") - 1) < 1e-9
    finding = judged(
        held(checks) and attained and max(column(density, "ratio")) <= math.e * (1 + 1e-12),
        Text(
            "The densities differ by a factor of e^ε at most, in both directions, and do so everywhere outside [0, 1]; "
            "equal inputs have ε = 0.",
            "二つの密度の比は両方向とも e^ε 以下で、[0, 1] の外ではちょうど e^{±ε}。入力が等しければ ε = 0。",
        ),
        Text("The ratio exceeds e^ε.", "比が e^ε を超える。"),
    )
    x = column(density, "x")
    panels = [
        Panel(
            "densities",
            "output",
            "density",
            [Series("D", x, column(density, "left")), Series("D'", x, column(density, "right"))],
        ),
        Panel(
            "their ratio",
            "output",
            "ratio",
            [Series("", x, column(density, "ratio"))],
            at_y=[(math.e, ""), (1 / math.e, "")],
        ),
    ]
    caption = Text(
        "Laplace noise of scale Δ/ε on a query that moves by Δ = 1.", "感度 Δ = 1 のクエリに尺度 Δ/ε のラプラスノイズ。"
    )
    return Shown([finding], [TableView(Text("Check", "検査"), CHECKS, checks)], [Plot(caption, panels)])


# ---------------------------------------------------------------------------------------------- neighbours, sensitivity


def measure_neighbours(case: str, effort: Effort, seed: int) -> list[Row]:
    """Whether relations are reflexive, symmetric and local to a partition into even and odd numbers."""
    parity = Partition(("even", "odd"), lambda value: "odd" if value % 2 else "even")
    inputs = [[], [1], [2], [1, 2], [1, 3]]
    return [
        {"relation": name, "flaw": str(flaw(adjacency(name), inputs, parity) or "none"), "expected": expected}
        for name, expected in (("add-remove", "none"), ("replace", "not local"))
    ]


def show_neighbours(rows: Sequence[Row]) -> Shown:
    finding = judged(
        all(str(row["flaw"]).startswith(str(row["expected"])) for row in rows),
        Text(
            "Adding or removing a record meets all three conditions of the definition; replacing one is not local, because "
            "the new record may belong to another part.",
            "レコードの追加・削除は定義の三条件をすべて満たす。置換は局所的でない（新しいレコードが別の部分に属し得る）。",
        ),
        Text("A relation is not as expected.", "想定と異なる関係がある。"),
    )
    columns = (Column("relation", Text("relation", "関係")), Column("flaw", Text("flaw found", "見つかった欠陥")))
    return Shown([finding], [TableView(Text("Relations", "隣接関係"), columns, rows)])


def _mean(data: Sequence[float]) -> float:
    return sum(data) / len(data) if data else 0.0


def _histogram(data: Sequence[float]) -> list[int]:
    return [sum(value < 0.5 for value in data), sum(value >= 0.5 for value in data)]


def measure_sensitivity(case: str, effort: Effort, seed: int) -> list[Row]:
    """Sensitivities of plain functions, which depend on the relation."""
    found = [
        ("sum of records in [0, 1], add or remove", 1.0, sensitivity(sum, 3)),
        ("mean of 3 records, replace", 1 / 3, sensitivity(_mean, 3, relation="replace")),
        ("mean of up to 3 records, add or remove", 1.0, sensitivity(_mean, 3)),
        ("histogram, add or remove", 1.0, sensitivity(_histogram, 2)),
        ("histogram, replace", 2.0, sensitivity(_histogram, 2, relation="replace")),
    ]
    return [{"what": what, "theorem": by_hand, "exact": result.value} for what, by_hand, result in found]


def show_sensitivity(rows: Sequence[Row]) -> Shown:
    finding = judged(
        all(abs(number(row, "exact") - number(row, "theorem")) < 1e-9 for row in rows),
        Text(
            "The sensitivities computed from the functions themselves are those by hand, and change with the relation, as "
            "the source remarks.",
            "関数そのものから計算した感度は手計算と一致し、出典の注意どおり隣接関係によって変わる。",
        ),
        Text("A sensitivity is not that by hand.", "手計算と異なる感度がある。"),
    )
    return Shown([finding], [TableView(Text("L1 sensitivity", "L1 感度"), CHECKS, rows)])


# ------------------------------------------------------------------------------------------------------ post-processing


def measure_processed(case: str, effort: Effort, seed: int) -> list[Row]:
    """The ε of functions of a 1-private output."""
    noisy = mechanisms.laplace.bind(epsilon=1.0)
    made = {
        "unchanged": noisy,
        "clipped to [0, 1]": post_processed(noisy, lambda output: min(max(output[0], 0), 1)),
        "output > 3": post_processed(noisy, lambda output: output[0] > 3),
        "output > 0.5": post_processed(noisy, lambda output: output[0] > 0.5),
    }
    return [
        {"what": what, "theorem": 1.0, "exact": veridp.exact.compare(m, [0], [1]).epsilon} for what, m in made.items()
    ]


def show_processed(rows: Sequence[Row]) -> Shown:
    finding = judged(
        held(rows),
        Text("No function of the output costs more than the output.", "出力の関数のコストは出力のコストを超えない。"),
        Text("Post-processing raised ε.", "後処理で ε が増えた。"),
    )
    return Shown([finding], [TableView(Text("ε after processing", "後処理後の ε"), CHECKS, rows)])


# --------------------------------------------------------------------------------------------------------- composition


def measure_sequential(case: str, effort: Effort, seed: int) -> list[Row]:
    """ε of k Laplace mechanisms together, exactly; and what k claims of 0.1 cost at δ = 1e-5 by each theorem."""
    rows: list[Row] = []
    for budgets in ((0.25, 0.5), (0.1, 0.2, 0.3), (1.0, 1.0)):
        together = sequential(*(mechanisms.laplace.bind(epsilon=budget) for budget in budgets))
        exact = veridp.exact.compare(together, [0], [1]).epsilon
        rows.append({"part": "check", "what": f"Laplace, ε = {budgets}", "theorem": sum(budgets), "exact": exact})
    for k in (1, 2, 5, 10, 20, 50, 100, 200):
        for bound in account(Repeated(k, Leaf.claimed(0.1)), delta=1e-5, second_opinion=False).bounds:
            rows.append({"part": "many", "k": k, "method": bound.method, "epsilon": bound.epsilon})
    return rows


def show_sequential(rows: Sequence[Row]) -> Shown:
    checks, many = where(rows, part="check"), where(rows, part="many")
    last = {str(row["method"]): number(row, "epsilon") for row in where(many, k=200)}
    tightest = last["privacy loss distribution"]
    findings = [
        judged(
            held(checks) and all(number(r, "exact") > number(r, "theorem") - 1e-9 for r in checks),
            Text(
                "The sum is an upper bound, and Laplace mechanisms on the same query attain it.",
                "和は上界であり、同じクエリへのラプラス機構では達成される。",
            ),
            Text("The sum is not what composition costs.", "合成のコストが和と異なる。"),
        ),
        judged(
            tightest < last["basic"],
            Text(
                f"Over many it is far too large once a δ is allowed: 200 mechanisms with ε = 0.1 cost {last['basic']:g} by the "
                f"sum and {tightest:.3f} at δ = 10⁻⁵.",
                f"δ を許せば多数の合成では和は過大：ε = 0.1 を 200 回で、和は {last['basic']:g}、δ = 10⁻⁵ では {tightest:.3f}。",
            ),
            Text("No gain from a δ.", "δ による改善がない。"),
        ),
    ]
    series = [
        Series(m, column(where(many, method=m), "k"), column(where(many, method=m), "epsilon"))
        for m in ("basic", "advanced", "zCDP", "privacy loss distribution")
        if m in last
    ]
    panel = Panel("", "mechanisms", "ε at δ = 1e-5", series, log_x=True, log_y=True)
    caption = Text("Composition of mechanisms that claim ε = 0.1.", "ε = 0.1 を主張する機構の合成。")
    return Shown(
        findings,
        [TableView(Text("Two or three mechanisms", "二つまたは三つの機構"), CHECKS, checks)],
        [Plot(caption, [panel])],
    )


def _count(rng: Generator, data: Sequence[float]) -> float:
    return len(data) + rng.laplace(scale=2)


def _overlapping(rng: Generator, data: Sequence[float]) -> list[float]:
    return [_count(rng, [v for v in data if v < 0.6]), _count(rng, [v for v in data if v > 0.4])]


def measure_parallel(case: str, effort: Effort, seed: int) -> list[Row]:
    """Counts with ε = 0.5 on two parts: disjoint, on the same data, overlapping, and where a record is replaced."""
    counting = veridp.mechanism(epsilon=0.5, adjacency="add-remove", domain=(0, 1), size=2)(_count)
    halves = Partition(("low", "high"), lambda value: "low" if value < 0.5 else "high")
    both = parallel(halves, {"low": counting, "high": counting})
    twice = sequential(counting, counting)
    compared = veridp.exact.compare
    return [
        {
            "what": "parallel: disjoint parts",
            "theorem": 0.5,
            "exact": veridp.exact.worst(both, 2, max_pairs=40).epsilon,
        },
        {"what": "sequential: the same data twice", "theorem": 1.0, "exact": compared(twice, [], [0.2]).epsilon},
        {"what": "parts overlap: sequential holds", "theorem": 1.0, "exact": compared(_overlapping, [], [0.5]).epsilon},
        {
            "what": "replace moves a record: not local",
            "theorem": 1.0,
            "exact": compared(both.function, [0.2], [0.9]).epsilon,
        },
    ]


def show_parallel(rows: Sequence[Row]) -> Shown:
    exact = column(rows, "exact")
    finding = judged(
        held(rows) and abs(exact[0] - 0.5) < 1e-9 and min(exact[1:]) > 0.99,
        Text(
            "On disjoint parts the cost is the maximum, 0.5; on the same data, on overlapping parts, and where neighbours "
            "may differ in two parts it is the sum, 1. The conditions of the definition are needed.",
            "互いに素な部分では最大値 0.5、同じデータ・重なる部分・二つの部分で異なり得る隣接では和 1。定義の条件は必要である。",
        ),
        Text("The costs are not as the theorem says.", "コストが定理と異なる。"),
    )
    panel = Panel(
        "", "case", "exact ε", [Series("exact", [1, 2, 3, 4], exact, "points")], at_y=[(0.5, "maximum"), (1.0, "sum")]
    )
    caption = Text("The cases of the table, from left to right.", "表の各行（左から順）。")
    return Shown(
        [finding],
        [TableView(Text("Parallel against sequential", "並列と直列"), CHECKS, rows)],
        [Plot(caption, [panel])],
    )


# --------------------------------------------------------------------------------------------------------- approximate

SIGMA = 1.0


def _normal(rng: Generator, data: Sequence[float]) -> float:
    return data[0] + rng.normal(scale=SIGMA)


def measure_approximate(case: str, effort: Effort, seed: int) -> list[Row]:
    """δ(ε) of normal noise: exact, in closed form, and the probability that the loss exceeds ε."""
    found = veridp.exact.compare(_normal, [0.0], [1.0])
    rows: list[Row] = []
    for epsilon in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0):
        closed = float(norm.cdf(0.5 - epsilon) - math.exp(epsilon) * norm.cdf(-0.5 - epsilon))
        tail = float(norm.sf(epsilon - 0.5))  # the loss is normal with mean and variance 1/2 and 1
        rows.append(
            {"part": "delta", "epsilon": epsilon, "exact": found.delta(epsilon), "theorem": closed, "tail": tail}
        )
    for x in np.linspace(-4, 4, 81).tolist():
        left, right = float(norm.pdf(x)), math.exp(0.5) * float(norm.pdf(x - 1))
        rows.append({"part": "density", "x": x, "left": left, "right": right, "above": max(0.0, left - right)})
    return rows


def show_approximate(rows: Sequence[Row]) -> Shown:
    deltas, density = where(rows, part="delta"), where(rows, part="density")
    area = float(np.trapezoid(column(density, "above"), column(density, "x")))
    at = where(deltas, epsilon=0.5)[0]
    findings = [
        judged(
            all(abs(number(row, "exact") - number(row, "theorem")) < 1e-9 for row in deltas)
            and abs(area - number(at, "exact")) < 1e-3,
            Text(
                f"δ is the area of the left density above e^ε times the right one: {area:.4f} under the drawn curve, "
                f"{number(at, 'exact'):.6f} exactly, at ε = 0.5.",
                f"δ は左の密度が右の e^ε 倍を上回る部分の面積：ε = 0.5 で図の面積 {area:.4f}、正確な値 {number(at, 'exact'):.6f}。",
            ),
            Text("δ is not the area.", "δ が面積と異なる。"),
        ),
        corrected(
            all(number(row, "tail") > number(row, "exact") for row in deltas),
            Text(
                "(ε, δ)-privacy is not the same as ε-privacy with probability 1 - δ, as the source says: the latter implies "
                f"the former, but here the loss exceeds 0.5 with probability {number(at, 'tail'):.2f} at δ = {number(at, 'exact'):.3f}.",
                "(ε, δ)-差分プライバシは、出典の言う「確率 1 − δ で ε-差分プライバシ」と同値ではない。後者は前者を導くが逆は成り立たず、"
                f"ここでは δ = {number(at, 'exact'):.3f} に対し損失が 0.5 を超える確率は {number(at, 'tail'):.2f}。",
            ),
        ),
    ]
    x = column(density, "x")
    series = [
        Series("P", x, column(density, "left")),
        Series("e^ε Q", x, column(density, "right")),
        Series("δ", x, column(density, "above"), "area"),
    ]
    columns = (
        Column("epsilon", Text("ε", "ε")),
        Column("theorem", Text("δ, closed form", "δ（閉形式）"), 8),
        Column("exact", Text("δ, exact engine", "δ（正確）"), 8),
        Column("tail", Text("P[loss > ε]", "P[損失 > ε]"), 4),
    )
    caption = Text("Normal noise, σ = 1, on 0 and 1, at ε = 0.5.", "0 と 1 への正規ノイズ（σ = 1）、ε = 0.5。")
    title = Text("δ of normal noise", "正規ノイズの δ")
    return Shown(
        findings, [TableView(title, columns, deltas)], [Plot(caption, [Panel("", "output", "density", series)])]
    )


def measure_approximate_theorems(case: str, effort: Effort, seed: int) -> list[Row]:
    """Post-processing and composition of (1, δ)-private normal noise."""
    found = veridp.exact.compare(_normal, [0.0], [1.0])
    delta = found.delta(1.0)

    def twice(rng: Generator, data: Sequence[float]) -> list[float]:
        return [_normal(rng, data), _normal(rng, data)]

    def above(rng: Generator, data: Sequence[float]) -> bool:
        return _normal(rng, data) > 1

    both = account(Sequential([Leaf.claimed(1.0, 1e-6), Leaf.claimed(0.5, 1e-6)]), delta=2e-6, second_opinion=False)
    basic = next(bound for bound in both.bounds if bound.method == "basic")
    return [
        {
            "what": "δ(1) after the comparison output > 1",
            "theorem": delta,
            "exact": veridp.exact.compare(above, [0.0], [1.0]).delta(1.0),
        },
        {
            "what": "δ(2) of two together",
            "theorem": 2 * delta,
            "exact": veridp.exact.compare(twice, [0.0], [1.0]).delta(2.0),
        },
        {"what": "ε of (1, 1e-6) and (0.5, 1e-6) at δ = 2e-6", "theorem": 1.5, "exact": basic.epsilon},
    ]


def show_approximate_theorems(rows: Sequence[Row]) -> Shown:
    finding = judged(
        held(rows),
        Text(
            "Post-processing does not raise δ, and (ε, δ) add up under composition; the sum is an upper bound and not "
            "attained here.",
            "後処理で δ は増えず、合成で (ε, δ) は足し合わされる。和は上界で、ここでは達成されない。",
        ),
        Text("A theorem is violated.", "定理が破れている。"),
    )
    return Shown([finding], [TableView(Text("Checks", "検査"), CHECKS, rows)])


def artefact(name: str, title: Text, published: Text, measure: object, show: object) -> Artefact:
    return Artefact(f"basics-{name}", title, published, measure, show)  # type: ignore[arg-type]


SOURCE = Source(
    "basics",
    Text("The basics of differential privacy", "差分プライバシの基本"),
    f"Definitions and theorems after C. Dwork and A. Roth (2014) and F. McSherry (2009); checks by {accounting.__name__}.",
    (
        artefact(
            "laplace",
            Text("Indistinguishability, and the Laplace mechanism", "ε-識別不能性とラプラス機構"),
            Text("densities within a factor of e^ε; noise of scale Δf/ε.", "密度の比は e^ε 以内。尺度は Δf/ε。"),
            measure_laplace,
            show_laplace,
        ),
        artefact(
            "neighbours",
            Text("Neighbours", "隣接関係"),
            Text("reflexive, symmetric, and different in one part at most.", "反射律・対称律、異なる部分は高々一つ。"),
            measure_neighbours,
            show_neighbours,
        ),
        artefact(
            "sensitivity",
            Text("Sensitivity", "感度"),
            Text("the largest L1 distance between neighbours.", "隣接入力間の最大 L1 距離。"),
            measure_sensitivity,
            show_sensitivity,
        ),
        artefact(
            "post-processing",
            Text("Post-processing", "後処理"),
            Text("a function of the output costs nothing more.", "出力の関数に追加のコストはない。"),
            measure_processed,
            show_processed,
        ),
        artefact(
            "sequential",
            Text("Sequential composition", "直列合成"),
            Text("budgets add up.", "ε は和になる。"),
            measure_sequential,
            show_sequential,
        ),
        artefact(
            "parallel",
            Text("Parallel composition", "並列合成"),
            Text("on disjoint parts, the largest budget counts.", "互いに素な部分では ε の最大値。"),
            measure_parallel,
            show_parallel,
        ),
        artefact(
            "approximate",
            Text("Approximate privacy: δ as an area", "近似的差分プライバシ：面積としての δ"),
            Text(
                "P[M(D) ∈ S] <= e^ε P[M(D') ∈ S] + δ, said to be the same as ε with probability 1 - δ.",
                "P[M(D) ∈ S] ≤ e^ε P[M(D') ∈ S] + δ。確率 1 − δ で ε を満たすことと同値とされる。",
            ),
            measure_approximate,
            show_approximate,
        ),
        artefact(
            "approximate-theorems",
            Text("Approximate privacy: the theorems", "近似的差分プライバシ：諸定理"),
            Text("post-processing and composition with δ.", "δ を伴う後処理と合成。"),
            measure_approximate_theorems,
            show_approximate_theorems,
        ),
    ),
)
