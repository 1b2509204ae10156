"""One mechanism in three notions, here and by dp-accounting: ε at a δ from the loss distribution, RDP, and ρ and μ.

dp-accounting puts losses on a lattice whose error is of second order in its step; two of its answers, on lattices of
which one is twice as fine, are extrapolated to a step of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad

from veridp.accounting import Leaf, Repeated, Subsampled, account
from veridp.accounting.account import concentrated, divergences
from veridp.accounting.domination import AddedToSample, Domination, RemovedFromSample
from veridp.accounting.pairs import GaussianPair
from veridp.accounting.tree import ReleaseNode
from veridp.notions import GaussianDP

DELTA = 1e-5
ORDERS = np.array([2.0, 3.0, 8.0, 17.0, 64.0, 512.0])  # dp-accounting interpolates between whole ones of a sample
AGREE = 1e-6


@dataclass(frozen=True)
class Case:
    """A mechanism in both libraries, and the step of the coarser lattice for one and for a thousand of it."""

    ours: ReleaseNode
    loss: Callable[[float], Any]  # given the step
    event: dp_event.DpEvent
    steps: dict[int, float]


CASES = {
    "gaussian": Case(
        Leaf.gaussian(scale=40.0),
        lambda step: pld.from_gaussian_mechanism(40.0, value_discretization_interval=step),
        dp_event.GaussianDpEvent(40.0),
        {1: 2e-6, 1000: 5e-5},
    ),
    "laplace": Case(
        Leaf.laplace(scale=100.0),
        lambda step: pld.from_laplace_mechanism(100.0, value_discretization_interval=step),
        dp_event.LaplaceDpEvent(100.0),
        {1: 1e-6, 1000: 1e-5},
    ),
    "sampled gaussian": Case(
        Subsampled(0.01, Leaf.gaussian(scale=1.0)),
        lambda step: pld.from_gaussian_mechanism(1.0, sampling_prob=0.01, value_discretization_interval=step),
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)),
        {1: 1e-4, 1000: 8e-5},
    ),
}


@pytest.mark.parametrize("k", [1, 1000])
@pytest.mark.parametrize("name", CASES)
def test_epsilon_by_the_distribution_of_losses(name: str, k: int) -> None:
    case = CASES[name]
    found = account(Repeated(k, case.ours), DELTA, second_opinion=False)["privacy loss distribution"].epsilon
    coarse, fine = (
        float(case.loss(step).self_compose(k).get_epsilon_for_delta(DELTA))
        for step in (case.steps[k], case.steps[k] / 2)
    )
    assert found == pytest.approx((4 * fine - coarse) / 3, rel=AGREE)


@pytest.mark.parametrize("k", [1, 1000])
@pytest.mark.parametrize("name", CASES)
def test_renyi_divergences(name: str, k: int) -> None:
    case = CASES[name]
    (pairs,) = Domination(case.ours).parts(case.ours)
    ours = k * np.max([divergences(pair, ORDERS) for pair in pairs.directions], axis=0)
    theirs = RdpAccountant(ORDERS.tolist()).compose(case.event, k)._rdp
    assert ours == pytest.approx(theirs, rel=AGREE)


@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("ratio", [0.05, 1.0, 3.0])
def test_divergences_of_sampled_normal_noise_between_whole_orders(rate: float, ratio: float) -> None:
    """Against adaptive integration, in both directions; the one that dominates grows with the order."""
    orders = np.array([1.25, 2.5, 7.3])
    for kind in (RemovedFromSample, AddedToSample):
        by_order = divergences(kind(GaussianPair(ratio), rate), orders).tolist()
        for order, found in zip(orders.tolist(), by_order, strict=True):
            power = order if kind is RemovedFromSample else 1 - order

            def integrand(x: float, power: float = power) -> float:
                log = np.logaddexp(math.log1p(-rate), math.log(rate) + ratio * (x - ratio / 2))
                return math.exp(power * log - x * x / 2) / math.sqrt(2 * math.pi)

            middle = max(power, 0.0) * ratio
            whole, _ = quad(integrand, -12, middle + 12, points=[0.0, middle], limit=500, epsabs=0, epsrel=1e-12)
            assert found == pytest.approx(math.log(whole) / (order - 1), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("k", [1, 1000])
def test_rho_and_mu_are_those_that_divergences_and_losses_show(k: int) -> None:
    """Normal noise: D_α = ρα at every order, and ε at a δ is that of the one μ = sqrt(2ρ)."""
    case, release = CASES["gaussian"], Repeated(k, CASES["gaussian"].ours)
    rho = concentrated(release, Domination(release)).rho
    theirs = RdpAccountant(ORDERS.tolist()).compose(case.event, k)._rdp
    assert rho * ORDERS == pytest.approx(theirs, rel=AGREE)
    mu = GaussianDP(math.sqrt(2 * rho))
    exact = float(pld.from_gaussian_mechanism(40 / math.sqrt(k)).get_epsilon_for_delta(DELTA)) if k > 1 else None
    assert exact is None or mu.epsilon(DELTA) == pytest.approx(exact, rel=1e-4)  # on its own lattice
    found = account(release, DELTA, second_opinion=False)["privacy loss distribution"].epsilon
    assert mu.epsilon(DELTA) == pytest.approx(found, rel=1e-9)
