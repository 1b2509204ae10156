"""Copies in whole numbers never cost more privacy than was asked for."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridp.collect.harmless import Rates, log_ratio, rates
from veridp.errors import BadInput


@given(st.floats(0.02, 8.0), st.floats(0.5, 0.98))
def test_the_true_epsilon_is_close_to_the_asked_one_and_never_above(epsilon: float, closeness: float) -> None:
    found = rates(epsilon, closeness)
    with mpmath.workdps(60):
        true = float(mpmath.log(mpmath.mpf(found.held) / found.other))
    assert closeness * epsilon <= true <= epsilon
    assert found.epsilon == true


@given(st.floats(0.05, 4.0))
def test_no_fewer_copies_would_do(epsilon: float) -> None:
    found = rates(epsilon, 0.9)
    for other in range(1, found.other):
        held = math.floor(other * math.exp(epsilon) * (1 + 1e-12))
        assert not (held > other and 0.9 * epsilon <= log_ratio(held, other) <= epsilon)


@pytest.mark.parametrize("ratio", range(2, 60))
def test_logarithms_of_whole_numbers_are_met_by_one_copy_of_the_others(ratio: int) -> None:
    assert rates(math.log(ratio)) == Rates(ratio, 1)


def test_published_examples() -> None:
    assert Rates(6, 2).epsilon == math.log(3)
    assert rates(math.log(1.5)) == Rates(3, 2)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 25.0, 1e-6, 5e-324])
def test_what_cannot_be_met_is_said(epsilon: float) -> None:
    with pytest.raises(BadInput, match="epsilon"):
        rates(epsilon)
