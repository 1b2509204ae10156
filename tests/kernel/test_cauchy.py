"""Cauchy noise in every engine: read, drawn, compared with closed forms, and proved."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import numpy as np
import pytest

import veridp
from veridp.kernel.noise import Cauchy
from veridp.verdict import Standing
from veridp_check.checker import check


def noisy(rng: np.random.Generator, data: list[float]) -> float:
    return data[0] + 2 * rng.standard_cauchy()


def is_large(rng: np.random.Generator, data: list[float]) -> bool:
    return bool(data[0] + rng.standard_cauchy() > 2 + rng.standard_cauchy())


def test_it_is_explored_and_replayed() -> None:
    (path,) = veridp.explore(lambda rng, data: data[0] + rng.standard_cauchy(), [1.0])
    assert [noise.distribution for noise in path.noises] == [Cauchy(1)]
    assert str(path.noises[0].distribution) == "cauchy(scale=1)"


def test_it_is_sampled() -> None:
    """The quartiles are at ±2: of 20,000 outputs 5,000 ± 61 are beyond each; a seed in 10,000 would be 4 σ off."""
    outputs = np.array([float(output) for output in veridp.sample(noisy, [0.0], 20_000, seed=1)])
    assert (outputs < -2).sum() == pytest.approx(5_000, abs=4 * 61)
    assert (outputs > 2).sum() == pytest.approx(5_000, abs=4 * 61)


def _below(z: float) -> float:
    return 0.5 + math.atan(z) / math.pi


@pytest.mark.parametrize("move", [0.1, 1.0, 3.0, 100.0])
def test_the_loss_between_two_locations(move: float) -> None:
    """ln (1 + (x - d)²)/(1 + x²) is largest at x = (d - √(d² + 4))/2, where it is 2 asinh(d/2); d in scales."""
    d = move / 2
    at = (d - math.sqrt(d * d + 4)) / 2
    largest = math.log((1 + (at - d) ** 2) / (1 + at * at))
    assert largest == pytest.approx(2 * math.asinh(d / 2), rel=1e-13)
    assert veridp.exact.compare(noisy, [0.0], [move]).epsilon == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_delta_between_two_locations(epsilon: float) -> None:
    """The loss exceeds ε between the roots of (1 - e^ε) x² - 2dx + 1 + d² - e^ε."""
    d, e = 1.5, math.exp(epsilon)
    low, high = sorted(np.roots([1 - e, -2 * d, 1 + d * d - e]).tolist())
    expected = _below(high) - _below(low) - e * (_below(high - d) - _below(low - d))
    assert veridp.exact.compare(noisy, [0.0], [3.0]).delta(epsilon) == pytest.approx(expected, rel=1e-11)


def test_draws_that_are_added_are_one_draw() -> None:
    found = veridp.exact.compare(
        lambda rng, data: data[0] + rng.standard_cauchy() - 2 * rng.standard_cauchy(), [0.0], [3.0]
    )
    assert found.epsilon == pytest.approx(2 * math.asinh(1 / 2), rel=1e-12)


def test_the_density_of_a_sum_with_other_noise() -> None:
    """The loss at 0 of Cauchy plus uniform noise, whose density is a difference of arctangents, is the largest."""

    def mixed(rng: np.random.Generator, data: list[float]) -> float:
        return data[0] + rng.standard_cauchy() + rng.random()

    at = np.linspace(-5, 5, 100_001)
    density = [np.arctan(at - x) - np.arctan(at - x - 1) for x in (0.0, 1.0)]
    largest = np.log(density[0] / density[1]).max()
    assert veridp.exact.compare(mixed, [0.0], [1.0]).epsilon == pytest.approx(largest, rel=1e-6)


def test_a_comparison_of_two_draws_is_enclosed() -> None:
    """Their difference has scale 2."""
    left, right = (1 - _below((2 - x) / 2) for x in (0.0, 1.0))
    found = veridp.exact.compare(is_large, [0.0], [1.0], certified=True)
    assert found.enclosure is not None
    for interval, expected in (
        (found.enclosure.epsilon, math.log(right / left)),
        (found.enclosure.left_probability, 1 - left if found.enclosure.left_probability.lower > 0.5 else left),
    ):
        assert interval.lower == pytest.approx(expected, rel=1e-13)
        assert interval.upper == pytest.approx(expected, rel=1e-13)


def test_a_shift_is_proved_at_its_supremum() -> None:
    """One number moves by 1 at scale 2: 2 asinh(1/4), and the certificate's rational is just above it."""
    proof = veridp.prove(noisy, size=1, adjacency="l1")
    assert proof.epsilon == pytest.approx(2 * math.asinh(1 / 4), rel=1e-14)
    stated = Fraction(proof.certificate["epsilon"])
    assert 2 * math.asinh(1 / 4) <= float(stated) < 2 * math.asinh(1 / 4) * (1 + 2e-12)


def test_of_two_numbers_that_share_a_unit_neither_has_the_price_of_its_own() -> None:
    """Where both move by 1/2 they cost 4 asinh(1/8) > 2 asinh(1/4) together: the price of the corners is no bound."""

    def both(rng: np.random.Generator, data: list[float]) -> list[float]:
        return [x + 2 * rng.standard_cauchy() for x in data]

    proof = veridp.prove(both, size=2, adjacency="l1")
    assert proof.epsilon == pytest.approx(1 / 2, rel=1e-12)
    assert proof.epsilon > 4 * math.asinh(1 / 8) > 2 * math.asinh(1 / 4)
    assert veridp.prove(both, size=2, adjacency="linf").epsilon == pytest.approx(4 * math.asinh(1 / 4), rel=1e-12)


def test_the_price_of_each_corner_is_refused_for_all_that_lies_between() -> None:
    """The same as above, forged: each corner at its own supremum, 2 asinh(1/4), and ε with it."""
    proof = veridp.prove(lambda rng, data: [x + 2 * rng.standard_cauchy() for x in data], size=2, adjacency="l1")
    document = copy.deepcopy(proof.certificate)
    too_little = str(Fraction(2 * math.asinh(1 / 4) * (1 + 1e-12)))
    for shift in document["events"][0]["shifts"][0]["table"]:
        shift["cost"] = too_little
    rejected = check({**document, "epsilon": too_little}).rejection
    assert rejected is not None
    assert rejected.place == "/events/0/shifts/0/table/0/cost"


@pytest.mark.slow
def test_an_audit_proves_a_bound() -> None:
    """Above, the difference of both draws has scale 2; a proof moves one of them by 1."""
    largest = math.log((1 - _below(1 / 2)) / (1 - _below(1)))
    verdict = veridp.audit(is_large, epsilon=1, size=1, adjacency="replace", domain=[0, 1])
    assert verdict.standing is Standing.PROVED
    assert verdict.epsilon.lower == pytest.approx(largest, rel=1e-6)
    assert verdict.epsilon.upper == pytest.approx(2 * math.asinh(1 / 2), rel=1e-9)
