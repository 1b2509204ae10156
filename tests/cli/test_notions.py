"""Claims in other notions on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

SOURCE = """
import pytest


def gaussian(rng, data, *, scale=1.0):
    return data[0] + rng.normal(scale=scale)


def laplace(rng, data):
    return data[0] + rng.laplace(scale=1.0)


@pytest.mark.dp(mu=0.9, size=1)
def marked(rng, data):
    return data[0] + rng.normal(scale=1.0)
"""


@pytest.fixture(autouse=True)
def source(own_folder: Path) -> None:
    (own_folder / "noise.py").write_text(SOURCE)


@pytest.mark.parametrize(
    ("options", "status", "name"),
    [
        (("--mu", "1"), 0, "1-GDP"),
        (("--mu", "0.99"), 1, "0.99-GDP"),
        (("--rho", "0.4"), 1, "0.4-zCDP"),
        (("--rdp", "2", "0.6"), 1, "(2, 0.6)-RDP"),
        (("--tradeoff", "[(0, 0.87), (0.149, 0.465), (0.465, 0.149), (0.87, 0)]"), 0, "f-DP (4 points)"),
    ],
)
def test_an_audit_judges_the_notion(run: Run, options: tuple[str, ...], status: int, name: str) -> None:
    words = ("audit", "noise.py:gaussian", *options, "--size", "1", "--adjacency", "l1")
    printed = run(*words)
    assert printed.status == status
    assert f"gaussian claims {name}: " in printed.out
    assert "at δ = " in printed.out
    (found,) = run(*words, "--json").document["results"]
    assert found["claim"]["notion"]["name"] == name
    assert "proved" in found


def test_an_audit_reads_the_notion_of_a_mark(run: Run) -> None:
    result = run("audit", "noise.py:marked")
    assert result.status == 1
    assert "witness (exactly: μ >= 1)" in result.out


def test_a_pure_proof_proves_other_notions(run: Run) -> None:
    for options, judged in ((("--rho", "0.5"), "proved"), (("--rdp", "2", "0.2"), "refuted")):
        result = run("prove", "noise.py:laplace", *options, "--size", "1")
        assert f"claimed {'0.5-zCDP' if judged == 'proved' else '(2, 0.2)-RDP'}: {judged}" in result.out


@pytest.mark.parametrize("command", ["exact", "finder", "sniper"])
def test_other_commands_take_the_notion_too(run: Run, command: str) -> None:
    more = {"exact": (), "finder": ("--restarts", "1"), "sniper": ("--samples", "1000", "--final-samples", "1000")}
    result = run(command, "noise.py:laplace", "--mu", "3", "--size", "1", *more[command])
    assert result.status == 0
    assert "claimed 3-GDP: " in result.out


def test_two_claims_are_one_line(run: Run) -> None:
    result = run("audit", "noise.py:gaussian", "--mu", "1", "--epsilon", "1")
    assert result.status == 2
    assert "epsilon and mu are different claims; give mu alone" in result.err


def test_a_ledger_is_charged_in_the_notion(run: Run) -> None:
    assert run("budget", "init", "z.db", "--epsilon", "1", "--delta", "1e-6", "--method", "zcdp").status == 0
    assert "0.001-zCDP: ρ = 0.001" in run("budget", "spend", "z.db", "--rho", "0.001").out
    assert "0.1-GDP [0.1-GDP is μ²/2-zCDP]: ρ = 0.005" in run("budget", "spend", "z.db", "--mu", "0.1").out
    assert run("budget", "spend", "z.db", "--mu", "0.1", "--rho", "1").status == 2


def test_a_release_file_claims_in_any_notion(run: Run) -> None:
    Path("release.yaml").write_text("release: {sequential: [{claim: {mu: 0.6}}, {claim: {mu: 0.8}}]}\ndelta: 1e-6\n")
    (found,) = run("account", "release.yaml", "--json").document["results"]
    least = min(bound["epsilon"] for bound in found["bounds"] if isinstance(bound["epsilon"], float))
    assert least == pytest.approx(4.886554, abs=1e-5)  # that of μ = 1


@pytest.mark.parametrize(
    ("claim", "method", "epsilon"),
    [
        (("--rdp", "8", "0.5"), "RDP", 6.2392),  # 5 + (1.7141 - 0.5), by Canonne, Kamath and Steinke
        (("--tradeoff", "[(0, 1), (0.25, 0.25), (1, 0)]"), "privacy loss distribution", 10.985),  # 10 ln 3 - 0.001
        (("--mu", "0.1"), "privacy loss distribution", 1.19936957),  # that of μ = √0.1
    ],
)
def test_an_account_of_a_claim(run: Run, claim: tuple[str, ...], method: str, epsilon: float) -> None:
    (found,) = run("account", *claim, "--times", "10", "--delta", "1e-5", "--json").document["results"]
    (tightest,) = [bound for bound in found["bounds"] if bound["tightest"]]
    assert tightest["method"] == method
    assert tightest["epsilon"] == pytest.approx(epsilon, rel=1e-3)


def test_an_account_takes_a_target_or_a_claim(run: Run) -> None:
    for words in ((), ("noise.py:gaussian", "--mu", "1"), ("--mu", "1", "--rho", "1")):
        assert run("account", *words).status == 2


def test_a_ledger_takes_a_divergence_at_a_delta(run: Run) -> None:
    assert run("budget", "init", "b.db", "--epsilon", "3", "--delta", "1e-4").status == 0
    assert run("budget", "spend", "b.db", "--rdp", "8", "0.5").status == 2
    (found,) = run("budget", "spend", "b.db", "--rdp", "8", "0.5", "--at-delta", "1e-5", "--json").document["results"]
    assert found["spent"]["epsilon"] == pytest.approx(1.714109, abs=1e-6)
    assert "Proposition 12" in found["entries"][0]["what"]
    assert run("budget", "spend", "b.db", "--rdp", "8", "0.5", "--at-delta", "1e-5").status == 1
