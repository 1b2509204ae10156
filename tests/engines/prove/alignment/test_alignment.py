"""Proved ε against the literature, against exact losses, and what cannot be proved."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veridp import catalogue, mechanism
from veridp.adjacency import OwnAdjacency, adjacency
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.engines.prove.explanation import alignment_text
from veridp.errors import BadInput, NotAffine


def loop_argmax(rng, queries, *, epsilon=0.1):
    best, index = None, 0
    for i, query in enumerate(queries):
        noisy = query + rng.laplace(scale=2 / epsilon)
        if best is None or noisy > best:
            best, index = noisy, i
    return index


TENTH = Fraction(1, 10)
TABLE = {  # multiples of the mechanism's ε at size 5
    "svt1": 1,
    "svt2": 1,
    "gap_svt": 1,
    "adaptive_svt": 1,
    "monotone_svt": 1,
    "svt4": Fraction(7, 4),
    "bad_gap_svt": Fraction(5, 4),
    "noisy_max1": 1,
    "noisy_max2": 1,
    "noisy_max3": Fraction(5, 2),
    "svt6": Fraction(5, 2),
    "prefix_sum": 5,
    "partial_sum": 1,
    "bad_partial_sum": 2,
    "smart_sum": 2,
    "laplace": 1,
    "noisy_hist1": 1,
    "noisy_hist2": 100,
}


@pytest.mark.parametrize(("name", "multiple"), TABLE.items())
def test_the_best_alignment_at_size_5(name, multiple):
    proof = prove(catalogue[name], 5)
    assert proof.exact_epsilon == multiple * TENTH
    assert proof.epsilon == pytest.approx(float(multiple) / 10, rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_it_scales_with_the_budget(epsilon):
    assert prove(catalogue["svt4"], 4, epsilon=epsilon).epsilon == pytest.approx(1.75 * epsilon, rel=1e-12)


def test_numerical_svt_with_one_answer():
    assert prove(catalogue["numerical_svt"], 5, cutoff=1).exact_epsilon == TENTH


def test_prefix_sums_where_one_query_moves():
    assert prove(replace(catalogue["prefix_sum"], adjacency=adjacency("l1")), 5).exact_epsilon == TENTH


@pytest.mark.parametrize("name", ["svt5", "noisy_max4", "bad_smart_sum"])
def test_what_no_alignment_can_prove(name):
    proof = prove(catalogue[name], 5)
    assert proof.epsilon == math.inf
    assert proof.exact_epsilon is None
    _, _, shift = proof.worst
    assert shift.moves is None


def test_a_loop_coded_arg_max_is_merged_into_one_event_for_each_index():
    proof = prove(loop_argmax, 5)
    assert proof.exact_epsilon == TENTH
    assert {str(event.output): event.paths for event in proof.events} == {"0": 1, "1": 1, "2": 2, "3": 4, "4": 8}
    assert len(proof.events) == 5


def test_paths_whose_union_is_not_convex_stay_apart():
    def outside(rng, queries):
        noisy = queries[0] + rng.laplace(scale=10)
        return "far" if noisy > 1 or noisy < -1 else "near"

    proof = prove(outside, 1)
    assert sorted((str(event.output), event.paths) for event in proof.events) == [
        ("'far'", 1),
        ("'far'", 1),
        ("'near'", 1),
    ]
    assert proof.exact_epsilon == TENTH


def test_integer_noise_at_a_boundary_is_not_lost_in_a_merger():
    def counting(rng, queries):
        n = rng.geometric(0.5)
        if n > 3:
            return 1
        return 0 if n < 3 else 1

    proof = prove(counting, 1)
    assert sorted((str(event.output), event.paths) for event in proof.events) == [("0", 1), ("1", 1), ("1", 1)]


def test_integer_noise_proves_for_whole_data_only():
    proof = prove(catalogue["geometric"], 1)
    assert proof.whole
    assert str(proof).endswith("0.1-DP is proved for data in whole numbers")
    assert compare(catalogue["geometric"], [1.0], [1.5]).epsilon == math.inf  # what a proof for all data would deny
    assert not prove(catalogue["svt1"], 2).whole


@pytest.mark.parametrize("size", [1, 2, 3])
def test_integer_noise_where_whole_differences_are_not_all_corners(size):
    chosen = replace(catalogue["geometric"], adjacency=adjacency("linf"))
    proof = prove(chosen, size)
    assert proof.whole
    assert proof.epsilon == pytest.approx(size / 10, rel=1e-12)
    pair = compare(chosen, [0] * size, [1, -1, 1][:size])
    assert pair.epsilon == pytest.approx(size / 10, rel=1e-9)


def test_integer_noise_that_moves_alike_for_all_data_needs_none_in_whole_numbers():
    def above(rng, queries):
        return queries[0] + rng.geometric(0.5) - rng.geometric(0.5) > 3

    proof = prove(mechanism(adjacency="linf")(above), 1)
    assert not proof.whole
    assert proof.epsilon == pytest.approx(math.log(2), rel=1e-12)  # one step up, whatever the data
    left, right = [2.5], [1.5]
    assert compare(above, left, right).epsilon <= proof.epsilon + 1e-12


def test_shifts_by_fractions_are_the_cheapest():
    halves = OwnAdjacency(
        "halves", lambda a, b: True, lambda size: [([0.0], [0.5])], lambda size: np.array([[0.5], [-0.5]])
    )

    def threshold(rng, queries):
        return queries[0] + rng.laplace(scale=4) > 0

    assert prove(mechanism(adjacency=halves)(threshold), 1).exact_epsilon == Fraction(1, 8)


def test_conditions_on_data_alone_leave_no_proof():
    def leaking(rng, queries):
        return "big" if queries[0] > 3 else "small"

    assert prove(leaking, 1).epsilon == math.inf


def test_noise_without_a_rule_must_stay_where_it_is():
    def gaussian(rng, queries):
        return queries[0] + rng.normal(scale=10)

    def ignoring(rng, queries):
        return rng.normal(scale=10)

    assert prove(gaussian, 1).epsilon == math.inf
    assert prove(ignoring, 1).epsilon == 0


@pytest.mark.parametrize("name", ["svt1", "svt4", "noisy_max1", "noisy_max3", "bad_gap_svt", "gap_svt", "prefix_sum"])
def test_no_exact_loss_exceeds_the_proof(name):
    chosen = catalogue[name]
    proof = prove(chosen, 3)
    rng = np.random.default_rng(5)
    corners = chosen.adjacency.vertices(3)
    for _ in range(12):
        left = rng.uniform(-10, 10, size=3).round(2)
        move = corners[rng.integers(len(corners))] * rng.uniform(0, 1)
        found = compare(chosen, left.tolist(), (left + move).tolist()).epsilon
        assert found <= proof.epsilon + 1e-9


halves = st.integers(-3, 3).map(lambda k: k / 2)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(halves, halves, halves, halves), min_size=1, max_size=3), halves, halves)
def test_random_affine_programs_are_never_proved_below_their_exact_loss(branches, first, second):
    def program(rng, queries):
        noise = [rng.laplace(scale=2), rng.laplace(scale=3)]
        answers = []
        for a, b, c, constant in branches:
            answers.append(a * noise[0] + b * noise[1] + c * queries[0] + constant > 0)
            if answers[-1] and c:
                break
        return answers

    proof = prove(mechanism(adjacency="linf")(program), 1)
    left = [first]
    for move in (1.0, -1.0, 0.5):
        assert compare(program, left, [first + move]).epsilon <= proof.epsilon + 1e-9


def test_the_alignment_in_words():
    proof = prove(catalogue["svt4"], 5)
    event, corner, shift = proof.worst
    text = alignment_text(event, corner.tolist(), shift)
    assert "n0 (the noise of noisy_threshold) must be 1 higher" in text
    assert text.endswith("that costs ε = 0.025 + 2·0.075 = 0.175")


def test_bad_input():
    with pytest.raises(
        NotAffine, match=r"the scale of noise depends on .* open value.*give it a list of values as its"
    ):
        prove(lambda rng, data: data[0] + rng.laplace(scale=1 + abs(data[1])), 2)
    with pytest.raises(BadInput, match="size must be an integer >= 1, got 0"):
        prove(catalogue["svt1"], 0)
