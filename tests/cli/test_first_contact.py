"""What a new user meets: assumptions in the headline, settings read from files, exit statuses, remedies that work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import veridp

Run = Callable[..., Any]  # gives the exit status, `out`, `err`, and `document` where it is JSON

SOURCE = """
import numpy as np
import pytest
import veridp


def mean(rng, data, *, epsilon=0.01):
    return sum(data) / len(data) + rng.laplace(scale=1 / epsilon)


@pytest.mark.dp(0.05, adjacency="l1", size=2, domain=(0, 5), seconds=3, scale=20.0)
def marked(rng, data, *, scale):
    return sum(data) + rng.laplace(scale=scale)


@pytest.mark.dp(epsilon=0.05)
@veridp.mechanism(adjacency="l1", size=1, domain=(0, 1))
def marked_above(rng, data):
    return data[0] + rng.laplace(scale=20)


@veridp.mechanism(adjacency="l1", size=1, domain=(0, 1))
@pytest.mark.dp(epsilon=0.05)
def marked_below(rng, data):
    return data[0] + rng.laplace(scale=20)


@veridp.mechanism
def bare(rng, data, *, epsilon=1.0):
    return data[0] + rng.laplace(scale=0.5 / epsilon)


class TestNoisy:
    @pytest.mark.dp(1.0, adjacency="l1", size=1, domain=(0, 1))
    def noisy(self, rng, data):
        return data[0] + rng.laplace(scale=1.0)


DRAWS = (np.random.laplace,)


def shared(rng, data, *, epsilon=1.0):
    return data[0] + DRAWS[0](scale=1 / epsilon)


def long(rng, data, *, epsilon=1.0):
    return sum(data) + rng.laplace(scale=0.5 / epsilon)
"""


@pytest.fixture(autouse=True)
def source(own_folder: Path) -> None:
    (own_folder / "mine.py").write_text(SOURCE)


def headline(run: Run, *words: str) -> str:
    return run("audit", "--time", "600", *words).out.splitlines()[0]


# ------------------------------------------------------------------------------------------------- assumptions


def test_an_unclipped_mean_is_never_proved_without_its_assumptions(run: Run) -> None:
    result = run("audit", "mine.py:mean", "--time", "600")
    head, *rest = result.out.splitlines()
    assert head == (
        "PROVED  mean claims 0.01-DP: ε = 0.01; assumed: adjacency linf, size 5, domain [-10, 10]; "
        "set --adjacency, --size, --domain"
    )
    # by hand: one value of 5 moves by 20, the mean by 4, and the noise has scale 100
    assert any("replaced by any other of [-10, 10], ε = 0.04" in line for line in rest)
    assert result.err == ""


@pytest.mark.parametrize("command", ["prove", "exact", "finder"])
def test_other_commands_say_so_too(run: Run, command: str) -> None:
    options = ["--workers", "1", "--restarts", "2"] if command == "finder" else []
    result = run(command, "mine.py:mean", "--time", "600", *options)
    assert "assumed: adjacency linf, size 5, domain [-10, 10]; set --adjacency, --size, --domain" in result.out
    assert result.err == ""


def test_what_is_stated_is_not_assumed(run: Run) -> None:
    stated = ["--adjacency", "l1", "--size", "3", "--domain", "(0, 1)"]
    assert headline(run, "mine.py:mean", *stated) == "PROVED  mean claims 0.01-DP: ε = 0.00333333"
    assert headline(run, "mine.py:mean", *stated[:4]).endswith("; assumed: domain [-10, 10]; set --domain")


@pytest.mark.parametrize(
    ("name", "epsilon"), [("marked", 0.05), ("marked_above", 0.05), ("marked_below", 0.05), ("TestNoisy.noisy", 1)]
)
def test_marks_and_decorators_state_settings(run: Run, name: str, epsilon: float) -> None:
    assert headline(run, f"mine.py:{name}").endswith(f"claims {epsilon}-DP: ε = {epsilon}")


def test_options_win_over_a_mark(run: Run) -> None:
    result = run("audit", "mine.py:marked", "--epsilon", "0.04", "--size", "1", "--time", "600", "--json")
    (found,) = result.document["results"]
    assert (found["claim"]["epsilon"], found["standing"], found["assumed"]) == (0.04, "refuted", {})
    assert (len(found["witness"]["left"]), result.status) == (1, 1)


def test_a_cost_that_grows_with_the_domain_is_told(run: Run) -> None:
    stated = ["--adjacency", "replace", "--size", "4", "--domain", "(0, 8)", "--epsilon", "0.05"]
    found = run("audit", "mine.py:mean", *stated, "--time", "100").out
    # by hand: one of four values moves by 8 (or 16), the mean by 2 (or 4), and the noise has scale 20
    assert "the cost grows with the domain: ε = 0.1 on [0, 8], but 0.2 on [-4, 12]" in found


def test_reports_of_every_kind_say_what_is_assumed(run: Run, own_folder: Path) -> None:
    run("audit", "mine.py:mean", "--time", "600", "--report", "r.md", "--junit", "j.xml", "--sarif", "s.sarif")
    for name in ("r.md", "j.xml", "s.sarif"):
        assert "assumed: adjacency linf, size 5, domain [-10, 10]" in (own_folder / name).read_text(), name


# ------------------------------------------------------------------------------------ exit statuses, tables, files


def test_refuted_wins_over_not_judged(run: Run) -> None:
    assert run("audit", "mine.py:bare", "mine.py:nothing", "--size", "1", "--time", "600").status == 1
    assert run("audit", "mine.py:mean", "mine.py:nothing", "--time", "600").status == 2
    assert run("audit", "mine.py:mean", "laplace", "--time", "600").status == 0


def test_a_table_is_followed_by_each_refuted_witness(run: Run) -> None:
    lines = run("audit", "mine.py:bare", "mine.py:mean", "noisy_hist2", "--size", "1", "--time", "600").out.splitlines()
    after = lines[next(place for place, line in enumerate(lines) if line.startswith("└")) + 1 :]
    heads = [place for place, line in enumerate(after) if line.startswith("witness (exactly")]
    assert [after[place - 1] for place in heads] == ["mine.py:bare", "noisy_hist2"]
    assert all(after[place + 3].startswith("    event  output") for place in heads)


@pytest.mark.parametrize("words", [["audit", "laplace"], ["catalogue"], ["exact", "--all"]])
def test_reports_that_are_not_markdown_are_refused_before_any_work(
    run: Run, own_folder: Path, words: list[str]
) -> None:
    result = run(*words, "--report", "page.html")
    assert (result.status, result.out) == (2, "")
    assert "reports are Markdown, 'page.html' is not; give for instance page.md" in result.err
    assert not (own_folder / "page.html").exists()


def test_long_inputs_are_abbreviated_in_text_and_whole_in_json(run: Run) -> None:
    words = ["audit", "mine.py:long", "--adjacency", "l1", "--size", "60", "--domain", "(0, 1)", "--time", "600"]
    lines = run(*words).out.splitlines()
    (left,) = [line.removeprefix("    left   ") for line in lines if line.startswith("    left ")]
    (found,) = run(*words, "--json").document["results"]
    assert len(left) < 100
    assert eval(left) == found["witness"]["left"]  # noqa: S307 - it is a sum of lists
    assert len(found["witness"]["left"]) == 60


# ------------------------------------------------------------------------------------------------------- remedies


def test_the_remedy_for_global_randomness_out_of_reach_works(run: Run, own_folder: Path) -> None:
    result = run("audit", "mine.py:shared", "--time", "600")
    assert result.status == 2
    assert "veridp.adapters.unseeded(function)" in result.err
    with (own_folder / "mine.py").open("a") as file:
        file.write("\n\nshared = veridp.adapters.unseeded(shared, adjacency='l1', size=1, domain=(0, 1))\n")
    assert headline(run, "mine.py:shared", "--time", "4").startswith("NOT REFUTED  shared claims 1-DP: ε in [")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--domain", "5"], "domain must be a pair (low, high) or a list of values, got 5"),
        (["--domain", "("], "--domain '(' is not a Python literal; write for instance --domain '(0, 100)'"),
        (["--domain", "(0, 1e999)"], "domain = (0, inf) has to be finite; give a pair such as (-10, 10), or a list"),
        (["--domain", "[]"], "domain must be a pair (low, high) or a list of values, got []"),
        (["--domain", "{0: 1}"], "domain must be a pair (low, high) or a list of values, got {0: 1}"),
        (["--adjacency", "l7"], "adjacency = 'l7' is unknown"),
        (["--epsilon", "inf"], "inf-DP holds for every function; claim a finite epsilon and a delta below 1"),
        (["--delta", "1"], "(0.01, 1)-DP holds for every function; claim a finite epsilon and a delta below 1"),
        (
            ["--epsilon", "0"],
            "it raised ZeroDivisionError: float division by zero; fix the function, or",
        ),
    ],
)
def test_wrong_settings_are_one_line(run: Run, words: list[str], message: str) -> None:
    result = run("audit", "mine.py:mean", *words, "--time", "600")
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "audit mine.py:mean --size 0",
            "--size must be >= 1, got '0'; give for instance --size 1 (length of the input",
        ),
        ("audit mine.py:mean --size 2.5", "--size must be a whole number, got '2.5'; give for instance --size 1 ("),
        ("prove mine.py:mean --epsilon x", "--epsilon must be a number, got 'x'; give for instance --epsilon 0.5 ("),
        ("sniper svt1 --confidence 2", "--confidence must be <= 1, got '2'; give for instance --confidence 0.95 ("),
        ("exact svt1 --show 0", "--show must be >= 1, got '0'; give for instance --show 12 (print at most"),
        ("audit mine.py:mean --rdp 2 x", "--rdp must be a number, got 'x'; give for instance --rdp ALPHA EPSILON ("),
        ("audit mine.py:mean --rdp 2", "Option '--rdp' requires 2 arguments; write them after the option"),
        ("exact svt1 --time x", "'x' is not a time; write for instance 90, 90s, 2m or 1.5h"),
        ("audit", "which target? give file.py:function, a folder, or targets in [tool.veridp] of pyproject.toml"),
        ("prove", "Missing argument 'target'; give file.py:function, package.module:function, a catalogue name"),
        ("audit svt1 --epsilom 1", "(Possible options: --epsilon); `veridp audit --help` lists what there is"),
        ("local", "Missing command; `veridp local --help` lists what there is"),
        ("local perturb --on-error x", "--on-error: 'x' is not one of 'fail', 'skip'; give one of them (fail at the"),
        (
            "sniper svt1 --pairs [(1",
            "--pairs '[(1' is not a Python literal; write for instance --pairs '[([0, 0], [0, 1])]'",
        ),
    ],
)
def test_what_is_wrong_with_an_option_comes_with_a_remedy(run: Run, words: str, message: str) -> None:
    result = run(*words.split())
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


BLOCKED = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest", "_pytest"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
from veridp.cli import main

main()
"""


def without_pytest(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603


def test_the_starter_needs_veridp_alone(own_folder: Path) -> None:
    assert without_pytest("new", "mech.py").returncode == 0
    imported = [line for line in (own_folder / "mech.py").read_text().splitlines() if "import " in line]
    assert imported == ["import veridp"]
    audited = without_pytest("audit", "mech.py:mean_age", "mech.py:noisy_counts", "--time", "600")
    assert (audited.returncode, audited.stderr) == (0, "")
    assert audited.stdout.count("PROVED") == 2
    assert "assumed" not in audited.stdout


def test_a_module_that_is_missing_is_named_with_its_remedy() -> None:
    result = without_pytest("audit", "mine.py:mean")
    assert result.returncode == 2
    assert "No module named 'pytest'; install pytest" in result.stderr
    assert result.stderr.count("\n") == 1


def test_python_says_it_too() -> None:
    def mean(rng, data, *, epsilon=0.01):  # type: ignore[no-untyped-def]
        return sum(data) / len(data) + rng.laplace(scale=1 / epsilon)

    verdict = veridp.audit(mean, size=2, seconds=60)
    assert dict(verdict.assumed) == {"adjacency": "linf", "domain": (-10, 10)}
    assert str(verdict) == "mean: 0.01-DP is PROVED, ε = 0.01; assumed: adjacency linf, domain [-10, 10]"
