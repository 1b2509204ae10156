"""δ over independent numeric entries that all move lies between the bounds of the convolution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from veridp import catalogue
from veridp.accounting.pairs import GaussianPair
from veridp.adjacency import adjacency
from veridp.catalogue.additive import gaussian_delta, gaussian_scale
from veridp.engines.exact import compare


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.05, 0.1])
def test_two_normal_entries_are_one_of_larger_shift(epsilon):
    mechanism = replace(catalogue["gaussian"], adjacency=adjacency("linf"))
    bounds = compare(mechanism, [1.0, 1.0], [2.0, 2.0]).delta_bounds(epsilon)
    exact = gaussian_delta(epsilon, gaussian_scale(0.1, 1e-5) / math.sqrt(2))
    assert bounds.lower == bounds.upper == pytest.approx(exact, rel=1e-10)


def both(rng, queries):
    return [query + rng.laplace(scale=2) for query in queries]


def delta_by_cells(epsilon):
    """δ of two Laplace entries (scale 2, shift 1), by summing over a fine grid of their losses."""
    points = np.linspace(-40, 41, 20_001)
    middle, width = (points[:-1] + points[1:]) / 2, points[1] - points[0]
    p = np.exp(-np.abs(middle) / 2) / 4 * width
    q = np.exp(-np.abs(middle - 1) / 2) / 4 * width
    loss = np.log(p / q)
    order = np.argsort(loss)
    loss, p, q = loss[order], p[order], q[order]
    above = np.searchsorted(loss, epsilon - loss, side="right")
    p_above, q_above = (np.concatenate([np.cumsum(x[::-1])[::-1], [0.0]]) for x in (p, q))
    return float(np.sum(p * p_above[above]) - math.exp(epsilon) * np.sum(q * q_above[above]))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.7, 0.95])
def test_two_laplace_entries_against_a_fine_grid(epsilon):
    bounds = compare(both, [0.0, 0.0], [1.0, 1.0]).delta_bounds(epsilon)
    assert bounds.lower - 1e-6 <= delta_by_cells(epsilon) <= bounds.upper + 1e-6
    assert bounds.upper - bounds.lower < 2e-3


def laplace_and_normals(rng, queries):
    return [queries[0] + rng.laplace(), *(query + rng.normal(scale=2) for query in queries[1:])]


@pytest.mark.parametrize(("epsilon", "size"), [(1, 1e-1), (5, 1e-9), (8, 1e-23)])
def test_bounds_on_a_tiny_delta_hold_it(epsilon, size):
    """However small: a lower bound above the truth would refute a claim that holds."""
    normals = GaussianPair(math.sqrt(2) / 2)
    # the loss of the Laplace entry is 1 up to 0, 1 - 2x up to 1, then -1
    ends = normals.delta_above(epsilon - 1) / 2 + normals.delta_above(epsilon + 1) * math.exp(-1) / 2
    between, _ = quad(lambda x: normals.delta_above(epsilon - 1 + 2 * x) * math.exp(-x) / 2, 0, 1, epsabs=0.0)
    bounds = compare(laplace_and_normals, [0.0] * 3, [1.0] * 3).delta_bounds(epsilon)
    assert size < ends + between < 10 * size
    assert bounds.lower <= ends + between <= bounds.upper <= 1.3 * bounds.lower


def uniform(rng, queries):
    return [query + rng.uniform(0, 2) for query in queries]


def test_what_is_impossible_on_the_right_counts_at_every_epsilon():
    half, none = (compare(uniform, [0.0, 0.0], [shift, shift]) for shift in (1.0, 3.0))
    for epsilon in (0.0, 1.0, 50.0):
        assert half.delta_bounds(epsilon).lower == pytest.approx(0.75, abs=1e-9)
        assert half.delta_bounds(epsilon).upper == pytest.approx(0.75, abs=1e-9)
        assert none.delta_bounds(epsilon).lower == pytest.approx(1.0, abs=1e-9)


def test_it_vanishes_at_the_largest_loss():
    comparison = compare(both, [0.0, 0.0], [1.0, 1.0])
    assert comparison.epsilon == pytest.approx(1.0, abs=1e-12)
    assert comparison.delta_bounds(1.0).lower == pytest.approx(0.0, abs=1e-12)
    assert comparison.delta(1.001) == pytest.approx(0.0, abs=1e-6)


def test_the_trade_off_curve_is_an_envelope_of_the_profile():
    right, left = compare(both, [0.0, 0.0], [1.0, 1.0]).tradeoff()
    assert np.all(np.diff(left) >= -1e-12)
    assert np.all(left >= right - 1e-12)
    half = compare(both, [0.0], [1.0])
    single = np.interp(0.1, *half.tradeoff())
    assert np.interp(0.1, right, left) > single
