"""Weakened copies of mechanisms, and which of them samples catch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veridp
from veridp.audit import mutants as module
from veridp.audit.mutants import WeakGenerator, audit_mutants, mutants
from veridp.errors import BadInput


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(-50, 50), size=3)
def clipped_mean(rng: Any, data: Any) -> Any:
    clipped = [min(max(value, 0), 10) for value in data]
    return sum(clipped) / len(data) + rng.laplace(scale=10 / len(data))


@veridp.mechanism(epsilon=2.0, adjacency="l1", size=3)
def first_two(rng: Any, data: Any, *, cutoff: int = 2) -> Any:
    """Answers two queries, each with all of the claim."""
    answers: list[float] = []
    for value in np.clip(data, -1, 1):
        if len(answers) >= cutoff:
            break
        answers.append(value + rng.laplace(scale=1.0))
    return answers


def test_noise_draws_clips_and_cutoffs_are_changed() -> None:
    assert [one.change for one in mutants(clipped_mean)] == [
        "noise × 0.9",
        "noise × 0.5",
        "noise draw 1 removed",
        f"clip by min and max removed on line {clipped_mean.function.__code__.co_firstlineno + 2}",
    ]
    changes = [one.change for one in mutants(first_two)]
    assert [change.split(" on line")[0] for change in changes] == [
        "noise × 0.9",
        "noise × 0.5",
        "noise draw 1 removed",
        "noise draw 2 removed",
        "np.clip removed",
        "cutoff of len(answers) >= cutoff off by one",
    ]
    longer = mutants(first_two)[-1].mechanism
    assert len(longer.bound()(np.random.default_rng(0), [0.0, 0.0, 0.0])) == 3


def test_gross_mistakes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLES", 500)
    monkeypatch.setattr(module, "FINAL_SAMPLES", 2_000)
    found = {one.change.split(" on line")[0]: one for one in audit_mutants(clipped_mean, seconds=600)}
    for change in ("noise × 0.5", "noise draw 1 removed", "clip by min and max removed"):
        assert found[change].caught, change
        assert found[change].drawn < 20_000
        assert "caught after" in str(found[change])


def test_a_weak_generator_scales_noise_around_its_location() -> None:
    plain, weak = np.random.default_rng(5), WeakGenerator(np.random.default_rng(5), 0.5)
    assert weak.laplace(3.0, 2.0) == pytest.approx(3 + (plain.laplace(3.0, 2.0) - 3) / 2)
    assert weak.normal(1.0, 2.0, size=3) == pytest.approx(1 + (plain.normal(1.0, 2.0, size=3) - 1) / 2)
    assert weak.exponential(2.0) == pytest.approx(plain.exponential(2.0) / 2)
    assert weak.uniform(2.0, 4.0) == pytest.approx(3 + (plain.uniform(2.0, 4.0) - 3) / 2)
    assert weak.random() == plain.random()
    assert WeakGenerator(np.random.default_rng(5), removed=0).laplace(3.0) == 3.0


def test_no_mutant_without_a_claim_and_none_that_is_the_same() -> None:
    def unclaimed(rng: Any, data: Any) -> Any:
        return data[0] + rng.normal()

    with pytest.raises(BadInput, match="claims nothing"):
        audit_mutants(unclaimed)
    coin = veridp.mechanism(epsilon=1.0)(lambda rng, data: bool(rng.random() < 0.5))
    assert mutants(coin) == []
