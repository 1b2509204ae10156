"""From the name of a target to its mechanism."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veridp
from veridp import target
from veridp.budget import Deadline
from veridp.catalogue import catalogue
from veridp.errors import BadInput, BadTarget
from veridp.mechanism import Mechanism
from veridp.target import load

SOURCE = '''
from dataclasses import dataclass
import veridp

LIMIT = 3

def plain(rng, data, *, epsilon=0.5):
    """The first entry with noise."""
    return data[0] + rng.laplace(scale=1 / epsilon)

@veridp.mechanism(epsilon=2.0, adjacency="l1")
def claimed(rng, data):
    return data

class Adder:
    def __call__(self, rng, data):
        return sum(data) + LIMIT

adder = Adder()

@dataclass
class Pair:
    left: "int"
    right: "int"

def one_parameter(rng):
    return 1
'''


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mechanisms.py"
    path.write_text(SOURCE)
    return path


def test_a_catalogue_name() -> None:
    assert load("svt1") is catalogue["svt1"]


def test_a_function_of_a_file(file: Path) -> None:
    found = load(f"{file}:plain")
    assert isinstance(found, Mechanism)
    assert found.name == "plain"
    assert found.claim is not None
    assert found.claim.epsilon == 0.5
    assert found.summary == "The first entry with noise."


def test_a_mechanism_of_a_file_keeps_its_claim(file: Path) -> None:
    found = load("mechanisms.py:claimed")
    assert found.claim is not None
    assert found.claim.epsilon == 2.0
    assert str(found.adjacency) == "l1"


def test_an_object_that_can_be_called(file: Path) -> None:
    assert load(f"{file}:adder")(np.random.default_rng(0), [1, 2]) == 6


def test_a_function_of_a_module(tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("def f(rng, data):\n    return 7\n")
    assert load("my_package.inner:f")(None, None) == 7


def test_a_file_can_import_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "neighbour.py").write_text("scale = 5\n")
    (folder / "main_one.py").write_text("from neighbour import scale\ndef f(rng, data):\n    return scale\n")
    assert load("folder/main_one.py:f")(None, None) == 5


def test_a_file_named_like_a_module_does_not_replace_it(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("def f(rng, data):\n    return 'mine'\n")
    assert load("random.py:f")(None, None) == "mine"
    assert sys.modules["random"] is random


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text(f"def f(rng, data):\n    return {name!r}\n")
    assert [load(f"{name}/same.py:f")(None, None) for name in ("a", "b")] == ["a", "b"]


BAD_FILES = [
    ("def f(:\n", r"bad\.py:1: syntax error: .*; bad\.py has to be Python"),
    ("x = 1\nx.y\n", r"bad\.py:2: loading bad\.py raised AttributeError: 'int' object has no attribute 'y'"),
    ("import json\n\njson.loads('?')\n", r"bad\.py:3: loading bad\.py raised JSONDecodeError: Expecting value"),
    ("raise ValueError\n", r"bad\.py:1: loading bad\.py raised ValueError$"),
    ("import sys\nsys.exit(0)\n", r"bad\.py:2: loading bad\.py raised SystemExit: 0"),
    (
        "import no_such_thing\n",
        r"bad\.py:1: loading bad\.py raised ModuleNotFoundError: No module named 'no_such_thing'",
    ),
]


@pytest.mark.parametrize(("source", "message"), BAD_FILES)
def test_a_file_that_cannot_be_loaded(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    with pytest.raises(BadTarget, match=message):
        load("bad.py:f")
    assert "bad" not in sys.modules


BAD_TARGETS = [
    ("nowhere.py:f", r"^nowhere\.py: no such file; give one that exists"),
    ("mechanisms.py", r"^mechanisms\.py: which function\? it has .*; give for instance mechanisms\.py:"),
    ("mechanisms.py:plane", r"^mechanisms\.py:plane: there is no 'plane' there; it has .*plain, claimed, "),
    ("mechanisms.py:LIMIT", r"^mechanisms\.py:LIMIT: 3 is not a mechanism; give a function of \(rng, data"),
    (
        "mechanisms.py:Pair",
        r"^mechanisms\.py:Pair: Pair is a class; give one of its methods, as in mechanisms\.py:Pair\.method",
    ),
    ("mechanisms.py:one_parameter", r"one_parameter\(rng\) is not a mechanism; give a function of"),
    ("no.such.module:f", r"^no\.such\.module: there is no module 'no'; give file\.py:function for a file$"),
    ("json.nothing:f", r"^json\.nothing: there is no module 'json\.nothing'"),
    ("svt_1", r"the catalogue has no mechanism 'svt_1'; did you mean svt1"),
    (
        "",
        r"the catalogue has no mechanism ''; `veridp catalogue` lists what it has; a function of your own is",
    ),
    (":", r"^':' is not a target; give file\.py:function, package\.module:function or a catalogue name$"),
    ("mechanisms.py:", r"^'mechanisms\.py:' is not a target"),
    (":plain", r"^':plain' is not a target"),
    ("./:plain", r"^'\./:plain' is not a target"),
]


@pytest.mark.parametrize(("target", "message"), BAD_TARGETS)
def test_a_target_that_names_no_mechanism(file: Path, target: str, message: str) -> None:
    with pytest.raises(BadTarget, match=message) as caught:
        load(target)
    assert isinstance(caught.value, BadInput)


METHODS = """
import numpy as np
import veridp

class Counts:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def release(self, data, epsilon=0.5):
        return data[0] + self.rng.laplace(scale=1 / epsilon)

    @veridp.mechanism(epsilon=0.5)
    def decorated(self, data):
        return data[0] + self.rng.laplace(scale=2)

    @staticmethod
    def static(data):
        return data[0] + np.random.laplace(scale=2)

class Needy:
    def __init__(self, scale):
        self.scale = scale

    def release(self, data):
        return data[0] + np.random.laplace(scale=self.scale)

    @staticmethod
    def static(data):
        return data[0] + np.random.laplace(scale=2)

made = Needy(2).release
"""


@pytest.mark.parametrize("name", ["Counts.release", "Counts.decorated", "Counts.static", "Needy.static", "made"])
def test_methods_are_targets(tmp_path: Path, name: str) -> None:
    (tmp_path / "methods.py").write_text(METHODS)
    mechanism = load(f"methods.py:{name}")
    assert veridp.exact.compare(mechanism, [0.0], [1.0]).epsilon == pytest.approx(0.5)


def test_a_class_that_needs_arguments_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "methods.py").write_text(METHODS)
    message = r"Needy\(\) raised TypeError: .* 'scale'; make the object in the file, as in mechanism = Needy"
    with pytest.raises(BadTarget, match=message):
        load("methods.py:Needy.release")


def test_a_module_that_misses_another_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("import math\nimport no_such_thing\n")
    with pytest.raises(BadTarget, match=r"/half\.py:2: loading half raised ModuleNotFoundError: No module"):
        load("half:f")


def test_a_file_whose_loading_does_not_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "LOADING", 0.2)
    path = tmp_path / "endless.py"
    path.write_text("def f(rng, data): return 1\nimport time\nwhile True: time.sleep(60)\n")
    with pytest.raises(BadTarget, match=r"endless\.py:3: loading .* did not end within 0\.2 s; put what it runs"):
        load(f"{path}:f")
    assert "endless" not in sys.modules


def test_the_time_of_a_command_covers_loading_the_file(tmp_path: Path, run: Callable[..., Any]) -> None:
    (tmp_path / "sleepy.py").write_text("import time\ntime.sleep(3600)\ndef f(rng, data):\n    return data\n")
    with pytest.raises(BadTarget, match=r"sleepy\.py:2: .* did not end within 0\.2 s; .* or give it more --time"):
        load(f"{tmp_path}/sleepy.py:f", Deadline(0.2))
    for command in ("audit", "prove", "exact", "statdp", "sniper", "finder", "explore", "account"):
        found = run(command, f"{tmp_path}/sleepy.py:f", "--time", "0.2")
        assert (found.status, "sleepy.py did not end within" in found.err) == (2, True), command


@pytest.mark.skipif(os.name != "posix", reason="only there can a process be told from outside")
def test_a_compiled_call_at_the_top_level_ends_the_command_at_its_time(tmp_path: Path) -> None:
    """It hears no signal: without an end from outside it would take hours."""
    (tmp_path / "compiled.py").write_text("sum(range(10**14))\ndef f(rng, data):\n    return data\n")
    command = [sys.executable, "-m", "veridp", "explore", f"{tmp_path}/compiled.py:f", "--time", "0.3"]
    found = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    assert found.returncode == -signal.SIGKILL
    assert "loading it did not end within 0.3 s, in a compiled call" in found.stderr
