"""The notions of privacy other than (ε, δ): zCDP, Gaussian DP and Rényi DP; and what each implies.

A notion implies (ε, δ) at many points; each is a necessary condition, so what refutes one of them refutes the notion. A
single event may say more than all of them (`violation`). The way back is narrow: a bound in the notion itself, or one
that implies it, proves it (`bound_of`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from numbers import Real
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from veridp.conversions import (
    LOG_ROUNDING,
    Event,
    Events,
    delta_of_rdp,
    delta_of_zcdp,
    epsilon_of_rdp,
    epsilon_of_zcdp,
    gaussian_delta,
    tradeoff_divergences,
)
from veridp.errors import BadInput

Array = NDArray[np.float64]
Curve = Callable[[float], float]
# The δ at which the implied points of a notion are taken; the first at which ε is finite stands for the whole.
IMPLIED_DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1e-8, 1e-10)
# The orders at which a function of α is claimed, and at which Rényi divergences are looked for a violation.
CLAIMED_ORDERS = (1.25, 1.5, 1.75, *map(float, range(2, 65)), 80.0, 96.0, 128.0, 192.0, 256.0, 512.0, 1024.0)
TRIED_ORDERS = 1 + np.geomspace(1e-4, 1e4, 500)
FEW_ORDERS = TRIED_ORDERS[::20]  # to compare events by
LARGEST_EPSILON = 700.0  # past this, e^ε overflows


# --------------------------------------------------------------------------------------------------------------- proofs


class PrivacyBounds(Protocol):
    """What a proof knows: ε at a δ (0 where it is pure), δ at other ε, and bounds in other notions, inf where none
    follows. Its `profile` lists points (ε, δ) that it states beside the first."""

    @property
    def epsilon(self) -> float: ...
    @property
    def at_delta(self) -> float: ...
    def delta(self, epsilon: float, /) -> float: ...
    @property
    def rho(self) -> float: ...
    @property
    def mu(self) -> float: ...
    def rdp(self, alpha: float, /) -> float: ...
    @property
    def profile(self) -> tuple[tuple[float, float], ...]: ...


@dataclass(frozen=True)
class ApproximateBound:
    """(ε, δ) as a bound, and what follows from it in other notions: nothing, unless δ is 0.

    Every pair of distributions that is ε-private is post-processing of randomised response (Kairouz, Oh and Viswanath,
    "The Composition Theorem for Differential Privacy", ICML 2015), so each bound is that of randomised response; for ρ
    it is Bun and Steinke, "Concentrated Differential Privacy" (TCC 2016), Proposition 3.3.
    """

    epsilon: float
    at_delta: float = 0.0
    profile: ClassVar[tuple[tuple[float, float], ...]] = ()

    @property
    def rho(self) -> float:
        return math.inf if self.at_delta else self.epsilon**2 / 2

    @property
    def mu(self) -> float:
        """2 Φ⁻¹(e^ε / (1 + e^ε)): the curve of μ passes through the corner of that of ε."""
        from scipy.special import ndtri_exp

        return math.inf if self.at_delta else float(-2 * ndtri_exp(-np.logaddexp(0.0, self.epsilon)))

    def rdp(self, alpha: float) -> float:
        if self.at_delta or math.isinf(self.epsilon):
            return math.inf
        high = -np.logaddexp(0.0, -self.epsilon)
        gain = np.logaddexp(high + (alpha - 1) * self.epsilon, high - alpha * self.epsilon)
        return float(min(self.epsilon, max(0.0, gain) / (alpha - 1)))

    def delta(self, epsilon: float) -> float:
        """The least δ at another ε."""
        if epsilon >= self.epsilon:
            return self.at_delta
        high = 1 / (1 + math.exp(-self.epsilon))
        return self.at_delta + (1 - self.at_delta) * high * -math.expm1(epsilon - self.epsilon)


def rho_of(proof: PrivacyBounds) -> float:
    """The least ρ that the proof gives: as it says, from its μ (ρ = μ²/2) or from a pure ε."""
    return min(proof.rho, proof.mu**2 / 2, ApproximateBound(proof.epsilon, proof.at_delta).rho)


def mu_of(proof: PrivacyBounds) -> float:
    """The least μ that the proof gives: as it says, or from a pure ε."""
    return min(proof.mu, ApproximateBound(proof.epsilon, proof.at_delta).mu)


def rdp_of(proof: PrivacyBounds, alpha: float) -> float:
    """The least Rényi divergence at this order that the proof gives: as it says, from its ρ, or from a pure ε."""
    return min(proof.rdp(alpha), alpha * rho_of(proof), ApproximateBound(proof.epsilon, proof.at_delta).rdp(alpha))


def profile_of(proof: PrivacyBounds) -> Curve:
    """The least δ that the proof gives as a function of ε, from each of the notions that it speaks."""
    orders = np.array(CLAIMED_ORDERS)
    bounds = np.array([proof.rdp(order) for order in CLAIMED_ORDERS])

    @cache
    def delta(epsilon: float) -> float:
        return min(
            proof.delta(epsilon),
            ApproximateBound(proof.epsilon, proof.at_delta).delta(epsilon),
            GaussianDP(proof.mu).delta(epsilon),
            ZeroConcentrated(proof.rho).delta(epsilon),
            delta_of_rdp(bounds, orders, epsilon),
        )

    return delta


# -------------------------------------------------------------------------------------------------------------- notions


class Notion(ABC):
    """A guarantee in a notion of its own; it holds for all neighbours, in both directions."""

    keyword: ClassVar[str]  # under which it is claimed
    conversion: ClassVar[str]  # how (ε, δ) follows from it

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The least δ at this ε that it implies by the tightest conversion known."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """The least ε at this δ that it implies; inf where it implies none."""

    @abstractmethod
    def raised(self, share: float) -> Notion:
        """The same with its numbers raised by this share of each."""

    @abstractmethod
    def violation(self, events: Events) -> str:
        """What events between two neighbours show together, in words, where it exceeds this; else empty."""

    @abstractmethod
    def power(self, event: Event) -> float:
        """How much an event shows, as a multiple of what is claimed: a number to compare events by, not a bound."""

    @abstractmethod
    def bound_of(self, proof: PrivacyBounds) -> Notion | None:
        """What the proof says in this notion; None where it says nothing."""

    @abstractmethod
    def covered_by(self, bound: Notion) -> bool:
        """Whether an upper bound in the same notion suffices."""

    @property
    @abstractmethod
    def stated(self) -> Any:
        """What is given under its keyword to claim it."""

    @property
    def orders(self) -> tuple[float, ...]:
        """The orders of Rényi divergence that it names; none where it bounds them all, or none."""
        return ()

    def divergences(self, orders: Array) -> Array:
        """Upper bounds on the Rényi divergences at these orders; inf where it gives none."""
        return np.full(len(orders), math.inf)

    @cached_property
    def implied(self) -> tuple[tuple[float, float], ...]:
        """Points (ε, δ) that it implies, one for each of IMPLIED_DELTAS with a finite ε; (inf, δ) where none has."""
        points = []
        for delta in IMPLIED_DELTAS:
            epsilon = self.epsilon(delta)
            if math.isfinite(epsilon):
                points.append((epsilon, delta if epsilon else min(delta, self.delta(0.0))))
        return tuple(dict.fromkeys(points)) or ((math.inf, IMPLIED_DELTAS[0]),)

    def to_dict(self) -> dict[str, Any]:
        """The notion as plain data."""
        return {"name": str(self), self.keyword: self.stated, "conversion": self.conversion}


def rho_shown(events: Events, orders: Array = TRIED_ORDERS) -> tuple[float, float]:
    """A lower bound on ρ from events between two neighbours, and the order whose Rényi divergence is ρ times as large.

    >>> print("%.4f at order %g" % rho_shown([(0.9, 0.1)]))
    1.7577 at order 1.0001
    """
    shown = tradeoff_divergences(events, orders) / orders
    best = int(np.argmax(shown))
    return max(0.0, float(shown[best])), float(orders[best])


def mu_shown(events: Events) -> float:
    """A lower bound on μ from events between two neighbours: Φ⁻¹(P[left]) - Φ⁻¹(P[right]) of the best of them."""
    from scipy.special import ndtri

    best = 0.0
    for left, right in events:
        above, below = float(ndtri(left)), float(ndtri(right))
        if above > below:
            rounding = LOG_ROUNDING * (1 + abs(above) + abs(below)) if math.isfinite(above - below) else 0.0
            best = max(best, above - below - rounding)
    return best


def _share_of(shown: float, claimed: float) -> float:
    return shown / claimed if claimed else math.inf if shown > 0 else 0.0


RENYI_CONVERSION = "Canonne, Kamath and Steinke (NeurIPS 2020), Proposition 12"


@dataclass(frozen=True)
class ZeroConcentrated(Notion):
    """ρ-zCDP: the Rényi divergence is at most ρα at every order α > 1 (Bun and Steinke, TCC 2016)."""

    rho: float
    keyword: ClassVar[str] = "rho"
    conversion: ClassVar[str] = f"{RENYI_CONVERSION}, at the best order"

    def __post_init__(self) -> None:
        _check_number("rho", self.rho)

    def delta(self, epsilon: float) -> float:
        return delta_of_zcdp(self.rho, epsilon)

    def epsilon(self, delta: float) -> float:
        return epsilon_of_zcdp(self.rho, delta)

    def raised(self, share: float) -> ZeroConcentrated:
        return ZeroConcentrated(self.rho * (1 + share))

    def violation(self, events: Events) -> str:
        shown, order = rho_shown(events)
        return f"ρ >= {shown:.6g} by a Rényi divergence of order {order:g}" if shown > self.rho else ""

    def power(self, event: Event) -> float:
        return _share_of(rho_shown([event], FEW_ORDERS)[0], self.rho)

    def bound_of(self, proof: PrivacyBounds) -> ZeroConcentrated | None:
        rho = rho_of(proof)
        return ZeroConcentrated(rho) if math.isfinite(rho) else None

    def covered_by(self, bound: Notion) -> bool:
        return isinstance(bound, ZeroConcentrated) and bound.rho <= self.rho

    def divergences(self, orders: Array) -> Array:
        return self.rho * orders

    @property
    def stated(self) -> float:
        return self.rho

    def __str__(self) -> str:
        return f"{self.rho:g}-zCDP"


@dataclass(frozen=True)
class GaussianDP(Notion):
    """μ-GDP: no easier to tell apart than N(0, 1) from N(μ, 1) (Dong, Roth and Su, JRSS B 2022)."""

    mu: float
    keyword: ClassVar[str] = "mu"
    conversion: ClassVar[str] = "Balle and Wang (ICML 2018), Theorem 8, which is exact"

    def __post_init__(self) -> None:
        _check_number("mu", self.mu)

    def delta(self, epsilon: float) -> float:
        return 1.0 if math.isinf(self.mu) else gaussian_delta(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        if math.isinf(self.mu) or (self.mu and delta <= 0):
            return math.inf
        return least_epsilon(self.delta, delta)

    def raised(self, share: float) -> GaussianDP:
        return GaussianDP(self.mu * (1 + share))

    def violation(self, events: Events) -> str:
        shown = mu_shown(events)
        return f"μ >= {shown:.6g}" if shown > self.mu else ""

    def power(self, event: Event) -> float:
        return _share_of(mu_shown([event]), self.mu)

    def bound_of(self, proof: PrivacyBounds) -> GaussianDP | None:
        mu = mu_of(proof)
        return GaussianDP(mu) if math.isfinite(mu) else None

    def covered_by(self, bound: Notion) -> bool:
        return isinstance(bound, GaussianDP) and bound.mu <= self.mu

    def divergences(self, orders: Array) -> Array:
        return self.mu**2 / 2 * orders

    @property
    def stated(self) -> float:
        return self.mu

    def __str__(self) -> str:
        return f"{self.mu:g}-GDP"


@dataclass(frozen=True)
class RenyiDP(Notion):
    """(α, ε)-RDP at each of some orders: the Rényi divergence of order α is at most ε (Mironov, CSF 2017)."""

    points: tuple[tuple[float, float], ...]
    keyword: ClassVar[str] = "rdp"
    conversion: ClassVar[str] = RENYI_CONVERSION

    def __post_init__(self) -> None:
        for alpha, epsilon in self.points:
            if not isinstance(alpha, Real) or not 1 < alpha < math.inf:
                raise BadInput(f"the order of rdp must be finite and > 1, got {alpha!r}; give for instance (2, 0.5)")
            _check_number("the epsilon of rdp", epsilon)
        object.__setattr__(self, "points", tuple(sorted((float(a), float(e)) for a, e in self.points)))

    @classmethod
    def of(cls, stated: Any) -> RenyiDP:
        """From (α, ε), several of these, or a function of α, which is claimed at CLAIMED_ORDERS."""
        if callable(stated):
            return cls(tuple((order, value_of("rdp", stated, order)) for order in CLAIMED_ORDERS))
        return cls(pairs_of("rdp", stated, "(alpha, epsilon)"))

    @property
    def _orders(self) -> Array:
        return np.array([alpha for alpha, _ in self.points])

    @property
    def _bounds(self) -> Array:
        return np.array([epsilon for _, epsilon in self.points])

    def delta(self, epsilon: float) -> float:
        return delta_of_rdp(self._bounds, self._orders, epsilon)

    def epsilon(self, delta: float) -> float:
        return epsilon_of_rdp(self._bounds, self._orders, delta)

    def raised(self, share: float) -> RenyiDP:
        return RenyiDP(tuple((alpha, epsilon * (1 + share)) for alpha, epsilon in self.points))

    def violation(self, events: Events) -> str:
        shown = tradeoff_divergences(events, self._orders)
        worst = int(np.argmax(np.where(np.isinf(shown), math.inf, shown - self._bounds)))
        above = shown[worst] > self._bounds[worst]
        return f"a Rényi divergence >= {shown[worst]:.6g} at order {self._orders[worst]:g}" if above else ""

    def power(self, event: Event) -> float:
        shown = tradeoff_divergences([event], self._orders)
        return max(_share_of(found, claimed) for found, claimed in zip(shown, self._bounds, strict=True))

    def bound_of(self, proof: PrivacyBounds) -> RenyiDP | None:
        found = RenyiDP(tuple((alpha, rdp_of(proof, alpha)) for alpha, _ in self.points))
        return found if np.all(np.isfinite(found._bounds)) else None

    def covered_by(self, bound: Notion) -> bool:
        """Divergences do not fall as the order rises, so a bound at a higher order counts."""
        return isinstance(bound, RenyiDP) and bool(np.all(bound.divergences(self._orders) <= self._bounds))

    @property
    def orders(self) -> tuple[float, ...]:
        return tuple(alpha for alpha, _ in self.points)

    def divergences(self, orders: Array) -> Array:
        least = np.minimum.accumulate(self._bounds[::-1])[::-1]
        return np.append(least, math.inf)[np.searchsorted(self._orders, orders)]

    @property
    def stated(self) -> list[float] | list[list[float]]:
        points = [list(point) for point in self.points]
        return points[0] if len(points) == 1 else points

    def __str__(self) -> str:
        (first, least), (last, _) = self.points[0], self.points[-1]
        if len(self.points) == 1:
            return f"({first:g}, {least:g})-RDP"
        return f"RDP at {len(self.points)} orders from {first:g} to {last:g}"


def _check_number(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, Real) or not float(number) >= 0:
        raise BadInput(f"{name} must be a number >= 0, got {number!r}")


def value_of(name: str, function: Curve, at: float) -> float:
    """The value of a function that is claimed; raises BadInput where it raises."""
    try:
        return float(function(at))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise BadInput(
            f"{name} as a function raised {type(error).__name__} at {at:g}: {error}; return a number there, which may "
            f"be math.inf, or list points"
        ) from None


def pairs_of(name: str, stated: Any, form: str) -> tuple[tuple[float, float], ...]:
    """One pair of numbers, or a list of them."""
    pairs = [stated] if len(np.shape(stated)) == 1 and np.size(stated) == 2 else stated
    if len(np.shape(pairs)) != 2 or np.shape(pairs)[1] != 2:
        raise BadInput(f"{name} must be {form}, or a function of alpha, got {stated!r}")
    return tuple((first, second) for first, second in pairs)


def least_epsilon(delta_at: Curve, delta: float) -> float:
    """The least ε >= 0 with δ(ε) <= δ, rounded upwards; inf where there is none below LARGEST_EPSILON."""
    from scipy.optimize import brentq

    if delta_at(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_at(high) > delta:
        if high >= LARGEST_EPSILON:
            return math.inf
        high = min(2 * high, LARGEST_EPSILON)
    found = float(brentq(lambda epsilon: delta_at(epsilon) - delta, 0.0, high, xtol=1e-15, rtol=1e-14))
    step = 1e-14 * (1 + found)
    while delta_at(found) > delta:
        found, step = found + step, 2 * step
    return found
