"""The table of exit statuses in docs/audit.md, and what commands do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]  # gives the exit status, `out` and `err`
PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
SOURCE = """
def right(rng, data, *, epsilon=1.0):
    return data[0] + rng.laplace(scale=1 / epsilon)


def wrong(rng, data, *, epsilon=1.0):
    return data[0] + rng.laplace(scale=0.5 / epsilon)
"""
TIME = ["--size", "1", "--time", "60"]
FEW = ["--samples", "20000", "--selection-samples", "5000"]
EXAMPLES = [
    (["audit", "mine.py:wrong", "mine.py:nothing", *TIME], 1),
    (["exact", "mine.py:wrong", *TIME], 1),
    (["exact", "mine.py:right", *TIME], 0),
    (["exact", "mine.py:nothing"], 2),
    (["prove", "mine.py:right", *TIME, "--certificate", "proof.json"], 0),
    (["prove", "mine.py:wrong", *TIME], 1),
    (["statdp", "mine.py:wrong", "--size", "1", *FEW], 1),
    (["finder", "mine.py:wrong", *TIME, "--restarts", "1", "--workers", "1"], 1),
    (["check", "mine.py"], 2),
    (["budget", "init", "ledger.db", "--epsilon", "1"], 0),
    (["budget", "spend", "ledger.db", "--epsilon", "2"], 1),
    (["budget", "spend", "ledger.db"], 2),
    (["account", "mine.py:right", "--no-attack", *TIME], 1),
    (["collect", "verify-log", "mine.py"], 2),
    (["local", "evaluate", "--data", "nothing.csv"], 2),
    (["local", "perturb"], 2),
    (["schema"], 0),
    (["audit", "--no-such-option"], 2),
]


def statuses() -> dict[str, set[int]]:
    """The statuses that the table has for each command; those of a command without a row are under "all others"."""
    table = PAGE.read_text(encoding="utf-8").partition("## Exit statuses")[2].partition("\n## ")[0]
    found = {}
    for row in re.findall(r"^\| (.*) \|$", table, re.MULTILINE)[1:]:
        names, *cells = (cell.strip() for cell in row.split("|"))
        for name in re.findall(r"`([a-z -]+)`", names) or [names]:
            found[name] = {status for status, cell in enumerate(cells) if cell}
    return found


@pytest.mark.parametrize(("words", "status"), EXAMPLES, ids=[" ".join(words) for words, _ in EXAMPLES])
def test_a_command_ends_as_the_table_says(run: Run, tmp_path: Path, words: list[str], status: int) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    if "spend" in words:
        run("budget", "init", "ledger.db", "--epsilon", "1")
    result = run(*words)
    assert result.status == status, result.err
    assert "Traceback" not in result.err
    table = statuses()
    named = next((name for name in (" ".join(words[:2]), words[0]) if name in table), "all others")
    assert status in table[named]


def test_the_table_names_commands_that_there_are(run: Run) -> None:
    for name in set(statuses()) - {"all others"}:
        assert run(*name.split(), "--help").status == 0, name
