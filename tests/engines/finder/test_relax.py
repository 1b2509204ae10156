"""Relaxed truth values: the rules of the paper one by one, and their gradients against finite differences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from veridp.engines.finder.indicator import (
    And,
    AtLeast,
    Blend,
    ConstantTruth,
    Equal,
    Hard,
    Not,
    Or,
    Soft,
    SoftSum,
    SoftTruth,
    conjunction,
)

C = 50.0
A, B, D = AtLeast(0), AtLeast(1), AtLeast(2)


def sigmoid(slack: float, sharpness: float = C) -> float:
    return 1 / (1 + math.exp(-sharpness * slack))


def soft(node: SoftTruth, *slacks: float, sharpness: float = C) -> float:
    return float(Soft(np.array(slacks)[:, None], sharpness).of(node)[0])


def hard(node: SoftTruth, *slacks: float) -> float:
    return float(Hard(np.array(slacks)[:, None]).of(node)[0])


def test_the_rules_of_the_paper() -> None:
    x, y, z = 0.01, -0.03, 0.02
    a, b, d = sigmoid(x), sigmoid(y), sigmoid(z)
    assert soft(A, x) == pytest.approx(a)
    assert soft(Not(A), x) == pytest.approx(1 - a)
    assert soft(And((A, B)), x, y) == pytest.approx(a * b)
    assert soft(Or(A, B), x, y) == pytest.approx(a + b - a * b)
    assert soft(Equal(0), 0.1) == pytest.approx(math.exp(-C * 0.1**2))
    assert soft(Blend(A, B, D), x, y, z) == pytest.approx(a * b + (1 - a) * d)
    assert soft(SoftSum((0.25, 0.5), (A, B)), x, y) == pytest.approx(0.25 * a + 0.5 * b)


def test_read_hard_they_are_logic() -> None:
    for a, b, d in itertools.product((True, False), repeat=3):
        slacks = [1.0 if truth else -1.0 for truth in (a, b, d)]
        assert hard(Not(A), *slacks) == (not a)
        assert hard(And((A, B, D)), *slacks) == (a and b and d)
        assert hard(Or(A, B), *slacks) == (a or b)
        assert hard(Blend(A, B, D), *slacks) == (b if a else d)
    assert hard(A, 0.0) == 1
    assert hard(Not(AtLeast(0)), 0.0) == 0  # strictly below
    assert (hard(Equal(0), 0.0), hard(Equal(0), 1.0)) == (1, 0)


def test_sharper_is_closer_to_hard() -> None:
    node = Blend(Or(A, Not(B)), And((B, D)), Not(D))
    slacks = (0.3, -0.2, 0.4)
    gaps = [abs(soft(node, *slacks, sharpness=c) - hard(node, *slacks)) for c in (1, 10, 50, 500)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-9


@pytest.mark.parametrize(
    "node",
    [
        A,
        Equal(0),
        Not(A),
        And((A, B, D)),
        And((A, And((B, Not(A))))),  # an atom twice
        Or(A, Not(B)),
        Blend(A, B, Or(B, D)),
        SoftSum((0.3, 0.7), (And((A, Equal(1))), Not(D))),
        ConstantTruth(0.5),
        And((ConstantTruth(0.5), A)),
    ],
    ids=lambda node: type(node).__name__,
)
def test_gradients_are_those_of_finite_differences(node: SoftTruth) -> None:
    slacks = np.random.default_rng(1).normal(scale=0.05, size=(3, 200))
    at = Soft(slacks, C)
    at.of(node)
    node.spread(at, np.ones(200))
    step = 1e-6
    for atom in range(3):
        up, down = slacks.copy(), slacks.copy()
        up[atom] += step
        down[atom] -= step
        difference = (Soft(up, C).of(node).mean() - Soft(down, C).of(node).mean()) / (2 * step)
        assert at.gradient[atom] == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_conjunctions_leave_out_what_is_certain() -> None:
    assert conjunction([ConstantTruth(1.0), A]) is A
    assert soft(conjunction([]), 0.3) == 1.0
    assert soft(conjunction([A, ConstantTruth(0.0)]), 0.3) == 0.0
