"""Repairs against closed forms: the scale that the sensitivity asks for, normal noise, a threshold for a δ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import veridp
from veridp.audit import explored, mutants
from veridp.audit.repair import repair
from veridp.errors import BadInput
from veridp.verdict import Standing

Run = Callable[..., Any]  # gives the exit status, `out` and `err`
SECONDS = 600.0


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explored, "MAX_PAIRS", 8)
    monkeypatch.setattr(explored, "RESTARTS", 1)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 120), size=5)
def mean_age(rng: Any, ages: Any) -> Any:
    clipped = [min(max(age, 0), 120) for age in ages]
    return sum(clipped) / len(ages) + rng.laplace(scale=60 / len(ages))


@veridp.mechanism(epsilon=1.0, adjacency="l1", size=2)
def two_answers(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace(), data[0] + data[1] + rng.laplace(0, 2.0)


@veridp.mechanism(epsilon=1.0, delta=1e-5, adjacency="l1", size=1)
def normal(rng: Any, data: Any) -> Any:
    return data[0] + rng.normal(
        scale=3.0,
    )


@veridp.mechanism(epsilon=1.0, delta=1e-5, adjacency="l1", domain=range(4), size=1)
def one_cell(rng: Any, counts: Any) -> Any:
    if counts[0] == 0:
        return None
    noisy = counts[0] + rng.laplace(scale=1.0)
    return noisy if noisy > 8 else None


@veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)
def leak(rng: Any, data: Any) -> Any:
    return data[0], rng.laplace()


@pytest.mark.parametrize(
    ("mechanism", "change", "after"),
    [
        (mean_age, "× 2", "rng.laplace(scale=2 * 60 / len(ages))"),  # one age moves the mean by 120/5
        (two_answers, "× 2", "data[0] + rng.laplace(scale=2), data[0] + data[1] + rng.laplace(0, 2.0)"),
    ],
)
def test_the_scale_is_what_the_sensitivity_asks_for(mechanism: Any, change: str, after: str) -> None:
    found = repair(mechanism, seconds=SECONDS)
    assert found is not None
    assert found.change.endswith(change)
    assert found.verdict.standing is Standing.PROVED
    assert found.verdict.epsilon.upper == pytest.approx(1.0)
    (added,) = [line for line in found.patch.splitlines() if line.startswith("+ ")]
    assert added.endswith(after)
    file, line = mechanism.function.__code__.co_filename, int(found.patch.split("@@ -")[1].split(",")[0])
    with open(file, encoding="utf-8") as source:
        shown = source.readlines()[line - 1]
    assert found.patch.splitlines()[3] in (f" {shown.rstrip()}", f"-{shown.rstrip()}")  # where the patch applies


def test_a_sparse_vector_that_forgot_a_factor() -> None:
    """Its queries cost 2 / scale = 3/2 of ε, and a quarter goes to the threshold: they need twice the scale."""
    found = repair(veridp.catalogue["svt4"], size=3, seconds=SECONDS)
    assert found is not None
    assert found.change.endswith("× 2")
    assert "2 * 4 / (3 * epsilon)" in found.patch
    assert "of every size" in str(found).splitlines()[0]


def test_normal_noise_needs_the_scale_of_the_analytic_calibration() -> None:
    def excess(sigma: float) -> float:
        return float(norm.cdf(0.5 / sigma - sigma) - math.e * norm.cdf(-0.5 / sigma - sigma)) - 1e-5

    found = repair(normal, seconds=SECONDS)
    assert found is not None
    factor = float(found.change.split()[-1])
    assert 0 <= 3.0 * factor / brentq(excess, 1, 10) - 1 < 2e-4


def test_a_threshold_needs_the_logarithm_of_delta() -> None:
    found = repair(one_cell, seconds=SECONDS)
    assert found is not None
    assert found.change.startswith("the limit on line")
    assert 8 + float(found.change.split()[-1]) == pytest.approx(1 + math.log(1 / 2e-5), abs=2e-3)
    assert found.verdict.standing is Standing.PROVED


def test_what_no_noise_repairs_and_what_needs_none() -> None:
    assert repair(leak, seconds=SECONDS) is None
    with pytest.raises(BadInput, match="nothing to repair"):
        repair(veridp.catalogue["laplace"], size=1, seconds=SECONDS)
    with pytest.raises(BadInput, match="claims nothing"):
        repair(lambda rng, data: data[0] + rng.laplace(), size=1)
    scale = 0.5
    closure = veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)(
        lambda rng, data: data[0] + rng.laplace(scale=scale)
    )
    with pytest.raises(BadInput, match="no source that can be changed"):
        repair(closure)


def test_the_command_prints_repairs_and_mutants_of_what_is_refuted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "SAMPLES", 200)
    monkeypatch.setattr(mutants, "FINAL_SAMPLES", 1_000)
    result = run("audit", f"{__file__}:two_answers", "--repair", "--mutants", "--time", "600")
    assert result.status == 1
    assert "mutants of " in result.out
    assert "two_answers: the scale of the noise on line" in result.out
    result = run("audit", "laplace", "--repair", "--json")
    assert (result.status, result.out) == (2, "")
    assert "leave out --json" in result.err
