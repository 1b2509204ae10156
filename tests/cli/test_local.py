"""`veridp local …`: files through the commands, bad rows, formats, streams."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veridp.errors import BadInput
from veridp.local.plan import NAMES, Plan

Run = Callable[..., Any]
COLOURS = ("red", "green", "blue")


@pytest.fixture
def run(run: Run) -> Run:
    """Runs a command of `veridp local`."""
    return partial(run, "local")


def people(count: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    colours, ages = rng.choice(COLOURS, size=count, p=[0.5, 0.3, 0.2]), rng.uniform(17, 90, size=count)
    rows = [f"{n},{colour},{age:.2f}" for n, (colour, age) in enumerate(zip(colours, ages, strict=True))]
    return "\n".join(["user,colour,age", *rows]) + "\n"


LABELLED = ("--column", "colour", "--epsilon", "2", "--values", "red,green,blue")
NUMERIC = ("--column", "age", "--epsilon", "2", "--range", "17,90")


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("oracle", [name for name in NAMES if name not in ("sr", "pm", "hm", "laplace", "binned")])
def test_labels_go_through_files_to_estimates(run: Run, tmp_path: Path, oracle: str, ending: str) -> None:
    """3,000 people: every interval at 99.9999 % holds the truth but for 3e-6."""
    (tmp_path / "people.csv").write_text(people(3000))
    reports = f"reports.{ending}"
    made = run(
        "perturb", "people.csv", *LABELLED, "--oracle", oracle, "--save-plan", "plan.json", "-o", reports, "--seed", "1"
    )
    assert made[0] == 0
    assert "3,000 rows read, 0 skipped" in made[2]
    assert run("aggregate", reports, "--plan", "plan.json", "-o", "counts.json")[0] == 0
    result = run("estimate", "counts.json", "--json", "--confidence", "0.999999")
    (document,) = result.results
    assert (result.status, document["users"], document["steps"]) == (0, 3000, [])
    truth = {colour: people(3000).count(f",{colour},") / 3000 for colour in COLOURS}
    for row in document["estimates"]:
        assert row["lower"] <= truth[row["value"]] <= row["upper"]


@pytest.mark.parametrize("oracle", ["sr", "pm", "hm", "laplace", "binned"])
def test_numbers_go_through_a_pipe_to_a_mean(run: Run, tmp_path: Path, oracle: str) -> None:
    """As above, through standard input and output."""
    text = people(3000)
    ages = [float(line.rsplit(",", 1)[1]) for line in text.splitlines()[1:]]
    status, reports, _ = run(
        "perturb", *NUMERIC, "--oracle", oracle, "--save-plan", "plan.json", "--seed", "1", stdin=text
    )
    assert (status, len(reports.splitlines())) == (0, 3001)
    status, counts, _ = run("aggregate", "--plan", "plan.json", stdin=reports)
    (tmp_path / "counts.json").write_text(counts)
    result = run("estimate", "counts.json", "--json", "--confidence", "0.999999")
    (document,) = result.results
    if oracle == "binned":
        assert abs(document["mean"] - np.mean(ages)) < 5 * document["mean_error"]
        assert len(document["estimates"]) == 20
    else:
        (row,) = document["estimates"]
        assert row["lower"] <= np.mean(ages) <= row["upper"]


def test_the_best_oracle_is_chosen_where_none_is_named(run: Run) -> None:
    assert run("perturb", *LABELLED, "--save-plan", "labels.json", stdin=people(10))[0] == 0
    assert run("perturb", *NUMERIC, "--save-plan", "numbers.json", stdin=people(10))[0] == 0
    assert json.loads(Path("labels.json").read_text())["oracle"] == "grr"
    assert json.loads(Path("numbers.json").read_text())["oracle"] == "hm"


def test_noise_is_fresh_unless_a_seed_is_given(run: Run) -> None:
    first, again = (run("perturb", *LABELLED, stdin=people(200))[1] for _ in range(2))
    assert first != again  # the same with probability below 1e-20
    first, again = (run("perturb", *LABELLED, "--seed", "3", stdin=people(200))[1] for _ in range(2))
    assert first == again


# -------------------------------------------------------------------------------------------------------- bad rows

BAD = "user,colour,age\n1,red,20\n2,purple,30\n3,green\n4,blue,abc\n\n5,red,200\n6,green,40,x\n7,blue,50\n"


def test_a_bad_row_has_its_line_and_nothing_else_is_lost(run: Run) -> None:
    status, out, err = run("perturb", *LABELLED, "--on-error", "skip", stdin=BAD)
    assert status == 0
    assert len(out.splitlines()) == 1 + 4
    assert "7 rows read, 3 skipped" in err
    assert "stdin:3: 'purple' is not in the domain" in err
    assert "stdin:4: has 2 fields, the header has 3" in err
    assert "stdin:8: has 4 fields, the header has 3" in err
    status, out, err = run("perturb", *NUMERIC, "--on-error", "skip", stdin=BAD)
    assert len(out.splitlines()) == 1 + 3
    assert "stdin:5: 'abc' is not a number" in err
    assert "stdin:7: '200' is not in [17, 90]" in err


def test_the_first_bad_row_ends_it_unless_it_is_to_be_skipped(run: Run) -> None:
    status, _, err = run("perturb", *LABELLED, stdin=BAD)
    assert status == 2
    assert "veridp: stdin:3: 'purple' is not in the domain; correct it, or skip such rows with --on-error skip" in err


def test_line_numbers_count_lines_not_rows(run: Run) -> None:
    text = 'note,colour\n"two\nlines",red\nx,purple\n'
    _, _, err = run("perturb", *LABELLED, "--on-error", "skip", stdin=text)
    assert "stdin:4: 'purple'" in err


def test_only_the_first_faults_are_told_in_full(run: Run) -> None:
    text = "colour\n" + "purple\n" * 500 + "red\n"
    _, out, err = run("perturb", *LABELLED, "--on-error", "skip", stdin=text)
    assert len(out.splitlines()) == 2
    assert "501 rows read, 500 skipped" in err
    assert "stdin:11: 'purple'" in err
    assert "stdin:12:" not in err
    assert "… and 490 more" in err


@pytest.mark.parametrize(
    ("oracle", "good", "bad"),
    [
        ("grr", "1", ["7", "-1", "x", "1.5", ""]),
        ("oue", "0500000000000000", ["05", "zz00000000000000", "ff00000000000000"]),
        ("olh", "12345678901234567890,2", ["1,99", "x,1", "-5,1", "18446744073709551616,1"]),
        ("hadamard", "2", ["99", "x"]),
    ],
)
def test_bad_reports_are_named_and_the_others_counted(run: Run, oracle: str, good: str, bad: list[str]) -> None:
    header = {"grr": "report", "oue": "bits", "olh": "seed,bucket", "hadamard": "report"}[oracle]
    rows = [good, *bad, good, good]
    text = "\n".join([header, *(row or '""' for row in rows)]) + "\n"
    options = ("--oracle", oracle, "--epsilon", "1", "--values", "red,green,blue")
    result = run("aggregate", *options, "--on-error", "skip", stdin=text)
    (status, _, err), (document,) = result, result.results
    assert status == 0
    assert document["counts"]["users"] == 3
    assert document["rows"] == {"read": 3 + len(bad), "skipped": len(bad)}
    for line in range(3, 3 + len(bad)):
        assert f"stdin:{line}: " in err
    assert run("aggregate", *options, stdin=text)[0] == 2


def test_bad_entries_of_parquet_are_named_by_row(run: Run, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"age": [20.0, None, 30.0, 95.0]}), tmp_path / "ages.parquet")
    status, out, err = run("perturb", "ages.parquet", *NUMERIC, "--on-error", "skip")
    assert (status, len(out.splitlines())) == (0, 3)
    assert "ages.parquet:2: 'None' is not a number" in err
    assert "ages.parquet:4: '95.0' is not in [17, 90]" in err


# ------------------------------------------------------------------------------------------- shards, steps, mistakes


def test_counts_of_shards_add_up(run: Run, tmp_path: Path) -> None:
    for shard in range(3):
        (tmp_path / f"{shard}.csv").write_text(people(500, seed=shard))
        options = ("--save-plan", "plan.json", "-o", f"r{shard}.csv", "--seed", str(shard))
        run("perturb", f"{shard}.csv", *LABELLED, *options)
        run("aggregate", f"r{shard}.csv", "--plan", "plan.json", "-o", f"c{shard}.json")
    run("aggregate", "r0.csv", "r1.csv", "r2.csv", "--plan", "plan.json", "-o", "all.json")
    (alone,) = run("estimate", "all.json", "--json").results
    (added,) = run("estimate", "c0.json", "c1.json", "c2.json", "--json").results
    assert added == alone | {"target": added["target"]}
    assert added["users"] == 1500


def test_steps_and_tables_of_estimates(run: Run, tmp_path: Path) -> None:
    run("perturb", *LABELLED, "--save-plan", "plan.json", "-o", "r.csv", stdin=people(100))
    run("aggregate", "r.csv", "--plan", "plan.json", "-o", "c.json")
    (document,) = run("estimate", "c.json", "--step", "clip", "--step", "normalise", "--json").results
    assert document["steps"] == ["clip", "normalise"]
    assert sum(row["estimate"] for row in document["estimates"]) == pytest.approx(1)
    assert run("estimate", "c.json", "-o", "e.csv") == (0, "", "")
    assert (tmp_path / "e.csv").read_text().splitlines()[0] == "value,estimate,error,lower,upper"
    status, out, _ = run("estimate", "c.json", "--show", "2")
    assert (status, len(out.splitlines())) == (0, 3)
    run("perturb", *NUMERIC, "--oracle", "pm", "--save-plan", "p.json", "-o", "r.csv", stdin=people(100))
    run("aggregate", "r.csv", "--plan", "p.json", "-o", "m.json")
    assert "--step is for frequencies" in run("estimate", "m.json", "--step", "clip")[2]
    assert "a different plan" in run("estimate", "c.json", "m.json")[2]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("perturb",), "give --epsilon or --plan"),
        (("perturb", "--epsilon", "1"), "no domain; give labels"),
        (("perturb", "--epsilon", "1", "--oracle", "magic", "--values", "a,b"), "oracle 'magic' is unknown"),
        (("perturb", "--epsilon", "1", "--oracle", "sr", "--values", "a,b"), "sr collects numbers"),
        (("perturb", "--epsilon", "1", "--oracle", "grr", "--range", "1,2"), "grr collects labels"),
        (("perturb", "--epsilon", "1", "--range", "1"), "is not low,high"),
        (("perturb", "--epsilon", "1", "--range", "2,1"), "low and high must be finite numbers"),
        (("perturb", "--epsilon", "-1", "--range", "1,2"), "got -1.0"),
        (("perturb", "--epsilon", "1", "--oracle", "pm", "--range", "1,2", "--set", "bits=3"), "do not fit"),
        (("perturb", "--epsilon", "1", "--values", "a,b", "--set", "x=1"), "name it with --oracle"),
        (("perturb", "nowhere.csv", *LABELLED), "nowhere.csv: No such file"),
        (("perturb", "--plan", "nowhere.json"), "nowhere.json: No such file"),
        (("estimate", "nowhere.json"), "nowhere.json: No such file"),
        (("attack", "--epsilon", "1", "--values", "a,b"), "--targets a,b,c"),
        (("attack", "--epsilon", "1", "--range", "1,2", "--attack", "ipa"), "needs --theta"),
        (("attack", "--epsilon", "1", "--values", "a,b", "--attack", "opa"), "an attack on means"),
        (("attack", "--epsilon", "1", "--values", "a,b", "--attack", "nonsense"), "attack 'nonsense' is unknown"),
        (("attack", "--epsilon", "1", "--range", "1,2", "--attack", "fine-grained"), "--target-mean"),
    ],
)
def test_mistakes_are_told_in_a_line(run: Run, words: tuple[str, ...], complaint: str) -> None:
    status, out, err = run(*words, stdin="colour\nred\n")
    assert (status, out) == (2, "")
    assert complaint in err
    assert "Traceback" not in err


def test_columns_that_are_not_there_are_told(run: Run) -> None:
    assert "has no column hue; it has colour" in run("perturb", *LABELLED, "--column", "hue", stdin="colour\nred\n")[2]
    several = run("perturb", "--epsilon", "1", "--values", "a,b", stdin="x,y\n1,2\n")[2]
    assert "has columns x, y; select one with --column" in several
    assert "is empty" in run("perturb", *LABELLED, stdin="")[2]
    assert (
        "Parquet cannot be read from standard input" in run("perturb", *LABELLED, "--format", "parquet", stdin=b"")[2]
    )


def test_the_mark_of_a_spreadsheet_and_bytes_that_are_no_text_do_no_harm(run: Run, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfcolour\r\nred\r\n\xff\xfe\r\nblue\r\n"
    (tmp_path / "marked.csv").write_bytes(data)
    for words, stdin, source in ((("marked.csv",), None, "marked.csv"), ((), data, "stdin")):
        status, out, err = run("perturb", *words, *LABELLED, "--on-error", "skip", stdin=stdin)
        assert (status, len(out.splitlines())) == (0, 3)
        assert "3 rows read, 1 skipped" in err
        assert f"{source}:3: " in err


@pytest.mark.parametrize("name", ["reports.csv", "reports.parquet"])
def test_what_ends_early_leaves_no_file_and_an_older_one_as_it_was(run: Run, tmp_path: Path, name: str) -> None:
    bad = "colour\nred\nmauve\n"
    assert run("perturb", *LABELLED, "-o", name, stdin=bad)[0] == 2
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_text("older")
    assert run("perturb", *LABELLED, "-o", name, stdin=bad)[0] == 2
    assert (tmp_path / name).read_text() == "older"
    assert run("perturb", *LABELLED, "-o", name, "--on-error", "skip", stdin=bad)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() != b"older"


def test_counts_are_read_from_standard_input(run: Run) -> None:
    reports = run("perturb", *LABELLED, "--oracle", "grr", stdin=people(500))[1]
    plan = ("--oracle", "grr", "--epsilon", "2", "--values", "red,green,blue")
    counts = run("aggregate", *plan, stdin=reports)[1]
    for words in ((), ("-",)):
        result = run("estimate", *words, "--json", stdin=counts)
        assert (result.status, result.results[0]["users"]) == (0, 500)
    assert "not a document of counts" in run("estimate", stdin="nonsense")[2]


def test_plans_survive_json_and_say_what_is_wrong() -> None:
    for plan in (
        Plan("olh", 1.0, ("a", "b"), options={"buckets": 5}),
        Plan("binned", 2.0, low=0.0, high=1.0, options={"size": 7, "rounding": "nearest"}),
    ):
        assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    with pytest.raises(BadInput, match="not a plan"):
        Plan.from_json({"epsilon": 1})
    with pytest.raises(BadInput, match="not JSON at line 1"):
        Plan.from_text("{")


# ----------------------------------------------------------------------------------------------- attack, evaluate


def test_attacks_are_played_on_files(run: Run, tmp_path: Path) -> None:
    """Measured against theory within 6 standard errors of ten repetitions."""
    (tmp_path / "people.csv").write_text(people(4000))
    labelled, numeric = ("people.csv", *LABELLED), ("people.csv", *NUMERIC)
    for words in (
        (*labelled, "--oracle", "oue", "--attack", "mga", "--targets", "blue,green"),
        (*labelled, "--oracle", "grr", "--attack", "ria", "--targets", "blue"),
        (*numeric, "--oracle", "sr", "--attack", "opa", "--beta", "0.1"),
        (*numeric, "--oracle", "pm", "--attack", "ipa", "--theta", "60", "--beta", "0.3"),
        (*numeric, "--oracle", "binned", "--attack", "largest-input", "--beta", "0.1"),
        (*numeric, "--oracle", "pm", "--attack", "fine-grained", "--target-mean", "60", "--target-variance", "500"),
        (*numeric, "--oracle", "sr", "--attack", "drop-out", "--beta", "0.1"),
        (*labelled, "--oracle", "olh", "--attack", "seed-shopping", "--targets", "blue,green"),
    ):
        result = run("attack", *words, "--repetitions", "10", "--json")
        (document,) = result.results
        assert (result.status, document["users"]) == (0, 4000)
        for outcome in document["outcomes"]:
            assert abs(outcome["change"] - outcome["expected"]) < 6 * outcome["error"] + 1e-9
    table = run("attack", *numeric, "--oracle", "sr", "--attack", "opa").out
    assert table.split("\n")[0].split() == ["before", "after", "change", "in", "theory"]
    told = run("attack", *NUMERIC, "--oracle", "sr", "--attack", "fine-grained", "--target-mean", "60",
               "--target-variance", "500", stdin=people(10))  # fmt: skip
    assert "reads its input twice" in told[2]


@pytest.mark.slow
def test_a_study_of_ones_own_column_is_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(people(300) + "301,red,abc\n")
    words = ("evaluate", "--data", "people.csv", "--column", "age", "--quick", "--repetitions", "2", "-o", "out")
    assert run(*words)[0] == 2
    result = run(*words, "--on-error", "skip", "--json")
    (document,) = result.results
    assert (result.status, document["users"], document["finished"]) == (0, 300, True)
    assert "people.csv:302: 'abc' is not a number" in result.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [f"{name}.csv" for name in document["figures"]] + ["index.html"]
    )
    assert "<svg" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.slow
def test_long_streams_take_bounded_memory(tmp_path: Path) -> None:
    """Ten times the rows must not take twice the memory of the process: nothing is kept but a batch."""
    import subprocess

    script = (
        "import resource, sys; from veridp.cli import main\n"
        "sys.argv = sys.argv[1:]\n"
        "try: main()\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    used = []
    for rows in (40_000, 400_000):
        (tmp_path / "many.csv").write_text("colour\n" + "red\ngreen\n" * (rows // 2))
        words = ["veridp", "local", "perturb", "many.csv", *LABELLED, "--oracle", "oue", "-o", "out.csv"]
        command = [sys.executable, "-c", script, *words]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603
        used.append(int(ended.stderr.split()[-1]))
    assert used[1] < 1.3 * used[0]
