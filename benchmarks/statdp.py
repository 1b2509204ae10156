"""StatDP with the sample sizes of its paper: how long a detection takes, and what it says of the paper's algorithms.

    python benchmarks/statdp.py [--quick]

First, one detection for SVT1: 14 pairs, all events, 10^5 runs on either side to choose an event for each of 21 test ε,
5·10^5 fresh ones to test them. Read "share of sampling" as the part of the time in which the mechanism itself was run;
the rest is the search for arguments, the counting of all candidate events, and the p-values.

Then the paper's algorithms (its figures 2 to 4) at ε0 = 0.2, 0.7 and 1.5: the ε that is refuted at confidence 0.95, as
a share of ε0, next to that of the exact loss of the worst pattern, and whether what the paper shows holds. `--quick`
leaves all but ε0 = 0.7 out, and takes a tenth of the samples.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import time
from collections.abc import Callable
from dataclasses import dataclass

from veridp import catalogue
from veridp.engines.exact import compare
from veridp.engines.statdp import Detection, detect
from veridp.engines.statdp.arguments import search_arguments
from veridp.engines.statdp.candidates import usual_pairs
from veridp.errors import VeridpError

CLAIMS = (0.2, 0.7, 1.5)


@dataclass(frozen=True)
class Expectation:
    """A mechanism of the paper, under the paper's name, and what must hold of its detection."""

    paper: str
    name: str
    text: str
    holds: Callable[[Detection, float], bool]


def significant(detection: Detection, epsilon: float) -> bool:
    return detection.at(epsilon).corrected_p_value < detection.alpha


def right(reach: float) -> Callable[[Detection, float], bool]:
    return lambda detection, claim: significant(detection, reach * claim) and not significant(detection, 1.1 * claim)


def wrong(detection: Detection, claim: float) -> bool:
    return detection.refuted


def wrong_histogram(detection: Detection, claim: float) -> bool:
    """Its true ε is 1/ε0: below the claim where that is 1.5."""
    if claim < 1:
        return detection.refuted
    return not detection.refuted and significant(detection, 0.9 / claim) and not significant(detection, 1.1 / claim)


def wrong_scale(detection: Detection, claim: float) -> bool:
    return significant(detection, 1.2 * claim) and not significant(detection, 1.8 * claim)


RIGHT = "p < 0.05 at 0.8 ε0, not at 1.1 ε0"
EXPECTED = (
    Expectation("noisy max 5", "noisy_max1", RIGHT, right(0.8)),
    Expectation("noisy max 6", "noisy_max2", RIGHT, right(0.8)),
    Expectation("noisy max 7", "noisy_max3", "refuted at ε0", wrong),
    Expectation("noisy max 8", "noisy_max4", "refuted at ε0", wrong),
    Expectation("histogram", "noisy_hist1", RIGHT, right(0.8)),
    Expectation("wrong histogram", "noisy_hist2", "refuted at ε0 < 1, less than claimed at 1.5", wrong_histogram),
    Expectation("SVT", "svt1", "p < 0.05 at 0.6 ε0, not at 1.1 ε0", right(0.6)),
    Expectation("iSVT1", "svt5", "refuted at ε0", wrong),
    Expectation("iSVT2", "svt6", "refuted at ε0", wrong),
    Expectation("iSVT3", "svt4", "p < 0.05 at 1.2 ε0, not at 1.8 ε0", wrong_scale),
    Expectation("iSVT4", "svt3", "refuted at ε0", wrong),
)


def detected(name: str, claim: float, quick: bool) -> Detection:
    return detect(
        catalogue[name],
        claim,
        test_epsilons=[share * claim / 20 for share in range(4, 45)],
        selection_samples=20_000 if quick else 100_000,
        samples=50_000 if quick else 500_000,
    )


def exact_reach(name: str, claim: float) -> float:
    """The largest exact loss among the pairs and arguments that a detection tries."""
    mechanism = catalogue[name].claiming(claim)
    best = 0.0
    for pair in usual_pairs(mechanism, None):
        try:
            bound = search_arguments(mechanism, pair.left, pair.right).mechanism
            best = max(best, compare(bound, pair.left, pair.right).epsilon)
        except VeridpError:
            return math.nan
    return best


def time_full_detection() -> None:
    mechanism = catalogue["svt1"]
    detect(mechanism, 0.7, selection_samples=1000, samples=1000)  # imports and caches
    started = time.perf_counter()
    detection = detect(mechanism, 0.7)
    seconds = time.perf_counter() - started
    print(f"SVT1, {detection.searched[0]}; {detection.searched[-1]}")
    print(f"    {seconds:.2f} s, share of sampling {detection.sampling_seconds / seconds:.0%}")
    profile = cProfile.Profile()
    profile.runcall(detect, mechanism, 0.7)
    stats = pstats.Stats(profile)
    total = stats.total_tt  # type: ignore[attr-defined]
    parts = {
        "running the mechanism": "carry_out",
        "search for arguments": "search_arguments",
        "proposing features and cuts": "propose_axes",
        "counting all events": "statdp/counting.py:counts",
        "p-values": "log_p_values",
    }
    for what, function in parts.items():
        print(f"    {what:30} {_cumulative(stats, function) / total:5.1%} (under a profiler)")


def _cumulative(stats: pstats.Stats, function: str) -> float:
    file, _, name = function.rpartition(":")
    table = stats.stats  # type: ignore[attr-defined]
    return max(float(entry[3]) for (path, _, known), entry in table.items() if known == name and file in path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, and ε0 = 0.7 alone")
    quick = parser.parse_args().quick
    time_full_detection()
    print(f"\n{'algorithm':16} {'ε0':>4} {'ε >=':>8} {'of ε0':>6} {'exact':>6} {'p at ε0':>9} {'s':>6}  must hold")
    for expectation in EXPECTED:
        for claim in (0.7,) if quick else CLAIMS:
            detection = detected(expectation.name, claim, quick)
            reach = exact_reach(expectation.name, claim) / claim
            print(
                f"{expectation.paper:16} {claim:4g} {detection.epsilon_lower:8.4f} "
                f"{detection.epsilon_lower / claim:6.2f} {reach:6.2f} {detection.corrected_p_value:9.2g} "
                f"{detection.seconds:6.1f}  {'✓' if expectation.holds(detection, claim) else '✗'} {expectation.text}"
            )
            print(f"{'':21} {detection.event}: {detection.claimed.left} against {detection.claimed.right}", flush=True)


if __name__ == "__main__":
    main()
