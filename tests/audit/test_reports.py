"""What the audit shows: pages, JSON, JUnit, SARIF, a starter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import veridp
from veridp.report.audit import Audited, junit, sarif

MISTAKES = Path(__file__).parent / "mistakes.py"


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "veridp.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=590, cwd=cwd)  # noqa: S603


def test_one_verdict_is_a_page() -> None:
    result = run("audit", "svt4", "--size", "3", "--time", "600")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("REFUTED  svt4 claims 0.1-DP: ε in [0.16")
    assert lines[0].endswith("; assumed: domain [-10, 10]; set --domain")
    for heading in ("proof, where it costs most", "first look at", "searched", "engines", "to see it again"):
        assert heading in lines


def test_several_verdicts_are_a_table_and_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report" / "audit.md"
    result = run("audit", "laplace", "noisy_hist2", "--time", "600", "--report", str(report))
    assert result.returncode == 1
    assert "PROVED" in result.stdout
    assert "REFUTED" in result.stdout
    page = report.read_text()
    assert "| laplace | 0.1-DP | 0.1 | PROVED |" in page
    assert "## noisy_hist2" in page
    assert "veridp.exact.compare(mechanism, left, right)" in page


def test_json_is_one_document() -> None:
    result = run("audit", f"{MISTAKES}:budget_twice", "--adjacency", "l1", "--size", "1", "--time", "600", "--json")
    assert result.returncode == 1
    (document,) = json.loads(result.stdout)["results"]
    assert document["target"] == f"{MISTAKES}:budget_twice"
    assert document["assumed"] == {"domain": [-10, 10]}
    assert document["standing"] == "refuted"
    assert document["epsilon"]["lower"] == pytest.approx(2.0)
    assert document["witness"]["confidence"] == 1.0
    assert document["look_at"][0]["file"] == str(MISTAKES)
    assert {entry["engine"] for entry in document["evidence"]} >= {"prove", "exact"}


def test_junit_and_sarif_name_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "mech.py").write_text(MISTAKES.read_text())
    result = run(
        *("audit", "mech.py:reused_seed", "mech.py:right", "mech.py:returns_none", "--adjacency", "l1", "--size", "1"),
        *("--time", "600", "--junit", "junit.xml", "--sarif", "log.sarif"),
        cwd=tmp_path,
    )
    assert result.returncode == 1  # refuted wins over not judged
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own file
    assert suite.attrib | {"time": ""} == {"name": "veridp", "tests": "3", "failures": "1", "errors": "1", "time": ""}
    (run_,) = json.loads((tmp_path / "log.sarif").read_text())["runs"]
    refuted, proved, failed = run_["results"]
    assert [entry["ruleId"] for entry in run_["results"]] == ["VDP001", "VDP003", "VDP900"]
    place = refuted["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "mech.py"
    assert "default_rng(42)" in MISTAKES.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert [proved["level"], refuted["level"], failed["kind"]] == ["none", "error", "review"]
    assert {rule["id"] for rule in run_["tool"]["driver"]["rules"]} == {"VDP001", "VDP002", "VDP003", "VDP900"}


def test_what_is_not_proved_is_open() -> None:
    verdict = veridp.audit(veridp.catalogue["laplace"], size=1, seconds=3.0, black_box=True)
    log = sarif([Audited("laplace", verdict)], "1")
    assert [log["runs"][0]["results"][0][key] for key in ("ruleId", "kind", "level")] == ["VDP002", "open", "none"]
    assert "<failure" not in junit([Audited("laplace", verdict)])


def test_a_starter_is_right_and_is_a_test(tmp_path: Path) -> None:
    result = run("new", "mech.py", cwd=tmp_path)
    assert result.returncode == 0
    assert "veridp audit mech.py:mean_age mech.py:noisy_counts" in result.stdout
    audited = run("audit", "mech.py:mean_age", "mech.py:noisy_counts", "--time", "600", "--json", cwd=tmp_path)
    found = {one["mechanism"]: (one["standing"], one["assumed"]) for one in json.loads(audited.stdout)["results"]}
    assert found == {"mean_age": ("proved", {}), "noisy_counts": ("proved", {})}  # their settings are in the file
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "mech.py"], capture_output=True, text=True, cwd=tmp_path, timeout=590
    )
    assert "1 passed" in tested.stdout
    again = run("new", "mech.py", cwd=tmp_path)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert run("new", "mech.txt", cwd=tmp_path).returncode == 2
