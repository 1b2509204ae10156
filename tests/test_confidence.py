"""Confidence bounds, against the binomial law itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper, hoeffding_radius, log_ratio_lower
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
