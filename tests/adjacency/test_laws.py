"""What every relation must keep: all answers of its class agree with `adjacent`. A new relation is tested here too."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.adjacency import BY_NAME, Adjacency, Box, Scaled, adjacency, is_registered

PACKAGE = Path(veridp.__file__).parent
SIZE = 3
INTERVAL = (0.0, 4.0)
VALUES = [0, 1, 2, 5]
RELATIONS = [*BY_NAME.values(), *(Scaled(adjacency(name), 2.0) for name in ("linf", "l1", "monotone"))]
every_relation = pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)


@every_relation
def test_pairs_and_patches_are_neighbours_in_both_directions(relation: Adjacency) -> None:
    rng = np.random.default_rng(0)
    patches = relation.patches(SIZE, INTERVAL) or []
    drawn = [patch.pair(patch.draw(rng)) for patch in patches for _ in range(10)]
    for left, right in [*((p.left, p.right) for p in relation.pairs(SIZE, INTERVAL)), *drawn]:
        assert relation.adjacent(left, right)
        assert relation.adjacent(right, left)
    assert all(patch.sizes[1] - patch.sizes[0] == relation.extra for patch in patches)
    assert all(patch.scalar == relation.single for patch in patches)


def test_what_is_not_known_of_a_relation() -> None:
    records = ["add-remove", "add-remove-unordered", "replace", "replace-unordered"]
    assert [name for name in BY_NAME if adjacency(name).patches(SIZE, INTERVAL) is None] == []
    assert [name for name in BY_NAME if adjacency(name).polytopes(SIZE, INTERVAL) is None] == records
    assert [name for name in BY_NAME if adjacency(name).phases(1) is None] == [*records, "any"]
    assert [name for name in BY_NAME if not adjacency(name).listable] == []
    assert [name for name in BY_NAME if adjacency(name).on_records] == records


@every_relation
def test_polytopes_and_segments_hold_differences_of_neighbours(relation: Adjacency) -> None:
    polytopes = relation.polytopes(SIZE, INTERVAL)
    if polytopes is None:
        assert relation.segments(SIZE, INTERVAL) == ()
        return
    for polytope in (*polytopes, *relation.segments(SIZE, INTERVAL)):
        for corner in polytope.corners():
            right = [float(2 + step) for step in corner]
            assert relation.adjacent([2.0] * len(corner), right)
    assert _corners(polytopes) == {tuple(-x for x in corner) for corner in _corners(polytopes)}
    assert all(_corners([each]) for each in relation.segments(SIZE, INTERVAL))


def _corners(polytopes: Any) -> set[tuple[Any, ...]]:
    return {corner for polytope in polytopes for corner in polytope.corners()}


@pytest.mark.parametrize("name", ["linf", "l1", "monotone"])
def test_the_hull_and_the_boxes_have_the_corners_of_the_vertices(name: str) -> None:
    relation = adjacency(name)
    listed = {tuple(row) for row in relation.vertices(SIZE) + 0.0}  # type: ignore[operator]
    assert {tuple(map(float, corner)) for corner in _corners(relation.polytopes(SIZE, INTERVAL))} == listed


def test_whole_points_of_the_l1_hull_are_its_corners() -> None:
    (hull,) = adjacency("l1").polytopes(SIZE, INTERVAL) or ()
    assert not isinstance(hull, Box)
    assert hull.whole_at_corners
    whole = itertools.product((-1, 0, 1), repeat=SIZE)
    assert {point for point in whole if sum(map(abs, point)) == 1} == set(hull.corners())


@pytest.mark.parametrize("relation", [r for r in RELATIONS if r.listable], ids=str)
def test_random_neighbours_are_neighbours_often_enough(relation: Adjacency) -> None:
    rng = np.random.default_rng(1)
    starts = rng.choice(VALUES, size=(200, SIZE)).tolist()
    pairs = [(left[0] if relation.single else left) for left in starts]
    found = [(left, relation.random_neighbour(left, VALUES, rng)) for left in pairs]
    kept = [(left, right) for left, right in found if relation.adjacent(left, right)]
    assert len(kept) > 40  # of 200: `monotone` throws away moves in both directions
    assert any(left != right for left, right in kept)


@pytest.mark.parametrize("relation", [r for r in RELATIONS if r.phases(1)], ids=str)
def test_phases_move_queries_as_neighbours_do(relation: Adjacency) -> None:
    phases = relation.phases(period=1)
    assert phases is not None
    reached = {moves for each in phases for moves in _walks(each, next(iter(each)), SIZE)}
    assert all(relation.adjacent([0] * SIZE, list(moves)) for moves in reached)
    assert reached >= {tuple(row) for row in relation.vertices(SIZE)}  # type: ignore[union-attr]


def _walks(phases: Any, phase: str, steps: int) -> Iterator[tuple[int, ...]]:
    if steps == 0:
        yield ()
        return
    for by, following in phases[phase]:
        yield from ((by, *rest) for rest in _walks(phases, following, steps - 1))


def test_the_ordered_kind_is_the_unordered_one_with_the_order_kept() -> None:
    swapped = [1, 2, 3], [2, 1, 3]
    for name in ("add-remove", "replace"):
        ordered, unordered = adjacency(name), adjacency(f"{name}-unordered")
        assert adjacency(f"{name}-ordered") is ordered
        assert unordered.ordered_name == ordered.ordered_name == name
        assert (ordered.any_order, unordered.any_order) == (False, True)
        assert (ordered.adjacent(*swapped), unordered.adjacent(*swapped)) == (False, True)
        assert ordered.within_one_part == (name == "add-remove")
        assert not unordered.within_one_part


def test_a_name_stands_for_one_relation() -> None:
    assert is_registered(adjacency("replace"))
    assert is_registered(type(adjacency("replace"))())
    assert not is_registered(Scaled(adjacency("linf"), 2.0))


def test_no_other_module_asks_which_relation_it_is() -> None:
    """Engines ask questions of a relation, never its name or its class: so a new one is one class."""
    kinds = {type(relation).__name__ for relation in BY_NAME.values()}
    words_to_find = {*kinds, *(f'"{name}"' for name in BY_NAME)}
    found = []
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.parent.name == "adjacency" or not any(word in text for word in words_to_find):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and node.id in kinds:
                found.append(f"{file.relative_to(PACKAGE)}:{node.lineno}: {node.id}")
            if isinstance(node, ast.Compare):
                words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                if words & set(BY_NAME):
                    found.append(f"{file.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}")
    assert found == []
