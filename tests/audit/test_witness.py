"""Witnesses get round numbers where these show as much, and keep their own where they do not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from veridp.audit.case import AuditCase
from veridp.audit.witness import check_on_samples, rounded_witness
from veridp.claim import CLAIM_TOLERANCE, Interval, Witness
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.errors import EnginesDisagree
from veridp.mechanism import Mechanism


def noisy(rng: Any, data: Any, *, scale: float) -> Any:
    return data[0] + rng.laplace(scale=scale)


def below(end: float) -> ExactEvent:
    return ExactEvent(within=((LinearEntry(((0, 1.0),), ("output",)), (NumberSpan(-math.inf, end),)),))


def case(scale: float, epsilon: float = 1.0, **settings: Any) -> AuditCase:
    mechanism = Mechanism(noisy, epsilon=epsilon, arguments={"scale": scale}).stating(**settings)
    return AuditCase.of(mechanism, 1, 0.05, 0)


def witness(left: float, right: float, end: float, scale: float) -> Witness:
    def probability(centre: float) -> Interval:
        return Interval.exactly(0.5 * math.exp((end - centre) / scale))

    return Witness([left], [right], below(end), probability(left), probability(right))


def test_what_should_be_zero_is_zero() -> None:
    found = rounded_witness(case(0.5), witness(7.99e-12, 1.0, 7.99e-12, 0.5))
    assert (found.left, found.right, str(found.event)) == ([0.0], [1.0], "output <= 0")
    assert 0.5 in found.left_probability
    assert found.right_probability.lower == pytest.approx(0.5 * math.exp(-2), rel=1e-12)
    assert found.epsilon().lower == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize(
    ("scale", "left", "right", "settings"),
    [
        (1e-12, 7.99e-12, 1e-11, {}),  # with noise so small, these numbers are no rounding
        (0.5, 1e-11, 1 + 1e-11, {"domain": (1e-11, 5.0)}),  # 0 is not in the domain
    ],
)
def test_a_witness_that_would_be_weaker_or_out_of_the_domain_keeps_its_inputs(
    scale: float, left: float, right: float, settings: dict[str, Any]
) -> None:
    given = witness(left, right, left, scale)
    found = rounded_witness(case(scale, **settings), given)
    assert (found.left, found.right) == ([left], [right])


def test_a_refutation_stays_one() -> None:
    """The claim is so close to the truth that a rounded pair, whose inputs are nearer, would not refute it."""
    left, right = -3e-10, 1.0
    epsilon = (right - left) / 0.5 / (1 + CLAIM_TOLERANCE) * (1 - 1e-11)
    given = witness(left, right, left, 0.5)
    assert given.refutes(case(0.5, epsilon).claim)
    assert rounded_witness(case(0.5, epsilon), given).left == [left]


def test_sampled_witnesses_are_left_alone() -> None:
    given = Witness([7.99e-12], [1.0], below(0.0), Interval(0.4, 0.6), Interval(0.0, 0.1), confidence=0.95)
    assert rounded_witness(case(0.5), given) is given


def test_a_computed_witness_that_samples_contradict_is_a_fault() -> None:
    """The probability on either side is wrong in turn; a false alarm has a probability of 1e-9."""
    right = witness(0.0, 1.0, 0.0, 1.0)
    check_on_samples(case(1.0), right)
    with pytest.raises(EnginesDisagree, match=r"on \[0\.0\].* by computation, but .* of 1000 outputs"):
        check_on_samples(case(1.0), replace(right, left_probability=Interval.exactly(0.7)))
    with pytest.raises(EnginesDisagree, match=r"on \[1\.0\]"):
        check_on_samples(case(1.0), replace(right, right_probability=Interval.exactly(0.05)))
