"""The tree of decided sessions in the database, and what is asked of it over HTTP."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event, text

from veridp.accounting.ledger import Ledger
from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.collect import Client, FileVault, MemoryVault, Reason, Refused, Session, Task
from veridp.collect.client import Record
from veridp.collect.merkle import consistency_path, joined, leaf_hash, root_by_inclusion, tree_hash
from veridp.collect.messages import Invitation, decode
from veridp.collect.receipts import Receipt, StepCounts, TreeHead, entry_of
from veridp.collect.service import store, tree
from veridp.collect.service.database import Database
from veridp.collect.service.http_client import Server, fetch_receipt, join, newest_head
from veridp.collect.service.keys import NonceKeys, SigningKey
from veridp.collect.service.partitions import drop_some
from veridp.collect.transcript import Audit, audit
from veridp.errors import BadInput

TASK = Task("pets", "vgrr", 1.0, items=("cat", "dog", "fox"), minimum_batch=1)
ADMIN = "an admin token of the tests"
KEYS, KEY, NOW = NonceKeys((bytes(32),)), SigningKey(bytes(32)), 1000.0


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    found = Database.open(database)
    with found.writing() as connection:
        store.put_task(connection, TASK)
    yield found
    found.close()


def report(database: Database, numbers: range) -> None:
    """Decided sessions of clients with these numbers."""
    with database.writing() as connection:
        store.put_tokens(connection, TASK, [bytes([*number.to_bytes(4, "big"), *bytes(28)]) for number in numbers])
        for number in numbers:
            token = bytes([*number.to_bytes(4, "big"), *bytes(28)])
            client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(number))
            session = store.invite(connection, TASK, token, NOW, KEYS)
            commit = client.commit(session.invitation, "dog")
            session = store.put_commit(connection, TASK, token, commit, NOW, TASK.verifier, KEYS)
            store.put_opening(connection, TASK, token, client.open(session.challenge), NOW, TASK.verifier)


def test_it_grows_by_what_was_decided_and_every_session_has_a_receipt(opened: Database) -> None:
    heads = [grown(opened)]
    for numbers in (range(3), range(3, 63), range(63, 65), range(65, 130)):  # across the end of tiles, and two at once
        report(opened, numbers)
        heads.append(grown(opened))
        assert grown(opened) == heads[-1]  # nothing new: the same head
    assert [head.size for head in heads] == [0, 3, 63, 65, 130]
    with opened.reading() as connection:
        entries = [entry_of(session) for session in store.all_sessions(connection, TASK)]
        for head in heads:
            assert head.signed
            assert head.root == tree_hash(entries[: head.size])
        for number in (0, 2, 62, 63, 64, 100, 129):
            receipt = tree.receipt_of(connection, TASK, bytes([*number.to_bytes(4, "big"), *bytes(28)]))
            leaf = leaf_hash(entries[receipt.place])
            assert root_by_inclusion(leaf, receipt.place, receipt.head.size, receipt.path) == heads[-1].root
        for earlier in heads[1:]:
            path = tree.consistency_of(connection, TASK, earlier.size, 130)
            assert path == consistency_path(earlier.size, 130, of(entries))
            assert heads[-1].follows(earlier, path) is None
        for first, second in ((0, 5), (5, 3), (5, 131)):
            with pytest.raises(Refused, match="malformed"):
                tree.consistency_of(connection, TASK, first, second)


def grown(database: Database) -> TreeHead:
    with database.writing() as connection:
        return tree.grow(connection, TASK, KEY, lambda: NOW)


def of(entries: list[bytes]) -> Callable[[int, int], bytes]:
    def node(level: int, place: int) -> bytes:
        if level == 0:
            return leaf_hash(entries[place])
        return joined(node(level - 1, 2 * place), node(level - 1, 2 * place + 1))

    return node


def test_a_receipt_needs_a_verdict_and_a_place(opened: Database) -> None:
    report(opened, range(1))
    with opened.reading() as connection:
        with pytest.raises(Refused, match="not in the log yet"):
            tree.receipt_of(connection, TASK, bytes(32))
        with pytest.raises(Refused, match="before the verdict"):
            tree.receipt_of(connection, TASK, bytes([9]) * 32)


def test_a_new_key_signs_at_once(opened: Database) -> None:
    report(opened, range(2))
    grown(opened)
    with opened.writing() as connection:
        found = tree.grow(connection, TASK, SigningKey(bytes([7]) * 32), lambda: NOW)
    assert found.signed
    assert found.key != KEY.public


def test_heads_count_the_sessions_that_had_begun(opened: Database) -> None:
    """So none that its client left can be dropped later; a deletion, which forgets the counts, signs nothing."""
    report(opened, range(2))
    assert grown(opened).counts == StepCounts(2, 2)
    tokens = [bytes([7, number, *bytes(30)]) for number in range(3)]
    with opened.writing() as connection:
        store.put_tokens(connection, TASK, tokens)
        for token in tokens:
            session = store.invite(connection, TASK, token, NOW, KEYS)
    assert grown(opened).counts == StepCounts(5, 2)
    commit = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(1)).commit(session.invitation, "dog")
    with opened.writing() as connection:
        store.put_commit(connection, TASK, tokens[-1], commit, NOW, TASK.verifier, KEYS)
    last = grown(opened)
    assert (last.size, last.counts) == (2, StepCounts(5, 3))
    assert grown(opened) == last
    older = json.dumps(KEY.sign(replace(last, counts=None)).to_document())
    with opened.writer.begin() as connection:
        connection.execute(text("UPDATE tree_heads SET head = :head"), {"head": older})
    assert grown(opened) == last  # of an older server: signed anew
    with opened.writing() as connection:
        store.close_task(connection, TASK, 0)
        store.delete_task(connection, TASK, NOW)
    while opened.writer.dialect.name == "sqlite":
        with opened.writing() as connection:
            if not drop_some(connection):
                break
    for key in (KEY, SigningKey(bytes([1]) * 32)):  # a new key would sign that nobody had begun
        with opened.writing() as connection, pytest.raises(Refused, match="was deleted"):
            tree.grow(connection, TASK, key)
    with opened.reading() as connection:
        assert tree.head_of(connection, TASK) == last


def test_a_head_is_dated_after_the_sessions_that_it_counts(opened: Database) -> None:
    """Its server may have waited for another one: a date from before would accuse both of dropping sessions."""
    report(opened, range(1))
    asked: list[str] = []
    event.listen(opened.writer, "before_cursor_execute", lambda *found: asked.append(found[2]))

    def clock() -> float:
        asked.append("the time")
        return NOW

    with opened.writing() as connection:
        assert tree.grow(connection, TASK, KEY, clock).time == NOW
    read = [number for number, one in enumerate(asked) if "FROM tree_heads" in one or "CROSS JOIN tallies" in one]
    assert len(read) == 2
    assert max(read) < asked.index("the time")


def test_a_server_that_drops_who_left_is_caught(opened: Database) -> None:
    """Clients left after the challenge, which the server signs; later it hides one from the abort rate."""
    report(opened, range(2))
    left = [begun(opened, number) for number in range(2)]
    head = grown(opened)
    assert head.counts == StepCounts(4, 4)
    assert audited(opened, head).good
    with opened.writer.begin() as connection:
        connection.execute(text("DELETE FROM sessions WHERE id = :session"), {"session": left[0].context.session})
        connection.execute(text("UPDATE tallies SET sessions = sessions - 1 WHERE step IN ('invited', 'challenged')"))
    assert "some were removed" in " ".join(audited(opened).faults)
    with opened.writer.begin() as connection:
        connection.execute(text("DELETE FROM tree_heads"))
        connection.execute(text("DELETE FROM tree_nodes"))
        connection.execute(text("INSERT INTO unlogged SELECT task, id FROM sessions WHERE position IS NOT NULL"))
        connection.execute(text("UPDATE sessions SET position = NULL, leaf = NULL"))
    later = grown(opened)
    assert audited(opened).good  # alone, it looks whole
    assert "some were removed" in " ".join(audited(opened, head).faults)
    assert "some were removed" in str(later.follows(head, []))


def begun(database: Database, number: int) -> Session:
    """A session of a client that has seen its challenge."""
    token = bytes([7, number, *bytes(30)])
    client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(number))
    with database.writing() as connection:
        store.put_tokens(connection, TASK, [token])
        commit = client.commit(store.invite(connection, TASK, token, NOW, KEYS).invitation, "dog")
        return store.put_commit(connection, TASK, token, commit, NOW, TASK.verifier, KEYS)


def audited(database: Database, *heads: TreeHead) -> Audit:
    with database.reading() as connection:
        return audit(io.BytesIO(b"".join(tree.log_of(connection, TASK.name))), heads=heads)


def test_a_server_that_rewrites_its_log_is_caught(
    serving: Callable[..., Any], run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client with its receipt, somebody with an old head, and an auditor: each finds it."""
    file = tmp_path / "collect.db"
    served = serving(f"sqlite:///{file}")
    task, ledger = served.new_task(), Ledger.create(tmp_path / "ledger", Claim(100.0))
    tokens = served.put(task, 3)
    states = [tmp_path / f"{number}.state" for number in range(3)]
    for token, state in zip(tokens, states, strict=True):
        with Server(served.url, token, Deadline(120.0)) as server:
            assert join(server, task.name, "bee", state, ledger, 10.0).accepted
    record = Record.unpacked(states[1].read_bytes())
    assert Receipt.from_json(record.receipt).shows(record)

    def veridp(*arguments: str) -> tuple[int, str]:
        result = run("collect", *arguments)
        return result.status, result.out

    def exported() -> Path:
        assert veridp("export", task.name, str(tmp_path / "log"), "--server", served.url)[0] == 0
        return tmp_path / "log"

    monkeypatch.setenv("VERIDP_ADMIN_TOKEN", ADMIN)
    status, before = veridp("head", task.name, "--server", served.url)
    assert status == 0
    (tmp_path / "head").write_text(before)
    head, mine = str(tmp_path / "head"), [option for state in states for option in ("--state", str(state))]
    assert json.loads(before)["size"] == 3
    assert veridp("head", task.name, "--server", served.url, "--since", head)[0] == 0
    assert veridp("verify-log", str(exported()), "--head", head, *mine)[0] == 0
    assert veridp("verify-log", str(exported()), "--log-key", "00" * 32)[0] == 1
    served.stop()
    rewrite(f"sqlite:///{file}", decode(record.invitation, Invitation).session)
    served.start()
    status, found = veridp("head", task.name, "--server", served.url, "--since", head)
    assert status == 1
    assert "removed" in found
    log = str(exported())
    assert veridp("verify-log", log)[0] == 0  # alone, it looks whole
    for evidence in (["--head", head], ["--state", str(states[2])]):
        status, found = veridp("verify-log", log, *evidence)
        assert status == 1
        assert "removed" in found


def test_a_server_that_answers_nonsense_is_named() -> None:
    """Whatever it sends in the place of a path, or of a JSON document: it is refused, and nothing else goes wrong."""
    first, second = (KEY.sign(TreeHead(TASK.digest, n, n, bytes(32), KEY.public)) for n in (1, 2))
    answers = {"head": json.dumps(second.to_document())}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=answers[request.url.path.rpartition("/")[2]])

    with Server("http://test", "", Deadline(60.0)) as asked:
        asked._http.close()
        asked._http = httpx.Client(base_url="http://test", transport=httpx.MockTransport(answer))
        for nonsense in ("{}", "5", '{"path": 5}', '{"path": [7]}', '{"path": ["no digits"]}', '{"path": ["00"]}'):
            answers["consistency"] = nonsense
            with pytest.raises(Refused) as refused:
                newest_head(asked, TASK, first)
            assert refused.value.reason == Reason.BROKEN_PROMISE
        answers["head"] = "<p>not found</p>"
        with pytest.raises(BadInput, match="is it a server of veridp collect"):
            newest_head(asked, TASK, first)


def rewrite(url: str, session: bytes) -> None:
    """Remove a session, and begin the tree anew, as a server could that wants to hide it."""
    database = Database.open(url)
    with database.writer.begin() as connection:
        connection.execute(text("DELETE FROM sessions WHERE id = :session"), {"session": session})
        connection.execute(text("UPDATE sessions SET position = NULL, leaf = NULL"))
        connection.execute(text("DELETE FROM tree_heads"))
        connection.execute(text("DELETE FROM tree_nodes"))
        connection.execute(text("UPDATE tallies SET sessions = sessions - 1"))
    database.close()


def test_addresses_of_the_log(server: Any, tmp_path: Path) -> None:
    task, ledger = server.new_task(), Ledger.create(tmp_path / "ledger", Claim(100.0))
    (token,) = server.put(task, 1)
    url = f"{server.url}/tasks/{task.name}"
    assert httpx.get(f"{url}/head").json()["size"] == 0
    client = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{url}/receipt", headers=client).json()["reason"] == Reason.OUT_OF_ORDER
    assert httpx.get(f"{url}/receipt").status_code == 401
    with Server(server.url, token, Deadline(120.0)) as asked:
        join(asked, task.name, "bee", tmp_path / "state", ledger, 10.0)
        assert newest_head(asked, task).size == 1
        vault = FileVault(tmp_path / "state")
        forgetful = Client(task.protocol, task.verifier, vault)
        kept = forgetful.record
        forgetful.keep_receipt(b"")
        assert fetch_receipt(asked, task, forgetful).to_json().encode() == kept.receipt
        forgetful.keep_receipt(b"")
        vault.save(replace(forgetful.record, opening=bytes(32)).packed())
        with pytest.raises(Refused, match="not one for this session"):
            fetch_receipt(asked, task, Client(task.protocol, task.verifier, vault))
    for sizes in ("first=0&second=1", "first=1&second=2", "first=x&second=1", "first=1", "first=-1&second=1"):
        assert httpx.get(f"{url}/consistency?{sizes}").json()["reason"] == Reason.MALFORMED
    assert httpx.get(f"{url}/consistency?first=1&second=1").json() == {"path": []}
