"""Notions of privacy: conversions against closed forms, integrals and published numbers; events; proofs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from veridp.claim import only_claim
from veridp.conversions import tradeoff_divergences
from veridp.errors import BadInput
from veridp.notions import (
    IMPLIED_DELTAS,
    ApproximateBound,
    GaussianDP,
    Notion,
    RenyiDP,
    ZeroConcentrated,
    mu_of,
    mu_shown,
    profile_of,
    rho_of,
    rho_shown,
)
from veridp.tradeoff import TradeoffCurve, tradeoff_of

SIGMA = 3.7306316348  # the least scale of normal noise for (1, 1e-5), sensitivity 1
POLYGON = [(0, 1), (0.1, 0.5), (0.5, 0.1), (1, 0)]


def gaussian_curve(mu: float) -> Callable[[float], float]:
    return lambda alpha: float(ndtr(-ndtri(alpha) - mu))


NOTIONS: list[Notion] = [
    ZeroConcentrated(0.3),
    GaussianDP(0.8),
    RenyiDP.of((4, 0.5)),
    RenyiDP.of(lambda alpha: 0.3 * alpha),
    TradeoffCurve.of(POLYGON),
    TradeoffCurve.of(gaussian_curve(0.8)),
]


@dataclass(frozen=True)
class FakeProof:
    """What a proof knows."""

    epsilon: float = math.inf
    at_delta: float = 0.0
    rho: float = math.inf
    mu: float = math.inf
    profile: tuple[tuple[float, float], ...] = ()

    def delta(self, epsilon: float) -> float:
        return 1.0

    def rdp(self, alpha: float) -> float:
        return alpha * self.rho


# --------------------------------------------------------------------------------------------------------- conversions


def test_gaussian_dp_is_the_gaussian_mechanism() -> None:
    notion = GaussianDP(1 / SIGMA)
    assert notion.delta(1.0) == pytest.approx(1e-5, rel=1e-9)
    assert notion.epsilon(1e-5) == pytest.approx(1.0, rel=1e-9)
    classical = GaussianDP(1 / 4.8448052626)
    assert classical.epsilon(1e-5) == pytest.approx(0.7509769569, abs=1e-9)
    integral, _ = quad(lambda x: max(0.0, norm.pdf(x, 0.8) - math.exp(0.5) * norm.pdf(x)), -10, 12, epsabs=1e-13)
    assert GaussianDP(0.8).delta(0.5) == pytest.approx(integral, abs=1e-10)
    assert GaussianDP(0.1).delta(3.0) > 0.0  # far out in the tail


def test_zcdp_converts_at_the_best_order() -> None:
    rho = 1 / (2 * SIGMA**2)
    assert rho == pytest.approx(0.0359257023, abs=1e-10)
    notion = ZeroConcentrated(rho)
    orders = 1 + np.geomspace(1e-3, 1e4, 200_000)
    epsilons = rho * orders - (math.log(1e-5) + np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    assert notion.epsilon(1e-5) == pytest.approx(epsilons.min(), rel=1e-8)
    assert GaussianDP(1 / SIGMA).epsilon(1e-5) < notion.epsilon(1e-5) < rho + 2 * math.sqrt(rho * math.log(1e5))
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        logs = (orders - 1) * (0.5 * orders - epsilon + np.log1p(-1 / orders)) - np.log(orders)
        assert ZeroConcentrated(0.5).delta(epsilon) == pytest.approx(math.exp(logs.min()), rel=1e-6)


def test_rdp_converts_by_its_formula() -> None:
    epsilon = 0.3 - (math.log(1e-6) + math.log(2)) / 1 + math.log(1 / 2)
    assert RenyiDP.of((2, 0.3)).epsilon(1e-6) == pytest.approx(epsilon)
    assert RenyiDP.of([(2, 0.3), (8, 0.5)]).epsilon(1e-6) < epsilon


def test_a_trade_off_curve_converts_by_its_conjugate() -> None:
    curve, exact = TradeoffCurve.of(gaussian_curve(1.0)), GaussianDP(1.0)
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        assert exact.delta(epsilon) - 1e-12 <= curve.delta(epsilon) <= exact.delta(epsilon) + 1e-5
    corner = 1 / (1 + math.e)
    pure = TradeoffCurve.of([(0, 1), (corner, corner), (1, 0)])
    assert pure.delta(1.0) == pytest.approx(0.0, abs=1e-15)
    assert pure.delta(0.5) == pytest.approx(ApproximateBound(1.0).delta(0.5))
    assert pure.lines == [pytest.approx((1.0, 0.0), abs=1e-12)] * 2


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_epsilon_and_delta_are_inverse(notion: Notion) -> None:
    for delta in (1e-6, 1e-3, 0.05):
        epsilon = notion.epsilon(delta)
        assert notion.delta(epsilon) <= delta * (1 + 1e-6)
        assert notion.delta(epsilon * (1 - 1e-4)) > delta


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_implied_points_lie_on_the_curve_and_a_raised_notion_implies_less(notion: Notion) -> None:
    polygon = isinstance(notion, TradeoffCurve) and notion.function is None
    assert notion.implied[0][1] == (0.0 if polygon else IMPLIED_DELTAS[0])
    raised = notion.raised(0.01)
    for epsilon, delta in notion.implied:
        assert notion.delta(epsilon) == pytest.approx(delta, rel=1e-6, abs=1e-12)
        assert raised.delta(epsilon) > delta * (1 - 1e-6)


def test_a_notion_without_limits_implies_nothing_and_none_at_all_implies_everything() -> None:
    assert ZeroConcentrated(math.inf).implied == ((math.inf, 1e-6),)
    for notion in (ZeroConcentrated(0.0), GaussianDP(0.0)):
        assert notion.implied == ((0.0, 0.0),)


# -------------------------------------------------------------------------------------------------------------- events


@given(threshold=st.floats(-6, 7), mu=st.floats(0.01, 3))
def test_events_of_normal_noise_keep_its_notions(threshold: float, mu: float) -> None:
    left, right = float(norm.sf(threshold, mu)) * (1 - 1e-10), float(norm.sf(threshold)) * (1 + 1e-10)
    for notion in (GaussianDP(mu), ZeroConcentrated(mu**2 / 2), RenyiDP.of((3, 1.5 * mu**2))):
        assert right >= left or notion.raised(1e-9).violation([(left, right)]) == ""


def test_an_event_shows_the_number_that_it_takes() -> None:
    left, right = float(norm.sf(0.5, 1.0)), float(norm.sf(0.5))
    assert GaussianDP(0.999999).violation([(left, right)]) == "μ >= 1"
    assert TradeoffCurve.of(gaussian_curve(0.999)).violation([(left, right)]).startswith("a type II error <= 0.308538")
    assert TradeoffCurve.of(gaussian_curve(1.0)).violation([(left, right)]) == ""
    assert ZeroConcentrated(0.3).violation([(left, right)]).startswith("ρ >= 0.309")  # near that of order 1, KL
    by_hand = math.log(left**2 / right + (1 - left) ** 2 / (1 - right))
    assert RenyiDP.of((2, 0.5)).violation([(left, right)]) == f"a Rényi divergence >= {by_hand:.6g} at order 2"
    for notion in NOTIONS:
        assert notion.violation([(0.1, 0.0)]) != ""


def test_binary_divergences_take_the_worse_direction() -> None:
    order = np.array([2.0])
    worse = math.log(0.01**2 / 0.5 + 0.99**2 / 0.5), math.log(0.5**2 / 0.01 + 0.5**2 / 0.99)
    assert tradeoff_divergences([(0.5, 0.01)], order)[0] == pytest.approx(max(worse))
    assert math.isinf(tradeoff_divergences([(1.0, 0.5)], order)[0])
    assert tradeoff_divergences([(0.0, 0.0)], order)[0] == 0.0


@given(
    masses=st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=2, max_size=7),
    slack=st.lists(st.floats(0, 0.02), min_size=7, max_size=7),
    order=st.floats(1.01, 20),
)
def test_events_show_no_more_than_the_divergence_and_all_of_it_where_they_are_all_known(
    masses: list[tuple[float, float]], slack: list[float], order: float
) -> None:
    p, q = (np.array(side) / sum(side) for side in zip(*masses, strict=True))
    ways = [(p, q), (q, p)]
    truth = max(math.log(np.sum(a**order * b ** (1 - order))) / (order - 1) for a, b in ways)
    likely = np.argsort(-p / q)
    exact = list(zip(np.cumsum(p[likely])[:-1].tolist(), np.cumsum(q[likely])[:-1].tolist(), strict=True))
    loose = [(max(0.0, a - s), min(1.0, b + s)) for (a, b), s in zip(exact, slack, strict=False)]
    at = np.array([order])
    (known,), (bounded,), (one,) = (tradeoff_divergences(events, at) for events in (exact, loose, exact[:1]))
    assert known == pytest.approx(truth, rel=1e-9, abs=1e-9)
    assert bounded <= truth + 1e-9
    assert one <= truth + 1e-9
    assert tradeoff_divergences([*exact, (0.1, 0.3), (0.0, 0.0), (1.0, 1.0)], at)[0] == pytest.approx(known, abs=1e-9)


def test_many_events_show_nearly_all_of_rho_and_one_does_not() -> None:
    events = [(norm.sf(t - 1), norm.sf(t)) for t in np.linspace(-3, 8, 200)]
    assert 0.499 < rho_shown(events)[0] < 0.5
    assert max(rho_shown([event])[0] for event in events) < 0.47
    assert mu_shown(events) == pytest.approx(1.0, abs=1e-9)
    assert ZeroConcentrated(0.45).violation(events).startswith("ρ >= 0.499")
    assert ZeroConcentrated(0.5).violation(events) == ""


# -------------------------------------------------------------------------------------------------------------- proofs


@given(epsilon=st.floats(0.01, 6), alpha=st.floats(1.01, 50))
def test_a_pure_bound_implies_what_randomised_response_has(epsilon: float, alpha: float) -> None:
    high = 1 / (1 + math.exp(-epsilon))
    bound = ApproximateBound(epsilon)
    (divergence,) = tradeoff_divergences([(high, 1 - high)], np.array([alpha]))
    assert bound.rdp(alpha) == pytest.approx(min(epsilon, divergence), rel=1e-6, abs=1e-9)
    assert bound.rdp(alpha) <= alpha * bound.rho * (1 + 1e-9)
    assert bound.mu == pytest.approx(2 * norm.ppf(high), rel=1e-9)
    assert gaussian_curve(bound.mu)(1 - high) == pytest.approx(1 - high, rel=1e-9)  # the corner of its curve


def test_an_approximate_bound_implies_no_other_notion() -> None:
    bound = ApproximateBound(0.1, 1e-9)
    assert bound.rho == bound.mu == bound.rdp(2.0) == math.inf
    for notion in NOTIONS[:4]:
        assert notion.bound_of(bound) is None


def test_a_proof_is_read_in_its_best_notion() -> None:
    proof = FakeProof(epsilon=1.0, at_delta=1e-5, mu=1 / SIGMA)
    assert mu_of(proof) == 1 / SIGMA
    assert rho_of(proof) == pytest.approx(0.0359257023, abs=1e-10)
    assert profile_of(proof)(1.0) == pytest.approx(1e-5, rel=1e-9)
    assert profile_of(proof)(0.5) == pytest.approx(GaussianDP(1 / SIGMA).delta(0.5))
    assert profile_of(FakeProof(epsilon=1.0))(0.5) == pytest.approx(ApproximateBound(1.0).delta(0.5))


@pytest.mark.parametrize(
    ("notion", "enough", "too_little"),
    [
        (ZeroConcentrated(0.5), FakeProof(rho=0.5), FakeProof(rho=0.51)),
        (ZeroConcentrated(0.5), FakeProof(mu=1.0), FakeProof(mu=1.01)),
        (ZeroConcentrated(0.5), FakeProof(epsilon=1.0), FakeProof(epsilon=1.01)),
        (GaussianDP(1.0), FakeProof(mu=1.0), FakeProof(rho=0.1)),
        (GaussianDP(1.0), FakeProof(epsilon=0.8), FakeProof(epsilon=0.8, at_delta=1e-12)),
        (RenyiDP.of((2, 0.5)), FakeProof(rho=0.25), FakeProof(rho=0.26)),
        (RenyiDP.of(lambda alpha: alpha / 2), FakeProof(mu=1.0), FakeProof(mu=1.01)),
        (TradeoffCurve.of(POLYGON), FakeProof(epsilon=0.8), FakeProof(epsilon=0.9)),
        (TradeoffCurve.of(POLYGON), FakeProof(epsilon=0.8), FakeProof(mu=0.3)),  # it starts at 1: no δ is left
        (TradeoffCurve.of([(0, 0.9), (0.9, 0)]), FakeProof(mu=0.25), FakeProof(mu=0.26)),
        (TradeoffCurve.of([(0, 0.9), (0.9, 0)]), FakeProof(0.0, 0.1), FakeProof(0.0, 0.11)),
        (TradeoffCurve.of(gaussian_curve(1.0)).raised(1e-9), FakeProof(mu=0.99), FakeProof(mu=1.01)),
    ],
    ids=str,
)
def test_a_bound_in_the_notion_covers_it(notion: Notion, enough: FakeProof, too_little: FakeProof) -> None:
    bound = notion.bound_of(enough)
    assert bound is not None
    assert notion.covered_by(bound)
    weak = notion.bound_of(too_little)
    assert weak is None or not notion.covered_by(weak)


def test_the_trade_off_curve_of_a_proof_is_the_best_that_follows() -> None:
    corner = 1 / (1 + math.exp(1))
    assert np.allclose(tradeoff_of(FakeProof(epsilon=1.0)).points, [(0, 1), (corner, corner), (1, 0)], atol=1e-12)
    lost = 0.9 / (1 + math.exp(1))
    assert np.allclose(tradeoff_of(FakeProof(1.0, 0.1)).points, [(0, 0.9), (lost, lost), (0.9, 0)], atol=1e-12)
    assert tradeoff_of(FakeProof(epsilon=math.inf)).points == ((0.0, 0.0), (1.0, 0.0))  # nothing is proved
    normal = tradeoff_of(FakeProof(1.0, 1e-5, mu=0.3))
    assert normal.beta(0.2) == pytest.approx(gaussian_curve(0.3)(0.2), abs=1e-12)


@pytest.mark.parametrize(
    ("function", "corners", "gap"),
    [
        (gaussian_curve(1.0), 300, 1.001e-5),
        (lambda alpha: max(0.0, 0.9 - math.e * alpha, (0.9 - alpha) / math.e), 3, 1e-13),
        (TradeoffCurve.of(POLYGON).beta, 3, 1e-12),
        (lambda alpha: (1 - math.sqrt(alpha)) ** 2, 400, 1.001e-5),  # as steep as can be at 0
    ],
    ids=["normal", "one point", "points", "steep"],
)
def test_a_function_is_claimed_as_lines_that_touch_it_from_below(
    function: Callable[[float], float], corners: int, gap: float
) -> None:
    claimed = TradeoffCurve.of(function)
    polygon = TradeoffCurve(claimed.points)
    assert corners <= len(polygon.points) <= 500
    tried = [*np.linspace(0, 1, 1001).tolist(), *np.geomspace(1e-13, 0.1, 300).tolist()]
    below = [function(alpha) - polygon.beta(alpha) for alpha in tried]
    assert min(below) > -1e-14
    assert max(below) <= claimed.gap * (1 + 1e-9) + 1e-15
    assert claimed.gap < gap


def test_a_function_that_its_lines_say_little_of_is_refused_with_a_remedy() -> None:
    """That of μ = 6 falls from 1 to 0.85 before an error of 1e-12, so its lines are far below it at 0."""
    with pytest.raises(BadInput, match=r"up to 0\.1.*claim a polygon below it by points"):
        TradeoffCurve.of(gaussian_curve(6.0))
    below = TradeoffCurve.of([(0, 0.8), (1e-10, 0), (1, 0)])
    assert all(below.beta(alpha) <= gaussian_curve(6.0)(alpha) for alpha in np.geomspace(1e-15, 0.9, 200))
    assert below.bound_of(FakeProof(mu=6.0)) is not None


@pytest.mark.parametrize("epsilon", [0.1, 0.731, 1.0, 2.5, 5.0])
def test_no_line_is_above_a_function_at_its_corner(epsilon: float) -> None:
    """Wherever it is: a search for the point where a line touches misses corners by a little."""
    at = 1 / (1 + math.exp(epsilon))
    for corner in (at, 0.0025 * (1 + 1e-7), 0.1 + 1e-9):
        slope = (1 - corner) / corner

        def curve(alpha: float, corner: float = corner, slope: float = slope) -> float:
            return max(1 - slope * alpha, (1 - alpha) / slope)

        assert 0 <= curve(corner) - float(np.interp(corner, *np.array(TradeoffCurve.of(curve).points).T)) < 1e-12


def test_a_function_in_twelve_digits_is_not_below_its_lines() -> None:
    def curve(alpha: float) -> float:
        return round(gaussian_curve(0.5)(alpha), 12)

    polygon = TradeoffCurve(TradeoffCurve.of(curve).points)
    assert max(polygon.beta(alpha) - curve(alpha) for alpha in np.linspace(0, 1, 2001).tolist()) < 1e-9


def test_a_function_of_chords_of_the_true_curve_is_neither_covered_nor_on_it() -> None:
    """It is true at the points through which the chords go, be it all at which a function is evaluated, not between."""
    true, evaluated = gaussian_curve(1.0), set[float]()

    def perfect(alpha: float) -> float:
        evaluated.add(alpha)
        return 1 - alpha

    TradeoffCurve.of(perfect)
    for knots in ([0.0, 1e-4, 0.2, 0.3, 0.8, 1.0], sorted(evaluated)):
        chords = functools.partial(np.interp, xp=knots, fp=[true(alpha) for alpha in knots])
        assert TradeoffCurve.of(chords).raised(1e-9).bound_of(FakeProof(mu=1.0)) is None
    assert TradeoffCurve.of(true).raised(1e-9).bound_of(FakeProof(mu=1.0)) is not None


def test_a_divergence_at_a_higher_order_counts() -> None:
    assert RenyiDP.of((2, 0.5)).covered_by(RenyiDP.of((3, 0.5)))
    assert not RenyiDP.of((3, 0.5)).covered_by(RenyiDP.of((2, 0.5)))
    assert not ZeroConcentrated(1.0).covered_by(GaussianDP(0.1))


# ------------------------------------------------------------------------------------------------------------- stating


def test_a_notion_prints_as_the_field_writes_it() -> None:
    names = ["0.3-zCDP", "0.8-GDP", "(4, 0.5)-RDP", "RDP at 73 orders from 1.25 to 1024", "f-DP (4 points)"]
    assert [str(notion) for notion in NOTIONS[:5]] == names
    assert ZeroConcentrated(0.3).to_dict() == {
        "name": "0.3-zCDP", "rho": 0.3, "conversion": ZeroConcentrated.conversion,
    }  # fmt: skip
    assert len(NOTIONS[5].to_dict()["tradeoff"]) > 300


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ZeroConcentrated(-1.0), "rho must be a number >= 0, got -1.0"),
        (lambda: GaussianDP(math.nan), "mu must be a number >= 0, got nan"),
        (lambda: RenyiDP.of((1, 0.5)), "order of rdp must be finite and > 1, got 1"),
        (lambda: RenyiDP.of(0.5), r"rdp must be \(alpha, epsilon\), or a function of alpha, got 0.5"),
        (lambda: TradeoffCurve.of([(0.1, 0.5), (1, 0)]), r"starts at α = 0 .* add \(0, 1 - δ\)"),
        (lambda: TradeoffCurve.of([(0, 1), (0.5, 0.6), (1, 0)]), r"\(0.5, 0.6\) is on no trade-off curve"),
        (lambda: TradeoffCurve.of([(0, 0.8), (0.3, 0.65), (0.4, 0.1), (1, 0)]), "falls and is convex"),
        (lambda: only_claim(rho=1, mu=2), "rho and mu are different claims; give rho alone"),
        (lambda: only_claim(epsilon=1, rho=2), "epsilon and rho are different claims; give rho alone"),
    ],
)
def test_what_is_no_notion_is_an_error(make: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()
