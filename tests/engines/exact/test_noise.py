"""Noise as numbers, against mpmath at 50 digits: also where a probability is 1e-300."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from veridp.engines.exact.noise import numeric
from veridp.kernel import noise as d
from veridp.kernel.distributions import Distribution, log_difference

EXACT_SCALE = Fraction(5, 2)
SCALE = float(EXACT_SCALE)
CLOSE = 2e-13  # relative, of probabilities; the logarithms of 1e-300 have errors of some 700 roundings

CONTINUOUS: dict[str, tuple[d.Distribution, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "laplace": (
        d.Laplace(EXACT_SCALE),
        lambda z: mp.exp(-abs(z)) / (2 * SCALE),
        lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2,
        lambda z: mp.exp(-z) / 2 if z > 0 else 1 - mp.exp(z) / 2,
    ),
    "exponential": (
        d.Exponential(EXACT_SCALE),
        lambda z: mp.exp(-z) / SCALE if z >= 0 else mp.mpf(0),
        lambda z: 1 - mp.exp(-z) if z > 0 else mp.mpf(0),
        lambda z: mp.exp(-z) if z > 0 else mp.mpf(1),
    ),
    "uniform": (
        d.Uniform(EXACT_SCALE),
        lambda z: mp.mpf(1) / SCALE if 0 <= z <= 1 else mp.mpf(0),
        lambda z: min(max(z, mp.mpf(0)), mp.mpf(1)),
        lambda z: 1 - min(max(z, mp.mpf(0)), mp.mpf(1)),
    ),
    "normal": (
        d.Normal(EXACT_SCALE),
        lambda z: mp.npdf(z) / SCALE,
        lambda z: mp.erfc(-z / mp.sqrt(2)) / 2,
        lambda z: mp.erfc(z / mp.sqrt(2)) / 2,
    ),
    "gumbel": (
        d.Gumbel(EXACT_SCALE),
        lambda z: mp.exp(-z - mp.exp(-z)) / SCALE,
        lambda z: mp.exp(-mp.exp(-z)),
        lambda z: -mp.expm1(-mp.exp(-z)),
    ),
    "logistic": (
        d.Logistic(EXACT_SCALE),
        lambda z: mp.exp(-z) / (1 + mp.exp(-z)) ** 2 / SCALE,
        lambda z: 1 / (1 + mp.exp(-z)),
        lambda z: 1 / (1 + mp.exp(z)),
    ),
    "cauchy": (
        d.Cauchy(EXACT_SCALE),
        lambda z: 1 / (mp.pi * (1 + z * z) * SCALE),
        lambda z: mp.mpf(1) / 2 + mp.atan(z) / mp.pi,
        lambda z: mp.mpf(1) / 2 - mp.atan(z) / mp.pi,
    ),
    "student": (
        d.StudentT(EXACT_SCALE, 3),
        lambda z: 2 / (mp.pi * mp.sqrt(3) * (1 + z * z / 3) ** 2 * SCALE),
        lambda z: mp.mpf(1) / 2 + _student_3(z),
        lambda z: mp.mpf(1) / 2 - _student_3(z),
    ),
    "gamma": (
        d.Gamma(EXACT_SCALE, Fraction(7, 4)),
        lambda z: z ** mp.mpf(0.75) * mp.exp(-z) / mp.gamma(1.75) / SCALE if z > 0 else mp.mpf(0),
        lambda z: mp.gammainc(1.75, 0, z, regularized=True) if z > 0 else mp.mpf(0),
        lambda z: mp.gammainc(1.75, z, regularized=True) if z > 0 else mp.mpf(1),
    ),
    "share": (
        d.Gamma(EXACT_SCALE, Fraction(1, 8)),
        lambda z: z ** mp.mpf(-0.875) * mp.exp(-z) / mp.gamma(0.125) / SCALE if z > 0 else mp.inf if not z else 0,
        lambda z: mp.gammainc(0.125, 0, z, regularized=True) if z > 0 else mp.mpf(0),
        lambda z: mp.gammainc(0.125, z, regularized=True) if z > 0 else mp.mpf(1),
    ),
}


def _student_3(z: Any) -> Any:
    """P[0 < X < z] for Student's t with 3 degrees of freedom."""
    y = z / mp.sqrt(3)
    return (mp.atan(y) + y / (1 + y * y)) / mp.pi


# From the middle to where probabilities are below 1e-300: ±37.5 for normal noise, ±700 for the exponential tails.
PLACES = [-700.0, -70.0, -37.5, -12.0, -6.5, -1.0, -1e-9, 0.0, 1e-9, 0.3, 1.0, 6.5, 12.0, 37.5, 70.0, 700.0]


def agrees(logarithm: float, expected: Any) -> bool:
    """Whether the logarithm is that of the expected number, to CLOSE relative digits of the number itself.

    The rounding of a logarithm near -700 alone is 1e-13; where numbers fall off doubly exponentially, it is relative.
    """
    if expected == 0 or expected == mp.inf:
        return bool(logarithm == (math.inf if expected else -math.inf))
    truth = mp.log(expected)
    return bool(abs(mp.mpf(float(logarithm)) - truth) <= CLOSE * max(1, abs(truth)))


@pytest.mark.parametrize("kind", CONTINUOUS)
@pytest.mark.parametrize("place", PLACES)
def test_density_and_both_tails(kind: str, place: float) -> None:
    distribution, density, below, above = CONTINUOUS[kind]
    noise, x = numeric(distribution), np.array([place * SCALE])
    with mp.workdps(50 + 320):  # 1 - e^-700 is no number at 50 digits
        z = mp.mpf(place)
        assert agrees(noise.log_density(x)[0], density(z))
        assert agrees(noise.log_below(x)[0], below(z))
        assert agrees(noise.log_above(x)[0], above(z))


@pytest.mark.parametrize("kind", CONTINUOUS)
@pytest.mark.parametrize(
    ("low", "high"),
    [(-2, 3), (0.1, 0.2), (-0.2, -0.1), (30, 31), (-31, -30), (600, 601), (0.5, 0.5 + 1e-6), (-1e-7, 1)],
)
def test_between_two_points(kind: str, low: float, high: float) -> None:
    distribution, _, below, above = CONTINUOUS[kind]
    noise = numeric(distribution)
    found = noise.log_between(np.array([low * SCALE]), np.array([high * SCALE]))[0]
    with mp.workdps(400):
        expected = below(mp.mpf(high)) - below(mp.mpf(low)) if low < 0 else above(mp.mpf(low)) - above(mp.mpf(high))
        # A narrow interval is a difference: relative digits go with how small it is against its tail.
        tail = min(below(mp.mpf(high)), above(mp.mpf(low)))
        lost = float(tail / expected) if expected else 1.0
        if expected == 0:
            assert found == -math.inf
        else:
            assert abs(mp.mpf(float(found)) - mp.log(expected)) <= CLOSE * max(1.0, lost, abs(float(mp.log(expected))))


@pytest.mark.parametrize("kind", CONTINUOUS)
def test_half_lines_and_empty_intervals(kind: str) -> None:
    noise = numeric(CONTINUOUS[kind][0])
    at, inf = np.array([1.5]), np.array([np.inf])
    assert noise.log_between(-inf, at) == noise.log_below(at)
    assert noise.log_between(at, inf) == noise.log_above(at)
    assert noise.log_between(-inf, inf) == 0.0
    assert noise.log_between(at, at) == -math.inf
    assert noise.log_between(at, at - 1) == -math.inf
    mixed = noise.log_between(np.array([-np.inf, 1.5, 1.5]), np.array([1.5, np.inf, 1.0]))
    assert mixed[:2] == pytest.approx([noise.log_below(at)[0], noise.log_above(at)[0]], rel=1e-12)
    assert mixed[2] == -math.inf


def test_the_numbers_of_one_distribution_are_one_object() -> None:
    assert numeric(d.Laplace(2)) is numeric(d.Laplace(2))
    assert numeric(d.Laplace(2)) == numeric(d.Laplace(2)) != numeric(d.Laplace(3))


def test_differences_of_logarithms() -> None:
    """ln(e^-1 - e^-2) and where nothing is left; no warning from infinities."""
    larger = np.array([-1.0, -1.0, -2.0, -np.inf, 0.0])
    smaller = np.array([-2.0, -1.0, -1.0, -np.inf, -np.inf])
    expected = [math.log(math.exp(-1) - math.exp(-2)), -math.inf, -math.inf, -math.inf, 0.0]
    assert log_difference(larger, smaller).tolist() == pytest.approx(expected, rel=1e-14)


# ---------------------------------------------------------------------------------------------------- integer noise


def _geometric(p: Any, k: int) -> Any:
    return p * (1 - p) ** (k - 1) if k >= 1 else mp.mpf(0)


def _poisson(rate: Any, k: int) -> Any:
    return mp.exp(-rate) * rate**k / mp.factorial(k) if k >= 0 else mp.mpf(0)


def _binomial(p: Any, k: int) -> Any:
    return mp.binomial(50, k) * p**k * (1 - p) ** (50 - k) if 0 <= k <= 50 else mp.mpf(0)


INTEGER: dict[str, tuple[d.Distribution, Callable[[int], Any], int]] = {
    "geometric": (d.Geometric(Fraction(1, 8)), lambda k: _geometric(mp.mpf(1) / 8, k), 3000),
    "likely geometric": (d.Geometric(Fraction(7, 8)), lambda k: _geometric(mp.mpf(7) / 8, k), 600),
    "poisson": (d.Poisson(Fraction(7, 2)), lambda k: _poisson(mp.mpf(7) / 2, k), 250),
    "binomial": (d.Binomial(50, Fraction(1, 4)), lambda k: _binomial(mp.mpf(1) / 4, k), 51),
}


def _sum(mass: Callable[[int], Any], low: int, high: int) -> Any:
    return mp.fsum(mass(k) for k in range(low, high + 1))


@pytest.mark.parametrize("kind", INTEGER)
def test_integer_masses_and_tails(kind: str) -> None:
    """Both ends belong to an interval: P[X >= k] includes k."""
    distribution, mass, end = INTEGER[kind]
    noise = numeric(distribution)
    with mp.workdps(50):
        for k in (-1, 0, 1, 2, 5, 12, 30, 50, 51, 130):
            at = np.array([float(k)])
            assert agrees(noise.log_density(at)[0], mass(k))
            assert agrees(noise.log_below(at)[0], _sum(mass, 0, k))
            assert agrees(noise.log_above(at)[0], _sum(mass, k, end + max(k, 0)))


@pytest.mark.parametrize("kind", INTEGER)
@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 5), (0, 3), (10, 20), (3.5, 3.9), (2.5, 4.5), (5, 4), (40, 45)])
def test_integers_between_two_points(kind: str, low: float, high: float) -> None:
    distribution, mass, _ = INTEGER[kind]
    found = numeric(distribution).log_between(np.array([low]), np.array([high]))[0]
    with mp.workdps(50):
        assert agrees(found, _sum(mass, math.ceil(low), math.floor(high)))


def test_an_integer_distribution_has_nothing_between_integers() -> None:
    noise = numeric(d.Geometric(Fraction(1, 2)))
    assert noise.log_density(np.array([1.5, 0.0, 1.0, 2.0])).tolist() == [-math.inf, -math.inf, *np.log([0.5, 0.25])]


def test_a_trial_that_never_fails() -> None:
    noise = numeric(d.Geometric(1))
    points = np.array([0.0, 1.0, 2.0])
    assert noise.log_density(points).tolist() == [-math.inf, 0.0, -math.inf]
    assert noise.log_below(points).tolist() == [-math.inf, 0.0, 0.0]
    assert noise.log_above(points).tolist() == [0.0, 0.0, -math.inf]


@pytest.mark.parametrize("kind", [*CONTINUOUS, *INTEGER])
def test_a_density_is_exponential_on_its_stretches_and_0_off_them(kind: str) -> None:
    noise: Distribution = numeric((CONTINUOUS | INTEGER)[kind][0])  # type: ignore[operator]
    points = np.arange(-20.0, 21.0) * (1.0 if noise.integer else 0.37)
    told = np.full(points.shape, -np.inf)
    for stretch in noise.stretches or ():
        inside = (points >= stretch.low) & (points <= stretch.high)
        told[inside] = stretch.intercept + stretch.slope * points[inside]
        assert {stretch.low, stretch.high} <= {*noise.kinks, *noise.support, math.inf, -math.inf}
    if noise.stretches is not None:
        assert noise.log_density(points) == pytest.approx(told, rel=1e-14)


@pytest.mark.parametrize("kind", [*CONTINUOUS, *INTEGER])
def test_the_mass_left_out_does_not_count(kind: str) -> None:
    """`tail` scales past the last kink (and the middle) there is less than 1e-18 of the mass."""
    noise: Distribution = numeric((CONTINUOUS | INTEGER)[kind][0])  # type: ignore[operator]
    reach = noise.tail * noise.width
    ends = [noise.middle, *noise.kinks, *(end for end in noise.support if math.isfinite(end))]
    assert noise.log_above(np.array([max(ends) + reach]))[0] < math.log(1e-18)
    assert noise.log_below(np.array([min(ends) - reach]))[0] < math.log(1e-18)
