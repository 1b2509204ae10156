"""Beta and triangular noise: losses and verdicts against closed forms."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

import veridp
from veridp.kernel.explore import explore
from veridp.kernel.noise import Beta, Triangular


def posterior(rng: np.random.Generator, clicks: list[int]) -> float:
    """A click rate drawn from its posterior, as in Thompson sampling."""
    return rng.beta(1 + sum(clicks), 1 + len(clicks) - sum(clicks))


def posterior_winner(rng: np.random.Generator, clicks: list[int]) -> bool:
    return rng.beta(1 + sum(clicks), 1 + len(clicks) - sum(clicks)) > 0.5


def jittered(data: list[float]) -> tuple[float, float]:
    """Two numbers with noise of the standard library."""
    return data[0] + random.triangular(-2, 2), data[1] + random.betavariate(2, 3)


def test_they_are_explored() -> None:
    (path,) = explore(lambda rng, data: [data[0] + rng.beta(2, 0.5), rng.triangular(data[0], data[0] + 1, 5.0)], [1.0])
    assert [noise.distribution for noise in path.noises] == [Beta(1, 2, Fraction(1, 2)), Triangular(4, Fraction(1, 4))]
    with pytest.raises(veridp.errors.VeridpError, match="the shape of noise depends"):
        explore(lambda rng, data: rng.beta(1 + data[0], 1), veridp.unknowns("data", 1))


def test_the_loss_of_a_posterior_draw() -> None:
    """x^2 (1 - x)/B(3, 2) against x (1 - x)^2/B(2, 3) is x/(1 - x): it has no bound; above 1/2 the ratio is 11/5."""
    assert veridp.exact.compare(posterior, [1, 1, 0], [1, 0, 0]).epsilon == math.inf
    assert veridp.exact.compare(posterior_winner, [1, 1, 0], [1, 0, 0]).epsilon == pytest.approx(math.log(11 / 5))


def test_the_delta_of_triangular_noise() -> None:
    """Between [-2, 2] and [-1, 3], δ(0) is the total variation: P[X < 1/2] - P[X < -1/2] = 1 - 2 (3/2)²/8."""
    pair = [0.0, 0.0], [1.0, 0.0]
    found = veridp.exact.compare(lambda rng, data: data[0] + rng.triangular(-2, 0, 2), *pair)
    assert found.epsilon == math.inf
    assert found.delta(0.0) == pytest.approx(1 - 2 * 1.5**2 / 8, rel=1e-9)


def test_bounded_noise_is_refuted_and_may_stand_beside_other_noise() -> None:
    assert veridp.exact.compare(jittered, [0.0, 0.0], [0.0, 1.0]).epsilon == math.inf
    free = veridp.mechanism(adjacency="l1", size=1)(lambda rng, data: (data[0] + rng.laplace(), rng.beta(2, 3)))
    assert veridp.prove(free).epsilon == 1
