"""Noisy maxima and the exponential mechanism, against their distributions by quadrature or in closed form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp, softmax

from veridp.catalogue import catalogue

QUERIES = [0.5, 2.0, 1.0]


def winning_probabilities(queries: Sequence[float], noise, reach: float) -> list[float]:
    """P[i has the largest noisy value]: the integral of its density times the others' distribution functions."""

    def integrand(x: float, winner: int) -> float:
        others = [noise.cdf(x - q) for j, q in enumerate(queries) if j != winner]
        return noise.pdf(x - queries[winner]) * math.prod(others)

    edges = sorted({*queries, min(queries) - reach, max(queries) + reach})
    return [
        sum(
            integrate.quad(integrand, a, b, args=(winner,), epsabs=1e-13, limit=200)[0]
            for a, b in itertools.pairwise(edges)
        )
        for winner in range(len(queries))
    ]


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("noisy_max1", stats.laplace(scale=2.5)),
        ("noisy_max2", stats.expon(scale=2.5)),
        ("noisy_max_gumbel", stats.gumbel_r(scale=2.5)),
    ],
)
def test_the_winner_has_these_probabilities(name: str, noise, draw, assert_probabilities) -> None:
    expected = dict(enumerate(winning_probabilities(QUERIES, noise, 100.0)))
    assert_probabilities(map(int, draw(catalogue[name], QUERIES, 20_000, seed=1, epsilon=0.8)), expected)


@pytest.mark.parametrize("name", ["noisy_max_gumbel", "exponential_mechanism"])
def test_gumbel_and_exponential_mechanism_are_one_distribution(name: str, draw, assert_probabilities) -> None:
    expected = dict(enumerate(softmax(0.4 * np.array(QUERIES))))
    assert_probabilities(map(int, draw(catalogue[name], QUERIES, 20_000, seed=2, epsilon=0.8)), expected)


@pytest.mark.parametrize(
    ("name", "noise"), [("noisy_max3", stats.laplace(scale=2.5)), ("noisy_max4", stats.expon(scale=2.5))]
)
def test_the_largest_value_has_the_product_of_the_distribution_functions(name, noise, draw, assert_cdf) -> None:
    values = draw(catalogue[name], QUERIES, 10_000, seed=3, epsilon=0.8)
    assert_cdf(values, lambda x: math.prod(noise.cdf(x - q) for q in QUERIES))


def log_density_of_largest(x: np.ndarray, queries: Sequence[float], scale: float) -> np.ndarray:
    """Of the largest of the queries with Laplace noise."""
    noise = stats.laplace(scale=scale)
    terms = [
        noise.logpdf(x - q) + sum(noise.logcdf(x - other) for j, other in enumerate(queries) if j != i)
        for i, q in enumerate(queries)
    ]
    return logsumexp(terms, axis=0)


def log_density_of_sum(y: float, queries: Sequence[float], scale: float) -> float:
    """Of the sum of the largest of either half, by the trapezoid rule."""
    half = len(queries) // 2
    grid = np.arange(min(0.0, y) - 40 * scale, max(0.0, y) + 40 * scale, scale / 50)
    first, second = queries[:half], queries[half:]
    mass = log_density_of_largest(grid, first, scale) + log_density_of_largest(y - grid, second, scale)
    return float(logsumexp(mass)) + math.log(scale / 50)


def test_noisy_max_sum_adds_the_largest_of_two_halves(draw, assert_cdf) -> None:
    queries = [0.5, 2.0, 1.0, -1.0, 3.0]
    places = np.linspace(-20, 45, 261)
    density = np.exp([log_density_of_sum(y, queries, 1.25) for y in places])
    mass = integrate.cumulative_simpson(density, x=places, initial=0)
    assert mass[-1] == pytest.approx(1, abs=1e-3)
    values = draw(catalogue["noisy_max_sum"], queries, 10_000, seed=4, epsilon=0.8)
    assert_cdf(values, lambda x: np.interp(x, places, mass))


# ---------------------------------------------------------------------------------------------------------- true costs


def log_ratio_of_lowest(noise, distance: float, size: int = 2) -> float:
    """ln P[first wins | it is `distance` below the others] / P[the same | it is 2 further below]."""
    near, far = (winning_probabilities([0.0] + [d] * (size - 1), noise, 60.0)[0] for d in (distance, distance + 2.0))
    return math.log(near / far)


def test_noisy_max1_approaches_epsilon() -> None:
    ratios = [log_ratio_of_lowest(stats.laplace(scale=2.0), distance) for distance in (0.0, 10.0, 30.0)]
    assert ratios == sorted(ratios)
    assert 0.9 < ratios[-1] < catalogue["noisy_max1"].true_epsilon(2, epsilon=1.0) == 1.0


@pytest.mark.parametrize("size", [2, 3])
def test_noisy_max2_attains_epsilon(size: int) -> None:
    cost = catalogue["noisy_max2"].true_epsilon(size, epsilon=1.0)
    assert log_ratio_of_lowest(stats.expon(scale=2.0), 1.0, size) == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize("name", ["noisy_max_gumbel", "exponential_mechanism"])
@pytest.mark.parametrize("size", [2, 5])
def test_the_exponential_mechanism_approaches_epsilon_by_its_formula(name: str, size: int) -> None:
    cost = catalogue[name].true_epsilon(size, epsilon=1.0)
    for width in (2.0, 10.0, 40.0):
        left = softmax(0.5 * np.array([0.0] + [width] * (size - 1)))
        right = softmax(0.5 * np.array([1.0] + [width - 1] * (size - 1)))
        worst = np.max(np.abs(np.log(left / right)))
        others = size - 1
        formula = math.log((1 + others * math.exp(width / 2)) / (1 + others * math.exp((width - 2) / 2)))
        assert worst == pytest.approx(formula)
        assert worst < cost
    assert worst == pytest.approx(cost, rel=1e-6)


def test_no_pair_of_scores_exceeds_the_cost() -> None:
    rng = np.random.default_rng(5)
    scores = rng.uniform(-10, 10, size=(2000, 4))
    moved = scores + rng.uniform(-1, 1, size=scores.shape)
    ratios = np.log(softmax(0.5 * scores, axis=1) / softmax(0.5 * moved, axis=1))
    assert np.max(np.abs(ratios)) < catalogue["exponential_mechanism"].true_epsilon(4, epsilon=1.0)


@pytest.mark.parametrize("name", ["noisy_max1", "noisy_max2", "noisy_max_gumbel", "exponential_mechanism"])
def test_there_is_nothing_to_hide_in_a_choice_of_one(name: str) -> None:
    assert catalogue[name].true_epsilon(1) == 0.0
    assert catalogue[name](np.random.default_rng(0), [3.0]) == 0


@pytest.mark.parametrize("size", [1, 2, 5])
def test_noisy_max3_attains_its_cost_below_all_queries(size: int) -> None:
    answers = np.array([-3.0, -0.5])
    ratios = log_density_of_largest(answers, [0.0] * size, 20.0) - log_density_of_largest(answers, [1.0] * size, 20.0)
    assert ratios == pytest.approx(catalogue["noisy_max3"].true_epsilon(size))


def test_noisy_max4_never_answers_below_the_largest_query(draw) -> None:
    assert min(draw(catalogue["noisy_max4"], [0.0, 1.0], 2000, seed=6)) > 1.0
    assert min(draw(catalogue["noisy_max4"], [0.0, 0.0], 2000, seed=6, epsilon=10.0)) < 1.0


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_noisy_max_sum_approaches_its_cost(size: int) -> None:
    cost = catalogue["noisy_max_sum"].true_epsilon(size, epsilon=0.5)
    ratios = [
        log_density_of_sum(y, [0.0] * size, 2.0) - log_density_of_sum(y, [1.0] * size, 2.0) for y in (-10.0, -300.0)
    ]
    assert max(ratios) < cost * (1 + 1e-4)  # the error of the trapezoid rule
    assert ratios[-1] == pytest.approx(cost, rel=0.02)
