"""Proofs for all records of an interval: known answers, pairs of data, lists of values, and forged certificates."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from tests.engines.prove.tampering import Document, at, drop, pointers, put

from veridp import mechanism
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.engines.prove.coupling.proof import CouplingProof
from veridp.engines.prove.replay import spot_check
from veridp.errors import MechanismFailed, NotExplorable
from veridp.mechanism import Mechanism
from veridp_check.checker import check


def clamped_sum(rng, data):
    total = 0.0
    for x in data:
        total += min(max(x, 0.0), 10.0)
    return total + rng.laplace(0, 10)


def clipped_sum(rng, data):
    return np.clip(np.array(data), 0, 10).sum() + rng.laplace(scale=10)


def mean_of_known_size(rng, data):
    return np.mean(data) + rng.laplace(0, 10 / len(data))


def mean_of_private_size(rng, data):
    return sum(data) / len(data) + rng.laplace(0, 2)


def count_by_loop(rng, data):
    count = 0
    for x in data:
        if x > 5:
            count += 1
    return count + rng.laplace()


def count_by_generator(rng, data):
    return sum(1 for x in data if x >= 3) + rng.laplace()


def count_by_array(rng, data):
    return np.sum(np.array(data) > 4) + rng.laplace()


def count_with_geometric(rng, data):
    return sum(x > 5 for x in data) + rng.geometric(0.5) - rng.geometric(0.5)


def histogram(rng, data, scale=1.0):
    counts = [0, 0, 0]
    for x in data:
        if x < 3:
            counts[0] += 1
        elif x < 6:
            counts[1] += 1
        else:
            counts[2] += 1
    return [count + rng.laplace(scale=scale) for count in counts]


def histogram_and_sum(rng, data):
    """What is mixed: whole noise on a count, and a sum that moves with it."""
    count = sum(1 for x in data if x > 5)
    return count + rng.geometric(0.5) - rng.geometric(0.5), sum(data) + rng.laplace(scale=10)


def largest_bin(rng, data):
    counts = [sum(1 for x in data if x < 5), sum(1 for x in data if x >= 5)]
    noisy = [count + rng.laplace(scale=2) for count in counts]
    return int(np.argmax(noisy))


def median_by_bisection(rng, data, rounds=2):
    low, high = 0.0, 10.0
    for _ in range(rounds):
        middle = (low + high) / 2
        if sum(1 for x in data if x < middle) + rng.laplace(scale=2) > len(data) / 2:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def first_above(rng, data):
    """A sparse vector over the records."""
    threshold = 5 + rng.laplace(scale=20)
    for place, x in enumerate(data):
        if x + rng.laplace(scale=40) > threshold:
            return place
    return None


def clipped_one_by_one(rng, data):
    return sum(np.clip(x, 0, 10) for x in data) + rng.laplace(scale=10)


def count_of_truths(rng, data):
    return sum(x > 4 for x in data) + rng.laplace()


def counts_of_truths(rng, data):
    """The same bins as those of the histogram, by products and by chains."""
    low, high = sum(x < 3 for x in data), sum(x >= 6 for x in data)
    middle = sum((x >= 3) * (x < 6) for x in data)
    return [count + rng.laplace() for count in (low, middle, high)]


def distances(rng, data):
    return sum(abs(x - 3) for x in data) + rng.laplace(scale=7)


def moments(rng, data):
    return sum(data) + rng.laplace(scale=2), sum(x**2 for x in data) + rng.laplace(scale=2)


def spread(rng, data):
    return sum((x - 0.5) * (x - 0.5) for x in data) + rng.laplace(scale=0.25)


def bins_by_index(rng, data):
    counts = [0, 0]
    for x in data:
        counts[min(int(x // 5), 1)] += 1
    return [count + rng.laplace() for count in counts]


def remainders(rng, data):
    return sum(x % 5 for x in data) + rng.laplace(scale=5)


def choice_by_scores(rng, data):
    scores = [sum(x < 5 for x in data), sum(x >= 5 for x in data)]
    weights = np.exp(np.array(scores) / 2)
    return int(rng.choice(2, p=weights / weights.sum()))


def reciprocal_of_a_count(rng, data):
    """A count that no affine expression can stand for: its paths are listed one by one."""
    return 10 / (1 + sum(x > 4 for x in data)) + rng.laplace()


def sums_by_group(rng, data):
    low = sum(x for x in data if x < 5)
    high = sum(x for x in data if x >= 5)
    return [low + rng.laplace(scale=10), high + rng.laplace(scale=10)]


LN2 = math.log(2)
KNOWN = [  # name, ends of the domain, ε under replace, ε under add-remove (None: no proof), for two records
    (clamped_sum, (0, 10), 1.0, 1.0),
    (clamped_sum, (-5, 15), 1.0, 1.0),
    (clipped_sum, (0, 10), 1.0, 1.0),
    (clipped_sum, (-5, 15), 1.0, 1.0),
    (mean_of_known_size, (0, 10), 1.0, None),  # the scale would tell the size
    (mean_of_private_size, (0, 10), 10 / 2 / 2, 10 / 3 / 2),  # (z - mean)/(n + 1) is at most the width/(n + 1)
    (count_by_loop, (0, 10), 1.0, 1.0),
    (count_by_loop, (6, 10), 0.0, 1.0),  # all of them count
    (count_by_generator, (0, 10), 1.0, 1.0),
    (count_by_array, (0, 10), 1.0, 1.0),
    (count_with_geometric, (0, 10), LN2, LN2),
    (histogram, (0, 10), 2.0, 1.0),
    (histogram, (0, 5), 2.0, 1.0),  # one bin stays empty
    (histogram_and_sum, (0, 10), 1 + LN2, 1 + LN2),
    (largest_bin, (0, 10), 1.0, 0.5),
    (median_by_bisection, (0, 10), 1.0, 0.5),  # a record more adds 1/2 to n/2, and 0 or 1 to the count
    (first_above, (0, 10), 10 / 40, None),  # one comparison moves, by 10
    (clipped_one_by_one, (-5, 15), 1.0, 1.0),
    (count_of_truths, (0, 10), 1.0, 1.0),
    (counts_of_truths, (0, 10), 2.0, 1.0),
    (distances, (0, 10), 1.0, 1.0),  # from 0 at 3 to 7 at 10
    (moments, (0, 1), 1.0, 1.0),
    (moments, (-1, 1), (1.5 + 0.75) / 2, 1.0),  # from -1/2 to 1: more than from end to end
    (spread, (0, 1), 1.0, 1.0),  # from 0 at 1/2 to 1/4 at the ends
    (bins_by_index, (0, 10), 2.0, 1.0),
    (remainders, (0, 10), 1.0, 1.0),
    (choice_by_scores, (0, 10), math.log((1 + math.e) / 2), None),  # from 2 against 0 to 1 against 1
    (reciprocal_of_a_count, (0, 10), 5.0, None),
    (sums_by_group, (0, 10), 1.5, 1.0),  # 5 less in one sum, and 10 more in the other
]


def over(function, name: str, ends, size: int = 2) -> Mechanism:
    return mechanism(adjacency=name, domain=ends, size=size)(function)


@pytest.mark.parametrize(
    ("function", "ends", "replaced", "added"), KNOWN, ids=lambda value: getattr(value, "__name__", None)
)
def test_known_answers(function, ends, replaced, added):
    assert prove(over(function, "replace", ends)).epsilon == pytest.approx(replaced, rel=1e-9)
    if added is None:
        with pytest.raises(NotExplorable, match="is not the same for sums over any 2 records"):
            prove(over(function, "add-remove", ends))
    else:
        assert prove(over(function, "add-remove", ends)).epsilon == pytest.approx(added, rel=1e-9)


def test_a_wrong_scale_is_proved_at_its_true_cost():
    """Whoever forgets that a record leaves one bin and enters another claims half of it."""
    proof = prove(replace(over(histogram, "replace", (0, 10)), epsilon=1.0))
    assert proof.epsilon == 2.0
    assert proof.keeps_claim is False


@pytest.mark.parametrize("name", ["replace", "add-remove"])
@pytest.mark.parametrize("function", [clamped_sum, bins_by_index, mean_of_private_size])
def test_no_pair_of_data_costs_more_and_some_pair_costs_as_much(function, name):
    """Exact comparisons at random data and at the ends of the interval."""
    target = over(function, name, (0, 10))
    proof = prove(target)
    rng = np.random.default_rng(1)
    worst = 0.0
    for trial in range(9):
        left = rng.uniform(0, 10, 2).tolist() if trial % 3 else rng.choice([0.0, 10.0], 2).tolist()
        right, place = list(left), int(rng.integers(2))
        new = float(rng.uniform(0, 10)) if trial % 3 > 1 else 10.0 - round(left[place], -1)
        if name == "replace":
            right[place] = new
        else:
            right.insert(place, new)
        for pair in ((left, right), (right, left)):
            worst = max(worst, compare(target, *pair).epsilon)
    assert worst <= proof.epsilon + 1e-9
    assert worst >= 0.99 * proof.epsilon


@pytest.mark.parametrize("function", [histogram, sums_by_group])
@pytest.mark.parametrize("name", ["replace", "add-remove"])
def test_a_list_of_values_costs_no_more_than_the_interval(function, name):
    """The ends of all cells are on the list: it costs as much where nothing moves between them."""
    for_all = prove(over(function, name, (0, 10)))
    listed = prove(over(function, name, [0, 4, 10]))
    assert isinstance(listed, CouplingProof)
    assert listed.epsilon <= for_all.epsilon + 1e-9
    if function is histogram:
        assert listed.epsilon == pytest.approx(for_all.epsilon)


def test_powers_of_arrays():
    @mechanism(adjacency="replace", domain=(-1.0, 1.0), size=2)
    def two_moments(rng, data):
        x = np.clip(data, -1.0, 1.0)
        return np.array([np.sum(x) + rng.laplace(), np.sum(x**2) + rng.laplace()])

    # |x - y| + |x² - y²| = d(1 + |s|) with d = |x - y|, s = x + y and d + |s| <= 2, so at most d(3 - d) <= 9/4
    assert prove(two_moments).epsilon == pytest.approx(9 / 4)


def clamped_number(rng, value):
    return min(max(value, 0.0), 100.0) + rng.laplace(scale=50.0)


def squared_number(rng, value):
    return value**2 + rng.laplace(scale=5000.0)


def above_30(rng, value):
    return (1 if value > 30 else 0) + rng.laplace(scale=2.0)


# By hand, for numbers from -50 to 150: clamped ones differ by up to 100, squares by up to 150², and 0 and 1 by 1.
@pytest.mark.parametrize(("function", "cost"), [(clamped_number, 2), (squared_number, 4.5), (above_30, 0.5)])
def test_one_number_is_one_record(function, cost):
    proof = prove(mechanism(adjacency="any", domain=(-50, 150))(function))
    assert proof.epsilon == pytest.approx(cost)
    checked = check(proof.certificate)
    assert checked.verified
    assert spot_check(checked, function, 200, seed=1).verified
    assert not spot_check(checked, lambda rng, value: value + rng.laplace(scale=50.0), 200, seed=1).verified
    assert not check(proof.certificate | {"size": 2}).verified
    assert not check(proof.certificate | {"domain": ["-50", "151"]}).verified


def test_a_number_that_decides_whether_there_is_noise_has_no_proof():
    @mechanism(adjacency="any", domain=(-50, 150))
    def leaking(rng, value):
        return above_30(rng, value) if value < 149 else 0.0

    assert math.isinf(prove(leaking).epsilon)


def test_larger_sizes():
    for size in (1, 5):
        proof = prove(over(clipped_one_by_one, "add-remove", (-5, 15), size))
        assert proof.epsilon == 1.0
        assert proof.replayed.paths == 2  # one for each size, however many cells there are
        assert prove(over(mean_of_private_size, "add-remove", (0, 10), size)).epsilon == pytest.approx(5 / (size + 1))


def test_any_order():
    """Sums do not depend on the order; what treats places differently is not proved for any order."""
    assert prove(over(clamped_sum, "replace-unordered", (-5, 15))).epsilon == 1.0
    assert prove(over(histogram, "add-remove-unordered", (0, 10))).epsilon == 1.0
    with pytest.raises(NotExplorable):
        prove(over(first_above, "replace-unordered", (0, 10)))

    def weighted(rng, data):
        return 2 * data[0] + sum(data[1:]) + rng.laplace(scale=10)

    assert prove(over(weighted, "replace", (0, 10))).epsilon == 2.0
    with pytest.raises(NotExplorable):
        prove(over(weighted, "replace-unordered", (0, 10)))


def test_data_that_decide_by_themselves():
    """Two records are compared: under replace the regions of the data are looked at; nothing hides the order."""

    def order(rng, data):
        return bool(data[0] > data[1]) if rng.random() < 0.75 else bool(data[0] <= data[1])

    proof = prove(over(order, "replace", (0, 10)))
    assert isinstance(proof, CouplingProof)
    assert proof.epsilon == pytest.approx(math.log(3))
    assert math.isinf(prove(over(lambda rng, data: bool(data[0] > 3), "replace", (0, 10))).epsilon)
    assert prove(over(lambda rng, data: bool(data[0] > 30), "replace", (0, 10))).epsilon == 0


def test_records_without_noise_are_not_proved():
    for name in ("replace", "add-remove"):
        assert math.isinf(prove(over(lambda rng, data: sum(data), name, (0, 10))).epsilon)


def test_whole_noise_does_not_hide_a_sum_that_need_not_be_whole():
    def whole(rng, data):
        return sum(data) + rng.geometric(0.5) - rng.geometric(0.5)

    assert math.isinf(prove(over(whole, "replace", (0, 10))).epsilon)


def test_what_always_raises_is_not_proved():
    def failing(rng, data):
        raise ValueError("no data")

    with pytest.raises(MechanismFailed, match="on all data of size 2"):
        prove(over(failing, "add-remove", (0, 10)))


# ------------------------------------------------------------------------------------------------------ certificates

CERTIFIED = {
    "sum": (clamped_sum, "add-remove", (-5, 15)),
    "mean": (mean_of_private_size, "add-remove", (0, 10)),
    "histogram": (histogram, "replace", (0, 10)),
    "geometric": (count_with_geometric, "add-remove", (0, 10)),
    "any order": (clamped_sum, "replace-unordered", (-5, 15)),
}


@cache
def _certified(name: str) -> Document:
    return json.loads(json.dumps(prove(over(*CERTIFIED[name])).certificate))


def certified(name: str) -> Document:
    return copy.deepcopy(_certified(name))


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_program_does_what_its_certificate_says(name):
    function = CERTIFIED[name][0]
    checked = check(certified(name))
    assert checked.rejection is None
    assert spot_check(checked, function, 60, 0).rejection is None
    other = spot_check(checked, lambda rng, data: function(rng, [*data[1:], data[0] / 2 + 1]), 60, 0)
    assert other.rejection is not None


FORGERIES = {
    "a wider domain": ("sum", put("/domain", ["-5", "16"]), "/records/0/places/0"),
    "a narrower domain": ("sum", put("/domain", ["0", "10"]), "/records/0/places/0/0"),
    "no domain": ("sum", put("/domain", None), "/records"),
    "another adjacency": ("sum", put("/adjacency", "replace"), "/records"),
    "another size": ("sum", put("/size", 3), "/records/0/places"),
    "a size that is left out": ("sum", drop("/records/1"), "/records"),
    "a record that is left out": ("sum", drop("/records/1/places/2"), "/records/1/places"),
    "a cell that is left out": ("sum", drop("/records/0/places/0/1"), "/records/0/places/0/1"),
    "a last cell that is left out": ("sum", drop("/records/0/places/0/2"), "/records/0/places/0"),
    "an end in two cells": ("sum", put("/records/0/places/0/0/ends", "[]"), "/records/0/places/0/1"),
    "an end in no cell": ("sum", put("/records/0/places/0/1/ends", "()"), "/records/0/places/0/1"),
    "a steeper sum": ("sum", put("/records/1/places/0/1/terms/0", {"1": "2"}), "/polytopes"),
    "a sum that jumps": ("sum", put("/records/0/places/0/2/terms/0", {"0": "21"}), "/polytopes"),
    "another constant": ("sum", put("/records/1/constants/0", "1"), "/polytopes"),
    "a square": ("sum", put("/records/1/places/0/1/terms/0", {"2": "1"}), "/polytopes"),
    "a power that is too high": (
        "sum",
        put("/records/1/places/0/1/terms/0", {"99": "1"}),
        "/records/1/places/0/1/terms/0/99",
    ),
    "a sum more": ("sum", put("/records/1/constants", ["0", "0"]), "/records/1/places/0/0/terms"),
    "a smaller box": ("sum", put("/polytopes/0/high", ["9"]), "/polytopes"),
    "a box for one direction": ("mean", put("/polytopes/0/low", ["0"]), "/polytopes"),
    "no corner": ("histogram", put("/polytopes/0/corners", []), "/polytopes/0/corners"),
    "a corner that is left out": ("histogram", drop("/polytopes/0/corners/1"), "/polytopes"),
    "a corner that is moved": ("histogram", put("/polytopes/0/corners/1", ["-1/2", "1/2"]), "/polytopes"),
    "a shift": ("mean", put("/events/0/shifts/0/table/0/moves", ["3"]), "/events/0/shifts/0/table/0"),
    "a cost": ("mean", put("/events/0/shifts/0/table/0/cost", "1"), "/events/0/shifts/0/table/0/cost"),
    "ε": ("mean", put("/epsilon", "1"), "/events/0/shifts/0/table/0/cost"),
    "whole data": ("sum", put("/data", "whole"), "/data"),
    "a polytope that is left out": ("geometric", drop("/polytopes/0"), "/polytopes"),
    "places that differ": ("any order", put("/records/0/places/0/1/terms/0", {"1": "1/2"}), "/records"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_certificate_is_rejected(what):
    name, edit, place = FORGERIES[what]
    document = certified(name)
    edit(document)
    rejection = check(document).rejection
    assert rejection is not None
    assert rejection.place == place


@pytest.mark.parametrize("name", ["sum", "mean", "histogram"])
def test_what_is_accepted_after_a_change_is_private(name):
    """Every number of the sums and polytopes is changed; the mechanism described is judged by its records."""
    judged = 0
    for pointer in pointers(_certified(name)):
        for value in ("1/3", "12"):
            if not pointer.startswith(("/records", "/polytopes", "/domain")) or not isinstance(
                at(_certified(name), pointer), str
            ):
                continue
            document = certified(name)
            put(pointer, value)(document)
            if check(document).verified:
                judged += 1
                assert _cost(document) <= Fraction(document["epsilon"])
    assert judged


def _cost(document: Document) -> Fraction:
    """The most that pairs of neighbours on a grid cost, where each number released has Laplace noise of its own."""
    low, high = map(Fraction, document["domain"])
    values = [low + (high - low) * k / 4 for k in range(5)]
    lefts = [[a, b] for a in values for b in values]
    worst = Fraction(0)
    for left in lefts:
        for new in values:
            rights = [[new, left[1]], [left[0], new]]
            if document["adjacency"].startswith("add-remove"):
                rights = [[new, *left], [left[0], new, left[1]], [*left, new]]
            for right in rights:
                moved = [b - a for a, b in zip(_sums(document, left), _sums(document, right), strict=True)]
                (event,) = document["events"]
                total = Fraction(0)
                for number in event["numbers"]:
                    ((row, factor),) = number["noise"].items()
                    scale = Fraction(document["noises"][int(row)]["scale"]) * abs(Fraction(factor))
                    total += abs(sum(Fraction(c) * moved[int(e)] for e, c in number["data"].items())) / scale  # type: ignore[operator]
                worst = max(worst, total)
    return worst


def _sums(document: Document, data: list[Fraction]) -> list[Fraction]:
    of = document["records"][len(data) - document["size"]]
    total = [Fraction(c) for c in of["constants"]]
    for x, cells in zip(data, of["places"], strict=True):
        for cell in cells:
            low, high = Fraction(cell["low"]), Fraction(cell["high"])
            after = low <= x if cell["ends"][0] == "[" else low < x
            if after and (x <= high if cell["ends"][1] == "]" else x < high):
                for e, terms in enumerate(cell["terms"]):
                    total[e] += sum(Fraction(c) * x ** int(power) for power, c in terms.items())
    return total


# ------------------------------------------------------------------------------------------- numbers that move by 1


def whole_counts(rng, data):
    return np.array(data).astype(int) + rng.laplace(size=len(data))


def floored(rng, data):
    return math.floor(data[0]) + rng.laplace()


def rounded(rng, data):
    return round(data[0]) + rng.laplace()


def sum_of_floors(rng, data):
    return sum(math.floor(min(max(x, 0.0), 5.0)) for x in data) + rng.laplace()


# Floors and casts move by 1 where a number moves by 1. Halves are rounded to the even number: 0.5 to 0, and 1.5 to 2.
MOVED = {
    sum_of_floors: (1, 2, 2),
    whole_counts: (1, 2, 2),
    floored: (1, 1, 1),
    rounded: (2, 2, 2),
}


@pytest.mark.parametrize("place", range(3), ids=["l1", "linf", "monotone"])
@pytest.mark.parametrize("function", MOVED, ids=lambda function: function.__name__)
def test_functions_of_numbers_that_move_by_1(function, place):
    mech = mechanism(adjacency=("l1", "linf", "monotone")[place], domain=(-4, 6), size=2)(function)
    proof = prove(mech)
    assert proof.epsilon == MOVED[function][place]
    assert proof.restriction == "for numbers from -4 to 6"
    assert spot_check(check(proof.certificate), function, 200, seed=3).verified
    rng = np.random.default_rng(5)
    for _ in range(20):
        left = rng.uniform(-4, 5, 2).round(2).tolist()
        move = rng.uniform(0, 1, 2) if place else [1, 0]
        right = [x + float(y) for x, y in zip(left, move, strict=True)]
        assert compare(mech, left, right).epsilon <= proof.epsilon + 1e-9


def test_a_power_of_a_number_that_moves_by_1_changes_most_at_the_end_of_its_domain():
    mech = mechanism(adjacency="l1", domain=(0, 50), size=1)(lambda rng, data: data[0] ** 2 + rng.laplace())
    assert prove(mech).epsilon == 50**2 - 49**2


@pytest.mark.parametrize("adjacency", ["l1", "linf", "monotone"])
def test_certified_differences_have_those_of_all_numbers(adjacency):
    """What neighbours' sums differ by is in a polytope: tried on many, and where one is smaller it is rejected."""
    document = prove(mechanism(adjacency=adjacency, domain=(-4, 6), size=2)(floored)).certificate
    (polytope,) = document["polytopes"] if adjacency != "monotone" else document["polytopes"][:1]
    low, high = Fraction(polytope["low"][0]), Fraction(polytope["high"][0])
    moves = [math.floor(x + y) - math.floor(x) for x in np.linspace(-4, 5, 91) for y in np.linspace(0, 1, 11)]
    assert {low, high} <= {-max(moves), max(moves), min(moves)}
    tampered = copy.deepcopy(document)
    for each in tampered["polytopes"]:
        each["high"][0] = "1/2"
    assert not check(tampered).verified


def test_what_such_certificates_may_not_say():
    document = prove(mechanism(adjacency="l1", domain=(-4, 6), size=1)(floored)).certificate
    squared, listed, larger, closed = (copy.deepcopy(document) for _ in range(4))
    for cell in squared["records"][0]["places"][0]:
        cell["terms"] = [{"2": "1"}]
    listed["adjacency"] = "listed"
    larger["domain"] = ["-4", "7"]
    for cell in closed["records"][0]["places"][0]:
        cell["ends"] = "[]"
    assert [check(forged).verified for forged in (document, squared, listed, larger, closed)] == [True] + [False] * 4
