"""Results as files: a CSV file for each artefact, how they were made, and the page; and the way back from them."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from reproduction.artefact import Cell, Effort, Row
from reproduction.registry import ARTEFACTS
from reproduction.steps import Measured, Steps

ROOT = Path(__file__).parents[1]
RUN_FILE = "run.json"


@dataclass(frozen=True)
class Run:
    """How results were made: by which command, with which seed, version and machine, and the
    processor seconds of each artefact."""

    command: str
    effort: Effort
    seed: int
    version: str
    python: str
    machine: str
    seconds: dict[str, float]

    @classmethod
    def here(cls, steps: Steps, measured: Sequence[Measured]) -> Run:
        """A run of this version on this machine."""
        command = "make reproduce" + (" FULL=1" if steps.effort is Effort.FULL else "")
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        seconds = {one.artefact.name: round(one.seconds, 1) for one in measured}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return cls(command, steps.effort, steps.seed, project["version"], platform.python_version(), machine, seconds)


def csv_text(rows: Sequence[Row]) -> str:
    """The rows as CSV; columns in the order in which they first occur."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def csv_rows(text: str) -> list[Row]:
    """The rows of a CSV text, with numbers and truth values as such; what was empty is None.

    >>> csv_rows("a,b,c\\n0.5,True,x\\n,inf,")
    [{'a': 0.5, 'b': True, 'c': 'x'}, {'a': None, 'b': inf, 'c': None}]
    """
    return [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(io.StringIO(text))]


def _cell(text: str) -> Cell:
    if text in ("", "True", "False"):
        return None if not text else text == "True"
    try:
        return float(text)
    except ValueError:
        return text


def save(folder: Path, measured: Sequence[Measured], run: Run) -> None:
    """Write a CSV file for each artefact, and how they were made."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in measured:
        (folder / f"{one.artefact.name}.csv").write_text(csv_text(one.rows), encoding="utf-8")
    (folder / RUN_FILE).write_text(json.dumps(asdict(run), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: Path) -> tuple[list[Measured], Run]:
    """What `save` wrote, without measuring anything."""
    document = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
    run = Run(**{**document, "effort": Effort(document["effort"])})
    measured = [
        Measured(ARTEFACTS[name], csv_rows((folder / f"{name}.csv").read_text(encoding="utf-8")), seconds)
        for name, seconds in run.seconds.items()
    ]
    return measured, run
