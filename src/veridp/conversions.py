"""Conversions between notions of privacy: the tightest that are known, each with its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Event = tuple[float, float]  # with probability >= the first number on the left, <= the second on the right
Events = Collection[Event]
HULL_ROUNDING = 1e-12  # relative difference of two slopes that rounding may make
LOG_ROUNDING = 1e-14  # relative error of a logarithm or a normal quantile that was computed in floats


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """The least δ at which normal noise is (ε, δ)-private; `ratio` is L2-sensitivity over standard deviation.

    Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (ICML 2018), Theorem 8:
    δ = Φ(r/2 - ε/r) - e^ε Φ(-r/2 - ε/r). Both terms are taken as logarithms, so that a tiny δ keeps its digits.
    """
    from scipy.special import log_ndtr

    if not ratio:
        return 0.0
    gain, loss = log_ndtr(ratio / 2 - epsilon / ratio), epsilon + log_ndtr(-ratio / 2 - epsilon / ratio)
    return float(math.exp(gain) * -math.expm1(min(0.0, loss - gain)))


def epsilon_of_rdp(rdp: Array, orders: Array, delta: float) -> float:
    """The least ε at this δ that follows from Rényi divergences at these orders.

    Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), Proposition 12:
    ε = D - (ln δ + ln α) / (α - 1) + ln(1 - 1/α).
    """
    return math.inf if delta <= 0 else max(0.0, float(np.min(_epsilons(rdp, orders, delta))))


def _epsilons(rdp: Array, orders: Array, delta: float) -> Array:
    return np.asarray(rdp - (math.log(delta) + np.log(orders)) / (orders - 1) + np.log1p(-1 / orders))


def delta_of_rdp(rdp: Array, orders: Array, epsilon: float) -> float:
    """The least δ at this ε that follows from Rényi divergences at these orders: the same, solved for δ."""
    return math.exp(min(0.0, float(np.min(_log_deltas(rdp, orders, epsilon)))))


def _log_deltas(rdp: Array, orders: Array, epsilon: float) -> Array:
    return np.asarray((orders - 1) * (rdp - epsilon + np.log1p(-1 / orders)) - np.log(orders))


def epsilon_of_zcdp(rho: float, delta: float) -> float:
    """The least ε at this δ that follows from ρ-zCDP: its Rényi divergences are at most ρα at every order α."""
    if not rho:
        return 0.0
    if delta <= 0 or math.isinf(rho):
        return math.inf
    if delta >= 1:
        return 0.0
    middle = 0.5 * math.log(-math.log(delta) / rho)  # the best order of the simpler conversion ρ + 2 sqrt(ρ ln 1/δ)
    found = _least(lambda orders: _epsilons(rho * orders, orders, delta), middle)
    return min(max(0.0, found), rho + 2 * math.sqrt(-rho * math.log(delta)))


def delta_of_zcdp(rho: float, epsilon: float) -> float:
    """The least δ at this ε that follows from ρ-zCDP."""
    if not rho:
        return 0.0
    if math.isinf(rho):
        return 1.0
    middle = math.log(max((epsilon - rho) / (2 * rho), 0.01))  # the best order of e^((α-1)(ρα-ε))
    return math.exp(min(0.0, _least(lambda orders: _log_deltas(rho * orders, orders, epsilon), middle)))


def _least(values: Callable[[Array], Array], middle: float) -> float:
    """The least value over the orders 1 + e^x with x near the middle; every order gives a valid bound."""
    from scipy.optimize import minimize_scalar

    grid = middle + np.linspace(-6.0, 6.0, 49)
    best = float(grid[np.argmin(values(1 + np.exp(grid)))])
    ends = best - 0.25, best + 0.25  # its neighbours in the grid
    return float(
        minimize_scalar(
            lambda x: float(values(np.array([1 + math.exp(x)]))[0]),
            bounds=ends,
            method="bounded",
            options={"xatol": 1e-10},
        ).fun
    )


def zcdp_within(epsilon: float, delta: float) -> float:
    """The largest ρ such that ρ-zCDP implies (ε, δ), up to rounding downwards."""
    low, high = 0.0, 1.0
    while epsilon_of_zcdp(high, delta) <= epsilon:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of_zcdp(middle, delta) <= epsilon else (low, middle)
    return low


def tradeoff_divergences(events: Events, orders: Array) -> Array:
    """Lower bounds on the Rényi divergences between two distributions, in the worse direction, at each order.

    Each event has probability >= the first number on the left, <= the second on the right. The trade-off curve of the
    two is nowhere above the convex hull of these points. So the two can be post-processed to a pair with the hull as
    its curve (Blackwell 1953; Dong, Roth and Su, JRSS B 2022, Theorem 2.10), whose divergences are sums over the edges
    of the hull. One event gives the divergences between two coins. The result is rounded downwards.
    """
    left, right = np.diff(_hull(events), axis=0).T
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log([left, right])
        found = []
        for p, q in (logs, logs[::-1]):
            some = p > -math.inf
            terms = orders[:, None] * p[some] - (orders[:, None] - 1) * q[some]
            found.append(np.logaddexp.reduce(terms, axis=1) / (orders - 1))
        error = LOG_ROUNDING * orders / (orders - 1) * (1 + np.abs(logs[np.isfinite(logs)]).sum())
    return np.asarray(np.maximum(np.maximum(*found) - error, 0.0))


def _hull(events: Events) -> Array:
    """The vertices (P[left], P[right]) of the largest concave curve below which no test of these events lies.

    A vertex that is on a line between others up to rounding is left out: fewer vertices claim less.
    """
    hull = [(0.0, 0.0)]
    for left, right in sorted({*events, (1.0, 1.0)}, key=lambda event: (event[1], -event[0])):
        if left <= hull[-1][0]:
            continue
        while len(hull) > 1 and _bends_little(hull[-2], hull[-1], (left, right)):
            hull.pop()
        hull.append((left, right))
    return np.array(hull if hull[-1] == (1.0, 1.0) else [*hull, (1.0, 1.0)])


def _bends_little(first: Event, second: Event, third: Event) -> bool:
    """Whether the second is no more than rounding above the line from the first to the third."""
    rises = [(second[0] - first[0]) * (third[1] - second[1]), (third[0] - second[0]) * (second[1] - first[1])]
    return rises[0] <= rises[1] * (1 + HULL_ROUNDING)
