"""The hypothesis test against brute force in exact integers, and its false alarms against exact enumeration."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from veridp.engines.statdp import log_p_values, p_values
from veridp.engines.statdp.hypothesis_test import Exceeded, Thinned
from veridp.errors import BadInput


def fisher_tail(x: int, right: int, runs: int) -> mpmath.mpf:
    """P[H >= x], from whole numbers alone."""
    successes = x + right
    ways = sum(
        math.comb(successes, h) * math.comb(2 * runs - successes, runs - h)
        for h in range(x, min(successes, runs) + 1)
        if 0 <= runs - h <= 2 * runs - successes
    )
    return mpmath.mpf(ways) / math.comb(2 * runs, runs)


def by_definition(left: int, right: int, runs: int, epsilon: float) -> mpmath.mpf:
    """Algorithm 2, averaged over all that thinning can leave."""
    keep = mpmath.exp(-mpmath.mpf(epsilon))
    return mpmath.fsum(
        math.comb(left, x) * keep**x * (1 - keep) ** (left - x) * fisher_tail(x, right, runs) for x in range(left + 1)
    )


@pytest.mark.parametrize("runs", [1, 2, 3, 7])
def test_all_counts_of_few_runs(runs):
    counts = np.arange(runs + 1)
    for epsilon in (0.0, 1e-9, 0.1, 0.7, 4.0):
        with mpmath.workdps(40):
            expected = [[float(by_definition(left, right, runs, epsilon)) for right in counts] for left in counts]
        table = p_values(counts[:, None], counts[None, :], runs, epsilon)
        assert table == pytest.approx(np.array(expected), rel=2e-14 * runs)


@pytest.mark.parametrize(
    ("left", "right", "runs", "epsilon"),
    [
        (480, 30, 500, 0.2),  # 3e-103
        (556, 1, 556, 0.005),  # 1e-299 or so
        (100, 1, 500, 0.7),
        (3, 0, 900, 1.5),
        (90, 89, 90, 0.0),
        (10, 300, 400, 0.3),  # 1 - 2e-83
    ],
)
def test_small_and_large_p_values(left, right, runs, epsilon):
    with mpmath.workdps(60):
        expected = by_definition(left, right, runs, epsilon)
        assert abs(p_values(left, right, runs, epsilon) / expected - 1) < 1e-11
        assert abs(log_p_values(left, right, runs, epsilon) - mpmath.log(expected)) < 1e-11


def test_logarithms_go_on_where_floats_end():
    with mpmath.workdps(60):
        expected = mpmath.log(by_definition(700, 1, 700, 0.01))
    assert expected < -800
    assert log_p_values(700, 1, 700, 0.01) == pytest.approx(float(expected), rel=1e-13)
    assert p_values(700, 1, 700, 0.01) == 0.0


def with_many_digits(left: int, right: int, runs: int, epsilon: float, low: int, high: int) -> mpmath.mpf:
    """P[J >= X] with the masses of J by steps from ln t(low) in gamma functions, at thirty digits."""
    keep = mpmath.exp(-mpmath.mpf(epsilon))

    def log_choose(n: int, k: int) -> mpmath.mpf:
        return mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)

    mass = mpmath.exp(
        log_choose(low + right, low) + log_choose(2 * runs - low - right - 1, runs - low) - log_choose(2 * runs, runs)
    )
    kept = mpmath.exp(log_choose(left, low) + low * mpmath.log(keep) + (left - low) * mpmath.log(1 - keep))
    odds, below, total = keep / (1 - keep), mpmath.mpf(0), mpmath.mpf(0)
    for j in range(low, high):
        below += kept
        total += mass * below
        kept *= odds * (left - j) / (j + 1)
        mass *= mpmath.mpf((j + right + 1) * (runs - j)) / ((j + 1) * (2 * runs - j - right - 1))
    return total


@pytest.mark.parametrize(
    ("left", "right", "runs", "epsilon", "low", "high"),
    [
        (5000, 2000, 10**8, 0.5, 1500, 3600),  # rare events
        (9280, 3000, 10**8, 0.3, 3000, 9000),  # 1e-300 or so
        pytest.param(4_000_000, 3_240_000, 10**8, 0.2, 3_225_000, 3_285_000, marks=pytest.mark.slow),
    ],
)
def test_hundred_million_runs(left, right, runs, epsilon, low, high):
    with mpmath.workdps(30):
        expected = with_many_digits(left, right, runs, epsilon, low, high)
        assert abs(p_values(left, right, runs, epsilon) / expected - 1) < 1e-8


def test_without_thinning_it_is_fishers_exact_test():
    left, right = np.meshgrid(np.arange(0, 41, 5), np.arange(0, 41, 5))
    expected = stats.hypergeom.sf(left - 1, 80, left + right, 40)
    assert p_values(left, right, 40, 0.0) == pytest.approx(expected, rel=1e-12)


def test_events_and_levels_at_once():
    left, right, levels = np.array([[30], [400], [20_000]]), np.array([[20], [10], [20_000]]), np.linspace(0, 2, 9)
    table = p_values(left, right, 50_000, levels)
    assert table.shape == (3, 9)
    for row, column in ((0, 0), (1, 4), (2, 8)):
        alone = p_values(left[row, 0], right[row, 0], 50_000, levels[column])
        assert table[row, column] == pytest.approx(alone, rel=1e-12)
    assert np.all(np.diff(table, axis=1) >= 0)  # the larger the ε, the weaker the evidence


def test_no_events_at_all_and_nothing_to_compare():
    assert p_values(0, 0, 100, 0.5) == 1
    assert p_values(0, 7, 100, 0.5) == 1
    assert p_values(100, 100, 100, 0.5) == 1
    assert p_values([], [], 10, 0.5).shape == (0,)


@pytest.mark.parametrize("counts", [(11, 1, 10), (1, 11, 10), (-1, 1, 10), (0.5, 1, 10)])
def test_impossible_counts(counts):
    with pytest.raises(BadInput, match="integers with 0 <= count <= runs"):
        p_values(*counts, 0.5)


@pytest.mark.parametrize("epsilon", [-0.1, math.inf, math.nan])
def test_impossible_levels(epsilon):
    with pytest.raises(BadInput, match="finite number >= 0"):
        p_values(1, 1, 10, epsilon)


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0])
@pytest.mark.parametrize("runs", [10, 40])
def test_twice_the_mean_is_a_p_value(runs, epsilon):
    """Exactly: at the border of the hypothesis, P[2 p <= α] <= α for every probability of the event."""
    counts = np.arange(runs + 1)
    table = p_values(counts[:, None], counts[None, :], runs, epsilon)
    for chance in np.linspace(0.01, math.exp(-epsilon) * 0.999, 25):
        masses = np.outer(
            stats.binom.pmf(counts, runs, min(1.0, chance * math.exp(epsilon))), stats.binom.pmf(counts, runs, chance)
        )
        for alpha in (0.01, 0.05, 0.1, 0.5, 0.9):
            assert masses[2 * table <= alpha].sum() <= alpha + 1e-12


def test_the_mean_alone_is_none():
    """Why it is doubled: at ε = 3 the mean is below some levels more often than they say."""
    counts = np.arange(41)
    table = p_values(counts[:, None], counts[None, :], 40, 3.0)
    found = []
    for chance in np.linspace(0.0005, math.exp(-3.0), 60):
        masses = np.outer(stats.binom.pmf(counts, 40, chance * math.exp(3.0)), stats.binom.pmf(counts, 40, chance))
        found.extend(masses[table <= alpha].sum() - alpha for alpha in (0.6, 0.7, 0.8, 0.9))
    assert max(found) > 0.01


def test_laws_sum_to_one():
    thinned = Thinned(np.array([50.0]), np.array([0.4]))
    exceeded = Exceeded(np.array([12.0]), np.array([40.0]))
    for law, last in ((thinned, 50), (exceeded, 40)):
        values = np.arange(last + 1.0)
        masses = np.exp(law.lines().log_mass(values[None, :]))[0]
        assert masses.sum() == pytest.approx(1, abs=1e-13)
        assert masses[int(law.mode[0])] == masses.max()
        steps = law.lines().log_step(values[None, :-1])[0]
        assert steps == pytest.approx(np.diff(np.log(masses)), rel=1e-9, abs=1e-12)
    assert np.exp(thinned.lines().log_mass(np.arange(51.0)[None, :]))[0] == pytest.approx(
        stats.binom.pmf(np.arange(51), 50, math.exp(-0.4)), rel=1e-12
    )
    assert np.exp(exceeded.lines().log_mass(np.arange(41.0)[None, :]))[0] == pytest.approx(
        stats.nhypergeom.pmf(np.arange(41), 80, 40, 13), rel=1e-10
    )
