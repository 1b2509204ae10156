"""Proofs for mechanisms that retry, or count the rounds of a loop."""

import math

import pytest

from veridp import mechanism, prove
from veridp.errors import NotExplorable


def failures(rng, p):
    count = 0
    while rng.random() < p:
        count += 1
    return count


@mechanism(adjacency="linf", size=1)
def two_counters(rng, data):
    return data[0] + failures(rng, 0.25) - failures(rng, 0.25)


def test_the_difference_of_two_counters_is_two_sided_geometric_noise():
    proof = prove(two_counters)
    assert proof.epsilon == pytest.approx(math.log(4), abs=1e-12)
    assert proof.replayed is not None


def test_a_choice_by_rejection_is_proved_value_by_value():
    @mechanism(adjacency="replace", domain=["a", "b"], size=2)
    def popular(rng, data):
        while True:
            option = "ab"[rng.integers(2)]
            if rng.random() < (0.25, 0.5, 1.0)[data.count(option)]:
                return option

    # 'b' has the probability 1/5 on "aa", and 1/2 on "ab"; 'a' 4/5 and 1/2
    assert prove(popular).epsilon == pytest.approx(math.log(5 / 2), abs=1e-12)


def test_what_was_accepted_is_not_what_was_drawn():
    @mechanism(adjacency="linf", size=1)
    def truncated(rng, data):
        while True:
            noise = rng.laplace()
            if noise > 0:
                return data[0] + noise

    with pytest.raises(NotExplorable, match="rational"):
        prove(truncated)
