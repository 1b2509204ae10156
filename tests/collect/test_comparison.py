"""The comparison of the protocols: its page is what the code computes, and its numbers are those of other sources."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from veridp.collect import Task
from veridp.collect.comparison import compared_frequencies, compared_means
from veridp.local import PM, SR
from veridp.local.study.run import adult_ages

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_benchmark_writes(tmp_path: Path) -> None:
    written = tmp_path / "table.md"
    command = [sys.executable, str(ROOT / "benchmarks" / "verifiable.py"), "--page", str(written)]
    subprocess.run(command, check=True)  # noqa: S603
    assert (ROOT / "docs" / "verifiable-table.md").read_text(encoding="utf-8") == written.read_text(encoding="utf-8")


def test_errors_of_means_are_those_of_the_oracles() -> None:
    """Stochastic rounding is the oracle SR exactly; the piecewise mechanism on many bins tends to the oracle PM."""
    people, epsilon = adult_ages(), math.log(2)
    shape = {"low": people.low, "high": people.high}
    sr = compared_means(Task("sr", "sr-ho", epsilon, **shape, resolution=1), people, 0.05, ["blake2b"])  # type: ignore[arg-type]
    half = (people.high - people.low) / 2
    unit = (people.values - people.low) / half - 1
    exact = math.sqrt(float((9 - unit**2).sum())) * half / len(unit)  # reports of ±1/(p-q) = ±3, mean x
    assert sr.error == pytest.approx(exact, rel=1e-9)
    fine = Task("pm", "pm-ho", epsilon, **shape, resolution=240)  # type: ignore[arg-type]
    pm = compared_means(fine, people, 0.05, ["blake2b"])
    e = math.exp(epsilon / 2)
    variances = unit**2 / (e - 1) + (e + 3) / (3 * (e - 1) ** 2)  # Wang et al. 2019
    assert pm.error == pytest.approx(math.sqrt(float(variances.sum())) * half / len(unit), rel=0.01)
    assert (SR.name, PM.name) == ("sr", "pm")


def test_gains_are_those_of_the_literature() -> None:
    """At β = 5 %: an honest input of 90 moves 38.58 to 41.15, nothing checked to 44.8; PM up to 1 + e^(-ε/2)."""
    people = adult_ages()
    shape = {"low": people.low, "high": people.high}
    sr = compared_means(Task("sr", "sr-ho", math.log(2), **shape), people, 0.05, ["blake2b"])  # type: ignore[arg-type]
    assert people.mean + sr.accepted_gain == pytest.approx(41.15, abs=0.005)
    assert people.mean + sr.unprotected_gain == pytest.approx(44.8, abs=0.01)
    assert sr.sent["blake2b"] < 300
    hashed = Task("volh", "volh", math.log(2), items=tuple(map(str, range(40))))
    found = compared_frequencies(hashed, 1000, (0, 1, 2), 0.1, 0.05, ["blake2b"])
    assert found.error == pytest.approx(math.sqrt(8 / 1000))  # 4e^ε/(e^ε-1)² per user
    assert found.input_gain == found.accepted_gain < found.unprotected_gain
    assert found.length == 4
