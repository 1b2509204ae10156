"""veridp audit --watch, in a process of its own, with files that are edited."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

DEADLINE = 300.0  # seconds after which a line that does not come is a failure
MECHANISM = """
import veridp
from helper import needed

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 10), size=1)
def noisy(rng, data):
    return data[0] + rng.laplace(scale=needed)

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 10), size=1)
def other(rng, data):
    return data[0] + rng.laplace(scale=2.0)
"""


class Watching:
    """The process, and the lines that it prints."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "VERIDP_CACHE": str(folder / ".cache"), "COLUMNS": "200"}
        command = [sys.executable, "-m", "veridp", "audit", "mech.py", "--watch", "--time", "60"]
        self.process = subprocess.Popen(  # noqa: S603
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def until_idle(self) -> str:
        """What is printed up to the line that says that it waits."""
        text = ""
        while "Ctrl-C ends" not in text:
            text += self.lines.get(timeout=DEADLINE)
        return text


def save(file: Path, text: str) -> None:
    """Write the file at once: one that is seen half written is audited twice."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    (tmp_path / "mech.py").write_text(MECHANISM)
    (tmp_path / "helper.py").write_text("needed = 1.0\n")
    found = Watching(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()
    found.reader.join()
    assert found.process.stdout is not None
    found.process.stdout.close()


def test_a_saved_file_is_audited_again_and_only_what_changed(watching: Watching, tmp_path: Path) -> None:
    first = watching.until_idle()
    assert first.count("PROVED") == 2
    assert "watching 2 files" in first
    assert "cache" not in first
    save(tmp_path / "helper.py", "needed = 0.5  # too little\n")
    second = watching.until_idle()
    assert f"changed: {(tmp_path / 'helper.py').resolve()}" in second
    noisy, other = (line for line in second.splitlines() if "│ mech.py:" in line)
    assert ("REFUTED" in noisy, "cache" in noisy) == (True, False)
    assert ("PROVED" in other, "from the cache" in other) == (True, True)
    save(tmp_path / "helper.py", "needed = = 1\n")
    assert "syntax error" in watching.until_idle()
    watching.process.send_signal(signal.SIGINT)
    assert watching.process.wait(DEADLINE) == 2  # that of the last round
    watching.reader.join()
    assert watching.lines.empty()
