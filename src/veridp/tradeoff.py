"""f-DP: trade-off curves as claims and as what a proof gives.

A curve is a convex polygon. Each of its lines is a point (ε, δ), and together they are equivalent to it (Wasserman and
Zhou, JASA 2010), so one rule decides both ways: the polygon is proved line by line, and refuted by an event below it. A
function is claimed as the largest of many lines that touch it from below, and how far it is above them is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from veridp.conversions import Event, Events
from veridp.errors import BadInput
from veridp.notions import (
    LARGEST_EPSILON,
    ApproximateBound,
    Array,
    Curve,
    Notion,
    PrivacyBounds,
    least_epsilon,
    mu_of,
    pairs_of,
    profile_of,
    value_of,
)

CURVE_ROUNDING = 1e-12  # absolute error of a point of a trade-off curve
FARTHEST_LINE = 30.0  # the largest ε beyond the proved one at which it is asked
LINES_OF_A_PROOF = 401  # values of ε at which a proof is asked for its δ
FEW_LINES = 12  # of a trade-off curve: each is a point (ε, δ) that it implies
PROFILE_END = 1e-9  # of an ε beyond which δ is next to nothing, absolutely
SMALLEST_ERROR = 1e-12  # the smallest positive error of either type at which a function is evaluated
SMALL_ERRORS = 300  # on a geometric grid between that and 1/2, and as many near 1
EVEN_ERRORS = 200  # on an even grid between 0 and 1/2, and as many above
COARSE_ERRORS = (1e-6, 1e-3, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1 - 1e-3)  # where a function is touched first
VALUE_ROUNDING = 1e-15  # absolute error of a value of a function, and of what is computed from a few
FUNCTION_GAP = 1e-5  # by no more than this is a function above the polygon that it is claimed as, if lines suffice
POWER_SHARE = 0.01  # of the power 1 - f(α), as such a gap too: small δ follow from where that is small
MAX_LINES = 2_000  # of that polygon
LARGEST_GAP = 0.01  # beyond which a proof of the polygon says too little of the function
TOUCHING_SHARE = 1e-2  # of the distance to the next corner: how near to its point a line touches a function

Line = tuple[float, float]  # its slope, and its height at 0


@dataclass(frozen=True)
class TradeoffCurve(Notion):
    """f-DP: a test of one input against its neighbour with type I error α has a type II error of f(α) or more.

    The curve passes through the points and is linear in between. Where a function is claimed, they are the corners of
    the polygon of lines that touch it from below: what refutes the polygon refutes the function, and what proves the
    polygon proves the function but for a `gap`.
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
            return cls(pairs_of("tradeoff", stated, "points (alpha, beta)"))
        below = np.union1d(np.geomspace(SMALLEST_ERROR, 0.5, SMALL_ERRORS), np.linspace(0.0, 0.5, EVEN_ERRORS + 1))
        alphas = np.concatenate([below, 1 - below[-2::-1]])
        sampled = cls(tuple((alpha, value_of("tradeoff", stated, alpha)) for alpha in alphas.tolist()))
        polygon = cls(tuple(_corners(_lines_below(stated, sampled._vertices))), stated)
        if polygon.gap > LARGEST_GAP:
            raise BadInput(
                f"the trade-off function is up to {polygon.gap:.2g} above all lines that touch it at errors from "
                f"{SMALLEST_ERROR:g}; claim a polygon below it by points (α, β), or mu= if it is Gaussian"
            )
        return polygon

    @cached_property
    def gap(self) -> float:
        """How far the function is above the polygon at most, where one is claimed: at a corner, as it is convex."""
        if self.function is None:
            return 0.0
        return max(value_of("tradeoff", self.function, alpha) - beta for alpha, beta in self.points)

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
        return float(np.clip(min(forward.max(), backward.max()), 0.0, 1.0))

    def epsilon(self, delta: float) -> float:
        return least_epsilon(self.delta, delta)

    def raised(self, share: float) -> TradeoffCurve:
        """The curve, which has no number to raise, lowered by this much."""
        return replace(self, lowered=self.lowered + share)

    def violation(self, events: Events) -> str:
        for left, right in events:
            for first, second in ((right, 1 - left), (1 - left, right)):  # the event as a test, in both directions
                least = min(self.beta(first), float(np.interp(first, *self._vertices.T)))
                if second < least - CURVE_ROUNDING:
                    return f"a type II error <= {second:.6g} at type I error {first:.6g}"
        return ""

    def power(self, event: Event) -> float:
        """1, and how far the event is below the curve."""
        left, right = event
        return 1 + max(self.beta(right) - (1 - left), self.beta(1 - left) - right)

    @cached_property
    def lines(self) -> list[tuple[float, float]]:
        """(ε, δ) for each line of the polygon: together they are equivalent to it.

        A line of slope -e^ε below the curve is (ε, δ) with its height 1 - δ at α = 0; with a slope above -1 it is one
        below the inverse curve.
        """
        found = []
        for (alpha, beta), (width, fall) in zip(self._vertices, np.diff(self._vertices, axis=0), strict=False):
            if fall < 0:
                slope = float(-fall / width)
                height = float(beta + slope * alpha) / min(slope, 1.0)
                found.append((abs(math.log(slope)), min(1.0, max(0.0, 1 - height))))
        return found

    @cached_property
    def implied(self) -> tuple[tuple[float, float], ...]:
        """Its lines, where these are few: together they say the same."""
        lines = {(e, d if d > CURVE_ROUNDING else 0.0) for e, d in self.lines if d < 1}
        points = sorted(lines, key=lambda point: point[1])
        return tuple(points) if 0 < len(points) <= FEW_LINES else super().implied

    def bound_of(self, proof: PrivacyBounds) -> TradeoffCurve | None:
        """The curve itself, where each of its lines follows from the proof."""
        return None if self.lines_from(proof.profile, profile_of(proof)) is None else self

    def lines_from(self, known: Sequence[tuple[float, float]], delta_at: Curve) -> list[tuple[float, float]] | None:
        """The points (ε, δ) of a profile that, beside those known, imply each line; None where they do not."""
        chosen = []
        for epsilon, most in self.lines:
            if any(below <= epsilon and delta <= most + CURVE_ROUNDING for below, delta in known):
                continue
            delta = delta_at(epsilon)
            if delta > most + CURVE_ROUNDING:
                return None
            chosen.append((epsilon, delta))
        return chosen

    def covered_by(self, bound: Notion) -> bool:
        if not isinstance(bound, TradeoffCurve):
            return False
        if bound.points == self.points and bound.lowered <= self.lowered:
            return True
        return all(bound.delta(epsilon) <= delta + CURVE_ROUNDING for epsilon, delta in self.lines)

    @property
    def stated(self) -> Curve | list[list[float]]:
        return self.function if self.function is not None else [list(point) for point in self.points]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), self.keyword: [list(point) for point in self.points]}

    def __str__(self) -> str:
        if self.function is None:
            return f"f-DP ({len(self.points)} points)"
        return f"f-DP (a function, to within {_two_digits_above(self.gap)})"


def _two_digits_above(number: float) -> str:
    exponent = math.floor(math.log10(number)) - 1 if number > CURVE_ROUNDING else -13
    return f"{math.ceil(number / 10.0**exponent) * 10.0**exponent:.2g}"


def _lines_below(function: Curve, samples: Array) -> list[Line]:
    """Lines below a convex function: more and more of them, each where it is farthest above those before.

    So that they are below one that is not computed to the last digits as well, they are not above these samples of it.
    """
    lines: list[Line] = [(0.0, 0.0)]
    known: dict[float, float] = {}
    at = [(alpha, min(alpha, 1 - alpha)) for alpha in COARSE_ERRORS]
    while at and len(lines) < MAX_LINES:
        lines += [_touching(function, alpha, room) for alpha, room in at]
        at = []
        found = _corners(lines)
        corners = [-math.inf, *(alpha for alpha, _ in found), math.inf]
        for before, (alpha, beta), after in zip(corners, found, corners[2:], strict=False):
            if alpha not in known:
                known[alpha] = value_of("tradeoff", function, alpha)
            room = min(alpha - before, after - alpha)
            if known[alpha] - beta <= max(min(FUNCTION_GAP, POWER_SHARE * (1 - beta)), SMALLEST_ERROR):
                continue
            if 0 < alpha < 1 and room > SMALLEST_ERROR:
                at.append((alpha, min(room, alpha, 1 - alpha)))
            elif alpha == 0 and after > 2 * SMALLEST_ERROR:
                at.append((after / 2, after / 2))
    slopes, heights = np.array(lines).T
    above = np.max(heights[:, None] + slopes[:, None] * samples[:, 0] - samples[:, 1], axis=1)
    return list(zip(slopes.tolist(), (heights - np.maximum(above, 0.0)).tolist(), strict=True))


def _touching(function: Curve, alpha: float, room: float) -> Line:
    """A line below a convex function that nearly touches it here; `room` is how far the next corners are.

    Less its slope the function g is the same at alpha - near and alpha + near. If it is larger at alpha - 3 near and at
    alpha + 3 near, then it is smallest in between, where it is above the two lines that it follows to there. If it is
    not, as on a straight piece, then an error of the slope counts as far as the line is above 0.
    """
    near = room * TOUCHING_SHARE
    while True:
        places = [alpha - 3 * near, alpha - near, alpha + near, alpha + 3 * near]
        first, second, third, last = (value_of("tradeoff", function, place) for place in places)
        slope = min((third - second) / (places[2] - places[1]), 0.0)
        level = min(second - slope * places[1], third - slope * places[2])
        falls, rises = first - slope * places[0] - level, last - slope * places[3] - level
        if min(falls, rises) > VALUE_ROUNDING:
            return slope, level - falls * rises / (falls + rises) - VALUE_ROUNDING
        if 6 * near > room:
            reach = alpha + (min(1.0, -level / slope) if slope else 1.0)
            return slope, level - VALUE_ROUNDING * (1 + reach / near)
        near *= 2


def tradeoff_of(proof: PrivacyBounds) -> TradeoffCurve:
    """The highest trade-off curve that the proof gives: that of its μ, or else of its (ε, δ) at many ε.

    Every (ε, δ) is two lines that the curve cannot fall below (Wasserman and Zhou, JASA 2010); the largest of all these
    lines is a convex polygon.
    """
    mu = mu_of(proof)
    if math.isfinite(mu) and (proof.at_delta or mu < ApproximateBound(proof.epsilon).mu):
        from scipy.special import ndtr, ndtri

        return TradeoffCurve.of(lambda alpha: float(ndtr(-ndtri(alpha) - mu)))
    delta_at = profile_of(proof)
    known = min(proof.epsilon, LARGEST_EPSILON) if math.isfinite(proof.epsilon) else 0.0
    top = known
    while top < FARTHEST_LINE and delta_at(top) > SMALLEST_ERROR:
        top = 2 * top + 1
    low = 0.0 if top > known else top
    while top - low > PROFILE_END:  # no line beyond tells more
        low, top = (low, middle) if delta_at(middle := (low + top) / 2) <= SMALLEST_ERROR else (middle, top)
    lines = [(0.0, 0.0)]
    for epsilon in sorted({known, *np.linspace(0.0, top, LINES_OF_A_PROOF).tolist()}):
        height, slope = 1 - delta_at(epsilon), math.exp(epsilon)
        lines += [(-slope, height), (-1 / slope, height / slope)]
    return TradeoffCurve(tuple(_corners(lines)))


def _corners(lines: Collection[Line]) -> list[tuple[float, float]]:
    """The corners over [0, 1] of the largest of these lines (slope, height at 0), of which one is 0."""
    kept: list[tuple[float, float]] = []  # by slope, each the largest from its corner on
    corners: list[float] = []
    for slope, height in sorted(lines):
        alpha = 0.0
        while kept:
            steeper, above = kept[-1]
            alpha = (above - height) / (slope - steeper) if slope > steeper else -math.inf
            if alpha > corners[-1] + CURVE_ROUNDING:  # else it is the same corner but for rounding
                break
            kept.pop()
            corners.pop()
        corners.append(max(alpha, 0.0) if kept else 0.0)
        kept.append((slope, height))
    found = [(at, max(0.0, height + slope * at)) for at, (slope, height) in zip(corners, kept, strict=True) if at < 1]
    return found if len(found) > 1 and found[-1][1] == 0 else [*found, (1.0, 0.0)]
