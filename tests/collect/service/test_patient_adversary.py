"""What an adversary with patience tries, from outside: each attack is one test, by HTTP, files and commands alone.

docs/collect.md lists them, with the tests that look closer.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn

from veridp.collect import Client, MemoryVault, Task
from veridp.collect.client import Record
from veridp.collect.messages import Challenge, Invitation, SessionVerdict, decode, encode
from veridp.collect.service.app import application
from veridp.collect.service.operations import ServiceSettings
from veridp.collect.service.store import token_hash
from veridp.local import Hadamard
from veridp.local.poisoning import RIA

ADMIN = "an admin token of the tests"
PATIENCE = 60.0
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def veridp(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs `veridp collect` with these words: its exit status, and all that it prints."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def command(*words: str, token: str = ADMIN) -> tuple[int, str]:
        monkeypatch.setenv("VERIDP_ADMIN_TOKEN", ADMIN)
        monkeypatch.setenv("VERIDP_TOKEN", token)
        result = run("collect", *words)
        return result.status, result.out + result.err

    return command


@pytest.fixture
def http(server: Any) -> Iterator[httpx.Client]:
    """Requests to the server."""
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as found:
        yield found


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[httpx.Client]:
    """Requests to a server in this process, whose clock a test may change, and whose database it may watch."""
    app = application(ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN))
    served = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=served.run)
    thread.start()
    while not served.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = served.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as found:
        yield found
    served.should_exit = True
    thread.join()


def put(http: httpx.Client, task: Task, clients: int) -> list[str]:
    """Create the task, with so many tokens."""
    tokens = [f"{task.name} {number}" for number in range(clients)]
    admin = {"Authorization": f"Bearer {ADMIN}"}
    hashes = {"hashes": [token_hash(token).hex() for token in tokens]}
    for address, document in (("", json.loads(task.to_json())), ("/tokens", hashes)):
        answer = http.put(f"/tasks/{task.name}{address}", json=document, headers=admin)
        assert answer.status_code == 200, answer.text
    return tokens


def status_of(http: httpx.Client, task: Task) -> dict[str, Any]:
    answer = http.get(f"/tasks/{task.name}/status", headers={"Authorization": f"Bearer {ADMIN}"})
    found: dict[str, Any] = answer.json()
    return found


def invited(http: httpx.Client, task: Task, token: str) -> tuple[Client, Invitation]:
    """A client with its invitation."""
    return Client(task.protocol, task.verifier, MemoryVault()), decode(ask(http, task, token, "session"), Invitation)


def challenged(http: httpx.Client, task: Task, token: str) -> tuple[Client, Challenge]:
    """A client that has committed to its first value, with its challenge."""
    client, invitation = invited(http, task, token)
    commit = client.commit(invitation, task.items[0] if task.items else task.low)
    return client, decode(ask(http, task, token, "commit", encode(commit)), Challenge)


def report(http: httpx.Client, task: Task, token: str) -> None:
    client, challenge = challenged(http, task, token)
    answer = ask(http, task, token, "open", encode(client.open(challenge)))
    assert decode(answer, SessionVerdict).accepted


def ask(http: httpx.Client, task: Task, token: str, step: str, content: bytes = b"") -> bytes:
    kind = {"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"}
    answer = http.post(f"/tasks/{task.name}/{step}", content=content, headers=kind)
    assert answer.status_code == 200, answer.text
    return answer.content


def database_of(server: Any) -> Path:
    return Path(server.database.removeprefix("sqlite:///"))


def test_shopping_for_a_hash_is_counted(inside: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five clients leave when they see their hash, and three report: an abort rate of 5/8, and nothing is published."""
    task = Task("pets", "volh", 1.0, items=("cat", "dog", "fox"), minimum_batch=1)
    tokens = put(inside, task, 8)
    for token in tokens[:3]:
        report(inside, task, token)
    for token in tokens[3:]:
        invited(inside, task, token)
    assert status_of(inside, task)["estimate"] is not None
    later = time.time() + task.session_seconds
    monkeypatch.setattr(time, "time", lambda: later)
    status = status_of(inside, task)
    assert status["abort_rate"] == 5 / 8
    assert status["estimate"] is None


def test_what_leads_is_what_holds_whoever_left(server: Any, http: httpx.Client, veridp: Command) -> None:
    """Of fourteen clients, two have seen their report and not sent it: the bounds come before the estimate."""
    task = server.new_task("sr-ho", minimum_batch=1, maximum_abort_rate=1.0)
    tokens = put(http, task, 14)
    for token in tokens[2:]:
        report(http, task, token)
    for token in tokens[:2]:
        challenged(http, task, token)
    (mean,) = status_of(http, task)["estimate"]
    status, out = veridp("estimate", task.name, "--server", server.url)
    assert status == 0
    row = next(line for line in out.splitlines() if "mean" in line)
    names = ("worst_lower", "worst_upper", "value", "lower", "upper")
    assert re.findall(r"-?\d[-\d.e]*", row) == [f"{mean[name]:.5g}" for name in names]
    words = " ".join(out.split())
    assert words.find("whatever they had") < words.find("by chance")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every instruction that SQLite takes in this process."""
    connect, found = sqlite3.dbapi2.connect, [0]

    def instruction() -> int:
        found[0] += 1
        return 0

    def counted(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.set_progress_handler(instruction, 1)
        return connection

    monkeypatch.setattr(sqlite3.dbapi2, "connect", counted)
    return found


def test_a_poll_does_not_read_all_reports(work: list[int], inside: httpx.Client) -> None:
    """SQLite takes as many instructions for a status where there are ten times as many reports, but for a few."""
    task = Task("pets", "vgrr", 1.0, items=("cat", "dog"), minimum_batch=1)
    tokens, found = put(inside, task, 33), []
    for some in (tokens[:3], tokens[3:]):
        for token in some:
            report(inside, task, token)
        polls = []
        for _ in range(3):  # of which one may meet the server's other work
            before = work[0]
            assert status_of(inside, task)["estimate"]
            polls.append(work[0] - before)
        found.append(min(polls))
    few, many = found
    assert 0 < many < few + 100


def test_who_reads_the_files_learns_no_nonce_before_it_is_sent(server: Any, http: httpx.Client) -> None:
    """Nor can anybody but the owner read them."""
    task = server.new_task()
    (token,) = put(http, task, 1)
    client, invitation = invited(http, task, token)
    file = database_of(server)
    assert {path.stat().st_mode & 0o777 for path in file.parent.glob("collect.db*")} == {0o600}
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as reader:
        tables = [name for (name,) in reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        stored = {value for table in tables for row in reader.execute(f"SELECT * FROM {table}") for value in row}  # noqa: S608
    assert invitation.promise in stored
    commit = encode(client.commit(invitation, "bee"))
    assert decode(ask(http, task, token, "commit", commit), Challenge).nonce not in stored


def test_how_a_collection_stands_is_not_told_without_a_token(server: Any, http: httpx.Client) -> None:
    task = server.new_task()
    put(http, task, 0)
    for address in ("/metrics", f"/tasks/{task.name}/status", f"/tasks/{task.name}/log", "/tasks"):
        assert http.get(address).status_code == 401, address


def test_a_client_gives_no_more_than_its_owner_allowed(
    server: Any, http: httpx.Client, veridp: Command, tmp_path: Path
) -> None:
    """No ε above the default unasked, no more than the budget over all tasks; after the verdict, no value."""
    dear = server.new_task(epsilon=2.0)
    (token,) = put(http, dear, 1)
    where = ("--server", server.url)
    assert veridp("join", dear.name, "bee", *where, "--state", str(tmp_path / "dear"), token=token)[0] == 2
    spent = []
    for number in range(5):
        task = server.new_task("sr-ho", epsilon=1.0, resolution=50)
        (token,) = put(http, task, 1)
        state = tmp_path / f"{number}.state"
        spent.append(veridp("join", task.name, "4", *where, "--state", str(state), token=token)[0])
    assert spent == [0, 0, 0, 2, 2]
    assert Record.unpacked((tmp_path / "0.state").read_bytes()).vector == ()


def test_a_dropped_session_is_seen_by_its_client_and_a_dropped_departure_by_an_earlier_head(
    server: Any, http: httpx.Client, veridp: Command, tmp_path: Path
) -> None:
    """The operator removes both wherever they count, and signs anew."""
    task, where = server.new_task(), ("--server", server.url)
    kept, left = put(http, task, 2)
    state, log, head = (str(tmp_path / name) for name in ("state", "log", "head"))
    assert veridp("join", task.name, "bee", *where, "--state", state, token=kept)[0] == 0
    _, departed = challenged(http, task, left)
    assert veridp("export", task.name, log, *where)[0] == 0
    status, document = veridp("head", task.name, *where)
    Path(head).write_text(document)
    assert status == 0
    assert veridp("verify-log", log, "--state", state, "--head", head)[0] == 0
    with closing(sqlite3.connect(database_of(server), timeout=PATIENCE)) as database, database:
        database.execute("DELETE FROM sessions WHERE id = ?", (departed.session,))
        for step in ("invited", "challenged"):
            mine = (task.name, step)
            database.execute("UPDATE tallies SET sessions = sessions - 1 WHERE task = ? AND step = ?", mine)
        database.execute("DELETE FROM tree_heads WHERE task = ?", (task.name,))
        database.execute("UPDATE sessions SET position = NULL, leaf = NULL WHERE task = ?", (task.name,))
        database.execute("INSERT INTO unlogged SELECT task, id FROM sessions WHERE task = ?", (task.name,))
    assert veridp("export", task.name, log, *where)[0] == 0
    assert veridp("verify-log", log)[0] == 0  # alone, it looks whole
    assert veridp("verify-log", log, "--head", head)[0] == 1
    with closing(sqlite3.connect(database_of(server), timeout=PATIENCE)) as database, database:
        for table in ("sessions", "tree_heads", "tallies", "unlogged"):
            database.execute(f"DELETE FROM {table} WHERE task = ?", (task.name,))  # noqa: S608
    assert veridp("export", task.name, log, *where)[0] == 0
    assert veridp("verify-log", log)[0] == 0
    assert veridp("verify-log", log, "--state", state)[0] == 1


def test_small_things_are_as_they_should_be(server: Any, http: httpx.Client, veridp: Command, tmp_path: Path) -> None:
    """Random inputs against Hadamard, items from files and ranges, and pages that nobody may frame."""
    attack, few = RIA(0.2, Hadamard(8, 1.0), (2, 5)), np.full(8, 1 / 8)
    assert attack.expected_gain(few) == pytest.approx(0.2 * (1 - 2 / 8))
    (tmp_path / "items").write_text("cat\ndog\n")
    for number, items in enumerate((f"@{tmp_path}/items", "17..90")):
        task = (f"small-{os.getpid()}-{number}", "--mechanism", "vgrr", "--epsilon", "1", "--items", items)
        assert veridp("task", *task, "--server", server.url)[0] == 0
        for page in ("live", "join"):
            policy = http.get(f"/tasks/{task[0]}/{page}").headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy, page
