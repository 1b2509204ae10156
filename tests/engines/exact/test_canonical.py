"""Pieces that are the same but for the names of their noise are counted, others never taken for the same."""

from __future__ import annotations

import numpy as np
import pytest

from veridp.engines.exact.curve import Density, PieceDensity
from veridp.engines.exact.pieces import alike, factors
from veridp.kernel.explore import explore


def pieces_of(mechanism, data):
    (factor,) = factors(explore(mechanism, data, defer=True), split=False)
    ((_, pieces),) = factor.classes.items()
    return pieces


def largest(rng, queries):
    return np.max(np.asarray(queries) + rng.laplace(size=len(queries)))


def test_equal_queries_make_equal_pieces():
    assert [len(places) for places in alike(pieces_of(largest, [1.0] * 4))] == [4]


def test_queries_of_two_kinds_make_pieces_of_two_kinds():
    assert sorted(len(places) for places in alike(pieces_of(largest, [1.0, 1.0, 2.0]))) == [1, 2]


def test_coefficients_that_hash_alike_are_told_apart():
    def lopsided(rng, data):  # hash(-1) == hash(-2) in CPython
        a, b, c = rng.laplace(size=3)
        return a + 0.0 if a - b > 0 else c + 0.0 if c - 2 * b > 0 else b + 0.0

    assert [len(places) for places in alike(pieces_of(lopsided, 0))] == [1, 1, 1]


@pytest.mark.parametrize("data", [[1.0] * 4, [1.0, 1.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0]])
def test_counting_does_not_change_the_density(data):
    pieces = pieces_of(largest, data)
    points = np.linspace(-3, 6, 19)[:, None]
    one_by_one = np.sum([np.exp(PieceDensity(piece).log_density(points)) for piece in pieces], axis=0)
    assert np.exp(Density(pieces)(points)) == pytest.approx(one_by_one, rel=1e-12)


def sampled(rng, data):
    return sum([x for x in data if rng.random() < 0.2]) + rng.normal(scale=2)


def scaled_by_a_coin(rng, data):
    noise = rng.normal() if rng.random() < 0.3 else 3 * rng.normal()
    return sum([x for x in data if rng.random() < 0.3]) + noise


def looked_at(rng, data):
    """The released noise is compared with other noise, and this with a coin: all of it concerns the output."""
    noise, threshold = rng.normal(), rng.laplace()
    total = sum(data) * (2 if noise > threshold else 1)
    return total + (threshold > rng.random() - 0.5) + noise


def beside(rng, data):
    """Noise is compared with other noise, and with the same again, but never with what is released."""
    first, second = rng.laplace(size=2)
    return sum(data) + (first > second) + (first > 2 * second) + rng.laplace()


@pytest.mark.parametrize(
    ("mechanism", "count"), [(sampled, 4), (scaled_by_a_coin, 8), (looked_at, 4), (beside, 3), (largest, 2)]
)
def test_joined_pieces_have_the_density_of_all(mechanism, count):
    """Only what the output does not depend on is joined: a count of the ones drawn is all that sampling leaves."""
    pieces = pieces_of(mechanism, [1.0, 1.0, 1.0] if mechanism is not largest else [1.0, 1.0, 2.0])
    points = np.linspace(-4, 7, 23)[:, None]
    one_by_one = np.sum([np.exp(PieceDensity(piece).log_density(points)) for piece in pieces], axis=0)
    density = Density(pieces)
    assert len(density.joined) == count
    assert np.exp(density(points)) == pytest.approx(one_by_one, rel=1e-12)
