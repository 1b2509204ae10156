"""Local mechanisms, against the enumeration of all their outputs."""

from __future__ import annotations

import itertools
import math

import mmh3
import numpy as np
import pytest

from veridp.catalogue import catalogue
from veridp.catalogue.local import bloom_filter


def set_bits(value: int, hashes: int = 4, bits: int = 20) -> set[int]:
    return {mmh3.hash(str(value), seed) % bits for seed in range(hashes)}


def test_randomized_response_tells_the_truth_this_often(draw, assert_probabilities) -> None:
    honest = math.exp(0.8) / (1 + math.exp(0.8))
    for bit in (False, True):
        outputs = draw(catalogue["randomized_response"], bit, 10_000, seed=1, epsilon=0.8)
        assert_probabilities(outputs, {bit: honest, not bit: 1 - honest})
    assert catalogue["randomized_response"].true_epsilon(1, epsilon=0.8) == pytest.approx(
        math.log(honest / (1 - honest))
    )


def test_the_bloom_filter_has_the_bits_of_the_hashes() -> None:
    for value in range(-10, 11):
        assert set(np.flatnonzero(bloom_filter(value, 4, 20))) == set_bits(value)
    assert len(set_bits(0) ^ set_bits(1)) == 6


def chance_of_one(value: int, name: str) -> np.ndarray:
    """By hand: the probability that each of the 20 bits is reported as 1, with the default rates."""
    bloom = np.isin(np.arange(20), list(set_bits(value)))
    kept, turned = {"one_time_rappor": (0.525, 0.475), "rappor": (0.625, 0.375)}[name]
    permanent = np.where(bloom, kept, turned)
    return permanent if name == "one_time_rappor" else permanent * 0.55 + (1 - permanent) * 0.45


@pytest.mark.parametrize("name", ["one_time_rappor", "rappor"])
def test_each_bit_is_reported_this_often_and_on_its_own(name: str, draw, assert_probabilities) -> None:
    outputs = draw(catalogue[name], 3, 10_000, seed=2)
    assert all(output.dtype == bool and output.shape == (20,) for output in outputs)
    chances = chance_of_one(3, name)
    for bit in range(20):
        assert_probabilities([bool(output[bit]) for output in outputs], {True: chances[bit], False: 1 - chances[bit]})
    few = [0, 3, 7, 19]  # two of the filter, two not
    joint = {
        cell: math.prod(chances[bit] if on else 1 - chances[bit] for bit, on in zip(few, cell, strict=True))
        for cell in itertools.product((False, True), repeat=4)
    }
    assert_probabilities([tuple(output[few].tolist()) for output in outputs], joint)


def test_rappor_keeps_the_bits_of_the_permanent_response_with_q_and_p(draw, assert_probabilities) -> None:
    arguments = {"hashes": 1, "bits": 2, "f": 0.5, "p": 0.1, "q": 0.9}
    outputs = draw(catalogue["rappor"], 0, 10_000, seed=3, **arguments)
    (hit,) = set_bits(0, 1, 2)
    set_chance, clear_chance = 0.75 * 0.9 + 0.25 * 0.1, 0.25 * 0.9 + 0.75 * 0.1
    assert_probabilities([bool(report[hit]) for report in outputs], {True: set_chance, False: 1 - set_chance})
    assert_probabilities([bool(report[1 - hit]) for report in outputs], {True: clear_chance, False: 1 - clear_chance})


def epsilon_between(left: int, right: int, name: str) -> float:
    """Bits are independent, so the largest log-ratio is a sum of the largest of each bit."""
    p, q = chance_of_one(left, name), chance_of_one(right, name)
    return float(np.sum(np.maximum(np.log(p / q), np.log((1 - p) / (1 - q)))))


@pytest.mark.parametrize(
    ("name", "at_zero_and_one", "at_most"), [("one_time_rappor", 0.6005, 0.8007), ("rappor", 0.3001, 0.4001)]
)
def test_the_cost_counts_the_bits_that_differ(name: str, at_zero_and_one: float, at_most: float) -> None:
    assert epsilon_between(0, 1, name) == pytest.approx(at_zero_and_one, abs=5e-5)
    worst = max(epsilon_between(a, b, name) for a, b in itertools.permutations(range(-10, 11), 2))
    assert worst == pytest.approx(at_most, abs=5e-5)
    assert catalogue[name].true_epsilon(1) == pytest.approx(worst, rel=1e-12)
    assert epsilon_between(3, 4, name) == pytest.approx(worst)
    assert len(set_bits(3) ^ set_bits(4)) == 8


@pytest.mark.parametrize(("f", "p", "q"), [(0.5, 0.2, 0.7), (0.75, 0.45, 0.55), (0.3, 0.1, 0.95), (0.3, 0.9, 0.2)])
def test_the_cost_by_enumeration_of_all_reports(f: float, p: float, q: float) -> None:
    """Eight bits, two hashes, rates that favour neither 0 nor 1: every report on every value of the domain."""
    arguments = {"hashes": 2, "bits": 8, "f": f, "p": p, "q": q}
    reports = np.array(list(itertools.product((False, True), repeat=8)))
    tables = []
    for value in range(-10, 11):
        bloom = np.isin(np.arange(8), list(set_bits(value, 2, 8)))
        permanent = np.where(bloom, 1 - f / 2, f / 2)
        one = permanent * q + (1 - permanent) * p
        tables.append(np.prod(np.where(reports, one, 1 - one), axis=1))
        assert tables[-1].sum() == pytest.approx(1)
    worst = max(np.max(np.log(a / b)) for a, b in itertools.permutations(tables, 2))
    assert catalogue["rappor"].true_epsilon(1, **arguments) == pytest.approx(worst)
    assert catalogue["rappor"].bind(**arguments).claim.epsilon >= worst - 1e-12


def test_the_claims_are_the_papers() -> None:
    one_time = catalogue["one_time_rappor"].bind(hashes=2, f=0.5)
    assert one_time.claim.epsilon == pytest.approx(4 * math.log(3))
    rappor = catalogue["rappor"].bind(hashes=3, f=0.5, p=0.25, q=0.75)
    q, p = 0.25 * (0.25 + 0.75) + 0.5 * 0.75, 0.25 * (0.25 + 0.75) + 0.5 * 0.25
    assert rappor.claim.epsilon == pytest.approx(3 * math.log(q * (1 - p) / (p * (1 - q))))


def test_without_noise_there_is_no_privacy_and_with_noise_alone_nothing_to_hide() -> None:
    assert catalogue["one_time_rappor"].true_epsilon(1, f=0.0) == math.inf
    assert catalogue["one_time_rappor"].true_epsilon(1, f=1.0) == 0.0
    assert catalogue["one_time_rappor"].bind(f=1.0).claim.epsilon == 0.0
