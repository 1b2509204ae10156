"""CheckDP: each algorithm with its proof (the best ε, and for which sizes) or its counterexample."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import veridp
from reproduction.artefact import (
    Artefact,
    Cell,
    Column,
    Effort,
    Row,
    Shown,
    Source,
    TableView,
    Text,
    judged,
    number,
)
from veridp.errors import VeridpError

SIZE = 5
PUBLISHED_SECONDS = 70.0
# The algorithms of CheckDP's evaluation by their names in the catalogue, and whether they keep their claim.
ALGORITHMS = {
    "NoisyMax": ("noisy_max1", True),
    "BadNoisyMax (value)": ("noisy_max3", False),
    "SVT": ("svt1", True),
    "MonotoneSVT": ("monotone_svt", True),
    "BadSVT1 (no noise on queries)": ("svt5", False),
    "BadSVT2 (no cut-off)": ("svt6", False),
    "BadSVT3 (noise too small)": ("svt4", False),
    "GapSVT": ("gap_svt", True),
    "BadGapSVT": ("bad_gap_svt", False),
    "NumSVT": ("numerical_svt", True),
    "AdaptiveSVT": ("adaptive_svt", True),
    "BadAdaptiveSVT": ("bad_adaptive_svt", False),
    "PartialSum": ("partial_sum", True),
    "BadPartialSum": ("bad_partial_sum", False),
    "SmartSum": ("smart_sum", True),
    "BadSmartSum": ("bad_smart_sum", False),
}


def measure_algorithm(case: str, effort: Effort, seed: int) -> list[Row]:
    """The best ε proved for five queries and for every size, and a pair that refutes the claim where there is one."""
    name, right = ALGORITHMS[case]
    mechanism = veridp.catalogue[name]
    claim = mechanism.claim
    row: dict[str, Cell] = {"algorithm": case, "name": name, "right": right, "true": mechanism.true_epsilon(SIZE)}
    row["claim"] = None if claim is None else claim.epsilon
    limit = effort.pick(600.0, 3600.0)
    started = time.perf_counter()
    try:
        row["proved"] = veridp.prove(mechanism, SIZE, seconds=limit).epsilon
    except VeridpError as error:
        row |= {"proved": math.inf, "reason": type(error).__name__}
    row["proof_seconds"] = time.perf_counter() - started
    started = time.perf_counter()
    try:
        every_size = veridp.prove.prove_for_every_size(mechanism, seconds=limit)  # type: ignore[attr-defined]
        row["every_size"] = every_size.epsilon
    except VeridpError as error:
        row["every_size_reason"] = type(error).__name__
    row["every_size_seconds"] = time.perf_counter() - started
    started = time.perf_counter()
    # Of a wrong one, the search ends at the first pair that refutes the claim in a quick run.
    enough = math.inf if right or claim is None else effort.pick(claim.epsilon * 1.001, math.inf)
    pairs = effort.pick(8 if right else None, None)
    found = veridp.exact.worst(mechanism, SIZE, seconds=limit, max_pairs=pairs, enough=enough)
    row |= {"worst": found.epsilon, "refuted": found.refuted, "worst_seconds": time.perf_counter() - started}
    if found.refuted:
        row["counterexample"] = f"{found.witness.left} | {found.witness.right}: {found.witness.event}"
    return [row]


def show_algorithms(rows: Sequence[Row]) -> Shown:
    wrong = [
        str(row["algorithm"])
        for row in rows
        if bool(row["refuted"]) == bool(row["right"])
        or (row["right"] and number(row, "proved") > number(row, "claim") * (1 + 1e-9))
    ]
    unsound = [str(row["algorithm"]) for row in rows if number(row, "proved") < number(row, "worst") - 1e-9]
    slowest = max(max(number(row, "proof_seconds"), number(row, "worst_seconds")) for row in rows)
    every = [str(row["algorithm"]) for row in rows if not math.isnan(number(row, "every_size"))]
    findings = [
        judged(
            not wrong,
            Text(
                f"All {len(rows)} are judged as published: a checked proof of the claim for each right algorithm, an exact "
                "counterexample for each wrong one.",
                f"{len(rows)} 個すべて公表どおりに判定された。正しいものには検査済みの証明、誤ったものには正確な反例がある。",
            ),
            Text(f"Not judged as published: {', '.join(wrong)}.", f"公表と異なる判定：{', '.join(wrong)}。"),
        ),
        judged(
            not unsound,
            Text(
                "No proof claims less than the exact ε of some pair; wrong algorithms also get the best ε that holds for "
                "them, which CheckDP does not give.",
                "どの証明も、ある組の正確な ε を下回らない。誤ったアルゴリズムにも成り立つ最良の ε が得られる（CheckDP にはない）。",
            ),
            Text(f"A proof contradicts a pair: {', '.join(unsound)}.", f"証明と組が矛盾：{', '.join(unsound)}。"),
        ),
        judged(
            slowest <= PUBLISHED_SECONDS,
            Text(
                f"The slowest takes {slowest:.3g} s; published: 15 to 70 s on another machine (the source has no figures "
                "for single algorithms).",
                f"最も遅いもので {slowest:.3g} 秒。公表値は別の計算機で 15〜70 秒（出典に個別の値はない）。",
            ),
            Text(
                f"The slowest takes {slowest:.3g} s by the clock, more than the published 70 s: this machine was busy, or is "
                "slower.",
                f"最も遅いもので {slowest:.3g} 秒。公表の 70 秒を超える（計算機が混んでいたか遅い）。",
            ),
        ),
        judged(
            len(every) >= 1,
            Text(
                f"Proved for every size by induction: {', '.join(every)}. The others for {SIZE} queries.",
                f"帰納法で任意の長さについて証明：{', '.join(every)}。他は {SIZE} クエリについて。",
            ),
            Text("No proof for every size.", "任意の長さの証明はない。"),
        ),
    ]
    columns = (
        Column("algorithm", Text("algorithm", "アルゴリズム")),
        Column("claim", Text("claim", "主張")),
        Column("proved", Text("proved, 5 queries", "証明（5 クエリ）"), 6),
        Column("every_size", Text("proved, every size", "証明（任意の長さ）"), 6),
        Column("proof_seconds", Text("s", "秒"), 3),
        Column("worst", Text("exact ε of a pair", "組の正確な ε"), 6),
        Column("worst_seconds", Text("s", "秒"), 3),
        Column("true", Text("true cost", "真のコスト"), 6),
        Column("counterexample", Text("counterexample", "反例")),
    )
    return Shown(findings, [TableView(Text("Proof or counterexample", "証明または反例"), columns, rows)])


SOURCE = Source(
    "checkdp",
    Text("CheckDP", "CheckDP"),
    "Y. Wang, Z. Ding, D. Kifer, D. Zhang: CheckDP: An Automated and Integrated Approach for Proving Differential Privacy "
    "or Finding Precise Counterexamples. ACM CCS 2020.",
    (
        Artefact(
            "checkdp-table",
            Text("Proof or counterexample", "証明または反例"),
            Text(
                "proofs for the right algorithms and counterexamples for the wrong ones, within 70 seconds.",
                "正しいものには証明、誤ったものには反例を 70 秒以内に。",
            ),
            measure_algorithm,
            show_algorithms,
            lambda effort: tuple(ALGORITHMS),
        ),
    ),
)
