"""An ε that rests on what a library rounds off is called one as floats, by every engine and in the same words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from diffprivlib import mechanisms as ibm
from rich.console import Console

import veridp
from veridp.claim import Claim, Interval, Witness
from veridp.report.audit import verdict_page
from veridp.verdict import Standing, Verdict

SHOWN = math.log(2.0**48)  # what an event of probability 1 shows against one that may have 2^-48
NOTE = f"this ε is one as floats: beyond what the library rounds off, events show only {SHOWN:.6g}"


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """Binary(40) lies with probability e^-40, which the library adds to 1 and loses; Binary(20) keeps its e^-20."""
    file = tmp_path / "objects.py"
    file.write_text(
        "from diffprivlib.mechanisms import Binary\n"
        "lost = Binary(epsilon=40, value0='a', value1='b')\n"
        "kept = Binary(epsilon=20, value0='a', value1='b')\n"
    )
    return file


@pytest.mark.parametrize("command", [["exact"], ["prove"], ["finder", "--restarts", "1"], ["audit"]])
def test_every_command_says_so(run: Any, objects: Path, command: list[str]) -> None:
    lost = run(*command, f"{objects}:lost")
    assert lost.status == 0
    assert NOTE in " ".join(lost.out.split())
    assert "between inf and inf" not in lost.out
    assert "as floats" not in run(*command, f"{objects}:kept").out


@pytest.mark.parametrize("command", [["exact"], ["finder", "--restarts", "1"]])
def test_json_says_so(run: Any, objects: Path, command: list[str]) -> None:
    for name, expected in (("lost", True), ("kept", False)):
        (result,) = run(*command, f"{objects}:{name}", "--json").document["results"]
        assert result["as_floats"] is expected
        assert result["refuted"] is False


@pytest.mark.parametrize(("claimed", "refuted"), [(40.0, False), (SHOWN + 0.1, False), (SHOWN - 0.1, True)])
def test_what_events_show_beyond_rounding_decides(claimed: float, refuted: bool) -> None:
    machine: Any = veridp.adapters.diffprivlib(ibm.Binary(epsilon=40, value0="a", value1="b"), epsilon=claimed)
    claim = Claim(claimed)
    comparison = veridp.exact.compare(machine, "a", "b")
    assert comparison.refutes(claim) is refuted
    assert veridp.finder.search(machine, restarts=1, seconds=600).refutes(claim) is refuted
    standing = veridp.audit(machine, seconds=600).standing
    assert standing is (Standing.REFUTED if refuted else Standing.NOT_REFUTED)


def test_an_author_s_function_is_taken_at_its_word() -> None:
    """Its own floats are what it is made of: no allowance, and no note."""
    comparison = veridp.exact.compare(lambda rng, data: rng.random() < data[0], [0.0], [1.0])
    assert comparison.epsilon == comparison.shown_epsilon == math.inf
    assert comparison.as_floats == ""
    assert comparison.refutes(Claim(40.0))


def test_a_verdict_by_low_bits_says_so() -> None:
    probabilities = Interval(0.5, 0.6), Interval(0.0, 0.1)
    for as_floats in (True, False):
        witness = Witness([0.0], [1.0], "a bit is 0", *probabilities, confidence=0.95, as_floats=as_floats)
        verdict = Verdict(Standing.REFUTED, Claim(1.0), Interval(1.6, math.inf), witness)
        console = Console(width=200)
        with console.capture() as page:
            console.print(verdict_page(verdict))
        assert ("as floats, whose low bits the event may look at" in page.get()) is as_floats
