"""Neighbourhoods as polytopes: what is drawn is adjacent and in the domain, and a pair leads back to its variables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.adjacency import OwnAdjacency, adjacency
from veridp.engines.finder.neighbourhood import ListedPairs, ValuePairs, pair_source, patches
from veridp.errors import BadInput
from veridp.mechanism import Mechanism

RELATIONS = ["linf", "l1", "monotone", "add-remove", "replace", "any"]
SIZE, DOMAIN = 3, (-2.0, 5.0)


def mechanism_under(relation: Any) -> Mechanism:
    return replace(veridp.catalogue["laplace"], adjacency=relation)


def balanced() -> OwnAdjacency:
    """Two entries move in opposite ways: a polytope of its own."""
    corners = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])

    def test(left: Any, right: Any) -> bool:
        move = np.subtract(right, left)
        return bool(np.all(np.abs(move) <= 1 + 1e-9) and abs(move[0] + move[1]) < 1e-9 and abs(move[2]) < 1e-9)

    return OwnAdjacency("balanced", test, lambda size: [([0.0] * 3, [1.0, -1.0, 0.0])], lambda size: corners)


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_is_drawn_is_adjacent_and_in_the_domain(relation: str) -> None:
    rng, rule = np.random.default_rng(1), adjacency(relation)
    found = patches(mechanism_under(rule), SIZE, DOMAIN) or []
    assert found
    for patch in found:
        for _ in range(50):
            left, right = patch.pair(patch.draw(rng))
            assert rule.adjacent(left, right)
            for side in (left, right):
                assert np.all((np.asarray(side) >= DOMAIN[0]) & (np.asarray(side) <= DOMAIN[1]))


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_pair_leads_back_to_its_variables(relation: str) -> None:
    rng = np.random.default_rng(2)
    for patch in patches(mechanism_under(adjacency(relation)), SIZE, DOMAIN) or []:
        point = patch.draw(rng)
        again = patch.point(*patch.pair(point))
        assert again is not None
        assert patch.pair(again) == (pytest.approx(patch.pair(point)[0]), pytest.approx(patch.pair(point)[1]))


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_corner_of_the_relation_can_be_reached(relation: str) -> None:
    rule = adjacency(relation)
    corners = rule.vertices(SIZE)
    found = patches(mechanism_under(rule), SIZE, DOMAIN) or []
    for move in corners if corners is not None else ():
        left = [1.0] * SIZE
        assert any(patch.point(left, (np.array(left) + move).tolist()) is not None for patch in found)


def test_the_constraints_say_what_stays_in_the_domain() -> None:
    (patch,) = patches(mechanism_under(adjacency("linf")), 2, DOMAIN) or []
    rows, offsets = patch.slopes()
    inside, outside = np.array([4.0, 0.0, 1.0, 1.0]), np.array([4.5, 0.0, 1.0, 1.0])
    assert np.all(rows @ inside + offsets >= 0)
    assert np.any(rows @ outside + offsets < 0)
    assert patch.pair(outside) == ([4.0, 0.0], [5.0, 1.0])  # shifted back, and the move is kept


def test_no_patch_makes_what_is_not_adjacent() -> None:
    for relation in ("l1", "monotone"):
        found = patches(mechanism_under(adjacency(relation)), SIZE, DOMAIN) or []
        assert all(patch.point([0.0] * 3, [1.0, -1.0, 0.0]) is None for patch in found)


def test_a_relation_of_ones_own_is_the_hull_of_its_corners_where_that_is_convex() -> None:
    rule, rng = balanced(), np.random.default_rng(3)
    (patch,) = patches(mechanism_under(rule), SIZE, DOMAIN) or []
    pairs = [patch.pair(patch.draw(rng)) for _ in range(50)]
    assert all(rule.adjacent(left, right) for left, right in pairs)
    moves = {round(right[0] - left[0], 1) for left, right in pairs}
    assert len(moves) > 5  # not the corners alone


def test_where_it_is_not_convex_there_is_a_patch_for_each_corner() -> None:
    one = adjacency("l1")
    rule = OwnAdjacency("single", one.adjacent, lambda size: [([0.0], [1.0])], one.vertices)
    found = patches(mechanism_under(rule), SIZE, DOMAIN) or []
    assert len(found) == 2 * SIZE
    rng = np.random.default_rng(4)
    assert all(rule.adjacent(*patch.pair(patch.draw(rng))) for patch in found)


def test_without_an_interval_there_is_no_polytope() -> None:
    assert patches(mechanism_under(adjacency("linf")), 2, range(5)) is None
    with pytest.raises(BadInput, match="empty"):
        patches(mechanism_under(adjacency("linf")), 2, (3, 3))


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_of_a_finite_domain_are_adjacent_and_so_are_those_near_them(relation: str) -> None:
    rule, rng = adjacency(relation), np.random.default_rng(5)
    source = pair_source(mechanism_under(rule), 3, range(4))
    assert isinstance(source, ValuePairs)
    for _ in range(20):
        pair = source.draw(rng)
        assert rule.adjacent(pair.left, pair.right)
        near = list(source.near(pair))
        assert near
        assert all(rule.adjacent(other.left, other.right) for other in near)


def test_pairs_that_a_relation_lists_are_drawn_as_they_are() -> None:
    rule = OwnAdjacency("named", lambda a, b: {a, b} == {"x", "y"}, lambda size: [("x", "y")])
    source = pair_source(mechanism_under(rule), 1, ["x", "y"])
    assert isinstance(source, ListedPairs)
    drawn = {(pair.left, pair.right) for pair in (source.draw(np.random.default_rng(s)) for s in range(20))}
    assert drawn == {("x", "y"), ("y", "x")}


def test_a_domain_without_neighbours_is_told() -> None:
    source = pair_source(mechanism_under(adjacency("linf")), 2, [0, 10])
    with pytest.raises(BadInput, match="no neighbours were found"):
        source.draw(np.random.default_rng(6))
