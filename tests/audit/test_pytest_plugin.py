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


@pytest.mark.dp(epsilon=1.0, proved=True, adjacency="l1", size=1, seconds=3)
def unprovable(rng, data):
    return data[0] + rng.normal(scale=100)


@pytest.mark.dp(mu=1.0, adjacency="l1", size=1)
def gaussian(rng, data):
    return data[0] + rng.normal(scale=1.0)


@pytest.mark.dp(rho=0.4, adjacency="l1", size=1)
def understated(rng, data):
    return data[0] + rng.normal(scale=1.0)


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
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dp-time=120", *arguments, "test_suite.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=500).stdout.splitlines()  # noqa: S603


@pytest.mark.slow
def test_marked_functions_are_tests(tmp_path: Path) -> None:
    lines = run(tmp_path, "-q", "-rA", "-n", "2")
    outcomes = {line.split("::")[1].split(" ")[0]: line.split()[0] for line in lines if "test_suite.py::" in line}
    assert {name for name, outcome in outcomes.items() if outcome == "PASSED"} == {
        "right", "gaussian", "marked_above", "marked_below", "test_check", "test_of_something_else",
    }  # fmt: skip
    assert {name for name, outcome in outcomes.items() if outcome == "FAILED"} == {
        "wrong", "understated", "unprovable", "broken", "test_check_fails",
    }  # fmt: skip
    text = "\n".join(lines)
    assert "wrong(epsilon=1.0) does not keep 1-DP\n\nFalsifying example:\n    left  = [" in text
    assert "understated does not keep 0.4-zCDP" in text
    assert "where 0.4-zCDP is claimed" in text
    assert "a proof is required" in text
    assert "it raised RuntimeError: no luck" in text
    (summary,) = [line for line in lines if "the probability of a false alarm in this session" in line]
    assert summary.startswith("9 checks, ")
    assert "(--dp-alpha 0.01)" in summary


def test_bad_options(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--dp-alpha", "2"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    assert "--dp-alpha must be in (0, 1), got 2" in result.stderr
    command = [sys.executable, "-m", "pytest", "--dp-time", "0"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    assert "--dp-time must be > 0 seconds, got 0" in result.stderr


def test_the_ini_file_sets_what_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from sqlalchemy import func  # has any attribute that one asks for\n\n"
        "def test_it(pytestconfig):\n"
        "    assert pytestconfig.getoption('--dp-time') == 120\n"
        "    assert pytestconfig.getoption('--dp-alpha') == 0.02\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\ndp_time = 7\ndp_alpha = 0.02\n")
    command = [sys.executable, "-m", "pytest", "-q", "--dp-time", "120"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    assert "1 passed" in result.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\ndp_alpha = much\n")
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    assert "dp_alpha must be a number, got 'much'" in result.stderr


def test_the_plugin_does_not_import_the_library(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import sys\n\ndef test_it():\n    assert 'veridp' not in sys.modules\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    assert "1 passed" in result.stdout


def test_the_rate_is_split_so_that_it_adds_up() -> None:
    from _veridp_pytest import SessionShare

    share = SessionShare(1.0, 0.01)
    parts = [share.next_alpha() for _ in range(10_000)]
    assert parts[0] > parts[1] > 0
    assert 0.0099 < sum(parts) <= 0.01


VARIANTS = """
import pytest
import veridp

SETTINGS = {"adjacency": "l1", "size": 1, "domain": (0, 1)}


class TestNoisy:
    scale = 1.0

    @pytest.mark.dp(epsilon=1.0, **SETTINGS)
    def method(self, rng, data):
        return data[0] + rng.laplace(scale=self.scale)

    @staticmethod
    @pytest.mark.dp(epsilon=1.0, **SETTINGS)
    def static(rng, data):
        return data[0] + rng.laplace(scale=0.5)

    @pytest.mark.dp(1.0)
    @veridp.mechanism(**SETTINGS)
    def declared(self, rng, data):
        return data[0] + rng.laplace(scale=self.scale)


@pytest.mark.dp(**SETTINGS)
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, id="two"), pytest.param(3.0, marks=pytest.mark.skip)])
@pytest.mark.parametrize(("scale", "size"), [(1.0, 1), (0.5, 2)], ids=["right", "wrong"])
def chosen(rng, data, *, epsilon, scale):
    return data[0] + rng.laplace(scale=scale / epsilon)


def test_wrong():
    veridp.check(chosen, epsilon=1.0, scale=0.5, size=1)


def test_bad_claim():
    veridp.check(chosen, epsilon="1", scale=0.5)


def test_bad_size():
    veridp.check(chosen, epsilon=1.0, scale=0.5, size=2.5)
"""


@pytest.mark.slow
def test_methods_and_parameter_sets_are_tests_and_failures_are_short(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(VARIANTS)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run([*command, "test_suite.py"], capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    lines = [line for line in done.stdout.splitlines() if "test_suite.py::" in line]
    outcomes = {line.split(" - ")[0].split("::", 1)[1]: line.split()[0] for line in lines}
    assert outcomes == {
        "TestNoisy::method": "PASSED",
        "TestNoisy::static": "FAILED",
        "TestNoisy::declared": "PASSED",
        "chosen[right-0.5]": "PASSED",
        "chosen[right-two]": "PASSED",
        "chosen[wrong-0.5]": "FAILED",
        "chosen[wrong-two]": "FAILED",
        "test_wrong": "FAILED",
        "test_bad_claim": "FAILED",
        "test_bad_size": "FAILED",
    }
    assert "2 skipped" in done.stdout
    assert "so ε >= 4 where 2 is claimed" in done.stdout  # chosen[wrong-two]: its noise has half the scale
    assert "assumed: adjacency linf, domain [-10, 10]" in done.stdout  # test_wrong states neither
    assert "BadInput: epsilon must be a number >= 0, got '1'" in done.stdout
    assert "BadInput: size must be an integer >= 1, got 2.5" in done.stdout
    for own in ("audit/check.py", "audit/audit.py", "def check(", "claim.py:"):  # no source of veridp's own
        assert own not in done.stdout
