"""Discrete Gaussian noise by coins: it has the law that it should have, and no other noise passes for it."""

import math

import numpy as np
import pytest
from tests.kernel import discrete_samplers as samplers
from tests.kernel.discrete_samplers import falls, gaussian_by

import veridp
from veridp.kernel.handmade.coin_chance import tosses_exponentially
from veridp.kernel.handmade.coin_gaussian import with_coin_gaussian
from veridp.kernel.handmade.coin_text import CoinText
from veridp.kernel.run import Run, Way


def is_exponential(toss):
    """Whether the text of a function says that it returns True with probability e^-γ."""
    names = {"rng": Run(Way(), {}), "gamma": 0.5}
    return tosses_exponentially(CoinText(toss.__code__, names, vars(samplers)), names, "gamma")


def variance_of(function):
    """Of the discrete Gaussian noise that the function is recognised to add; None where it is not."""
    found = with_coin_gaussian(veridp.explore(function, [0], retries=True))
    return None if found is None else found[0].noises[0].distribution.variance


def loss(variance, epsilon):
    """δ at ε between noise and the same noise moved by 1, summed up."""
    k = np.arange(-200, 201)
    mass = np.exp(-(k**2) / (2 * variance))
    mass /= mass.sum()
    return float(np.maximum(mass - math.exp(epsilon) * np.roll(mass, 1), 0).sum())


def test_the_text_of_the_paper_has_the_loss_of_its_law() -> None:
    states = veridp.mechanism(epsilon=1.0, delta=0.01, adjacency="linf", domain=[0, 1], size=1)
    claimed = states(samplers.gaussian_count)
    assert loss(2, veridp.prove(claimed).epsilon) == pytest.approx(0.01, rel=1e-9)


def test_floats_have_the_same_law_and_another_offset_makes_another() -> None:
    assert variance_of(gaussian_by(falls)) == 4
    assert veridp.exact.compare(gaussian_by(falls), [0], [1]).epsilon == math.inf
    assert variance_of(gaussian_by(falls, offset=3)) is None


def test_noise_of_one_side_is_explored_and_no_discrete_gaussian() -> None:
    """What the coin is given depends on what was asked before it: that it is above 0."""
    assert variance_of(samplers.gaussian_above) is None


@pytest.mark.parametrize("toss", [falls, samplers.falls_again])
def test_the_probability_of_a_coin_is_read_from_its_text(toss) -> None:
    assert is_exponential(toss)


OTHERS = [
    samplers.survives,
    samplers.stops_falling,
    samplers.falls_no_further,
    samplers.falls_in_halves,
    samplers.falls_once,
    samplers.falls_from_two,
    samplers.falls_below_zero,
    samplers.falls_for_a_while,
]


@pytest.mark.parametrize("toss", OTHERS)
def test_other_coins_are_not_taken_for_exponential_ones(toss) -> None:
    assert not is_exponential(toss)
