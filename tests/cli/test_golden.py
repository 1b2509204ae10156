"""What commands print with --json, held against documents that were printed before.

A change of the code that is meant to change no result changes none of them. Where a result is meant to change, write
the documents anew, and read the difference: `VERIDP_WRITE_GOLDEN=1 pytest tests/cli/test_golden.py`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import veridp

Run = Callable[..., Any]  # gives the exit status, `out`, `err`, and `document`, checked against the schema

GOLDEN = Path(__file__).parent / "golden"
WRITE = "VERIDP_WRITE_GOLDEN"
VARYING = {"seconds", "sampling_seconds", "outputs_per_second", "versions", "snippet", "file"}  # of the machine
UNHURRIED = ("--time", "1h")  # effort ends them long before
RELEASE = "release: {sequential: [{laplace: {epsilon: 0.5}}, {gaussian: {sensitivity: 1, scale: 3}}]}\ndelta: 1e-6\n"
PEOPLE = "age\n" + "20\n30\n40\n55\n" * 25

COMMANDS: dict[str, tuple[str, ...]] = {
    "catalogue": ("catalogue",),
    "explore": ("explore", "svt1", "--size", "2"),
    "exact-pair": ("exact", "svt4", "--left", "[9, 9, -9]", "--right", "[10, 10, -10]"),
    "exact-delta": ("exact", "gaussian", "--left", "[0]", "--right", "[1]"),
    "exact-certified": ("exact", "svt1", "--left", "[1, 2]", "--right", "[2, 1]", "--certified"),
    "prove-sizes": ("prove", "svt1", "--sizes", "--size", "2"),
    "audit-refuted": ("audit", "noisy_hist2", "svt4", "bad_gap_svt", "--size", "3", *UNHURRIED),
    "audit-proved": ("audit", "laplace", "noisy_max2", "svt1", "randomized_response", "--size", "2", *UNHURRIED),
    "statdp": ("statdp", "svt4", "--size", "2", "--samples", "2000", "--selection-samples", "500", "--seed", "1"),
    "finder": ("finder", "svt4", "--size", "2", "--restarts", "2", "--workers", "1", "--seed", "1", *UNHURRIED),
    "pipeline-pair": ("pipeline", "noisy_hist2", "--left", "[1, 2]", "--right", "[2, 2]"),
    "pipeline-search": ("pipeline", "laplace", "--size", "1", "--epsilon", "0.5"),
    "account": ("account", "release.yaml"),
    "local-attack": (
        *("local", "attack", "people.csv", "--column", "age", "--range", "0,100", "--epsilon", "1"),
        *("--oracle", "sr", "--attack", "opa", "--seed", "1"),
    ),
    **{f"prove-{name}": ("prove", name, "--size", "2") for name in veridp.catalogue},
}


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Where two documents differ by more than rounding."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new} - VARYING):
            yield from differences(old.get(name), new.get(name), f"{place}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (mine, theirs) in enumerate(zip(old, new, strict=True)):
            yield from differences(mine, theirs, f"{place}/{index}")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=1e-7, abs_tol=1e-12):
            yield f"{place}: {old!r} before, {new!r} now"
    elif old != new:
        yield f"{place}: {old!r} before, {new!r} now"


def kept(document: Any) -> Any:
    """The document without what differs from machine to machine."""
    if isinstance(document, dict):
        return {name: kept(value) for name, value in document.items() if name not in VARYING and not low_bits(value)}
    return [kept(value) for value in document if not low_bits(value)] if isinstance(document, list) else document


def low_bits(value: Any) -> bool:
    """Whether this is what the low bits of logarithms tell, which the machine's own library computes."""
    return isinstance(value, dict) and ("faults" in value or value.get("engine") == "floats")


def printed(run: Run, words: tuple[str, ...]) -> dict[str, Any]:
    Path("release.yaml").write_text(RELEASE)
    Path("people.csv").write_text(PEOPLE)
    result = run(*words, "--json")
    if not result.out:  # no answer: the reason is one too
        return {"status": result.status, "reason": result.err.strip()}
    return {"status": result.status, **kept(result.document)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_it_printed_before(run: Run, name: str) -> None:
    found, file = json.loads(json.dumps(printed(run, COMMANDS[name]))), GOLDEN / f"{name}.json"
    if os.environ.get(WRITE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert list(differences(json.loads(file.read_text(encoding="utf-8")), found)) == []


def test_a_difference_is_found() -> None:
    old = {"a": [1.0, {"b": "x", "seconds": 3}], "c": None}
    assert list(differences(old, {"a": [1.0 + 1e-9, {"b": "x", "seconds": 4}], "c": None})) == []
    assert list(differences(old, {"a": [1.1, {"b": "y"}], "c": None})) == [
        "/a/0: 1.0 before, 1.1 now",
        "/a/1/b: 'x' before, 'y' now",
    ]
    assert list(differences(old, {"a": [1.0], "c": 0})) != []
