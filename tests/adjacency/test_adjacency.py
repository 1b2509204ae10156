"""Who is a neighbour of whom, the pairs worth trying, and the corners of the polytopes of differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from veridp.adjacency import BY_NAME, MANY_PAIRS, OwnAdjacency, Pair, Scaled, adjacency, patterns
from veridp.errors import BadInput

NAMES = ["linf", "l1", "monotone", "add-remove", "add-remove-unordered", "replace", "replace-unordered", "any"]
QUERIES = ["linf", "l1", "monotone"]
DOMAINS = [(0, 1), (0, 2), (-10, 10), (3, 3.5), range(-10, 11), range(6), [0, 1], [0.5, 1.0, 7.0]]

# Ding et al. (CCS 2018), Table 1
TABLE = {
    5: {
        "one above": ([1, 1, 1, 1, 1], [2, 1, 1, 1, 1]),
        "one below": ([1, 1, 1, 1, 1], [0, 1, 1, 1, 1]),
        "one above, rest below": ([1, 1, 1, 1, 1], [2, 0, 0, 0, 0]),
        "one below, rest above": ([1, 1, 1, 1, 1], [0, 2, 2, 2, 2]),
        "half half": ([1, 1, 1, 1, 1], [0, 0, 0, 2, 2]),
        "all above, all below": ([1, 1, 1, 1, 1], [2, 2, 2, 2, 2]),
        "x shape": ([1, 1, 0, 0, 0], [0, 0, 1, 1, 1]),
    },
    10: {
        "one above": ([1] * 10, [2] + [1] * 9),
        "one below": ([1] * 10, [0] + [1] * 9),
        "one above, rest below": ([1] * 10, [2] + [0] * 9),
        "one below, rest above": ([1] * 10, [0] + [2] * 9),
        "half half": ([1] * 10, [0] * 5 + [2] * 5),
        "all above, all below": ([1] * 10, [2] * 10),
        "x shape": ([1] * 5 + [0] * 5, [0] * 5 + [1] * 5),
    },
    2: {
        "one above": ([1, 1], [2, 1]),
        "one below": ([1, 1], [0, 1]),
        "one above, rest below": ([1, 1], [2, 0]),
        "one below, rest above": ([1, 1], [0, 2]),
        "half half": ([1, 1], [0, 2]),
        "all above, all below": ([1, 1], [2, 2]),
        "x shape": ([1, 0], [0, 1]),
    },
    1: {
        "one above": ([1], [2]),
        "one below": ([1], [0]),
        "one above, rest below": ([1], [2]),
        "one below, rest above": ([1], [0]),
        "half half": ([1], [0]),
        "all above, all below": ([1], [2]),
        "x shape": ([0], [1]),
    },
}


@pytest.mark.parametrize("size", [1, 2, 5, 10])
@pytest.mark.parametrize("domain", [(-10, 10), (0, 2), range(-10, 11), range(4)])
def test_the_patterns_are_those_of_the_literature_both_ways(size: int, domain: Any) -> None:
    listed = patterns(size, domain)
    assert len(listed) == 14
    for (name, (left, right)), forward, backward in zip(TABLE[size].items(), listed[::2], listed[1::2], strict=True):
        assert forward == Pair(left, right, name)
        assert backward == Pair(right, left, f"{name}, reversed")


def test_patterns_shrink_into_a_narrow_domain() -> None:
    assert patterns(2, (0, 1))[0] == Pair([0.5, 0.5], [1.0, 0.5], "one above")
    assert patterns(2, (3, 3.5))[0] == Pair([3.25, 3.25], [3.5, 3.25], "one above")
    assert patterns(2, (-7, -5))[0] == Pair([-6.0, -6.0], [-5.0, -6.0], "one above")


def test_two_values_make_patterns_of_two_levels() -> None:
    values = [(pair.left, pair.right) for pair in patterns(2, [0, 1])]
    assert ([1, 1], [0, 1]) in values
    assert ([1, 0], [0, 1]) in values
    assert all(left != right for left, right in values)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ((1, 1), r"\(1, 1\) is empty"),
        ((2, 1), r"\(2, 1\) is empty"),
        (("a", "b"), "or a list of numbers"),
        (["a", "b"], "or a list of numbers"),
        ([], "or a list of numbers"),
        ([0, 5], "no two values within 1"),
        ([3], "no two values within 1"),
    ],
)
def test_a_domain_that_leaves_no_pairs_is_refused(domain: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        patterns(3, domain)


@pytest.mark.parametrize("name", NAMES[:-1])
@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused(name: str, size: int) -> None:
    for method in (adjacency(name).example, lambda size, domain: list(adjacency(name).pairs(size, domain))):
        with pytest.raises(BadInput, match=r"size must be an integer >= 1"):
            method(size, (-10, 10))


# ---------------------------------------------------------------------------------------------------------- all of them


def within(value: Any, domain: Any) -> bool:
    if isinstance(domain, tuple):
        return domain[0] <= value <= domain[1]
    return value in domain


@given(
    name=st.sampled_from(NAMES),
    size=st.integers(1, 12),
    domain=st.sampled_from(DOMAINS)
    | st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)).map(lambda ends: (ends[0], ends[0] + ends[1])),
)
def test_every_pair_is_adjacent_and_within_the_domain_and_tried_both_ways(name, size, domain) -> None:
    relation = adjacency(name)
    pairs: list[Any] = list(relation.pairs(size, domain))
    assert pairs
    sides = [(repr(pair.left), repr(pair.right)) for pair in pairs]
    assert {(b, a) for a, b in sides} == set(sides)
    for pair in pairs:
        assert relation.adjacent(pair.left, pair.right)
        assert relation.adjacent(pair.right, pair.left)
        for data in (pair.left, pair.right):
            assert all(within(value, domain) for value in (data if isinstance(data, list) else [data]))
        assert pair.left != pair.right
        assert pair.pattern
    if name in QUERIES:
        assert len(set(sides)) == len(sides)
        assert all(len(pair.left) == len(pair.right) == size for pair in pairs)


@given(name=st.sampled_from(NAMES), size=st.integers(1, 12), domain=st.sampled_from(DOMAINS))
def test_the_example_is_an_input_of_this_size_within_the_domain(name, size, domain) -> None:
    example = adjacency(name).example(size, domain)
    values = example if isinstance(example, list) else [example]
    assert all(within(value, domain) for value in values)
    assert len(values) == (1 if name == "any" else size)


vectors = st.integers(1, 5).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(-3, 3), min_size=n, max_size=n) for _ in range(2)])
)


@given(vectors)
def test_relations_of_queries_by_their_definitions(pair: tuple[list[float], list[float]]) -> None:
    left, right = pair
    moves = [b - a for a, b in zip(left, right, strict=True)]
    assume(not any(1 < abs(move) < 1 + 1e-6 for move in moves))  # what rounding may excuse
    small = all(abs(move) <= 1 for move in moves)
    assert adjacency("linf").adjacent(left, right) == small
    assert adjacency("l1").adjacent(left, right) == (small and sum(move != 0 for move in moves) <= 1)
    one_way = all(move >= 0 for move in moves) or all(move <= 0 for move in moves)
    assert adjacency("monotone").adjacent(left, right) == (small and one_way)


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_no_pair_of_vectors_is_not_adjacent(name: str) -> None:
    relation = adjacency(name)
    for left, right in (([1.0], [1.0, 2.0]), ("a", "b"), (None, None), (1.0, 1.0), ([math.nan], [0.0])):
        assert not relation.adjacent(left, right)
    assert relation.adjacent(np.zeros(3), [0.0, 1.0, 0.0])
    assert relation.adjacent([0.1 + 0.2], [1.3])  # a move of 1 but for rounding


# -------------------------------------------------------------------------------------------------------------- corners


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_corners_of_the_polytopes(size: int) -> None:
    rows = lambda name: {tuple(row + 0.0) for row in adjacency(name).vertices(size)}  # noqa: E731
    assert rows("linf") == set(itertools.product((-1.0, 1.0), repeat=size))
    units = {tuple(float(i == j) for j in range(size)) for i in range(size)}
    assert rows("l1") == units | {tuple(-x + 0.0 for x in unit) for unit in units}
    up = set(itertools.product((0.0, 1.0), repeat=size))
    assert rows("monotone") == up | {tuple(-x + 0.0 for x in corner) for corner in up}


@pytest.mark.parametrize("name", QUERIES)
def test_a_step_to_a_corner_is_adjacent(name: str) -> None:
    for corner in adjacency(name).vertices(3):
        assert adjacency(name).adjacent([0.0] * 3, corner)


@pytest.mark.parametrize("name", NAMES[3:])
def test_relations_of_records_have_no_polytope(name: str) -> None:
    assert adjacency(name).vertices(3) is None


# -------------------------------------------------------------------------------------------------------------- records


def test_adding_and_removing_a_record() -> None:
    ordered, unordered = adjacency("add-remove"), adjacency("add-remove-unordered")
    for left, right in ([[1, 2], [1, 3, 2]], [[1, 2], [1, 2, 2]], [[[1, 2], [3, 4]], [[3, 4]]], [(1,), np.array([])]):
        assert ordered.adjacent(left, right)
        assert unordered.adjacent(left, right)
    for left, right in ([[1, 2], [2, 1, 1]], [[1, 2], [2, 1]], [[1, 2, 3], [3, 1]]):
        assert not ordered.adjacent(left, right)
        assert unordered.adjacent(left, right)
    for left, right in ([[1, 2], [1, 3]], [[1], [1, 2, 3]], [1, [1]]):
        assert not ordered.adjacent(left, right)
        assert not unordered.adjacent(left, right)


def test_replacing_a_record() -> None:
    ordered, unordered = adjacency("replace"), adjacency("replace-unordered")
    for left, right in (
        [[1, 2, 3], [1, 5, 3]],
        [[1, 2], [1, 2]],
        [np.eye(2), [[1, 0], [7, 7]]],
        [[{"a": 1}], [{"b": 2}]],
    ):
        assert ordered.adjacent(left, right)
    for left, right in ([[1, 2, 3], [3, 1, 5]], [[1, 2], [2, 1]], [[1, 2, 3], [2, 3, 4]]):
        assert not ordered.adjacent(left, right)
        assert unordered.adjacent(left, right)
    for left, right in ([[1, 2], [3, 4]], [[1, 2], [1]], [[1, 2], 3]):
        assert not ordered.adjacent(left, right)
        assert not unordered.adjacent(left, right)


def test_the_relations_of_records_say_what_becomes_of_the_order() -> None:
    assert str(adjacency("replace")) == "replace (position by position)"
    assert str(adjacency("replace-unordered")) == "replace-unordered (records in any order)"
    assert str(adjacency("add-remove")) == "add-remove (order kept)"
    assert str(adjacency("add-remove-unordered")) == "add-remove-unordered (records in any order)"
    assert adjacency("replace-ordered") is adjacency("replace")
    assert adjacency("add-remove-ordered") is adjacency("add-remove")


@pytest.mark.parametrize("kind", ["", "-unordered"])
def test_sets_and_mappings_have_no_order_and_records_of_their_own(kind: str) -> None:
    replaced, added = adjacency(f"replace{kind}"), adjacency(f"add-remove{kind}")
    assert replaced.adjacent({1, 2, 1000}, {1, 2, 77})
    assert added.adjacent(frozenset("ab"), frozenset("abc"))
    assert replaced.adjacent({"ann": 1, "bob": 2}, {"bob": 2, "ann": 3})
    assert not replaced.adjacent({"ann": 1, "bob": 2}, {"ann": 3, "bob": 4})  # two entries are others


class Frame:
    """What stands for a table of pandas: iterating over it gives the names of its columns."""

    def __init__(self, *rows: tuple[object, ...]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[str]:
        return iter(["age", "city"])

    def itertuples(self, index: bool, name: None) -> Iterator[tuple[object, ...]]:
        return iter(self.rows)


def test_the_records_of_a_table_are_its_rows() -> None:
    left, right, other = Frame((30, "a"), (40, "b")), Frame((30, "a"), (50, "b")), Frame((1, "c"), (2, "d"))
    assert adjacency("replace").adjacent(left, right)
    assert not adjacency("replace").adjacent(left, other)


@given(st.lists(st.integers(0, 2), max_size=4), st.lists(st.integers(0, 2), max_size=4))
def test_the_ordered_relations_are_edits_at_one_position(left: list[int], right: list[int]) -> None:
    """Against lists of all neighbours; the unordered ones are the same up to a permutation of either side."""
    removed = [left[:k] + left[k + 1 :] for k in range(len(left))]
    added = [[*left[:k], v, *left[k:]] for k in range(len(left) + 1) for v in range(3)]
    replaced = [[*left[:k], v, *left[k + 1 :]] for k in range(len(left)) for v in range(3)]
    ordered = {"add-remove": [left, *removed, *added], "replace": [left, *replaced]}
    for name, neighbours in ordered.items():
        assert adjacency(name).adjacent(left, right) == (right in neighbours)
        unordered = adjacency(f"{name}-unordered")
        assert unordered.adjacent(left, right) == (sorted(right) in [sorted(one) for one in neighbours])
        assert unordered.adjacent(left, right) == unordered.adjacent(right, left)


def test_every_position_is_tried() -> None:
    pairs = list(adjacency("replace").pairs(4, (0, 1)))
    assert {next(k for k in range(4) if p.left[k] != p.right[k]) for p in pairs} == {0, 1, 2, 3}  # type: ignore[index]
    assert len(list(adjacency("replace").pairs(1000, (0, 1)))) == 12


def test_any_two_values_of_a_small_domain_are_all_tried() -> None:
    relation = adjacency("any")
    assert [(p.left, p.right) for p in relation.pairs(1, ["a", "b", "c"])] == list(itertools.permutations("abc", 2))
    assert {(p.left, p.right) for p in relation.pairs(1, (0, 1))} == set(itertools.permutations((0.0, 0.5, 1.0), 2))
    assert relation.adjacent("anything", 7)


def test_of_a_large_domain_every_value_meets_the_ends() -> None:
    values = range(1000)
    assert len(values) ** 2 > MANY_PAIRS
    pairs = {(p.left, p.right) for p in adjacency("any").pairs(1, values)}
    expected = {(end, value) for end in (0, 999) for value in values if value != end}
    assert pairs == expected | {(b, a) for a, b in expected}


def test_one_value_cannot_be_told_from_another() -> None:
    with pytest.raises(BadInput, match=r"must have at least two values"):
        list(adjacency("any").pairs(1, ["only"]))


# ----------------------------------------------------------------------------------------------------- one's own, names


def test_a_relation_of_ones_own() -> None:
    doubled = OwnAdjacency(
        "doubled",
        test=lambda left, right: right == 2 * left,
        candidates=lambda size: [(k, 2 * k) for k in range(1, size + 1)],
        corners=lambda size: np.ones((1, size)),
    )
    assert adjacency(doubled) is doubled
    assert str(doubled) == "doubled"
    assert doubled.adjacent(3, 6)
    assert doubled.adjacent(6, 3)
    assert not doubled.adjacent(3, 5)
    assert doubled.example(2, (-10, 10)) == 1
    assert list(doubled.pairs(2, (-10, 10))) == [
        Pair(1, 2, "doubled 1"),
        Pair(2, 1, "doubled 1, reversed"),
        Pair(2, 4, "doubled 2"),
        Pair(4, 2, "doubled 2, reversed"),
    ]
    assert doubled.vertices(3).tolist() == [[1.0, 1.0, 1.0]]


def test_a_relation_of_ones_own_must_keep_its_word() -> None:
    wrong = OwnAdjacency("wrong", test=lambda left, right: False, candidates=lambda size: [(1, 2)])
    with pytest.raises(BadInput, match=r"adjacency 'wrong': its candidate 1, 1 and 2, is not adjacent"):
        list(wrong.pairs(1, (0, 1)))
    empty = OwnAdjacency("empty", test=lambda left, right: True, candidates=lambda size: [])
    with pytest.raises(BadInput, match=r"adjacency 'empty': no candidates of size 3"):
        empty.example(3, (0, 1))
    assert empty.vertices(3) is None


def test_names() -> None:
    assert list(BY_NAME) == NAMES
    assert [adjacency(name).name for name in NAMES] == NAMES
    for unknown in ("l2", None, ["linf"]):
        with pytest.raises(BadInput, match=f"is unknown; use one of {', '.join(NAMES)}, or"):
            adjacency(unknown)  # type: ignore[arg-type]


def test_a_scaled_relation_is_for_another_sensitivity() -> None:
    relation = Scaled(adjacency("l1"), 2.5)
    assert relation.adjacent([0.0, 1.0], [2.5, 1.0])
    assert not relation.adjacent([0.0, 1.0], [2.6, 1.0])
    assert not relation.adjacent([0.0, 1.0], [2.5, 2.0])
    assert not relation.adjacent([0.0], "x")
    assert relation.vertices(2) is not None
    assert np.abs(relation.vertices(2)).max() == 2.5
    pairs = list(relation.pairs(3, (-10, 10)))
    assert pairs
    assert all(relation.adjacent(pair.left, pair.right) for pair in pairs)
    assert max(abs(a - b) for pair in pairs for a, b in zip(pair.left, pair.right, strict=True)) == 2.5  # type: ignore[call-overload]
    for wrong, complaint in [
        ((adjacency("replace"), 2.0), "not a relation"),
        ((adjacency("l1"), 0.0), "factor"),
    ]:
        with pytest.raises(BadInput, match=complaint):
            Scaled(*wrong)
