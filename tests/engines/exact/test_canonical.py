"""Pieces that are the same but for the names of their noise are counted, others never taken for the same."""

from __future__ import annotations

import numpy as np
import pytest

from veridp.engines.exact.curve import PieceDensity
from veridp.engines.exact.pieces import factors, with_multiplicity
from veridp.kernel.explore import explore


def pieces_of(mechanism, data):
    (factor,) = factors(explore(mechanism, data, defer=True), split=False)
    ((_, pieces),) = factor.classes.items()
    return pieces


def largest(rng, queries):
    return np.max(np.asarray(queries) + rng.laplace(size=len(queries)))


def test_equal_queries_make_equal_pieces():
    assert [count for _, count in with_multiplicity(pieces_of(largest, [1.0] * 4))] == [4]


def test_queries_of_two_kinds_make_pieces_of_two_kinds():
    assert sorted(count for _, count in with_multiplicity(pieces_of(largest, [1.0, 1.0, 2.0]))) == [1, 2]


def test_coefficients_that_hash_alike_are_told_apart():
    def lopsided(rng, data):  # hash(-1) == hash(-2) in CPython
        a, b, c = rng.laplace(size=3)
        return a + 0.0 if a - b > 0 else c + 0.0 if c - 2 * b > 0 else b + 0.0

    assert [count for _, count in with_multiplicity(pieces_of(lopsided, 0))] == [1, 1, 1]


@pytest.mark.parametrize("data", [[1.0] * 4, [1.0, 1.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0]])
def test_counting_does_not_change_the_density(data):
    pieces = pieces_of(largest, data)
    points = np.linspace(-3, 6, 19)[:, None]
    one_by_one = np.sum([np.exp(PieceDensity(piece).log_density(points)) for piece in pieces], axis=0)
    counted = sum(n * np.exp(PieceDensity(piece).log_density(points)) for piece, n in with_multiplicity(pieces))
    assert counted == pytest.approx(one_by_one, rel=1e-12)
