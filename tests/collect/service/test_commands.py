"""`veridp collect …`, as a user runs it."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url
from typer.main import get_command

from veridp.accounting.ledger import Ledger
from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.cli.collect import app
from veridp.collect import Client, MemoryVault, Task
from veridp.collect.attacks import new_session, play_honest
from veridp.collect.client import Record
from veridp.collect.messages import Challenge, Invitation, decode
from veridp.collect.service.http_client import Server, join, task_at
from veridp.collect.transcript import written
from veridp.errors import BadInput

ADMIN = "an admin token of the tests"


Command = Callable[..., Any]


@pytest.fixture
def veridp(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """A function that runs the command: what it prints (on stderr, if it cannot judge), or its results as JSON."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def command(*arguments: str, token: str = ADMIN, status: int = 0) -> Any:
        monkeypatch.setenv("VERIDP_ADMIN_TOKEN", token)
        monkeypatch.setenv("VERIDP_TOKEN", token)
        result = run("collect", *arguments)
        assert result.status == status, result.out + result.err
        if "--json" in arguments:
            return result.results
        return result.err if status == 2 else result.out

    return command


def test_a_collection_from_task_to_audit(veridp: Command, server: Any, tmp_path: Path) -> None:
    task = ["pets", "--server", server.url, "--mechanism", "vgrr", "--epsilon", "1.1", "--items", "cat, dog,fox"]
    tokens = veridp("task", *task, "--minimum-batch", "2", "--tokens", "2").split()
    assert len(set(tokens)) == 2
    assert veridp("task", *task, "--minimum-batch", "2") == ""  # again: nothing new
    assert "conflict" in veridp("task", *task, "--minimum-batch", "3", status=2)
    for number, token in enumerate(tokens):
        join = ["join", "pets", "dog", "--server", server.url, "--state", str(tmp_path / f"state{number}")]
        assert "say so with --epsilon" in veridp(*join, token=token, status=2)  # it costs more than 1
        join += ["--epsilon", "1.1"]
        assert veridp(*join, token=token).startswith("accepted; the receipt is in ")
        assert veridp(*join, "--json", token=token)[0]["accepted"]  # the verdict there was
    other_ledger = Ledger.create(tmp_path / "other.db", Claim(2.0))
    other_state = ["--server", server.url, "--state", str(tmp_path / "fresh"), "--epsilon", "1.1"]
    other_state += ["--ledger", str(other_ledger.path)]
    again = veridp("join", "pets", "cat", *other_state, token=tokens[0], status=1)
    assert "not accepted: second-commitment" in again  # one report for each token
    (from_server,) = veridp("estimate", "pets", "--server", server.url, "--json")
    (from_database,) = veridp("estimate", "pets", "--database", server.database, "--json")
    assert from_server == from_database
    assert from_server["accepted"] == 2
    assert from_server["epsilon"] <= 1.1

    log = tmp_path / "log"
    veridp("export", "pets", str(log), "--server", server.url)
    (audited,) = veridp("verify-log", str(log), "--json")
    assert audited["faults"] == 0
    assert audited["estimate"] == from_server["estimate"]
    assert "every session is as it should be" in veridp("verify-log", str(log))
    issued = tmp_path / "tokens"
    issued.write_text("\n".join(tokens))
    root = veridp("tokens-root", str(issued)).strip()
    assert audited["tokens_root"] == root
    mine = ["--state", str(tmp_path / "state0"), "--state", str(tmp_path / "state1"), "--tokens-root", root]
    assert "every session is as it should be" in veridp("verify-log", str(log), *mine)
    assert "not the published ones" in veridp("verify-log", str(log), "--tokens-root", "00" * 32, status=1)
    assert "state file" in veridp("verify-log", str(log), "--state", str(tmp_path / "none"), status=2)
    changed = bytearray(log.read_bytes())
    changed[-150] ^= 1  # in the last session, before the hashes of the tokens
    log.write_bytes(changed)
    assert "record" in veridp("verify-log", str(log), status=1)


def test_items_come_from_files_and_ranges(veridp: Command, server: Any, tmp_path: Path) -> None:
    listed = tmp_path / "items.txt"
    listed.write_text("a cat\na dog, or two\n\nfox\n", encoding="utf-8")
    for given, items in ((f"@{listed}", ("a cat", "a dog, or two", "fox")), ("8..11", ("8", "9", "10", "11"))):
        name = f"items-{len(items)}"
        veridp("task", name, "--server", server.url, "--mechanism", "vgrr", "--epsilon", "1", "--items", given)
        with Server(server.url, ADMIN, Deadline(60)) as asked:
            assert task_at(asked, name).items == items
    where = ["--server", server.url, "--mechanism", "vgrr", "--epsilon", "1"]
    assert "none.txt" in veridp("task", "none", *where, "--items", f"@{tmp_path}/none.txt", status=2)


def test_clients_that_should_not_take_part_do_not(veridp: Command, server: Any, tmp_path: Path) -> None:
    task = server.new_task()
    (token,) = server.put(task, 1)
    join = ["join", task.name, "bee", "--server", server.url, "--state", str(tmp_path / "state")]
    assert "not taking part" in veridp(*join, "--epsilon", "0.1", token=token, status=2)
    assert "not an item" in veridp("join", task.name, "yak", *join[3:], token=token, status=2)
    assert "unknown-token" in veridp(*join, token="another token", status=1)  # noqa: S106
    assert "is not available" in veridp(
        "join", task.name, "bee", "--server", "http://127.0.0.1:9", *join[5:], "--time", "1s", token=token, status=2
    )
    assert "server address" in veridp("join", task.name, "bee", "--server", "ftp://x", *join[5:], token=token, status=2)
    assert veridp(*join, token=token).startswith("accepted; the receipt")
    assert "no estimate: 1 reports" in veridp("estimate", task.name, "--server", server.url, status=1)
    assert "either" in veridp("estimate", task.name, status=2)
    missing = f"sqlite:///{tmp_path}/none.db"
    assert "there is no database" in veridp("estimate", task.name, "--database", missing, status=2)
    assert "there is no database" in veridp("export", task.name, str(tmp_path / "x"), "--database", missing, status=2)
    assert not (tmp_path / "none.db").exists()
    assert "unknown-task" in veridp("estimate", "none", "--server", server.url, status=2)


def test_a_state_file_is_good_for_one_task(veridp: Command, server: Any, tmp_path: Path) -> None:
    """The verdict of one task is not shown for another, and a wrong value does not use up a session."""
    task, other = server.new_task(), server.new_task()
    (token,), (second,) = server.put(task, 1), server.put(other, 1)
    state = ["--server", server.url, "--state", str(tmp_path / "state")]
    assert veridp("join", task.name, "bee", *state, token=token).startswith("accepted; the receipt")
    assert "separate state file" in veridp("join", other.name, "bee", *state, token=second, status=2)
    assert "not an item" in veridp("join", other.name, "yak", *state[:3], str(tmp_path / "new"), token=second, status=2)
    assert server.status(other)["pending_invited"] == 0


def test_one_person_does_not_report_without_limit(veridp: Command, server: Any, tmp_path: Path) -> None:
    """Reports to all tasks are paid from one ledger: of ε = 3, four reports of ln 2 are paid, and not a fifth."""
    tasks = [server.new_task() for _ in range(5)]

    def join(number: int, status: int, *options: str) -> str:
        (token,) = server.put(tasks[number], 1)
        where = ["--server", server.url, "--state", str(tmp_path / f"state{number}")]
        said: str = veridp("join", tasks[number].name, "bee", *where, *options, token=token, status=status)
        return said

    assert all(join(number, 0).startswith("accepted; the receipt") for number in range(4))
    assert "0.227411 is left" in join(4, 2)
    assert server.status(tasks[4])["pending_invited"] == 0  # it did not even ask for a session
    ledger = Ledger(tmp_path / "veridp" / "collect-ledger.db")
    assert len(ledger.statement().entries) == 4
    assert ledger.path.stat().st_mode & 0o077 == 0
    larger = Ledger.create(tmp_path / "larger.db", Claim(5.0))
    assert join(4, 0, "--ledger", str(larger.path)).startswith("accepted; the receipt")


@pytest.mark.slow
def test_tls_by_flags(tmp_path: Path) -> None:
    """A certificate of one's own; clients that trust it take part, others do not."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(certificate))
    made = subprocess.run(  # noqa: S603
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],  # noqa: S607
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("there is no openssl here to make a certificate")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(  # noqa: S603
        [
            *(sys.executable, "-m", "veridp.cli", "collect", "serve", "--port", str(port)),
            *("--tls-cert", str(certificate), "--tls-key", str(key), "--database", f"sqlite:///{tmp_path}/tls.db"),
        ],
        env={**os.environ, "VERIDP_ADMIN_TOKEN": ADMIN},
    )
    try:
        document = {"mechanism": "vgrr", "epsilon": 1.0, "items": ["a", "b"]}
        with Server(f"https://127.0.0.1:{port}", ADMIN, Deadline(60), certificate) as trusting:
            trusting.ask("PUT", "/tasks/safe", json.dumps(document).encode(), "application/json")
            assert task_at(trusting, "safe").items == ("a", "b")
        with (
            Server(f"https://127.0.0.1:{port}", ADMIN, Deadline(0.5)) as doubting,
            pytest.raises(BadInput, match=r"(?i)certificate"),
        ):
            task_at(doubting, "safe")
    finally:
        process.terminate()
        process.wait(20)


def test_serving_needs_a_token_and_both_files_of_tls(veridp: Command, tmp_path: Path) -> None:
    assert "16 characters" in veridp("serve", token="short", status=2)  # noqa: S106
    assert "belong together" in veridp("serve", "--tls-cert", str(tmp_path / "x"), status=2)
    assert "log" in veridp("verify-log", str(tmp_path / "none"), status=2)


def test_containers_and_units_start_the_server_as_it_is() -> None:
    """What `deploy/` runs is understood by today's command, and the files and secrets that it names are there."""
    deploy = Path(__file__).parents[3] / "deploy"

    commands: Any = get_command(app)

    def parsed(words: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = commands.commands["serve"].make_context("serve", words).params
        return found

    def line(start: str, text: str) -> str:
        (found,) = re.findall(rf"^{start}(.*)$", text, re.MULTILINE)
        return str(found)

    recipe = (deploy / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", recipe, re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (deploy.parent / name).exists()] == []
    hooks = tomllib.loads((deploy.parent / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    assert hooks["custom"].get("path", "hatch_build.py") in copied[0].split()  # or the build of the image ends here
    entry = json.loads(line("ENTRYPOINT ", recipe))
    assert entry[1:3] == ["collect", "serve"]
    assert parsed(entry[3:])["host"] == "0.0.0.0"  # noqa: S104  of a container

    composed = yaml.safe_load((deploy / "compose.yaml").read_text())
    server, database = composed["services"]["server"], composed["services"]["database"]
    assert {*server["secrets"], *database["secrets"]} == set(composed["secrets"])
    given = parsed(server["command"])
    assert make_url(given["database"]).host in server["depends_on"]
    assert make_url(given["database"]).username == database["environment"]["POSTGRES_USER"]
    files = [given[name] for name in ("token_file", "key_file", "signing_key_file")]
    assert {Path(file).name for file in files} <= set(server["secrets"])

    unit = (deploy / "veridp-collect.service").read_text()
    words = shlex.split(line("ExecStart=", unit))
    assert words[1:3] == ["collect", "serve"]
    assert parsed(words[3:])["database"] == "sqlite:///${STATE_DIRECTORY}/collect.db"


def test_the_bounds_come_first_where_clients_are_missing(veridp: Command, tmp_path: Path) -> None:
    """A log with a client that left after its challenge, and one without."""
    task, rng = Task("ages", "sr-ho", 1.0, low=0.0, high=1.0, minimum_batch=1, maximum_abort_rate=1.0), random.Random(1)
    stayed, left = play_honest(task, 1.0, rng), new_session(task, rng)
    client = Client(task.protocol, task.verifier, MemoryVault(), rng)
    left = left.committed(client.commit(left.invitation, 1.0), 0, task.verifier)
    log = tmp_path / "log"
    log.write_bytes(b"".join(written(task, 10_000, [stayed], [stayed.token])))
    plain = veridp("verify-log", str(log))
    assert "whatever" not in plain
    log.write_bytes(b"".join(written(task, 10_000, [stayed, left], sorted([stayed.token, left.token]))))
    with_left = " ".join(veridp("verify-log", str(log)).split())
    assert "did not send it: 1" in with_left
    assert with_left.index("whatever") < with_left.index("by chance")


def test_tasks_are_listed_closed_extended_and_deleted(veridp: Command, server: Any, tmp_path: Path) -> None:
    task, endless = server.new_task(expires=4_000_000_000), server.new_task(expires=(1 << 53) - 1)
    server.put(endless)
    tokens, url = server.put(task, 3), ("--server", server.url)

    def join(number: int, status: int = 0) -> str:
        state = ("--state", str(tmp_path / f"state{number}"))
        return str(veridp("join", task.name, "bee", *url, *state, token=tokens[number], status=status))

    join(0)
    assert "open; close it first" in veridp("delete", task.name, *url, "--yes", status=2)
    veridp("close", task.name, *url)
    assert "task-closed" in join(1, status=1)
    assert "make a task of another name" in veridp("extend", task.name, *url, "--until", "4000000001", status=2)
    veridp("extend", task.name, *url, "--until", "3999999999")
    assert "open until 3999999999 already" in veridp("extend", task.name, *url, "--until", "3999999998", status=2)
    assert join(1).startswith("accepted")
    (listed,) = [each for each in veridp("tasks", *url, "--json") if each["task"] == task.name]
    assert (listed["accepted"], listed["closes"]) == (2, 3_999_999_999)
    shown = veridp("tasks", *url)
    assert "2096-10-02 07:06:39 UTC" in shown
    assert "after the year 9999" in shown
    veridp("close", task.name, *url, "--at", "1")
    assert veridp("export", task.name, str(tmp_path / "log"), *url) == ""
    veridp("delete", task.name, *url, "--yes")
    assert "was deleted" in veridp("estimate", task.name, *url, status=2)
    assert "was deleted" in join(2, status=1)
    assert server.admin("PUT", f"/tasks/{task.name}", json.loads(task.to_json())).status_code == 410  # nor made again
    assert all(each["task"] != task.name for each in veridp("tasks", *url, "--json"))
    assert "2 accepted" in veridp("verify-log", str(tmp_path / "log"))


@pytest.mark.parametrize("ended", ["before it paid", "after it paid"])
def test_a_client_that_ended_when_it_paid_goes_on(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    """It ends before it sends its commitment. The budget has enough for one report, and this one is paid once."""
    task = server.new_task(minimum_batch=1)
    (token,) = server.put(task, 1)
    ledger, state = Ledger.create(tmp_path / "ledger.db", Claim(1.0)), tmp_path / "state"
    spend = Ledger.spend

    def killed(*given: Any) -> None:
        if ended == "after it paid":
            spend(*given)
        raise KeyboardInterrupt

    with Server(server.url, token, Deadline(60)) as asked:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "spend", killed)
            with pytest.raises(KeyboardInterrupt):
                join(asked, task.name, "cat", state, ledger)
        assert server.status(task)["pending_challenged"] == 0
        assert join(asked, task.name, "cat", state, ledger).accepted
    assert len(ledger.statement().entries) == 1
    assert server.status(task)["accepted"] == 1


def test_a_second_server_cannot_pass_its_report_off_as_paid(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the number of the client's session from a log, and invites to a session of the same number and task."""
    task, ledger = server.new_task(minimum_batch=1), Ledger.create(tmp_path / "ledger.db", Claim(2.0))
    first, second = server.put(task, 2)
    with Server(server.url, first, Deadline(60)) as asked:
        assert join(asked, task.name, "cat", tmp_path / "first", ledger).accepted
    session = decode(Record.unpacked((tmp_path / "first").read_bytes()).invitation, Invitation).session
    message = Server.message

    def of_second(self: Server, path: str, content: Any, kind: type[Any]) -> Any:
        if kind is Challenge:
            raise KeyboardInterrupt  # the commitment is under way
        return replace(message(self, path, content, kind), session=session)

    monkeypatch.setattr(Server, "message", of_second)
    with pytest.raises(KeyboardInterrupt), Server(server.url, second, Deadline(60)) as asked:
        join(asked, task.name, "cat", tmp_path / "second", ledger)
    assert len(ledger.statement().entries) == 2
