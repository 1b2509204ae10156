"""Costs against closed forms, where a cost that is too small is easy to state; and right programs beside them."""
# ruff: noqa: NPY002 - programs as they are written

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from veridp import mechanism, pipeline
from veridp.engines.pipeline import PipelineResult
from veridp.engines.pipeline.releases import cells

SEEDS = 2


def compared(program: Callable[..., Any], left: Any, right: Any, seed: int, **options: Any) -> PipelineResult:
    return pipeline.compare(program, left, right, seconds=600.0, seed=seed, **options)


def both_ways(program: Callable[..., Any], left: Any, right: Any) -> list[PipelineResult]:
    pairs = [(left, right), (right, left)]
    return [compared(program, *pair, seed) for pair in pairs for seed in range(SEEDS)]


def faults(result: PipelineResult) -> set[str]:
    return {candidate.fault.value for candidate in result.candidates}


# ------------------------------------------------------------------------------------ one draw and several thresholds


def by_cumulative_weights(rng, scores):
    """The exponential mechanism, as many write it."""
    weights = np.exp(np.asarray(scores) / 2)
    weights /= weights.sum()
    u, total = rng.random(), 0.0
    for place, weight in enumerate(weights):
        total += weight
        if u < total:
            return place
    return len(scores) - 1


def thin_middle(rng, bit):
    low, high = (0.499, 0.501) if bit else (0.5, 0.5001)
    u = rng.random()
    return "A" if u < low else "B" if u < high else "C"


def counted_below(rng, scores):
    weights = np.exp(np.asarray(scores) / 2)
    return int((rng.random() > np.cumsum(weights / weights.sum())).sum())


def test_a_draw_between_two_thresholds_is_one_choice() -> None:
    for result in both_ways(thin_middle, 0, 1):
        if result.epsilon > 0.1:  # whoever sees "A" compared once
            assert result.epsilon == pytest.approx(math.log(20), rel=1e-6)
    assert any(result.epsilon > 0.1 for result in both_ways(thin_middle, 0, 1))
    assert cells([0.75, 0.5]) == {(True, True): 0.5, (True, False): 0.25, (False, False): 0.25}


def placed(rng, scores):
    weights = np.exp(np.asarray(scores) / 2)
    return int(np.searchsorted(np.cumsum(weights / weights.sum()), rng.random()))


@pytest.mark.parametrize("program", [by_cumulative_weights, counted_below, placed])
def test_choices_by_cumulative_weights_cost_what_the_probabilities_say(program: Callable[..., Any]) -> None:
    shares = [np.exp(np.array(scores) / 2) for scores in ([0.0, 1.0, 2.0], [1.0, 0.0, 2.0])]
    first, second = (share / share.sum() for share in shares)
    exact = float(np.abs(np.log(first / second)).max())
    results = both_ways(program, [0.0, 1.0, 2.0], [1.0, 0.0, 2.0])
    assert all(result.aligned and not result.candidates for result in results)
    assert max(result.epsilon for result in results) == pytest.approx(exact, rel=1e-6)


def test_a_choice_that_only_rounding_opens_is_left_out() -> None:
    def chosen(rng, shares):
        return int(np.searchsorted(shares, rng.random()))

    rounded, exact = [0.5, 1 - 2.0**-53], [0.25, 1.0]
    for result in both_ways(chosen, rounded, exact):
        assert result.epsilon_at(0.0) == pytest.approx(math.log(2), rel=1e-9)
    assert both_ways(chosen, [0.5, 1 - 1e-12], exact)[0].epsilon_at(0.0) == math.inf


def test_a_choice_by_a_draw_that_is_released_as_well_has_no_known_cost() -> None:
    def told(rng, shares):
        u = rng.random()
        return bool(u < shares[0]), u

    def used_again(rng, shares):  # within its cell, the draw is even, whatever the share is
        u = rng.random()
        return u / shares[0] if u < shares[0] else (u - shares[0]) / (1 - shares[0])

    for result in both_ways(told, [0.5], [0.1]):
        assert not result.priced
        assert result.lost or result.candidates
    for result in both_ways(used_again, [0.5], [0.1]):
        assert not result.candidates
        assert not result.priced or result.epsilon == pytest.approx(math.log(5), rel=1e-6)


def test_a_branch_on_the_draw_itself_is_no_fault() -> None:
    def branching(data):
        u = random.random()
        noise = math.log(2 * u) if u < 0.5 else -math.log(2 - 2 * u)
        return len(data) + 2 * noise

    for result in both_ways(branching, [1], [1, 1]):
        assert faults(result) == set()
        assert result.epsilon == pytest.approx(0.5, rel=1e-3) or result.lost


# ----------------------------------------------------------------------------------------- costs that are not too small


def rounded_far(rng, data):
    noise = float(rng.laplace())
    return round((len(data) + noise) / 50) * 50


def seldom_above(rng, data):
    return len(data) + float(rng.laplace()) > 12


def on_one_line(data):
    return len(data) + (1 if random.random() < 0.5 else -1) * -math.log(random.random())


def cauchy(data):
    return len(data) + math.tan(math.pi * (random.random() - 0.5))


@pytest.mark.parametrize(
    ("program", "exact"),
    [
        (rounded_far, 1.0),  # both decide out of sight, far from where the noise of a few runs lies
        (seldom_above, 1.0),
        (on_one_line, 1.0),  # a coin and noise of one line: the noise is paid for
        (cauchy, 2 * math.log((1 + math.sqrt(5)) / 2)),  # its loss is largest in the middle
    ],
)
def test_a_cost_is_the_true_one_or_unknown(program: Callable[..., Any], exact: float) -> None:
    for result in both_ways(program, [1], [1, 1]):
        assert faults(result) == set()
        assert not result.priced or result.epsilon == pytest.approx(exact, rel=1e-3)
        assert result.priced or result.lost


def at_least_0(rng, data):
    return max(len(data) + rng.laplace(), 0.0)


def overwritten(rng, data):
    noisy = len(data) + rng.laplace(size=2)
    noisy[noisy < 0] = 0
    return noisy


def differing(rng, data):
    count, more = (max(scale * len(data) + rng.laplace(), 0.0) for scale in (1, 2))
    return count - more, count


@pytest.mark.parametrize(("program", "exact"), [(at_least_0, 1.0), (overwritten, 2.0), (differing, 3.0)])
def test_noisy_values_that_are_cut_off_cost_as_much_as_before(program: Callable[..., Any], exact: float) -> None:
    for left, right in (([], [1]), ([1], [])):
        for seed in range(6):  # with some, the value is cut off on one side alone
            result = compared(program, left, right, seed)
            assert faults(result) == set()
            assert result.epsilon == pytest.approx(exact, rel=1e-6)


def test_noise_of_one_line_that_is_wide_or_narrow_is_priced_as_the_narrow_one() -> None:
    def mixed(rng, data):
        return len(data) + (rng.laplace() if rng.random() < 0.5 else rng.laplace(scale=10.0))

    assert [result.epsilon for result in both_ways(mixed, [], [1])] == pytest.approx([1.0] * 4)


def test_an_output_that_is_the_same_by_chance_is_compared_with_other_noise() -> None:
    def cut_off(rng, data):
        u = rng.random() - 0.5
        return max(len(data) - math.copysign(1, u) * math.log(1 - 2 * abs(u)), 0)

    results = [compared(cut_off, [], [1], seed) for seed in (0, 3)]  # with the second, the output is 0 on both sides
    assert any(result.priced for result in results)
    assert all(result.epsilon == pytest.approx(1.0, rel=1e-3) for result in results if result.priced)


def test_a_rejected_draw_is_paid_for_but_is_no_part_of_the_output() -> None:
    def retried(rng, data):
        while True:
            value = min(sum(data), 10) + rng.laplace(scale=20.0)
            if 0 <= value <= 20:
                return value

    costs = set()
    for seed in range(6):
        result = compared(mechanism(epsilon=0.3)(retried), [4], [9], seed)  # the truth: 0.25 and what the ends add
        draws = result.releases[0].draws
        costs.add(draws)
        assert faults(result) == set()
        assert result.epsilon == pytest.approx(draws * 0.25)
        assert result.output_epsilon == pytest.approx(0.25)
        assert result.tight == (draws == 1)
    assert len(costs) > 1


def test_records_compared_with_released_centres_are_followed_where_one_comes() -> None:
    def clusters(rng, data):
        points, centres = np.clip(np.array(data, dtype=float), 0, 10), rng.uniform(0, 10, size=2)
        for _ in range(2):
            nearest = np.abs(points[:, None] - centres).argmin(axis=1)
            counts = np.bincount(nearest, minlength=2) + rng.laplace(scale=4.0, size=2)
            sums = np.bincount(nearest, points, minlength=2) + rng.laplace(scale=40.0, size=2)
            centres = np.clip(sums / np.maximum(counts, 1), 0, 10)
        return centres

    def above(rng, data):
        middle = 4 + rng.laplace(scale=1.0)
        return middle, sum(x > middle for x in data) + rng.laplace(scale=2.0)

    result = compared(clusters, [1, 2, 3], [1, 2, 3, 9], 0)
    assert result.aligned
    assert result.epsilon == pytest.approx(2 * (1 / 4 + 9 / 40), rel=1e-4)  # the new record counts once in each round
    costs = {
        round(compared(above, [1, 9], side, seed).epsilon, 6) for side in ([1, 9, 20], [1, 9, -20]) for seed in (0, 1)
    }
    assert costs == {0.0, 0.5}


def test_the_costliest_pair_is_compared_with_other_noise() -> None:
    def mixed(rng, data):
        return len(data) + rng.laplace() * rng.exponential()

    found = pipeline.search(mixed, [1.0, 2.0], max_pairs=3, seconds=600)
    assert found.costliest is not None
    assert found.costliest.epsilon > 2  # its first noise has 1 to 3 at a third of all seeds
    assert "depends on the noise" in str(found.costliest.lost[-1])
    plain = pipeline.search(lambda rng, data: len(data) + rng.laplace(), [1.0, 2.0], max_pairs=3, seconds=600)
    assert plain.costliest is not None
    assert plain.costliest.lost == ()


# ---------------------------------------------------------------------------------------------------- no false alarms


def from_coins(data):
    """The discrete Laplace distribution, from coins alone: no way through it has noise, all together do."""

    def geometric():
        count = 0
        while random.random() < math.exp(-1):
            count += 1
        return count

    return len(data) + geometric() - geometric()


def randomised(data):
    return [bit if random.random() < 0.5 else random.choice([0, 1, 2]) for bit in data]


def signed(data):
    sign = -1 if random.random() < 0.5 else 1
    return len(data) + sign * random.expovariate(0.5)


def bounded_noise(rng, data):
    return len(data) + rng.binomial(1000, 0.5)


@pytest.mark.parametrize(
    ("program", "left", "right"),
    [
        (from_coins, [1, 1], [1, 1, 1]),
        (randomised, [0, 1, 1], [0, 1, 0]),
        (signed, [1], [1, 1]),
        (bounded_noise, [1], [1, 1]),  # it leaves its support with a probability of 2^-1000
    ],
)
def test_noise_that_is_not_followed_is_no_fault(program: Callable[..., Any], left: Any, right: Any) -> None:
    for result in both_ways(program, left, right):
        assert faults(result) == set()
        assert result.lost or result.epsilon == pytest.approx(0.5)  # where the sign suits


def test_a_seed_that_is_drawn_once_and_used_twice_is_seen() -> None:
    def twice(data):
        seed = np.random.randint(1 << 30)
        first = sum(data) + np.random.default_rng(seed).laplace()
        return first, len(data) + np.random.default_rng(seed).laplace()

    def once(data):
        return sum(data) + np.random.default_rng(np.random.randint(1 << 30)).laplace()

    assert faults(compared(twice, [1], [2], 0)) == {"seed"}
    assert compared(once, [1], [2], 0).epsilon == pytest.approx(1.0)


def test_a_record_is_seen_that_comes_out_half_of_the_time() -> None:
    def sometimes(rng, data):
        return len(data) if rng.random() < 0.5 else len(data) + rng.laplace()

    for result in both_ways(sometimes, [1], [1, 1]):
        assert faults(result) == {"unnoised"}


def test_noise_that_ends_is_a_fault_by_how_much_the_claim_allows() -> None:
    def shifted(rng, data):
        return len(data) + rng.exponential(scale=10.0)

    lost = -math.expm1(-1 / 10)
    for delta, expected in ((lost / 2, {"support"}), (lost * 2, set())):
        program = mechanism(epsilon=1.0, delta=delta)(shifted)
        assert faults(compared(program, [1, 1], [1], 0)) | faults(compared(program, [1], [1, 1], 0)) == expected
