"""Programs that cannot be explored: aligned runs come first; exact losses or samples confirm what they find."""
# ruff: noqa: NPY002 - programs as they are written

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veridp.audit import sampled
from veridp.audit.audit import _explore_first
from veridp.audit.case import AuditCase
from veridp.audit.explored import compare_exactly
from veridp.audit.findings import Findings
from veridp.audit.programs import compare_runs, confirm_candidates, confirmed_by_samples
from veridp.budget import Deadline, within
from veridp.claim import Claim
from veridp.errors import CutShort
from veridp.mechanism import as_mechanism


def ratio(data):
    """A quotient of two noisy numbers has no exact loss; the sensitivity of the sum is ten times its scale."""
    total = sum(data) + np.random.laplace(0, 1.0)
    count = len(data) + np.random.laplace(0, 1.0)
    return float(total / max(count, 1.0))


def compared(program: Any, **options: Any) -> Findings:
    mechanism = as_mechanism(program).claiming(options.pop("epsilon")).stating(**options)
    findings = Findings(AuditCase.of(mechanism, None, 0.05, 0), Deadline(600.0), None)
    with within(findings.deadline):
        compare_runs(findings)
    return findings


def test_candidates_become_remarks_and_pairs_and_the_cost_stands_beside_the_claim() -> None:
    findings = compared(ratio, epsilon=2.0, adjacency="add-remove", domain=(0, 10), size=2)
    assert [pair for pair in findings.candidates if max([*pair.left, *pair.right]) == 10]  # type: ignore[misc]
    assert any("cost" in remark.sentence and remark.line for remark in findings.remarks)
    (evidence,) = findings.evidence
    assert evidence.engine == "pipeline"
    assert "cost at most ε = 11" in evidence.finding  # 10 for the sum and 1 for the count; only their quotient is shown
    assert "2-DP is claimed" in evidence.finding
    assert findings.lower == 0.0  # it refutes nothing itself
    assert findings.witness is None
    for pair in findings.candidates:
        for value in (*pair.left, *pair.right):  # type: ignore[misc]
            assert 0 <= value <= 10  # only values of the domain may refute a claim


def test_a_right_program_has_no_candidate() -> None:
    findings = compared(ratio, epsilon=11.0, adjacency="add-remove", domain=(0, 10), size=2)
    assert findings.remarks == []
    assert "0 candidates" in findings.evidence[0].finding


def test_exact_losses_confirm_a_candidate() -> None:
    def total(data):
        return sum(data) + np.random.laplace(0, 1.0)

    findings = compared(total, epsilon=2.0, adjacency="replace", domain=(0, 10), size=2)
    with within(findings.deadline):
        confirm_candidates(findings)
    assert findings.refuted
    assert math.isclose(findings.lower, 10.0, rel_tol=1e-9)
    assert "confirms it" in findings.evidence[-1].finding
    assert confirmed_by_samples(findings) != ""


class Plan:
    """Writes down the steps of an audit, and does none."""

    def __init__(self, **known: Any) -> None:
        self.steps: list[str] = []
        state = {"proved": False, "refuted": False, "exact": False, "finished": True, "met": False}
        vars(self).update(
            state
            | {
                "candidates": [],
                "closed": set(),
                "of_every_size": False,
                "case": SimpleNamespace(claim=Claim(1.0), leaves_size_open=False, mechanism=as_mechanism(ratio)),
            }
            | known
        )

    def step(self, name: str, work: object, share: float = 1.0) -> None:
        self.steps.append(name)


def test_it_is_the_first_engine_for_what_cannot_be_explored_and_is_not_asked_elsewhere() -> None:
    def steps(**known: Any) -> list[str]:
        plan = Plan(**known)
        _explore_first(plan)  # type: ignore[arg-type]
        return plan.steps

    assert steps()[:3] == ["prove", "exact", "pipeline"]  # before all that is sampled
    assert steps(candidates=["a pair"])[2:4] == ["pipeline", "candidates"]
    assert "pipeline" in steps(exact=True, finished=False)  # the exact search was cut short
    for known in ({"proved": True}, {"refuted": True}, {"exact": True}):
        assert "pipeline" not in steps(**known)


def test_its_pairs_are_attacked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = compared(ratio, epsilon=2.0, adjacency="add-remove", domain=(0, 10), size=2)
    asked: list[Any] = []

    def search(*_: Any, first_pairs: Any, **__: Any) -> None:
        asked.extend(first_pairs)
        raise CutShort("not today")

    monkeypatch.setattr("veridp.engines.sniper.search", search)
    sampled.attack(findings)
    assert asked == findings.candidates != []


def test_no_input_of_another_size_than_the_stated_one_refutes_a_claim() -> None:
    """The mean of the middle two of four numbers of [0, 1] moves by 1/2, at scale 1/4; the middle one of three by 1."""

    def trimmed(data):
        middle = sorted(data)[1:-1]
        return sum(middle) / len(middle) + np.random.laplace(0, 1 / len(data))

    findings = compared(trimmed, epsilon=1.0, adjacency="replace", domain=(0.0, 1.0), size=4)
    assert {len(side) for pair in findings.candidates for side in (pair.left, pair.right)} == {4}  # type: ignore[arg-type]
    with within(findings.deadline):
        confirm_candidates(findings)
    assert math.isclose(findings.lower, 2.0, rel_tol=1e-9)


def test_a_float_is_not_the_integer_that_a_domain_lists() -> None:
    """An index must be an integer, which 1.0 is not: on data of the domain nothing is ever raised."""

    def histogram(data):
        counts = [0, 0, 0]
        for category in data:
            counts[category] += 1
        return [count + np.random.laplace() for count in counts]

    findings = compared(histogram, epsilon=1.0, adjacency="add-remove", domain=[0, 1, 2], size=3)
    assert {type(x) for pair in findings.candidates for side in (pair.left, pair.right) for x in side} == {int}  # type: ignore[attr-defined]
    assert findings.remarks == []


def test_what_tells_not_all_outputs_apart_leaves_the_question_to_samples() -> None:
    """Of two numbers in a text the exact engine reads the first, which does not depend on the data."""

    def report(rng: np.random.Generator, data: list[float]) -> str:
        return f"code {rng.laplace():.2f}, balance {data[0] + rng.laplace(scale=0.1):.1f}"

    mechanism = as_mechanism(report).claiming(1.0).stating(adjacency="l1", size=1)
    findings = Findings(AuditCase.of(mechanism, None, 0.05, 0), Deadline(600.0), None)
    with within(findings.deadline):
        compare_exactly(findings)
    assert findings.lower == 0.0
    assert not findings.exact
