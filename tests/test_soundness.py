"""The page on soundness names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = [
    line
    for line in (TESTS.parent / "docs" / "soundness.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| risk")
]
SOURCES = "\n".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_names_a_test_that_exists(row):
    shown = row.rsplit("|", 2)[1]
    named = re.findall(r"`([^`]+)`", shown)
    assert named
    for name in named:
        if name.endswith(".py"):
            assert (TESTS / name).is_file(), name
        else:
            assert re.search(rf"def {name.rstrip('…')}", SOURCES), name
