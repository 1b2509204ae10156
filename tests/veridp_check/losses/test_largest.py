"""The largest of several losses, beside integrals over the noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from veridp_check.enclosures import gaussian_delta_above
from veridp_check.losses.largest import LargestLoss, NoiseLoss

WITHIN = 1e-4  # relative, above the truth: what the lattice adds
NORMAL = NoiseLoss(squared=Fraction(1, 4))
LAPLACE = NoiseLoss(prices=((Fraction(1, 2), 1),))
POINTS = np.linspace(-12, 12, 240_001)
WEIGHTS = norm.pdf(POINTS) * (POINTS[1] - POINTS[0])


def normal_tail(mu: float) -> Callable[[np.ndarray], np.ndarray]:
    """P[L > l] of normal noise that is moved by μ deviations."""
    return lambda losses: norm.sf((losses - mu**2 / 2) / mu)


def laplace_tail(price: float) -> Callable[[np.ndarray], np.ndarray]:
    """P[L > l]: L = |η + p| - |η| exceeds l < p where η > (l - p)/2."""

    def tail(losses: np.ndarray) -> np.ndarray:
        at = (losses - price) / 2
        below = np.where(at < 0, np.exp(np.minimum(at, 0)) / 2, 1 - np.exp(-np.abs(at)) / 2)
        return np.where(losses >= price, 0.0, np.where(losses < -price, 1.0, 1 - below))

    return tail


def delta_of(tail: Callable[[np.ndarray], np.ndarray], epsilon: np.ndarray) -> np.ndarray:
    """E[(1 - e^(ε - L))₊] = ∫ e^-s P[L > ε + s] ds over s > 0, at each ε."""
    s = np.linspace(0, 40, 8_001)[:-1] + 0.0025
    return np.array([float(np.sum(np.exp(-s) * tail(e + s)) * 0.005) for e in epsilon])


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_normal_noise_has_its_closed_form(epsilon: float) -> None:
    found = LargestLoss(NORMAL).delta_above(Fraction(epsilon))
    exact = gaussian_delta_above(Fraction(epsilon), NORMAL.squared)
    assert exact <= found <= exact * (1 + Fraction(WITHIN))


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.1])
def test_normal_and_laplace_noise_add_up(epsilon: float) -> None:
    both = NoiseLoss(squared=NORMAL.squared, prices=LAPLACE.prices)
    coarse = slice(None, None, 200)
    losses = 0.5**2 / 2 + 0.5 * POINTS[coarse]
    expected = float(np.sum(WEIGHTS[coarse] * 200 * delta_of(laplace_tail(0.5), epsilon - losses)))
    assert float(LargestLoss(both).delta_above(Fraction(epsilon))) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("private", "tail"), [(NORMAL, normal_tail(0.5)), (LAPLACE, laplace_tail(0.5))])
@pytest.mark.parametrize("epsilon", [0.2, 0.9])
def test_the_largest_of_three_that_are_independent_beside_what_they_share(private, tail, epsilon: float) -> None:
    loss = LargestLoss(NORMAL, (LargestLoss(private),) * 3)
    coarse = slice(None, None, 200)
    shared = 0.5**2 / 2 + 0.5 * POINTS[coarse]
    of_three = delta_of(lambda losses: 1 - (1 - tail(losses)) ** 3, epsilon - shared)
    expected = float(np.sum(WEIGHTS[coarse] * 200 * of_three))
    found = float(loss.delta_above(Fraction(epsilon)))
    assert found == pytest.approx(expected, rel=1e-3)
    alone = LargestLoss(NoiseLoss(NORMAL.pure, NORMAL.squared + private.squared, private.prices))
    one = float(alone.delta_above(Fraction(epsilon)))
    assert one < found < 3 * one


def test_shifts_that_share_noise_in_part_are_added_up() -> None:
    apart, together = (LargestLoss(NoiseLoss(), (LargestLoss(NORMAL),) * 2, how) for how in (True, False))
    alone = LargestLoss(NORMAL).delta_above(Fraction(1, 2))
    assert (
        alone
        < apart.delta_above(Fraction(1, 2))
        < together.delta_above(Fraction(1, 2))
        <= 2 * alone * Fraction(1001, 1000)
    )


def test_what_is_lost_or_pure_is_lost_in_any_case() -> None:
    loss = LargestLoss(
        NoiseLoss(), (LargestLoss(NoiseLoss(lost=Fraction(1, 8))), LargestLoss(NoiseLoss(pure=Fraction(1))))
    )
    at_pure, below = loss.delta_above(Fraction(11, 10)), float(loss.delta_above(Fraction(1, 2)))
    assert Fraction(1, 8) <= at_pure <= Fraction(1, 8) + Fraction(1, 10**20)
    assert below == pytest.approx(1 / 8 + 7 / 8 * (1 - math.exp(-0.5)), rel=2e-3)
    assert LargestLoss(NoiseLoss(lost=Fraction(1, 8))).delta_above(Fraction(0)) == Fraction(1, 8)
    far = LargestLoss(NoiseLoss(), (LargestLoss(NoiseLoss(pure=Fraction(10**6))), LargestLoss(NoiseLoss())))
    assert far.delta_above(Fraction(10**5)) > Fraction(99, 100)


def test_no_loss_has_no_delta() -> None:
    assert LargestLoss(NoiseLoss(), (LargestLoss(NoiseLoss()),) * 2).delta_above(Fraction(1)) == 0


@pytest.mark.parametrize("order", [1.5, 2, 4, 16])
@pytest.mark.parametrize("shift", ["normal", "laplace"])
def test_renyi_divergences_of_the_largest_of_five_losses(shift: str, order: float) -> None:
    """E[e^((α - 1)L)] of the largest L by quadrature: n φ Φ^(n - 1) is its density as a function of the noise."""
    common, others = NoiseLoss(squared=Fraction(1, 16)), 5
    if shift == "normal":
        loss = NORMAL
        gain = np.exp((order - 1) * (1 / 8 + POINTS / 2))
        largest = float(np.sum(others * WEIGHTS * norm.cdf(POINTS) ** (others - 1) * gain))
    else:
        loss = LAPLACE
        losses = np.linspace(-0.5, 0.5, 400_001)
        below = (1 - laplace_tail(0.5)(losses)) ** others
        rising = np.diff(below) * np.exp((order - 1) * (losses[1:] + losses[:-1]) / 2)
        largest = float(np.sum(rising)) + below[0] * math.exp((1 - order) * 0.5)
    expected = order / 32 + math.log(largest) / (order - 1)
    found = LargestLoss(common, (LargestLoss(loss),) * others).divergence_above(Fraction(order))
    assert found is not None
    assert expected * (1 - 1e-5) <= float(found) <= expected * (1 + 2e-3)


def test_renyi_divergences_of_one_loss_are_exact_and_of_lost_noise_there_are_none() -> None:
    both = LargestLoss(NORMAL, (LargestLoss(NoiseLoss(squared=Fraction(1))),))
    assert both.divergence_above(Fraction(3)) == 3 * Fraction(5, 4) / 2
    assert LargestLoss(NORMAL, (LargestLoss(NoiseLoss(lost=Fraction(1, 9))),)).divergence_above(Fraction(3)) is None


def test_of_large_orders_the_sum_over_all_losses_is_the_bound() -> None:
    found = LargestLoss(NoiseLoss(), (LargestLoss(NORMAL),) * 8).divergence_above(Fraction(400))
    assert found is not None
    assert float(found) == pytest.approx(400 / 8 + math.log(8) / 399, rel=1e-9)


def test_dependent_losses_have_no_smaller_divergence() -> None:
    apart, alike = (
        LargestLoss(NoiseLoss(), (LargestLoss(NORMAL), LargestLoss(LAPLACE)), independent)
        for independent in (True, False)
    )
    for order in (Fraction(3, 2), Fraction(4)):
        assert apart.divergence_above(order) <= alike.divergence_above(order)
