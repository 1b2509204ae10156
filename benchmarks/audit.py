"""Verdicts on the whole catalogue: by the full plan, and over many seeds by samples alone.

Prints a line for each mechanism. The full plan: its verdict, the interval for ε, the true ε, seconds. Samples alone: in
how many of the seeds the claim was refuted, the median of the lower bounds, how many of them are above the true ε, and
the seconds of one audit. A right mechanism that is refuted is a false alarm; of these, and of bounds above the truth,
at most a share of `alpha` is allowed. The last lines count them, and the classic bugs that were found. An audit ends
once the claim is refuted, so wrong mechanisms may be given more time than right ones, of which each takes all that it
is given.

    python benchmarks/audit.py [--seeds 20] [--time 6] [--time-right 3] [--time-wrong 30] [--only NAME] [--quick]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import veridp
from veridp.verdict import Standing, Verdict

ALPHA = 0.05
CLASSIC = ("noisy_hist2", "noisy_max3", "noisy_max4", "svt3", "svt4", "svt5", "svt6", "prefix_sum", "bad_smart_sum")


def full(name: str, seconds: float) -> Verdict:
    mechanism = veridp.catalogue[name]
    verdict = veridp.audit(mechanism, seconds=seconds)
    true_epsilon = mechanism.true_epsilon(mechanism.size)
    interval = f"[{verdict.epsilon.lower:.6g}, {verdict.epsilon.upper:.6g}]"
    standing = verdict.standing.value.upper()
    agrees = "" if (standing == "REFUTED") != bool(mechanism.keeps_claim()) else "   <- DISAGREES"
    print(f"{name:24s}{standing:14s}{interval:26s}{true_epsilon:<12.6g}{verdict.seconds:6.1f} s{agrees}", flush=True)
    return verdict


@dataclass(frozen=True)
class Sampled:
    """What audits of a mechanism by samples alone came to."""

    refuted: int
    above: int  # lower bounds above the true ε


def sampled(name: str, seconds: float, seeds: int) -> Sampled:
    mechanism, lowers, refuted, started = veridp.catalogue[name], [], 0, time.perf_counter()
    for seed in range(seeds):
        verdict = veridp.audit(mechanism, seconds=seconds, seed=seed, alpha=ALPHA, black_box=True)
        lowers.append(verdict.epsilon.lower)
        refuted += verdict.standing is Standing.REFUTED
    each = (time.perf_counter() - started) / seeds
    known = mechanism.true_epsilon(mechanism.size)
    true_epsilon = math.inf if known is None else known
    above = sum(lower > true_epsilon * (1 + 1e-9) for lower in lowers)
    print(
        f"{name:24s}{'right' if mechanism.keeps_claim() else 'wrong':8s}{refuted:3d}/{seeds} refuted   "
        f"median {statistics.median(lowers):<10.4g} true {true_epsilon:<10.4g}{above:3d} above{each:7.1f} s",
        flush=True,
    )
    return Sampled(refuted, above)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="audits of each by samples alone; 0 for none")
    parser.add_argument("--time", type=float, default=6.0, help="seconds for an audit by the full plan; 0 for none")
    parser.add_argument("--time-right", type=float, default=3.0, help="seconds for samples alone of a right mechanism")
    parser.add_argument("--time-wrong", type=float, default=30.0, help="seconds for samples alone of a wrong mechanism")
    parser.add_argument("--only", action="append", help="this mechanism (may be given several times)")
    parser.add_argument("--quick", action="store_true", help="two seeds")
    options = parser.parse_args(arguments)
    names = options.only or list(veridp.catalogue)
    seeds = 2 if options.quick else options.seeds
    if options.time:
        print("the full plan")
        intervals = [full(name, options.time).epsilon for name in names]
        closed = sum(interval.lower >= 0.99 * interval.upper for interval in intervals)
        print(f"intervals closed to within 1 %: {closed} of {len(names)}\n")
    if not seeds:
        return
    print(f"samples alone, {seeds} seeds")
    right = {name for name in names if veridp.catalogue[name].keeps_claim()}
    times = {name: options.time_right if name in right else options.time_wrong for name in names}
    found = {name: sampled(name, times[name], seeds) for name in names}
    alarms = sum(found[name].refuted for name in right)
    above = sum(one.above for one in found.values())
    print(f"\nfalse alarms: {alarms} in {seeds * len(right)} audits; a share of {ALPHA:g} of them is allowed")
    print(f"bounds above the true ε: {above} in {seeds * len(names)} audits; a share of {ALPHA:g} of them is allowed")
    for name in CLASSIC:
        if name in found:
            print(f"classic bug {name}: found in {found[name].refuted} of {seeds}")


if __name__ == "__main__":
    main(sys.argv[1:])
