"""Verdicts on right mechanisms of real libraries, by the default call alone: how much of each claim the audit shows.

None may be refuted, and the lower bound is compared with the claim: an audit that ends at [0, ∞] has said nothing. The
objects bring their claim and their neighbours. Prints a line for each, and the table of `docs/adapters.md`.

    python benchmarks/libraries.py [--time 60] [--only NAME ...] [--processes 2]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import opendp.prelude as dp
from diffprivlib import mechanisms, tools

import veridp
from veridp.verdict import Standing, Verdict

dp.enable_features("contrib")
ENOUGH = 0.5  # of the claim
NUMBER = dp.atom_domain(T=float, nan=False)
WHOLE = dp.atom_domain(T=int)
CATEGORIES = [("a", "b", 1), ("b", "c", 1), ("a", "c", 2)]
ONE: dict[str, Any] = {"epsilon": 1, "sensitivity": 1}
APPROXIMATE: dict[str, Any] = {"epsilon": 1, "delta": 0.01, "sensitivity": 1}
BETWEEN: dict[str, Any] = {"lower": 0, "upper": 5}


def tool(function: Any, **arguments: Any) -> Any:
    return veridp.adapters.diffprivlib(function, epsilon=1.0, size=3, **arguments)


def of_records(measurement: Any) -> Any:
    """The sum of at most five records between 0 and 10 with this noise."""
    numbers = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=5)
    return dp.t.make_sum(numbers, dp.symmetric_distance()) >> measurement


def query() -> Any:
    context = dp.Context.compositor(
        data=[1, 2, 3],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(WHOLE),
    )
    return context.query().clamp((0, 10)).sum().laplace()


def responses() -> Any:
    words = dp.m.make_randomized_response(["a", "b", "c"], 0.6)
    return veridp.adapters.opendp(words, domain=["a", "b", "c"])


RIGHT: dict[str, Callable[[], Any]] = {
    "diffprivlib Laplace": lambda: mechanisms.Laplace(**ONE),
    "diffprivlib LaplaceTruncated": lambda: mechanisms.LaplaceTruncated(**ONE, **BETWEEN),
    "diffprivlib LaplaceFolded": lambda: mechanisms.LaplaceFolded(**ONE, **BETWEEN),
    "diffprivlib LaplaceBoundedDomain": lambda: mechanisms.LaplaceBoundedDomain(**ONE, **BETWEEN),
    "diffprivlib LaplaceBoundedNoise": lambda: mechanisms.LaplaceBoundedNoise(**APPROXIMATE),
    "diffprivlib Gaussian": lambda: mechanisms.Gaussian(**APPROXIMATE),
    "diffprivlib GaussianAnalytic": lambda: mechanisms.GaussianAnalytic(**APPROXIMATE),
    "diffprivlib GaussianDiscrete": lambda: mechanisms.GaussianDiscrete(**APPROXIMATE),
    "diffprivlib Geometric": lambda: mechanisms.Geometric(**ONE),
    "diffprivlib GeometricTruncated": lambda: mechanisms.GeometricTruncated(**ONE, **BETWEEN),
    "diffprivlib Exponential": lambda: mechanisms.Exponential(**ONE, utility=[0, 0, 0]),
    "diffprivlib ExponentialCategorical": lambda: mechanisms.ExponentialCategorical(epsilon=1, utility_list=CATEGORIES),
    "diffprivlib PermuteAndFlip": lambda: mechanisms.PermuteAndFlip(**ONE, utility=[0, 0, 0]),
    "diffprivlib Binary": lambda: mechanisms.Binary(epsilon=1, value0="no", value1="yes"),
    "diffprivlib Staircase": lambda: mechanisms.Staircase(**ONE),
    "diffprivlib Snapping": lambda: mechanisms.Snapping(**ONE, lower=-5, upper=5),
    "diffprivlib Vector": lambda: mechanisms.Vector(epsilon=1, function_sensitivity=1, dimension=2, alpha=100),
    "diffprivlib tools.mean": lambda: tool(tools.mean, bounds=(0, 10)),
    "diffprivlib tools.sum": lambda: tool(tools.sum, bounds=(0, 10)),
    "diffprivlib tools.count_nonzero": lambda: tool(tools.count_nonzero),
    "diffprivlib tools.median": lambda: tool(tools.median, bounds=(0, 10)),
    "OpenDP laplace": lambda: dp.m.make_laplace(NUMBER, dp.absolute_distance(T=float), 1.0),
    "OpenDP geometric": lambda: dp.m.make_geometric(WHOLE, dp.absolute_distance(T=int), 1.0),
    "OpenDP gaussian": lambda: dp.m.make_gaussian(NUMBER, dp.absolute_distance(T=float), 1.0),
    "OpenDP laplace of a vector": lambda: dp.m.make_laplace(dp.vector_domain(NUMBER), dp.l1_distance(T=float), 1.0),
    "OpenDP sum >> laplace": lambda: of_records(dp.m.then_laplace(10.0)),
    "OpenDP sum >> gaussian": lambda: of_records(dp.m.then_gaussian(10.0)),
    "OpenDP randomized_response": responses,
    "OpenDP noisy_max": lambda: dp.m.make_noisy_max(
        dp.vector_domain(NUMBER), dp.linf_distance(T=float), dp.max_divergence(), 2.0
    ),
    "OpenDP query of a context": query,
}


def share(verdict: Verdict) -> float:
    """How much of the claim the lower bound shows: of its ε at its δ, or of its ρ."""
    rho = verdict.claim.keywords.get("rho")
    if rho:
        attack: Any = verdict.results.get("sniper")
        return 0.0 if attack is None else float(attack.rho_lower / rho)
    return verdict.epsilon.lower / verdict.claim.epsilon


def row(name: str, verdict: Verdict) -> str:
    known = verdict.epsilon.statement("ε")
    return f"| {name} | {verdict.claim} | {verdict.standing.value} | {known} | {share(verdict):.2f} |"


@dataclass(frozen=True)
class Outcome:
    """An audit, as text: verdicts hold objects of the libraries, and stay in their process."""

    row: str
    refuted: bool
    share: float

    @classmethod
    def of(cls, name: str, seconds: float) -> Outcome:
        warnings.simplefilter("ignore")  # diffprivlib's, on what is not clipped
        verdict = veridp.audit(RIGHT[name](), seconds=seconds)
        return cls(row(name, verdict), verdict.standing is Standing.REFUTED, share(verdict))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each audit, the default of the audit")
    parser.add_argument("--only", action="append", help="this mechanism (may be given several times)")
    parser.add_argument("--processes", type=int, default=1, help="audits at a time")
    options = parser.parse_args(arguments)
    chosen = [name for name in RIGHT if not options.only or name in options.only]
    outcomes = []
    print("| mechanism | claim | standing | what is known | lower bound / claim |\n|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        for outcome in pool.map(Outcome.of, chosen, itertools.repeat(options.time)):
            outcomes.append(outcome)
            print(outcome.row, flush=True)
    refuted = sum(outcome.refuted for outcome in outcomes)
    enough = sum(outcome.share >= ENOUGH for outcome in outcomes)
    print(
        f"\n{refuted} of {len(outcomes)} are refuted; {enough} have a lower bound of at least {ENOUGH:g} of the claim"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
