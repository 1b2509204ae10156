"""The exact loss of mechanisms that draw again until they accept a draw."""

import math

import numpy as np
import pytest

from veridp import exact
from veridp.errors import NotExact


def until_positive(rng, data):
    noisy = 0.0
    while noisy <= 0:
        noisy = data[0] + rng.laplace()
    return noisy


def bounded(rng, data):
    noisy = data[0] + rng.laplace(scale=0.5)
    while noisy < 0 or noisy > 1:
        noisy = data[0] + rng.laplace(scale=0.5)
    return noisy


def normaliser(x, scale):
    return 1 - (math.exp(-x / scale) + math.exp(-(1 - x) / scale)) / 2


def test_acceptance_that_depends_on_the_data_counts():
    """The density at 0 is e^-x/2 divided by 1 - e^-x/2: the ratio of x = 0 and x = 1 is 2e - 1 there."""
    assert exact.compare(until_positive, [0.0], [1.0]).epsilon == pytest.approx(math.log(2 * math.e - 1), abs=1e-10)


def test_what_is_drawn_before_the_loop_is_a_round_too():
    truth = 0.25 / 0.5 + math.log(normaliser(0.25, 0.5) / normaliser(0, 0.5))
    assert exact.compare(bounded, [0.0], [0.25]).epsilon == pytest.approx(truth, abs=1e-9)
    law = exact.law(bounded, [0.25])
    assert law.total == pytest.approx(1, abs=1e-12)
    assert law.density(0.75) == pytest.approx(math.exp(-1) / normaliser(0.25, 0.5), rel=1e-12)


def test_the_density_is_that_of_samples():
    rng = np.random.default_rng(7)
    draws = np.array([until_positive(rng, [0.5]) for _ in range(20_000)])
    share = exact.law(until_positive, [0.5])
    inner = np.mean(draws < 1)  # (1 - e^-0.5/2 - e^-0.5/2) / (1 - e^-0.5/2), within 5 standard errors
    assert inner == pytest.approx((1 - math.exp(-0.5)) / (1 - math.exp(-0.5) / 2), abs=5 * 0.5 / math.sqrt(20_000))
    assert share.density(0.5) == pytest.approx(0.5 / (1 - math.exp(-0.5) / 2), rel=1e-12)


def test_rare_acceptance_loses_no_digits():
    """At x = -30 a draw is accepted with probability e^-30/2, and what is accepted has the density e^-y."""
    assert exact.law(until_positive, [-30.0]).density(1.0) == pytest.approx(math.exp(-1), rel=1e-9)
    assert exact.compare(until_positive, [-30.0], [-29.0]).epsilon == pytest.approx(0, abs=1e-9)


def test_noise_that_is_cut_off_moves_its_support():
    def trimmed(rng, data):
        noise = rng.normal()
        while abs(noise) > 3:
            noise = rng.normal()
        return data[0] + noise

    assert math.isinf(exact.compare(trimmed, [0.0], [1.0]).epsilon)


def test_rounded_factors_are_not_certified():
    with pytest.raises(NotExact, match="rounded"):
        exact.compare(until_positive, [0.0], [1.0], certified=True)


def test_rational_factors_are_certified():
    def drink(rng, data):
        while True:
            index = rng.integers(2)
            if rng.random() < (0.5, 0.25)[(index + data[0]) % 2]:
                return int(index)

    enclosure = exact.compare(drink, [0], [1], certified=True).enclosure
    assert enclosure.epsilon.lower <= math.log(2) <= enclosure.epsilon.upper
    assert enclosure.epsilon.upper - enclosure.epsilon.lower < 1e-12


def failures(rng, p):
    count = 0
    while rng.random() < p:
        count += 1
    return count


def discrete_laplace(rng, data):
    """Two-sided geometric noise with ratio 1/4: minus zero is drawn again."""
    while True:
        negative, size = rng.integers(2), failures(rng, 0.25)
        if not (negative and size == 0):
            return data[0] + (-size if negative else size)


def test_discrete_laplace_noise_by_a_counter_and_a_sign():
    law = exact.law(discrete_laplace, [3])
    for output in range(-3, 9):
        assert law.density(output) == pytest.approx(0.6 * 0.25 ** abs(output - 3), rel=1e-12)
    assert exact.compare(discrete_laplace, [3], [4]).epsilon == pytest.approx(math.log(4), abs=1e-12)


def test_one_counter_has_an_end():
    assert math.isinf(exact.compare(lambda rng, data: data[0] + failures(rng, 0.5), [0], [1]).epsilon)
