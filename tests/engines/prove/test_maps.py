"""Data that are sorted, clamped or reduced to extremes before noise is added: continuous functions of the data."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import numpy as np
import pytest

from veridp import mechanism
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.engines.prove.regions import regions_of
from veridp.engines.prove.replay import spot_check
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.path import leaves
from veridp.mechanism import as_mechanism
from veridp_check.checker import check


def largest(rng, data):
    return max(data) + rng.laplace()


def in_order(rng, data):
    return np.sort(data)[::-1] + rng.laplace(size=len(data))


def middle(rng, data):
    return float(np.median(data)) + rng.laplace()


def not_negative(rng, data):
    return [max(x, 0.0) + rng.laplace() for x in data]


def is_wide(rng, data):
    return max(data) - min(data) + rng.laplace() > 3


def twice_the_best(rng, data):
    return 2 * data[int(np.argmax(data))] + rng.laplace()


# For three numbers, under l1, linf and monotone: a largest entry, a median and a clamp move by no more than an entry
# does, a range by twice as much unless all entries move one way; three entries that move cost three times as much.
COSTS = {
    largest: (1, 1, 1),
    in_order: (1, 3, 3),
    middle: (1, 1, 1),
    not_negative: (1, 3, 3),
    is_wide: (1, 2, 1),
    twice_the_best: (2, 2, 2),
}
ADJACENCIES = ("l1", "linf", "monotone")


@pytest.mark.parametrize("place", range(3), ids=ADJACENCIES)
@pytest.mark.parametrize("function", COSTS, ids=lambda function: function.__name__)
def test_the_cost_is_that_of_the_steepest_piece_for_all_data(function, place):
    mech = mechanism(adjacency=ADJACENCIES[place], size=3)(function)
    proof = prove(mech)
    assert proof.epsilon == COSTS[function][place]
    assert proof.restriction == ""
    assert spot_check(check(proof.certificate), function, 100, seed=2).verified


@pytest.mark.parametrize("function", [largest, middle, is_wide])
def test_no_neighbours_lose_more(function):
    rng = np.random.default_rng(4)
    mech = mechanism(adjacency="linf", size=3)(function)
    proved = prove(mech).epsilon
    for _ in range(10):
        left = rng.uniform(-3, 3, 3).round(2)
        right = left + rng.uniform(-1, 1, 3).round(2)
        assert compare(mech, left.tolist(), right.tolist()).epsilon <= proved + 1e-9


# Records from -1 to 4, one of which is replaced: the same for a step of 5.
@pytest.mark.parametrize("function", [largest, middle, is_wide, in_order, twice_the_best])
def test_a_replaced_record_moves_from_one_end_to_the_other(function):
    rng = np.random.default_rng(6)
    mech = mechanism(adjacency="replace", domain=(-1, 4), size=3)(function)
    proof = prove(mech)
    assert proof.epsilon == 5 * COSTS[function][0]
    assert proof.restriction == "for records from -1 to 4"
    assert spot_check(check(proof.certificate), function, 100, seed=2).verified
    for _ in range(5):
        left = rng.uniform(-1, 4, 3).round(2).tolist()
        right = [float(rng.choice([-1.0, 4.0])), *left[1:]]
        assert compare(mech, left, right).epsilon <= proof.epsilon + 1e-9


def jumping(rng, data):
    return (data[0] if data[0] > data[1] else 0.0) + rng.laplace()


def noise_by_order(rng, data):
    return max(data) + (rng.laplace() if data[0] > data[1] else rng.laplace(scale=2.0))


def sometimes_bare(rng, data):
    return max(data) + rng.laplace() if data[0] > data[1] else max(data)


@pytest.mark.parametrize("function", [jumping, noise_by_order, sometimes_bare])
def test_what_jumps_or_draws_by_the_data_is_not_proved(function):
    assert math.isinf(prove(mechanism(adjacency="l1", size=2)(function)).epsilon)
    if function is not jumping:  # whose records are sums on either side of its jump
        assert math.isinf(prove(mechanism(adjacency="replace", domain=(0, 1), size=2)(function)).epsilon)


def forged(change):
    document = copy.deepcopy(prove(mechanism(adjacency="l1", size=2)(largest)).certificate)
    assert check(document).verified
    change(document, document["records"][0]["pieces"])
    return document


def shift_a_piece(document, pieces):
    pieces[1]["values"][0]["constant"] = "1"


def turn_a_piece(document, pieces):
    pieces[0]["values"][0]["data"] = {"0": "1", "1": "1"}


def steepen(document, pieces):
    for piece in pieces:
        piece["values"][0]["data"] = dict.fromkeys(piece["values"][0]["data"], "2")


def leave_out_a_piece(document, pieces):
    del pieces[0]


def leave_out_a_value(document, pieces):
    pieces[0]["values"] = []


def state_a_domain(document, pieces):
    document["domain"] = ["0", "1"]


def state_another_relation(document, pieces):
    document["adjacency"] = "listed"


def state_records(document, pieces):
    document["adjacency"] = "replace"


def smaller_polytopes(document, pieces):
    for polytope in document["polytopes"]:
        polytope["high"] = ["1/2"]


def functions_in_a_piece(document, pieces):
    pieces[0]["values"][0]["functions"] = {"0": "1"}


@pytest.mark.parametrize(
    "change",
    [
        shift_a_piece,
        turn_a_piece,
        steepen,
        leave_out_a_piece,
        leave_out_a_value,
        state_a_domain,
        state_another_relation,
        state_records,
        smaller_polytopes,
        functions_in_a_piece,
    ],
)
def test_a_forged_function_is_rejected(change):
    assert not check(forged(change)).verified


def widen_the_domain(document, pieces):
    document["domain"] = ["0", "3"]


def take_another_relation_of_records(document, pieces):
    document["adjacency"] = "replace-unordered"


def bend_a_piece_outside(document, pieces):
    """The pieces agree where the records are of the domain, and say nothing of others: that is no flaw."""
    pieces.append(
        {
            "conditions": [{"noise": {}, "data": {"0": "1"}, "constant": "-3", "relation": ">"}],
            "values": [{"noise": {}, "data": {}, "constant": "7"}],
        }
    )


@pytest.mark.parametrize(
    ("change", "verified"),
    [
        (shift_a_piece, False),
        (turn_a_piece, False),
        (steepen, False),
        (leave_out_a_piece, False),
        (smaller_polytopes, False),
        (widen_the_domain, False),
        (take_another_relation_of_records, False),
        (bend_a_piece_outside, True),
    ],
)
def test_functions_of_records_are_checked_in_their_domain(change, verified):
    mech = mechanism(adjacency="replace", domain=(0, 2), size=2)(largest)
    document = copy.deepcopy(prove(mech).certificate)
    assert check(document).verified
    change(document, document["records"][0]["pieces"])
    assert check(document).verified == verified


def random_program(seed):
    """A random combination of continuous functions, of jumps now and then, with noise."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-2, 3, (2, 2)).tolist()
    kinds = rng.integers(0, 5, 2).tolist()
    shift = int(rng.integers(-1, 2))

    def value(kind, x, y):
        if kind == 0:
            return max(x, y)
        if kind == 1:
            return min(x, shift)
        if kind == 2:
            return abs(x - y)
        if kind == 3:
            return x if x > shift else y
        return x + y

    def program(rng, data):
        x, y = data
        first = value(kinds[0], weights[0][0] * x, weights[0][1] * y)
        second = value(kinds[1], first, weights[1][0] * x + weights[1][1] * y)
        return second + rng.laplace(scale=2.0)

    return program


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_are_never_proved_below_their_exact_loss(seed):
    rng = np.random.default_rng(seed)
    mech = mechanism(adjacency=ADJACENCIES[seed % 2], size=2)(random_program(seed))
    proved = prove(mech).epsilon
    for _ in range(12):
        left = rng.uniform(-2, 2, 2).round(1)
        move = rng.choice([-1.0, 1.0, 0.3], 2) if seed % 2 else rng.permutation([rng.choice([-1.0, 1.0]), 0.0])
        assert compare(mech, left.tolist(), (left + move).tolist()).epsilon <= proved + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_records_are_never_proved_below_their_exact_loss(seed):
    rng = np.random.default_rng(seed)
    mech = mechanism(adjacency="replace", domain=(-2, 2), size=2)(random_program(seed))
    proved = prove(mech).epsilon
    for _ in range(12):
        left = rng.uniform(-2, 2, 2).round(1).tolist()
        right = [left[0], float(rng.choice([-2.0, 2.0, 0.5]))]
        assert compare(mech, left, right).epsilon <= proved + 1e-9


def spread(rng, data):
    return max(data) - min(data) + rng.laplace()


def test_ways_that_exclude_each_other_are_regions_and_every_data_set_is_in_one():
    data = unknowns("data", 4)
    paths = explore(as_mechanism(spread), data)
    found = regions_of(paths)
    assert len(found) == len(paths) < 75  # as many as four numbers have orders, with ties
    rng = np.random.default_rng(0)
    for numbers in [*rng.normal(size=(200, 4)).tolist(), *rng.integers(0, 3, size=(200, 4)).tolist()]:
        values = dict(zip([s for entry in data for s in entry.terms], map(Fraction, numbers), strict=True))
        here = [paths for asked, paths in found if all(c.relation.holds(c.slack.evaluate(values)) for c in asked)]
        ((path,),) = here
        (released,) = leaves(path.output)
        noise = {path.noises[0]: 0}
        assert released.evaluate({**values, **noise}) == pytest.approx(max(numbers) - min(numbers), rel=1e-12)


@pytest.mark.parametrize(("adjacency", "epsilon"), [("replace", 1), ("l1", 1), ("linf", 2)])
def test_the_range_of_four_numbers_is_proved(adjacency, epsilon):
    claimed = mechanism(adjacency=adjacency, domain=(0.0, 1.0), size=4)(spread)
    assert prove(claimed).epsilon == epsilon
