"""The most likely frequencies: against a general optimiser on the likelihood that each oracle's definition gives."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from veridp.errors import BadInput
from veridp.local import GRR, OLH, OUE, SUE, Hadamard, PureOracle, SubsetSelection
from veridp.local.postprocess import maximum_likelihood, most_likely_counts

TRUTH = np.array([0.55, 0.3, 0.1, 0.05, 0.0, 0.0])


def by_choice(oracle: PureOracle, support: NDArray[np.bool_]) -> NDArray[np.float64]:
    """One of the other outputs uniformly, if it is not the one for the value."""
    others = {GRR: len(TRUTH) - 1, OLH: getattr(oracle, "buckets", 0) - 1}[type(oracle)]
    return np.where(support, oracle.p, (1 - oracle.p) / others)


def by_bits(oracle: PureOracle, support: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Independent bits: that of the value is 1 with p, others with q."""
    bits = np.where(support, oracle.q, 1 - oracle.q)
    own = np.where(support, oracle.p, 1 - oracle.p)
    found: NDArray[np.float64] = own * bits.prod(axis=1, keepdims=True) / bits
    return found


def by_sets(oracle: PureOracle, support: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Each set of the size with the value has the same probability, and so has each without it."""
    size, count = support.shape[1], int(support[0].sum())
    inside, outside = math.comb(size - 1, count - 1), math.comb(size - 1, count)
    return np.where(support, oracle.p / inside, (1 - oracle.p) / outside)


@pytest.mark.parametrize(
    ("oracle", "likelihood"),
    [
        (GRR(6, 0.8), by_choice),
        (OLH(6, 1.2), by_choice),
        (OUE(6, 0.8), by_bits),
        (SUE(6, 0.8), by_bits),
        (SubsetSelection(6, 0.7), by_sets),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_nothing_is_more_likely(oracle: PureOracle, likelihood: Callable[..., NDArray[np.float64]]) -> None:
    rng = np.random.default_rng(3)
    reports = oracle.perturb(rng.choice(len(TRUTH), size=3000, p=TRUTH), rng)
    found = maximum_likelihood(oracle, reports)
    table = likelihood(oracle, oracle.support(reports))

    def cost(frequencies: NDArray[np.float64]) -> float:
        return float(-np.log(table @ frequencies).mean())

    best = minimize(
        cost,
        np.full(6, 1 / 6),
        bounds=[(1e-12, 1)] * 6,
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert cost(found.values) <= best.fun + 2e-7
    np.testing.assert_allclose(found.values, best.x, atol=5e-3)
    assert found.values.min() >= 0
    assert found.values.sum() == pytest.approx(1)
    assert found.steps == ("maximum likelihood",)
    with pytest.raises(BadInput, match="no intervals"):
        found.interval()


def test_it_is_the_unbiased_estimate_of_grr_where_that_is_a_distribution() -> None:
    rng, oracle = np.random.default_rng(1), GRR(4, 2.0)
    reports = oracle.perturb(rng.choice(4, size=20_000, p=[0.4, 0.3, 0.2, 0.1]), rng)
    unbiased = oracle.estimate(oracle.aggregate(reports))
    assert unbiased.values.min() > 0
    np.testing.assert_allclose(maximum_likelihood(oracle, reports, gap=1e-11).values, unbiased.values, atol=1e-5)


@pytest.mark.parametrize(("size", "epsilon"), [(2, 1.0), (6, 0.5), (40, 2.0)])
def test_what_the_update_converges_to_for_grr_is_known_exactly(size: int, epsilon: float) -> None:
    """The exact maximum beside the update, whose gap bounds the log-likelihood that it may lack."""
    oracle, rng = GRR(size, epsilon), np.random.default_rng(size)
    reports = oracle.perturb(np.minimum(rng.geometric(0.4, size=3000) - 1, size - 1), rng)
    counts = oracle.aggregate(reports)
    exact, climbed = most_likely_counts(oracle, counts), maximum_likelihood(oracle, reports, gap=1e-7)

    def cost(frequencies: NDArray[np.float64]) -> float:
        shares = oracle.q + (oracle.p - oracle.q) * frequencies
        return -float(counts.sums @ np.log(shares)) / counts.users

    assert exact.values.min() >= 0
    assert exact.values.sum() == pytest.approx(1)
    assert cost(climbed.values) - 1e-7 <= cost(exact.values) <= cost(climbed.values) + 1e-12
    np.testing.assert_allclose(exact.values, climbed.values, atol=5e-3)
    assert exact.steps == ("maximum likelihood",)


def test_it_is_nearer_to_the_truth_where_many_values_are_rare() -> None:
    """The mean of the squared error over five seeds, at 50 values of which five are held."""
    oracle, truth = OUE(50, 0.5), np.r_[np.full(5, 0.2), np.zeros(45)]
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        reports = oracle.perturb(rng.integers(5, size=2000), rng)
        unbiased = oracle.estimate(oracle.aggregate(reports))
        likely = maximum_likelihood(oracle, reports, gap=1e-5)
        errors.append([((each.values - truth) ** 2).sum() for each in (unbiased, likely)])
    worse, better = np.mean(errors, axis=0)
    assert better < worse / 3


def test_it_says_what_it_cannot_do() -> None:
    rng = np.random.default_rng(0)
    oracle = OUE(6, 0.5)
    reports = oracle.perturb(np.zeros(100, dtype=int), rng)
    with pytest.raises(BadInput, match="larger gap or more rounds"):
        maximum_likelihood(oracle, reports, gap=1e-15, most_rounds=3)
    hadamard = Hadamard(6, 1.0)
    with pytest.raises(BadInput, match="not a pure oracle"):
        maximum_likelihood(hadamard, hadamard.perturb(np.zeros(3, dtype=int), rng))  # type: ignore[arg-type]
