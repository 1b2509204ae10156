"""Audits of claims in other notions: refuted by an event in the notion, proved by a bound in it."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import veridp
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import Deadline
from veridp.engines.exact import compare
from veridp.errors import BadInput
from veridp.verdict import Standing
from veridp_check.checker import check


@veridp.mechanism(adjacency="l1", size=1)
def gaussian(rng, data):
    return data[0] + rng.normal(scale=1.0)


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ({"mu": 1.0}, {"mu": 0.999999}),
        ({"rho": 0.5}, {"rho": 0.499999}),
        ({"rdp": (2, 1.0)}, {"rdp": (2, 0.999999)}),
        ({"rdp": lambda alpha: alpha / 2}, {"rdp": lambda alpha: alpha / 2.001}),
        (
            {"tradeoff": [(0, 0.87), (0.149, 0.465), (0.465, 0.149), (0.87, 0)]},
            {"tradeoff": [(0, 0.999), (0.3, 0.3), (0.999, 0)]},  # above the curve between its points
        ),
        (
            {"tradeoff": lambda alpha: ndtr(-ndtri(alpha) - 1)},
            {"tradeoff": lambda alpha: ndtr(-ndtri(alpha) - 0.999)},
        ),
    ],
    ids=["mu", "rho", "one order", "all orders", "tradeoff", "tradeoff as a function"],
)
def test_normal_noise_keeps_its_notions_and_no_better_ones(true: dict[str, Any], false: dict[str, Any]) -> None:
    kept = veridp.audit(gaussian, seconds=600, **true)
    assert kept.standing is Standing.PROVED
    refuted = veridp.audit(gaussian, seconds=600, **false)
    assert refuted.standing is Standing.REFUTED
    assert refuted.witness is not None
    assert refuted.witness.confidence == 1
    seen = refuted.witness.left_probability.lower > 1e-9  # an event that can be seen, or a divergence
    assert seen or refuted.witness.divergence is not None


def laplace_number(rng, data):
    return data[0] + rng.laplace()


def tradeoff_of_laplace(alpha: float) -> float:
    """Dong, Roth and Su 2022, Appendix A, at ε = 1."""
    below = math.exp(-1) / 2
    if alpha <= below:
        return 1 - math.e * alpha
    return math.exp(-1) * (1 / (4 * alpha) if alpha <= 1 / 2 else 1 - alpha)


def test_a_function_that_is_false_between_the_points_of_its_chords_alone_is_refuted() -> None:
    """Where it is true, at the points of the chords, there is nothing to prove between them."""
    at = np.union1d(np.geomspace(1e-12, 1, 60), np.linspace(0, 1, 12))
    chords = np.array([tradeoff_of_laplace(alpha) for alpha in at.tolist()])
    verdict = veridp.audit(
        laplace_number, tradeoff=lambda alpha: float(np.interp(alpha, at, chords)), adjacency="l1", size=1, seconds=600
    )
    assert verdict.standing is Standing.REFUTED
    assert verdict.proved is None
    kept = veridp.audit(laplace_number, tradeoff=tradeoff_of_laplace, adjacency="l1", size=1, seconds=600)
    assert kept.standing is Standing.PROVED
    assert "f-DP (a function, to within 1e-05) is PROVED" in str(kept)


def divergence_of_laplace(alpha: float, price: float) -> float:
    """Mironov 2017, Proposition 6."""
    moment = alpha * math.exp((alpha - 1) * price) + (alpha - 1) * math.exp(-alpha * price)
    return math.log(moment / (2 * alpha - 1)) / (alpha - 1)


def three_numbers(rng, data):
    return data[0] + rng.laplace(scale=2), data[0] + rng.laplace(scale=3), data[0] + rng.normal(scale=3)


def test_renyi_divergences_of_laplace_and_normal_noise_add_up() -> None:
    truth = divergence_of_laplace(3, 1 / 2) + divergence_of_laplace(3, 1 / 3) + 3 / 18
    made = veridp.mechanism(rdp=(3, truth), adjacency="l1", size=1)(three_numbers)
    proof = veridp.prove(made)
    assert proof.keeps_claim
    assert proof.rdp(3) == pytest.approx(truth, rel=1e-9)
    certificate = proof.certificate
    assert check(certificate).verified
    order, stated = certificate["rdp"][0]
    assert order == "3"
    forged = {**certificate, "rdp": [[order, str(Fraction(stated) * (1 - Fraction(1, 10**6)))]]}
    assert check(forged).rejection.place == "/rdp/0"  # type: ignore[union-attr]
    assert compare(made, [0.0], [1.0]).renyi(3) == pytest.approx(truth, rel=1e-9)


def test_a_function_that_raises_is_named() -> None:
    with pytest.raises(BadInput, match="rdp as a function raised OverflowError at 1024"):
        veridp.audit(gaussian, rdp=lambda alpha: divergence_of_laplace(alpha, 1.0))


def test_a_failed_check_says_what_the_event_shows() -> None:
    with pytest.raises(AssertionError, match=r"so μ >= 1 where 0\.9-GDP is claimed"):
        veridp.check(gaussian, mu=0.9)


def test_a_sampled_refutation_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has such a function
    monkeypatch.setattr(sniper, "SAMPLES", 1_000)
    monkeypatch.setattr(sniper, "FINAL", 10_000)
    verdict = veridp.audit(gaussian, rho=0.01, seconds=600, black_box=True)
    assert verdict.standing is Standing.REFUTED
    assert "veridp.audit(mechanism, rho=0.01, size=1" in verdict.snippet


def test_two_claims_are_an_error_with_a_remedy() -> None:
    with pytest.raises(BadInput, match="epsilon and rho are different claims; give rho alone"):
        veridp.audit(gaussian, epsilon=1.0, rho=0.5)
    with pytest.raises(BadInput, match="inf-zCDP holds for every function; claim less"):
        veridp.audit(gaussian, rho=math.inf)


@dataclass(frozen=True)
class GaussianProof:
    """What a proof of normal noise knows."""

    epsilon: float = 4.8865541
    at_delta: float = 1e-6
    rho: float = 0.5
    mu: float = 1.0
    profile: tuple[tuple[float, float], ...] = ()

    def delta(self, epsilon: float) -> float:
        return 1.0

    def rdp(self, alpha: float) -> float:
        return alpha / 2


@pytest.mark.parametrize("stated", [{"mu": 1.0}, {"rho": 0.5}, {"rdp": (3, 1.5)}])
def test_a_proof_is_counted_in_the_notion_of_the_claim(stated: dict[str, Any]) -> None:
    case = AuditCase.of(gaussian.claiming(**stated), None, 0.05, 0)
    findings = Findings(case, Deadline(60.0), None)
    findings.prove(GaussianProof().epsilon, "", "for all")
    assert findings.verdict().standing is Standing.NOT_REFUTED  # a point on the curve proves nothing of the rest
    findings.prove(GaussianProof().epsilon, "", "for all", GaussianProof())
    verdict = findings.verdict()
    assert verdict.standing is Standing.PROVED
    assert verdict.proved is not None
    assert f"{case.claim} is PROVED, ε in [0, 4.88655] at δ = 1e-06" in str(verdict)
