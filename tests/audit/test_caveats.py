"""Caveats: a cost that grows with the domain, and an adjacency that nobody stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veridp
from veridp.audit.case import AuditCase
from veridp.audit.caveats import look_for_caveats
from veridp.audit.findings import Findings
from veridp.budget import Deadline


def total(rng: Any, data: Any) -> Any:
    return sum(data) + rng.laplace(scale=10)


def clipped(rng: Any, data: Any) -> Any:
    return float(np.sum(np.clip(data, 0, 1))) + rng.laplace(scale=1)


def looked_at(function: Any, **settings: Any) -> Findings:
    mechanism = veridp.mechanism(epsilon=1.0, size=2, **settings)(function)
    findings = Findings(AuditCase.of(mechanism, None, 0.05, 0), Deadline(600.0), None)
    look_for_caveats(findings)
    return findings


@pytest.mark.parametrize(("adjacency", "before", "after"), [("replace", "0.3", "0.6"), ("add-remove", "0.3", "0.45")])
def test_a_sum_without_clipping_costs_more_on_a_wider_domain(adjacency: str, before: str, after: str) -> None:
    """By hand: a record of [0, 3] moves the sum by 3; of [-1.5, 4.5], by 6 if replaced and by 4.5 if added."""
    (caveat,) = looked_at(total, adjacency=adjacency, domain=(0, 3)).caveats
    assert caveat.startswith(
        f"the cost grows with the domain: ε = {before} on [0, 3], but {after} on [-1.5, 4.5]; clip"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"adjacency": "l1", "domain": (0, 3)},
        {"adjacency": "l1", "domain": (0, 1.5)},  # answers of queries move by at most 1, whatever the domain
        {"adjacency": "replace", "domain": [0, 1, 2, 3]},  # a list of values is all there is
    ],
)
def test_no_caveat_where_the_cost_does_not_depend_on_the_domain(settings: dict[str, Any]) -> None:
    assert looked_at(total, **settings).caveats == []


def test_no_caveat_where_data_are_clipped() -> None:
    assert looked_at(clipped, adjacency="replace", domain=(0, 1)).caveats == []


def test_an_assumed_adjacency_is_compared_with_replacing() -> None:
    (caveat,) = looked_at(lambda rng, data: data[0] + rng.laplace(scale=2)).caveats
    assert caveat.startswith("adjacency linf is assumed")
    assert caveat.endswith("any other of [-10, 10], ε = 10")  # 20 over a scale of 2
    assert looked_at(lambda rng, data: data[0] + rng.laplace(scale=20)).caveats == []  # 1 even then


def test_what_could_not_be_checked_is_said() -> None:
    def squared(rng: Any, data: Any) -> Any:
        return data[0] + rng.laplace(scale=20) ** 3

    (evidence,) = looked_at(squared, adjacency="replace", domain=(0, 1)).evidence
    assert evidence.engine == "domain"
    assert "whether the cost grows with it was not checked: " in evidence.finding
