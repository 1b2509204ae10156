"""Added noise, against its distribution function and against ε computed from the distributions alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from veridp.catalogue import catalogue
from veridp.catalogue.additive import gaussian_delta, gaussian_epsilon


@pytest.mark.parametrize(
    ("name", "arguments", "noise"),
    [
        ("laplace", {"epsilon": 0.7}, stats.laplace(scale=1 / 0.7)),
        ("noisy_hist1", {"epsilon": 0.7}, stats.laplace(scale=1 / 0.7)),
        ("noisy_hist2", {"epsilon": 0.7}, stats.laplace(scale=0.7)),
        ("gaussian", {"epsilon": 0.7, "delta": 0.01}, stats.norm(scale=math.sqrt(2 * math.log(125)) / 0.7)),
    ],
)
def test_each_query_has_noise_of_its_own(name, arguments, noise, draw, assert_uniform) -> None:
    queries = [1.0, -2.0, 0.5]
    outputs = np.array(draw(catalogue[name], queries, 10_000, seed=1, **arguments))
    assert_uniform(noise.cdf(outputs - queries))


def test_laplace_parallel_shares_the_budget_among_its_copies(draw, assert_uniform) -> None:
    outputs = np.array(draw(catalogue["laplace_parallel"], [3.0], 5_000, seed=2, epsilon=0.7, copies=4))
    assert outputs.shape == (5_000, 4)
    assert_uniform(stats.laplace(loc=3.0, scale=4 / 0.7).cdf(outputs))
    assert len(catalogue["laplace_parallel"](np.random.default_rng(0), [3.0])) == 20
    assert len(catalogue["laplace_parallel"](np.random.default_rng(0), [3.0, 4.0])) == 40


@pytest.mark.parametrize(
    ("name", "scale", "copies"), [("laplace", 10.0, 1), ("noisy_hist2", 0.1, 1), ("laplace_parallel", 200.0, 20)]
)
def test_laplace_costs_are_the_largest_density_ratios(name: str, scale: float, copies: int) -> None:
    answers = np.linspace(-3, 4, 701)
    ratios = stats.laplace.logpdf(answers, loc=0, scale=scale) - stats.laplace.logpdf(answers, loc=1, scale=scale)
    assert catalogue[name].true_epsilon(1) == pytest.approx(copies * np.max(np.abs(ratios)), rel=1e-9)


# ----------------------------------------------------------------------------------------------------------- Gaussian


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (0.5, 1e-3), (0.9, 0.05), (3.0, 1e-2)])
def test_the_cost_of_the_gaussian_is_where_the_excess_is_delta(epsilon: float, delta: float) -> None:
    """δ(ε) is the integral of max(0, p - e^ε q), here by quadrature over where p exceeds e^ε q."""
    scale = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    true_epsilon = catalogue["gaussian"].true_epsilon(1, epsilon=epsilon, delta=delta)
    above, below = stats.norm(loc=1, scale=scale), stats.norm(loc=0, scale=scale)
    start = scale**2 * true_epsilon + 0.5
    excess, _ = integrate.quad(
        lambda x: above.pdf(x) - math.exp(true_epsilon) * below.pdf(x), start, start + 12 * scale, epsabs=1e-14
    )
    assert excess == pytest.approx(delta, rel=1e-6)


def test_the_classical_calibration_holds_below_one_and_fails_far_above() -> None:
    gaussian = catalogue["gaussian"]
    for epsilon, delta in itertools.product((0.01, 0.1, 0.5, 0.99), (1e-10, 1e-5, 1e-2)):
        assert gaussian.keeps_claim(epsilon=epsilon, delta=delta)
    assert not gaussian.keeps_claim(epsilon=100.0, delta=1e-5)


def test_gaussian_delta_at_its_ends() -> None:
    assert gaussian_delta(0.0, 1.0) == pytest.approx(2 * stats.norm.cdf(0.5) - 1)  # the total variation distance
    assert gaussian_epsilon(0.5, 1.0) == 0.0
    assert gaussian_epsilon(0.0, 1.0) == math.inf
    assert gaussian_epsilon(1e-12, 0.05) == pytest.approx(334.9, rel=0.05)  # 1/(2σ²) and seven standard deviations


# ---------------------------------------------------------------------------------------------------------- geometric


def test_the_difference_of_two_geometric_draws_is_two_sided(draw, assert_probabilities) -> None:
    shrink = math.exp(-0.7)
    noise = {k: (1 - shrink) / (1 + shrink) * shrink ** abs(k) for k in range(-60, 61)}
    outputs = draw(catalogue["geometric"], [3, 8], 10_000, seed=3, epsilon=0.7)
    assert_probabilities([answers[0] - 3 for answers in outputs], noise)
    assert_probabilities([answers[1] - 8 for answers in outputs], noise)
    signs = {
        (a, b): pa * pb
        for (a, pa), (b, pb) in itertools.product(
            {s: sum(p for k, p in noise.items() if np.sign(k) == s) for s in (-1, 0, 1)}.items(), repeat=2
        )
    }
    assert_probabilities([(np.sign(answers[0] - 3), np.sign(answers[1] - 8)) for answers in outputs], signs)


def test_the_cost_of_the_geometric_is_the_largest_ratio() -> None:
    mass = lambda k: math.exp(-0.7 * abs(k))  # noqa: E731
    ratios = [math.log(mass(k) / mass(k - 1)) for k in range(-10, 11)]
    assert catalogue["geometric"].true_epsilon(1, epsilon=0.7) == pytest.approx(max(map(abs, ratios)))


def geo_sample(count: int, drawn: int, k: int, people: int) -> int:
    """Balcer and Vadhan's algorithm as the paper has it: the least output that the drawn integer reaches."""
    b = 2**k
    total = (2 * b + 1) * (b + 1) ** (people - 1)
    reached = [
        b ** (count - z) * (b + 1) ** (people - (count - z))
        if z < count
        else total - b ** (z - count + 1) * (b + 1) ** (people - 1 - (z - count))
        for z in range(people)
    ]
    return next((z for z, bound in enumerate(reached) if bound >= drawn), people)


class Drawn:
    """A generator that gives one uniform number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self) -> float:
        return self.number


@pytest.mark.parametrize("people", [1, 2, 3])
def test_truncated_geometric_answers_as_the_paper_for_every_integer_drawn(people: int) -> None:
    total = (2 * 8 + 1) * 9 ** (people - 1)
    for count in range(people + 1):
        for drawn in range(1, total + 1):
            answer = catalogue["truncated_geometric"](Drawn((drawn - 0.5) / total), [count], people=people)
            assert answer == geo_sample(count, drawn, 3, people)


def clamped(count: int, k: int, people: int) -> list[Fraction]:
    """Two-sided geometric noise with ratio 2^k/(2^k + 1), added and clamped to 0..people, exactly."""
    shrink = Fraction(2**k, 2**k + 1)
    peak = (1 - shrink) / (1 + shrink)
    inside = [peak * shrink ** abs(z - count) for z in range(1, people)]
    return [shrink**count / (1 + shrink), *inside, shrink ** (people - count) / (1 + shrink)]


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 3), (0.5, 2), (1.0, 1), (0.01, 6)])
def test_the_cost_of_truncated_geometric_by_enumeration(epsilon: float, k: int) -> None:
    for people in (1, 2, 5):
        tables = [clamped(count, k, people) for count in range(people + 1)]
        assert all(sum(table) == 1 for table in tables)
        worst = max(max(p / q, q / p) for a, b in itertools.pairwise(tables) for p, q in zip(a, b, strict=True))
        assert worst == 1 + Fraction(1, 2**k)
        assert catalogue["truncated_geometric"].true_epsilon(1, epsilon=epsilon) == pytest.approx(math.log(worst))


def test_truncated_geometric_has_the_clamped_distribution(draw, assert_probabilities) -> None:
    for count in (0, 2, 5):
        expected = {z: float(p) for z, p in enumerate(clamped(count, 3, 5))}
        outputs = draw(catalogue["truncated_geometric"], [count], 20_000, seed=4)
        assert_probabilities(outputs, expected)
