"""Proofs for every size: what goes through, what must not, and why."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from veridp import catalogue, mechanism
from veridp.adjacency import adjacency
from veridp.errors import NotInductive
from veridp.prove import prove, prove_for_every_size, prove_sizes

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("name", "multiple"),
    {
        "svt1": 1,
        "svt2": 1,
        "svt4": Fraction(7, 4),
        "gap_svt": 1,
        "numerical_svt": 1,
        "adaptive_svt": 1,
        "monotone_svt": 1,
        "partial_sum": 1,
        "bad_partial_sum": 2,
        "smart_sum": 2,
    }.items(),
)
def test_the_literature_s_cost_for_every_size(name, multiple):
    assert prove_for_every_size(catalogue[name]).exact_epsilon == multiple * TENTH


@pytest.mark.parametrize("cutoff", [1, 2, 4])
def test_cut_offs(cutoff):
    assert prove_for_every_size(catalogue["svt1"], cutoff=cutoff).exact_epsilon == TENTH
    assert prove_for_every_size(catalogue["svt4"], cutoff=cutoff).exact_epsilon == (1 + 6 * cutoff) * TENTH / 4


def test_prefix_sums_where_one_query_moves():
    assert prove_for_every_size(replace(catalogue["prefix_sum"], adjacency=adjacency("l1"))).exact_epsilon == TENTH


@pytest.mark.parametrize("block", [2, 3, 4])
def test_steps_that_differ_by_their_number_modulo_a_block(block):
    assert prove_for_every_size(catalogue["smart_sum"], block=block).exact_epsilon == 2 * TENTH


@pytest.mark.parametrize("name", ["svt3", "svt5", "svt6", "bad_gap_svt", "prefix_sum", "bad_smart_sum"])
def test_costs_that_grow_with_the_size_are_not_proved_for_every_size(name):
    with pytest.raises(NotInductive, match="the cost may grow with the size"):
        prove_for_every_size(catalogue[name])


@pytest.mark.parametrize("name", ["svt1", "svt2", "svt4", "gap_svt", "numerical_svt", "adaptive_svt", "smart_sum"])
def test_no_size_costs_more(name):
    bound = prove_for_every_size(catalogue[name]).exact_epsilon
    for size in (1, 2, 5, 6):
        assert prove(catalogue[name], size).exact_epsilon <= bound


def remembers_the_length(rng, queries):
    answers = []
    for query in queries:
        answers.append(query + rng.laplace(scale=10 if len(answers) < 7 else 1))
    return answers


def counts_to_seven(rng, queries):
    answers = []
    for number, query in enumerate(queries):
        answers.append(query + rng.laplace(scale=10 if number < 7 else 1))
    return answers


def counts_by_itself(rng, queries):
    answers = []
    seen = 0
    for query in queries:
        answers.append(query + rng.laplace(scale=10 if seen < 7 else 1))
        seen = seen + 1
    return answers


def looks_at_the_length(rng, queries):
    answers = []
    for query in queries:
        answers.append(query + rng.laplace(scale=10 if len(queries) < 7 else 1))
    return answers


def hides_state_in_a_list(rng, queries):
    answers = []
    hidden = []
    for query in queries:
        hidden.append(query)
        answers.append(query + rng.laplace(scale=10 if len(hidden) < 7 else 1))
    return answers


MEMORY = []


def hides_state_outside(rng, queries):
    answers = []
    MEMORY.clear()
    for query in queries:
        MEMORY.append(1)
        answers.append(query + rng.laplace(scale=10 if len(MEMORY) < 7 else 1))
    return answers


@pytest.mark.parametrize(
    ("trap", "reason"),
    [
        (remembers_the_length, "is a list"),
        (counts_to_seven, "other than for a remainder"),
        (counts_by_itself, "ever new states"),
        (looks_at_the_length, "uses it in no other way"),
        (hides_state_in_a_list, "is a list"),
        (hides_state_outside, "uses MEMORY, a list outside of it"),
        (lambda rng, queries: 0, "is not"),
    ],
)
def test_what_changes_after_a_few_steps_is_not_taken_for_a_like_step(trap, reason):
    with pytest.raises(NotInductive, match=reason):
        prove_for_every_size(mechanism(adjacency="l1")(trap))


def test_a_condition_on_a_query_alone_is_not_carried_over():
    def leaking(rng, queries):
        answers = []
        for query in queries:
            answers.append(query > 3)
        return answers

    with pytest.raises(NotInductive):
        prove_for_every_size(mechanism(adjacency="linf")(leaking))


def test_integer_noise_is_not_shifted_for_every_size():
    def counting(rng, queries):
        answers = []
        for query in queries:
            answers.append(query + rng.geometric(0.5) - rng.geometric(0.5))
        return answers

    with pytest.raises(NotInductive):
        prove_for_every_size(mechanism(adjacency="l1")(counting))


def test_neighbours_without_an_induction():
    with pytest.raises(NotInductive, match="add-remove"):
        prove_for_every_size(replace(catalogue["partial_sum"], adjacency=adjacency("add-remove")))


def test_it_says_which_it_was():
    every = prove_sizes(catalogue["svt1"], 3)
    assert str(every) == "svt1 under linf: 0.1-DP is proved for every size"
    some = prove_sizes(catalogue["noisy_max1"], 3)
    assert str(some) == "noisy_max1 under linf: 0.1-DP is proved for sizes 1..3"
    assert some.why_not == "noisy_max1 is not one loop over queries that uses it in no other way"
    assert [proof.exact_epsilon for proof in every.proofs] == [Fraction(k, 40) for k in (1, 2, 3)]


def test_outputs_that_are_nested_in_several_ways_are_not_proved_for_every_size():
    """Steps list the leaves of the output alone: [[True]] and [True] would be one output to them."""

    def nested(rng, queries, *, epsilon=1.0):
        threshold = rng.laplace(0, 2 / epsilon)
        for query in queries:
            if query + rng.laplace(0, 4 / epsilon) >= threshold:
                return [[True]]
            if query + rng.laplace(0, 4 / epsilon) >= threshold:
                return [True]
        return []

    with pytest.raises(NotInductive, match="in several ways"):
        prove_for_every_size(mechanism()(nested))
