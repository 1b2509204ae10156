"""Audits of claims in other notions: refuted by an event in the notion, proved by a bound in it."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any

import pytest

import veridp
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import Deadline
from veridp.claim import Standing
from veridp.errors import BadInput


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
    ],
    ids=["mu", "rho", "one order", "all orders", "tradeoff"],
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
