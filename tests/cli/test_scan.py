"""`veridp scan`: finds noise by reading, runs no more than it judges, and says what it could not judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from veridp.audit.draws import noisy_functions

FILES = {
    "__init__.py": "",
    "noise.py": """
import random
import secrets as entropy
from pathlib import Path
from numpy.random import laplace as draw_laplace

Path("loaded").write_text("the top level ran")

def laplace(scale):
    return draw_laplace(scale=scale)

def coin():
    return entropy.randbelow(2)

def shuffled(values):
    mine = random.Random(3)
    mine.shuffle(values)
    return values

def mean(values):
    return sum(values) / len(values)
""",
    "queries.py": """
from . import noise
from .noise import laplace as hidden, mean

def total(data, *, epsilon=1.0):
    return sum(data) + hidden(0.5 / epsilon)

def first(data, *, epsilon=1.0):
    return data[0] + noise.laplace(1 / epsilon)

def without_claim(data):
    return data[0] + noise.laplace(1.0)

def plain_mean(data, *, epsilon=1.0):
    return mean(data)

class Reader:
    def _noise(self):
        return hidden(1.0)

    def release(self, data, epsilon=1.0):
        return data[0] + self._noise()

def by_object(data, *, epsilon=1.0):
    return Reader().release(data)
""",
    "plain.py": "raise RuntimeError('nothing in here draws noise, so nobody loads it')\n",
}


@pytest.fixture
def package(own_folder: Path) -> Path:
    folder = own_folder / "package"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_noise_is_found_directly_and_through_others_without_running_anything(package: Path) -> None:
    functions, problems = noisy_functions(package)
    assert problems == []
    found = {(one.file.name, one.name): one for one in functions}
    assert [name for _, name in found] == [
        "laplace", "coin", "shuffled", "total", "first", "without_claim",
        "Reader._noise", "Reader.release", "by_object",
    ]  # fmt: skip
    assert [(draw.line, draw.call) for draw in found["noise.py", "laplace"].draws] == [(10, "draw_laplace")]
    assert found["queries.py", "total"].via == "laplace"
    assert found["queries.py", "Reader.release"].via == "Reader._noise"
    assert found["queries.py", "by_object"].via == "Reader.release"
    assert [one.has_claim for one in functions] == [False] * 3 + [True, True, False, False, True, True]
    assert not found["queries.py", "Reader._noise"].public
    assert not Path("loaded").exists()


def test_noise_is_found_through_methods_of_objects_that_are_kept(own_folder: Path) -> None:
    (own_folder / "source.py").write_text("""
import numpy as np

class Source:
    def __init__(self, scale):
        self.rng, self.scale = np.random.default_rng(), scale
    def add(self, value):
        return value + self.rng.laplace(scale=self.scale)
    def total(self, values):
        return sum(values)
""")
    (own_folder / "uses.py").write_text("""
from source import Source as Noise

SHARED = Noise(1.0)

def local(data):
    noise = Noise(2.0)
    return noise.add(sum(data))

def shared(data):
    return SHARED.add(sum(data))

def given(data, noise: Noise):
    return noise.add(sum(data))

class Model:
    def __init__(self):
        self._noise = Noise(3.0)
    def fit(self, data):
        return self._noise.add(sum(data))
    def plain(self, data):
        return self._noise.total(data)

def fitted(data):
    model: Model = Model()
    return model.fit(data)

def plain(data):
    noise = Noise(2.0)
    return noise.total(data)
""")
    functions, problems = noisy_functions(own_folder)
    assert problems == []
    found = {one.name: one.via for one in functions if one.file.name == "uses.py"}
    by_method = dict.fromkeys(("local", "shared", "given", "Model.fit"), "Source.add")
    assert found == {**by_method, "fitted": "Model.fit"}


def test_what_claims_something_is_judged_and_the_rest_is_listed(run: Any, package: Path) -> None:
    (package / "broken.py").write_text("def half(:\n")
    words = ["scan", "package", "--adjacency", "l1", "--size", "1", "--time", "120"]
    listed = run(*words, "--list", "--json")
    assert listed.status == 2  # a file that is not Python
    assert "broken.py: cannot be read as Python" in listed.err
    assert {one["standing"] for one in listed.results} == {"listed"}
    assert not Path("loaded").exists()
    result = run(*words, "--json")
    standing = {one["target"].rpartition(":")[2]: one["standing"] for one in result.results}
    assert result.status == 1
    assert standing["total"] == "refuted"
    assert [standing[name] for name in ("first", "Reader.release", "by_object")] == ["proved"] * 3
    assert [standing[name] for name in ("laplace", "without_claim", "Reader._noise")] == ["listed"] * 3
    (total,) = [one for one in result.results if one["target"].endswith(":total")]
    assert total["line"] == 5
    assert total["audit"]["epsilon"]["lower"] == pytest.approx(2.0)
    assert Path("loaded").exists()


def test_a_claim_may_be_stated_for_all_and_mistakes_have_remedies(run: Any, own_folder: Path) -> None:
    (own_folder / "one.py").write_text("def noisy(rng, data):\n    return data[0] + rng.laplace(scale=0.5)\n")
    words = ["scan", "one.py", "--adjacency", "l1", "--size", "1"]
    assert "no claim" in run(*words).out
    page = run(*words, "--epsilon", "1")
    assert page.status == 1
    assert "one.py:1 noisy" in page.out
    assert "rng.laplace, line 2" in page.out
    missing = run("scan", "nowhere")
    assert missing.status == 2
    assert "nowhere is neither a Python file nor a folder; give one that exists" in missing.err
