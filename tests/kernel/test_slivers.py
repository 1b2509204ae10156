"""Branches that only rounding opens are left out, and told; those that somebody meant are not."""

from __future__ import annotations

import math
from typing import Any

import pytest

import veridp
from veridp.verdict import Standing

DRINKS = ("tea", "mate", "water")


def weights_of(data: Any) -> list[float]:
    return [math.exp(0.5 * data.count(drink)) for drink in DRINKS]


def first_below(rng: Any, data: Any) -> Any:
    weights = weights_of(data)
    u, below = rng.random(), 0.0
    for drink, weight in zip(DRINKS, weights, strict=True):
        below += weight / sum(weights)
        if u < below:
            return drink
    return None


def subtracting(rng: Any, data: Any) -> Any:
    weights = weights_of(data)
    u = rng.random() * sum(weights)
    for drink, weight in zip(DRINKS, weights, strict=True):
        if u < weight:
            return drink
        u -= weight
    raise RuntimeError("the weights are used up")


SETTINGS: dict[str, Any] = {"adjacency": "replace", "domain": list(DRINKS), "size": 3}
# A vote moves from a drink with all three to one with none: by weights exp(votes / 2), as derived in tests/world.
COST = math.log(math.exp(0.5) * (math.exp(1.5) + 2) / (math.e + math.exp(0.5) + 1))


@pytest.mark.parametrize("function", [first_below, subtracting])
def test_a_wheel_that_rounding_leaves_open_is_proved_and_says_so(function: Any) -> None:
    verdict = veridp.audit(function, epsilon=1.0, seconds=60, **SETTINGS)
    assert verdict.standing is Standing.PROVED
    assert verdict.epsilon.lower == pytest.approx(COST, rel=1e-9)
    assert verdict.epsilon.upper == pytest.approx(COST, rel=1e-9)
    assert "left out branches as rare as rounding errors (test_slivers.py:" in str(verdict)
    assert "but for branches as rare as rounding errors" in verdict.scope


def test_a_branch_that_somebody_meant_is_kept() -> None:
    def rare(rng: Any, bit: int) -> int:
        return bit if rng.random() < 1e-16 else 0

    def less_rare(rng: Any, bit: int) -> int:
        return bit if rng.random() >= 1 - 2.0**-48 else 0

    for function in (rare, less_rare):
        assert veridp.exact.compare(function, 0, 1).epsilon == math.inf


def test_sixteen_floats_far_from_0_are_no_rounding_errors_of_a_short_range() -> None:
    def far(rng: Any, bit: int) -> int:
        return bit if rng.uniform(2.0**53, 2.0**53 + 2.0**30) > 2.0**53 + 2.0**30 - 10 else 0

    assert veridp.exact.compare(far, 0, 1).epsilon == math.inf


def test_all_that_was_left_out_counts() -> None:
    def often(rng: Any, bit: int) -> int:
        return bit if any(rng.random() >= 1 - 2.0**-50 for _ in range(4)) else 0

    proof = veridp.prove(veridp.mechanism(adjacency="any", domain=[0, 1])(often))
    told = float(proof.left_out.split("probability ")[1].split()[0])
    assert told >= 4 * 2.0**-50
    assert veridp.exact.compare(often, 0, 1).left_out


def test_explorations_leave_nothing_out_unasked() -> None:
    outputs = [path.output for path in veridp.explore(first_below, ["tea", "tea", "mate"])]
    assert None in outputs


def test_what_a_loop_waits_for_is_kept_however_rare() -> None:
    def patient(rng: Any, bit: int) -> int:
        while True:
            u = rng.random()
            if u >= 1 - 2.0**-50:
                return bit
            if u < 2.0**-52:
                return 0

    assert veridp.exact.compare(patient, 0, 1).epsilon == math.inf
    assert veridp.prove(veridp.mechanism(adjacency="any", domain=[0, 1])(patient)).epsilon == math.inf
