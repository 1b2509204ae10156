"""Decimal arguments: floats to the code, rationals to a proof."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import veridp
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import exact

TENTH = Written.of(0.1)


def test_comparisons_and_functions_see_the_float():
    assert not TENTH < 0.1
    assert TENTH == 0.1
    assert hash(TENTH) == hash(0.1)
    assert math.exp(TENTH) == math.exp(0.1)
    assert np.sqrt(TENTH) == np.sqrt(0.1)
    assert isinstance(TENTH, float)
    assert {0.1: "found"}[TENTH] == "found"


@pytest.mark.parametrize(
    ("value", "rational"),
    [
        (TENTH + 1, Fraction(11, 10)),
        (1 - TENTH, Fraction(9, 10)),
        (3 * TENTH, Fraction(3, 10)),
        (2 / TENTH, Fraction(20)),
        (TENTH / 4, Fraction(1, 40)),
        (-TENTH, Fraction(-1, 10)),
        (abs(-TENTH), Fraction(1, 10)),
        (TENTH * Written.of(0.7), Fraction(7, 100)),
        (TENTH * 0.5, Fraction(1, 20)),
    ],
)
def test_arithmetic_carries_the_rational_beside_the_float(value, rational):
    assert type(value) is Written
    assert exact(value) == rational
    assert float(value) == pytest.approx(float(rational), rel=1e-15)


def test_the_float_is_the_one_that_plain_code_computes():
    for first, second in ((0.1, 3), (0.7, 0.1), (1e300, 10)):
        written = Written.of(first)
        assert float(written * second) == first * second
        assert float(second / written) == second / first
        assert float(written - second) == first - second


def test_what_is_mostly_rounding_is_the_float():
    for value in (3 * TENTH - 0.3, TENTH + 0.2 - 0.3):
        assert type(value) is float
    assert exact(1e-17 / (3 * TENTH - 0.3)) == exact(1e-17 / (3 * 0.1 - 0.3))


def test_a_scale_that_is_mostly_rounding_is_proved_as_it_runs():
    def mostly_rounding(rng, data, epsilon=0.1):
        return data[0] + rng.laplace(scale=1e-17 / (3 * epsilon - 0.3))

    truth = (3 * 0.1 - 0.3) / 1e-17
    assert truth == pytest.approx(5.55, abs=0.01)  # by the decimals it would be 1.11
    assert veridp.prove(mostly_rounding, 1).epsilon == pytest.approx(truth, rel=1e-9)


def test_what_is_not_finite_or_not_a_number_is_left_to_python():
    assert math.isinf(Written.of(1e308) * 10)
    with pytest.raises(ZeroDivisionError):
        1 / Written.of(0.0)
    with pytest.raises(TypeError):
        TENTH + "a"
    assert (TENTH * np.array([1.0, 2.0])).tolist() == [0.1, 0.2]


def test_a_branch_on_an_argument_is_the_one_that_a_plain_run_takes():
    def leaking(rng, data, *, epsilon=0.1):
        return data[0] + rng.laplace(scale=1 / epsilon) if epsilon < 0.1 else data[0]

    def right(rng, data, *, epsilon=0.1):
        return data[0] if epsilon < 0.1 else data[0] + rng.laplace(scale=1 / epsilon)

    assert veridp.prove(leaking, 1).epsilon == math.inf
    assert veridp.prove(right, 1).exact_epsilon == Fraction(1, 10)
