"""StatDP with the sample sizes of its paper: how long a detection takes. `python benchmarks/statdp.py`

One detection for SVT1: 14 pairs, all events, 10^5 runs on either side to choose an event for each of 21 test ε,
5·10^5 fresh ones to test them. Read "share of sampling" as the part of the time in which the mechanism itself was run;
the rest is the search for arguments, the counting of all candidate events, and the p-values.

What it says of the paper's algorithms is in `make reproduce`.
"""

from __future__ import annotations

import cProfile
import pstats
import time

from veridp import catalogue
from veridp.engines.statdp import detect


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


if __name__ == "__main__":
    time_full_detection()
