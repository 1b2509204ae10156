"""Rényi divergences of pairs and zCDP of a release, and what they say about (ε, δ)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.domination import Domination
from veridp.accounting.lattice import log_moments
from veridp.accounting.pairs import DominatingPair, Envelope, Finite, GaussianPair, LaplacePair
from veridp.accounting.tree import Leaf, Parallel, ReleaseNode, Repeated, Subsampled
from veridp.numerics.privacy_loss_distribution import together

# --------------------------------------------------------------------------------------------------------------- renyi
# Rényi divergences of pairs, and what they say about (ε, δ): RDP and zCDP.


Array = NDArray[np.float64]
ORDERS = 1 + np.concatenate([np.geomspace(0.01, 100, 400), np.geomspace(105, 2048, 60)])


def divergences(pair: DominatingPair, orders: Array) -> Array:
    """The Rényi divergence of P from Q at each order above 1, given that the loss is not infinite.

    In closed form for Gaussian and Laplace noise (Mironov, "Rényi Differential Privacy", CSF 2017, Table II), as a sum
    over finite losses; else from the losses on a lattice, which can only add.
    """
    if isinstance(pair, GaussianPair):
        return np.asarray(orders * pair.ratio**2 / 2)
    if isinstance(pair, LaplacePair):
        return _laplace(pair.ratio, orders)
    if isinstance(pair, Envelope):
        return np.asarray(np.max([divergences(inner, orders) for inner in pair.pairs], axis=0))
    # given that the loss is finite, P is 1 / (1 - infinite) times what it was, and the loss that much larger
    more = -math.log1p(-pair.infinite) if pair.infinite < 1 else math.inf
    return np.asarray((log_moments(pair, orders - 1) + orders * more) / (orders - 1))


def _laplace(epsilon: float, orders: Array) -> Array:
    up = np.log(orders) - np.log(2 * orders - 1) + (orders - 1) * epsilon
    down = np.log(orders - 1) - np.log(2 * orders - 1) - orders * epsilon
    return np.asarray(np.logaddexp(up, down) / (orders - 1))


def epsilon_of_rdp(rdp: Array, orders: Array, delta: float) -> float:
    """The least ε at this δ that follows from Rényi divergences at these orders.

    Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), Proposition 12:
    ε = D - (ln δ + ln α) / (α - 1) + ln(1 - 1/α).
    """
    if delta <= 0:
        return math.inf
    epsilons = rdp - (math.log(delta) + np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    return max(0.0, float(np.min(epsilons)))


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """The least ε at this δ that follows from ρ-zCDP: its Rényi divergences are at most ρα at every order α."""
    from scipy.optimize import minimize_scalar

    if not rho:
        return 0.0
    if delta <= 0:
        return math.inf

    def at(log_excess: float) -> float:
        order = np.array([1 + math.exp(log_excess)])
        return epsilon_of_rdp(rho * order, order, delta)

    middle = 0.5 * math.log(-math.log(delta) / rho)  # the best order of the simpler conversion ρ + 2 sqrt(ρ ln 1/δ)
    found = minimize_scalar(at, bounds=(middle - 4, middle + 4), method="bounded", options={"xatol": 1e-10})
    return min(float(found.fun), rho + 2 * math.sqrt(-rho * math.log(delta)))


def zcdp_within(epsilon: float, delta: float) -> float:
    """The largest ρ such that ρ-zCDP implies (ε, δ), up to rounding downwards."""
    low, high = 0.0, 1.0
    while epsilon_of_zcdp(high, delta) <= epsilon:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of_zcdp(middle, delta) <= epsilon else (low, middle)
    return low


# -------------------------------------------------------------------------------------------------------- concentrated
# zCDP of a release: ρ adds up, and what leaks altogether is paid from δ.
#
# Bun and Steinke, "Concentrated Differential Privacy" (TCC 2016): ε-DP is ε²/2-zCDP (Proposition 3.3), normal noise is
# ratio²/2-zCDP. With probability `leak` nothing is promised (their δ-approximate zCDP, Definition 8.1).


@dataclass(frozen=True)
class Concentrated:
    """ρ-zCDP, but for events of probability `leak`."""

    rho: float
    leak: float


def concentrated(node: ReleaseNode, domination: Domination) -> Concentrated:
    """The ρ and the leak of a node of the release whose pairs are given."""
    if isinstance(node, Leaf):
        leak = max(pair.infinite for pair in node.pairs.directions)
        return Concentrated(max(_rho(pair) for pair in node.pairs.directions), leak)
    inner = [concentrated(child, domination) for child in node.children]
    if isinstance(node, Parallel):
        return Concentrated(max((c.rho for c in inner), default=0.0), max((c.leak for c in inner), default=0.0))
    if isinstance(node, Subsampled):
        # a mixture is no worse than its parts (divergences are jointly quasi-convex); a finite ε may say more
        largest = domination.of(node).supremum
        return Concentrated(min(inner[0].rho, largest**2 / 2), inner[0].leak)
    times = node.times if isinstance(node, Repeated) else 1
    return Concentrated(times * math.fsum(c.rho for c in inner), together((c.leak, times) for c in inner))


def spared(delta: float, leak: float) -> float:
    """What is left of δ once the leaks are paid; 0 where nothing is."""
    return (delta - leak) / (1 - leak) if leak < delta else 0.0


def _rho(pair: DominatingPair) -> float:
    if isinstance(pair, GaussianPair):
        return pair.ratio**2 / 2
    return _largest(pair.atoms) ** 2 / 2 if pair.atoms is not None else pair.supremum**2 / 2


def _largest(pair: Finite) -> float:
    """The largest loss in absolute value, given that what can happen on one side alone does not happen."""
    left, right = float(pair.masses.sum()), float((pair.masses * np.exp(-pair.losses)).sum())
    if not left or not right:
        return 0.0
    shift = math.log(right / left) if pair.infinite or not math.isclose(right, 1.0, rel_tol=1e-9) else 0.0
    return max(abs(pair.span.low + shift), abs(pair.span.high + shift))
