"""Loops that make discrete Gaussian noise by rejection: proofs beside sums, dp-accounting and the exact engine."""

from __future__ import annotations

import math

import numpy as np
import pytest

import veridp
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.kernel.explore import explore
from veridp.kernel.handmade.rejection import with_discrete_gaussians
from veridp.mechanism import as_mechanism
from veridp_check import check

DELTA = 1e-5


def returns(rng, data, sigma2=2.5, t=2):
    p = 1 - math.exp(-1 / t)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if rng.random() < math.exp(-((abs(y) - sigma2 / t) ** 2) / (2 * sigma2)):
            return sum(data) + y


def discrete_gaussian(rng, sigma2, t):
    while True:
        a, b = rng.geometric(-math.expm1(-1.0 / t), size=2)
        bias = np.abs(a - b) - sigma2 / t
        if rng.uniform() >= np.exp(-bias * bias / (2.0 * sigma2)):
            continue
        return a - b


def calls_a_helper(rng, data, sigma2=2.5, t=2):
    return [value + discrete_gaussian(rng, sigma2, t) for value in data]


def truth(epsilon: float, variance: float, *moves: int) -> float:
    """δ(ε) by sums over all numbers that floats tell from 0."""
    k = np.arange(-400, 401)
    left, right = np.ones(1), np.ones(1)
    for move in moves:
        left = np.convolve(left, _masses(k, variance))
        right = np.convolve(right, _masses(k - move, variance))
    return float(np.maximum(left - math.exp(epsilon) * right, 0).sum())


def _masses(k: np.ndarray, variance: float) -> np.ndarray:
    weights = np.exp(-(k**2) / (2 * variance))
    return weights / weights.sum()


def test_a_sum_has_the_epsilon_of_a_sum_over_all_numbers_and_its_interval_closes():
    accountant = pytest.importorskip("dp_accounting").pld.privacy_loss_distribution
    proof = prove(returns, 1, delta=DELTA, adjacency="replace", domain=[0, 1])
    assert truth(proof.epsilon, 2.5, 1) == pytest.approx(DELTA, rel=1e-8)
    theirs = accountant.from_discrete_gaussian_mechanism(math.sqrt(2.5))
    assert theirs.get_epsilon_for_delta(DELTA) == pytest.approx(proof.epsilon, rel=1e-9)
    exact = compare(returns, [0], [1])
    assert exact.epsilon_at(DELTA) == pytest.approx(proof.epsilon, rel=1e-9)
    assert exact.delta(proof.epsilon * (1 - 1e-6)) > DELTA
    assert compare(returns, [0], [1], certified=True).delta(1.0) == pytest.approx(truth(1.0, 2.5, 1), rel=1e-12)
    assert "discretegaussian" in proof.recognised[0]


def test_several_numbers_move_together_and_have_the_rho_of_normal_noise():
    proof = prove(calls_a_helper, 2, delta=DELTA, adjacency="linf")
    assert truth(proof.epsilon, 2.5, 1, 1) == pytest.approx(DELTA, rel=1e-8)
    assert proof.rho == 2 / (2 * 2.5)
    assert math.isinf(proof.mu)  # a discrete Gaussian is no Gaussian
    assert check(proof.certificate).rejection is None
    for change in ({"epsilon": str(proof.epsilon * (1 - 1e-6))}, {"rho": "399999/1000000"}, {"mu": "1"}):
        assert check(proof.certificate | change).rejection is not None


def restarts_after_acceptance(rng, data, t=2):
    p = 1 - math.exp(-1 / t)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if rng.random() < math.exp(-((abs(y) - 1 / t) ** 2) / 2) and y < 3:
            return sum(data) + y


def accepts_too_often(rng, data, t=2):
    p = 1 - math.exp(-1 / t)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if rng.random() < math.exp(0.5 - (abs(y) - 1 / t) ** 2 / 2):
            return sum(data) + y


def other_proposal(rng, data, t=2):
    p = (1 - math.exp(-1 / t)) * (1 - 1e-6)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if rng.random() < math.exp(-((abs(y) - 1 / t) ** 2) / 2):
            return sum(data) + y


def other_centre(rng, data, t=2):
    p = 1 - math.exp(-1 / t)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if rng.random() < math.exp(-((abs(y) - 0.4) ** 2) / 2):
            return sum(data) + y


def one_sided(rng, data, t=2):
    p = 1 - math.exp(-1 / t)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if y >= 0 and rng.random() < math.exp(-((y - 1 / t) ** 2) / 2):
            return sum(data) + y


def releases_what_it_is_made_of(rng, data, t=2):
    p = 1 - math.exp(-1 / t)
    while True:
        a, b = rng.geometric(p), rng.geometric(p)
        if rng.random() < math.exp(-((abs(a - b) - 1 / t) ** 2) / 2):
            return sum(data) + a - b, a > 3


OTHERS = [
    restarts_after_acceptance,
    accepts_too_often,
    other_proposal,
    other_centre,
    one_sided,
    releases_what_it_is_made_of,
]


@pytest.mark.parametrize("mechanism", OTHERS)
def test_other_noise_is_not_taken_for_it(mechanism):
    assert with_discrete_gaussians(explore(as_mechanism(returns), [0], retries=True)) is not None
    assert with_discrete_gaussians(explore(as_mechanism(mechanism), [0], retries=True)) is None


def test_a_test_on_it_keeps_the_ranges_that_code_tells_apart():
    """A number is released where it is large, else 0: no dearer than the number itself, and no cheaper than a test."""

    @veridp.mechanism(epsilon=1.0, delta=DELTA, adjacency="l1", size=1)
    def large(rng, data):
        (noisy,) = calls_a_helper(rng, data)
        return noisy if noisy > 5 else 0

    proof = prove(large, 1, delta=DELTA)
    assert compare(large, [0], [1]).epsilon_at(DELTA) <= proof.epsilon
    assert truth(proof.epsilon, 2.5, 1) == pytest.approx(DELTA, rel=1e-8)
