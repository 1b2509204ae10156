"""Candidates: events in all forms of an output, and pairs that are adjacent and in the domain."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.adjacency import OwnAdjacency, adjacency
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.engines.finder.candidates import (
    End,
    EventForm,
    Forms,
    ListedPairs,
    ValuePairs,
    draw_ends,
    pair_source,
    patches,
)
from veridp.errors import BadInput
from veridp.kernel.output import Kind, Slot, Template
from veridp.mechanism import Mechanism

SAMPLED = ["at", "at3", "gap_svt", "noisy_max1", "noisy_max3", "smart_sum", "truncated_geometric", "rappor"]


def named(rng: Any, data: Any) -> Any:
    """Text, None, truth values and numbers, nested."""
    noise = rng.laplace(scale=2.0)
    if noise > 1:
        return {"kind": "high", "values": [noise, data[0]]}
    return {"kind": "low", "values": None} if noise < -1 else (bool(noise > 0), [1, 2.5])


def forms_of(mechanism: Any, data: Any) -> Forms:
    return Forms(veridp.explore(mechanism, data, defer=True))


@pytest.mark.parametrize("name", [*SAMPLED, "named"])
def test_many_outputs_at_once_are_judged_as_one_by_one(name: str) -> None:
    mechanism: Any = named if name == "named" else veridp.catalogue[name]
    size = 3
    data = [1.0, 0.5, 2.0] if name == "named" else mechanism.adjacency.example(size, mechanism.domain)
    outputs = veridp.sample(mechanism, data, 300, seed=1)
    forms, rng = forms_of(mechanism, data), np.random.default_rng(2)
    met = 0
    for _ in range(12):
        form = draw_ends(forms.draw(rng), rng)
        event = form.event(np.sort(rng.normal(scale=10, size=len(form.ends))).tolist())
        happened = event(outputs)
        assert happened.dtype == bool
        assert happened.tolist() == [event.holds(output) for output in outputs]
        met += int(happened.sum())
    assert met > 0


def test_the_forms_of_a_sparse_vector_are_its_outputs() -> None:
    forms = forms_of(veridp.catalogue["at1"], [1.0] * 4)
    trees = sorted(len(form.tree) for form in forms.listed or ())
    assert trees == [1, 2, 3, 4, 4]
    assert all(not form.numbers for form in forms.listed or ())


def test_numbers_are_open_and_get_ends() -> None:
    forms = forms_of(veridp.catalogue["at3"], [1.0, 1.0])
    (last,) = [form for form in forms.listed or () if len(form.tree) == 2 and form.numbers]
    assert last.tree[0] is None
    assert isinstance(last.tree[1], Slot)
    event = last.with_ends([End(1, True), End(1, False)]).event([-1.0, 2.0])
    assert str(event) == "output is [None, #] and output[1] in [-1, 2]"
    assert event.holds([None, 1.5])
    assert not event.holds([None, 2.5])
    assert not event.holds([1.5])


def test_where_outputs_are_many_a_form_asks_for_a_few_leaves() -> None:
    rappor = veridp.catalogue["one_time_rappor"]
    forms = forms_of(rappor, 0)
    assert forms.listed is None
    form = forms.draw(np.random.default_rng(3))
    assert form.partial is not None
    assert 1 < len(form.partial) < 20
    event = form.event([])
    share = event(veridp.sample(rappor, 0, 20_000, seed=4)).mean()
    # each bit is 1 with probability about one half; five standard errors, so that one in 10^6 runs fails
    assert share == pytest.approx(0.5 ** len(form.partial), abs=5 * math.sqrt(0.25 / 20_000) + 0.03)


def test_an_end_is_drawn_for_every_number_or_for_one() -> None:
    form = EventForm((Slot(Kind.FLOAT, 0),))
    rng = np.random.default_rng(5)
    kinds = {tuple(end.lower for end in draw_ends(form, rng).ends) for _ in range(50)}
    assert kinds == {(True,), (False,), (True, False)}


def test_events_survive_pickling() -> None:
    entry = LinearEntry(((0, 1.0),), ("output",))
    event = ExactEvent(template=Template(Slot(Kind.FLOAT, 0)), within=((entry, (NumberSpan(0.0, 1.0),)),))
    again = pickle.loads(pickle.dumps(event))  # noqa: S301 - made on the line above
    assert again == event
    assert (again.holds(0.5), again.holds(1.5), again.holds("text")) == (True, False, False)


# ------------------------------------------------------------------------------------------------------- neighbourhood
# Neighbourhoods as polytopes: what is drawn is adjacent and in the domain, and a pair leads back to its variables.


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
