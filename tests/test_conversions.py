"""Conversions between notions against integrals, brute force and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from veridp.conversions import (
    delta_of_rdp,
    delta_of_zcdp,
    epsilon_of_rdp,
    epsilon_of_zcdp,
    gaussian_delta,
    tradeoff_divergences,
    zcdp_within,
)


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.0, 1.0), (0.5, 0.3), (2.0, 1.5), (5.0, 4.0)])
def test_delta_of_normal_noise_is_the_integral_of_what_exceeds(epsilon: float, ratio: float) -> None:
    def excess(x: float) -> float:
        return max(stats.norm.pdf(x, loc=ratio) - math.exp(epsilon) * stats.norm.pdf(x), 0.0)

    start = epsilon / ratio + ratio / 2  # where the loss is ε
    assert gaussian_delta(epsilon, ratio) == pytest.approx(integrate.quad(excess, start, start + 40)[0], rel=1e-8)
    assert gaussian_delta(epsilon, 0.0) == 0.0


def test_a_tiny_delta_keeps_its_digits() -> None:
    """At ε = 30 and r = 1, from Φ(-29.5) - e^30 Φ(-30.5) in fifty digits."""
    import mpmath

    with mpmath.workdps(50):
        truth = mpmath.ncdf(mpmath.mpf("-29.5")) - mpmath.exp(30) * mpmath.ncdf(mpmath.mpf("-30.5"))
    assert gaussian_delta(30.0, 1.0) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("rho", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_zcdp_is_the_best_of_all_orders(rho: float, delta: float) -> None:
    orders = 1 + np.exp(np.linspace(-7, 9, 200_001))
    best = epsilon_of_rdp(rho * orders, orders, delta)
    assert epsilon_of_zcdp(rho, delta) == pytest.approx(best, abs=1e-7)
    assert epsilon_of_zcdp(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016
    if best > 0:
        assert delta_of_zcdp(rho, best) == pytest.approx(delta, rel=1e-5)
        assert delta_of_rdp(rho * orders, orders, best) == pytest.approx(delta, rel=1e-9)
        assert zcdp_within(best, delta) == pytest.approx(rho, rel=1e-6)


def test_nothing_and_everything() -> None:
    orders = np.array([2.0])
    assert (
        epsilon_of_rdp(orders, orders, 0.0) == epsilon_of_zcdp(1.0, 0.0) == epsilon_of_zcdp(math.inf, 0.1) == math.inf
    )
    assert epsilon_of_zcdp(0.0, 0.0) == epsilon_of_zcdp(5.0, 1.0) == delta_of_zcdp(0.0, 0.0) == 0.0
    assert delta_of_zcdp(math.inf, 100.0) == 1.0


def test_one_event_shows_the_divergences_of_two_coins() -> None:
    orders, p, q = np.array([1.5, 2.0, 8.0]), 0.75, 0.25
    sums = [p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a) for a in orders]
    shown = tradeoff_divergences([(p, q)], orders)
    assert shown == pytest.approx([math.log(s) / (a - 1) for s, a in zip(sums, orders, strict=True)])
    assert (tradeoff_divergences([(p, q), (0.5, 0.5)], orders) == shown).all()  # an event that shows nothing
    assert (tradeoff_divergences([(0.3, 0.3)], orders) == 0).all()
