"""`veridp finder`: what it prints, and the status that it exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from veridp.cli import main

FEW = ["--restarts", "2", "--workers", "1", "--time", "10m"]


def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["veridp", "finder", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capfd.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_what_is_refuted_exits_with_one(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run(capfd, monkeypatch, "at5", "--size", "4", *FEW)
    assert status == 1
    assert "at5: ε = ∞ (exact)" in out
    assert "claimed 0.1-DP: refuted" in out
    assert "left and right correlate by" in out or "nan" not in out


def test_what_keeps_its_claim_exits_with_zero(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run(capfd, monkeypatch, "finder_sum", *FEW)
    assert status == 0
    assert "finder_sum: ε = 0.1 (exact)" in out
    assert "claimed 0.1-DP: not refuted" in out


def test_json_is_one_document(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run(capfd, monkeypatch, "at4", "--random", "--json", *FEW)
    (document,) = json.loads(out)["results"]
    assert document["verified"] == "exact"
    assert document["refuted"] is (status == 1)
    assert [restart["number"] for restart in document["restarts"]] == [0, 1]
    assert document["epsilon"] == max(restart["verified"] for restart in document["restarts"])
    assert document["restarts"][0]["relaxed"] is None


def test_arguments_and_claims_are_those_of_the_options(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run(capfd, monkeypatch, "finder_sum", "--epsilon", "0.5", "--json", *FEW)
    (document,) = json.loads(out)["results"]
    assert document["epsilon"] == pytest.approx(0.5)
    assert (status, document["claim"]["epsilon"]) == (0, 0.5)


def test_what_cannot_be_explored_exits_with_two(capfd: Any, monkeypatch: Any, tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def square(rng, data):\n    return rng.laplace() ** 2\n")
    status, out, err = run(capfd, monkeypatch, f"{file}:square", *FEW)
    assert (status, out) == (2, "")
    assert "sniper" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_it_starts_by_its_name() -> None:
    command = [sys.executable, "-m", "veridp.cli", "finder", "finder_sum", "--restarts", "1", "--show", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0
    assert done.stdout.startswith("finder_sum: ε = 0.1 (exact)")
