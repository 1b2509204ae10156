"""The bound is too high with probability alpha at most, whatever was searched, selected and stopped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from veridp.claim import Claim
from veridp.engines.sniper import search
from veridp.mechanism import Mechanism, mechanism

ALPHA = 0.1


@mechanism(
    epsilon=1.0,
    adjacency="l1",
    size=1,
    vectorised=lambda rng, data, count: np.asarray(data) + rng.laplace(size=(count, 1)),
)
def laplace(rng: Any, data: Any) -> Any:
    """Tight at ε = 1: wherever the answer lies beyond both values, the densities differ by e."""
    return np.asarray(data) + rng.laplace(size=1)


def responses(rng: Any, bit: bool, count: int) -> Any:
    return (rng.random(count) < 1 / (1 + math.exp(-1.0))) == bit


@mechanism(epsilon=1.0, adjacency="any", domain=[False, True], size=1, vectorised=responses)
def response(rng: Any, bit: bool) -> Any:
    """Tight at ε = 1, with two outputs."""
    return bool(responses(rng, bit, 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize(("target", "runs", "stops"), [(response, 80, True), (laplace, 25, True)])
def test_the_bound_exceeds_the_truth_rarely_enough(target: Mechanism, runs: int, stops: bool) -> None:
    """With search over pairs, models, directions and thresholds, early_bounds, looks, and stops at a refuted claim.

    A sound procedure fails this test with probability 0.001 at most, were the seeds not fixed.
    """
    too_high = estimates_too_high = 0
    for seed in range(runs):
        finding = search(
            target,
            samples=400,
            final_samples=2000,
            models=["one entry", "table of counts"],
            pairs=["patterns", "corners"],
            confidence=1 - ALPHA,
            claim=Claim(1.0) if stops else None,
            width=0.02 if stops else None,
            seconds=math.inf,
            workers=1,
            seed=seed,
        )
        too_high += finding.epsilon_lower > 1.0
        estimates_too_high += finding.estimate > 1.0
        assert all(point.delta >= 0 for point in finding.profile)
    assert too_high <= binom.ppf(0.999, runs, ALPHA)
    assert estimates_too_high > runs / 10  # the estimate is no bound, and a test that could not fail would show nothing


FLIP = 0.3


def flipped(rng: Any, data: Any, count: int) -> Any:
    return (np.asarray(data) != (rng.random((count, len(data))) < FLIP)).astype(int)


@mechanism(epsilon=math.log(1 / FLIP - 1), adjacency="any", domain=[0, 1], size=10, vectorised=flipped)
def bits(rng: Any, data: Any) -> Any:
    """A thousand outputs, of which many score all but the same."""
    return flipped(rng, data, 1)[0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("family", "runs"), [("logistic regression", 8), ("neural network", 6), ("boosted trees", 4)])
def test_models_of_many_columns_certify_no_more_than_is_true(family: str, runs: int) -> None:
    """A sound procedure fails this test with probability 0.001 at most, were the seeds not fixed."""
    too_high = near = 0
    for seed in range(runs):
        finding = search(
            bits,
            samples=2000,
            final_samples=20_000,
            models=[family],
            pairs=[([0] * 10, [0] * 9 + [1])],
            confidence=1 - ALPHA,
            seconds=math.inf,
            workers=1,
            seed=seed,
        )
        too_high += finding.epsilon_lower > math.log(1 / FLIP - 1)
        near += finding.epsilon_lower > 0.4
    assert too_high <= binom.ppf(0.999, runs, ALPHA)
    assert near > runs / 2  # what is never near the truth cannot exceed it


@pytest.mark.slow
def test_all_points_of_the_profile_hold_together() -> None:
    """For Laplace noise δ(ε) = 1 - e^((ε - 1)/2) between two inputs one apart; no point may be above it too often.

    A sound procedure fails this test with probability 0.001 at most, were the seeds not fixed.
    """
    wrong = 0
    for seed in range(15):
        finding = search(
            laplace,
            samples=2000,
            final_samples=4000,
            models=["one entry"],
            pairs=[([1.0], [2.0])],
            confidence=1 - ALPHA,
            seconds=math.inf,
            workers=1,
            seed=seed,
        )
        assert finding.profile
        wrong += any(point.delta > 1 - math.exp((point.epsilon - 1) / 2) for point in finding.profile)
    assert wrong <= binom.ppf(0.999, 15, ALPHA)
