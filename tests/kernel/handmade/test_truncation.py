"""Loops that draw Laplace noise again until it lies in an interval: proofs beside integrals and the exact engine."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import veridp
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.errors import NotExplorable

REACH = 6.7570962296  # (1, 1e-3) at sensitivity 1


def breaks(rng, data, reach=REACH):
    while True:
        noise = rng.laplace(scale=1.0)
        if abs(noise) <= reach:
            break
    return sum(data) + noise


def draws_first(rng, data, reach=REACH):
    noise = rng.laplace(0.0, 1.0)
    while not -reach <= noise <= reach:
        noise = rng.laplace(0.0, 1.0)
    return float(sum(data) + noise)


def helper(rng, reach):
    noise = rng.laplace()
    while np.abs(noise) > reach:
        noise = rng.laplace()
    return noise


def calls_a_helper(rng, data, reach=REACH):
    return round(sum(data) + helper(rng, reach), 3)


PHRASINGS = [breaks, draws_first, calls_a_helper]


@pytest.mark.parametrize("mechanism", PHRASINGS)
def test_every_phrasing_has_the_known_answer(mechanism):
    proof = prove(mechanism, 2, delta=1e-3 * (1 + 1e-9), adjacency="l1")
    assert proof.epsilon == pytest.approx(1, abs=1e-9)
    kept = 1 - math.exp(-REACH)
    truth = (1 - math.exp(-1 / 4) + (math.exp(0.5) - 1) * math.exp(-REACH) / 2) / kept
    assert proof.delta(0.5) == pytest.approx(truth, rel=1e-9)
    assert proof.delta(1.0) == pytest.approx(1e-3, rel=1e-9)
    assert math.isinf(proof.rho)
    assert "drawn again until it is between -6.7570962296 and 6.7570962296" in proof.recognised[0]


def test_no_proof_is_below_what_two_inputs_show():
    """The exact engine knows nothing of truncation: it sums over the rounds of the loop."""
    rng = np.random.default_rng(5)
    for _ in range(2):
        low, high, scale = -rng.uniform(1, 4), rng.uniform(1, 4), rng.uniform(0.4, 2)

        def lopsided(rng, data, low=low, high=high, scale=scale):
            while True:
                noise = rng.laplace(scale=scale)
                if low < noise < high:
                    return data[0] + noise

        proof = prove(lopsided, 1, delta=0.4, adjacency="l1")
        both = [compare(lopsided, [a], [1 - a]) for a in (0, 1)]
        for epsilon in (0.05, 0.3, 0.8):
            shown = max(each.delta(epsilon) for each in both)
            assert shown <= proof.delta(epsilon) * (1 + 1e-9)
            if -low >= 1 + epsilon and high >= 1 + epsilon:
                assert shown == pytest.approx(proof.delta(epsilon), rel=0.5)


def test_several_numbers_add_up():
    def two(rng, data):
        return [value + helper(rng, REACH) for value in data]

    proof = prove(two, 2, delta=2.1e-3, adjacency="linf")
    assert proof.epsilon == pytest.approx(2, abs=2e-3)
    assert prove(two, 2, delta=1.9e-3, adjacency="linf").epsilon == math.inf


def accepts_two_intervals(rng, data):
    while True:
        noise = rng.laplace()
        if 1 < abs(noise) < 5:
            return data[0] + noise


def accepts_what_the_data_say(rng, data):
    while True:
        noise = rng.laplace()
        if 0 <= data[0] + noise <= 10:
            return data[0] + noise


def prefers_one_side(rng, data):
    """Negative noise is accepted half as often."""
    while True:
        noise = rng.laplace()
        if 0 <= noise <= 5 or (-5 <= noise < 0 and rng.random() < 0.5):
            return data[0] + noise


def takes_the_second(rng, data):
    """Values above 2 have to be drawn twice: they are less likely than truncated noise has them."""
    while True:
        noise = rng.laplace()
        if noise > 2:
            noise = rng.laplace()
        if abs(noise) <= 5:
            return data[0] + noise


@pytest.mark.parametrize(
    "mechanism", [accepts_two_intervals, accepts_what_the_data_say, prefers_one_side, takes_the_second]
)
def test_what_is_not_truncated_noise_is_not_taken_for_it(mechanism):
    with pytest.raises(NotExplorable):
        prove(mechanism, 1, delta=0.1, adjacency="l1")


def test_the_interval_closes():
    made = veridp.mechanism(epsilon=1, delta=1e-3, adjacency="l1", size=1)(breaks)
    assert prove(made).keeps_claim
    shown = compare(made, [0.0], [1.0])
    assert shown.delta(1.0) == pytest.approx(1e-3, rel=1e-9)
    narrow = made.bind(reach=REACH * 0.999)
    assert not prove(narrow).keeps_claim
    assert compare(narrow, [0.0], [1.0]).delta(1.0) > 1e-3 * (1 + 1e-3)


def test_the_distribution_is_rational_where_the_code_is():
    proof = prove(breaks, 1, delta=0.1, adjacency="l1", reach=2.5)
    (noise,) = proof.certificate["noises"]
    assert (noise["scale"], noise["low"], noise["high"]) == ("1", str(Fraction(-5, 2)), str(Fraction(5, 2)))
