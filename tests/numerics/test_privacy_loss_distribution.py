"""Sums of privacy losses, against all combinations of a few outputs in rational numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.numerics.privacy_loss_distribution import CellProduct, Cells, LossLattice, LossSum, Tails, dots, together

Weights = list[tuple[int, int]]  # of outputs: on the left, and on the right
outputs = st.tuples(st.integers(0, 20), st.integers(0, 20))
parts_of_outputs = st.lists(st.lists(outputs, min_size=1, max_size=4), min_size=1, max_size=3)


def cells_of(outputs: Weights, scale: int) -> Cells:
    """A cell for each output."""
    left, right = np.array(outputs, dtype=float).T / scale
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.where(left > 0, np.log(left / right), -np.inf)
    return Cells(left, right, largest)


def true_delta(parts: list[Weights], scale: int, epsilon: float) -> float:
    """Σ max(0, p - e^ε q) over the product, e^ε to a float's digits."""
    factor, total = Fraction(math.exp(epsilon)), Fraction(0)
    for chosen in itertools.product(*parts):
        left, right = (math.prod(output[side] for output in chosen) for side in (0, 1))
        total += max(Fraction(0), left - factor * right)
    return float(total / Fraction(scale) ** len(parts))


@settings(deadline=None)
@given(parts=parts_of_outputs, epsilon=st.floats(0, 6), scale=st.sampled_from([100, 10**12]))
def test_the_true_delta_lies_between_the_bounds(parts: list[Weights], epsilon: float, scale: int) -> None:
    bounds = CellProduct([cells_of(part, scale) for part in parts]).delta(epsilon)
    true = true_delta(parts, scale, epsilon)
    size = math.prod(sum(left for left, _ in part) / scale for part in parts)
    assert bounds.lower <= true + 1e-12 * size
    assert true <= bounds.upper + 1e-8 * size  # a loss within LEVEL_TOLERANCE of a level counts as there
    assert bounds.upper - bounds.lower <= 4e-3 * size


def test_a_tiny_delta_keeps_its_digits_from_below_and_from_above() -> None:
    """A sum of losses that is large only if every rare output occurs: untilted, rounding would be all that is left."""
    rare: Weights = [(1, 0), (10**6, 10**3), (10**9, 10**9)]
    parts = [rare] * 4
    found = CellProduct([cells_of(part, 10**9) for part in parts])
    only_infinite = found.delta(100.0)
    assert only_infinite.lower == pytest.approx(true_delta(parts, 10**9, 100.0), rel=1e-12)
    finite = [part[1:] for part in parts]
    bounds = CellProduct([cells_of(part, 10**9) for part in finite]).delta(22.0)
    assert true_delta(finite, 10**9, 22.0) == pytest.approx(1e-12, rel=0.01)
    assert bounds.lower <= true_delta(finite, 10**9, 22.0) <= bounds.upper <= 1.01 * bounds.lower
    assert CellProduct([cells_of(part, 10**9) for part in finite]).delta(28.0).upper == 0.0


def test_losses_that_are_evenly_spaced_are_on_the_lattice() -> None:
    """As those of integer noise: the spacings of the parts are multiples of the least, and need not begin alike."""
    places = np.arange(-12.0, 13.0)
    parts = []
    for spacing, first in ((0.37, 0.21), (0.74, -0.1)):
        losses = first + spacing * places
        right = np.exp(-(places**2) / 20)
        parts.append(Cells(right * np.exp(losses), right, losses))
    masses = [part.left / part.left.sum() for part in parts]
    bounds = CellProduct([Cells(m, m * np.exp(-p.largest), p.largest) for m, p in zip(masses, parts, strict=True)])
    total, weight = np.add.outer(parts[0].largest, parts[1].largest), np.multiply.outer(*masses)
    for epsilon in (0.0, 1.0, 3.0, 9.5):
        true = float((weight * np.maximum(-np.expm1(epsilon - total), 0)).sum())
        found = bounds.delta(epsilon)
        assert found.lower == pytest.approx(true, rel=1e-9)
        assert found.upper == pytest.approx(true, rel=1e-9)


def test_a_part_without_probability_leaves_no_delta() -> None:
    bounds = CellProduct([cells_of([(0, 1)], 1), cells_of([(1, 0)], 1)]).delta(0.0)
    assert bounds.lower == bounds.upper == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 5.0, 30.0, 45.0])
def test_a_binomial_sum_of_losses_at_every_size_of_delta(epsilon: float) -> None:
    """Fifty times a loss of 1 with probability 3/4, else -1: δ from 0.7 down to 1e-8, where it is summed one by one."""
    true = math.fsum(
        math.comb(50, k) * 0.75**k * 0.25 ** (50 - k) * -math.expm1(epsilon - (2 * k - 50))
        for k in range(51)
        if 2 * k - 50 > epsilon
    )
    row = LossLattice(0.0, -1, np.array([0.25, 0.0, 0.75]), 1.0, 50, 0.0)
    assert LossSum([row]).delta(epsilon, up=False) <= true * (1 + 1e-12)
    assert LossSum([row]).delta(epsilon) >= true * (1 - 1e-12)
    assert LossSum([row]).delta(epsilon, up=False) == pytest.approx(true, rel=1e-8)
    assert LossSum([row]).delta(epsilon) == pytest.approx(true, rel=1e-8)


def test_dots_have_the_true_delta_at_the_levels_and_more_between_them() -> None:
    left, right = np.array([0.1, 0.3, 0.4, 0.2]), np.array([0.25, 0.4, 0.3, 0.05])
    levels, losses = np.array([-1.0, 0.0, 0.5, 2.0]), np.log(left / right)
    above = losses > levels[:, None]
    masses = dots(levels, Tails(above @ left, above @ right))
    assert masses.sum() == pytest.approx(1.0)
    assert masses @ np.exp(-levels) == pytest.approx(1.0)
    for epsilon in (-0.7, 0.0, 0.3, 0.5, 1.2):
        true = np.maximum(0.0, left - math.exp(epsilon) * right).sum()
        delta = masses @ np.maximum(0.0, -np.expm1(epsilon - levels))
        assert delta == pytest.approx(true, abs=1e-12) if epsilon in levels else delta > true + 1e-3


def test_leaks_together() -> None:
    assert together([(0.5, 2), (0.0, 7)]) == pytest.approx(0.75)
    assert together([(1.0, 1)]) == 1.0
    assert math.copysign(1.0, together([])) == 1.0
