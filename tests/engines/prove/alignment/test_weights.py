"""Proofs of choices whose weights depend on the data: against the literature, exact losses, and what has no bound."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pytest

from veridp import audit, catalogue, mechanism
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.engines.prove.replay import spot_check
from veridp.errors import ExplorationDisagrees, NotExplorable
from veridp.verdict import Standing
from veridp_check.checker import check

POLYTOPES = ("linf", "l1", "monotone")


def exponential_mechanism(rng, data):
    scores = np.asarray(data, dtype=float)
    weights = np.exp((scores - scores.max()) / 2)
    return int(rng.choice(len(scores), p=weights / weights.sum()))


def cumulative(rng, data):
    sums = list(itertools.accumulate(math.exp((x - max(data)) / 2) for x in data))
    u = rng.random() * sums[-1]
    return next(index for index, reached in enumerate(sums) if u < reached)


def permute_and_flip(rng, data):
    best = max(data)
    for index in rng.permutation(len(data)):
        if rng.random() <= math.exp((data[index] - best) / 2):
            return int(index)
    return None


def two_by_peeling(rng, data):
    left = list(range(len(data)))
    for _ in range(2):
        weights = np.exp(np.array([data[i] for i in left]) / 4)
        left.remove(rng.choice(left, p=weights / weights.sum()))
    return left


def choice_and_value(rng, data):
    weights = np.exp(np.asarray(data) / 2)
    index = int(rng.choice(len(data), p=weights / weights.sum()))
    return index, data[index] + rng.laplace(scale=4.0)


@pytest.mark.parametrize(
    ("function", "size", "adjacency", "epsilon"),
    [
        (exponential_mechanism, 3, "linf", 1.0),
        (exponential_mechanism, 3, "l1", 0.5),
        (exponential_mechanism, 3, "monotone", 0.5),
        (cumulative, 2, "linf", 1.0),
        (permute_and_flip, 3, "linf", 1.0),
        (permute_and_flip, 2, "monotone", 0.5),
        (two_by_peeling, 3, "linf", 1.0),
        (choice_and_value, 2, "linf", 1.25),
        (choice_and_value, 2, "l1", 0.75),
    ],
)
def test_for_all_scores_the_cost_of_the_literature_is_proved(function, size, adjacency, epsilon):
    """McSherry and Talwar; McKenna and Sheldon: half of it where scores move one way, or one score moves."""
    proof = prove(mechanism(adjacency=adjacency)(function), size)
    assert proof.exact_epsilon == epsilon
    assert proof.restriction == "for data in [-10, 10]"


@pytest.mark.parametrize("function", [exponential_mechanism, permute_and_flip])
def test_no_neighbours_lose_more_and_some_lose_almost_as_much(function):
    proved = prove(mechanism(adjacency="linf")(function), 2).epsilon
    rng = np.random.default_rng(0)
    for _ in range(5):
        left = rng.uniform(-6, 6, 2).round(2)
        right = left + rng.uniform(-1, 1, 2).round(2)
        assert compare(function, left.tolist(), right.tolist()).epsilon <= proved + 1e-9
    assert compare(function, [-9.0, 9.0], [-10.0, 10.0]).epsilon >= 0.999 * proved


def test_losses_in_a_short_range_cost_less_rho():
    """η²/8 where all weights are exponentials by one sum; two inputs come close to it, and to no more."""
    for adjacency, spread in (("linf", 1.0), ("l1", 0.5), ("monotone", 0.5)):
        proof = prove(exponential_mechanism, size=3, adjacency=adjacency)
        assert proof.rho == pytest.approx(spread**2 / 8, rel=1e-12)
        assert proof.certificate["rho"] == ("1/8" if spread == 1 else "1/32")
    pairs = [([first, 0.0], [first - 1, 1.0]) for first in (0.5, 1.0, 1.5, 2.0)]
    shown = max(compare(exponential_mechanism, *pair).rho for pair in pairs)
    assert 0.122 < shown <= 1 / 8
    for function in (permute_and_flip, two_by_peeling, choice_and_value):
        proof = prove(function, size=2, adjacency="linf")
        assert "rho" not in proof.certificate
        assert proof.rho == proof.epsilon**2 / 2
    forged = prove(exponential_mechanism, size=2, adjacency="linf").certificate
    for rho, verified in (("1/8", True), ("1/9", False)):
        assert check({**forged, "rho": rho}).verified == verified
    flipped = prove(permute_and_flip, size=2, adjacency="linf").certificate
    assert not check({**flipped, "rho": "1/2"}).verified


def test_an_audit_searches_pairs_by_rho():
    """The pair of the largest ε, far apart, has a small ρ."""
    claimed = mechanism(rho=0.12, adjacency="linf", size=2)(exponential_mechanism)
    assert audit(claimed, seconds=120).standing is Standing.REFUTED


def test_the_catalogues_exponential_mechanism_is_proved_for_all_scores():
    assert prove(catalogue["exponential_mechanism"], 3).epsilon == pytest.approx(0.1, rel=1e-12)


def test_a_coin_for_each_of_two_neighbouring_odds():
    @mechanism(adjacency="any", domain=(-0.5, 0.5), size=1)
    def logistic(rng, x):
        return bool(rng.random() < 1 / (1 + math.exp(-2 * x)))

    assert prove(logistic).exact_epsilon == 2  # its slope is 2 at most, whatever the domain


def rejected_for_certain(rng, data):
    return bool(rng.random() < math.exp(-abs(data[0])))


def certain_from_a_lead_on(rng, data):
    if data[0] - data[1] > 5:
        return 0
    return int(rng.random() < 1 / (1 + math.exp(data[0] - data[1])))


def twice_as_likely_above_zero(rng, data):
    p = 1 / (1 + math.exp(data[0])) / 2
    return bool(rng.random() < (2 * p if data[0] > 0 else p))


@pytest.mark.parametrize("function", [rejected_for_certain, certain_from_a_lead_on, twice_as_likely_above_zero])
def test_what_may_be_0_or_jumps_has_no_bound(function):
    proof = prove(mechanism(adjacency="linf")(function), 2)
    assert math.isinf(proof.epsilon)
    assert "no bound on its change was found" in str(proof.blame)


def test_an_exponential_that_overflows_on_far_data_tells_of_them():
    def unscaled(rng, data):
        weights = [math.exp(x / 2) for x in data]
        return random.choices(range(len(data)), weights=weights)[0]

    with pytest.raises(OverflowError):
        unscaled(None, [0.0, 1420.0])
    proof = prove(mechanism(adjacency="linf", domain=(-2000, 2000))(unscaled), 2)
    assert math.isinf(proof.epsilon)
    assert "raises OverflowError" in str(proof.blame)
    within = prove(mechanism(adjacency="linf", domain=(0, 100))(unscaled), 2)
    assert (within.exact_epsilon, within.restriction) == (1, "for data in [0, 100]")


def test_a_retry_by_the_data_has_no_proof():
    """What is accepted has another distribution than what is proposed, and how often that is depends on the data."""

    def rejection(rng, data):
        while True:
            index = int(rng.integers(2))
            if rng.random() < math.exp((data[index] - max(data)) / 2):
                return index

    def chosen_until_first(rng, data):
        p = 1 / (1 + np.exp(data[0]))
        while True:
            if rng.binomial(1, p):
                return rng.laplace()

    def chosen_after_a_retry(rng, data):
        while rng.random() < 0.5:
            pass
        weights = np.exp(np.asarray(data) / 2)
        return int(rng.choice(2, p=weights / weights.sum()))

    for function in (rejection, chosen_until_first, chosen_after_a_retry):
        with pytest.raises(NotExplorable, match="retries"):
            prove(mechanism(adjacency="linf")(function), 2)


def test_weights_of_records_of_an_interval_have_no_proof():
    def coin(rng, data):
        return bool(rng.random() < 1 / (1 + math.exp(-sum(data))))

    def drawn(rng, data):
        p = 1 / (1 + np.exp(-sum(data)))
        return int(rng.choice(2, p=[p, 1 - p]))

    prove(mechanism(adjacency="linf", domain=(0, 1))(drawn), 2)  # whose open values have the same names
    for function in (coin, drawn):
        for adjacency in ("replace", "add-remove"):
            with pytest.raises(NotExplorable):
                prove(mechanism(adjacency=adjacency, domain=(0, 1))(function), 2)


def test_a_text_is_released_with_the_choice_that_it_tells_of():
    def sentence(rng, data):
        first, second = np.exp(data[0]), np.exp(data[1])
        better = rng.random() < first / (first + second)
        return f"{data[0] + rng.laplace(scale=2.0)} {bool(better)}" if better else "none"

    proof = prove(mechanism(adjacency="linf")(sentence), 2)
    assert proof.exact_epsilon == 2.5


def test_noise_that_is_used_again_is_no_choice():
    def told(rng, data):
        u = rng.random()
        return bool(u < 1 / (1 + math.exp(data[0]))), u

    assert math.isinf(prove(mechanism(adjacency="linf")(told), 1).epsilon)


def test_sums_in_which_floats_lose_a_weight_are_not_proved():
    def steep(rng, data):
        first, second = (np.exp(2 * x) for x in data)
        return 0 if rng.random() * (first + second) < first else 1

    assert prove(mechanism(adjacency="linf", domain=(-1, 1))(steep), 2).exact_epsilon == 4
    far = compare(steep, [9.0, -9.0], [10.0, -10.0])  # as floats, 1 is never returned on the right
    assert far.is_lower_bound
    assert "of probability 2.3e-16 at most" in str(far)
    with pytest.raises(ExplorationDisagrees, match="lost to rounding"):
        prove(mechanism(adjacency="linf")(steep), 2)


@pytest.mark.parametrize("function", [exponential_mechanism, permute_and_flip, choice_and_value])
def test_a_certificate_is_read_back_and_held_against_the_program(function):
    proof = prove(mechanism(adjacency="linf")(function), 2)
    checked = check(json.loads(json.dumps(proof.certificate)))
    assert checked.verified
    assert spot_check(checked, function, 400, 0).verified


def test_a_program_with_other_weights_is_told_from_its_certificate():
    def other(rng, data):
        return int(rng.choice(2, p=[0.9, 0.1]))

    proof = prove(mechanism(adjacency="linf")(exponential_mechanism), 2)
    found = spot_check(check(proof.certificate), other, 1000, 0)
    assert found.rejection is not None
    assert "often than stated" in found.rejection.reason


def test_a_list_of_scores_has_a_cost_of_its_own():
    """Over a list, the best bound is that of its values, below what all scores cost."""
    proof = prove(mechanism(adjacency="linf", domain=[0, 1, 2])(exponential_mechanism), 2)
    assert proof.epsilon == pytest.approx(math.log((1 + math.e) / 2), rel=1e-9)


def test_a_weight_that_depends_on_sums_over_records_is_not_accepted():
    def total(rng, data):
        return sum(data) + rng.laplace()

    document = json.loads(json.dumps(prove(mechanism(adjacency="replace", domain=(0, 1))(total), 2).certificate))
    assert check(document).verified
    one = [{"factor": "1", "data": {}, "constant": "0"}]
    piece = {"conditions": [], "numerator": one, "divisors": [], "by": []}
    document["events"][0]["weight"] = {"pieces": [piece], "costs": ["0"] * len(document["polytopes"])}
    rejection = check(document).rejection
    assert rejection is not None
    assert rejection.place == "/events/0/weight"
    assert "sums over records" in rejection.reason
