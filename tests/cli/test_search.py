"""`veridp sniper` and `veridp finder`, as people run them: what they print, and the status that they exit with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from veridp.cli import main

QUICK = ["--samples", "2000", "--final-samples", "20000", "--pairs", "patterns", "--workers", "1"]


def run_sniper(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["veridp", "sniper", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_refuted_claim(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_sniper("noisy_hist2", "--size", "1", *QUICK, monkeypatch=monkeypatch) == 1
    shown = capfd.readouterr().out
    assert "with confidence 0.95" in shown
    assert "claimed 0.1-DP: refuted" in shown
    assert "event  output[0]" in shown


def test_one_json_document(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    status = run_sniper("randomized_response", "--epsilon", "1", *QUICK, "--refute", "--json", monkeypatch=monkeypatch)
    (document,) = json.loads(capfd.readouterr().out)["results"]
    assert status == 0
    assert 0.8 < document["epsilon_lower"] <= 1.0  # above with probability 0.05 at most, were the seed not fixed
    assert document["refuted"] is False
    assert document["witness"]["event"] in ("output is True", "output is False")
    assert document["profile"][0]["delta"] <= 0.4622  # tanh(1/2), at ε = 0


def test_pairs_written_out_and_a_picture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "profile.png"
    options = [*QUICK[:4], "--pairs", "[([1.0], [2.0])]", "--workers", "1", "--plot", str(picture)]
    run_sniper("laplace", "--epsilon", "1", *options, monkeypatch=monkeypatch)
    assert "[1.0]" in capfd.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_claim_is_needed_to_refute_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], own_folder: Path
) -> None:
    (own_folder / "mine.py").write_text("def f(rng, data):\n    return rng.random()\n")
    assert run_sniper("mine.py:f", "--refute", monkeypatch=monkeypatch) == 2
    assert "--refute needs a claim" in capfd.readouterr().err


@pytest.mark.slow
def test_ctrl_c_prints_the_bound_reached_so_far(tmp_path: Path) -> None:
    """A real process, interrupted after its first certified look."""
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "import numpy as np\n"
        "def many(rng, data, count):\n"
        "    open('drawn', 'a').write(f'{count}\\n')\n"
        "    return data[0] + rng.laplace(scale=0.1, size=count)\n"
        "import veridp\n"
        "@veridp.mechanism(epsilon=0.1, adjacency='l1', size=1, vectorised=many)\n"
        "def leaky(rng, data):\n"
        "    return data[0] + rng.laplace(scale=0.1)\n"
    )
    command = [sys.executable, "-m", "veridp.cli", "sniper", "mine.py:leaky", "--workers", "1", "--json"]
    command += ["--pairs", "patterns", "--samples", "2000", "--final-samples", "1000000000", "--time", "500"]
    process = subprocess.Popen(  # noqa: S603
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    drawn = tmp_path / "drawn"
    for _ in range(3000):  # until the confirmation, whose parts are large, is under way
        if process.poll() is not None or (drawn.exists() and "524288" in drawn.read_text()):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()  # however busy the machine is: --time ends it in any case
    (document,) = json.loads(out)["results"]
    assert process.returncode == 1, err
    assert document["finished"] is False
    assert 1.0 < document["epsilon_lower"] <= 10.0
    assert document["refuted"] is True


# ------------------------------------------------------------------------------------------------------------- command
# `veridp finder`: what it prints, and the status that it exits with.


FEW = ["--restarts", "2", "--workers", "1", "--time", "10m"]


def run_finder(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["veridp", "finder", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capfd.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_what_is_refuted_exits_with_one(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run_finder(capfd, monkeypatch, "at5", "--size", "4", *FEW)
    assert status == 1
    assert "at5: ε = ∞ (exact)" in out
    assert "claimed 0.1-DP: refuted" in out
    assert "left and right correlate by" in out or "nan" not in out


def test_what_keeps_its_claim_exits_with_zero(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run_finder(capfd, monkeypatch, "finder_sum", *FEW)
    assert status == 0
    assert "finder_sum: ε = 0.1 (exact)" in out
    assert "claimed 0.1-DP: not refuted" in out


def test_json_is_one_document(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run_finder(capfd, monkeypatch, "at4", "--random", "--json", *FEW)
    (document,) = json.loads(out)["results"]
    assert document["verified"] == "exact"
    assert document["refuted"] is (status == 1)
    assert [restart["number"] for restart in document["restarts"]] == [0, 1]
    assert document["epsilon"] == max(restart["verified"] for restart in document["restarts"])
    assert document["restarts"][0]["relaxed"] is None


def test_arguments_and_claims_are_those_of_the_options(capfd: Any, monkeypatch: Any) -> None:
    status, out, _ = run_finder(capfd, monkeypatch, "finder_sum", "--epsilon", "0.5", "--json", *FEW)
    (document,) = json.loads(out)["results"]
    assert document["epsilon"] == pytest.approx(0.5)
    assert (status, document["claim"]["epsilon"]) == (0, 0.5)


def test_what_cannot_be_explored_exits_with_two(capfd: Any, monkeypatch: Any, tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def square(rng, data):\n    return rng.laplace() ** 2\n")
    status, out, err = run_finder(capfd, monkeypatch, f"{file}:square", *FEW)
    assert (status, out) == (2, "")
    assert "sniper" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_it_starts_by_its_name() -> None:
    command = [sys.executable, "-m", "veridp.cli", "finder", "finder_sum", "--restarts", "1", "--show", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0
    assert done.stdout.startswith("finder_sum: ε = 0.1 (exact)")
