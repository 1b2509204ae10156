"""Verdicts on the mechanisms of tests/world: code as engineers write it, each with the derivation of its true cost.

Prints a line for each: whether the verdict is right, whether the interval for ε is closed to 1 %, the claim, the truth,
the verdict, its interval and the seconds that it took. The last line has the shares. A WRONG verdict is one that a
derivation contradicts: a proof below the truth, a refutation of a true claim, a bound on the wrong side.

    python benchmarks/world.py [--time 20] [--processes 1] [--only NAME_OR_FILE ...]

All mechanisms take at most their number times --time seconds, divided by --processes, and half of that as a rule. More
processes than idle cores take from audits what they have to do in their time.
"""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import veridp
from veridp.verdict import Standing

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CLOSED = 0.01  # relative: how wide an interval may be that counts as closed
ROUNDING = 1e-6


def entries() -> list[Any]:
    for file in sorted((Path(__file__).parents[1] / "tests" / "world").glob("*.py")):
        if not file.stem.startswith(("_", "test_", "entry")):
            importlib.import_module(f"world.{file.stem}")
    return importlib.import_module("world.entry").ENTRIES  # type: ignore[no-any-return]


class Judged(NamedTuple):
    """What an audit of a mechanism came to."""

    right: bool
    wrong: bool
    closed: bool
    line: str


def judged_alone(number: int, seconds: float) -> Judged:
    """What `judge` says of the entry of that number, in another process."""
    warnings.simplefilter("ignore")
    return judge(entries()[number], seconds)


def judge(entry: Any, seconds: float) -> Judged:
    settings = {"adjacency": entry.adjacency, "domain": entry.domain, "size": entry.size}
    stated = {name: value for name, value in settings.items() if value is not None}
    low, high, standing, note = 0.0, math.inf, None, ""
    try:
        verdict = veridp.audit(entry.target, epsilon=entry.claim, seconds=seconds, **stated)
        low, high, standing = verdict.epsilon.lower, verdict.epsilon.upper, verdict.standing
        note = f"{verdict.seconds:.1f} s"
    except veridp.errors.VeridpError as error:
        note = f"{type(error).__name__}: {error}"[:120]
    right = standing is (Standing.PROVED if entry.right else Standing.REFUTED)
    contradicted = standing is Standing.REFUTED if entry.right else standing is Standing.PROVED
    wrong = contradicted or low > entry.truth * (1 + ROUNDING) + ROUNDING or high < entry.truth * (1 - ROUNDING)
    closed = low == high or (math.isfinite(high) and high - low <= CLOSED * high)
    mark = "WRONG" if wrong else "right" if right else "-"
    told = "ERROR" if standing is None else standing.value.upper()
    said = f"claim {entry.claim:<9.4g}truth {entry.truth:<9.4g}{told:12s} [{low:.4g}, {high:.4g}] {note}"
    line = f"{mark:6s}{'closed' if closed else 'open':7s}{entry.name:40s}{said}"
    return Judged(right, wrong, closed, line)


def judgements(numbers: list[int], seconds: float, processes: int) -> Iterator[Judged]:
    """What `judge` says of these entries, in their order."""
    if processes == 1:
        yield from (judge(entries()[number], seconds) for number in numbers)
        return
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=fresh) as pool:
        yield from pool.map(judged_alone, numbers, [seconds] * len(numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    numbers = [
        number
        for number, entry in enumerate(entries())
        if not options.only or {entry.name, entry.target.__module__.rpartition(".")[2]} & set(options.only)
    ]
    began = time.monotonic()
    judged = []
    for each in judgements(numbers, options.time, options.processes):
        print(each.line, flush=True)
        judged.append(each)
    count = max(len(judged), 1)
    right, wrong, closed = (sum(getattr(each, word) for each in judged) for word in ("right", "wrong", "closed"))
    shares = f"{right / count:.1%} right, {wrong} wrong, {closed / count:.1%} closed to 1 %"
    print(f"{len(judged)} mechanisms: {shares} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
