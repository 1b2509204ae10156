"""What a detection looks like: in the terminal, as a picture, on a page, as data, and from the command line."""

from __future__ import annotations

import io
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from veridp import catalogue
from veridp.cli import main
from veridp.engines.statdp import Detection, detect
from veridp.errors import BadInput
from veridp.report.statdp import (
    TerminalCurve,
    detection_page,
    html_page,
    p_text,
    write_plot,
)

SMALL: Any = {"selection_samples": 4000, "samples": 20_000}
OPTIONS = ["--selection-samples", "4000", "--samples", "20000", "--size", "5"]


@pytest.fixture(scope="module")
def wrong() -> Detection:
    return detect(catalogue["noisy_max3"], 0.7, 5, test_epsilons=[0.5, 0.7, 1.0, 2.5], **SMALL)


@pytest.fixture(scope="module")
def right() -> Detection:
    return detect(catalogue["noisy_max1"], 0.7, 5, **SMALL)


def printed(detection: Detection, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(detection_page(detection))
    return console.export_text()


def test_the_page_says_what_was_found(wrong, right):
    page = printed(wrong, 200)
    assert page.startswith("REFUTED  noisy_max3(epsilon=0.7) claims 0.7-DP; assumed: ")
    assert f"event  {wrong.event}" in page
    assert f"ε >= {wrong.epsilon_lower:.4g} at confidence 0.95" in page
    assert str(wrong.witness.left_probability) in page
    assert "7 pairs of length 5" in page
    assert printed(right, 200).startswith("NOT REFUTED  noisy_max1(epsilon=0.7) claims 0.7-DP; assumed: ")


def test_the_terminal_curve_has_a_mark_for_each_point_and_a_line_at_the_claim(wrong):
    lines = TerminalCurve(wrong).lines(5)
    assert lines[0] == "  1.0 │       ┊         ◉"
    assert lines[5] == "  0.5 │       ┊"
    assert lines[10] == "  0.0 │  ◉    ◉    ◉"
    assert lines[12].split() == ["0.5", "0.7", "1", "2.5"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_curve_fits_the_terminal(right, width):
    curve = [line for line in printed(right, width).splitlines() if "│" in line or "└" in line]
    assert len(curve) == 12
    assert max(map(len, curve)) <= width
    assert sum(line.count("◉") + line.count("○") for line in curve) == len(right.curve)


def test_small_p_values_are_told_as_bounds():
    assert [p_text(value) for value in (1.0, 0.01234, 2.5e-200, 0.0)] == ["1", "0.0123", "2.5e-200", "<1e-300"]


def test_pictures(wrong, right, tmp_path):
    write_plot([wrong, right], tmp_path / "curve.svg")
    assert ElementTree.parse(tmp_path / "curve.svg").getroot().tag.endswith("svg")  # noqa: S314 - just written
    write_plot([right], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    for path in (
        tmp_path / "curve.nothing",
        tmp_path / "no folder" / "curve.png",
        tmp_path / "no folder" / "curve.html",
    ):
        with pytest.raises(BadInput, match=r"--plot .*; give a file that"):
            write_plot([right], path)


def test_a_page_stands_by_itself(wrong, right, tmp_path):
    write_plot([wrong], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert not re.search(r"<(script|link|img|iframe)|@import|url\(['\"]?http", page)  # nothing is fetched
    assert "0.7-DP is refuted" in page
    assert page.count("<tr") == 1 + len(wrong.curve)
    assert page.count("<tr class=claimed>") == 1
    both = html_page([wrong, right])
    assert "0.7-DP is refuted" in both
    assert "0.7-DP is not refuted" in both


def test_what_a_mechanism_is_called_cannot_break_the_page():
    def act(rng, data):
        return "<b>" if rng.random() < 0.3 else "&"

    page = html_page([detect(act, 0.5, 2, test_epsilons=[0.5], **SMALL)])
    assert "<b>" not in page
    assert "&lt;b&gt;" in page or "&#x27;&amp;&#x27;" in page


def test_the_document_holds_all_numbers(wrong):
    document = json.loads(json.dumps(wrong.to_dict()))
    assert document["claim"] == {"epsilon": 0.7, "delta": 0.0}
    assert document["refuted"] is True
    assert document["p_value"] == wrong.p_value
    assert document["corrected_p_value"] == wrong.corrected_p_value
    assert [point["epsilon"] for point in document["curve"]] == [0.5, 0.7, 1.0, 2.5]
    assert document["curve"][1]["counts"] == [wrong.claimed.left_count, wrong.claimed.right_count]
    assert document["witness"]["event"] == str(wrong.event)


# ---------------------------------------------------------------------------------------------------- the command


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["veridp", "statdp", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_exits_with_1_where_the_claim_is_refuted(monkeypatch, capfd, tmp_path):
    plot = tmp_path / "curve.png"
    levels = ["--test-epsilons", "0.3:2.2:0.1", "--plot", str(plot)]
    assert run(monkeypatch, "noisy_max3", "--epsilon", "0.7", *levels, *OPTIONS) == 1
    shown = capfd.readouterr()
    assert shown.out.startswith("REFUTED")
    assert plot.is_file()


def test_the_command_as_json(monkeypatch, capfd):
    levels = ["--test-epsilons", "0.5,1", "--arg", "threshold=0.5", "--alpha", "0.01"]
    assert run(monkeypatch, "svt1", "--epsilon", "0.7", *levels, "--json", *OPTIONS) == 0
    (document,) = json.loads(capfd.readouterr().out)["results"]
    assert [point["epsilon"] for point in document["curve"]] == [0.5, 0.7, 1.0]
    assert document["alpha"] == 0.01
    assert document["witness"]["arguments"] == {"epsilon": 0.7, "threshold": 0.5}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["noisy_max1", "--test-epsilons", "1:2"], "is neither first:last:step nor numbers"),
        (["noisy_max1", "--test-epsilons", "2:1:0.1"], "names 0 values"),
        (["noisy_max1", "--test-epsilons", "a"], "is neither first:last:step nor numbers"),
        (["gaussian"], "StatDP tests only ε"),
        (["no_such_mechanism"], "no_such_mechanism"),
        (["noisy_max1", "--time", "0"], "is not a time"),
    ],
)
def test_mistakes_are_told_in_a_line(monkeypatch, capfd, arguments, complaint):
    assert run(monkeypatch, *arguments) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert complaint in told.err


def test_a_file_of_ones_own(monkeypatch, capfd, tmp_path):
    target = Path(tmp_path) / "own.py"
    target.write_text("def leak(rng, data):\n    return data[0] + rng.laplace(scale=0.5)\n")
    assert run(monkeypatch, f"{target}:leak", "--epsilon", "1", "--time", "600s", *OPTIONS) == 1
    assert "event  output" in capfd.readouterr().out
