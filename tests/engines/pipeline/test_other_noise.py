"""Programs whose faults and costs show with other noise than that of the first run; and right ones beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from veridp import exact, mechanism, pipeline
from veridp.engines.pipeline import PipelineResult
from veridp.engines.pipeline.mixtures import ends_of_tails
from veridp.kernel.noise import Exponential, Laplace, Normal

SEEDS = 4
LEFT, RIGHT = [1, 2, 3], [1, 2, 3, 4]


def compared(program: Callable[..., Any], left: Any = LEFT, right: Any = RIGHT, **options: Any) -> list[PipelineResult]:
    return [pipeline.compare(program, left, right, seconds=600.0, seed=seed, **options) for seed in range(SEEDS)]


# ----------------------------------------------------------------------------------------------------- seldom seen


def clipped_noise(rng, data):
    return len(data) + np.clip(rng.laplace(), -3, 3)


def raw_by_a_rare_coin(rng, data):
    if rng.random() < 0.01:
        return float(len(data))
    return len(data) + rng.laplace()


def raw_where_noise_is_low(rng, data):
    noisy = len(data) + rng.laplace(scale=10.0)
    return float(len(data)) if noisy < 0 else noisy


def raw_by_an_even_coin(rng, data):
    noisy = len(data) + rng.laplace()
    return noisy if rng.random() < 0.5 else float(len(data))


@pytest.mark.parametrize("program", [clipped_noise, raw_by_a_rare_coin, raw_where_noise_is_low, raw_by_an_even_coin])
def test_no_cost_is_given_where_rare_noise_leaves_nothing_between_the_data_and_the_output(
    program: Callable[..., Any],
) -> None:
    assert exact.compare(program, [0], [0, 0]).epsilon == math.inf
    for result in compared(program):
        assert result.candidates or (not result.priced and result.lost)


def rare_scale(rng, data):
    scale = 0.1 if rng.random() < 0.01 else 1.0
    return scale, len(data) + rng.laplace(scale=scale)


def rare_scale_by_choice(rng, data):
    scale = rng.choice([1.0, 0.1], p=[0.99, 0.01])
    return float(scale), len(data) + rng.laplace(scale=scale)


@pytest.mark.parametrize("program", [rare_scale, rare_scale_by_choice])
def test_a_rare_coin_that_chooses_less_noise_is_turned(program: Callable[..., Any]) -> None:
    for result in compared(program, epsilon=1.0):
        assert result.epsilon == pytest.approx(10.0)
        assert [str(candidate.fault) for candidate in result.candidates] == ["cost"]


def test_noise_between_two_values_of_the_data_is_tried() -> None:
    def adaptive(rng, data):
        middle = sum(data) / 10 + rng.laplace(scale=5.0)
        return middle, sum(x > middle for x in data) + rng.laplace(scale=2.0)

    for result in compared(adaptive, [4.0, 6.0], [4.0, 7.0], epsilon=0.6):  # only a middle between 6 and 7 costs 1/2
        assert result.epsilon == pytest.approx(0.1 / 5 + 1 / 2)
        assert result.candidates == ()


def test_a_retry_costs_more_than_one_draw() -> None:
    def positive(rng, data):
        while (noisy := len(data) + rng.laplace()) < 0:
            pass
        return noisy

    truth = 1 + math.log(2 - math.exp(-1))  # the second part: how much more often the left run retries
    for result in compared(positive, [], [1]):
        assert result.epsilon >= truth or not result.priced


def test_the_tails_begin_where_their_probability_says() -> None:
    assert ends_of_tails(Laplace(2), 1e-3) == pytest.approx([2 * math.log(500), -2 * math.log(500)])
    assert ends_of_tails(Normal(1), 0.025) == pytest.approx([1.959963985, -1.959963985])
    assert ends_of_tails(Exponential(1), 0.05) == pytest.approx([math.log(20), 0.0])


# ----------------------------------------------------------------------------------- noise that is summed


def total_of_four(rng, data):
    return len(data) + rng.normal(size=4).sum()


def one_after_the_other(rng, data):
    return len(data) + rng.normal() + rng.normal() + rng.normal() + rng.normal()


def two_sums(rng, data):
    first, second, third = rng.normal(scale=2.0, size=3)
    return first + second + len(data), first + third + len(data)


@pytest.mark.parametrize(
    ("program", "mu"), [(total_of_four, 1 / 2), (one_after_the_other, 1 / 2), (two_sums, 1 / math.sqrt(6))]
)
def test_a_sum_of_normal_noise_is_no_reason_for_a_candidate(program: Callable[..., Any], mu: float) -> None:
    """μ is the Mahalanobis length by which the numbers move: for the two sums, of 1ᵀ (4 [2 1; 1 2])⁻¹ 1 the root."""
    assert all(result.candidates == () for result in compared(program, mu=1.01 * mu))
    for result in compared(program, mu=0.99 * mu):
        assert [str(candidate.fault) for candidate in result.candidates] == ["cost"]
    if program is not one_after_the_other:  # which keeps what it has on the way
        assert compared(program)[0].rho == pytest.approx(mu**2 / 2)


def twice_laplace(rng, data):
    return len(data) + rng.laplace() + rng.laplace(scale=10.0)


def test_a_sum_of_laplace_noise_is_as_good_as_its_widest_part() -> None:
    assert all(result.candidates == () for result in compared(twice_laplace, epsilon=0.11))
    assert all(len(result.candidates) == 1 for result in compared(twice_laplace, epsilon=0.09))
    loss = exact.compare(twice_laplace, [1], [1, 1]).epsilon
    assert loss == pytest.approx(0.1, rel=0.01)


def test_noise_of_several_draws_is_less_than_any_of_them_where_a_delta_is_claimed() -> None:
    def thrice(rng, data):
        return len(data) + rng.laplace(scale=1.3, size=3).sum()

    def by_steps(rng, data):
        return len(data) + int(rng.geometric(0.5) - rng.geometric(0.5))

    delta = exact.compare(by_steps, [1], [1, 1]).delta(0.6)
    assert all(result.candidates == () for result in compared(thrice, epsilon=0.5, delta=0.1))
    assert all(result.candidates == () for result in compared(by_steps, epsilon=0.6, delta=float(delta)))


def test_noise_of_several_one_sided_draws_has_no_end() -> None:
    def difference(rng, data):
        return len(data) + sum(rng.gamma(0.2) - rng.gamma(0.2) for _ in range(5))  # Laplace noise

    assert all(result.candidates == () for result in compared(difference, epsilon=1.0))


# ----------------------------------------------------------------------------------------------- what is not told


def randomised_response(rng, data):
    return data[0] if rng.random() < 0.5 else int(rng.integers(100))


def by_two_choices(rng, data):
    return data[0] if rng.choice([True, False]) else int(rng.choice(100))


@pytest.mark.parametrize("program", [randomised_response, by_two_choices])
def test_what_another_way_may_give_as_well_is_not_unnoised(program: Callable[..., Any]) -> None:
    """Each other answer has probability 1/200: in 47 runs it is seldom seen, and costs ln 101."""
    assert exact.compare(program, [7], [8]).epsilon == pytest.approx(math.log(101))
    assert all(result.candidates == () for result in compared(program, [7], [8], epsilon=4.62))


def two_coins(rng, data):
    permanent = rng.random() < (0.9 if data[0] else 0.1)
    return int(rng.random() < (0.53 if permanent else 0.47))


def mixed_scales(rng, data):
    return len(data) + rng.laplace(scale=0.1 if rng.random() < 0.01 else 1.0)


def scale_by_hidden_noise(rng, data):
    return len(data) + rng.laplace(scale=0.1 if rng.laplace() > 2 else 1.0)


@pytest.mark.parametrize(
    ("program", "left", "right"),
    [(two_coins, [0], [1]), (mixed_scales, [1], [1, 1]), (scale_by_hidden_noise, [1], [1, 1])],
)
def test_a_way_that_the_output_does_not_tell_is_an_upper_bound(
    program: Callable[..., Any], left: Any, right: Any
) -> None:
    truth = exact.compare(program, left, right).epsilon
    for result in compared(mechanism(epsilon=1.001 * truth)(program), left, right):
        assert result.candidates == ()
        assert result.epsilon >= truth or not result.priced
        assert not result.tight
