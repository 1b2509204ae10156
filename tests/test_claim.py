"""The words of a judgement: laws of Claim, Interval, Witness and Verdict."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridp.claim import CLAIM_TOLERANCE, SMALLEST_LOG, Claim, Interval, Witness
from veridp.errors import BadInput
from veridp.notions import IMPLIED_DELTAS, GaussianDP, ZeroConcentrated
from veridp.verdict import Evidence, Standing, Verdict

probabilities = st.floats(0, 1)
intervals = st.tuples(probabilities, probabilities).map(lambda ends: Interval(min(ends), max(ends)))
claims = st.builds(Claim, st.floats(0, 50), probabilities)


def constant(value: float, _delta: float) -> float:
    return value


def witness(left: Interval | float, right: Interval | float, **more: Any) -> Witness:
    exact = lambda p: p if isinstance(p, Interval) else Interval.exactly(p)  # noqa: E731
    return Witness([1.0], [2.0], "the answer is below 0", exact(left), exact(right), **more)


# --------------------------------------------------------------------------------------------------------------- Claim


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, -math.inf])
def test_a_claim_needs_a_budget(epsilon: float) -> None:
    with pytest.raises(BadInput, match=r"epsilon must be a number >= 0, got "):
        Claim(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.1, math.nan])
def test_a_claim_needs_a_probability(delta: float) -> None:
    with pytest.raises(BadInput, match=r"delta must be in \[0, 1\], got "):
        Claim(1.0, delta)


def test_a_claim_says_what_it_is() -> None:
    assert str(Claim(0.1)) == "0.1-DP"
    assert str(Claim(0.5, 1e-5)) == "(0.5, 1e-05)-DP"
    assert Claim(0.1) == Claim(0.1, 0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Claim(0.1).epsilon = 0.2  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------ other notions


@dataclasses.dataclass(frozen=True)
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


def test_a_claim_in_another_notion_has_an_implied_point() -> None:
    claim = Claim.of(GaussianDP(1 / 3.7306316348))
    assert str(claim) == "0.268051-GDP"
    assert claim.delta == IMPLIED_DELTAS[0]
    assert any(point == pytest.approx((1.0, 1e-5), rel=1e-9) for point in _points(claim))
    assert claim.to_dict()["notion"]["mu"] == 1 / 3.7306316348
    assert Claim.stated(**claim.keywords) == claim
    assert Claim.stated(1.0, 1e-5).to_dict() == {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(BadInput, match="no claim; give epsilon, rho, mu, rdp or tradeoff"):
        Claim.stated()


def _points(claim: Claim) -> list[tuple[float, float]]:
    return [(point.epsilon, point.delta) for point in claim.implied]


def test_any_implied_point_refutes_and_none_proves() -> None:
    claim, same = Claim.of(GaussianDP(1.0)), GaussianDP(1.0)
    assert not claim.refuted_by(same.epsilon)
    assert not claim.refuted_by_delta(same.delta)
    assert claim.refuted_by(lambda delta: 1.01 * same.epsilon(delta) if delta == 0.1 else 0.0)
    assert claim.refuted_by_delta(GaussianDP(1.000001).delta)
    assert claim.refuted_by(GaussianDP(1.000001).epsilon)
    assert not claim.covers(claim.epsilon, claim.delta)
    assert not claim.excludes(claim.epsilon)
    assert claim.excludes(claim.epsilon * 1.001)


def test_a_proof_covers_a_claim_in_its_notion() -> None:
    gaussian = FakeProof(epsilon=4.8865, at_delta=1e-6, rho=0.5, mu=1.0)
    for covered, not_covered in (
        (Claim.stated(mu=1.0), Claim.stated(mu=0.999)),
        (Claim.stated(rho=0.5), Claim.stated(rho=0.499)),
        (Claim.stated(rdp=(4, 2.0)), Claim.stated(rdp=(4, 1.99))),
        (Claim(4.9, 1e-6), Claim(4.9, 1e-7)),
    ):
        assert covered.covers_proof(gaussian)
        assert not not_covered.covers_proof(gaussian)
    assert Claim.stated(rho=0.5).covers(1.0)
    assert not Claim.stated(rho=0.499).covers(1.0)


def test_an_event_may_show_more_than_implied_points() -> None:
    left, right = 0.6914624612740131, 0.3085375387259869  # a normal variable above 1/2, with mean 1 and with mean 0
    claim = Claim.stated(rho=0.3)
    assert not claim.refuted_by(lambda delta: witness(left, right).epsilon(delta).lower)
    assert witness(left, right).refutes(claim)
    assert claim.violation(witness(left, right)).startswith("ρ >= 0.309")
    assert not witness(left, right).refutes(Claim.stated(rho=0.5))
    assert witness(left, right).refutes(Claim.stated(mu=0.999999))
    assert not witness(Interval.of_probability(left), Interval.of_probability(right)).refutes(Claim.stated(mu=1.0))
    assert not witness(Interval(0.2, 0.8), Interval(0.3, 0.9)).refutes(Claim.stated(mu=0.0))


# ------------------------------------------------------------------------------------------------ the one rule


costs = st.one_of(st.floats(0, 60), st.just(math.inf))
nudges = st.floats(-3 * CLAIM_TOLERANCE, 3 * CLAIM_TOLERANCE)  # the neighbourhood in which a sloppy rule would fail


@given(claim=claims, upper=costs, lower=costs, nudge=nudges)
def test_no_interval_is_both_covered_and_refuted(claim: Claim, upper: float, lower: float, nudge: float) -> None:
    lower = min(lower, upper)
    for low, high in ((lower, upper), (claim.epsilon * (1 + nudge),) * 2):
        assert not (claim.covers(high, claim.delta) and claim.refuted_by(partial(constant, low)))


@given(claim=claims, nudge=nudges)
def test_a_cost_that_is_known_is_either_covered_or_refuted(claim: Claim, nudge: float) -> None:
    cost = claim.epsilon * (1 + nudge)
    assert claim.covers(cost, claim.delta) != claim.refuted_by(lambda _: cost)
    leak = min(1.0, claim.delta * (1 + nudge))
    assert claim.covers(claim.epsilon, leak) != claim.refuted_by_delta(lambda _: leak)


@given(claim=claims, bounds=st.tuples(costs, costs), nudge=nudges)
def test_more_evidence_refutes_what_less_does(claim: Claim, bounds: tuple[float, float], nudge: float) -> None:
    for less, more in (sorted(bounds), sorted((claim.epsilon, claim.epsilon * (1 + nudge)))):
        assert claim.refuted_by(partial(constant, less)) <= claim.refuted_by(partial(constant, more))
        assert claim.covers(less) >= claim.covers(more)


def test_the_tolerance_is_the_rounding_of_constants_and_no_more() -> None:
    assert Claim(1.0).covers(1.0000000000000002)
    assert not Claim(1.0).refuted_by(lambda _: 1.0000000000000002)
    assert Claim(1.0).refuted_by(lambda _: 1.00000001)
    assert not Claim(1.0).covers(1.00000001)
    assert Claim(0.0).refuted_by(lambda _: 1e-300)
    assert not Claim(1.0).covers(math.nan)
    assert not Claim(1.0).refuted_by(lambda _: math.nan)
    assert not Claim(1.0, 1e-6).covers(0.5, 1.1e-6)
    assert Claim(0.1, 1e-6).covers(sum([0.01] * 10), sum([1e-7] * 10))


@given(p=st.floats(1e-12, 1), q=st.floats(1e-12, 1), delta=probabilities)
def test_a_cost_that_holds_between_two_inputs_is_refuted_by_no_event(p: float, q: float, delta: float) -> None:
    """The least ε that one event allows at this δ is covered by the claim of it, so the event must not refute it."""
    least = max(0.0, math.log((p - delta) / q)) if p > delta else 0.0
    assert not witness(Interval.of_probability(p), Interval.of_probability(q)).refutes(Claim(least, delta))


def comparisons_with_a_claim(source: str) -> Iterator[int]:
    """The lines that order a number against ε or δ of a claim or a budget, or against a name set from one.

    A comparison with literals alone, such as 0 < budget.delta < 1, judges nothing.
    """
    for scope in ast.walk(ast.parse(source)):
        if not isinstance(scope, ast.FunctionDef | ast.Lambda | ast.Module):
            continue
        named = {
            name.id
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign | ast.NamedExpr) and scope.__class__ is not ast.Module
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and _is_of_claim(node.value)
        }
        for node in ast.walk(scope):
            if isinstance(node, ast.Compare) and any(
                isinstance(order, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for order in node.ops
            ):
                parts = [part for side in (node.left, *node.comparators) for part in _terms(side)]
                claimed = [_is_of_claim(part) or (isinstance(part, ast.Name) and part.id in named) for part in parts]
                if any(claimed) and not all(
                    c or isinstance(p, ast.Constant) for c, p in zip(claimed, parts, strict=True)
                ):
                    yield node.lineno


def _terms(side: ast.expr) -> Iterator[ast.expr]:
    """The operands of arithmetic: those of calls are other numbers."""
    if isinstance(side, ast.BinOp):
        yield from (*_terms(side.left), *_terms(side.right))
    else:
        yield side


def _is_of_claim(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Attribute) and node.attr in ("epsilon", "delta")):
        return False
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name in ("claim", "claimed", "budget", "tolerated")


@pytest.mark.parametrize(
    "stray",
    [
        "proof.epsilon <= claim.epsilon",
        "found.epsilon > self.claim.epsilon * (1 + SLACK) + SLACK",
        "refuted = 1 + verdict.claim.delta < delta",
        "def f(claim):\n    most = claim.epsilon\n    return x > most",
    ],
)
def test_a_stray_comparison_would_be_noticed(stray: str) -> None:
    assert list(comparisons_with_a_claim(stray))


def test_comparisons_with_a_claim_are_made_in_one_place() -> None:
    source = Path(__file__).parents[1] / "src"
    stray = {
        f"{file.relative_to(source)}:{line}"
        for file in source.rglob("*.py")
        if file.name != "claim.py"
        for line in comparisons_with_a_claim(file.read_text(encoding="utf-8"))
    }
    assert stray == set()
    assert len(list(comparisons_with_a_claim((source / "veridp" / "claim.py").read_text(encoding="utf-8")))) >= 3


# ------------------------------------------------------------------------------------------------------------ Interval


def test_a_computed_probability_leaves_room_for_rounding() -> None:
    for p in (0.25, 1e-200, 1.0):
        assert p in Interval.of_log_probability(math.log(p))
        assert Interval.of_log_probability(math.log(p)).upper <= 1
    assert Interval.of_log_probability(-math.inf) == Interval.exactly(0.0)
    underflow = witness(Interval.of_log_probability(SMALLEST_LOG + 1), Interval.of_log_probability(-800.0))
    assert underflow.epsilon().lower == pytest.approx(1.0)  # the true ratio is e^101: floats show that much and no more
    assert math.isinf(underflow.epsilon().upper)


def test_an_interval_has_its_ends_in_order() -> None:
    assert 0.5 in Interval(0.5, 1.0)
    assert 1.1 not in Interval(0.5, 1.0)
    for lower, upper in ((1.0, 0.5), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(BadInput, match="must not exceed its upper end"):
            Interval(lower, upper)


def test_an_interval_of_one_point_prints_as_a_number() -> None:
    assert str(Interval.exactly(0.25)) == "0.25"
    assert str(Interval(0.25, math.inf)) == "[0.25, ∞]"


# ------------------------------------------------------------------------------------------------------------- Witness


def test_a_witness_tells_the_log_ratio() -> None:
    told = witness(0.5, 0.25).epsilon()
    assert told.lower < math.log(2) < told.upper
    assert told.upper - told.lower < 4e-15
    assert 0.0 in witness(0.5, 0.25).epsilon(delta=0.25)
    bounds = witness(Interval(0.4, 0.6), Interval(0.1, 0.2)).epsilon()
    assert bounds.lower == pytest.approx(math.log(2))
    assert bounds.upper == pytest.approx(math.log(6))


@given(right=st.floats(1e-300, 1.0), loss=st.floats(0.0, 5.0))
def test_rounding_alone_refutes_no_claim(right: float, loss: float) -> None:
    with mpmath.workdps(40):
        left = float(mpmath.exp(loss) * right)
        true = mpmath.log(mpmath.mpf(left) / right)
        bounds = witness(min(left, 1.0), right).epsilon()
        if left <= 1:
            assert bounds.lower <= true <= bounds.upper


def test_an_impossible_event_on_the_right_refutes_everything() -> None:
    assert witness(0.1, 0.0).epsilon() == Interval.exactly(math.inf)
    assert witness(0.1, 0.0).refutes(Claim(1e9))
    assert not witness(0.1, 0.0).refutes(Claim(math.inf))
    assert not witness(0.1, 0.0).refutes(Claim(1.0, delta=0.1))
    assert not witness(0.0, 0.0).refutes(Claim(0.0))


def test_tiny_probabilities_do_not_overflow() -> None:
    assert witness(1.0, 5e-324).epsilon().lower == pytest.approx(744.44, abs=0.01)


@given(left=intervals, right=intervals, claim=claims)
def test_a_witness_refutes_only_what_no_values_in_its_intervals_can_save(
    left: Interval, right: Interval, claim: Claim
) -> None:
    refuted = witness(left, right).refutes(claim)
    allowed = math.exp(claim.epsilon) * right.upper + claim.delta
    if abs(left.lower - allowed) > 1e-9 * (1 + allowed):
        assert refuted == (left.lower > allowed)


@given(left=intervals, right=intervals, delta=probabilities)
def test_the_bounds_of_a_witness_are_in_order_and_fall_with_delta(
    left: Interval, right: Interval, delta: float
) -> None:
    bounds = witness(left, right).epsilon(delta)
    assert bounds.lower <= bounds.upper
    assert bounds.lower <= witness(left, right).epsilon().lower


@given(left=intervals, right=intervals, epsilon=st.floats(0, 20))
def test_a_stronger_claim_is_refuted_where_a_weaker_one_is(left: Interval, right: Interval, epsilon: float) -> None:
    if witness(left, right).refutes(Claim(epsilon, 0.01)):
        assert witness(left, right).refutes(Claim(epsilon / 2, 0.01))
        assert witness(left, right).refutes(Claim(epsilon, 0.0))


def test_a_witness_must_make_sense() -> None:
    with pytest.raises(BadInput, match=r"right_probability must be in \[0, 1\], got 1.5"):
        witness(0.5, 1.5)
    with pytest.raises(BadInput, match=r"left_probability must be in \[0, 1\], got -0\.5"):
        witness(-0.5, 0.5)
    for confidence in (0.0, 1.1, math.nan):
        with pytest.raises(BadInput, match="confidence"):
            witness(0.5, 0.5, confidence=confidence)


def test_a_witness_reads_as_a_sentence() -> None:
    assert str(witness(0.5, Interval(0.1, 0.2))) == (
        "the answer is below 0: probability 0.5 on [1.0], [0.1, 0.2] on [2.0]"
    )


# ------------------------------------------------------------------------------------------------------------- Verdict


def test_a_refutation_needs_a_witness_that_refutes() -> None:
    claim, bounds = Claim(0.1), Interval(math.log(2), math.inf)
    verdict = Verdict(Standing.REFUTED, claim, bounds, witness(0.5, 0.25))
    assert verdict.witness is not None
    for other in (None, witness(0.5, 0.5)):
        with pytest.raises(BadInput, match=r"REFUTED needs a witness that refutes 0.1-DP"):
            Verdict(Standing.REFUTED, claim, bounds, other)


def test_a_proof_needs_an_upper_bound_within_the_claim() -> None:
    assert Verdict(Standing.PROVED, Claim(0.1), Interval(0.0, 0.1)).evidence == ()
    with pytest.raises(BadInput, match=r"PROVED needs an upper bound within 0.1-DP, not inf"):
        Verdict(Standing.PROVED, Claim(0.1), Interval(0.0, math.inf))


def test_a_refutation_and_a_proof_exclude_each_other() -> None:
    with pytest.raises(BadInput, match=r"REFUTED needs an interval above 0.1-DP, not \[0, 0.1\]"):
        Verdict(Standing.REFUTED, Claim(0.1), Interval(0.0, 0.1), witness(0.5, 0.25))


def test_a_verdict_on_another_notion_needs_a_bound_in_it() -> None:
    claim = Claim.stated(rho=0.5)
    proved = Verdict(Standing.PROVED, claim, Interval(0.0, 1.0), mechanism="f", proved=ZeroConcentrated(0.4))
    assert str(proved) == "f: 0.5-zCDP is PROVED, 0.4-zCDP is proved, ε in [0, 1] at δ = 1e-06"
    assert proved.to_dict()["proved"]["rho"] == 0.4
    for bound in (None, ZeroConcentrated(0.6), GaussianDP(0.1)):
        with pytest.raises(BadInput, match=r"PROVED needs an upper bound within 0.5-zCDP"):
            Verdict(Standing.PROVED, claim, Interval(0.0, 0.0), proved=bound)
    with pytest.raises(BadInput, match=r"REFUTED needs an interval above 0.5-zCDP, not 0.4-zCDP"):
        Verdict(Standing.REFUTED, claim, Interval(0.0, 9.0), witness(0.9, 1e-9), proved=ZeroConcentrated(0.4))
    with pytest.raises(BadInput, match=r"excludes 0.5-zCDP, so the verdict must be REFUTED"):
        Verdict(Standing.NOT_REFUTED, claim, Interval(9.0, math.inf))
    refuted = Verdict(Standing.REFUTED, claim, Interval(9.0, math.inf), witness(0.9, 1e-9))
    assert refuted.to_dict()["proved"] is None
    assert "proved" not in Verdict(Standing.NOT_REFUTED, Claim(1.0), Interval(0.0, math.inf)).to_dict()


def test_not_refuted_promises_nothing_and_keeps_its_evidence() -> None:
    found = Evidence("sniper", "no event above the claim", 1.5)
    verdict = Verdict(Standing.NOT_REFUTED, Claim(0.1), Interval(0.05, math.inf), evidence=(found,))
    assert verdict.evidence == (found,)
    assert {standing.value for standing in Standing} == {"proved", "refuted", "not refuted"}
