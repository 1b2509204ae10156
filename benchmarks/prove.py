"""How long proofs take: the literature's mechanisms at size 5, and how the time grows with the size.

python benchmarks/prove.py [--quick]
"""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.table import Table

from veridp import catalogue
from veridp.mechanism import Mechanism
from veridp.prove import prove

AT_FIVE = [
    "svt1",
    "svt2",
    "gap_svt",
    "numerical_svt",
    "adaptive_svt",
    "monotone_svt",
    "svt4",
    "bad_gap_svt",
    "noisy_max1",
    "noisy_max2",
    "noisy_max3",
    "svt6",
    "prefix_sum",
    "partial_sum",
    "bad_partial_sum",
    "smart_sum",
    "laplace",
    "noisy_hist1",
    "noisy_hist2",
    "svt5",
    "noisy_max4",
    "bad_smart_sum",
]
GROWING = ["svt1", "gap_svt", "noisy_max1", "prefix_sum", "svt6"]


def seconds(mechanism: Mechanism, size: int) -> tuple[float, float]:
    start = time.perf_counter()
    proof = prove(mechanism, size)
    return proof.epsilon, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes up to 6 only")
    quick = parser.parse_args().quick
    console = Console()
    seconds(catalogue["laplace"], 1)  # imports the solvers
    table = Table("mechanism", "proved ε", "seconds", title="at size 5, claimed 0.1")
    total = 0.0
    for name in AT_FIVE:
        epsilon, took = seconds(catalogue[name], 5)
        total += took
        table.add_row(name, f"{epsilon:.6g}", f"{took:.3f}")
    table.add_row("all", "", f"{total:.3f}", style="bold")
    console.print(table)
    sizes = range(2, 7 if quick else 9)
    growth = Table("mechanism", *map(str, sizes), title="seconds by size (times those of the size before)")
    for name in GROWING:
        cells, before = [], None
        for size in sizes:
            _, took = seconds(catalogue[name], size)
            cells.append(f"{took:.2f}" + ("" if before is None else f" ({took / before:.1f}×)"))
            before = took
        growth.add_row(name, *cells)
    console.print(growth)


if __name__ == "__main__":
    main()
