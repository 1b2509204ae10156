"""The words of a judgement: laws of Claim, Interval, Witness and Verdict."""

from __future__ import annotations

import dataclasses
import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridp.claim import Claim, Evidence, Interval, Standing, Verdict, Witness
from veridp.errors import BadInput

probabilities = st.floats(0, 1)
intervals = st.tuples(probabilities, probabilities).map(lambda ends: Interval(min(ends), max(ends)))
claims = st.builds(Claim, st.floats(0, 50), probabilities)


def witness(left: Interval | float, right: Interval | float, **more: object) -> Witness:
    exact = lambda p: p if isinstance(p, Interval) else Interval.exactly(p)  # noqa: E731
    return Witness([1.0], [2.0], "the answer is below 0", exact(left), exact(right), **more)


# --------------------------------------------------------------------------------------------------------------- Claim


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, -math.inf])
def test_a_claim_needs_a_budget(epsilon: float) -> None:
    with pytest.raises(BadInput, match=r"epsilon = .* is not a privacy budget; give a number >= 0"):
        Claim(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.1, math.nan])
def test_a_claim_needs_a_probability(delta: float) -> None:
    with pytest.raises(BadInput, match=r"delta = .* is not a probability"):
        Claim(1.0, delta)


def test_a_claim_says_what_it_is() -> None:
    assert str(Claim(0.1)) == "0.1-DP"
    assert str(Claim(0.5, 1e-5)) == "(0.5, 1e-05)-DP"
    assert Claim(0.1) == Claim(0.1, 0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Claim(0.1).epsilon = 0.2  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------------------ Interval


def test_an_interval_has_its_ends_in_order() -> None:
    assert 0.5 in Interval(0.5, 1.0)
    assert 1.1 not in Interval(0.5, 1.0)
    for lower, upper in ((1.0, 0.5), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(BadInput, match="is not an interval"):
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
    with pytest.raises(BadInput, match=r"right_probability = 1.5 lies outside \[0, 1\]"):
        witness(0.5, 1.5)
    with pytest.raises(BadInput, match=r"left_probability = -0\.5"):
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


def test_not_refuted_promises_nothing_and_keeps_its_evidence() -> None:
    found = Evidence("sniper", "no event above the claim", 1.5)
    verdict = Verdict(Standing.NOT_REFUTED, Claim(0.1), Interval(0.05, math.inf), evidence=(found,))
    assert verdict.evidence == (found,)
    assert {standing.value for standing in Standing} == {"proved", "refuted", "not refuted"}
