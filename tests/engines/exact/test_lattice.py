"""Outputs that are a constant on some paths and a value of integer noise on others are one output."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veridp.engines.exact import compare, law


def clamped(rng, count):
    return min(max(count + rng.geometric(0.2) - rng.geometric(0.2), 0), 5)


def two_sided(k, a=0.8):
    return (1 - a) / (1 + a) * a ** abs(k)


def clamped_by_hand(count):
    table = {k: two_sided(k - count) for k in range(1, 5)}
    tail = 0.8 ** np.array([count, 5 - count]) / 1.8
    return {0: tail[0], **table, 5: tail[1]}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_clamped_count_has_the_probabilities_of_pencil_and_paper(count):
    found = law(clamped, count)
    for value, probability in clamped_by_hand(count).items():
        assert found.probability(value) == pytest.approx(probability, rel=1e-12)
    assert found.total == pytest.approx(1, abs=1e-12)


def test_the_loss_of_a_clamped_count():
    left, right = clamped_by_hand(2), clamped_by_hand(3)
    expected = max(abs(math.log(left[k] / right[k])) for k in left)
    assert compare(clamped, 2, 3).epsilon == pytest.approx(expected, rel=1e-12)
    total_variation = sum(max(0.0, left[k] - right[k]) for k in left)
    assert compare(clamped, 2, 3).delta(0.0) == pytest.approx(total_variation, rel=1e-12)


def test_a_constant_among_the_values_of_noise():
    def sometimes_three(rng, data):
        return 3 if rng.random() < data[0] else rng.geometric(0.5)

    def probability(chance, value):
        return (1 - chance) * 0.5**value + (chance if value == 3 else 0.0)

    expected = max(abs(math.log(probability(0.5, k) / probability(0.25, k))) for k in (1, 3))
    assert compare(sometimes_three, [0.5], [0.25]).epsilon == pytest.approx(expected, rel=1e-12)
    assert law(sometimes_three, [0.5]).probability(3) == pytest.approx(probability(0.5, 3), rel=1e-12)


def test_a_constant_that_only_one_input_can_give_as_a_constant():
    def mechanism(rng, data):
        return 3 if data > 0 and rng.random() < 0.5 else rng.geometric(0.5)

    assert compare(mechanism, 1, 0).epsilon == pytest.approx(math.log((0.5 + 0.0625) / 0.125), rel=1e-12)


def test_pairs_of_which_one_entry_is_clamped():
    def pair(rng, count):
        return [max(count + rng.geometric(0.5), 3), rng.geometric(0.25)]

    found = law(pair, 1)
    assert found.probability([3, 2]) == pytest.approx(0.75 * 0.25 * 0.75, rel=1e-12)
    assert found.probability([4, 1]) == pytest.approx(0.125 * 0.25, rel=1e-12)


def test_constants_off_the_lattice_are_other_outputs():
    def off(rng, data):
        return 2.5 if rng.random() < 0.5 else rng.geometric(0.5)

    found = law(off, 0)
    assert found.probability(2.5) == pytest.approx(0.5)
    assert found.probability(2) == pytest.approx(0.125)
