"""What the sniper certifies on the catalogue, beside what the DP-Sniper study published on the mechanisms it had.

python benchmarks/sniper.py [--quick] [--study] [--only NAME] [--samples N] [--final-samples N] [--lines FILE]

For every mechanism: the certified lower bound on ε at 95 % confidence, after training on 10^6 samples of either input,
from at most 2·10^7 fresh ones of either; the larger of the published bounds of logistic regression and neural network
(90 %, 2·10^8 final samples of either input; Bichsel et al., S&P 2021), where there is one; and the true ε of the
mechanism, which no bound may exceed but with probability 5 % each. A bound is marked ✓ if it is at least the published
one minus 0.01, and ✓✓ if it is above.
RAPPOR and OneTimeRAPPOR are searched over all integers from -10 to 10, where the study compared 0 and 1 only.
Seconds are wall-clock, with as many workers as there are cores; a busy machine makes them longer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from veridp import catalogue
from veridp.engines.sniper import AttackResult, search

PUBLISHED = {
    "laplace": (0.0968, 0.0976),
    "truncated_geometric": (0.1156, 0.1155),
    "noisy_hist1": (0.0978, 0.0977),
    "noisy_hist2": (4.602, 4.601),
    "noisy_max1": (0.0923, 0.0925),
    "noisy_max2": (0.0975, 0.0979),
    "noisy_max3": (0.2478, 0.2488),
    "noisy_max4": (0.3463, 0.3534),
    "svt1": (0.0858, 0.0858),
    "svt2": (0.0859, 0.0852),
    "svt3": (0.1716, 0.1822),
    "svt4": (0.1687, 0.1696),
    "svt5": (1.761, 1.761),
    "svt6": (0.2720, 0.2698),
    "rappor": (0.2930, 0.3008),
    "one_time_rappor": (0.5978, 0.5999),
    "laplace_parallel": (0.0350, 0.0299),
    "svt34_parallel": (0.2610, 0.2616),
    "prefix_sum": (0.5040, 0.5774),
    "numerical_svt": (0.0343, 0.0345),
}
QUICK = ("laplace", "noisy_hist2", "truncated_geometric")
ALLOWANCE = 0.01


@dataclass(frozen=True)
class Row:
    """One mechanism's result."""

    name: str
    bound: float
    estimate: float
    published: float | None
    true: float | None
    model: str
    pair: str
    event: str
    samples: int
    drawn: int
    seconds: float

    @property
    def mark(self) -> str:
        if self.true is not None and self.bound > self.true:
            return "above the true ε"
        if self.published is None:
            return ""
        return "✓✓" if self.bound > self.published else "✓" if self.bound >= self.published - ALLOWANCE else "✗"


def measured(name: str, samples: int, final_samples: int, seed: int) -> Row:
    mechanism = catalogue[name]
    start = time.perf_counter()
    finding: AttackResult = search(mechanism, samples=samples, final_samples=final_samples, seconds=3600.0, seed=seed)
    took = time.perf_counter() - start
    witness = finding.witness
    return Row(
        name,
        finding.epsilon_lower,
        finding.estimate,
        max(PUBLISHED[name]) if name in PUBLISHED else None,
        mechanism.true_epsilon(mechanism.size),
        finding.model,
        "" if witness is None else f"{witness.left} | {witness.right}",
        "" if witness is None else str(witness.event),
        finding.samples,
        finding.drawn,
        took,
    )


def table_of(rows: list[Row]) -> Table:
    table = Table(
        "mechanism",
        "bound",
        "published",
        "true ε",
        "",
        "model",
        "final",
        "seconds",
        title="certified at 95 % confidence",
    )
    for row in rows:
        published, true = ("" if number is None else f"{number:.4f}" for number in (row.published, row.true))
        table.add_row(
            row.name,
            f"{row.bound:.4f}",
            published,
            true,
            row.mark,
            row.model,
            f"2×{row.samples:.3g}",
            f"{row.seconds:.1f}",
        )
    if rows:
        median = statistics.median(row.seconds for row in rows)
        table.add_row("median", "", "", "", "", "", "", f"{median:.1f}", style="bold")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three mechanisms with a tenth of the samples")
    parser.add_argument("--study", action="store_true", help="only the mechanisms that the study had")
    parser.add_argument("--only", action="append", choices=list(catalogue), help="this mechanism; may be repeated")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--final-samples", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=Path, help="append each result to this file as a line of JSON")
    given = parser.parse_args()
    scale = 10 if given.quick else 1
    others = () if given.study else (name for name in catalogue if name not in PUBLISHED)
    names = given.only or (QUICK if given.quick else (*PUBLISHED, *others))
    console, rows = Console(), []
    for name in names:
        row = measured(name, given.samples // scale, given.final_samples // scale, given.seed)
        rows.append(row)
        console.print(f"{name}: {row.bound:.4f} {row.mark} in {row.seconds:.1f} s")
        if given.lines is not None:
            with given.lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
    console.print(table_of(rows))


if __name__ == "__main__":
    main()
