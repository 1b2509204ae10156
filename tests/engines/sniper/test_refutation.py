"""Searches that end with the first refutation: few samples where the claim is clearly wrong."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from scipy.stats import binom

from veridp.claim import Claim
from veridp.engines.sniper import AttackResult, search
from veridp.errors import BadInput
from veridp.mechanism import mechanism

PLAIN = ("one entry", "table of counts")


def refuting(target: Any, **options: Any) -> AttackResult:
    few = {"samples": 2000, "final_samples": 20_000, "models": PLAIN, "workers": 1, "seconds": math.inf}
    return search(target, **{**few, "until_refuted": True, **options})


@mechanism(epsilon=0.5, adjacency="l1", size=1)
def half_the_noise(rng: Any, data: Any) -> Any:
    """Costs 1."""
    return data[0] + rng.laplace(scale=1.0)


@mechanism(epsilon=1.0, adjacency="l1", size=2)
def no_noise_on_one(rng: Any, data: Any) -> Any:
    return [data[0] + rng.laplace(scale=1.0), data[1]]


@mechanism(epsilon=1.0, adjacency="l1", size=1)
def inverted_scale(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace(scale=0.1)


def test_a_factor_of_two_is_refuted_after_some_hundred_samples() -> None:
    results = [refuting(half_the_noise, seed=seed) for seed in range(5)]
    assert all(one.refuted and one.finished for one in results)
    assert statistics.median(one.drawn for one in results) < 2000
    for one in results:
        assert one.witness is not None
        assert one.witness.exceeds is not None
        assert 0.5 < one.witness.exceeds.epsilon == one.epsilon_lower
        assert one.witness.refutes(Claim(0.5))


@pytest.mark.parametrize("target", [no_noise_on_one, inverted_scale])
def test_a_gross_mistake_needs_few_samples(target: Any) -> None:
    found = refuting(target)
    assert found.refuted
    assert found.drawn < 2000


@pytest.mark.parametrize(
    ("claim", "kept"),
    [
        (Claim(0.5, 0.1), Claim(0.5, 0.4)),
        (Claim.stated(mu=1.0), Claim.stated(mu=2.001)),
        (Claim.stated(rho=0.5), Claim.stated(rho=2.001)),
    ],
    ids=str,
)
def test_claims_of_other_kinds_are_tested_directly(claim: Claim, kept: Claim) -> None:
    """Normal noise of deviation 1/2 is 2-GDP and 2-zCDP, and its δ(0.5) is 0.6099."""

    @mechanism(adjacency="l1", size=1)
    def normal(rng: Any, data: Any) -> Any:
        return data[0] + rng.normal(scale=0.5)

    inputs = {"pairs": [([0.0], [1.0])], "samples": 500, "final_samples": 4000}
    found = refuting(normal, claim=claim, **inputs)
    assert found.refuted
    assert found.drawn < 5000
    assert found.witness is not None
    assert found.witness.exceeds is not None
    assert claim.exceeded_by(found.witness.exceeds)
    assert found.witness.refutes(claim)
    exact = 0.6099 if claim.delta == 0.1 else None
    if exact is not None:
        assert 0.1 <= found.delta_lower(0.5) <= exact
        kept = Claim(0.5, exact + 1e-3)
    assert not found.witness.refutes(kept)
    assert not refuting(normal, claim=kept, **inputs).refuted


@mechanism(epsilon=1.0, adjacency="any", domain=[False, True], size=1)
def response(rng: Any, bit: bool) -> Any:
    """Tight at ε = 1, with two outputs, of which either is the worst event of one direction."""
    return (rng.random() < 1 / (1 + math.exp(-1.0))) == bit


def test_a_tight_claim_is_seldom_refuted() -> None:
    """A sound search fails this with probability 0.001 at most, were the seeds not fixed; benchmarks do more runs."""
    options = {"pairs": [(True, False)], "samples": 100, "final_samples": 500, "confidence": 0.8}
    refuted = sum(refuting(response, seed=seed, **options).refuted for seed in range(25))
    assert refuted <= binom.ppf(0.999, 25, 0.2)
    assert refuting(response, claim=0.3, **options).refuted


def test_it_needs_a_claim_and_does_not_run_the_published_algorithm() -> None:
    def unclaimed(rng: Any, data: Any) -> Any:
        return data[0] + rng.normal()

    with pytest.raises(BadInput, match="needs a claim"):
        refuting(unclaimed, size=1)
    with pytest.raises(BadInput, match="paper"):
        refuting(half_the_noise, paper=True)
