"""StatDP's decisions at the sample sizes of its paper: our detection beside the published tool, in CPU seconds.

    python benchmarks/statdp.py --peer CHECKOUT [--part 10] [--only NAME]

One decision for each of its algorithms: does it keep the claim of 0.7? Both are given the tool's own functions, choose
an event on 10^5 runs of either side for each pair of neighbours, and test it on 5·10^5 fresh ones. The pairs are the
tool's: where one query differs, ours would try 30 of them by default. `--peer` is a
checkout of github.com/cmla-psu/statdp, which needs tqdm and numba. The tool runs the algorithms one by one, so its time
is proportional to the runs: it is given one in `--part` of them, its seconds are multiplied, and its p-value is that of
fewer runs. CPU seconds are those of this process and its children. The last column is the share of ours in which the
algorithm was run, or chosen events were counted.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from veridp import mechanism
from veridp.engines.statdp import Detection, detect

CLAIM = 0.7
# its name, the arguments that its own examples give, whether one query differs alone
ALGORITHMS: tuple[tuple[str, dict[str, float], bool], ...] = (
    ("noisy_max_v1a", {}, False),
    ("noisy_max_v1b", {}, False),
    ("noisy_max_v2a", {}, False),
    ("noisy_max_v2b", {}, False),
    ("histogram", {}, True),
    ("histogram_eps", {}, True),
    ("SVT", {"N": 1, "T": 0.5}, False),
    ("iSVT1", {"N": 1, "T": 1}, False),
    ("iSVT2", {"N": 1, "T": 1}, False),
    ("iSVT3", {"N": 1, "T": 1}, False),
    ("iSVT4", {"N": 1, "T": 1}, False),
)


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(answer: Callable[[], Any]) -> tuple[Any, float]:
    before = cpu_seconds()
    return answer(), cpu_seconds() - before


def theirs(algorithm: Any, arguments: dict[str, float], alone: bool, part: int) -> float:
    """The tool's p-value against the claim."""
    tool = importlib.import_module("statdp")

    found = tool.detect_counterexample(
        algorithm,
        CLAIM,
        {**arguments, "epsilon": CLAIM},
        event_iterations=100_000 // part,
        detect_iterations=500_000 // part,
        cores=1,
        sensitivity=tool.ONE_DIFFER if alone else tool.ALL_DIFFER,
        quiet=True,
        loglevel=30,
    )
    return float(found[0][1])


def ours(algorithm: Any, arguments: dict[str, float], alone: bool, samples: int = 500_000) -> Detection:
    def run(rng: Any, queries: Any, *, epsilon: float) -> Any:
        return algorithm(rng, queries, epsilon, **arguments)

    target = mechanism(adjacency="l1" if alone else "linf")(run)
    pairs = (
        [([1.0] * size, [other] + [1.0] * (size - 1)) for size in (5, 10) for other in (2.0, 0.0)] if alone else None
    )
    return detect(target, CLAIM, test_epsilons=[CLAIM], pairs=pairs, selection_samples=samples // 5, samples=samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, required=True, help="a checkout of the published tool")
    parser.add_argument("--part", type=int, default=10, help="the tool is given one in so many of its runs")
    parser.add_argument("--only", action="append", help="this algorithm; may be repeated")
    given = parser.parse_args()
    sys.path.insert(0, str(given.peer))
    algorithms = importlib.import_module("statdp.algorithms")  # the tool's, which now comes before this file

    first = ALGORITHMS[0]
    (
        ours(getattr(algorithms, first[0]), *first[1:], 1000),
        theirs(getattr(algorithms, first[0]), *first[1:], 1000),
    )  # loads
    ratios = []
    for name, arguments, alone in ALGORITHMS:
        if given.only and name not in given.only:
            continue
        algorithm = getattr(algorithms, name)
        found, seconds = timed(partial(ours, algorithm, arguments, alone))
        p_value, their_seconds = timed(partial(theirs, algorithm, arguments, alone, given.part))
        ratios.append(given.part * their_seconds / seconds)
        print(
            f"{name:14} p {found.p_value:8.2g}  {'refuted' if found.refuted else 'not refuted':12}{seconds:6.2f} s   "
            f"the tool: p {p_value:8.2g} {given.part * their_seconds:6.1f} s   {ratios[-1]:5.1f} times   "
            f"sampling {found.sampling_seconds / found.seconds:.0%}",
            flush=True,
        )
    print(f"at least {min(ratios):.1f} times faster, median {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
