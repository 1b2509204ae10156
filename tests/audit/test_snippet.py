"""Snippets run when they are pasted, wherever the function came from, and show the same witness."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import veridp
from veridp.audit.case import AuditCase
from veridp.audit.snippet import snippet
from veridp.target import load

SESSION = """
import math
import numpy as np
import veridp

SCALE = 0.5
WEIGHTS = [1, 1]


def half(value):
    return value * SCALE


def script(rng, data, *, epsilon=1.0):
    return [2 * w * half(v) + rng.laplace(scale=SCALE * math.exp(0) / epsilon) for w, v in zip(WEIGHTS, data)]


def maker(scale):
    def inner(rng, data):
        return np.add(data[0], rng.laplace(scale=scale))

    return inner


class Odd:
    scale = 0.25


odd = Odd()
SETTINGS = {"adjacency": "l1", "seconds": 10}
verdicts = [
    veridp.audit(script, size=2, **SETTINGS),
    veridp.audit(maker(0.25), 1.0, size=1, **SETTINGS),
    veridp.audit(lambda rng, data: data[0] + rng.laplace(scale=0.5), 1.0,
                 size=1, **SETTINGS),
    veridp.audit(lambda rng, data: data[0] + rng.laplace(scale=odd.scale), 1.0, size=1, **SETTINGS),
    veridp.audit(veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)(maker(0.1))),
]
for number, verdict in enumerate(verdicts):
    assert "..." not in verdict.snippet, verdict.snippet
    print(verdict.witness, end="\\0")
    print(verdict.snippet, end="\\0")
"""


def run(text: str, folder: Path) -> str:
    command = [sys.executable, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, timeout=300)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


def pasted(snippets: list[str]) -> str:
    """A program that runs each snippet in a namespace of its own."""
    return "\n".join(f"exec({snippet!r}, {{}})" for snippet in snippets)


@pytest.mark.slow
def test_snippets_of_a_script_run_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "session.py").write_text(SESSION)
    *parts, _ = run("import runpy; runpy.run_path('session.py', run_name='__main__')", tmp_path).split("\0")
    witnesses, snippets = parts[::2], parts[1::2]
    assert run(pasted(snippets), tmp_path).splitlines() == witnesses


@pytest.mark.slow
def test_snippets_of_a_prompt_run_there(tmp_path: Path) -> None:
    """What is typed at a prompt has no source; its names are there."""
    again = "\nfor verdict in verdicts:\n    exec(verdict.snippet)\n"
    *parts, shown = run(SESSION + again, tmp_path).split("\0")
    assert shown.splitlines() == parts[::2]


CELLS = [
    "import veridp\nSCALE = 0.5",
    """
def half(value):
    return value * SCALE


@veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)
def decorated(rng, data):
    return 2 * half(data[0]) + rng.laplace(scale=SCALE)
""",
    """
class Noisy:
    scale = 0.25

    def out(self, rng, data):
        return data[0] + rng.laplace(scale=self.scale)
""",
    """
verdict = veridp.audit(decorated)
print(verdict.witness, verdict.snippet, sep="\\0", end="\\0")
""",
    """
from veridp.audit.case import AuditCase
from veridp.audit.snippet import snippet

method = veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)(Noisy().out)
witness = veridp.exact.compare(method, [0.0], [1.0]).witness
print(witness, snippet(AuditCase.of(method, 1, 0.05, 0), witness), sep="\\0", end="\\0")
""",
]

NOTEBOOK = """
import linecache, __main__
for number, cell in enumerate({cells!r}):
    name = f"/tmp/ipykernel_1/{{number}}.py"  # there is no such file: the kernel keeps the source in linecache
    linecache.cache[name] = len(cell), None, cell.splitlines(keepends=True), name
    exec(compile(cell, name, "exec"), vars(__main__))
"""


def test_snippets_of_a_notebook_run_in_another_process(tmp_path: Path) -> None:
    *parts, _ = run(NOTEBOOK.format(cells=CELLS), tmp_path).split("\0")
    witnesses, snippets = parts[::2], parts[1::2]
    assert "return 2 * half(data[0]) + rng.laplace(scale=SCALE)" in snippets[0]
    assert run(pasted(snippets), tmp_path).splitlines() == witnesses


def test_an_object_that_cannot_be_written_out_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    lock = threading.Lock()  # cannot be pickled
    odd = veridp.mechanism(epsilon=1.0, size=1)(lambda rng, data: data[0] + rng.laplace(scale=0.5 + lock.locked()))
    witness = veridp.exact.compare(odd, [0.0], [1.0]).witness
    text = snippet(AuditCase.of(odd, None, 0.05, 0), witness)
    assert "audited = ...  # put here the object that was audited" in text
    exec(text.replace("audited = ...", "audited = lambda rng, data: data[0] + rng.laplace(scale=0.5)"), {})  # noqa: S102
    assert capfd.readouterr().out.strip() == str(witness)


def test_snippets_load_from_files_with_their_settings(own_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (own_folder / "mine.py").write_text(
        "class Noisy:\n    def out(self, rng, data):\n        return data[0] + rng.laplace(scale=0.5)\n"
    )
    verdict = veridp.audit(load("mine.py:Noisy.out"), 1.0, adjacency="l1", size=1)
    exec(verdict.snippet, {})  # noqa: S102
    assert capfd.readouterr().out.strip() == str(verdict.witness)


def test_long_inputs_stay_whole() -> None:
    def total(rng: Any, data: Any) -> Any:
        return sum(data) + rng.laplace(scale=0.5)

    verdict = veridp.audit(total, 1.0, adjacency="l1", size=100, domain=(0, 1), seconds=60)
    assert verdict.witness is not None
    line = next(line for line in verdict.snippet.splitlines() if line.startswith("left, right = "))
    names: dict[str, Any] = {}
    exec(line, names)  # noqa: S102
    assert (names["left"], names["right"]) == (verdict.witness.left, verdict.witness.right)
    assert len(line) < 100  # runs of equal entries are products
    assert math.isclose(verdict.epsilon.lower, 2.0)
