"""Balls hold the true value: rounding goes outwards, and precision grows until they are sharp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from veridp.claim import Interval
from veridp.numerics.balls import MOST_BITS, added, ball, interval, log_ratio, refined

fractions = st.fractions(min_value=Fraction(1, 10**40), max_value=10**6)


@given(value=st.fractions(max_denominator=10**30) | fractions, bits=st.sampled_from([20, 53, 128]))
def test_intervals_are_rounded_outwards(value: Fraction, bits: int) -> None:
    with ctx.workprec(bits):
        found = interval(ball(value))
    assert Fraction(found.lower) <= value <= Fraction(found.upper)
    if bits == 128:
        assert math.nextafter(math.nextafter(found.lower, math.inf), math.inf) >= found.upper


def test_what_no_float_can_hold_is_rounded_outwards_too() -> None:
    with ctx.workprec(128):
        assert interval(arb(2) ** -2000) == Interval(0.0, 5e-324)
        assert interval(arb(2) ** 2000) == Interval(float.fromhex("0x1.fffffffffffffp+1023"), math.inf)
        assert interval(arb.nan()) == Interval(-math.inf, math.inf)


@given(above=fractions, below=fractions)
def test_log_ratios_hold_the_true_one(above: Fraction, below: Fraction) -> None:
    with ctx.workprec(128):
        found = log_ratio(ball(above), ball(below))
    with mpmath.workdps(60):
        ratio = Fraction(above) / below
        assert found.lower <= mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator) <= found.upper


def test_log_ratios_of_nothing() -> None:
    zero, unsure = arb(0), arb(0, 1)
    assert log_ratio(arb(1), zero) == Interval.exactly(math.inf)
    assert log_ratio(zero, arb(1)) == Interval.exactly(-math.inf)
    assert log_ratio(unsure, zero) == Interval(-math.inf, math.inf)
    assert log_ratio(arb(1), unsure).upper == math.inf


@given(ends=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_sums_of_intervals_hold_the_true_one(ends: list[float]) -> None:
    found = added([Interval.exactly(end) for end in ends])
    assert Fraction(found.lower) <= sum(map(Fraction, ends)) <= Fraction(found.upper)


def test_precision_grows_until_a_value_is_sharp() -> None:
    tried: list[int] = []

    def cancelling(places: Sequence[int]) -> Any:
        tried.append(ctx.prec)
        return (((arb(1) / 3 + arb(2) ** -(300 * place)) - arb(1) / 3) for place in places)

    found = refined(3, cancelling)
    assert tried == [128, 256, 512, 1024]
    assert found.bits == 1024
    with ctx.workprec(2000):
        assert all(value.contains(arb(2) ** -(300 * place)) for place, value in enumerate(found.values))
    hopeless = refined(1, lambda places: (arb(1) / 3 - arb(1) / 3 for _ in places))
    assert hopeless.bits == MOST_BITS
    assert hopeless.values[0].contains(0)
