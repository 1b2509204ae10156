"""The command line: what it prints where, and the status that it exits with."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from veridp.catalogue import catalogue

Run = Callable[..., Any]  # gives the exit status, `out`, `err`, and `document` where it is JSON

SOURCE = """
import sys

def coin(rng, data, *, p=0.5):
    return bool(rng.random() < p)

def needy(rng, data, *, scale):
    return rng.laplace(scale=scale)

def square(rng, data):
    return [1, 4][rng.laplace()]

def broken(rng, data):
    raise ValueError("first line\\nsecond line")

def quits(rng, data):
    sys.exit(0)

def one(rng):
    return 1

def labelled(rng, data, *, mode="[red]x[/red] :x:"):
    return mode if rng.random() < 0.5 else ":smile:"

LIMIT = 3
"""

TALKATIVE = """
import os
print("loading")
os.system("echo from a shell")

def chatty(rng, data):
    print("running")
    os.write(1, b"from the system\\n")
    return bool(rng.random() < 0.5)
"""


@pytest.fixture(autouse=True)
def sources(own_folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of mechanisms, and a terminal of the usual width."""
    monkeypatch.setenv("COLUMNS", "80")
    (own_folder / "mechanisms.py").write_text(SOURCE)
    (own_folder / "talkative.py").write_text(TALKATIVE)


def assert_one_line(result: Any, message: str) -> None:
    """Nothing on stdout, one line on stderr that says this, exit status 2."""
    assert result.status == 2
    assert result.out == ""
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    assert result.err.startswith("veridp: ")
    assert message in result.err


# ----------------------------------------------------------------------------------------------------- explore

SVT1_TREE = """\
svt1 on [1.0, 1.0, 1.0]: 4 paths
├── n0 ~ laplace(scale=20)  svt.py:THRESHOLD
├── n1 ~ laplace(scale=40)  svt.py:QUERY
├── n1 + 0.5 >= n0  svt.py:QUERY
│   └── → [True]
└── n0 > n1 + 0.5  svt.py:QUERY
    ├── n2 ~ laplace(scale=40)  svt.py:QUERY
    ├── n2 + 0.5 >= n0  svt.py:QUERY
    │   └── → [False, True]
    └── n0 > n2 + 0.5  svt.py:QUERY
        ├── n3 ~ laplace(scale=40)  svt.py:QUERY
        ├── n3 + 0.5 >= n0  svt.py:QUERY
        │   └── → [False, False, True]
        └── n0 > n3 + 0.5  svt.py:QUERY
            └── → [False, False, False]
"""


def test_the_paths_of_svt1_are_a_tree(run: Run) -> None:
    lines, first = inspect.getsourcelines(catalogue["svt1"].function)
    threshold, query = (first + number for number, line in enumerate(lines) if "rng.laplace" in line)
    expected = SVT1_TREE.replace("THRESHOLD", str(threshold)).replace("QUERY", str(query))
    assert run("explore", "svt1", "--size", "3") == (0, expected, "")


def test_finite_choices_show_their_chances(run: Run, tmp_path: Path) -> None:
    (tmp_path / "die.py").write_text("def die(rng, data):\n    return int(rng.choice([1, 6], p=[0.25, 0.75]))\n")
    result = run("explore", "die.py:die", "--data", "0")
    assert result.out == (
        "die on 0: 2 paths\n"
        "├── choose 1, probability 0.25  die.py:2\n"
        "│   └── → 1\n"
        "└── choose 6, probability 0.75  die.py:2\n"
        "    └── → 6\n"
    )


def test_an_extreme_is_named_with_its_conditions(run: Run) -> None:
    result = run("explore", "noisy_max1", "--data", "[0, 1]")
    assert "entry 0 is the largest: n0 >= n1 + 1" in result.out
    assert "entry 1 is the largest: n1 + 1 > n0" in result.out


def test_long_lines_are_left_whole(run: Run) -> None:
    result = run("explore", "laplace_parallel", "--arg", "copies=30")
    assert "n29 + 1]" in result.out.splitlines()[-1]


def test_text_of_the_user_is_shown_as_it_is(run: Run) -> None:
    result = run("explore", "mechanisms.py:labelled", "--data", "'[bold]:x:'", "--arg", "mode=[i]:x:")
    assert result.out.startswith("labelled(mode='[i]:x:') on [bold]:x:: 2 paths\n")
    assert "→ '[i]:x:'\n" in result.out
    assert "→ ':smile:'\n" in result.out


def test_a_list_of_numbers_is_no_markup(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mechanism.py"
    file.write_text("def two(rng, data):\n    return [x + rng.laplace() for x in data]\n")
    assert "to give the same output [#, #] when" in run("prove", f"{file}:two", "--size", "2").out


def test_only_so_many_paths_are_shown(run: Run) -> None:
    result = run("explore", "svt6", "--size", "5", "--show", "3")
    assert result.out.startswith("svt6 on [1.0, 1.0, 1.0, 1.0, 1.0]: 32 paths\n")
    assert result.out.count("→") == 3
    assert result.out.endswith("… and 29 more paths\n")


def test_arguments_reach_the_mechanism(run: Run) -> None:
    result = run("explore", "svt1", "--size", "2", "--epsilon", "0.5", "--arg", "threshold=3", "--arg", "cutoff=2")
    assert result.out.startswith("svt1(epsilon=0.5, threshold=3, cutoff=2) on [1.0, 1.0]: 4 paths\n")
    assert "n0 ~ laplace(scale=4)" in result.out
    assert "n1 ~ laplace(scale=16)" in result.out
    assert "n1 >= n0 + 2" in result.out


def test_deferred_choices_stay_in_the_output(run: Run) -> None:
    plain = run("explore", "one_time_rappor", "--arg", "bits=3")
    deferred = run("explore", "one_time_rappor", "--arg", "bits=3", "--defer")
    assert plain.out.startswith("one_time_rappor(bits=3) on -10: 8 paths\n")
    assert deferred.out.startswith("one_time_rappor(bits=3) on -10: 1 path\n")


def test_paths_as_json(run: Run) -> None:
    result = run("explore", "mechanisms.py:coin", "--data", "[2]", "--arg", "p=0.25", "--json")
    noise = [{"name": "n0", "distribution": "uniform(scale=1)", "line": "mechanisms.py:5"}]
    assert (result.status, result.err) == (0, "")
    assert result.results == [
        {
            "target": "mechanisms.py:coin",
            "mechanism": "coin(p=0.25)",
            "data": [2],
            "paths": [
                {"output": "True", "conditions": ["0.25 > n0"], "weight": 1.0, "noise": noise},
                {"output": "False", "conditions": ["n0 >= 0.25"], "weight": 1.0, "noise": noise},
            ],
        }
    ]


def test_what_user_code_prints_stays_out_of_the_result(run: Run) -> None:
    result = run("explore", "talkative.py:chatty", "--json")
    assert [path["output"] for path in result.results[0]["paths"]] == ["True", "False"]
    assert {"loading", "from a shell", "running", "from the system"} <= set(result.err.splitlines())


# --------------------------------------------------------------------------------------------------- bad input

BAD = [
    (["nowhere.py:f"], "nowhere.py: no such file"),
    (["mechanisms.py:nothing"], "there is no 'nothing' there; it has coin, needy"),
    (["mechanisms.py:LIMIT"], "mechanisms.py:LIMIT: 3 is not a mechanism; give a function"),
    (["mechanisms.py:one"], "one(rng) is not a mechanism"),
    (
        ["mechanisms.py"],
        "which function? it has coin, needy, square, broken, quits, one, labelled; give",
    ),
    (["mechanisms.py:needy"], "needy needs a value for scale; give scale=…, or --arg scale=…"),
    (["mechanisms.py:coin", "--arg", "q=1"], "coin takes no argument 'q'; its arguments are: p"),
    (["mechanisms.py:broken"], "mechanisms.py:14: it raised ValueError: first line second line"),
    (["mechanisms.py:quits"], "mechanisms.py:17: quits raised SystemExit: 0"),
    (["mechanisms.py:square"], "mechanisms.py:11: noise (n0) has no plain value, as an index or a range wants one"),
    (["svt_1"], "the catalogue has no mechanism 'svt_1'; did you mean svt1"),
    (["svt1", "--size", "0"], "--size must be >= 1, got '0'; give for instance --size 1"),
    (["svt1", "--size", "many"], "--size must be a whole number, got 'many'"),
    (["svt1", "--max-paths", "0"], "--max-paths must be >= 1, got '0'"),
    (["svt1", "--max-paths", "3"], "svt1 has more than 3 paths (3 were listed)"),
    (["svt1", "--show", "0"], "--show must be >= 1, got '0'"),
    (["svt1", "--epsilon", "-1"], "epsilon must be a number >= 0, got -1.0"),
    (["svt1", "--epsilon", "nan"], "epsilon must be a number >= 0, got nan"),
    (["svt1", "--epsilon", "x"], "--epsilon must be a number, got 'x'"),
    (["svt1", "--arg", "x"], "--arg 'x' is not name=value; write for instance --arg threshold=0.5"),
    (["svt1", "--arg", "2x=1"], "--arg '2x=1' is not name=value"),
    (["svt1", "--epsilon", "1", "--arg", "epsilon=2"], "--arg 'epsilon=2' sets epsilon a second time; give it once"),
    (["svt1", "--data", "[1, 2"], "--data '[1, 2' is not a Python literal; write for instance --data '[1, 2, 3]'"),
    (["svt1", "--data", "[1]", "--size", "1"], "--size and --data exclude each other; give one of them"),
    (["svt1", "--data", "3"], "it raised TypeError: 'int' object is not iterable"),
    (["svt1", "--no-such-option"], "--no-such-option"),
    ([], "target"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
@pytest.mark.parametrize("form", ["text", "json"])
def test_bad_input_is_one_line_and_status_2(run: Run, words: list[str], message: str, form: str) -> None:
    assert_one_line(run("explore", *words, *(["--json"] if form == "json" else [])), message)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:\n", "bad.py:1: syntax error"),
        ("\nraise ValueError('one\\ntwo')\n", "bad.py:2: loading bad.py raised ValueError: one two"),
        ("import sys\nsys.exit(0)\n", "bad.py:2: loading bad.py raised SystemExit: 0"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_line(run: Run, tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    assert_one_line(run("explore", "bad.py:f"), message)


def test_an_unknown_command_is_one_line(run: Run) -> None:
    assert_one_line(run("explain"), "No such command 'explain'")


def test_the_version_is_that_of_the_distribution(run: Run) -> None:
    result = run("--version")
    assert (result.status, result.out) == (0, f"veridp {version('veridp')}\n")


def test_the_shell_can_complete_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_VERIDP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "veridp sn")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "sniper" in run().out


def test_no_command_prints_the_help(run: Run) -> None:
    result = run()
    assert (result.status, result.err) == (0, "")
    assert {"catalogue", "exact", "explore"} <= set(re.findall(r"^  (\w+)  ", result.out, re.MULTILINE))


# --------------------------------------------------------------------------------------------------- catalogue


def test_the_catalogue_fits_80_columns_and_cuts_summaries_alone(run: Run) -> None:
    heading, *lines, totals = run("catalogue").out.splitlines()
    assert re.split(r"\s{1,}", heading.strip(), maxsplit=5)[:4] == ["name", "neighbours", "n", "claims"]
    assert [line.split()[1] for line in lines] == list(catalogue)
    assert max(map(len, lines)) == 80
    assert all(line == line.rstrip() for line in lines)
    assert totals == "42 mechanisms: ✓ 24 keep their claim, ✗ 18 do not"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("svt1", "✓ svt1                  linf       10        0.1    0.1 Whether each query passes"),
        ("svt4", "✗ svt4                  linf       10        0.1  0.175 Whether each query passes"),
        ("noisy_max4", "✗ noisy_max4            linf        5        0.1      ∞ The value of the"),
        ("gaussian", "✓ gaussian              l1          1 0.1, 1e-05 0.0607 The queries, each with"),
        ("finder_sum", "✓ finder_sum            add-remove  4        0.1    0.1 The sum of the queries"),
    ],
)
def test_a_line_of_the_catalogue(run: Run, monkeypatch: pytest.MonkeyPatch, name: str, start: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (line,) = [line for line in run("catalogue").out.splitlines() if line.split()[1] == name]
    assert line.startswith(start)
    assert line.endswith(catalogue[name].summary)


def test_the_catalogue_in_a_narrow_terminal_keeps_its_names(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert "✓ exponential_mechanism linf" in run("catalogue").out


def test_the_catalogue_as_json(run: Run) -> None:
    result = run("catalogue", "--json")
    entries = result.results
    assert (result.status, result.err) == (0, "")
    assert [entry["name"] for entry in entries] == list(catalogue)
    by_name = {entry["name"]: entry for entry in entries}
    assert by_name["svt4"] == {
        "target": "svt4",
        "name": "svt4",
        "adjacency": "linf",
        "size": 10,
        "claim": {"epsilon": 0.1, "delta": 0.0},
        "true_epsilon": pytest.approx(0.175),
        "keeps_claim": False,
        "summary": catalogue["svt4"].summary,
    }
    assert by_name["svt5"]["true_epsilon"] == {"infinite": 1}
    assert by_name["gaussian"]["claim"] == {"epsilon": 0.1, "delta": 1e-5}


def test_the_catalogue_as_a_page(run: Run, tmp_path: Path) -> None:
    result = run("catalogue", "--report", "new/folder/page.md")
    assert result.status == 0
    page = (tmp_path / "new" / "folder" / "page.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in page if line.startswith(("| ✓", "| ✗"))]
    assert page[0] == "# The catalogue"
    assert [row.split(" | ")[1] for row in rows] == list(catalogue)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 8 for row in rows)
    assert f"| ✗ | svt4 | linf | 10 | 0.1 | 0.175 | {catalogue['svt4'].summary} |" in rows


def test_a_report_that_cannot_be_written_is_one_line(run: Run) -> None:
    assert_one_line(run("catalogue", "--report", "mechanisms.py/page.md"), "mechanisms.py/page.md: ")


# ------------------------------------------------------------------------------------------------- as a process


def in_a_process(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "veridp.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]  # noqa: S603


def test_a_process_prints_and_exits_alike(tmp_path: Path) -> None:
    good = in_a_process("explore", "svt1", "--size", "1")
    assert (good.returncode, good.stdout.splitlines()[0], good.stderr) == (0, "svt1 on [1.0]: 2 paths", "")
    bad = in_a_process("explore", "nowhere.py:f", cwd=tmp_path)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


def test_a_reader_that_goes_away_is_no_refutation() -> None:
    command = [sys.executable, "-m", "veridp.cli", "explore", "svt6", "--size", "10", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (2, "")


def test_a_fault_of_veridp_is_no_refutation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr("veridp.cli.exact.entries", fails)
    result = run("catalogue")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert result.err.endswith(
        "veridp: a fault of veridp itself, RuntimeError: lost; please report it with the lines above\n"
    )


def test_an_interrupt_is_no_refutation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veridp.cli.exact.entries", interrupted)
    assert run("catalogue") == (130, "", "veridp: cut short: interrupted before there was a result\n")


def test_a_terminal_without_the_signs_gets_others() -> None:
    shown = in_a_process("catalogue", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "svt1" in shown.stdout
