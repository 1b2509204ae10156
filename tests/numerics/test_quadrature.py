"""Integrals in logarithms against closed forms, and sums over ranges against sums that are added one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veridp.numerics.quadrature import edges, log_sum, panels, range_sums, whole_numbers

LINE = np.array([-np.inf]), np.array([np.inf])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_densities_integrate_to_one(scale: float) -> None:
    grid = panels(edges(np.array([[0.0]]), scale, 60 * scale, *LINE))
    for law in (stats.norm(scale=scale), stats.laplace(scale=scale)):
        assert grid.integrate(law.logpdf(grid.points))[0] == pytest.approx(0.0, abs=1e-13)


def test_a_tail_that_floats_cannot_hold_keeps_its_digits() -> None:
    """ln of the integral of e^(-x²/2) from 60 to infinity, of probability 1e-784."""
    grid = panels(edges(np.array([[60.0]]), 0.02, 20.0, np.array([60.0]), np.array([np.inf])))
    assert grid.integrate(stats.norm.logpdf(grid.points))[0] == pytest.approx(stats.norm.logsf(60.0), rel=1e-14)


def test_rows_are_cut_to_their_ends_and_integrated_each_on_its_own() -> None:
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 3.0])
    grid = panels(edges(np.array([[0.0, 0.5], [1.0, 2.0]]), 0.25, 10.0, low, high))
    assert np.exp(grid.integrate(grid.points)) == pytest.approx([2 * math.sinh(1), math.expm1(3)], rel=1e-14)


def test_the_sum_of_nothing_is_zero() -> None:
    assert log_sum(np.empty((2, 0))).tolist() == [-np.inf, -np.inf]
    assert log_sum(np.array([[-np.inf, -np.inf], [-1000.0, -1000.0]])).tolist() == [-np.inf, -1000 + math.log(2)]


def test_whole_numbers_are_those_between_the_ends() -> None:
    grid = whole_numbers(np.array([-2.0, 4.0]), np.array([3.0, 5.0]))
    assert np.exp(grid.integrate(np.zeros_like(grid.points))) == pytest.approx([6.0, 2.0])


@pytest.mark.parametrize("rows", [1, 3])
def test_sums_over_ranges(rows: int) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(scale=30, size=(rows, 12))
    first, stop = np.array([0, 3, 5]), np.array([4, 12, 5])
    expected = [np.logaddexp.reduce(values[i % rows, a:b]) for i, (a, b) in enumerate(zip(first, stop, strict=True))]
    assert range_sums(values, first, stop) == pytest.approx(expected)
