"""DPEST and its comparison with StatDP: 21 algorithms, published estimate and time, ours exact, and the truth."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import veridp
from reproduction.artefact import (
    Artefact,
    Cell,
    Column,
    Effort,
    Finding,
    Row,
    Shown,
    Source,
    Standing,
    TableView,
    Text,
    judged,
    number,
    where,
)
from veridp.errors import VeridpError

CLOSE = 0.02  # relative


@dataclass(frozen=True)
class Report:
    """A line of DPEST's report: estimate, what it takes for ideal, seconds, and whether it computes or samples."""

    name: str  # in the catalogue
    size: int
    estimate: float
    ideal: float
    seconds: float
    sampled: bool = False


# The report with 10^6 samples, 100 bins and seed 42, from which the source quotes six lines.
REPORTS = {
    "NoisyHist1": Report("noisy_hist1", 5, 0.1002, 0.10, 0.01),
    "NoisyHist2": Report("noisy_hist2", 5, 10.0001, 10.0, 0.01),
    "ReportNoisyMax1": Report("noisy_max1", 5, 0.1069, 0.10, 2.75),
    "ReportNoisyMax2": Report("noisy_max2", 5, 0.0964, 0.10, 2.75),
    "ReportNoisyMax3": Report("noisy_max3", 5, 0.8477, math.inf, 2.73),
    "ReportNoisyMax4": Report("noisy_max4", 5, 8.6719, math.inf, 2.74),
    "LaplaceMechanism": Report("laplace", 1, 0.1002, 0.10, 0.01),
    "LaplaceParallel": Report("laplace_parallel", 20, 0.1010, 0.10, 0.04),
    "SVT1": Report("svt1", 10, 0.0920, 0.10, 276.45, True),
    "SVT2": Report("svt2", 10, 0.0843, 0.10, 282.88, True),
    "SVT3": Report("svt3", 10, math.inf, math.inf, 47.02, True),
    "SVT4": Report("svt4", 10, 0.1761, 0.18, 310.38, True),
    "SVT5": Report("svt5", 10, math.inf, math.inf, 24.79, True),
    "SVT6": Report("svt6", 10, 0.4976, math.inf, 278.91, True),
    "NumericalSVT": Report("numerical_svt", 10, math.inf, 0.10, 57.76, True),
    "PrefixSum": Report("prefix_sum", 10, math.inf, 0.10, 123.84, True),
    "SVT34Parallel": Report("svt34_parallel", 10, math.inf, math.inf, 105.22, True),
    "OneTimeRAPPOR": Report("one_time_rappor", 1, 0.6005, 0.80, 0.01),
    "RAPPOR": Report("rappor", 1, 0.3001, 0.40, 0.00),
    "TruncatedGeometric": Report("truncated_geometric", 5, 0.1312, 0.12, 23.92, True),
    "NoisyMaxSum": Report("noisy_max_sum", 20, 1.8692, math.inf, 24.40),
}
# What the source says of StatDP on the same algorithms.
STATDP = {
    "TruncatedGeometric": ("0.116", "10 s"),
    "PrefixSum": ("0.348-0.503", "60-2040 s"),
    "SVT1": ("taken for right", ""),
    "SVT3": ("refuted", ""),
    "SVT5": ("refuted", ""),
    "OneTimeRAPPOR": ("0.600", "60 s"),
}
LONGEST_EXACT = {
    "noisy_max_sum": 4
}  # queries up to which the exact search is asked, where that is fewer than published


def measure_exact(case: str, effort: Effort, seed: int) -> list[Row]:
    """The exact ε of the worst pair that a search finds in [-10, 10], its time, and the true cost."""
    report = REPORTS[case]
    mechanism = veridp.catalogue[report.name]
    size = LONGEST_EXACT.get(report.name, report.size)
    row: dict[str, Cell] = {"algorithm": case, "size": report.size, "published": report.estimate, "ideal": report.ideal}
    row |= {"published_seconds": report.seconds, "sampled": report.sampled, "exact_size": size}
    row |= {"true": mechanism.true_epsilon(report.size), "true_at_exact_size": mechanism.true_epsilon(size)}
    started = time.perf_counter()
    try:
        pairs = effort.pick(12, 60)
        found = veridp.exact.worst(mechanism, size, seconds=effort.pick(60.0, 1800.0), max_pairs=pairs)
        row |= {"exact": found.epsilon, "finished": found.finished}
        row["pair"] = f"{found.witness.left} | {found.witness.right}"
    except VeridpError as error:
        row |= {"exact": None, "finished": False, "pair": type(error).__name__}
    row["seconds"] = time.perf_counter() - started
    return [row]


def bias(row: Row) -> tuple[Standing, Text]:
    """Whether the published estimate is the true cost at the tested length, and if not, why."""
    published, true = number(row, "published"), number(row, "true")
    if published == true or (math.isfinite(true) and abs(published - true) <= CLOSE * true):
        return Standing.AGREES, Text("agrees", "一致")
    if math.isinf(published):
        return Standing.CORRECTED, Text("a zero count taken for ∞", "度数 0 を ∞ とみなした")
    if published > true:
        if row["sampled"]:
            return Standing.CORRECTED, Text("too high: the largest of noisy ratios", "過大：雑音のある比の最大値")
        return Standing.CORRECTED, Text("too high: error of its grid in the tails", "過大：裾での格子の誤差")
    if math.isinf(true):
        return Standing.DIFFERS, Text("finite where the support shifts: bins hide it", "台がずれるが、区間分けが隠す")
    if number(row, "size") == 1:
        return Standing.DIFFERS, Text(
            "right for 0 against 1, not for the worst two integers", "0 と 1 では正しいが最悪の組ではない"
        )
    return Standing.DIFFERS, Text("too low: worse inputs were not tried", "過小：より悪い入力を試していない")


def show_report(rows: Sequence[Row]) -> Shown:
    judgements = [(row, *bias(row)) for row in rows]
    by = {standing: [str(r["algorithm"]) for r, s, _ in judgements if s is standing] for standing in Standing}
    wrong_ideal = [
        row
        for row in rows
        if abs(number(row, "ideal") - number(row, "true")) > max(0.006, CLOSE * number(row, "true"))
        or math.isinf(number(row, "ideal")) != math.isinf(number(row, "true"))
    ]
    ideals = ", ".join(
        f"{r['algorithm']} {_infinite(number(r, 'ideal'))} → {_infinite(number(r, 'true'))}" for r in wrong_ideal
    )
    above = [str(r["algorithm"]) for r in rows if number(r, "exact") > number(r, "true_at_exact_size") + 1e-6]
    unknown = [str(r["algorithm"]) for r in rows if math.isnan(number(r, "exact"))]
    findings = [
        Finding(
            Standing.AGREES,
            Text(
                f"The published estimate is the true cost, within 2 %: {', '.join(by[Standing.AGREES])}.",
                f"公表された推定が 2 % 以内で真のコストに一致：{', '.join(by[Standing.AGREES])}。",
            ),
        ),
        Finding(
            Standing.CORRECTED,
            Text(
                f"Above the true cost, so wrong: {', '.join(by[Standing.CORRECTED])}. The last column says why; an ∞ from "
                "samples is an output that one side did not happen to give.",
                f"真のコストを超えており誤り：{', '.join(by[Standing.CORRECTED])}。理由は最後の列に示す。標本からの ∞ は、"
                "片側でたまたま出なかった出力にすぎない。",
            ),
        ),
        Finding(
            Standing.DIFFERS,
            Text(
                f"Below the true cost: {', '.join(by[Standing.DIFFERS])}.",
                f"真のコストを下回る：{', '.join(by[Standing.DIFFERS])}。",
            ),
        ),
        Finding(
            Standing.CORRECTED,
            Text(
                f"Ideal values that are not the cost at the tested length (published → true): {ideals}.",
                f"試験した長さでのコストと異なる「理想値」（公表 → 真値）：{ideals}。",
            ),
        ),
        judged(
            not above,
            Text(
                "No exact ε of a pair exceeds the true cost. Where it is lower, the cost is a limit beyond the domain "
                "[-10, 10], or the search tried few pairs."
                + (f" Not computed: {', '.join(unknown)}." if unknown else ""),
                "組の正確な ε が真のコストを超えることはない。低い場合、コストは定義域 [-10, 10] の外での極限か、試した組が少ない。"
                + (f"計算できなかったもの：{', '.join(unknown)}。" if unknown else ""),
            ),
            Text(f"Exact above true: {', '.join(above)}.", f"真のコストを超える：{', '.join(above)}。"),
        ),
    ]
    table = [{**row, "why": text.en} for row, _, text in judgements]
    columns = (
        Column("algorithm", Text("algorithm", "アルゴリズム")),
        Column("size", Text("n", "n")),
        Column("published", Text("published ε", "公表 ε")),
        Column("ideal", Text("published ideal", "公表の理想値")),
        Column("published_seconds", Text("published s", "公表 秒")),
        Column("exact", Text("exact worst pair", "正確な最悪の組"), 6),
        Column("seconds", Text("our s", "veridp 秒"), 3),
        Column("true", Text("true cost", "真のコスト"), 6),
        Column("why", Text("published figure", "公表値について")),
        Column("pair", Text("pair", "組")),
    )
    return Shown(findings, [TableView(Text("21 algorithms", "21 アルゴリズム"), columns, table)])


def _infinite(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:g}"


def show_comparison(rows: Sequence[Row]) -> Shown:
    table = []
    for name, (estimate, seconds) in STATDP.items():
        row = where(rows, algorithm=name)[0]
        table.append({**row, "statdp": estimate, "statdp_seconds": seconds})
    geometric = number(where(rows, algorithm="TruncatedGeometric")[0], "true")
    prefix = where(rows, algorithm="PrefixSum")[0]
    findings = [
        Finding(
            Standing.CORRECTED,
            Text(
                f"TruncatedGeometric: the source calls DPEST's 0.1312 the closest; the true cost is ln(1 + 2⁻³) = "
                f"{geometric:.6f}, so StatDP's 0.116 is closer and DPEST's estimate is above what is possible.",
                f"TruncatedGeometric：出典は DPEST の 0.1312 を最も近いとするが、真のコストは ln(1 + 2⁻³) = {geometric:.6f} で、"
                "StatDP の 0.116 の方が近く、DPEST の推定は可能な値を超えている。",
            ),
        ),
        Finding(
            Standing.CORRECTED,
            Text(
                f"PrefixSum is no case of infinite loss: its cost is nε = {number(prefix, 'true'):g} where every entry may "
                "move, and 0.1 where one may. StatDP's finite estimates are honest lower bounds, and DPEST's ∞ is wrong.",
                f"PrefixSum の損失は無限ではない。全成分が動き得る場合のコストは nε = {number(prefix, 'true'):g}、一成分だけなら 0.1。"
                "StatDP の有限の推定は正しい下限であり、DPEST の ∞ は誤りである。",
            ),
        ),
        Finding(
            Standing.CORRECTED,
            Text(
                "SVT3 costs nε/(2c) = 0.5 for ten queries, not ∞; only SVT5 is infinite. Both claims of 0.1 are refuted.",
                "SVT3 のコストは 10 クエリで nε/(2c) = 0.5 であり ∞ ではない。∞ なのは SVT5 だけ。どちらも主張 0.1 は反証される。",
            ),
        ),
        judged(
            abs(number(where(rows, algorithm="OneTimeRAPPOR")[0], "true") - 0.8007) < 1e-3,
            Text(
                "OneTimeRAPPOR: 0.6005 is exact for the inputs 0 and 1, which share two bits; integers one apart whose "
                "eight bits all differ reach 0.8007, the theoretical value.",
                "OneTimeRAPPOR：0.6005 は二ビットを共有する入力 0 と 1 では正確。八ビットすべてが異なる隣り合う整数では理論値 0.8007 に達する。",
            ),
            Text("OneTimeRAPPOR's cost is not 0.8007.", "OneTimeRAPPOR のコストは 0.8007 ではない。"),
        ),
    ]
    columns = (
        Column("algorithm", Text("algorithm", "アルゴリズム")),
        Column("published", Text("DPEST", "DPEST")),
        Column("published_seconds", Text("DPEST s", "DPEST 秒")),
        Column("statdp", Text("StatDP, as quoted", "StatDP（引用）")),
        Column("statdp_seconds", Text("StatDP time", "StatDP 時間")),
        Column("exact", Text("veridp exact", "veridp（正確）"), 6),
        Column("seconds", Text("veridp s", "veridp 秒"), 3),
        Column("true", Text("true cost", "真のコスト"), 6),
    )
    return Shown(findings, [TableView(Text("Six algorithms by three tools", "三つの道具による六つ"), columns, table)])


SOURCE = Source(
    "dpest",
    Text("DPEST, and its comparison with StatDP", "DPEST と StatDP の比較"),
    "github.com/tak-ka3/dpest-v2, docs/privacy_loss_report.md (10⁶ samples, seed 42); six of its lines are in the source.",
    (
        Artefact(
            "dpest-report",
            Text("The 21 algorithms", "21 アルゴリズム"),
            Text(
                "an estimate of ε by convolution or from 10⁶ samples, an ideal value, seconds.",
                "畳み込みまたは 10⁶ サンプルによる ε の推定、理想値、秒数。",
            ),
            measure_exact,
            show_report,
            lambda effort: tuple(REPORTS),
        ),
        Artefact(
            "dpest-against-statdp",
            Text("Against StatDP", "StatDP との比較"),
            Text(
                "TruncatedGeometric, PrefixSum, SVT1, SVT3, SVT5 and OneTimeRAPPOR by both tools.",
                "TruncatedGeometric、PrefixSum、SVT1、SVT3、SVT5、OneTimeRAPPOR を両方の道具で。",
            ),
            measure_exact,
            show_comparison,
            lambda effort: tuple(REPORTS),
        ),
    ),
)
