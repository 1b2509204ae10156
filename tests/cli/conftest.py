"""What the tests of commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from veridp.cli import main


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What was printed, as JSON in the strict sense."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


Run = Callable[..., Result]


@pytest.fixture
def run(own_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `veridp` with these words in a folder of its own."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["veridp", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capfd.readouterr()
        return Result(int(ended.value.code or 0), printed.out, printed.err)

    return command
