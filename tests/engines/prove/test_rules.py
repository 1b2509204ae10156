"""Rules that shift integer noise."""

from __future__ import annotations

import math

import pytest

from veridp import mechanism
from veridp.engines.prove import prove
from veridp_check.checker import check


@mechanism(epsilon=1.0, adjacency="monotone", size=7)
def counts(rng, data):
    return [count + rng.geometric(0.3) for count in data] if sum(data) + rng.laplace(scale=3) > 0 else None


def test_rules_shift_integer_noise_in_whole_steps():
    """One-sided noise on counts: no alignment downwards. Two-sided: whole steps in every direction."""
    assert prove(counts, 7).epsilon == float("inf")

    def two_sided(rng, data):
        return [count + rng.geometric(0.3) - rng.geometric(0.3) for count in data]

    proof = prove(mechanism(epsilon=10.0, adjacency="monotone", size=7)(two_sided))
    assert proof.epsilon == pytest.approx(-7 * math.log(0.7), rel=1e-15)
    assert check(proof.certificate).verified
