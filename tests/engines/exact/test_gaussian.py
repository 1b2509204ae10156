"""Normal noise on several entries that all move: δ, ε at δ and witnesses against the closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from veridp.audit.witness import exact_witness
from veridp.claim import Claim
from veridp.engines.exact import compare


def delta(mu: float, epsilon: float) -> float:
    """δ(ε) of a normal variable that moves by μ standard deviations (Balle and Wang 2018)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(
    ("scale", "entries", "epsilon"),
    [
        (3.7306316348, 1, 1.0),
        (4.8448052626, 1, 0.7509769569),  # the classical √(2 ln(1.25/δ))/ε for claims of 1, 0.1 and 3
        (48.448052626, 1, 0.0607037816),
        (1.6149350875, 1, 2.5332694553),
        (3.730632, 5, 2.4420841),
    ],
)
def test_known_epsilons_at_a_delta(scale: float, entries: int, epsilon: float) -> None:
    comparison = compare(lambda rng, data: [x + rng.normal(scale=scale) for x in data], [0] * entries, [1] * entries)
    assert comparison.epsilon_at(1e-5) == pytest.approx(epsilon, rel=2e-8)


def test_unlike_scales_and_moves_are_one_statistic() -> None:
    def mechanism(rng: Any, data: Any) -> Any:
        return {"a": data[0] + rng.normal(scale=2), "b": [3 * data[1] + rng.normal(), data[2] - rng.normal(scale=5)]}

    comparison = compare(mechanism, [1, 1, 1], [2, 0.5, 3])
    mu = math.sqrt((1 / 2) ** 2 + 1.5**2 + (2 / 5) ** 2)
    for epsilon in (0.0, 0.5, 3.0):
        bounds = comparison.delta_bounds(epsilon)
        assert bounds.lower == bounds.upper == pytest.approx(delta(mu, epsilon), rel=1e-9)


def test_four_entries_are_refuted_by_a_half_space() -> None:
    """With ε = 0.75 at δ = 1e-5, a claim of 0.5 is refuted by an event whose probability is in closed form."""
    mu = brentq(lambda m: delta(m, 0.75) - 1e-5, 0.01, 3)
    comparison = compare(lambda rng, data: [x + rng.normal(scale=2 / mu) for x in data], [0] * 4, [1] * 4)
    claim = Claim(0.5, 1e-5)
    witness = exact_witness(comparison, claim)
    assert comparison.epsilon_at(1e-5) == pytest.approx(0.75, rel=1e-9)
    assert witness.refutes(claim)
    above, below = witness.left_probability.lower, witness.right_probability.lower
    assert above == pytest.approx(float(ndtr(mu / 2 - 0.5 / mu)), rel=1e-8)
    assert above - math.exp(0.5) * below == pytest.approx(delta(mu, 0.5), rel=1e-6)
    assert str(witness.event).startswith("output[0] + output[1] + output[2] + output[3] ")
