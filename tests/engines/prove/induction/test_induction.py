"""Proofs for every size: what goes through, what must not, and why."""

from __future__ import annotations

import functools
import math
import os
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from veridp import catalogue, mechanism
from veridp.adjacency import adjacency
from veridp.engines.prove import prove, prove_for_every_size, prove_sizes
from veridp.errors import NotInductive

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


MEMORY: list[object] = []


def hides_state_outside(rng, queries):
    answers = []
    MEMORY.clear()
    for query in queries:
        MEMORY.append(1)
        answers.append(query + rng.laplace(scale=10 if len(MEMORY) < 7 else 1))
    return answers


def reads_the_query_after_the_loop(rng, queries):
    total = 0.0
    for query in queries:
        total += query
    return total + rng.laplace() + query


def reads_the_number_after_the_loop(rng, queries):
    total = 0.0
    for i, query in enumerate(queries):  # noqa: B007
        total += query
    if i > 20:
        return total
    return total + rng.laplace()


def assigns_to_an_argument(rng, queries, *, scale=1.0):
    answers = []
    for query in queries:
        answers.append(query + rng.laplace(scale=scale))
        scale = scale if scale < 0.1 else scale * 0.99
    return answers


class Registry:
    steps = 0


def keeps_state_in_a_class(rng, queries):
    total = 0.0
    Registry.steps = 0
    for query in queries:
        total += query
        Registry.steps += 1
    return total if Registry.steps > 20 else total + rng.laplace()


def keeps_state_in_a_module(rng, queries):
    total = 0.0
    math.steps = 0
    for query in queries:
        total += query
        math.steps += 1
    return total if math.steps > 20 else total + rng.laplace()


def keeps_state_in_the_environment(rng, queries):
    total = 0.0
    os.environ["STEPS"] = ""
    for query in queries:
        total += query
        os.environ["STEPS"] += "1"
    return total if len(os.environ["STEPS"]) > 20 else total + rng.laplace()


BOXED: tuple[list[object]] = ([],)


def keeps_state_in_a_tuple(rng, queries):
    total = 0.0
    BOXED[0].clear()
    for query in queries:
        total += query
        BOXED[0].append(1)
    return total if len(BOXED[0]) > 20 else total + rng.laplace()


def keeps_state_in_a_generator(rng, queries):
    total = 0.0
    numbers = (number for number in range(1000))
    last = 0
    for query in queries:
        total += query
        last = next(numbers) > 20
    return total if last else total + rng.laplace()


def keeps_state_in_globals(rng, queries):
    total = 0.0
    globals()["STEPS"] = 0
    for query in queries:
        total += query
        globals()["STEPS"] += 1
    return total if globals()["STEPS"] > 20 else total + rng.laplace()


def remembering(number, seen=[]):  # noqa: B006
    seen.append(number)
    return len(seen)


def keeps_state_in_a_helper(rng, queries):
    total = 0.0
    count = 0
    for query in queries:
        total += query
        count = remembering(1) > 10**6
    return total if count else total + rng.laplace()


def honest_sum(rng, queries):
    total = 0.0
    for query in queries:
        total += query
    return total + rng.laplace()


@functools.wraps(honest_sum)
def wrapped(rng, queries):
    return sum(queries) if len(queries) > 20 else honest_sum(rng, queries)


def returns_the_sum_in_the_end(rng, queries):
    answers = []
    total = 0.0
    for query in queries:
        answers.append(query + rng.laplace())
        total += query
    if total > 1000:
        return total
    return answers


def walks_past_the_data(rng, queries):
    total = 0.0
    for query in queries:
        total += query
    for query in (1, 2, 3):
        total += query
    return total + rng.laplace()


def divides_the_number(rng, queries):
    threshold = rng.laplace(scale=2)
    for i, query in enumerate(queries):
        i //= 40
        if query * (1 + (i % 2) * 50) + rng.laplace(scale=4) >= threshold:
            return True
    return False


class Counting(float):
    """A constant whose operators count, and start again before a run ends."""

    steps = 0

    def __add__(self, other):
        Counting.steps += 1
        return other * 50 if Counting.steps > 20 else other * 1

    def __mul__(self, other):
        Counting.steps = 0
        return 0.0


ZERO = Counting(0)


def has_operators_of_its_own(rng, queries):
    threshold = rng.laplace(scale=2) + ZERO * 1
    for query in queries:
        if ZERO + query + rng.laplace(scale=4) >= threshold:
            return ZERO * 1 == 0
    return ZERO * 1 > 0


def counts_in_signs_of_zero(rng, queries):
    threshold = rng.laplace(scale=2)
    first, second, third = 0.0, 0.0, 0.0
    for query in queries:
        factor = 50 if max(math.copysign(1, first), math.copysign(1, second), math.copysign(1, third)) < 0 else 1
        if factor * query + rng.laplace(scale=4) >= threshold:
            return True
        if max(math.copysign(1, first), math.copysign(1, second)) < 0:
            third = -third
        if math.copysign(1, first) < 0:
            second = -second
        first = -first
    return False


@pytest.mark.parametrize(
    ("trap", "reason"),
    [
        (remembers_the_length, "a list that is not only appended to"),
        (counts_to_seven, "other than a remainder"),
        (counts_by_itself, "keeps reaching new states"),
        (looks_at_the_length, r"test_induction\.py:\d+: .* queries outside of a single loop"),
        (hides_state_in_a_list, "a list that is not only appended to"),
        (hides_state_outside, r"test_induction\.py:\d+: .* does not support 'MEMORY\.clear\(\)'"),
        (lambda rng, queries: 0, "cannot be read"),
        (reads_the_query_after_the_loop, "query, which is read after the loop"),
        (reads_the_number_after_the_loop, "i, which is read after the loop"),
        (assigns_to_an_argument, "an assignment to the parameter scale"),
        (keeps_state_in_a_class, "an assignment to 'Registry.steps'"),
        (keeps_state_in_a_module, "an assignment to 'math.steps'"),
        (keeps_state_in_the_environment, "an assignment to 'os.environ"),
        (keeps_state_in_a_tuple, "does not support 'BOXED"),
        (keeps_state_in_a_generator, "does not support '.number for number in range"),
        (keeps_state_in_globals, "does not support|an assignment to"),
        (keeps_state_in_a_helper, "a call of 'remembering'"),
        (wrapped, "not a plain function"),
        (returns_the_sum_in_the_end, "a return of something other than the list"),
        (divides_the_number, "the number of a step, i, for something other than a remainder"),
        (has_operators_of_its_own, "ZERO, which is not a plain constant"),
        (counts_in_signs_of_zero, "keeps reaching new states"),
        (walks_past_the_data, "does not support 'for query in"),
    ],
)
def test_what_the_grammar_does_not_understand_is_not_proved_for_every_size(trap, reason):
    with pytest.raises(NotInductive, match=reason):
        prove_for_every_size(mechanism(adjacency="l1")(trap))


def test_text_that_is_not_what_runs_is_refused():
    def swapped(rng, queries):
        total = 0.0
        for query in queries:
            total += query
        return total + rng.laplace()

    swapped.__code__ = wrapped.__code__
    with pytest.raises(NotInductive):
        prove_for_every_size(mechanism(adjacency="l1")(swapped))


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
    with pytest.raises(NotInductive, match="in a loop over the records"):
        prove_for_every_size(replace(catalogue["svt1"], adjacency=adjacency("add-remove")))


def test_it_says_which_it_was():
    every = prove_sizes(catalogue["svt1"], 3)
    assert str(every) == "svt1 under linf: 0.1-DP is proved for every size"
    some = prove_sizes(catalogue["noisy_max1"], 3)
    assert str(some) == "noisy_max1 under linf: 0.1-DP is proved for sizes 1..3"
    assert re.fullmatch(r"selection\.py:\d+: .* queries outside of a single loop over it", some.why_not)
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
