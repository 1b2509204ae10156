"""Polytopes and patches: corners by hand, and pairs that stay inside the domain and are found again."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from veridp.adjacency.polytope import Box, Patch, moving

DIRECTIONS = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, -1.0]])  # one entry a row


@pytest.fixture
def patch() -> Patch:
    return moving("steps", DIRECTIONS, -1.0, 1.0, (0.0, 3.0))


def test_corners_of_a_box() -> None:
    box = Box((Fraction(0), Fraction(-1)), (Fraction(1), Fraction(1, 2)))
    corners = {(Fraction(a), Fraction(b)) for a in (0, 1) for b in (-1, Fraction(1, 2))}
    assert (box.size, box.count, set(box.corners())) == (2, 4, corners)


def test_the_right_input_is_the_left_one_moved(patch: Patch) -> None:
    left, right = patch.pair(np.array([1.0, 1.0, 1.0, 0.5, -0.25]))
    assert (left, right) == ([1.0, 1.0, 1.0], [1.5, 1.25, 1.25])
    assert patch.reversed().pair(np.array([1.0, 1.0, 1.0, 0.5, -0.25])) == (right, left)


def test_pairs_that_are_drawn_lie_in_the_domain_and_differ_by_a_move(patch: Patch) -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        left, right = patch.vectors(patch.draw(rng))
        assert (np.concatenate([left, right]) >= 0).all()
        assert (np.concatenate([left, right]) <= 3).all()
        move, distance, *_ = np.linalg.lstsq(DIRECTIONS, right - left, rcond=None)
        assert math.sqrt(distance.sum()) < 1e-12
        assert (np.abs(move) <= 1 + 1e-12).all()


def test_a_pair_is_found_again_and_others_are_not(patch: Patch) -> None:
    left, right = [1.0, 0.25, 3.0], [2.0, 1.0, 2.75]
    point = patch.point(left, [left[0] + 1, left[1] + 1 + 0.25, left[2] - 0.25])
    assert point is not None
    assert patch.pair(point) == (left, [2.0, 1.5, 2.75])
    assert patch.point(left, [*right[:2], 3.0]) is None  # no move does this
    assert patch.point(left, [4.0, 3.25, 3.0]) is None  # outside
    assert patch.point(left, right[:2]) is None
    assert patch.point("x", right) is None


def test_slopes_are_what_keeps_pairs_inside(patch: Patch) -> None:
    rows, bounds = patch.slopes()
    rng = np.random.default_rng(6)
    points = rng.uniform(patch.low, patch.high, (500, 5))
    inside = ((points @ rows.T + bounds) >= 0).all(axis=1)
    rights = points @ patch.to_right.T
    assert (inside == ((rights >= 0) & (rights <= 3)).all(axis=1)).all()
    assert 0 < inside.sum() < 500
