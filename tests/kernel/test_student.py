"""Student's t and gamma noise: losses and proofs against closed forms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import veridp
from veridp.kernel.explore import explore
from veridp.kernel.noise import Gamma, StudentT


def student(rng: np.random.Generator, data: list[float]) -> float:
    return data[0] + 2 * rng.standard_t(3)


def erlang(rng: np.random.Generator, data: list[float]) -> float:
    return data[0] + rng.gamma(shape=2.0, scale=3.0)


def test_they_are_explored() -> None:
    (path,) = explore(lambda rng, data: [rng.standard_t(3), rng.gamma(2, 3.0), rng.chisquare(5)], [1.0])
    assert [noise.distribution for noise in path.noises] == [StudentT(1, 3), Gamma(3, 2), Gamma(2, Fraction(5, 2))]


@pytest.mark.parametrize("move", [0.5, 1.0, 20.0])
def test_the_loss_of_students_t_is_that_of_its_proof(move: float) -> None:
    """((a² + (x + d)²)/(a² + x²))² is largest at x² + dx = a² = 3 · 2², where its logarithm is 4 asinh(d/2a)."""
    at = (math.sqrt(move**2 + 48) - move) / 2
    largest = 2 * math.log((12 + (at + move) ** 2) / (12 + at**2))
    assert largest == pytest.approx(4 * math.asinh(move / (4 * math.sqrt(3))), rel=1e-12)
    assert veridp.exact.compare(student, [0.0], [move]).epsilon == pytest.approx(largest, rel=1e-9)
    if move == 1:
        assert veridp.prove(student, size=1, adjacency="l1").epsilon == pytest.approx(largest, rel=1e-12)


def test_delta_of_gamma_noise() -> None:
    """In scales, the densities are x e^-x and (x - y) e^(y - x), y = 1/3: the loss exceeds 1 below
    t = y e^(1 + y)/(e^(1 + y) - 1), and all of it is below y, where one of them is 0."""
    found = veridp.exact.compare(erlang, [0.0], [1.0])
    assert found.epsilon == math.inf
    y = 1 / 3
    t = y * math.exp(1 + y) / math.expm1(1 + y)
    below, other = (1 - (1 + x) * math.exp(-x) for x in (t, t - y))
    assert found.delta(1.0) == pytest.approx(below - math.e * other, rel=1e-9)


def test_gamma_noise_is_shifted_upwards_only_and_from_shape_1_on() -> None:
    def above(shape: float) -> float:
        def mechanism(rng: np.random.Generator, data: list[float]) -> bool:
            return bool(data[0] + rng.gamma(shape, 2.0) > 3)

        return veridp.prove(mechanism, size=1, adjacency="l1").epsilon

    assert above(1.5) == math.inf  # outputs below the threshold would have to move down

    def race(rng: np.random.Generator, data: list[float]) -> bool:
        return bool(data[0] + rng.gamma(1.5, 2.0) > rng.gamma(1.5, 2.0))

    assert veridp.prove(race, size=1, adjacency="l1").epsilon == pytest.approx(0.5)
    assert above(0.5) == math.inf


@pytest.mark.parametrize("shape", [0.5, 1.5])
def test_draws_of_numpy_are_replayed(shape: float) -> None:
    def mechanism(rng: np.random.Generator, data: list[float]) -> list[float]:
        return [x + g for x, g in zip(data, rng.gamma(shape, 2.0, size=len(data)), strict=True)]

    assert veridp.exact.compare(mechanism, [0.0, 1.0], [0.0, 1.0]).epsilon == 0


@pytest.mark.parametrize("call", [lambda rng: rng.gamma([1.0, 2.0]), lambda rng: rng.gamma(rng.random())])
def test_shapes_that_are_not_one_number_are_refused(call) -> None:
    with pytest.raises(veridp.errors.NotAffine, match=r"an array of shapes|the shape of noise depends"):
        explore(lambda rng, data: call(rng), [1.0])
