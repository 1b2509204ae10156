"""Targets that cannot be judged: one clear line, exit status 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Audit = Callable[..., Any]
MISTAKES = Path(__file__).parent / "mistakes.py"


@pytest.fixture
def audit(run: Callable[..., Any]) -> Audit:
    """Audits these targets: gives the exit status, `out` and `err`. What hangs does so for as long as it may."""

    def audited(*targets: str) -> Any:
        seconds = "4" if targets[0].endswith(":hangs") else "30"
        return run("audit", *targets, "--size", "3", "--time", seconds)

    return audited


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("prints", "prints prints 'value 1.0': printed text is released too; remove the print"),
        ("forks", "forks forks: a copy of the process"),
        ("hangs", "hangs did not return within"),
        ("returns_none", "returns_none returns None; return the released value"),
        ("needs_more", "needs_more needs a value for bound; give bound=…, or --arg bound=…"),
        ("asynchronous", "asynchronous is async or a generator; give a function that returns its output"),
        ("claims_nothing", "claims_nothing has no claim; state one with epsilon=…, or --epsilon"),
        ("wrong_signature", "is not a mechanism; give a function of (rng, data), (data, rng) or (data)"),
        ("not_a_function", "3 is not a mechanism; give a function"),
        ("missing", "there is no 'missing' there; it has right, wrong_scale"),
    ],
)
def test_a_bad_function(audit: Audit, name: str, line: str) -> None:
    result = audit(f"{MISTAKES}:{name}")
    assert (result.status, result.out) == (2, "")
    assert line in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


def test_no_file_and_no_python(audit: Audit, tmp_path: Path) -> None:
    missing = audit(f"{tmp_path}/none.py:f")
    assert missing.status == 2
    assert "no such file" in missing.err
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    result = audit(f"{broken}:f")
    assert result.status == 2
    assert "broken.py:1: syntax error" in result.err


def test_among_several_targets_a_bad_one_is_a_line_of_the_table(audit: Audit) -> None:
    result = audit(f"{MISTAKES}:returns_none", "laplace")
    assert result.status == 2
    assert "UNJUDGED" in result.out
    assert "PROVED" in result.out
