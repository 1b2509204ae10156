"""Verdicts on the claims of tests/claims: twenty true ones to prove, twenty-one false ones to refute.

python benchmarks/claims.py [--time 60] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import veridp
from veridp.errors import VeridpError
from veridp.verdict import Standing

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def cpu_seconds() -> float:
    """Seconds that this process and its children have computed: what other programs do does not count."""
    return sum(os.times()[:4])


def judge(claim: Any, seconds: float) -> bool:
    """Whether the verdict is the right one; prints it."""
    start, busy = time.perf_counter(), cpu_seconds()
    try:
        verdict = veridp.audit(claim.function, seconds=seconds, **claim.stated, **claim.settings)
    except VeridpError as error:
        print(f"{'ERROR':<6}{claim.name:<42}{type(error).__name__}: {error}"[:160], flush=True)
        return False
    right = verdict.standing is (Standing.PROVED if claim.true else Standing.REFUTED)
    wrong = verdict.standing is (Standing.REFUTED if claim.true else Standing.PROVED)
    mark = "right" if right else "WRONG" if wrong else "-"
    found = f"{verdict.claim} {verdict.standing.value.upper()}, {verdict.bounds_text}"
    took = f"{time.perf_counter() - start:.1f} s, {cpu_seconds() - busy:.1f} s of CPU"
    print(f"{mark:<6}{claim.name:<42}{found}; {verdict.how}; {took}", flush=True)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = importlib.import_module("claims.claims").CLAIMS
    claims = [one for one in known if not options.only or one.name in options.only]
    right = [judge(claim, options.time) for claim in claims]
    for kind, wanted in (("true", True), ("false", False)):
        of_kind = [ok for ok, claim in zip(right, claims, strict=True) if claim.true is wanted]
        print(f"{kind} claims: {sum(of_kind)} of {len(of_kind)} {'proved' if wanted else 'refuted'}")


if __name__ == "__main__":
    main()
