"""The pytest plugin, in pytest runs of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest
import veridp


@pytest.mark.dp(epsilon=1.0, adjacency="l1", size=2)
def right(rng, data, *, epsilon=1.0):
    return [value + rng.laplace(scale=1 / epsilon) for value in data]


@pytest.mark.dp(epsilon=1.0, adjacency="l1", size=2)
def wrong(rng, data, *, epsilon=1.0):
    return [value + rng.laplace(scale=0.5 / epsilon) for value in data]


@pytest.mark.dp()
@veridp.mechanism(epsilon=0.5, adjacency="l1", size=1)
def marked_above(rng, data):
    return data[0] + rng.laplace(scale=2)


@veridp.mechanism(epsilon=0.5, adjacency="l1", size=1)
@pytest.mark.dp(proved=True)
def marked_below(rng, data):
    return data[0] + rng.laplace(scale=2)


@pytest.mark.dp(epsilon=1.0, proved=True, adjacency="l1", size=1)
def unprovable(rng, data):
    return data[0] + rng.normal(scale=100)


@pytest.mark.dp(epsilon=1.0)
def broken(rng, data):
    raise RuntimeError("no luck")


def test_check():
    verdict = veridp.check(veridp.catalogue["laplace"])
    assert verdict.standing.name == "PROVED"


def test_check_fails():
    veridp.check(veridp.catalogue["noisy_hist2"])


def test_of_something_else():
    pass
"""


def run(folder: Path, *arguments: str) -> list[str]:
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dp-time", "5", *arguments, "test_suite.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=180).stdout.splitlines()  # noqa: S603


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-p", "no:xdist"], ["-n", "2"]])
def test_marked_functions_are_tests(tmp_path: Path, arguments: list[str]) -> None:
    lines = run(tmp_path, "-q", "-rA", *arguments)
    outcomes = {line.split("::")[1].split(" ")[0]: line.split()[0] for line in lines if "test_suite.py::" in line}
    assert {name for name, outcome in outcomes.items() if outcome == "PASSED"} == {
        "right", "marked_above", "marked_below", "test_check", "test_of_something_else",
    }  # fmt: skip
    assert {name for name, outcome in outcomes.items() if outcome == "FAILED"} == {
        "wrong", "unprovable", "broken", "test_check_fails",
    }  # fmt: skip
    text = "\n".join(lines)
    assert "wrong(epsilon=1.0) does not keep 1-DP\n\nFalsifying example:\n    left  = [" in text
    assert "a proof was asked for" in text
    assert "it raised RuntimeError: no luck" in text
    (summary,) = [line for line in lines if "the probability of a false alarm in this session" in line]
    assert summary.startswith("7 checks, ")
    assert "(--dp-alpha 0.01)" in summary


def test_bad_options(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--dp-alpha", "2"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)  # noqa: S603
    assert "--dp-alpha 2 is no rate; give one between 0 and 1" in result.stderr
    command = [sys.executable, "-m", "pytest", "--dp-time", "0"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)  # noqa: S603
    assert "--dp-time 0 leaves no time" in result.stderr


def test_the_plugin_does_not_import_the_library(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import sys\n\ndef test_it():\n    assert 'veridp' not in sys.modules\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)  # noqa: S603
    assert "1 passed" in result.stdout


def test_the_rate_is_split_so_that_it_adds_up() -> None:
    from _veridp_pytest import Share

    share = Share(1.0, 0.01)
    parts = [share.next_alpha() for _ in range(10_000)]
    assert parts[0] > parts[1] > 0
    assert 0.0099 < sum(parts) <= 0.01
