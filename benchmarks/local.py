"""How fast local-DP collections are, against the libraries of the field. `python benchmarks/local.py [--quick]`

End to end: a million values are perturbed, aggregated and estimated, by GRR, OUE and OLH on a hundred values, with one
thread. The peers, `multi-freq-ldpy` and `pure-ldp`, do the same work in the same run, in an interpreter that has them:

    python -m venv peers && peers/bin/pip install multi-freq-ldpy pure-ldp scikit-learn statsmodels 'xxhash<4'
    python benchmarks/local.py --peer-python peers/bin/python

Without `--peer-python` this interpreter is tried. A peer that is not installed is left out, and the table says so.
Compiling is not counted for anyone. The peers' OLH takes minutes: it runs on a twentieth of the users, and its time is
multiplied (it hashes every value for every report, so it is linear in users); `--full` runs it on all of them. Below
the table: the speed of single steps, and the memory of ten million users.

Read the last columns: how many times faster than each peer. Times vary with the machine, ratios hardly do.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE, EPSILON = 100, 1.0
ORACLES = ("GRR", "OUE", "OLH")
MODULES = {"multi-freq-ldpy": "multi_freq_ldpy", "pure-ldp": "pure_ldp"}
PEERS = tuple(MODULES)
REPEATS = 3


def values(users: int) -> Any:
    return np.random.default_rng(0).zipf(1.3, size=users) % SIZE


# ----------------------------------------------------------------------------------------------------------- veridp


def own_seconds(oracle: str, users: int) -> float:
    """The best of some repeats, after one that compiles."""
    from veridp import local

    made, column, rng = getattr(local, oracle)(SIZE, EPSILON), values(users), np.random.default_rng(1)
    made.estimate(made.collect(column[:1000], rng))
    return min(timed(lambda: made.estimate(made.collect(column, rng))) for _ in range(REPEATS))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ------------------------------------------------------------------------------------------------------------ peers


def by_multi_freq_ldpy(oracle: str, column: Any) -> Any:
    """Estimates in parts of 100,000 users: all reports at once would not fit into memory."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE  # type: ignore[import-not-found]

    estimates = []
    for start in range(0, len(column), 100_000):
        part = column[start : start + 100_000].tolist()
        if oracle == "GRR":
            reports = [GRR.GRR_Client(value, SIZE, EPSILON) for value in part]
            estimates.append(GRR.GRR_Aggregator_MI(reports, SIZE, EPSILON))
        elif oracle == "OUE":
            vectors = [UE.UE_Client(value, SIZE, EPSILON, True) for value in part]
            estimates.append(UE.UE_Aggregator_MI(vectors, EPSILON, True))
        else:
            pairs = [LH.LH_Client(value, SIZE, EPSILON, True) for value in part]
            estimates.append(LH.LH_Aggregator_MI(pairs, SIZE, EPSILON, True))
    return np.mean(estimates, axis=0)


def by_pure_ldp(oracle: str, column: Any) -> Any:
    """Every report is aggregated as it comes."""
    from pure_ldp.frequency_oracles import direct_encoding, local_hashing, unary_encoding  # type: ignore[import-not-found]

    def same(value: int) -> int:
        return value

    if oracle == "GRR":
        client = direct_encoding.DEClient(EPSILON, SIZE, index_mapper=same)
        server = direct_encoding.DEServer(EPSILON, SIZE, index_mapper=same)
    elif oracle == "OUE":
        client = unary_encoding.UEClient(EPSILON, SIZE, use_oue=True, index_mapper=same)
        server = unary_encoding.UEServer(EPSILON, SIZE, use_oue=True, index_mapper=same)
    else:
        client = local_hashing.LHClient(EPSILON, SIZE, use_olh=True, index_mapper=same)
        server = local_hashing.LHServer(EPSILON, SIZE, use_olh=True, index_mapper=same)
    for value in column.tolist():
        server.aggregate(client.privatise(value))
    return np.array([server.estimate(value, suppress_warnings=True) for value in range(SIZE)]) / len(column)


def run_as_peer(peer: str, oracle: str, users: int) -> None:
    """Print the peer's seconds and its worst error as JSON; run in the peers' interpreter."""
    work = by_multi_freq_ldpy if peer == "multi-freq-ldpy" else by_pure_ldp
    column = values(users)
    work(oracle, column[:100])  # compiles
    start = time.perf_counter()
    estimates = work(oracle, column)
    seconds = time.perf_counter() - start
    truth = np.bincount(column, minlength=SIZE) / users
    print(json.dumps({"seconds": seconds, "error": float(np.abs(estimates - truth).max())}))


def peer_seconds(python: str, peer: str, oracle: str, users: int) -> float:
    """The peer's seconds; NaN where it is not installed, and an error where it lacks something else."""
    command = [python, __file__, "--as-peer", peer, "--oracle", oracle, "--users", str(users)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if run.returncode:
        if f"No module named '{MODULES[peer]}" in run.stderr:
            return math.nan
        raise SystemExit(f"{peer} failed:\n{run.stderr}")
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found["seconds"]


# ------------------------------------------------------------------------------------------------------- the tables


def compare(python: str, users: int, slow_users: int) -> None:
    """The table of end-to-end times; where the peers' OLH ran on fewer users, its time is scaled up and marked."""
    print(f"{users:,} users, d = {SIZE}, ε = {EPSILON:g}: seconds end to end, and how many times faster veridp is")
    print(f"{'':8}{'veridp':>10}" + "".join(f"{peer:>20}{'ratio':>10}" for peer in PEERS))
    for oracle in ORACLES:
        own = own_seconds(oracle, users)
        line = f"{oracle:8}{own:10.4f}"
        for peer in PEERS:
            asked = slow_users if oracle == "OLH" else users
            seconds = peer_seconds(python, peer, oracle, asked) * users / asked
            mark = "" if asked == users else "*"
            shown = "not installed" if math.isnan(seconds) else f"{mark}{seconds:.1f}"
            line += f"{shown:>20}{'' if math.isnan(seconds) else f'{seconds / own:.0f}×':>10}"
        print(line, flush=True)
    if slow_users != users:
        print(f"* from {slow_users:,} users, times {users // slow_users}")


def steps(users: int) -> None:
    """Millions of users per second, by step."""
    from veridp import local

    print(f"\n{'million users per second':28}{'perturb':>10}{'aggregate':>12}")
    kinds: list[Any] = [
        local.GRR(SIZE, EPSILON),
        local.SUE(SIZE, EPSILON),
        local.OUE(SIZE, EPSILON),
        local.OLH(SIZE, EPSILON),
        local.Hadamard(SIZE, EPSILON),
        local.SubsetSelection(SIZE, EPSILON),
        local.SR(0, SIZE, EPSILON),
        local.PM(0, SIZE, EPSILON),
        local.HM(0, SIZE, EPSILON),
        local.LaplaceMean(0, SIZE, EPSILON),
    ]
    column, rng = values(users), np.random.default_rng(2)
    for oracle in kinds:
        reports = oracle.perturb(column, rng)
        oracle.aggregate(reports)
        perturbing = min(timed(lambda: oracle.perturb(column, rng)) for _ in range(REPEATS))  # noqa: B023
        aggregating = min(timed(lambda: oracle.aggregate(reports)) for _ in range(REPEATS))  # noqa: B023
        print(f"{oracle.name:28}{users / perturbing / 1e6:10.1f}{users / aggregating / 1e6:12.1f}")


def memory(users: int) -> None:
    """The most memory that a collection of so many users takes, each oracle in a process of its own."""
    print(f"\n{users:,} users: most memory of the process, values included")
    for oracle in ORACLES:
        command = [sys.executable, __file__, "--as-collector", oracle, "--users", str(users)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        found = json.loads(run.stdout.splitlines()[-1])
        print(f"{oracle:8}{found['gibibytes']:8.2f} GiB{found['seconds']:8.1f} s")


def run_as_collector(oracle: str, users: int) -> None:
    from veridp import local

    made, column = getattr(local, oracle)(SIZE, EPSILON), values(users).astype(np.int16)
    seconds = timed(lambda: made.estimate(made.collect(column, np.random.default_rng(3))))
    print(json.dumps({"gibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "seconds": seconds}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer users")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--full", action="store_true", help="also the peers' OLH on all users: minutes")
    parser.add_argument("--as-peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--as-collector", choices=ORACLES, help=argparse.SUPPRESS)
    parser.add_argument("--oracle", choices=ORACLES, help=argparse.SUPPRESS)
    parser.add_argument("--users", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.as_peer:
        return run_as_peer(given.as_peer, given.oracle, given.users)
    if given.as_collector:
        return run_as_collector(given.as_collector, given.users)
    users = 100_000 if given.quick else 1_000_000
    compare(given.peer_python, users, users if given.full else users // 20)
    steps(users)
    return memory(users * 10)


if __name__ == "__main__":
    main()
