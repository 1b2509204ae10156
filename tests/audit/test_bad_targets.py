"""Targets that cannot be judged: one clear line, exit status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MISTAKES = Path(__file__).parent / "mistakes.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "veridp.cli", "audit", *arguments, "--size", "3", "--time", "3"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)  # noqa: S603


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("prints", "prints prints 'value 1.0': whatever it prints is released beside its output; remove the print"),
        ("forks", "forks forks: a copy of the process"),
        ("hangs", "hangs did not return within"),
        ("returns_none", "returns_none returns None; let it return what it releases"),
        ("needs_more", "needs_more needs a value for bound; give bound=…"),
        ("claims_nothing", "claims_nothing claims nothing; say what it should keep, with epsilon=…"),
        ("wrong_signature", "its first two parameters must be rng"),
        ("not_a_function", "3 is not a mechanism; give a function"),
        ("missing", "there is no 'missing' there; it has right, wrong_scale"),
    ],
)
def test_a_bad_function(name: str, line: str) -> None:
    result = run(f"{MISTAKES}:{name}")
    assert (result.returncode, result.stdout) == (2, "")
    assert line in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_no_file_and_no_python(tmp_path: Path) -> None:
    missing = run(f"{tmp_path}/none.py:f")
    assert missing.returncode == 2
    assert "no such file" in missing.stderr
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    result = run(f"{broken}:f")
    assert result.returncode == 2
    assert "broken.py:1: syntax error" in result.stderr


def test_among_several_targets_a_bad_one_is_a_line_of_the_table(tmp_path: Path) -> None:
    result = run(f"{MISTAKES}:returns_none", "laplace")
    assert result.returncode == 2
    assert "UNJUDGED" in result.stdout
    assert "PROVED" in result.stdout
