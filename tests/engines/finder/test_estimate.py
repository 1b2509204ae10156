"""The estimate of ε from correlated samples: its intervals against closed forms, simulation and published widths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from veridp.engines.finder.estimate import (
    NormalRatio,
    SampleMoments,
    adaptive,
    bivariate_normal_cdf,
    clt,
    hoeffding,
    multivariate_clt,
)

ALPHA = 0.001  # gives the widths of DP-Finder's Fig. 6
P, Q, RHO = 0.0324, 0.0304, 0.97
MOST = 0.9676  # no two events of these probabilities correlate more: the published 0.97 is rounded


def bernoulli(p: float, q: float, correlation: float, count: int) -> SampleMoments:
    """What samples of two correlated events come to, without their noise."""
    joint = p * q + correlation * math.sqrt(p * (1 - p) * q * (1 - q))
    return SampleMoments(count, count * p, count * q, count * p, count * q, count * joint)


def width(interval: object) -> float:
    return interval.upper - interval.lower  # type: ignore[attr-defined,no-any-return]


def joint_counts(rng: np.random.Generator, p: float, q: float, correlation: float, count: int) -> SampleMoments:
    """Samples of two correlated events, drawn by their four joint outcomes."""
    both = p * q + correlation * math.sqrt(p * (1 - p) * q * (1 - q))
    cells = rng.multinomial(count, [both, p - both, q - both, 1 - p - q + both])
    left, right = int(cells[0] + cells[1]), int(cells[0] + cells[2])
    return SampleMoments(count, left, right, left, right, int(cells[0]))


# ------------------------------------------------------------------------------------------------------- moments


def test_moments_are_those_of_the_samples() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.random(1000), rng.random(1000)
    moments = SampleMoments.of(left, right)
    assert moments.means == pytest.approx((left.mean(), right.mean()))
    assert moments.variances == pytest.approx((left.var(), right.var()))
    assert moments.correlation == pytest.approx(np.corrcoef(left, right)[0, 1])
    assert moments.epsilon == pytest.approx(math.log(left.mean() / right.mean()))


def test_moments_add_up() -> None:
    rng = np.random.default_rng(2)
    left, right = rng.random(1000), rng.random(1000)
    parts = SampleMoments.of(left[:300], right[:300]) + SampleMoments.of(left[300:], right[300:])
    whole = SampleMoments.of(left, right)
    assert [getattr(parts, name) for name in vars(parts)] == pytest.approx(
        [getattr(whole, name) for name in vars(whole)]
    )


def test_what_never_happened() -> None:
    assert SampleMoments(100, 5, 0, 5, 0, 0).epsilon == math.inf
    assert SampleMoments(100, 0, 5, 0, 5, 0).epsilon == -math.inf
    assert math.isnan(SampleMoments(100).epsilon)


def test_a_constant_has_no_variance_and_no_correlation() -> None:
    left, right = np.full(4096, 0.1), np.full(4096, 0.3)
    moments = SampleMoments.of(left, right)
    assert moments.variances == (0.0, 0.0)
    assert math.isnan(moments.correlation)
    assert multivariate_clt(moments, 0.05).lower == pytest.approx(math.log(1 / 3), abs=1e-12)
    assert width(multivariate_clt(moments, 0.05)) == 0.0


# ----------------------------------------------------------------------------------------------------- intervals


def test_the_published_widths() -> None:
    """DP-Finder, Fig. 6: at 10^7 samples Hoeffding gives 0.079 and the CLT about 0.025; the M-CLT needs far less."""
    moments = bernoulli(P, Q, RHO, 10**7)
    assert width(hoeffding(moments, ALPHA)) == pytest.approx(0.079, rel=0.1)
    assert width(clt(moments, ALPHA)) == pytest.approx(0.025, rel=0.1)
    assert width(multivariate_clt(bernoulli(P, Q, RHO, 820_000), ALPHA)) == pytest.approx(0.01, rel=0.01)


def test_hoeffding_is_its_formula() -> None:
    moments = bernoulli(0.3, 0.2, 0.5, 10_000)
    radius = math.sqrt(math.log(2 / (0.05 / 2)) / (2 * 10_000))
    interval = hoeffding(moments, 0.05)
    assert interval.lower == pytest.approx(math.log((0.3 - radius) / (0.2 + radius)))
    assert interval.upper == pytest.approx(math.log((0.3 + radius) / (0.2 - radius)))


def test_clt_is_its_formula() -> None:
    moments = bernoulli(0.3, 0.2, 0.5, 10_000)
    z = norm.ppf(1 - 0.05 / 4)
    left, right = (z * math.sqrt(p * (1 - p) / 10_000) for p in (0.3, 0.2))
    assert clt(moments, 0.05).lower == pytest.approx(math.log((0.3 - left) / (0.2 + right)))
    assert clt(moments, 0.05).upper == pytest.approx(math.log((0.3 + left) / (0.2 - right)))


def test_the_multivariate_interval_is_the_delta_methods_for_many_samples() -> None:
    moments = bernoulli(P, Q, RHO, 10**9)
    spread = math.sqrt((1 - P) / P + (1 - Q) / Q - 2 * RHO * math.sqrt((1 - P) / P * (1 - Q) / Q)) / math.sqrt(10**9)
    interval = multivariate_clt(moments, 0.05)
    assert interval.lower == pytest.approx(math.log(P / Q) - 1.959964 * spread, abs=1e-3 * spread)
    assert interval.upper == pytest.approx(math.log(P / Q) + 1.959964 * spread, abs=1e-3 * spread)


def test_too_few_samples_bound_nothing() -> None:
    rare = bernoulli(0.001, 0.001, 0.5, 1000)
    assert hoeffding(rare, 0.05).lower == -math.inf
    assert hoeffding(rare, 0.05).upper == math.inf
    assert multivariate_clt(SampleMoments(1000, 3, 0, 3, 0, 0), 0.05).upper == math.inf


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.5, 0.99])
@pytest.mark.parametrize(
    ("first", "second"), [(0.5, 1.2), (-2.0, 0.3), (-1.0, -1.5), (0.0, 0.7), (0.0, 0.0), (3.0, -3.0)]
)
def test_the_bivariate_normal_is_scipys(first: float, second: float, correlation: float) -> None:
    expected = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf([first, second])
    assert bivariate_normal_cdf(first, second, correlation) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("correlation", [-1.0, 1.0])
def test_the_bivariate_normal_on_a_line(correlation: float) -> None:
    expected = norm.cdf(-0.5) if correlation > 0 else max(0.0, norm.cdf(-0.5) + norm.cdf(1.0) - 1)
    assert bivariate_normal_cdf(-0.5, 1.0, correlation) == pytest.approx(expected)


def test_the_ratio_of_normals_is_distributed_as_hinkley_says() -> None:
    # The denominator is often negative here, which the simple normal approximation would miss.
    ratio = NormalRatio((1.0, 0.5), (0.7, 0.6), 0.6)
    rng = np.random.default_rng(3)
    x, y = rng.multivariate_normal([1.0, 0.5], [[0.49, 0.252], [0.252, 0.36]], size=1_000_000).T
    for at in (-2.0, 0.0, 0.5, 1.5, 4.0):
        # five standard errors of a share among 10^6: fails once in 10^6 runs
        assert ratio.cdf(at) == pytest.approx(np.mean(x / y <= at), abs=5 * 0.5 / 1000)


@pytest.mark.parametrize(
    ("p", "q", "correlation", "count"),
    [(P, Q, MOST, 100_000), (0.3, 0.25, 0.85, 2_000), (0.01, 0.008, 0.5, 50_000), (0.5, 0.45, 0.0, 1_000)],
)
def test_the_multivariate_interval_covers_as_often_as_it_says(
    p: float, q: float, correlation: float, count: int
) -> None:
    rng = np.random.default_rng(4)
    alpha, cases = 0.05, 1000
    truth = math.log(p / q)
    covered = sum(truth in multivariate_clt(joint_counts(rng, p, q, correlation, count), alpha) for _ in range(cases))
    # four standard errors of 1000 cases: an exact interval would fail here once in 16 000 runs
    assert covered / cases == pytest.approx(1 - alpha, abs=4 * math.sqrt(alpha * (1 - alpha) / cases))


def test_hoeffding_covers_always() -> None:
    rng = np.random.default_rng(5)
    missed = sum(
        math.log(0.3 / 0.25) not in hoeffding(joint_counts(rng, 0.3, 0.25, 0.85, 2000), 0.05) for _ in range(500)
    )
    assert missed <= 25 + 4 * math.sqrt(25)


# -------------------------------------------------------------------------------------------------------- adaptive


def test_sampling_stops_at_the_target() -> None:
    rng = np.random.default_rng(6)
    moments = adaptive(lambda count: joint_counts(rng, 0.3, 0.25, 0.85, count), 0.05, most=2**24, target=0.02)
    assert width(multivariate_clt(moments, 0.05)) < 0.02
    assert width(multivariate_clt(moments, 0.05)) > 0.02 / 4  # half the samples would not have done
    assert moments.count == 2 ** int(math.log2(moments.count))


def test_sampling_stops_at_the_cap() -> None:
    rng = np.random.default_rng(7)
    assert adaptive(lambda count: joint_counts(rng, P, Q, MOST, count), 0.05, most=10_000).count == 10_000


def test_what_never_happens_is_not_sampled_for_ever() -> None:
    moments = adaptive(lambda count: SampleMoments(count), 0.05, most=2**40)
    assert moments.count == 2**16
