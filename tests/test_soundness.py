"""The pages on soundness and on attacks against a collection name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def rows(page: str, first: str) -> list[str]:
    """The rows of the tables whose first column has this name."""
    text = (TESTS.parent / "docs" / page).read_text(encoding="utf-8")
    tables = (part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE))
    return [row for head, _, *body in tables if head.startswith(f"| {first} |") for row in body]


ROWS = [*rows("soundness.md", "risk"), *rows("collect.md", "attack")]
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
