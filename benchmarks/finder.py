"""DP-Finder against random pairs and events, and what a restart takes. `python benchmarks/finder.py [--quick]`

For each mechanism of the paper (four queries, ε = 0.1, entries in [-10, 10]) the median over seeded runs of the
verified ε, by climbing and by the random baseline, which evaluates at least as many pairs and events; then the medians
over single restarts (the paper's own ratios: 2 for AT4, 5 for AT3, 12 for NoisyMax, 33 for Sum).
`share` is the found ε by the true cost; where that is a limit which the domain cuts off, `within` is what the exact
search for the worst pair finds in the domain. Both sides of a ratio are from this run. Last, the widths of intervals.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import veridp
from veridp.engines.exact import worst
from veridp.engines.finder import FinderResult, search
from veridp.engines.finder.estimate import SampleMoments, clt, hoeffding, multivariate_clt

MECHANISMS = {
    "AT": "at",
    "AT1": "at1",
    "AT2": "at2",
    "AT3": "at3",
    "AT4": "at4",
    "AT5": "at5",
    "ExpMech": "exponential_mechanism",
    "NoisyMax": "noisy_max1",
    "Sum": "finder_sum",
}
SIZE = 4
ALPHA = 0.001


@dataclass(frozen=True)
class Line:
    """One mechanism: medians over runs, and over restarts."""

    name: str
    true: float
    within: float
    climbed: float
    drawn: float
    climbed_restart: float
    drawn_restart: float
    correlations: tuple[float, float]
    seconds: float

    def __str__(self) -> str:
        share = "" if math.isinf(self.true) else f"{self.climbed / self.true:.0%}"
        return (
            f"{self.name:<9}{self.true:>8.4g}{self.within:>9.5g}{self.climbed:>9.5g}{share:>7}{self.drawn:>9.5g}"
            f"{_ratio(self.climbed, self.drawn):>7}{self.climbed_restart:>10.4g}{self.drawn_restart:>10.4g}"
            f"{_ratio(self.climbed_restart, self.drawn_restart):>7}"
            f"{self.correlations[0]:>8.3f}-{self.correlations[1]:.3f}{self.seconds:>8.2f} s"
        )


def _ratio(above: float, below: float) -> str:
    return f"{above / below:.2f}" if math.isfinite(above) and below > 0 else "-"


def line(label: str, name: str, seeds: Sequence[int], restarts: int) -> Line:
    mechanism = veridp.catalogue[name]
    runs = [search(mechanism, SIZE, restarts=restarts, seconds=3600, seed=seed, workers=1) for seed in seeds]
    drawn = [
        search(mechanism, SIZE, restarts=restarts, seconds=3600, seed=seed, workers=1, random=True) for seed in seeds
    ]
    correlations = [value for run in runs for value in run.correlations]
    true = mechanism.true_epsilon(SIZE)
    return Line(
        label,
        math.nan if true is None else true,
        worst(mechanism, SIZE, seconds=20).epsilon,
        statistics.median(run.epsilon for run in runs),
        statistics.median(run.epsilon for run in drawn),
        _restart_median(runs),
        _restart_median(drawn),
        (min(correlations, default=math.nan), max(correlations, default=math.nan)),
        statistics.mean(restart.seconds for run in runs for restart in run.restarts),
    )


def _restart_median(runs: Sequence[FinderResult]) -> float:
    """What one restart comes to, verified: a climb before the exact one, or the best of random draws."""
    return statistics.median(max(restart.verified or 0.0, 0.0) for run in runs for restart in run.restarts)


def widths() -> None:
    """The widths of the paper's Fig. 6: p = 3.24 %, q = 3.04 %, correlation 0.97, 10^7 samples."""
    p, q, rho, count = 0.0324, 0.0304, 0.97, 10**7
    joint = p * q + rho * math.sqrt(p * (1 - p) * q * (1 - q))
    print(f"\nwidths of intervals for ε at α = {ALPHA}, p = {p}, q = {q}, ρ = {rho} (the paper's in brackets)")
    for name, method, published, samples in (
        ("Hoeffding", hoeffding, "0.079", count),
        ("CLT", clt, "0.025", count),
        ("M-CLT", multivariate_clt, "", count),
        ("M-CLT", multivariate_clt, "0.01 well below 10^7", 820_000),
    ):
        moments = SampleMoments(samples, *(samples * value for value in (p, q, p, q, joint)))
        interval = method(moments, ALPHA)
        print(f"{name:<10} n = {samples:<10} {interval.upper - interval.lower:.4f}  [{published}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 runs instead of 20")
    parser.add_argument("--restarts", type=int, default=4, help="restarts of each run")
    parser.add_argument("--only", nargs="*", choices=list(MECHANISMS), help="these mechanisms alone")
    options = parser.parse_args()
    seeds, restarts = range(3 if options.quick else 20), options.restarts
    print(f"medians over {len(seeds)} runs of {restarts} restarts each, and over single restarts")
    print(
        f"{'':<9}{'true':>8}{'within':>9}{'found':>9}{'share':>7}{'random':>9}{'ratio':>7}{'restart':>10}{'random':>10}"
        f"{'ratio':>7}{'correlation':>14}{'a restart':>10}"
    )
    started = time.perf_counter()
    for label, name in MECHANISMS.items():
        if not options.only or label in options.only:
            print(line(label, name, seeds, restarts), flush=True)
    print(f"{time.perf_counter() - started:.0f} s in all")
    widths()


if __name__ == "__main__":
    main()
