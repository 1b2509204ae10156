"""Two-sided geometric noise by one uniform number: recognised, with its law; and what only looks like it."""

from __future__ import annotations

import math
from typing import Any

import pytest

import veridp
from veridp.kernel.explore import explore
from veridp.kernel.handmade.transforms import recognised
from veridp.kernel.noise import Geometric

SLOPE = -0.5  # of the logarithm of the probabilities


def rounded(rng: Any, width: float = 1.0, middle: float = 0.5, slope: float = SLOPE) -> Any:
    """IBM's phrasing of two-sided geometric noise."""
    u = (rng.random() - middle) * (1 + math.exp(slope)) * width
    sign = -1 if u < 0 else 1
    return sign * math.floor(math.log(sign * u) / slope)


def test_a_rounded_logarithm_with_a_sign_is_a_difference_of_geometric_draws() -> None:
    (path,) = recognised(explore(lambda rng, data: rounded(rng), None))
    assert [type(noise.distribution) for noise in path.noises] == [Geometric, Geometric]
    assert float(path.noises[0].distribution.parameters["p"]) == pytest.approx(-math.expm1(SLOPE))
    a = math.exp(SLOPE)
    shares = veridp.tally(lambda rng, data: rounded(rng), None, 40_000, seed=5)
    for k in range(-3, 4):
        chance = a ** abs(k) * (1 - a) / (1 + a)
        assert abs(shares.frequency(k) - chance) < 5 * math.sqrt(chance / 40_000)


def test_several_of_them_cost_what_they_should() -> None:
    def histogram(rng: Any, data: Any) -> Any:
        return [int(x) + rounded(rng) for x in data]

    mechanism = veridp.mechanism(adjacency="linf", domain=[0, 1, 2], size=2)(histogram)
    assert veridp.prove(mechanism).epsilon == pytest.approx(1.0)  # two entries move by 1 each
    assert veridp.exact.compare(histogram, [0, 2], [1, 1]).epsilon == pytest.approx(1.0)


def two_scales(rng: Any) -> Any:
    u = (rng.random() - 0.5) * (1 + math.exp(SLOPE))
    return math.floor(math.log(u) / SLOPE) if u >= 0 else -math.floor(math.log(-u) / -1.0)


def told_twice(rng: Any) -> Any:
    u = rng.random()
    w = (u - 0.5) * (1 + math.exp(SLOPE))
    sign = -1 if w < 0 else 1
    return [sign * math.floor(math.log(sign * w) / SLOPE), u]


def one_sided(rng: Any) -> Any:
    return abs(rounded(rng))


OTHERS = {
    "wider": lambda rng: rounded(rng, width=2.0),
    "narrower": lambda rng: rounded(rng, width=0.5),
    "off the middle": lambda rng: rounded(rng, middle=0.4),
    "two scales": two_scales,
    "released besides": told_twice,
    "one-sided": one_sided,
}


@pytest.mark.parametrize("made", OTHERS.values(), ids=OTHERS.keys())
def test_what_only_looks_like_it_is_left_alone(made: Any) -> None:
    found = recognised(explore(lambda rng, data: made(rng), None))
    assert not any(isinstance(noise.distribution, Geometric) for path in found for noise in path.noises)
