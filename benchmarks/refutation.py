"""How soon samples refute a wrong claim, how seldom a right one, and what an audit would have found.

    python benchmarks/refutation.py [--only PART] [--seeds N] [--runs N]

Parts: `soundness` (the share of seeded runs in which a tight claim is refuted, at alpha = 0.2 and 0.05: by the test of
one event at every look, by one test of all samples, and by whole searches), `factor` (outputs until a mechanism with
half the noise it needs is refuted, the search included, beside what a test of the best event needs on average at this
alpha), `gross` (outputs and CPU seconds until a gross mistake is refuted), `catalogue` (the wrong mechanisms of the
catalogue, by samples alone), `release` (a threshold release of OpenDP whose δ is too small), `power` (violations as
large as `detectable` says, planted: the share that is refuted).
Seconds are CPU seconds of this process and its children, so a busy machine hardly changes them.
"""

from __future__ import annotations

import argparse
import importlib
import math
import resource
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from veridp import catalogue
from veridp.claim import Claim
from veridp.confidence import RatioMartingale, growth, linear_epsilon_lower
from veridp.engines.sniper import AttackResult, search
from veridp.mechanism import Mechanism, mechanism

CONSOLE = Console(width=140)
CPU_SECONDS = 20.0  # of a search for what is wrong in the catalogue
PATIENCE = 200.0  # seconds of the clock for as many of the processor, also on a busy machine
# p, q, ε and δ with p = e^ε q + δ, so that the claim is tight for the event
TIGHT = (
    ("frequent event", 0.5, 0.5 * math.exp(-0.5), 0.5, 0.0),
    ("rare event", 0.01, 0.01 / math.e, 1.0, 0.0),
    ("very frequent event", 0.9, 0.9 * math.exp(-0.1), 0.1, 0.0),
    ("ε and δ", 0.6, 0.2, 1.0, 0.6 - 0.2 * math.e),
    ("impossible on the right", 0.001, 0.0, 0.0, 0.001),
    ("very rare, large ε", 1e-3, 1e-3 * math.exp(-3), 3.0, 0.0),
    ("certain on the left", 1.0, 0.5, math.log(2), 0.0),
)


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(search_run: Callable[[], AttackResult]) -> tuple[AttackResult, float]:
    before = cpu_seconds()
    return search_run(), cpu_seconds() - before


def laplace(epsilon: float, scale: float) -> Mechanism:
    """Laplace noise of this scale on one number, with a claim of this ε."""
    return mechanism(epsilon=epsilon, adjacency="l1", size=1)(lambda rng, data: data[0] + rng.laplace(scale=scale))


def response(epsilon: float) -> Mechanism:
    truth = 1 / (1 + math.exp(-epsilon))
    named = mechanism(epsilon=epsilon, adjacency="any", domain=[False, True], size=1)
    return named(lambda rng, bit: bool(rng.random() < truth) == bit)


def refuting(target: Mechanism, seed: int, **options: Any) -> AttackResult:
    few = {"samples": 2_000, "final_samples": 20_000, "models": ("one entry", "table of counts"), "workers": 1}
    return search(target, **{**few, "until_refuted": True, "seconds": math.inf, "seed": seed, **options})


def soundness(seeds: int, runs: int) -> None:
    """A test that is sound stays below the margin in all but one of a thousand rows."""
    from scipy.stats import binom

    for alpha in (0.2, 0.05):
        margin = binom.ppf(0.999, runs, alpha) / runs
        for name, p, q, epsilon, delta in TIGHT:
            rng = np.random.default_rng(0)
            seen = rng.binomial(100, p, runs), rng.binomial(100, q, runs), 100
            test = RatioMartingale(np.full(runs, epsilon), delta, seen)  # one run for each entry
            total = 0
            while total < 20_000:
                size = max(16, total // 4)
                test.bet(rng.binomial(size, p, runs), rng.binomial(size, q, runs), size)
                total += size
            share = float(test.rejected(alpha).mean())
            CONSOLE.print(f"alpha {alpha:g}, {name}: {share:.4f} of {runs} runs, margin {margin:.4f}")
            counts = zip(rng.binomial(20_000, p, runs).tolist(), rng.binomial(20_000, q, runs).tolist(), strict=True)
            wrong = sum(linear_epsilon_lower(left, right, 20_000, alpha, delta) > epsilon for left, right in counts)
            CONSOLE.print(f"    by one test of 20,000 samples: {wrong / runs:.4f}")
        for target in (response(1.0), laplace(1.0, 1.0)):
            options = {"samples": 100, "final_samples": 1_000, "confidence": 1 - alpha}
            refuted = sum(refuting(target, seed, **options).refuted for seed in range(seeds))
            most = int(binom.ppf(0.999, seeds, alpha))
            CONSOLE.print(f"alpha {alpha:g}, searches of {target.domain}: {refuted} of {seeds}, margin {most}")


def information(claim: float, true: float) -> float:
    """What one output of either side tells against the claim, in nats, for Laplace noise that costs `true`.

    The least KL(P, P') + KL(Q, Q') over all P', Q' that keep the claim. The closest ones keep p + q, and move the ratio
    to e^claim where it exceeds that, so it is the integral of p + q times a divergence of two Bernoulli laws.
    """
    from scipy.integrate import quad

    def told(x: float) -> float:
        p, q = (true / 2 * math.exp(-true * abs(x - centre)) for centre in (0, 1))
        share, kept = p / (p + q), 1 / (1 + math.exp(-claim))
        if share <= kept:
            return 0.0
        return (p + q) * (share * math.log(share / kept) + (1 - share) * math.log((1 - share) / (1 - kept)))

    edge = (1 - claim / true) / 2  # where the ratio is e^claim
    return 2 * float(quad(told, -40 / true, 0)[0] + quad(told, 0, edge)[0])


def factor(seeds: int, runs: int) -> None:
    for epsilon in (1.0, 0.5, 0.25):
        found = [refuting(laplace(epsilon, 0.5 / epsilon), seed, final_samples=100_000) for seed in range(seeds)]
        drawn, refuted = [one.drawn for one in found], sum(one.refuted for one in found)
        ideal = 2 * math.log(1 / 0.05) / float(growth(0.5, 0.5 * math.exp(-2 * epsilon), epsilon))
        CONSOLE.print(
            f"claim {epsilon:g}, true {2 * epsilon:g}: {refuted} of {seeds} refuted, outputs: median "
            f"{statistics.median(drawn):.0f}, most {max(drawn)}; the best event alone needs about {ideal:.0f}, "
            f"any test {2 * math.log(1 / 0.05) / information(epsilon, 2 * epsilon):.0f} on average"
        )


def gross(seeds: int, runs: int) -> None:
    missing = mechanism(epsilon=1.0, adjacency="l1", size=3)(lambda rng, data: [data[0] + rng.laplace(), *data[1:]])
    for name, target in (("noise missing", missing), ("scale inverted", laplace(0.1, 0.1))):
        before = cpu_seconds()
        found = [refuting(target, seed) for seed in range(seeds)]
        took = (cpu_seconds() - before) / seeds
        drawn = statistics.median(one.drawn for one in found)
        refuted = sum(one.refuted for one in found)
        CONSOLE.print(f"{name}: {refuted} of {seeds} refuted, median {drawn:.0f} outputs, {took:.2f} CPU s each")


def wrong() -> list[str]:
    """The mechanisms of the catalogue that cost more than they claim."""
    found = []
    for name in catalogue:
        one = catalogue[name]
        true = one.true_epsilon(one.size)
        if one.claim is not None and true is not None and not one.claim.delta and true > 1.0001 * one.claim.epsilon:
            found.append(name)
    return found


def wrong_ones(seeds: int, runs: int) -> None:
    """A search that the clock does not cut has CPU_SECONDS: what it found later does not count."""
    names, caught = wrong(), 0
    for name in names:
        options: dict[str, Any] = {"samples": 250_000, "final_samples": 2_500_000, "seconds": PATIENCE, "models": None}
        found = [timed(partial(refuting, catalogue[name], seed, **options)) for seed in range(seeds)]
        in_time = [result for result, took in found if result.refuted and took <= CPU_SECONDS]
        caught += len(in_time) == seeds
        drawn = statistics.median(result.drawn for result, _ in found)
        seconds = ", ".join(f"{took:.1f}{'' if result.refuted else ' (not refuted)'}" for result, took in found)
        CONSOLE.print(f"{name}: {len(in_time)} of {seeds} refuted, median {drawn:.0f} outputs, CPU s {seconds}")
    CONSOLE.print(f"{caught} of {len(names)} wrong mechanisms refuted with every seed in {CPU_SECONDS:g} CPU s")


def release(seeds: int, runs: int) -> None:
    """Words above a threshold, github.com/opendp/opendp/issues/2922, at the threshold that it names."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "gallery"))
    gallery = importlib.import_module("opendp_core")
    claim = Claim(1.0, gallery.tail(1.0, 5))

    def above_five(rng: Any, words: Any) -> Any:
        return gallery.frequent(rng, words, threshold=5)

    target = mechanism(adjacency="add-remove-unordered", domain=["a", "b", "c"])(above_five)
    options = {"claim": claim, "samples": 250_000, "final_samples": 2_500_000, "seconds": PATIENCE, "models": None}
    found = [timed(partial(refuting, target, seed, **options)) for seed in range(seeds)]
    refuted, drawn = sum(result.refuted for result, _ in found), [result.drawn for result, _ in found]
    CONSOLE.print(
        f"claim {claim}, true δ {gallery.tail(1.0, 4):.4f}: {refuted} of {seeds} refuted, outputs {min(drawn)} to "
        f"{max(drawn)}, CPU s {min(took for _, took in found):.1f} to {max(took for _, took in found):.1f}"
    )


def power(seeds: int, runs: int) -> None:
    """An audit of Laplace noise at its claim says what it would have found; that much is planted and audited again."""
    options = {"pairs": [([0.0], [1.0])], "samples": 2_000, "final_samples": 40_000, "until_refuted": False}
    for epsilon in (0.2, 1.0):
        claim = Claim(epsilon)
        said = refuting(laplace(epsilon, 1 / epsilon), 0, claim=claim, **options).detectable
        if said is None:
            continue
        planted = laplace(epsilon, 1 / said.epsilon)
        caught = sum(refuting(planted, seed, claim=claim, **options).refuted for seed in range(seeds))
        CONSOLE.print(f"claim {epsilon:g}: {said}; planted: {caught} of {seeds} refuted")


PARTS: dict[str, Callable[[int, int], None]] = {
    "soundness": soundness,
    "factor": factor,
    "gross": gross,
    "power": power,
    "catalogue": wrong_ones,
    "release": release,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="this part; may be repeated")
    parser.add_argument("--seeds", type=int, default=20, help="of searches")
    parser.add_argument("--runs", type=int, default=2000, help="of tests of one event")
    given = parser.parse_args()
    for part in given.only or PARTS:
        PARTS[part](given.seeds, given.runs)


if __name__ == "__main__":
    main()
