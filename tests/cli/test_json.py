"""What --json prints: one document of one form, which the shipped schema describes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

Run = Callable[..., Any]  # gives the exit status, `out`, `err`, and `document` where it is JSON

RELEASE = """
release: {laplace: {epsilon: 0.5}}
delta: 1e-6
budget: {epsilon: 4, delta: 1e-6}
"""
MANY = ["--size", "2", "--time", "3"]
COMMANDS = [
    ["audit", "svt4", *MANY],
    ["audit", "svt5", "no_such_mechanism", *MANY],
    ["catalogue"],
    ["explore", "svt1", "--size", "2"],
    ["exact", "svt5", *MANY],
    ["exact", "gaussian", "--left", "[0]", "--right", "[1]"],
    ["prove", "svt4", *MANY, "--certificate", "proof.json"],
    ["prove", "svt1", "--sizes", "--size", "2"],
    ["statdp", "svt4", "--size", "2", "--samples", "2000", "--selection-samples", "500"],
    ["sniper", "svt4", *MANY, "--samples", "1000", "--final-samples", "2000", "--workers", "1"],
    ["finder", "svt4", *MANY, "--restarts", "2", "--workers", "1"],
    ["account", "laplace", "--no-attack", "--size", "1"],
    ["account", "release.yaml"],
    ["budget", "show", "ledger.db"],
    ["budget", "spend", "ledger.db", "--epsilon", "0.5"],
]


@pytest.fixture
def schema(run: Run) -> Any:
    return run("schema").document


def errors(schema: Any, document: Any) -> list[str]:
    found = Draft202012Validator(schema).iter_errors(document)
    return [f"{list(error.absolute_path)}: {error.message}" for error in found]


def test_the_schema_is_one(schema: Any) -> None:
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_prints_what_the_schema_says(run: Run, schema: Any, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "release.yaml").write_text(RELEASE)
    run("budget", "init", "ledger.db", "--epsilon", "1")
    document = run(*words, "--json").document
    named = " ".join(words[: 2 if words[0] == "budget" else 1])
    assert (document["version"], document["command"]) == (1, named)
    assert errors(schema, document) == []
    assert all(isinstance(result["target"], str) for result in document["results"])
    if "--certificate" in words:
        checked = run("check", "proof.json", "--json").document
        assert errors(schema, checked) == []
        assert checked["results"][0]["verified"] is True


def test_several_targets_and_one_have_the_same_form(run: Run) -> None:
    one, two = (run("audit", *names, "--size", "1", "--json").document for names in (["laplace"], ["laplace", "svt1"]))
    assert [result["target"] for result in one["results"]] == ["laplace"]
    assert [result["target"] for result in two["results"]] == ["laplace", "svt1"]
    assert one["results"][0]["standing"] == two["results"][0]["standing"] == "proved"


@pytest.mark.parametrize("others", [[], ["laplace"]])
def test_what_could_not_be_judged_has_a_standing_and_a_reason(run: Run, others: list[str]) -> None:
    result = run("audit", "nowhere.py:f", *others, "--size", "1", "--json")
    first = result.document["results"][0]
    assert (first["target"], first["standing"]) == ("nowhere.py:f", "unjudged")
    assert "no such file" in first["reason"]
    assert (result.status, result.err.count("\n")) == (2, 1)


def test_infinities_are_objects(run: Run) -> None:
    entries = {entry["name"]: entry for entry in run("catalogue", "--json").document["results"]}
    assert entries["svt5"]["true_epsilon"] == {"infinite": 1}
    verdict = run("audit", "gaussian", "--time", "3", "--json").document["results"][0]
    assert verdict["epsilon"]["upper"] == {"infinite": 1}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("command",), "audits"),
        (("results", 0, "target"), None),
        (("results", 0, "standing"), "fine"),
        (("results", 0, "epsilon", "upper"), "inf"),
        (("results", 0, "assumed", "colour"), "red"),
        (("results", 0, "witness", "left_probability"), [0.5]),
    ],
)
def test_the_schema_rejects_other_documents(run: Run, schema: Any, path: tuple[Any, ...], value: object) -> None:
    document = run("audit", "laplace", "--json").document
    assert errors(schema, document) == []
    changed = copy.deepcopy(document)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert errors(schema, changed) != []
