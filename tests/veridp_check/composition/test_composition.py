"""Certificates of noisy steps: those that are true are verified, and what is false in one step is rejected there."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from scipy.stats import norm

from veridp_check.checker import KINDS, check

Document = dict[str, Any]


def certificate(kind: str, epsilon: str, delta: str, **more: Any) -> Document:
    return {
        "format": "veridp-certificate",
        "version": 3,
        "kind": "composition",
        "mechanism": "m",
        "arguments": {},
        "adjacency": "add-remove",
        "size": 4,
        "domain": ["0", "1"],
        "epsilon": epsilon,
        "delta": delta,
        "rho": None,
        "mu": None,
        "noises": [{"draw": 0, "kind": kind, "scale": "4"}],
        "sampling": None,
        "steps": [{"noise": 0, "low": "-1", "high": "1", "count": 4}],
    } | more


def step(low: str = "-1", high: str = "1", count: int = 1, noise: int = 0) -> Document:
    return {"noise": noise, "low": low, "high": high, "count": count}


NORMAL = certificate("normal", "2", "1/100000")  # the least ε is 1.9931
LAPLACE = certificate("laplace", "1", "0")
ONE = certificate("laplace", "1/8", "62/1000", steps=[step()])  # 1 - e^(-1/16)
SAMPLED = certificate("normal", "1/2", "1/1000", sampling={"of": "each", "rate": "1/5"}, steps=[step()])
FIXED = SAMPLED | {"sampling": {"of": "fixed", "rate": "1/4"}, "adjacency": "replace"}


@pytest.mark.parametrize("document", [NORMAL, LAPLACE, ONE, SAMPLED, FIXED])
def test_true_certificates_are_verified(document):
    checked = check(document)
    assert checked.rejection is None
    assert [one.name for one in checked.steps] == [name for name, _ in KINDS["composition"].steps]


def delta_of_normal(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def sampled(epsilon: float, rate: float, mu: float) -> float:
    return rate * delta_of_normal(math.log1p(math.expm1(epsilon) / rate), mu)


@pytest.mark.parametrize(
    ("document", "truth"),
    [
        (NORMAL, lambda epsilon: delta_of_normal(epsilon, 1 / 2)),
        (NORMAL | {"adjacency": "replace"}, lambda epsilon: delta_of_normal(epsilon, 1)),
        (ONE, lambda epsilon: 1 - math.exp((epsilon - 1 / 4) / 2)),
        (SAMPLED, lambda epsilon: sampled(epsilon, 0.2, 1 / 4)),
        (SAMPLED | {"adjacency": "replace"}, lambda epsilon: sampled(epsilon, 0.2, 1 / 2)),
        (SAMPLED | {"steps": [step("2", "3")]}, lambda epsilon: sampled(epsilon, 0.2, 3 / 4)),
        (SAMPLED | {"steps": [step("2", "3")], "adjacency": "replace"}, lambda e: sampled(e, 0.2, 3 / 4)),
        (FIXED, lambda epsilon: sampled(epsilon, 0.25, 1 / 2)),
        (FIXED | {"steps": [step("2", "3")]}, lambda epsilon: sampled(epsilon, 0.25, 1 / 4)),
    ],
)
def test_delta_is_refused_just_where_it_is_too_small(document, truth):
    for epsilon in (0.01, 0.1, 0.2):
        for share, verified in ((1 + 1e-6, True), (1 - 1e-6, False)):
            stated = {"epsilon": str(Fraction(epsilon)), "delta": str(Fraction(truth(epsilon) * share))}
            assert check(document | stated).verified is verified


@pytest.mark.parametrize(
    ("document", "rho", "mu"), [(NORMAL, "1/8", "1/2"), (LAPLACE, "1/8", None), (ONE, "1/32", None)]
)
def test_other_notions_are_verified_just_where_they_hold(document, rho, mu):
    assert check(document | {"rho": rho, "mu": mu}).verified
    for name, value in (("rho", rho), ("mu", mu)):
        less = str(Fraction(value or 10**6) * Fraction(999_999, 1_000_000))
        assert check(document | {name: less}).rejection.place == f"/{name}"


FORGERIES = [
    ("an ε below the truth", NORMAL | {"epsilon": "199/100"}, "delta"),
    ("no δ at all", NORMAL | {"delta": "0"}, "delta"),
    ("a pure ε below the truth", LAPLACE | {"epsilon": "999/1000"}, "delta"),
    ("one step more", NORMAL | {"steps": [step(count=5)]}, "delta"),
    ("a larger range", NORMAL | {"steps": [step("-1", "11/10", 4)]}, "delta"),
    ("less noise", NORMAL | {"noises": [{"draw": 0, "kind": "normal", "scale": "39/10"}]}, "delta"),
    ("records that are replaced", NORMAL | {"adjacency": "replace"}, "delta"),
    ("entries of a vector", NORMAL | {"adjacency": "l1"}, "neighbours"),
    ("a larger sample", SAMPLED | {"sampling": {"of": "each", "rate": "1"}, "delta": "1/10000"}, "delta"),
    ("a rate of 0", SAMPLED | {"sampling": {"of": "each", "rate": "0"}}, "reading"),
    ("a rate above 1", SAMPLED | {"sampling": {"of": "each", "rate": "2"}}, "reading"),
    ("no known sample", SAMPLED | {"sampling": {"of": "some", "rate": "1/5"}}, "reading"),
    ("a part of a record", FIXED | {"sampling": {"of": "fixed", "rate": "1/5"}}, "reading"),
    ("a fixed size of what is added to", FIXED | {"adjacency": "add-remove"}, "neighbours"),
    ("ρ of a sample", SAMPLED | {"rho": "100"}, "notions"),
    ("noise that leaves its support", NORMAL | {"noises": [{"draw": 0, "kind": "uniform", "scale": "4"}]}, "steps"),
    ("noise that moves one way", NORMAL | {"noises": [{"draw": 0, "kind": "exponential", "scale": "4"}]}, "steps"),
    ("noise that is not there", NORMAL | {"steps": [step(noise=1)]}, "reading"),
    ("a range upside down", NORMAL | {"steps": [step("1", "-1")]}, "reading"),
    ("no steps to count", NORMAL | {"steps": [step(count=0)]}, "reading"),
    ("a field of another kind", NORMAL | {"events": []}, "reading"),
]


@pytest.mark.parametrize(
    ("document", "place"), [(d, s) for _, d, s in FORGERIES], ids=[what for what, _, _ in FORGERIES]
)
def test_forgeries_are_rejected_in_the_step_that_is_false(document, place):
    checked = check(document)
    assert not checked.verified
    names = ["reading", *(name for name, _ in KINDS["composition"].steps)]
    assert names[len(checked.steps) + (checked.certificate is not None)] == place
