"""Certificates of numbers that are drawn again, against densities on a grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp_check.checker import check


def document(**changed: Any) -> dict[str, Any]:
    """A mean of two records of [0, 1] under Laplace noise of scale 1/2, redrawn until it is in [0, 1]."""
    return {
        "format": "veridp-certificate", "version": 3, "kind": "redrawn", "mechanism": "mean", "arguments": {},
        "adjacency": "replace", "size": 2, "domain": ["0", "1"], "epsilon": "3",
        "noises": [{"draw": 0, "kind": "laplace", "scale": "1/2"}],
        "data": {"0": "1/2", "1": "1/2"}, "constant": "0", "low": "0", "high": "1", **changed,
    }  # fmt: skip


def largest_loss(least: float, most: float, move: float, low: float, high: float, scale: float) -> float:
    """Over pairs on a grid, from densities that are normalised by summing them up."""
    y = np.linspace(max(low, least - 40 * scale), min(high, most + 40 * scale), 4001)
    x = np.linspace(least, most, 41)
    logs = -np.abs(y[None, :] - x[:, None]) / scale
    logs -= np.log(np.trapezoid(np.exp(logs), y, axis=1))[:, None]
    pairs = [(a, b) for a in range(41) for b in range(41) if abs(x[a] - x[b]) <= move + 1e-12]
    return max(float((logs[a] - logs[b]).max()) for a, b in pairs)


@pytest.mark.parametrize(
    ("low", "high", "scale", "data"),
    [
        ("0", "1", "1/2", {"0": "1/2", "1": "1/2"}),
        ("0", "1", "1/8", {"0": "1/2", "1": "1/2"}),
        ("1/4", None, "1/2", {"0": "1", "1": "-1/2"}),
        (None, "2", "2/3", {"0": "1", "1": "1"}),
        ("3", "4", "1", {"0": "1", "1": "1"}),
    ],
)
def test_the_least_epsilon_that_is_accepted_is_the_largest_loss(low: Any, high: Any, scale: str, data: Any) -> None:
    factors = [float(Fraction(c)) for c in data.values()]
    ends = [-math.inf if low is None else float(Fraction(low)), math.inf if high is None else float(high)]
    span = sum(min(c, 0.0) for c in factors), sum(max(c, 0.0) for c in factors)
    loss = largest_loss(*span, max(map(abs, factors)), *ends, float(Fraction(scale)))  # type: ignore[call-arg]
    noises = [{"draw": 0, "kind": "laplace", "scale": scale}]
    for epsilon, accepted in ((loss * 1.001 + 1e-6, True), (loss * 0.995 - 1e-6, False)):
        changed = {"low": low, "high": high, "data": data, "noises": noises, "epsilon": str(Fraction(epsilon))}
        assert check(document(**changed)).verified is accepted


def test_moves_under_each_adjacency() -> None:
    """Any number of [0, ∞) may move up by d from 0: 2 d + ln(2 - e^(-2 d)) at scale 1/2."""
    factors = {"0": "1", "1": "-1/2"}
    for adjacency, move in (("l1", 1.0), ("linf", 1.5), ("monotone", 1.0)):
        loss = 2 * move + math.log(2 - math.exp(-2 * move))
        for epsilon in (loss + 1e-9, loss - 1e-9):
            stated = {"epsilon": str(Fraction(epsilon)), "adjacency": adjacency, "domain": None, "high": None}
            assert check(document(**stated, data=factors)).verified is (epsilon > loss)


def test_numbers_beyond_the_interval_cost_nothing() -> None:
    """All of [0, 1] lies below [2, 3], where every number has the law of 2."""
    assert check(document(low="2", high="3", epsilon="0")).verified


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"epsilon": "1"}, "/epsilon"),
        ({"adjacency": "any"}, "/adjacency"),
        ({"adjacency": "add-remove"}, "/adjacency"),
        ({"adjacency": "replace-unordered", "data": {"0": "1"}}, "/adjacency"),
        ({"domain": None}, "/adjacency"),
        ({"domain": ["0", "9"]}, "/epsilon"),
        ({"noises": [{"draw": 0, "kind": "normal", "scale": "1/2"}]}, "/noises"),
        ({"noises": []}, "/noises"),
        ({"noises": [{"draw": 0, "kind": "laplace", "scale": "1/9"}]}, "/epsilon"),
        ({"low": "1"}, "/high"),
        ({"high": None}, "/epsilon"),
        ({"data": {"2": "1"}}, "/data/2"),
        ({"data": {"0": "2"}}, "/epsilon"),
    ],
)
def test_flaws_are_found_where_they_are(changed: dict[str, Any], place: str) -> None:
    epsilon = {"epsilon": "37/25"}
    assert check(document(**epsilon)).verified
    rejection = check(document(**{**epsilon, **changed})).rejection
    assert rejection is not None
    assert rejection.place == place
