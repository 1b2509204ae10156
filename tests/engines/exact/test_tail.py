"""ε where the supremum is a limit far out, or does not exist: against the transforms and ratios of the noise."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from veridp.engines.exact import compare
from veridp.engines.exact.tail import limit, rises_without_bound
from veridp.errors import NotExact

Mechanism = Callable[[Any, Any], Any]


def geometric(rng: Any, data: Any) -> Any:
    return rng.geometric(0.5 if data[0] else 0.499)


def poisson(rng: Any, data: Any) -> Any:
    return rng.poisson(3 if data[0] else 3.01)


UNBOUNDED: dict[str, Mechanism] = {
    "geometric of another p": geometric,
    "poisson of another rate": poisson,
    "sum of poisson": lambda rng, data: rng.poisson(2) + rng.poisson(1) + rng.poisson(3 + data[0] / 100),
    "poisson that moves": lambda rng, data: data[0] - rng.poisson(3),
    "skellam": lambda rng, data: data[0] + rng.poisson(3) - rng.poisson(3),
    "laplace of another scale": lambda rng, data: rng.laplace(scale=1 + data[0] / 1000),
    "normal that moves": lambda rng, data: data[0] + rng.normal(scale=1e6),
    "normal of another scale": lambda rng, data: rng.normal(scale=1 + data[0] / 1000),
    "gumbel": lambda rng, data: data[0] + rng.gumbel(),
    "normal and uniform": lambda rng, data: data[0] + rng.normal() + rng.random(),
    "one draw more": lambda rng, data: rng.laplace() + (rng.laplace() if data[0] else 0),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_ratio_that_grows_without_bound_is_infinite(name: str) -> None:
    assert compare(UNBOUNDED[name], [0], [1]).epsilon == math.inf


def test_the_event_that_shows_an_unbounded_ratio_is_far_enough_out() -> None:
    """(0.501/0.5)^(k - 1) 0.499/0.5 is above e^0.5 from k = 253 on; the tails are 0.501^252 and 0.5^252."""
    witness = compare(geometric, [0], [1]).witness_above(0.5)
    assert witness is not None
    assert str(witness.event) == "output >= 253"
    assert witness.left_probability.lower == pytest.approx(0.501**252, rel=1e-10)
    assert witness.right_probability.lower == pytest.approx(0.5**252, rel=1e-10)


BOUNDED: dict[str, tuple[Mechanism, float]] = {
    "two laplace": (lambda rng, data: data[0] + rng.laplace() + rng.laplace(), 1.0),
    "three laplace": (lambda rng, data: data[0] + sum(rng.laplace() for _ in range(3)), 1.0),
    "seven laplace, array": (lambda rng, data: data[0] + rng.laplace(size=7).sum(), 1.0),
    "difference of laplace": (lambda rng, data: [data[0] + rng.laplace() - rng.laplace()], 1.0),
    "three laplace, clamped": (lambda rng, data: max(0.0, data[0] + rng.laplace(size=3).sum()), 1.0),
    "laplace of two scales": (lambda rng, data: data[0] + rng.laplace() + rng.laplace(scale=2), 0.5),
    "laplace of far scales": (lambda rng, data: data[0] + rng.laplace() + rng.laplace(scale=1e4), 1e-4),
    "small normal and laplace": (lambda rng, data: data[0] + rng.normal() + rng.laplace(scale=1000), 1e-3),
    "large normal and laplace": (lambda rng, data: data[0] + rng.normal(scale=1000) + rng.laplace(), 1.0),
    "laplace and logistic": (lambda rng, data: data[0] + rng.laplace() + rng.logistic(), 1.0),
    "laplace and gumbel": (lambda rng, data: data[0] + rng.laplace() + rng.gumbel(), 1.0),
    "gumbel less gumbel": (lambda rng, data: data[0] + rng.gumbel() - rng.gumbel(), 1.0),
    "geometric and laplace": (lambda rng, data: data[0] + rng.geometric(0.5) + rng.laplace(), 1.0),
    "poisson and laplace": (lambda rng, data: data[0] + rng.poisson(5) + rng.laplace(), 1.0),
    "unlike geometric": (lambda rng, data: data[0] + rng.geometric(0.5) - rng.geometric(0.4), math.log(2)),
    "binomial": (lambda rng, data: rng.binomial(10, 0.5 if data[0] else 0.4), 10 * math.log(0.5 / 0.4)),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_limit_is_the_supremum(name: str) -> None:
    """The heaviest noise decides: a shift by 1 changes x^m e^-rx by e^r in the limit."""
    mechanism, epsilon = BOUNDED[name]
    assert compare(mechanism, [0], [1]).epsilon == pytest.approx(epsilon, rel=1e-9)


def test_a_mixture_tends_to_the_ratio_of_its_heaviest_parts() -> None:
    """Laplace noise of scale 2 with probability 1/2 or 1/4: ln 2 in the limit, and more by a shift nowhere."""

    def mechanism(rng: Any, data: Any) -> Any:
        wide = rng.random() < (0.5 if data[0] else 0.25)
        return rng.laplace(scale=2) if wide else rng.laplace(scale=1)

    points = np.linspace(-200, 200, 40_001)
    wide, narrow = np.exp(-np.abs(points) / 2) / 4, np.exp(-np.abs(points)) / 2
    ratio = np.log((wide + narrow) / 2) - np.log((wide + 3 * narrow) / 4)
    assert compare(mechanism, [0], [1]).epsilon == pytest.approx(np.abs(ratio).max(), abs=1e-9)
    assert compare(mechanism, [0], [1]).epsilon == pytest.approx(math.log(2), abs=1e-9)


def test_wide_integer_noise_takes_little_memory() -> None:
    """A two-sided geometric draw over thousands of integers: ln 1/(1 - p), in far less than all pairs of them take."""

    def mechanism(rng: Any, data: Any) -> Any:
        return data[0] + rng.geometric(0.01) - rng.geometric(0.01)

    tracemalloc.start()
    try:
        assert compare(mechanism, [0], [1]).epsilon == pytest.approx(-math.log1p(-0.01), rel=1e-10)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_a_sum_of_integer_draws_with_too_many_terms_is_refused() -> None:
    def mechanism(rng: Any, data: Any) -> Any:
        return data[0] + rng.binomial(100_000, 0.3) + rng.binomial(100_000, 0.6)

    with pytest.raises(NotExact, match="a sum of integer draws takes more than"):
        _ = compare(mechanism, [0], [1]).epsilon


@pytest.mark.parametrize(
    ("losses", "unbounded", "value"),
    [
        ([0.1 * 2**j for j in range(6)], True, -math.inf),
        ([0.3 * j for j in range(6)], True, -math.inf),
        ([1 - 1 / (50 * 2**j) for j in range(6)], False, 1.0),
        ([1 + 1 / (50 * 2**j) + 9 / (50 * 2**j) ** 2 for j in range(6)], False, 1.0),
        ([0.7] * 6, False, 0.7),
        ([0.0, 0.0, 0.3, 0.69, 0.69, 0.69], False, 0.69),
        ([0.0, 0.5, 0.7], False, -math.inf),
    ],
)
def test_what_values_at_doubling_distances_show(losses: list[float], unbounded: bool, value: float) -> None:
    assert rises_without_bound(losses) is unbounded
    assert limit(losses) == pytest.approx(value, abs=1e-10)
