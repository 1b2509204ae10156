"""Draws taken together, and mechanisms made of sums as people write them: staircases, noisy counts with their total."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from veridp.engines.exact import compare
from veridp.kernel.noise import LaplaceSum, Uniform


@pytest.mark.parametrize("count", [1, 2, 3, 7, 30])
def test_the_density_of_a_sum_of_laplace_draws(count: int) -> None:
    """Its characteristic function is that of one draw, to the power; its tail is the integral of its density."""
    noise = LaplaceSum(2, count)

    def density(x: float) -> float:
        return float(np.exp(noise.log_density(np.array([x]))[0]))

    for frequency in (0.0, 0.2):
        total, _ = integrate.quad(lambda x, f=frequency: 2 * math.cos(f * x) * density(x), 0, 500, limit=800)
        assert total == pytest.approx((1 + 4 * frequency**2) ** -count, abs=1e-9)
    for start in (0.0, 3.0, 20.0):
        tail, _ = integrate.quad(density, start, 700, limit=800)
        assert float(np.exp(noise.log_above(np.array([start]))[0])) == pytest.approx(tail, rel=1e-8)
        assert float(np.exp(noise.log_below(np.array([-start]))[0])) == pytest.approx(tail, rel=1e-8)


def test_normal_draws_are_one() -> None:
    comparison = compare(lambda rng, data: data[0] + 3 * rng.normal() - 4 * rng.normal(), [0], [1])
    for epsilon in (0.0, 0.1, 0.5):
        mu = 1 / 5
        truth = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert comparison.delta(epsilon) == pytest.approx(truth, rel=1e-9)


def test_poisson_draws_are_one() -> None:
    comparison = compare(lambda rng, data: sum(rng.poisson(1 + data[0] / 10) for _ in range(3)), [0], [1])
    counts = np.arange(60)
    p, q = stats.poisson.pmf(counts, 3), stats.poisson.pmf(counts, 3.3)
    truth = max(np.maximum(p - q, 0).sum(), np.maximum(q - p, 0).sum())
    assert comparison.delta(0.0) == pytest.approx(truth, rel=1e-9)


def test_a_condition_on_the_sum_does_not_stand_in_the_way() -> None:
    """Three draws, released above 2 only: below, an atom of the closed form's probability."""

    def mechanism(rng: Any, data: Any) -> Any:
        total = data[0] + rng.laplace() + rng.laplace() + rng.laplace()
        return total if total > 2 else None

    comparison = compare(mechanism, [0], [1])
    assert comparison.epsilon == pytest.approx(1.0, abs=1e-9)
    noise = LaplaceSum(1, 3)
    below = {row.left: row.right for row in comparison.table}
    truth = [float(np.exp(noise.log_below(np.array([end]))[0])) for end in (2.0, 1.0)]
    assert any(left == pytest.approx(truth[0]) and right == pytest.approx(truth[1]) for left, right in below.items())


def staircase(gamma: float, by_choice: bool) -> Any:
    """The staircase mechanism for ε = 1 (Geng and Viswanath), from a sign, a geometric and two uniform draws."""
    ratio = math.exp(-1.0)

    def mechanism(rng: Any, data: Any) -> Any:
        sign = rng.choice([-1, 1]) if by_choice else (1 if rng.random() < 0.5 else -1)
        step, within = rng.geometric(1 - ratio) - 1, rng.random()
        first = rng.random() < gamma / (gamma + (1 - gamma) * ratio)
        return data[0] + sign * (step + gamma * within if first else step + gamma + (1 - gamma) * within)

    return mechanism


@pytest.mark.parametrize(("gamma", "by_choice", "at"), [(0.3, True, 0), (0.3, False, 1e6), (0.5, True, 5)])
def test_the_staircase_has_its_epsilon(gamma: float, by_choice: bool, at: float) -> None:
    assert compare(staircase(gamma, by_choice), [at], [at + 1]).epsilon == pytest.approx(1.0, abs=1e-9)


def with_total(rng: Any, data: Any) -> Any:
    noisy = [x + rng.laplace(scale=4) for x in data]
    return {"counts": noisy, "total": sum(noisy)}


def with_positive_total(rng: Any, data: Any) -> Any:
    noisy = np.array(data) + rng.laplace(scale=4, size=len(data))
    total = noisy.sum()
    return [*noisy, total if total > 0 else 0]


@pytest.mark.parametrize("mechanism", [with_total, with_positive_total])
def test_a_noisy_total_beside_its_counts_costs_nothing(mechanism: Any) -> None:
    for left, right in (([3, 5], [3, 6]), ([3, 6], [3, 5]), ([0.1, -2], [1.1, -2])):
        assert compare(mechanism, left, right).epsilon == pytest.approx(0.25, abs=1e-9)


def sampled_sum(rng: Any, data: Any) -> Any:
    return sum([x for x in data if rng.random() < 0.2]) + rng.normal(scale=2)


def test_coins_that_the_released_noise_never_meets_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampled sum of five records, by the binomial mixture that it is; no further δ looks at a coin again."""
    priced: list[int] = []
    log_below = Uniform.log_below

    def counted(noise: Uniform, x: Any) -> Any:
        priced.append(np.size(x))
        return log_below(noise, x)

    monkeypatch.setattr(Uniform, "log_below", counted)
    comparison = compare(sampled_sum, [1.0] * 5, [1.0] * 4)
    comparison.delta(0.2)
    by_then = sum(priced)
    assert 0 < by_then <= 8  # not once for each of 48 paths and each of their coins
    points = np.linspace(-30, 40, 200_001)
    p, q = (stats.norm.pdf(points[:, None] - np.arange(n + 1), scale=2) @ _binomial(n) for n in (5, 4))
    for epsilon in (0.0, 0.05, 0.1):
        excess = (np.maximum(a - math.exp(epsilon) * b, 0) for a, b in ((p, q), (q, p)))
        assert comparison.delta(epsilon) == pytest.approx(max(integrate.simpson(e, x=points) for e in excess), rel=1e-6)
    assert sum(priced) == by_then


def _binomial(count: int) -> Any:
    return stats.binom.pmf(np.arange(count + 1), count, 0.2)
