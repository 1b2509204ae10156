"""Ten thousand mechanisms at once: how long their account takes, against dp-accounting alone.

Run `python benchmarks/accounting.py`. For each kind of mechanism, k of them are composed and ε is asked for at δ =
1e-5, by veridp on a lattice of its own choice and on dp-accounting's, and by dp-accounting with its own defaults. Times
are the best of several runs within one process, so that `speed-up` is a ratio of like with like; `apart` is how far the
two answers differ, relatively, on the same lattice. For normal noise and randomised response the last column says how
far above the true ε (a closed form, a binomial sum) each is. `--quick` composes a hundred.

The second table is what `veridp.accounting.account` takes for all its methods together, at its own defaults, against
dp-accounting's privacy loss distribution alone, at its own: `share` is the ratio of the two within this run.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq
from scipy.stats import binom

from veridp.accounting import Leaf, Repeated, Subsampled, account
from veridp.accounting.domination import AddedToSample, RemovedFromSample
from veridp.accounting.lattice import Composition, Part
from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair
from veridp.accounting.tree import ReleaseNode
from veridp.conversions import gaussian_delta

DELTA = 1e-5
STEP = 1e-4  # dp-accounting's default
RATIO = 0.01
ROUNDS = 5


@dataclass(frozen=True)
class Kind:
    """A mechanism in both libraries, and its true ε where there is a formula."""

    name: str
    pairs: tuple[DominatingPair, ...]  # both directions, where these differ
    theirs: Callable[[], pld.PrivacyLossDistribution]
    truth: Callable[[int], float] | None = None


def true_gaussian(k: int) -> float:
    ratio = RATIO * math.sqrt(k)
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, ratio) - DELTA, 0.0, 100.0, xtol=1e-13))


def true_response(k: int) -> float:
    lies = np.arange(k + 1)
    losses, masses = (k - 2 * lies) * RATIO, binom.pmf(lies, k, 1 / (1 + math.exp(RATIO)))

    def delta(epsilon: float) -> float:
        return float(np.sum(masses * -np.expm1(np.minimum(epsilon - losses, 0.0))))

    return float(brentq(lambda epsilon: delta(epsilon) - DELTA, 0.0, k * RATIO, xtol=1e-13))


SAMPLED = GaussianPair(1.0)
KINDS = (
    Kind("laplace", (LaplacePair(RATIO),), lambda: pld.from_laplace_mechanism(1 / RATIO)),
    Kind("gaussian", (GaussianPair(RATIO),), lambda: pld.from_gaussian_mechanism(1 / RATIO), true_gaussian),
    Kind(
        "randomised response",
        (Finite.claimed(RATIO),),
        lambda: pld.from_privacy_parameters(common.DifferentialPrivacyParameters(RATIO, 0)),
        true_response,
    ),
    Kind(
        "sampled gaussian",
        (RemovedFromSample(SAMPLED, 0.01), AddedToSample(SAMPLED, 0.01)),
        lambda: pld.from_gaussian_mechanism(1.0, sampling_prob=0.01),
    ),
)


def best_time(run: Callable[[], float]) -> tuple[float, float]:
    """What it returns, and the least of its times."""
    times = []
    answer = 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
    return answer, min(times)


def ours(kind: Kind, k: int, step: float | None) -> float:
    return max(Composition([Part(pair, k)], step).epsilon(DELTA) for pair in kind.pairs)


def above(found: float, truth: float | None) -> str:
    return "" if truth is None else f"{found / truth - 1:+.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="compose a hundred rather than ten thousand")
    k = 100 if parser.parse_args().quick else 10_000
    print(f"{k} mechanisms, ε at δ = {DELTA:g}")
    print(
        f"{'mechanism':<20} {'veridp':>9} {'same':>9} {'dp-acc.':>9} {'speed-up':>8} {'apart':>8} "
        f"{'above the truth':>18}"
    )
    for kind in KINDS:
        own, own_time = best_time(lambda kind=kind: ours(kind, k, None))  # type: ignore[misc]
        same, same_time = best_time(lambda kind=kind: ours(kind, k, STEP))  # type: ignore[misc]
        other, other_time = best_time(
            lambda kind=kind: float(kind.theirs().self_compose(k).get_epsilon_for_delta(DELTA))  # type: ignore[misc]
        )
        truth = None if kind.truth is None else kind.truth(k)
        print(
            f"{kind.name:<20} {own_time:>8.3f}s {same_time:>8.3f}s {other_time:>8.3f}s {other_time / same_time:>7.1f}x "
            f"{abs(same / other - 1):>8.0e} {above(own, truth):>8} {above(other, truth):>9}"
        )
    compare_accounts()


ACCOUNTS: tuple[tuple[str, ReleaseNode, int, Callable[[], pld.PrivacyLossDistribution]], ...] = (
    ("laplace, scale 100", Leaf.laplace(scale=100.0), 100, lambda: pld.from_laplace_mechanism(100.0)),
    ("laplace, scale 1", Leaf.laplace(scale=1.0), 100, lambda: pld.from_laplace_mechanism(1.0)),
    ("laplace, scale 10", Leaf.laplace(scale=10.0), 1000, lambda: pld.from_laplace_mechanism(10.0)),
    ("gaussian, scale 30", Leaf.gaussian(scale=30.0), 1000, lambda: pld.from_gaussian_mechanism(30.0)),
    (
        "sampled gaussian",
        Subsampled(0.01, Leaf.gaussian(scale=1.0)),
        1000,
        lambda: pld.from_gaussian_mechanism(1.0, sampling_prob=0.01),
    ),
)


def compare_accounts() -> None:
    """Print what whole accounts take; the two take turns, so that a busy machine slows down both."""
    print(f"\n{'account':<20} {'k':>6} {'veridp':>9} {'dp-acc.':>9} {'share':>6} {'apart':>8}")
    for name, release, k, theirs in ACCOUNTS:
        own_time = other_time = math.inf
        mine = other = 0.0
        for _ in range(ROUNDS):
            start = time.perf_counter()
            mine = account(Repeated(k, release), DELTA, second_opinion=False)["privacy loss distribution"].epsilon
            between = time.perf_counter()
            other = float(theirs().self_compose(k).get_epsilon_for_delta(DELTA))
            own_time = min(own_time, between - start)
            other_time = min(other_time, time.perf_counter() - between)
        print(
            f"{name:<20} {k:>6} {own_time:>8.3f}s {other_time:>8.3f}s {own_time / other_time:>6.2f} "
            f"{abs(mine / other - 1):>8.0e}"
        )


if __name__ == "__main__":
    main()
