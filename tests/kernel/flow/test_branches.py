"""Branches that only choose an entry of the output: one path, where nothing can tell them apart before the end."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import veridp
from veridp import exact
from veridp.kernel.explore import walk
from veridp.kernel.expressions import Condition, Select
from veridp.kernel.path import Path, leaves
from veridp.kernel.replay.agreement import Listing
from veridp.mechanism import as_mechanism

DATA = [0.0, 1.0, 2.0]


def chosen(rng, data):
    out: list[Any] = []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append("yes")
        else:
            out.append("no")
    return out


def reversed_truth(rng, data):
    out = []
    for value in data:
        if value + rng.laplace() < 1:
            out.append(False)
        else:
            out.append(True)
    return out


def listed(function: Any) -> list[Path]:
    """Its paths, after plain runs on either side of what they leave open."""
    listing = Listing(as_mechanism(function), DATA, defer=True, choosing=True)
    paths = list(listing.watch(walk(as_mechanism(function), DATA, defer=True, choosing=True)))
    assert listing.replay().runs > len(DATA)
    return paths


@pytest.mark.parametrize(("function", "values"), [(chosen, ("yes", "no")), (reversed_truth, (False, True))])
def test_one_path_holds_all_choices(function: Any, values: tuple[Any, Any]) -> None:
    (path,) = listed(function)
    assert [(leaf.then, leaf.other) for leaf in path.output] == [values] * 3
    assert all(isinstance(leaf, Select) and isinstance(leaf.condition, Condition) for leaf in path.output)


def flipped(rng, data):
    report = []
    for value in data:
        bit = int(value > 0)
        if rng.random() < 0.25:
            report.append(1 - bit)
        else:
            report.append(bit)
    return report


def permanent(rng, data):
    report = []
    for value in data:
        u = rng.random()
        if u < 0.25:
            report.append(1)
        elif u < 0.5:
            report.append(0)
        else:
            report.append(int(value > 0))
    return report


def test_entries_may_be_computed_and_chosen_in_several_steps() -> None:
    (path,) = listed(flipped)
    assert [(leaf.then, leaf.other) for leaf in path.output] == [(1, 0), (0, 1), (0, 1)]
    (path,) = listed(permanent)
    assert path.output[0].then == 1
    assert path.output[0].other == 0  # where the last two ways agree, there is nothing to choose
    assert [(leaf.then, leaf.other.then, leaf.other.other) for leaf in path.output[1:]] == [(1, 0, 1)] * 2


def draws_to_choose(rng, data):
    """What is chosen depends on another draw, which is made in one branch alone."""
    out = []
    for _ in data:
        if rng.random() < 0.5:
            out.append(1)
        elif rng.random() < 0.5:
            out.append(0)
        else:
            out.append(2)
    return out


def pops_to_choose(rng, data):
    """What is chosen is taken out of a list."""
    out, left = [], list(data)
    for _ in data:
        if rng.random() < 0.5:
            out.append(left.pop())
        else:
            out.append(0)
    return out


def counted(rng, data):
    """The list is read."""
    out = []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(True)
        else:
            out.append(False)
        if len(out) == 2 and out[0]:
            return out
    return out


def two_lists(rng, data):
    out, other = [], []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
        else:
            other.append(1)
    return out


def aliased(rng, data):
    out = []
    same = out
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
        else:
            out.append(0)
    return sum(same)


def also_counts(rng, data):
    out, hits = [], 0
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
            hits += 1
        else:
            out.append(0)
        if hits == 2:
            break
    return out


def answers_of(rng, data):
    out = []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
        else:
            out.append(0)
    return out


def looked_at(rng, data):
    """What a helper returns is looked at."""
    return sum(answers_of(rng, data))


def both_asked(rng, data):
    out = []
    for value in data:
        noisy = value + rng.laplace()
        if noisy >= 1 and noisy <= 2:
            out.append(1)
        else:
            out.append(0)
    return out


def read_as_a_local_variable(rng, data):
    """With more rounds, hardly a plain run would show that an output tells the data."""
    out = []
    for _ in range(3):
        if rng.random() < 0.5:
            out.append(1)
        else:
            out.append(0)
    return out, data[0] if sum(locals()["out"]) == 0 else 7


def first_out():
    return sys._getframe(1).f_locals["out"]


def read_by_a_helper(rng, data):
    out = []
    for _ in range(3):
        if rng.random() < 0.5:
            out.append(1)
        else:
            out.append(0)
    return out, data[0] if sum(first_out()) == 0 else 7


FORKED = [counted, two_lists, aliased, also_counts, looked_at, both_asked, pops_to_choose]
FORKED += [read_as_a_local_variable, read_by_a_helper]


@pytest.mark.parametrize("function", FORKED)
def test_what_could_tell_them_apart_is_forked(function: Any) -> None:
    paths = listed(function)
    assert len(paths) > 4
    assert not any(isinstance(leaf, Condition | Select) for path in paths for leaf in leaves(path.output))


def test_a_branch_that_draws_is_forked_and_the_one_within_it_is_not() -> None:
    paths = listed(draws_to_choose)
    assert len(paths) == 2 ** len(DATA)
    assert sum(isinstance(leaf, Select) for path in paths for leaf in path.output) == 12


def by_comprehension(rng, data):
    bits = [1, 0, 1]
    return [1 - bit if rng.random() < 0.25 else bit for bit in bits]


def by_counted_comprehension(rng, data):
    return [2 if rng.random() < (0.75 if k == 1 else 0.25) else 3 for k, _ in enumerate(data)]


def into_a_list(rng, data):
    bits = [0] * 3
    bits[1] = 1
    for k in range(3):
        if rng.random() < 0.25:
            bits[k] ^= 1
    return bits


def into_an_array(rng, data):
    bits = np.zeros(3, dtype=int)
    bits[2] = 1
    for k in range(3):
        if rng.random() < 0.25:
            bits[k] = 1 - bits[k]
    return bits.tolist()


def computed(rng, data):
    return [(k == 1) ^ (rng.random() < 0.25) for k in range(2)] + [1 - int(rng.random() < 0.5)]


def remainder(rng, data):
    return (np.array([0, 1, 1]) + (rng.random(3) < 0.25)) % 2


def of_an_array_and_a_mask(rng, data):
    return (np.array([False, True]) ^ (rng.random(2) < 0.25)).astype(int).tolist()


def unequal_to_a_mask(rng, data):
    return (np.array([False, True]) != (rng.random(2) < 0.25)).tolist()


def equal_to_a_mask(rng, data):
    return ((rng.random(2) < 0.75) == np.array([False, True])).tolist()


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (by_comprehension, [(0, 1), (1, 0), (0, 1)]),
        (by_counted_comprehension, [(2, 3)] * 3),
        (into_a_list, [(1, 0), (0, 1), (1, 0)]),
        (into_an_array, [(1, 0), (1, 0), (0, 1)]),
        (computed, [(True, False), (False, True), (0, 1)]),
        (remainder, [(1, 0), (0, 1), (0, 1)]),
        (of_an_array_and_a_mask, [(1, 0), (0, 1)]),
        (unequal_to_a_mask, [(True, False), (False, True)]),
        (equal_to_a_mask, [(True, False), (False, True)]),  # where the coin is False, and where it is True
    ],
)
def test_values_that_are_chosen_or_computed_from_a_truth_value_stay_open(
    function: Any, values: list[tuple[int, int]]
) -> None:
    (path,) = listed(function)
    assert all(isinstance(leaf, Select) for leaf in path.output)
    assert [(leaf.then, leaf.other) for leaf in path.output] == values


def filtered(rng, data):
    return [1 if rng.random() < 0.5 else 0 for value in data if value < 2]


def backwards(rng, data):
    return [1 if rng.random() < 0.5 else k for k in range(3)][::-1]


def helped(rng, data):
    return into_pairs(rng)[1:]


def into_pairs(rng):
    return [1 if rng.random() < 0.5 else 0 for _ in range(4)]


def chosen_by_choices(rng, data):
    bits = [int(rng.random() < 0.25) for _ in range(3)]
    return [0 if bit else 5 for bit in bits]


def chosen_by_a_comparison_of_choices(rng, data):
    out = []
    for _ in range(3):
        level = 2 - 2 * int(rng.random() < 0.25)
        if level > 1:
            out.append(1)
        else:
            out.append(0)
    return out


def read_between(rng, data):
    bits = [0, 0, 0]
    for k in range(3):
        if rng.random() < 0.25:
            bits[k] = 1
    return [sum(bits) for _ in bits] if bits[0] else "none"


def between_two_numbers(rng, data):
    out = []
    for _ in range(2):
        u = rng.random()
        if 0.25 < u < 0.75:
            out.append(1)
        else:
            out.append(0)
    return out


def between_in_a_comprehension(rng, data):
    return [1 if 0.25 < u < 0.75 else 0 for u in [rng.random(), rng.random()]]


def between_to_write(rng, data):
    bits = [0, 0]
    for k in range(2):
        u = rng.random()
        if 0.25 < u < 0.75:
            bits[k] = 1
    return bits


def fractions_beside_integers_of_numpy(rng, data):
    bits = [np.int64(0)] * 2
    for k in range(2):
        if rng.random() < 0.25:
            bits[k] = 0.5
    return bits


def moved_on(rng, data):
    bits = iter([5, 0, 1])
    next(bits)
    return [bit if rng.random() < 0.25 else 1 - bit for bit in bits]


def in_pairs(rng, data):
    bits = iter([0, 1, 2, 4])
    return [one if rng.random() < 0.25 else two for one, two in zip(bits, bits, strict=True)]


def falls_back(rng, data):
    try:
        return [7 if rng.random() < limit else 8 for limit in (0.25, 0.5, None)]
    except TypeError:
        return [3, 4]


def returns_another(rng, data):
    try:
        return [7 if rng.random() < 0.25 else 8 for _ in range(2)]
    finally:
        return [3]  # noqa: B012, SIM107


BETWEEN = [between_two_numbers, between_in_a_comprehension, between_to_write]
ELSEWHERE = [fractions_beside_integers_of_numpy, moved_on, in_pairs, falls_back, returns_another]
ONE_BY_ONE = [filtered, backwards, helped, chosen_by_choices, chosen_by_a_comparison_of_choices]


@pytest.mark.parametrize("function", [*ONE_BY_ONE, *BETWEEN, *ELSEWHERE])
def test_other_uses_are_forked(function: Any) -> None:
    paths = listed(function)
    assert len(paths) >= 4
    assert not any(isinstance(leaf, Condition | Select) for path in paths for leaf in leaves(path.output))


@pytest.mark.parametrize(
    "function",
    [*ONE_BY_ONE[-2:], *BETWEEN, *ELSEWHERE, read_between, into_a_list, unequal_to_a_mask, equal_to_a_mask],
)
def test_entries_have_the_probabilities_that_samples_have(function: Any) -> None:
    law = exact.law(as_mechanism(function), DATA)
    outputs = [tuple(x) if isinstance(x := function(np.random.default_rng(k), DATA), list) else x for k in range(4000)]
    for output, count in Counter(outputs).items():
        expected = law.probability(list(output) if isinstance(output, tuple) else output)
        assert abs(count / 4000 - expected) < 5 * (expected / 4000) ** 0.5  # by chance: 6e-7 for each


def hardly_ever_says(rng, data):
    """One of 10^9 draws releases an entry."""
    out = []
    for bit in data:
        u = rng.random()
        if 1e-9 < u < 0.75:
            out.append(bit)
        elif u < 0.5:
            out.append(8 + bit)
        else:
            out.append(1 - bit)
    return out


def hardly_ever_yes(rng, data):
    out = ["no"] * 2
    if rng.random() < 1e-9:
        out[0] = "yes"
    return [data[0] if answer == "yes" else 9 for answer in out]


def hardly_ever_counts(rng, data):
    out = ["no"] * 2
    if rng.random() < 1e-9:
        out[0] = "yes"
    return [data[0] if [answer].count("yes") else 9 for answer in out]


def hardly_ever_a_number(rng, data):
    out: list[Any] = [None] * 2
    if rng.random() < 1e-9:
        out[0] = "a"
    return [data[0] if answer == "a" else 9 for answer in out]


def hardly_ever_complex(rng, data):
    out = [0] * 2
    if rng.random() < 1e-9:
        out[0] = 1
    return [data[0] if answer == 1 + 0j else 9 for answer in out]


def hardly_ever_has_bits(rng, data):
    out = [0] * 2
    if rng.random() < 1e-9:
        out[0] = 1
    return [data[0] if getattr(answer, "bit_length", lambda: 0)() else 9 for answer in out]


@pytest.mark.parametrize(
    "function",
    [hardly_ever_yes, hardly_ever_counts, hardly_ever_a_number, hardly_ever_complex, hardly_ever_has_bits],
)
def test_what_is_asked_of_a_written_entry_as_it_is_returned_is_told_of_its_value(function: Any) -> None:
    mechanism = veridp.mechanism(adjacency="linf", domain=[0, 1], size=2)(function)
    assert veridp.prove(mechanism).epsilon == math.inf


def test_a_chain_of_comparisons_hides_no_way_from_a_proof() -> None:
    mechanism = veridp.mechanism(adjacency="linf", domain=[0, 1], size=2)(hardly_ever_says)
    assert veridp.prove(mechanism).epsilon == math.inf
    assert exact.compare(mechanism, [0, 0], [1, 0]).epsilon == math.inf
