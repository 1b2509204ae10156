"""Verdicts on the mechanisms of tests/world: code as engineers write it, each with the derivation of its true cost.

Prints a line for each: whether the verdict is right, whether the interval for ε is closed to 1 %, the claim, the truth,
the verdict, its interval and the seconds that it took. The last line has the shares. A WRONG verdict is one that a
derivation contradicts: a proof below the truth, a refutation of a true claim, a bound on the wrong side.

    python benchmarks/world.py [--time 20] [--only NAME_OR_FILE ...]
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import warnings
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
    print(f"{mark:6s}{'closed' if closed else 'open':7s}{entry.name:40s}{said}", flush=True)
    return Judged(right, wrong, closed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=float, default=20.0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [
        entry
        for entry in entries()
        if not options.only or {entry.name, entry.target.__module__.rpartition(".")[2]} & set(options.only)
    ]
    judged = [judge(entry, options.time) for entry in chosen]
    count = max(len(judged), 1)
    right, wrong, closed = (sum(each) for each in zip(*judged, strict=True)) if judged else (0, 0, 0)
    print(f"{len(judged)} mechanisms: {right / count:.1%} right, {wrong} wrong, {closed / count:.1%} closed to 1 %")


if __name__ == "__main__":
    main()
