"""Audits by samples alone."""

from __future__ import annotations

import importlib
from io import StringIO

import pytest
from rich.console import Console

import veridp
from veridp.audit import sampled
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import Deadline
from veridp.report.audit import verdict_page
from veridp.verdict import Standing

sniper = importlib.import_module("veridp.engines.sniper.search")  # by its name: the package has a function of this name


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniper, "SAMPLES", 4_000)  # the samples bound what is done, not the clock
    monkeypatch.setattr(sniper, "FINAL", 40_000)


@pytest.mark.parametrize("name", ["noisy_hist2", "svt5", "bad_smart_sum", "bad_partial_sum"])
def test_a_classic_bug_is_found_and_its_witness_holds(name: str) -> None:
    """The exact loss between the inputs of the witness is at least what the samples certified, and above the claim."""
    mechanism = veridp.catalogue[name]
    verdict = veridp.audit(mechanism, seconds=600, seed=1, black_box=True)
    assert verdict.standing is Standing.REFUTED
    assert verdict.epsilon.upper == float("inf")
    engines = [piece.engine for piece in verdict.evidence]
    assert engines in (["events", "sniper"], ["events", "statdp", "sniper"])
    assert verdict.alpha == pytest.approx(0.05)
    assert verdict.finished
    assert verdict.witness is not None
    assert verdict.witness.confidence >= 0.95
    exactly = veridp.exact.compare(mechanism, verdict.witness.left, verdict.witness.right)
    assert mechanism.claim is not None
    assert mechanism.claim.epsilon < verdict.epsilon.lower <= exactly.epsilon


@pytest.mark.parametrize("name", ["laplace", "randomized_response"])
def test_a_right_mechanism_is_not_refuted(name: str) -> None:
    verdict = veridp.audit(veridp.catalogue[name], seconds=600, seed=1, black_box=True)
    assert verdict.finished
    assert verdict.standing is Standing.NOT_REFUTED
    assert 0 < verdict.alpha <= 0.05
    assert 0 < verdict.smallest_mass < 1
    assert "patterns" in " ".join(verdict.searched)
    assert verdict.detectable is not None
    assert verdict.claim.epsilon < verdict.detectable.epsilon
    page = StringIO()
    Console(file=page, width=400).print(verdict_page(verdict))
    assert str(verdict.detectable) in page.getvalue()
    assert verdict.rate_text in page.getvalue()
    assert verdict.to_dict()["outputs_per_second"] == verdict.outputs_per_second > 0
    assert verdict.to_dict()["detectable"]["probability"] == 0.9


def test_the_rate_is_that_of_the_outputs_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that takes 0.4 ms for an output, on a clock of its own."""
    drawn = 0

    def library(data: list[float], count: int) -> list[float]:
        nonlocal drawn
        drawn += count
        return [float(number) for number in range(count)]

    monkeypatch.setattr("veridp.audit.sampled.time.perf_counter", lambda: 4e-4 * drawn)
    mechanism = veridp.adapters.batched(library, epsilon=1.0, size=1)
    findings = Findings(AuditCase.of(mechanism, 1, 0.05, 0), Deadline(120.0), None)
    sampled.measure_rate(findings)
    assert findings.outputs_per_second == pytest.approx(2500)
    assert drawn == 1 + 4 + 16 + 64  # 64 of them take more than a fiftieth of a second
    assert findings.verdict().rate_text == "one process draws about 2,500 outputs per second"
