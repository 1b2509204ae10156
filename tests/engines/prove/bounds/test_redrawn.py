"""Proofs for numbers that are drawn again until they are plausible."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.engines.prove.bounds.redrawn import RedrawnProof, prove_redrawn
from veridp.engines.prove.replay import spot_check
from veridp.errors import BadInput
from veridp_check.checker import check


def plausible_age(ages: list[float]) -> float:
    """A mean age, redrawn until it is one that people have."""
    mean = sum(ages) / len(ages)
    noisy = -1.0
    while not 0 <= noisy <= 120:
        noisy = mean + np.random.laplace(0, 40)  # noqa: NPY002
    return noisy


def positive_balance(rng: np.random.Generator, data: list[float]) -> float:
    noisy = data[0] - data[1] + rng.laplace(scale=2.0)
    while noisy < 0:
        noisy = data[0] - data[1] + rng.laplace(scale=2.0)
    return noisy


@pytest.mark.parametrize(
    ("mechanism", "settings", "truth"),
    [
        # from a mean of 0 to one of 60: C(0) = (1 - e^-3)/2 and C(60) = 1 - e^(-3/2), so 2/(1 + e^(-3/2))
        (
            plausible_age,
            {"adjacency": "replace", "domain": (0, 120), "size": 2},
            1.5 + math.log(2 / (1 + math.exp(-1.5))),
        ),
        # below 0 all balances have the law of 0; from 0 to 1, C(0) = 1/2 and C(1) = 1 - e^(-1/2)/2
        (positive_balance, {"adjacency": "l1", "domain": (0.0, 1.0), "size": 2}, math.log(2 * math.exp(0.5) - 1)),
        # from 0 to 2
        (positive_balance, {"adjacency": "linf", "size": 2}, math.log(2 * math.e - 1)),
    ],
)
def test_they_are_proved_at_their_true_cost(mechanism: Any, settings: dict[str, Any], truth: float) -> None:
    proof = veridp.prove(veridp.mechanism(**settings)(mechanism))
    assert isinstance(proof, RedrawnProof)
    assert proof.epsilon == pytest.approx(truth, rel=1e-12)
    assert proof.certificate["kind"] == "redrawn"
    pairs = {1.5: ([0.0, 0.0], [120.0, 0.0]), 0.5: ([0.0, 0.0], [1.0, 0.0]), 1.0: ([1.0, 1.0], [2.0, 0.0])}
    (pair,) = (pair for cost, pair in pairs.items() if cost <= truth < cost + 0.5)
    assert veridp.exact.compare(mechanism, *pair).epsilon == pytest.approx(truth, rel=1e-9)


def within_the_data(rng: np.random.Generator, data: list[float]) -> float:
    while True:
        noisy = sum(data) + rng.laplace()
        if noisy >= data[0]:
            return noisy


def three_tries(rng: np.random.Generator, data: list[float]) -> float:
    for _ in range(3):
        noisy = sum(data) + rng.laplace()
        if noisy >= 0:
            return noisy
    return 0.0


def two_chances(rng: np.random.Generator, data: list[float]) -> float:
    """Once above 5 it takes anything, so that not all that is released lies in one interval."""
    seen = sum(data) + rng.laplace()
    while True:
        noisy = sum(data) + rng.laplace()
        if noisy >= 0 or seen > 5:
            return noisy


def stuck(rng: np.random.Generator, data: list[float]) -> float:
    """After a first miss it never ends."""
    noisy = sum(data) + rng.laplace()
    while noisy < 0:
        sum(data) + rng.laplace()
    return noisy


def other_noise(rng: np.random.Generator, data: list[float]) -> float:
    """What is rejected is not what is released."""
    while sum(data) + rng.laplace() < 0:
        pass
    return sum(data) + rng.laplace()


def coin(rng: np.random.Generator, data: list[float]) -> float:
    while True:
        noisy = sum(data) + rng.laplace()
        if noisy >= 0 and random.random() < 0.5:
            return noisy


@pytest.mark.parametrize("mechanism", [within_the_data, three_tries, two_chances, stuck, other_noise, coin])
def test_others_are_not_taken_for_such(mechanism: Any) -> None:
    stated = veridp.mechanism(adjacency="l1", domain=(0.0, 2.0), size=2)(mechanism)
    assert prove_redrawn(stated, 2, veridp.unknowns("data", 2)) is None


def test_its_certificate_is_not_compared_with_runs() -> None:
    proof = veridp.prove(veridp.mechanism(adjacency="l1", domain=(0.0, 1.0), size=2)(positive_balance))
    with pytest.raises(BadInput, match="prove the program again"):
        spot_check(check(proof.certificate), positive_balance, 10, 1)
