"""Floating-point outputs leak through their low bits, unless they are rounded to a grid."""

from __future__ import annotations

import math
from typing import Any

import pytest

from veridp.engines.sniper import search
from veridp.mechanism import mechanism

SCALE = 10.0  # a claim of 0.1 for sensitivity 1


@mechanism(epsilon=0.1, adjacency="l1", size=1)
def textbook(rng: Any, data: Any) -> float:
    """Laplace noise by the inverse of its distribution function, in doubles."""
    u = rng.random() - 0.5
    return float(data[0] - SCALE * math.copysign(1.0, u) * math.log(1 - 2 * abs(u)))


@mechanism(epsilon=0.1, adjacency="l1", size=1)
def numpys(rng: Any, data: Any) -> float:
    """The same distribution by NumPy's own sampler."""
    return float(data[0] + rng.laplace(scale=SCALE))


@mechanism(epsilon=0.1, adjacency="l1", size=1)
def rounded(rng: Any, data: Any) -> float:
    """The textbook's answer, rounded to a multiple of 2^-10."""
    return round(textbook.function(rng, data) * 1024) / 1024


OPTIONS: dict[str, Any] = {
    "pairs": [([0.0], [1.0])],
    "samples": 10_000,
    "final_samples": 40_000,
    "seconds": 600.0,
    "workers": 1,
}


@pytest.mark.parametrize("target", [textbook, numpys])
def test_laplace_noise_in_doubles_leaks_more_than_it_claims(target: Any) -> None:
    """The published search found 0.25 at a claim of 0.1; some outputs of 0 can never come from 1."""
    finding = search(target, bits=True, **OPTIONS)
    assert finding.epsilon_lower > 1.0
    assert finding.refuted
    assert finding.witness is not None
    assert any(word in str(finding.witness.event) for word in ("bit", "exponent", "reached"))
    assert finding.witness.as_floats
    assert str(finding.witness).endswith("(as floats)")
    assert finding.to_dict()["witness"]["as_floats"]


def test_without_the_bits_nothing_is_found() -> None:
    finding = search(textbook, **OPTIONS)
    assert finding.epsilon_lower <= 0.1  # above with probability 0.05 at most, were the seed not fixed
    assert not finding.refuted


def test_rounded_to_a_grid_it_does_not_leak() -> None:
    finding = search(rounded, bits=True, **OPTIONS)
    assert finding.epsilon_lower <= 0.1  # above with probability 0.05 at most, were the seed not fixed
    assert not finding.refuted
