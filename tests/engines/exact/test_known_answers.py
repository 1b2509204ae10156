"""Mechanisms whose (ε, δ) the literature gives in closed form, written as people write them."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import integrate

import veridp
from veridp.accounting.domination import AddedToSample, RemovedFromSample
from veridp.accounting.pairs import LaplacePair
from veridp.engines.exact import compare
from veridp.verdict import Standing

EPSILON, DELTA = 1.0, 1e-3
CUT_OFF = math.log(1 + math.expm1(EPSILON) / (2 * DELTA)) / EPSILON
THRESHOLD = 1 + math.log(1 / (2 * DELTA)) / EPSILON
RATE = 0.2
AMPLIFIED = math.log1p(RATE * math.expm1(EPSILON))


def test_the_constants_are_the_published_ones() -> None:
    assert pytest.approx(6.7570962296, abs=1e-10) == CUT_OFF
    assert pytest.approx(7.2146080984, abs=1e-10) == THRESHOLD
    assert pytest.approx(0.2953945291, abs=1e-10) == AMPLIFIED


# ------------------------------------------------------------------------------------------------ truncated Laplace


def two_tries(rng: Any, data: Any) -> Any:
    """Laplace noise that is drawn again where it is too large, once."""
    for _ in range(2):
        noise = rng.laplace(scale=1 / EPSILON)
        if abs(noise) <= CUT_OFF:
            return data[0] + noise
    return "no luck"


@pytest.mark.parametrize("at", [0, -1e9])
def test_truncated_laplace_noise_has_its_epsilon_and_delta(at: float) -> None:
    """(1, 1e-3) for the noise within the cut-off; both tries fail with probability e^-2A, on either input."""
    comparison = compare(two_tries, [at], [at + 1])
    succeeds = -math.expm1(-2 * CUT_OFF)
    assert comparison.epsilon == math.inf
    assert comparison.delta(EPSILON) == pytest.approx(DELTA * succeeds, rel=1e-12)
    # below ε = 1, the inner outputs above the level add their excess to that of the outermost unit
    for epsilon in (0.0, 0.3, 0.8):
        above = -math.expm1((epsilon - 1) / 2) + math.expm1(epsilon) * math.exp(-CUT_OFF) / 2
        assert comparison.delta(epsilon) == pytest.approx(above / -math.expm1(-CUT_OFF) * succeeds, rel=1e-11)


def redrawn_vector(rng: Any, data: Any) -> Any:
    """The same noise on every number, drawn again until it is within the cut-off."""
    found = []
    for value in data:
        while True:
            noise = rng.laplace(scale=1 / EPSILON)
            if abs(noise) <= CUT_OFF:
                break
        found.append(value + noise)
    return found


def test_truncated_noise_on_several_numbers_is_taken_apart() -> None:
    """`abs` asks for the sign of each draw: its four ways through the code are one way to the output."""
    single = compare(redrawn_vector, [0.0], [1.0])
    one, both = (compare(redrawn_vector, [0.0, 0.0], moved) for moved in ([1.0, 0.0], [1.0, 1.0]))
    for epsilon in (0.0, 0.5, EPSILON):
        assert one.delta(epsilon) == pytest.approx(single.delta(epsilon), rel=1e-11)
    step = 0.01
    at = np.arange(-CUT_OFF - 1, CUT_OFF + 2, step) + step / 2
    sides = [np.where(abs(at - x) <= CUT_OFF, np.exp(-abs(at - x)), 0.0) for x in (0, 1)]
    left, right = (np.outer(side, side) / side.sum() ** 2 for side in sides)
    for epsilon in (0.0, 1.0):
        summed = np.maximum(left - math.exp(epsilon) * right, 0).sum()
        assert both.delta(epsilon) == pytest.approx(summed, abs=2e-3)
    bounds = both.delta_bounds(2 * EPSILON)  # no finite loss is larger
    assert bounds.lower - 1e-12 <= 1 - (1 - DELTA) ** 2 <= bounds.upper <= bounds.lower + 2e-5


def by_inversion(rng: Any, data: Any) -> Any:
    uniform = rng.random() - 0.5
    return data[0] - np.sign(uniform) * np.log(1 - 2 * abs(uniform) * -math.expm1(-CUT_OFF))


def test_truncated_noise_by_inversion_has_its_epsilon_and_delta() -> None:
    comparison = compare(by_inversion, [0], [1])
    assert comparison.epsilon == math.inf
    assert comparison.delta(EPSILON) == pytest.approx(DELTA, rel=1e-11)


def cut_twice(rng: Any, data: Any) -> Any:
    return data[0] + np.log(rng.uniform(0.01, 1)) - np.log(rng.uniform(0.01, 1))


# ------------------------------------------------------------------------------------------------------ key release


def noisy_histogram(rng: Any, words: Any) -> Any:
    released = {}
    for word, count in Counter(words).items():
        noisy = count + rng.laplace(scale=1 / EPSILON)
        if noisy >= THRESHOLD:
            released[word] = noisy
    return released


@pytest.mark.parametrize(("words", "without"), [(["a"], []), (["b", "a", "b"], ["b", "b"])])
def test_a_key_of_one_record_costs_delta(words: list[str], without: list[str]) -> None:
    """Only one of the inputs can release it, which it does with probability δ, whatever the ε."""
    comparison = compare(noisy_histogram, words, without)
    assert comparison.epsilon == math.inf
    for epsilon in (0.0, 1.0, 5.0):
        assert comparison.delta(epsilon) == pytest.approx(DELTA, rel=1e-12)


def test_a_key_that_both_inputs_have_costs_epsilon() -> None:
    comparison = compare(noisy_histogram, ["a", "b", "b"], ["a", "b"])
    assert comparison.epsilon == pytest.approx(EPSILON, rel=1e-12)
    for epsilon in (0.0, 0.6):
        released = (math.exp(1 - epsilon) - 1) * math.exp(epsilon) * DELTA  # the loss is 1 wherever it is released
        assert comparison.delta(epsilon) == pytest.approx(released, rel=1e-11)


# ------------------------------------------------------------------------------------------------- Poisson samples


def sampled_sum(rng: Any, data: Any) -> Any:
    return sum(x for x in data if rng.random() < RATE) + rng.laplace(scale=1 / EPSILON)


def sampled_count(rng: Any, data: Any) -> Any:
    taken = rng.random(len(data)) < RATE
    return taken.sum() + rng.laplace(scale=1 / EPSILON)


def binomial_count(rng: Any, data: Any) -> Any:
    return rng.binomial(len(data), RATE) + rng.laplace(scale=1 / EPSILON)


@pytest.mark.parametrize("mechanism", [sampled_sum, sampled_count, binomial_count])
@pytest.mark.parametrize(("data", "without"), [([1], []), ([1, 1, 1], [1, 1])])
def test_a_poisson_sample_amplifies(mechanism: Any, data: list[int], without: list[int]) -> None:
    comparison = compare(mechanism, data, without)
    assert comparison.epsilon == pytest.approx(AMPLIFIED, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.29])
def test_the_delta_of_a_sample_of_one_record_is_that_of_its_dominating_pairs(epsilon: float) -> None:
    pair = LaplacePair(EPSILON)
    worst = max(kind(pair, RATE).delta_above(epsilon) for kind in (RemovedFromSample, AddedToSample))
    assert compare(sampled_sum, [1], []).delta(epsilon) == pytest.approx(worst, rel=1e-10)


def test_the_delta_of_a_sample_of_two_records_is_an_integral() -> None:
    def density(x: float, records: int) -> float:
        weights = [math.comb(records, k) * RATE**k * (1 - RATE) ** (records - k) for k in range(records + 1)]
        return sum(w * math.exp(-abs(x - k)) / 2 for k, w in enumerate(weights))

    def excess(x: float, sign: int) -> float:
        mine, theirs = (2, 1) if sign > 0 else (1, 2)
        return max(0.0, density(x, mine) - math.exp(0.1) * density(x, theirs))

    truth = max(
        integrate.quad(excess, -60, 60, args=(sign,), points=[0, 0.5, 1, 1.5, 2], limit=400)[0] for sign in (1, -1)
    )
    assert compare(sampled_count, [1, 1], [1]).delta(0.1) == pytest.approx(truth, rel=1e-7)


# ---------------------------------------------------------------------------------------- where exact cannot follow


def test_what_cannot_be_explored_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of two cut-off numbers costs more than ε = 0.2, and the quick look shows it.

    It has no values below -4.6, so that there is an event of any ε: with 10,000 samples, chance plays no part.
    """
    sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has such a function
    monkeypatch.setattr(sniper, "SAMPLES", 1_000)
    monkeypatch.setattr(sniper, "FINAL", 10_000)
    verdict = veridp.audit(cut_twice, epsilon=0.2, size=1, adjacency="l1", domain=(0, 1), seconds=600)
    assert verdict.standing is Standing.REFUTED
    assert verdict.witness is not None
    assert verdict.witness.confidence < 1
    findings = {piece.engine: piece.finding for piece in verdict.evidence}
    assert "not checked exactly" in findings["exact"]
    assert verdict.epsilon.upper == math.inf
