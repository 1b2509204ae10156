"""Sums: the noise is what is left of the answers when the data are taken off them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veridp.catalogue import catalogue

QUERIES = [1.0, -2.0, 0.5, 3.0, 1.5]


@pytest.mark.parametrize(("name", "scale"), [("partial_sum", 1.25), ("finder_sum", 1.25), ("bad_partial_sum", 0.625)])
def test_the_sum_has_laplace_noise(name: str, scale: float, draw, assert_cdf) -> None:
    values = draw(catalogue[name], QUERIES, 10_000, seed=1, epsilon=0.8)
    assert_cdf(values, stats.laplace(loc=4.0, scale=scale).cdf)


def residuals(answers: np.ndarray, queries: list[float], block: int) -> np.ndarray:
    """The noise of each step of a smart sum: a block end is off the sum of its block, else off the answer before."""
    noise = []
    for step in range(len(queries)):
        if (step + 1) % block == 0:
            noise.append(answers[..., step] - sum(queries[step + 1 - block : step + 1]))
        else:
            before = answers[..., step - 1] if step else 0.0
            noise.append(answers[..., step] - before - queries[step])
    return np.stack(noise, axis=-1)


@pytest.mark.parametrize("block", [1, 2, 3, 9])
def test_smart_sum_has_noise_at_each_step(block: int, draw, assert_uniform) -> None:
    outputs = np.array(draw(catalogue["smart_sum"], QUERIES, 5_000, seed=2, epsilon=0.8, block=block))
    assert_uniform(stats.laplace(scale=1.25).cdf(residuals(outputs, QUERIES, block)))


def test_bad_smart_sum_has_none_at_the_block_ends(draw, assert_uniform) -> None:
    outputs = np.array(draw(catalogue["bad_smart_sum"], QUERIES, 5_000, seed=3, epsilon=0.8))
    noise = residuals(outputs, QUERIES, 2)
    assert np.all(noise[:, [1, 3]] == 0)
    assert_uniform(stats.laplace(scale=1.25).cdf(noise[:, [0, 2, 4]]))


def test_prefix_sum_has_noise_on_each_entry(draw, assert_uniform) -> None:
    outputs = np.array(draw(catalogue["prefix_sum"], QUERIES, 5_000, seed=4, epsilon=0.8))
    assert_uniform(stats.laplace(scale=1.25).cdf(np.diff(outputs, prepend=0.0, axis=1) - QUERIES))


# ---------------------------------------------------------------------------------------------------------- true costs


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("block", [1, 2, 3, 4])
def test_the_cost_of_smart_sum_is_its_largest_density_ratio(size: int, block: int) -> None:
    """Densities are products over the residuals; answers are tried that lie beyond the queries on either side."""
    log_density = lambda answers, queries: -np.sum(np.abs(residuals(answers, queries, block))) / 2.0  # noqa: E731
    queries = [0.0] * size
    worst = 0.0
    for moved, step in itertools.product(range(size), (-1.0, 1.0)):
        neighbour = [step if place == moved else 0.0 for place in range(size)]
        for signs in itertools.product((-20.0, 20.0), repeat=size):
            answers = np.array(signs) * np.arange(1, size + 1)
            worst = max(worst, log_density(answers, queries) - log_density(answers, neighbour))
    assert worst == pytest.approx(catalogue["smart_sum"].true_epsilon(size, epsilon=0.5, block=block))


@pytest.mark.parametrize("size", [1, 4])
def test_the_cost_of_prefix_sum_is_its_largest_density_ratio(size: int) -> None:
    entries = np.full(size, 2.0)  # the noisy entries are the differences of the answers
    worst = np.sum(stats.laplace.logpdf(entries, loc=1, scale=10.0) - stats.laplace.logpdf(entries, scale=10.0))
    assert worst == pytest.approx(catalogue["prefix_sum"].true_epsilon(size))


@pytest.mark.parametrize(("name", "scale"), [("partial_sum", 10.0), ("finder_sum", 10.0), ("bad_partial_sum", 5.0)])
def test_the_costs_of_sums_are_their_largest_density_ratios(name: str, scale: float) -> None:
    answers = np.linspace(-3, 3, 601)
    ratios = stats.laplace.logpdf(answers, loc=0, scale=scale) - stats.laplace.logpdf(answers, loc=1, scale=scale)
    assert catalogue[name].true_epsilon(4) == pytest.approx(np.max(ratios))


def test_a_block_that_never_ends_leaks_nothing() -> None:
    assert catalogue["bad_smart_sum"].true_epsilon(3, block=3) == math.inf
    assert catalogue["bad_smart_sum"].true_epsilon(2, block=3) == 0.1


def test_finder_sum_appends_one_record_of_at_most_one() -> None:
    mechanism = catalogue["finder_sum"]
    pairs: list[Any] = list(mechanism.adjacency.pairs(4, mechanism.domain))
    assert {abs(sum(pair.left) - sum(pair.right)) for pair in pairs} == {1.0}
    assert {abs(len(pair.left) - len(pair.right)) for pair in pairs} == {1}
    assert mechanism.assumed == frozenset()  # the paper states all of it
