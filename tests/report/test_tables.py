"""Tables of verdicts: their numbers come back, and LaTeX does not take names for commands."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veridp.claim import Claim, Interval, Witness
from veridp.report.audit import Audited, audited_table
from veridp.verdict import Standing, Verdict

WITNESS = Witness([0.0], [1.0], 'output is "a, b" & 50% #1', Interval(0.5, 0.5), Interval(0.1, 0.125))
RESULTS = [
    Audited("svt_1.py:f", Verdict(Standing.REFUTED, Claim(0.1), Interval(math.log(4), math.inf), WITNESS)),
    Audited("ok", Verdict(Standing.PROVED, Claim(1.0, 1e-5), Interval(0.5, 1 / 3 + 0.5), scope="for all")),
    Audited("broken", None, "no_such_name: give another"),
]


def test_csv_holds_the_numbers() -> None:
    rows = list(csv.DictReader(io.StringIO(audited_table(RESULTS, ".csv"))))
    assert [row["standing"] for row in rows] == ["refuted", "proved", "unjudged"]
    assert float(rows[0]["epsilon_lower"]) == math.log(4)
    assert float(rows[0]["epsilon_upper"]) == math.inf
    assert float(rows[1]["epsilon_upper"]) == 1 / 3 + 0.5
    assert rows[0]["event"] == str(WITNESS.event)
    assert (float(rows[0]["left_probability"]), float(rows[0]["right_probability"])) == (0.5, 0.125)
    assert rows[2]["reason"] == "no_such_name: give another"


def test_latex_escapes_what_is_not_meant_as_a_command() -> None:
    lines = audited_table(RESULTS, ".tex").splitlines()
    assert lines[5] == r"\texttt{svt\_1.py:f} & 0.1-DP & [1.38629, $\infty$] & \textbf{refuted} & exact witness \\"
    assert lines[6] == r"\texttt{ok} & (1, 1e-05)-DP & [0.5, 0.833333] & proved & proof for all \\"
    assert r"no\_such\_name" in lines[7]
    assert all(line.count("&") == 4 for line in lines[3:8] if "rule" not in line)


def test_the_command_writes_a_table(run: Callable[..., Any], own_folder: Path) -> None:
    done = run("audit", "randomized_response", "no_such", "--time", "300", "--table", "out/audit.csv")
    assert done.status == 2
    rows = list(csv.DictReader(io.StringIO((own_folder / "out" / "audit.csv").read_text("utf-8"))))
    assert [row["standing"] for row in rows] == ["proved", "unjudged"]
    assert float(rows[0]["epsilon_upper"]) == pytest.approx(0.1)
    assert "give a file such as audit.csv" in run("audit", "randomized_response", "--table", "audit.xls").err
