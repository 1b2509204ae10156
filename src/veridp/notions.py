"""The notions of privacy other than (ε, δ): zCDP, Gaussian DP, Rényi DP and trade-off curves; and what each implies.

A notion implies (ε, δ) at many points; each is a necessary condition, so what refutes one of them refutes the notion. A
single event may say more than all of them (`violation`). The way back is narrow: a bound in the notion itself, or one
that implies it, proves it (`bound_of`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
CURVE_ROUNDING = 1e-12  # absolute error of a point of a trade-off curve
FARTHEST_LINE = 30.0  # the largest ε beyond the proved one at which it is asked
LINES_OF_A_PROOF = 101  # values of ε at which a proof is asked for its δ
POINTS_PER_SIDE = 500  # at which a trade-off curve that is a function is evaluated, below and above 1/2
LARGEST_EPSILON = 700.0  # past this, e^ε overflows
SMALLEST_ERROR = 1e-12  # the smallest positive error of either type among them


# --------------------------------------------------------------------------------------------------------------- proofs


class PrivacyBounds(Protocol):
    """What a proof knows: ε at a δ (0 where it is pure), δ at other ε, and bounds in other notions, inf where none
    follows."""

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


@dataclass(frozen=True)
class ApproximateBound:
    """(ε, δ) as a bound, and what follows from it in other notions: nothing, unless δ is 0.

    Every pair of distributions that is ε-private is post-processing of randomised response (Kairouz, Oh and Viswanath,
    "The Composition Theorem for Differential Privacy", ICML 2015), so each bound is that of randomised response; for ρ
    it is Bun and Steinke, "Concentrated Differential Privacy" (TCC 2016), Proposition 3.3.
    """

    epsilon: float
    at_delta: float = 0.0

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


def delta_of(proof: PrivacyBounds, epsilon: float) -> float:
    """The least δ at this ε that the proof gives, from each of the notions that it speaks."""
    orders = np.array(CLAIMED_ORDERS)
    return min(
        proof.delta(epsilon),
        ApproximateBound(proof.epsilon, proof.at_delta).delta(epsilon),
        GaussianDP(proof.mu).delta(epsilon),
        ZeroConcentrated(proof.rho).delta(epsilon),
        delta_of_rdp(np.array([proof.rdp(order) for order in CLAIMED_ORDERS]), orders, epsilon),
    )


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
        return _least_epsilon(self.delta, delta)

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
            return cls(tuple((order, _value("rdp", stated, order)) for order in CLAIMED_ORDERS))
        return cls(_pairs("rdp", stated, "(alpha, epsilon)"))

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


@dataclass(frozen=True)
class TradeoffCurve(Notion):
    """f-DP: a test of one input against its neighbour with type I error α has a type II error of f(α) or more.

    The curve passes through the points and is linear in between; or it is a function, of which the points are samples.
    A function is proved at these points: by a curve of Gaussian DP that is nowhere below them, or by all lines of the
    polygon through them, which is above the function.
    """

    points: tuple[tuple[float, float], ...]
    function: Curve | None = None
    lowered: float = field(default=0.0, repr=False)  # by so much, everywhere
    keyword: ClassVar[str] = "tradeoff"
    conversion: ClassVar[str] = "convex conjugate (Dong, Roth and Su, JRSS B 2022, Proposition 2.12)"

    def __post_init__(self) -> None:
        points = tuple(sorted((float(alpha), float(beta)) for alpha, beta in self.points))
        object.__setattr__(self, "points", points)
        for alpha, beta in points:
            if not (0 <= alpha <= 1 and 0 <= beta <= 1 - alpha + CURVE_ROUNDING):
                raise BadInput(f"({alpha:g}, {beta:g}) is on no trade-off curve; give α in [0, 1] and β in [0, 1 - α]")
        if len(points) < 2 or points[0][0] != 0 or (points[-1][0] != 1 and points[-1][1] != 0):
            raise BadInput("a trade-off curve starts at α = 0 and ends at α = 1; add (0, 1 - δ) and (1, 0)")
        steps = np.diff(np.array(points), axis=0)
        if np.any(steps[:, 0] <= 0):
            raise BadInput("a trade-off curve has one β for each α; remove a point")
        if np.any(steps[:, 1] > 0) or not self._is_convex(steps):
            raise BadInput("a trade-off curve falls and is convex; leave out points above a line between two others")

    @staticmethod
    def _is_convex(steps: Array) -> bool:
        turns = steps[1:, 1] * steps[:-1, 0] - steps[:-1, 1] * steps[1:, 0]
        return bool(np.all(turns >= -CURVE_ROUNDING))

    @classmethod
    def of(cls, stated: Any) -> TradeoffCurve:
        """From points (α, β), or a function of α."""
        if not callable(stated):
            return cls(_pairs("tradeoff", stated, "points (alpha, beta)"))
        below = np.geomspace(SMALLEST_ERROR, 0.5, POINTS_PER_SIDE)
        alphas = [0.0, *below.tolist(), *(1 - below[-2::-1]).tolist(), 1.0]
        return cls(tuple((alpha, _value("tradeoff", stated, alpha)) for alpha in alphas), stated)

    @cached_property
    def _vertices(self) -> Array:
        return np.array(self.points) - [0.0, self.lowered]

    def beta(self, alpha: float) -> float:
        """The claimed type II error."""
        if self.function is not None:
            return float(self.function(alpha)) - self.lowered
        return float(np.interp(alpha, *self._vertices.T))

    def delta(self, epsilon: float) -> float:
        """sup 1 - e^ε α - f(α); for the inverse curve too, which the other direction of a pair has to keep."""
        alphas, betas = self._vertices.T
        factor = math.exp(min(epsilon, LARGEST_EPSILON))
        forward, backward = 1 - factor * alphas - betas, 1 - factor * betas - alphas
        if self.function is None:
            return float(np.clip(min(forward.max(), backward.max()), 0.0, 1.0))
        from scipy.optimize import minimize_scalar

        best = int(np.argmax(forward))
        ends = alphas[max(best - 1, 0)], alphas[min(best + 1, len(alphas) - 1)]
        found = minimize_scalar(
            lambda alpha: factor * alpha + self.beta(alpha) - 1, bounds=ends, method="bounded", options={"xatol": 1e-14}
        )
        return float(np.clip(max(-found.fun, forward[best]) + CURVE_ROUNDING, 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        return _least_epsilon(self.delta, delta)

    def raised(self, share: float) -> TradeoffCurve:
        """The curve, which has no number to raise, lowered by this much."""
        return TradeoffCurve(self.points, self.function, self.lowered + share)

    def violation(self, events: Events) -> str:
        for left, right in events:
            for first, second in ((right, 1 - left), (1 - left, right)):  # the event as a test, in both directions
                if second < self.beta(first) - CURVE_ROUNDING:
                    return f"a type II error <= {second:.6g} at type I error {first:.6g}"
        return ""

    def power(self, event: Event) -> float:
        """1, and how far the event is below the curve."""
        left, right = event
        return 1 + max(self.beta(right) - (1 - left), self.beta(1 - left) - right)

    @property
    def lines(self) -> list[tuple[float, float]]:
        """(ε, δ) for each line of the polygon: together they are equivalent to it.

        A line of slope -e^ε below the curve is (ε, δ) with its height 1 - δ at α = 0; with a slope above -1 it is one
        below the inverse curve.
        """
        found = []
        for (alpha, beta), (width, fall) in zip(self._vertices, np.diff(self._vertices, axis=0), strict=False):
            if fall < 0:
                slope = -fall / width
                height = (beta + slope * alpha) / min(slope, 1.0)
                found.append((abs(math.log(slope)), min(1.0, max(0.0, 1 - height))))
        return found

    def bound_of(self, proof: PrivacyBounds) -> TradeoffCurve | None:
        """The curve itself, where each of its lines follows from the proof, or each point of a function does."""
        if self.function is not None and math.isfinite(mu := mu_of(proof)):
            from scipy.special import ndtr, ndtri

            alphas, betas = self._vertices.T
            if np.all(ndtr(-ndtri(alphas) - mu) >= betas - CURVE_ROUNDING):
                return self
        proved = all(delta_of(proof, epsilon) <= delta + CURVE_ROUNDING for epsilon, delta in self.lines)
        return self if proved else None

    def covered_by(self, bound: Notion) -> bool:
        if not isinstance(bound, TradeoffCurve):
            return False
        if bound.points == self.points and bound.lowered <= self.lowered:  # its polygon is what is proved
            return True
        return all(bound.delta(epsilon) <= delta + CURVE_ROUNDING for epsilon, delta in self.lines)

    @property
    def stated(self) -> Curve | list[list[float]]:
        return self.function if self.function is not None else [list(point) for point in self.points]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), self.keyword: [list(point) for point in self.points]}

    def __str__(self) -> str:
        kind = "a function" if self.function is not None else f"{len(self.points)} points"
        return f"f-DP ({kind})"


def tradeoff_of(proof: PrivacyBounds) -> TradeoffCurve:
    """The highest trade-off curve that the proof gives: that of its μ, or else of its (ε, δ) at many ε.

    Every (ε, δ) is two lines that the curve cannot fall below (Wasserman and Zhou, JASA 2010); the largest of all these
    lines is a convex polygon.
    """
    mu = mu_of(proof)
    if math.isfinite(mu) and (proof.at_delta or mu < ApproximateBound(proof.epsilon).mu):
        from scipy.special import ndtr, ndtri

        return TradeoffCurve.of(lambda alpha: float(ndtr(-ndtri(alpha) - mu)))
    known = min(proof.epsilon, LARGEST_EPSILON) if math.isfinite(proof.epsilon) else 0.0
    top = known
    while top < FARTHEST_LINE and delta_of(proof, top) > SMALLEST_ERROR:
        top = 2 * top + 1
    lines = {(0.0, 0.0)}
    for epsilon in {known, *np.linspace(0.0, top, LINES_OF_A_PROOF).tolist()}:
        height, slope = 1 - delta_of(proof, epsilon), math.exp(epsilon)
        lines |= {(-slope, height), (-1 / slope, height / slope)}
    return TradeoffCurve(tuple(_corners(lines)))


def _corners(lines: Collection[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners over [0, 1] of the largest of these lines (slope, height at 0), of which one is 0."""
    line = max(lines, key=lambda one: (one[1], one[0]))
    corners = [(0.0, line[1])]
    while flatter := [other for other in lines if other[0] > line[0]]:
        crossings = [((line[1] - other[1]) / (other[0] - line[0]), other) for other in flatter]
        alpha, following = min(crossings, key=lambda crossing: (crossing[0], -crossing[1][0]))
        if alpha >= 1:
            break
        if alpha > corners[-1][0] + CURVE_ROUNDING:  # else it is the same corner but for rounding
            corners.append((alpha, max(0.0, line[1] + line[0] * alpha)))
        line = following
    return corners if len(corners) > 1 and corners[-1][1] == 0 else [*corners, (1.0, 0.0)]


MAKERS: Mapping[str, Callable[[Any], Notion]] = {
    "rho": ZeroConcentrated, "mu": GaussianDP, "rdp": RenyiDP.of, "tradeoff": TradeoffCurve.of,
}  # fmt: skip


def only_claim(**stated: Any) -> str | None:
    """The name of the notion that is stated; None for (ε, δ) or nothing, BadInput where there are two claims."""
    given = [name for name in MAKERS if stated.get(name) is not None]
    others = [name for name in ("epsilon", "delta") if stated.get(name) is not None]
    if len(given) > 1 or (given and others):
        raise BadInput(
            f"{' and '.join([*others, *given])} are different claims; give {given[0]} alone (an argument of the "
            f"mechanism is set by bind, or --arg)"
        )
    return given[0] if given else None


def _check_number(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, Real) or not float(number) >= 0:
        raise BadInput(f"{name} must be a number >= 0, got {number!r}")


def _value(name: str, function: Curve, at: float) -> float:
    try:
        return float(function(at))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise BadInput(
            f"{name} as a function raised {type(error).__name__} at {at:g}: {error}; return a number there, which may "
            f"be math.inf, or list points"
        ) from None


def _pairs(name: str, stated: Any, form: str) -> tuple[tuple[float, float], ...]:
    """One pair of numbers, or a list of them."""
    pairs = [stated] if len(np.shape(stated)) == 1 and np.size(stated) == 2 else stated
    if len(np.shape(pairs)) != 2 or np.shape(pairs)[1] != 2:
        raise BadInput(f"{name} must be {form}, or a function of alpha, got {stated!r}")
    return tuple((first, second) for first, second in pairs)


def _least_epsilon(delta_at: Curve, delta: float) -> float:
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
