"""What --json prints: one document of one form, which the shipped schema describes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from jsonschema import Draft202012Validator

from veridp.cli import app

Run = Callable[..., Any]  # gives the exit status, `out`, `err`, and `document`, checked against the schema

RELEASE = """
release: {laplace: {epsilon: 0.5}}
delta: 1e-6
budget: {epsilon: 4, delta: 1e-6}
"""
MANY = ["--size", "2", "--time", "600"]
PEOPLE = ["people.csv", "--column", "age", "--range", "0,100", "--epsilon", "1"]
LABELS = ["--epsilon", "1", "--values", "red,blue", "--oracle", "grr"]
COMMANDS = [
    (["audit", "svt4", *MANY], 1),
    (["audit", "svt5", "no_such_mechanism", *MANY], 1),
    (["scan", "code.py", "--list"], 0),
    (["cache"], 0),
    (["catalogue"], 0),
    (["explore", "svt1", "--size", "2"], 0),
    (["exact", "svt5", *MANY], 1),
    (["exact", "gaussian", "--left", "[0]", "--right", "[1]", "--notions"], 0),
    (["prove", "svt4", *MANY], 1),
    (["prove", "svt1", "--sizes", "--size", "2"], 0),
    (["check", "proof.json"], 0),
    (["check", "proof.json", "--target", "laplace", "--runs", "20"], 0),
    (["check", "proof.json", "--target", "svt1", "--runs", "20"], 1),
    (["check", "forged.json"], 1),
    (["statdp", "svt4", "--size", "2", "--samples", "2000", "--selection-samples", "500"], 0),
    (["sniper", "svt4", *MANY, "--samples", "1000", "--final-samples", "2000", "--workers", "1"], 0),
    (["finder", "svt4", *MANY, "--restarts", "2", "--workers", "1"], 1),
    (["pipeline", "laplace", "--left", "[0]", "--right", "[1]"], 0),
    (["account", "laplace", "--no-attack", "--size", "1"], 1),
    (["account", "release.yaml"], 0),
    (["budget", "show", "ledger.db"], 0),
    (["budget", "spend", "ledger.db", "--epsilon", "0.5"], 0),
    (["local", "aggregate", "reports.csv", *LABELS], 0),
    (["local", "estimate", "counts.json"], 0),
    (["local", "attack", *PEOPLE, "--oracle", "sr", "--attack", "opa"], 0),
    (["local", "evaluate", "--data", "people.csv", "--column", "age", "--quick", "--repetitions", "2"], 0),
    (["collect", "tasks", "--server", "http://127.0.0.1:9"], 0),
    (["collect", "join", "pets", "dog", "--server", "http://127.0.0.1:9", "--state", "state"], 0),
    (["collect", "join", "pets", "cat", "--server", "http://127.0.0.1:9", "--state", "state"], 1),
    (["collect", "estimate", "pets", "--database", "sqlite:///collect.db"], 1),
    (["collect", "verify-log", "log"], 0),
]


def named(words: list[str]) -> str:
    return " ".join(words[: 2 if words[0] in ("budget", "local", "collect") else 1])


MADE_BY = {
    "ledger.db": ["budget", "init", "ledger.db", "--epsilon", "1"],
    "proof.json": ["prove", "laplace", "--size", "1", "--certificate", "proof.json"],
    "counts.json": ["local", "aggregate", "reports.csv", *LABELS, "-o", "counts.json"],
    "log": ["collect", "export", "pets", "log", "--database", "sqlite:///collect.db"],
}


@pytest.fixture
def files(own_folder: Path) -> None:
    """What the commands read."""
    (own_folder / "release.yaml").write_text(RELEASE)
    (own_folder / "code.py").write_text("def noisy(rng, data):\n    return data[0] + rng.laplace()\n")
    (own_folder / "people.csv").write_text("age\n" + "20\n30\n40\n" * 10)
    (own_folder / "reports.csv").write_text("report\n0\n1\n1\n")


@pytest.fixture
def collection(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of a collection, and a server that accepts dogs."""
    from veridp.collect import Task
    from veridp.collect.messages import Reason, Refused, SessionVerdict
    from veridp.collect.service import http_client as joining
    from veridp.collect.service import store
    from veridp.collect.service.database import Database

    def join(server: object, name: str, value: str, *_: object) -> SessionVerdict:
        if value != "dog":
            raise Refused(Reason.UNKNOWN_TOKEN, "another one")
        return SessionVerdict(b"", b"", True, "", (1,))

    def ask(*_: object) -> httpx.Response:
        task = {"task": "pets", "mechanism": "vgrr", "epsilon": 1.0, "closes": 2_000_000_000, "accepted": 3}
        return httpx.Response(200, json={"tasks": [task]})

    monkeypatch.setattr(joining, "join", join)
    monkeypatch.setattr(joining.Server, "ask", ask)
    monkeypatch.setenv("VERIDP_ADMIN_TOKEN", "an admin token of the tests")
    monkeypatch.setenv("XDG_STATE_HOME", str(own_folder))
    monkeypatch.setenv("VERIDP_TOKEN", "a token of the tests")
    database = Database.open("sqlite:///collect.db")
    with database.writer.begin() as connection:
        store.put_task(connection, Task("pets", "vgrr", 1.0, items=("cat", "dog")))
    database.close()


@pytest.mark.parametrize(("words", "status"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_every_command_prints_what_the_schema_says(
    run: Run,
    files: None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    status: int,
) -> None:
    if words[0] == "cache":
        monkeypatch.setenv("VERIDP_CACHE", "kept")
    if words[0] == "collect":
        request.getfixturevalue("collection")
    if "forged.json" in words:
        assert run(*MADE_BY["proof.json"]).status == 0
        forged = Path("proof.json").read_text().replace('"epsilon": "1/10"', '"epsilon": "1/20"')
        Path("forged.json").write_text(forged)
    for made in [making for name, making in MADE_BY.items() if name in words]:
        assert run(*made).status == 0
    always = named(words) == "local aggregate"  # prints JSON, asked or not
    result = run(*words, *([] if always else ["--json"]))
    document = result.document
    assert (document["version"], document["command"], result.status) == (1, named(words), status)
    assert document["results"]
    assert all(isinstance(found["target"], str) for found in document["results"])


def with_json(group: Any, *path: str) -> Iterator[str]:
    """The commands that have --json."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from with_json(command, *path, name)
        elif any("--json" in option.opts for option in command.params):
            yield " ".join([*path, name])


def test_no_command_is_forgotten(run: Run) -> None:
    known = json.loads(run("schema").out)["properties"]["command"]["enum"]
    assert {named(words) for words, _ in COMMANDS} == set(known)
    assert {*with_json(typer.main.get_command(app)), "local aggregate"} == set(known)


def test_the_schema_is_one(run: Run) -> None:
    Draft202012Validator.check_schema(json.loads(run("schema").out))


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
    verdict = run("audit", "svt5", "--size", "2", "--time", "60", "--json").document["results"][0]
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
def test_the_schema_rejects_other_documents(run: Run, path: tuple[Any, ...], value: object) -> None:
    document = run("audit", "laplace", "--json").document
    accepts = Draft202012Validator(json.loads(run("schema").out)).is_valid
    assert accepts(document)
    changed = copy.deepcopy(document)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not accepts(changed)
