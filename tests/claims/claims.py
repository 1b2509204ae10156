"""Claims in the notions that people state, twenty true and as many false, on functions as people write them.

Each false claim is a mistake that is made: the wrong logarithm, a variance for a deviation, L1 for L2. Its twin, where
there is one, has it right. Derivations are in the docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CLAIMS: list[StatedClaim] = []
LEAST_SIGMA = 3.7306316348  # of normal noise for (1, 1e-5), sensitivity 1 (Balle and Wang, ICML 2018)


@dataclass(frozen=True)
class StatedClaim:
    """A function, what is claimed of it, for which inputs, and whether that is true."""

    function: Callable[..., Any]
    true: bool
    stated: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__name__


def claim(true: bool, stated: dict[str, Any], **settings: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        CLAIMS.append(StatedClaim(function, true, stated, settings))
        return function

    return register


ONE: dict[str, Any] = {"adjacency": "l1", "domain": (0.0, 100.0), "size": 1}
USUAL = {"epsilon": 1.0, "delta": 1e-5}


# --------------------------------------------------------------------------------------------------- normal noise


@claim(True, USUAL, **ONE)
def classical(rng, data):
    """σ = 4.845 where 3.731 suffices."""
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5))
    return data[0] + rng.normal(0, sigma)


@claim(False, USUAL, **ONE)
def decimal_logarithm(rng, data):
    """σ = 3.193: less than the least."""
    sigma = math.sqrt(2 * math.log10(1.25 / 1e-5))
    return data[0] + rng.normal(0, sigma)


@claim(True, USUAL, **ONE)
def analytic(rng, data):
    return data[0] + rng.normal(scale=LEAST_SIGMA * (1 + 1e-9))


@claim(False, USUAL, **ONE)
def analytic_a_millionth_short(rng, data):
    return data[0] + rng.normal(scale=LEAST_SIGMA * (1 - 1e-6))


@claim(True, {"epsilon": 2.6, "delta": 1e-5}, **ONE)
def classical_beyond_one(rng, data):
    """The classical σ for ε = 3 costs 2.533, although its theorem stops at 1."""
    return data[0] + rng.normal(scale=math.sqrt(2 * math.log(1.25e5)) / 3)


@claim(True, USUAL, adjacency="replace", domain=(0.0, 0.1), size=1)
def small_numbers(rng, data):
    return float(data[0] + rng.normal(0.0, 0.1 * LEAST_SIGMA * (1 + 1e-9)))


@claim(False, USUAL, adjacency="replace", domain=(0.0, 0.1), size=1)
def variance_for_deviation(rng, data):
    """scale is a deviation, 0.373; 0.139 is its square."""
    sigma = 0.1 * LEAST_SIGMA
    return float(data[0] + rng.normal(0.0, sigma**2))


@claim(True, USUAL, adjacency="linf", domain=(0.0, 1.0), size=5)
def five_columns(rng, data):
    """All five move by 1: √5 in L2."""
    sigma = LEAST_SIGMA * math.sqrt(5) * (1 + 1e-9)
    return np.asarray(data) + rng.normal(scale=sigma, size=len(data))


@claim(False, USUAL, adjacency="linf", domain=(0.0, 1.0), size=5)
def five_columns_as_one(rng, data):
    """Costs 2.442 at this δ."""
    return np.asarray(data) + rng.normal(scale=LEAST_SIGMA, size=len(data))


@claim(True, {"mu": 1.0}, adjacency="add-remove", domain=(-5.0, 5.0), size=3)
def clipped_examples(rng, data):
    """One record more moves the sum by at most 1."""
    total = sum(min(max(x, -1.0), 1.0) for x in data)
    return total + rng.normal()


@claim(False, {"mu": 1.0}, adjacency="replace", domain=(-5.0, 5.0), size=3)
def clipped_batch(rng, data):
    """Another record moves the clipped sum from -1 to 1."""
    total = min(max(sum(data), -1.0), 1.0)
    return total + rng.normal()


# ------------------------------------------------------------------------------------------------ notions confused


@claim(True, {"mu": 1.0}, **ONE)
def unit_normal(rng, data):
    return data[0] + rng.normal()


@claim(False, {"mu": 0.5}, **ONE)
def rho_for_mu(rng, data):
    """ρ = 1/2, so μ = sqrt(2ρ) = 1."""
    return data[0] + rng.normal()


@claim(True, {"rho": 0.5}, **ONE)
def laplace_as_zcdp(rng, data):
    """ε²/2 (Bun and Steinke 2016); the truth is 0.368."""
    return data[0] + rng.laplace()


@claim(False, {"rho": 0.125}, **ONE)
def laplace_by_the_exponential_mechanism(rng, data):
    """ε²/8 is for mechanisms of bounded range."""
    return data[0] + rng.laplace()


@claim(False, {"mu": 1.0}, **ONE)
def epsilon_for_mu(rng, data):
    """Laplace noise of scale 1 is 1.03-GDP."""
    return data[0] + rng.laplace()


@claim(True, {"rdp": (8, 1.0)}, **ONE)
def renyi_of_normal(rng, data):
    """α/2σ² = 8/8."""
    return data[0] + rng.normal(scale=2.0)


@claim(False, {"rdp": (8, 0.5)}, **ONE)
def renyi_without_its_half(rng, data):
    """α/(2σ)² = 8/16."""
    return data[0] + rng.normal(scale=2.0)


@claim(True, {"mu": 1.0}, **ONE)
def asked_twice(rng, data):
    """μ = sqrt(1/2 + 1/2)."""
    scale = math.sqrt(2) * (1 + 1e-9)
    return [data[0] + rng.normal(scale=scale), data[0] + rng.normal(scale=scale)]


@claim(False, {"rho": 0.5}, **ONE)
def asked_twice_paid_once(rng, data):
    """ρ = 1/2 + 1/2."""
    first = data[0] + rng.normal()
    second = data[0] + rng.normal()
    return (first, second)


@claim(True, {"rho": 2.0}, adjacency="linf", domain=(-5.0, 5.0), size=2)
def exponential_mechanism(rng, scores):
    """ε = 2, and so ρ = ε²/2 at most."""
    return int(np.argmax(np.array(scores) + rng.gumbel(scale=1.0, size=len(scores))))


@claim(False, {"rho": 0.5}, adjacency="linf", domain=(-5.0, 5.0), size=2)
def permute_and_flip(rng, scores):
    """ε = 2 and ε²/8 = 1/2, but this one has no bounded range: opendp/opendp, issue 2911."""
    best = max(scores)
    for candidate in rng.permutation(len(scores)):
        if rng.random() < math.exp(scores[candidate] - best):
            return int(candidate)
    return -1


@claim(True, {"rho": 0.5}, adjacency="any", domain=["a", "b", "c", "d"], size=1)
def four_answers(rng, answer):
    """Truth with probability e/(e+3)."""
    options = ["a", "b", "c", "d"]
    if rng.random() < math.e / (math.e + 3):
        return answer
    options.remove(answer)
    return options[rng.integers(3)]


@claim(False, {"rho": 0.5}, adjacency="any", domain=["a", "b", "c", "d"], size=1)
def four_answers_by_the_rule_for_two(rng, answer):
    """Truth with probability e/(e+1): ε = 1 + ln 3."""
    options = ["a", "b", "c", "d"]
    if rng.random() < math.e / (math.e + 1):
        return answer
    options.remove(answer)
    return options[rng.integers(3)]


# ---------------------------------------------------------------------------------------------------- sensitivity


@claim(True, {"epsilon": 1.0}, adjacency="linf", domain=(0.0, 1.0), size=4)
def four_columns_by_l1(rng, data):
    return [x + rng.laplace(scale=4.0) for x in data]


@claim(False, {"epsilon": 1.0}, adjacency="linf", domain=(0.0, 1.0), size=4)
def four_columns_by_l2(rng, data):
    """Costs 4/2."""
    scale = math.sqrt(len(data))
    return [x + rng.laplace(scale=scale) for x in data]


@claim(True, {"epsilon": 1.0}, adjacency="replace", domain=[0, 1, 2], size=3)
def histogram_of_replaced_records(rng, data):
    return [sum(1 for x in data if x == value) + rng.laplace(scale=2.0) for value in range(3)]


@claim(False, {"epsilon": 1.0}, adjacency="replace", domain=[0, 1, 2], size=3)
def histogram_without_the_factor_two(rng, data):
    """One count falls and another rises."""
    return [sum(1 for x in data if x == value) + rng.laplace(scale=1.0) for value in range(3)]


@claim(True, USUAL, adjacency="replace", domain=(-1.0, 1.0), size=4)
def mean_over_an_interval(rng, data):
    width = 2 / len(data)
    return np.mean(data) + rng.normal(scale=width * LEAST_SIGMA * (1 + 1e-9))


@claim(False, USUAL, adjacency="replace", domain=(-1.0, 1.0), size=4)
def mean_over_half_an_interval(rng, data):
    """A record moves by up to 2, not 1."""
    return np.mean(data) + rng.normal(scale=LEAST_SIGMA / len(data))


@claim(True, {"epsilon": 0.5}, adjacency="linf", domain=(0.0, 10.0), size=3)
def noisy_max(rng, votes):
    noisy = [v + rng.laplace(scale=4.0) for v in votes]
    return noisy.index(max(noisy))


@claim(False, {"epsilon": 0.5}, adjacency="linf", domain=(0.0, 10.0), size=3)
def noisy_max_with_half_the_noise(rng, votes):
    """Votes move in opposite directions."""
    noisy = [v + rng.laplace(scale=2.0) for v in votes]
    return noisy.index(max(noisy))


# ----------------------------------------------------------------------------------------------------- δ and support


@claim(True, {"epsilon": 1.0, "delta": 1e-3}, adjacency="add-remove", domain=["x", "y"], size=2)
def key_above_a_threshold(rng, keys):
    """A key of one record is released with probability δ; τ = 1 + ln(1/2δ)."""
    if "x" not in keys:
        return None
    count = keys.count("x") + rng.laplace(scale=1.0)
    return count if count >= 1 + math.log(1 / (2 * 1e-3)) else None


@claim(False, {"epsilon": 1.0, "delta": 1e-3}, adjacency="add-remove", domain=["x", "y"], size=2)
def key_above_a_threshold_without_the_one(rng, keys):
    if "x" not in keys:
        return None
    count = keys.count("x") + rng.laplace(scale=1.0)
    return count if count >= math.log(1 / (2 * 1e-3)) else None


@claim(False, {"epsilon": 1.0, "delta": 0.5e-3}, adjacency="add-remove", domain=["x", "y"], size=2)
def half_of_delta(rng, keys):
    """The threshold for δ, with half of it claimed."""
    if "x" not in keys:
        return None
    count = keys.count("x") + rng.laplace(scale=1.0)
    return count if count >= 1 + math.log(1 / (2 * 1e-3)) else None


@claim(True, {"epsilon": 0.0, "delta": 0.1}, **ONE)
def uniform_noise(rng, data):
    """(0, Δ/2a)."""
    return data[0] + rng.uniform(-5, 5)


@claim(False, {"epsilon": 0.0, "delta": 0.05}, **ONE)
def uniform_noise_of_half_the_width(rng, data):
    """a is half of the width already."""
    return data[0] + rng.uniform(-5, 5)


@claim(False, {"epsilon": 1.0, "delta": 1e-3}, **ONE)
def clipped_noise(rng, data):
    """A is for noise drawn again beyond it; noise clipped to it says where it was clipped."""
    most = math.log(1 + (math.e - 1) / (2 * 1e-3))
    return data[0] + np.clip(rng.laplace(), -most, most)


@claim(True, {"epsilon": math.log(1 + 0.2 * (math.e - 1))}, adjacency="add-remove", domain=[0, 1], size=2)
def count_of_a_sample(rng, data):
    taken = sum(x for x in data if rng.random() < 0.2)
    return taken + rng.laplace(scale=1.0)


@claim(False, {"epsilon": 0.2}, adjacency="add-remove", domain=[0, 1], size=2)
def rate_times_epsilon(rng, data):
    """ln(1 + q(e^ε - 1)) = 0.295, which is qε for small ε only."""
    taken = sum(x for x in data if rng.random() < 0.2)
    return taken + rng.laplace(scale=1.0)


@claim(True, {"rho": 0.5}, adjacency="l1", domain=range(50), size=1)
def geometric_count(rng, data):
    p = 1 - math.exp(-1)
    return data[0] + int(rng.geometric(p)) - int(rng.geometric(p))
