"""Rational bounds of special functions, beside flint's balls at a higher precision."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from flint import arb, ctx, fmpq

from veridp_check.enclosures import (
    MAX_EXPONENT,
    exp_below,
    exp_between,
    gaussian_delta_above,
    log_above,
    normal_between,
    root_below,
)

POINTS = [Fraction(p, q) for p, q in [(0, 1), (1, 3), (-5, 2), (7, 10**9), (10, 1), (-10, 1), (199, 10), (-20, 1)]]


def ball(number: Fraction) -> arb:
    return arb(fmpq(number.numerator, number.denominator))


@pytest.fixture(autouse=True)
def many_bits():
    with ctx.workprec(800):
        yield


def normal(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


@pytest.mark.parametrize("x", [*POINTS, Fraction(21), Fraction(-30)])
def test_a_normal_probability_lies_between_its_bounds(x):
    low, high = normal_between(x)
    assert high - low < Fraction(1, 10**45)
    true = normal(ball(x))
    assert ball(low) <= true or low == Fraction(1, 2)
    assert true <= ball(high) or high == Fraction(1, 2)


@pytest.mark.parametrize("x", POINTS)
def test_an_exponential_lies_between_its_bounds(x):
    low, high = exp_between(x)
    assert high <= low * (1 + Fraction(1, 10**80))
    assert (ball(low) <= ball(x).exp() <= ball(high)) or x == 0


def test_exponentials_of_endless_digits_are_bounded_without_them():
    """e^1000000000 has a billion bits: a certificate with such an ε, or so little noise, must not take for ever."""
    far, limit = Fraction(10**300), Fraction(MAX_EXPONENT)
    assert exp_below(far) == exp_between(limit)[0]
    assert ball(exp_below(far)) <= ball(limit).exp()
    assert exp_between(-far) == (0, exp_between(-limit)[1])
    assert exp_below(-far) == 0
    with pytest.raises(OverflowError):
        exp_between(far)
    assert 0 <= gaussian_delta_above(far, Fraction(1)) < Fraction(1, 2**280)
    assert gaussian_delta_above(-far, Fraction(1)) == 1


@pytest.mark.parametrize(
    ("bound", "function", "above"),
    [(log_above, lambda x: x.log(), True), (root_below, lambda x: x.sqrt(), False)],
)
def test_bounds_are_on_their_side_and_close(bound: Callable, function: Callable, above: bool):
    for x in (Fraction(11, 10), Fraction(2), Fraction(10**9, 7)):
        found, true = ball(bound(x)), function(ball(x))
        assert (found >= true) if above else (found <= true)
        assert abs(found - true) < arb("1e-40")


@pytest.mark.parametrize(
    ("squared", "epsilon"),
    [("1", "0"), ("1/100", "1/10"), ("9", "-1"), ("1/14", "1"), ("25", "12"), ("1/1000000", "1/1000")],
)
def test_the_delta_of_normal_noise_is_just_above_the_truth(squared, epsilon):
    s, e = Fraction(squared), Fraction(epsilon)
    mu = ball(s).sqrt()
    true = normal(mu / 2 - ball(e) / mu) - ball(e).exp() * normal(-mu / 2 - ball(e) / mu)
    found = ball(gaussian_delta_above(e, s))
    assert true <= found <= true + arb("1e-40")


def test_no_shift_has_no_delta_but_below_an_epsilon_of_0():
    assert gaussian_delta_above(Fraction(1, 2), Fraction(0)) == 0
    assert float(gaussian_delta_above(Fraction(-1, 2), Fraction(0))) == pytest.approx(0.3934693402873666, rel=1e-15)
