"""Confidence bounds, against the binomial law itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from veridp.confidence import (
    BinomialMartingale,
    RatioMartingale,
    approximate_lower,
    approximate_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
    detectable_by_one_test,
    detectable_probability,
    expected_linear_lower,
    growth,
    hoeffding_radius,
    linear_epsilon_lower,
    log_ratio_lower,
)
from veridp.errors import BadInput

CASES = [(0, 10), (1, 10), (5, 10), (10, 10), (3, 1000), (999, 1000), (20_000, 10_000_000)]


@pytest.mark.parametrize(("count", "total"), CASES)
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_clopper_pearson_is_where_the_tail_is_alpha(count: int, total: int, alpha: float) -> None:
    lower, upper = clopper_pearson_lower(count, total, alpha), clopper_pearson_upper(count, total, alpha)
    assert 0 <= lower <= count / total <= upper <= 1
    assert (lower == 0) == (count == 0)
    assert (upper == 1) == (count == total)
    if count > 0:
        assert binom.sf(count - 1, total, lower) == pytest.approx(alpha, rel=1e-6)
    if count < total:
        assert binom.cdf(count, total, upper) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_clopper_pearson_covers_at_every_probability(p: float) -> None:
    counts, alpha = np.arange(41), 0.1
    mass = binom.pmf(counts, 40, p)
    assert mass[clopper_pearson_lower(counts, 40, alpha) > p].sum() <= alpha
    assert mass[clopper_pearson_upper(counts, 40, alpha) < p].sum() <= alpha


def test_hoeffding_by_hand() -> None:
    assert hoeffding_radius(200, math.exp(-4)) == pytest.approx(0.1)


def test_log_ratio_covers_exactly() -> None:
    n, p, q, alpha = 60, 0.4, 0.2, 0.1
    counts = np.arange(n + 1)
    bounds = log_ratio_lower(counts[:, None], n, counts[None, :], n, alpha)
    mass = binom.pmf(counts, n, p)[:, None] * binom.pmf(counts, n, q)[None, :]
    assert 0 < mass[bounds > math.log(p / q)].sum() <= alpha


def test_log_ratio_says_nothing_from_nothing_and_is_finite() -> None:
    assert log_ratio_lower(0, 10, 3, 10, 0.05) == -math.inf
    assert math.isfinite(log_ratio_lower(10, 10, 0, 10, 0.05))
    assert log_ratio_lower(10, 10, 0, 10, 0.05, delta=1.0) == -math.inf


@pytest.mark.parametrize(
    ("count", "total", "alpha", "complaint"),
    [
        (11, 10, 0.1, "count must be between 0 and 10, got 11"),
        (-1, 10, 0.1, "count must be between 0 and 10, got -1"),
        (1, 10, 0.0, "alpha must be in"),
        (1, 10, 2, "alpha must be in"),
    ],
)
def test_bad_input(count: int, total: int, alpha: float, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        clopper_pearson_lower(count, total, alpha)


# ----------------------------------------------------------------------------------------------------------- sequential

# p, q, ε and δ with p = e^ε q + δ: frequent and rare events, ratios and differences, an impossible event on the right.
TIGHT = [
    (0.5, 0.5 * math.exp(-0.5), 0.5, 0.0),
    (0.01, 0.01 / math.e, 1.0, 0.0),
    (0.9, 0.9 * math.exp(-0.1), 0.1, 0.0),
    (0.6, 0.2, 1.0, 0.6 - 0.2 * math.e),
    (0.001, 0.0, 0.0, 0.001),
    (1e-3, 1e-3 * math.exp(-3), 3.0, 0.0),
    (1.0, 0.5, math.log(2), 0.0),
]


def relative_entropy(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


@pytest.mark.parametrize(
    ("p", "q", "epsilon", "delta"), [(0.5, 0.2, 0.1, 0.0), (0.01, 1e-3, 1.0, 0.0), (0.95, 0.1, 0.5, 0.2)]
)
def test_wealth_grows_by_the_least_relative_entropy_to_the_hypothesis(
    p: float, q: float, epsilon: float, delta: float
) -> None:
    points = np.linspace(q, (p - delta) * math.exp(-epsilon), 200_001)[1:-1]
    entropies = [relative_entropy(p, math.exp(epsilon) * x + delta) + relative_entropy(q, x) for x in points[::100]]
    assert growth(p, q, epsilon, delta) == pytest.approx(min(entropies), rel=1e-4)
    assert growth(q, p, epsilon, delta) == 0  # nothing to bet on


@pytest.mark.parametrize(("p", "q", "epsilon", "delta"), TIGHT)
@pytest.mark.parametrize("share", [1.0, 0.7])  # of p: the hypothesis holds with room
@pytest.mark.parametrize("seen", [(0, 0, 0), (9, 1, 10)])
def test_no_bet_is_expected_to_win_while_the_hypothesis_holds(
    p: float, q: float, epsilon: float, delta: float, share: float, seen: tuple[int, int, int]
) -> None:
    """Exactly, over all counts of two blocks, where the second bet depends on the counts of the first."""
    sizes, expected = (2, 3), 0.0
    laws = [[binom.pmf(np.arange(size + 1), size, side) for size in sizes] for side in (share * p, q)]
    for counts in np.ndindex(3, 3, 4, 4):
        test = RatioMartingale([epsilon], delta, seen)
        test.bet(counts[0], counts[1], sizes[0])
        test.bet(counts[2], counts[3], sizes[1])
        chance = laws[0][0][counts[0]] * laws[1][0][counts[1]] * laws[0][1][counts[2]] * laws[1][1][counts[3]]
        expected += chance * math.exp(test.log_wealth[0])
    assert expected <= 1 + 1e-9
    assert expected > 0.2  # a bet that always loses would show nothing


def ever_rejected(p: float, q: float, epsilon: float, delta: float, alpha: float, seed: int) -> float:
    """The share of 2000 runs that reject the hypothesis at one of many looks, up to 3000 samples of either side."""
    rng, runs = np.random.default_rng(seed), 2000
    seen = (rng.binomial(50, p, runs), rng.binomial(50, q, runs), 50) if seed % 2 else (np.zeros(runs),) * 2 + (0,)
    test = RatioMartingale(np.full(runs, epsilon), delta, seen)  # one run for each entry
    total = 0
    while total < 3000:
        size = max(8, total // 4)
        test.bet(rng.binomial(size, p, runs), rng.binomial(size, q, runs), size)
        total += size
    return float(test.rejected(alpha).mean())


@pytest.mark.parametrize("alpha", [0.2, 0.05])
def test_a_true_hypothesis_is_seldom_ever_rejected_at_any_look(alpha: float) -> None:
    """A sound test fails each of these with probability 0.001 at most, were the seeds not fixed."""
    for seed, case in enumerate(TIGHT):
        assert ever_rejected(*case, alpha, seed) <= binom.ppf(0.999, 2000, alpha) / 2000
    shares = [ever_rejected(p, q / 2, epsilon, delta, alpha, 1) for p, q, epsilon, delta in TIGHT[:1]]
    assert min(shares) > 0.99  # and a false one nearly always


def test_the_bound_on_epsilon_is_below_every_hypothesis_that_is_kept() -> None:
    test = RatioMartingale(np.linspace(0.1, 3.0, 30))
    assert test.epsilon_lower(0.05) == -math.inf
    for _ in range(20):
        test.bet(25, 5, 50)  # ln 5 = 1.609
    assert 1.2 < test.epsilon_lower(0.05) < math.log(5)
    assert test.epsilon_lower(0.05) >= test.epsilon_lower(0.001)


def test_a_look_back_does_not_undo_a_rejection() -> None:
    test = RatioMartingale([0.5])
    test.bet(100, 10, 100)
    test.bet(90, 5, 100)
    assert test.rejected(0.01)[0]
    test.bet(0, 300, 300)
    assert test.rejected(0.01)[0]
    assert test.log_wealth[0] < 0


def test_bounds_on_one_probability_hold_at_all_looks() -> None:
    """A sound bound fails this with probability 0.001 at most, were the seeds not fixed."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(100):
        sides = BinomialMartingale((3, 10))
        missed = False
        for size in (10, 20, 50, 100, 400):
            sides.add(int(rng.binomial(size, 0.3)), size)
            missed |= sides.lower(0.1) > 0.3 or sides.upper(0.1) < 0.3
        wrong += missed
        assert sides.lower(0.1) < sides.count / sides.total < sides.upper(0.1)
        assert sides.upper(0.1) - sides.lower(0.1) < 0.2
    assert wrong <= binom.ppf(0.999, 100, 0.2)
    empty = BinomialMartingale()
    empty.add(0, 10)
    assert (empty.lower(0.1), empty.upper(0.1) < 0.6) == (0.0, True)


@pytest.mark.parametrize(
    ("right", "samples", "epsilon", "delta"), [(0.3, 400, 0.1, 0.0), (0.02, 1000, 1.0, 0.0), (0.05, 300, 0.2, 0.1)]
)
def test_the_detectable_probability_is_that_of_the_stated_power(
    right: float, samples: int, epsilon: float, delta: float
) -> None:
    """Against the sum over all pairs of counts."""
    counts = np.arange(samples + 1)
    shown = log_ratio_lower(counts[:, None], samples, counts[None, :], samples, 0.05, delta) > epsilon
    left = detectable_probability(right, samples, 0.05, epsilon, delta)
    power = binom.pmf(counts, samples, left) @ shown @ binom.pmf(counts, samples, right)
    assert power == pytest.approx(0.9, abs=0.01)
    assert detectable_probability(0.9, 10, 0.05, 3.0, 0.0) == 1.0


# ------------------------------------------------------------------------------------------- one test of p <= e^ε q + δ

# p, ε, δ and samples; q is where the claim is tight
TIGHT_CLAIMS = [(0.5, 0.1, 0.0, 1_000), (0.9, 0.05, 0.0, 5_000), (0.6, 0.5, 0.2, 2_000), (0.02, 1.0, 0.0, 200_000)]


@pytest.mark.parametrize("alpha", [0.2, 0.05])
@pytest.mark.parametrize(("p", "epsilon", "delta", "samples"), TIGHT_CLAIMS)
def test_the_bound_exceeds_the_truth_rarely_enough(
    p: float, epsilon: float, delta: float, samples: int, alpha: float
) -> None:
    """500 seeded runs; a sound test fails this with probability 0.001 at most, were the seed not fixed."""
    rng, runs = np.random.default_rng(0), 500
    q = (p - delta) * math.exp(-epsilon)
    counts = zip(rng.binomial(samples, p, runs).tolist(), rng.binomial(samples, q, runs).tolist(), strict=True)
    bounds = [linear_epsilon_lower(left, right, samples, alpha, delta) for left, right in counts]
    wrong = sum(bound > epsilon for bound in bounds)
    assert wrong <= binom.ppf(0.999, runs, alpha)
    assert max(bounds) > epsilon  # what never comes near the truth shows nothing here


def test_frequent_events_are_judged_closer_than_by_two_intervals() -> None:
    left, right, samples = 500_000, round(500_000 * math.exp(-0.1)), 10**6
    one, two = linear_epsilon_lower(left, right, samples, 0.05), log_ratio_lower(left, samples, right, samples, 0.05)
    assert 1.5 * (0.1 - one) < 0.1 - two
    # z sqrt((1 - p)/(np) + (1 - q)/(nq)), with what Berry and Esseen add
    assert one == pytest.approx(0.1 - 1.645 * math.sqrt(2.21 / samples), abs=2e-4)


@pytest.mark.parametrize(("left", "right"), [(0, 0), (100, 100), (0, 100), (3, 0), (60, 50)])
def test_nothing_is_shown_where_counts_tell_nothing(left: int, right: int) -> None:
    assert linear_epsilon_lower(left, right, 100, 0.05) == -math.inf
    assert not expected_linear_lower(left / 100, right / 100, 100, 0.05) > 0.2


def test_counts_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match="count must be between"):
        linear_epsilon_lower(11, 5, 10, 0.05)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_what_is_expected_of_counts_is_what_they_show(delta: float) -> None:
    for p, ratio, samples in ((0.5, 1.2, 10**5), (0.05, 4.0, 10**6), (0.95, 1.02, 10**6)):
        q = (p - delta) / ratio if p > delta else p / ratio
        shown = linear_epsilon_lower(round(p * samples), round(q * samples), samples, 0.03, delta)
        expected = float(expected_linear_lower(p, q, samples, 0.03, delta))
        assert shown == pytest.approx(expected, rel=0.01, abs=1e-3)


def test_a_detectable_violation_is_detected_so_often() -> None:
    rng, samples, q = np.random.default_rng(1), 20_000, 0.4
    p = detectable_by_one_test(q, samples, 0.05, 0.2, 0.0)
    counts = zip(rng.binomial(samples, p, 2000).tolist(), rng.binomial(samples, q, 2000).tolist(), strict=True)
    caught = sum(linear_epsilon_lower(left, right, samples, 0.05) > 0.2 for left, right in counts)
    assert caught / 2000 == pytest.approx(0.9, abs=0.025)
    assert detectable_by_one_test(0.4, 20, 0.05, 0.2, 0.0) == 1.0  # with so few samples, nothing is


@pytest.mark.parametrize("total", [100, 10**6])
@pytest.mark.parametrize("deviations", [-1.5, 0.3, 2.0, 4.0])
def test_the_approximation_is_near_clopper_and_pearson(total: int, deviations: float) -> None:
    counts = np.array([0, 1, 2, 5, 20, total // 2, total - 5, total - 1, total], dtype=float)
    upper, lower = approximate_upper(counts, total, deviations), approximate_lower(counts, total, deviations)
    assert upper == pytest.approx(clopper_pearson_upper(counts, total, ndtr(-deviations)), rel=0.16)
    known = clopper_pearson_lower(counts, total, ndtr(-deviations))
    assert lower[3:] == pytest.approx(known[3:], rel=0.3)
    assert np.all((lower >= 0) & (lower <= known * 1.02 + 1e-12))  # of few counts: too low, never too high
