"""Receipts and signed heads: what a server that rewrites its log cannot hide."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veridp.collect import Client, MemoryVault, Session, Task
from veridp.collect.attacks import new_session
from veridp.collect.client import Record
from veridp.collect.merkle import inclusion_path, joined, leaf_hash, root_of
from veridp.collect.receipts import Receipt, StepCounts, TreeHead, entry_kept, entry_of
from veridp.collect.transcript import Audit, audit, written
from veridp.errors import BadInput

NOW = 500
KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2))


def played(task: Task, number: int) -> list[tuple[Session, Record]]:
    """Sessions as the server and as their clients have them."""
    found = []
    for client_number in range(number):
        rng = random.Random(client_number)
        vault = MemoryVault()
        client, session = Client(task.protocol, task.verifier, vault, rng), new_session(task, rng)
        session = replace(session, token=bytes([client_number]) * 32)
        session = session.committed(client.commit(session.invitation, "bee"), 0, task.verifier)
        session = session.opened(client.open(session.challenge), 0, task.verifier)
        assert session.verdict is not None
        client.finish(session.verdict)
        found.append((session, client.record))
    return found


def signed(
    task: Task,
    some: list[Session],
    key: Ed25519PrivateKey = KEY,
    counts: StepCounts | None = None,
    time: int = NOW,
) -> TreeHead:
    """The head that a server signs for these sessions."""
    public = key.public_key().public_bytes_raw()
    head = TreeHead(task.digest, len(some), time, root_of(len(some), nodes(some)), public, counts=counts)
    return replace(head, signature=key.sign(head.content))


def nodes(some: list[Session]) -> Callable[[int, int], bytes]:
    def node(level: int, place: int) -> bytes:
        if level == 0:
            return leaf_hash(entry_of(some[place]))
        return joined(node(level - 1, 2 * place), node(level - 1, 2 * place + 1))

    return node


def audited(task: Task, some: list[Session], head: TreeHead | None, closed_at: int = NOW, **given: Any) -> Audit:
    tokens = sorted({session.token for session in some})
    return audit(io.BytesIO(b"".join(written(task, closed_at, some, tokens, head))), **given)


def with_receipt(record: Record, place: int, some: list[Session]) -> Record:
    path = tuple(inclusion_path(place, len(some), nodes(some)))
    receipt = Receipt(place, path, signed(signed_task(record), some))
    assert receipt.shows(record)
    return replace(record, receipt=receipt.to_json().encode())


TASKS: dict[bytes, Task] = {}


def signed_task(record: Record) -> Task:
    return next(task for digest, task in TASKS.items() if digest in record.invitation)


@pytest.fixture
def task(small_task: Callable[..., Task]) -> Task:
    found = small_task("vgrr")
    TASKS[found.digest] = found
    return found


def test_client_and_server_have_the_same_entry(task: Task) -> None:
    for session, record in played(task, 3):
        assert entry_of(session) == entry_kept(record)
        assert Record.unpacked(record.packed()) == record
    with pytest.raises(ValueError, match="not decided"):
        entry_of(new_session(task, random.Random(0)))


def test_a_log_under_its_head_and_all_receipts_is_verified(task: Task) -> None:
    both = played(task, 5)
    some = [session for session, _ in both]
    own = [with_receipt(record, place, some) for place, (_, record) in enumerate(both)]
    waiting = new_session(task, random.Random(9))
    head = signed(task, some)
    found = audited(task, [*some, waiting], head, own=own, heads=[signed(task, some[:3])], key=head.key)
    assert found.good
    assert found.head == head


def test_what_a_server_does_to_a_signed_log_is_found(task: Task) -> None:
    both = played(task, 6)
    some = [session for session, _ in both]
    earlier = signed(task, some[:4])
    dropped, swapped = [some[0], *some[2:]], [some[1], some[0], *some[2:]]
    for what, rewritten in {"rewritten": dropped, "the log was rewritten": swapped, "removed": some[:3]}.items():
        found = audited(task, rewritten, signed(task, rewritten), heads=[earlier])
        assert what in " ".join(found.faults)
        assert audited(task, rewritten, signed(task, rewritten)).good  # without the earlier head nobody would know
        (_, record) = both[1]
        by_receipt = audited(task, rewritten, signed(task, rewritten), own=[with_receipt(record, 1, some[:4])])
        assert what in " ".join(by_receipt.faults)
    assert "no signed head" in audited(task, some, None, heads=[earlier]).faults[0]
    assert "different keys" in audited(task, some, signed(task, some, OTHER_KEY), heads=[earlier]).faults[0]
    assert "different keys" in audited(task, some, signed(task, some, OTHER_KEY), key=earlier.key).faults[0]
    assert "signed for 6 sessions" in audited(task, some[:5], signed(task, some)).faults[0]
    other = replace(task, name="other")
    assert "another task" in " ".join(audited(task, some, signed(task, some), heads=[signed(other, [])]).faults)


def left(task: Task, numbers: range, *, challenged: bool, expires: int = 100) -> list[Session]:
    """Sessions that clients left, which ended long before NOW."""
    found = []
    for number in numbers:
        rng = random.Random(1000 + number)
        client, session = Client(task.protocol, task.verifier, MemoryVault(), rng), new_session(task, rng)
        session = replace(session, token=bytes([number]) * 32, expires=expires)
        if challenged:
            session = session.committed(client.commit(session.invitation, "bee"), 0, task.verifier)
        found.append(session)
    return found


def test_sessions_that_clients_left_are_not_dropped_or_made_up_later(task: Task) -> None:
    """They are no entries of the tree, but count in the abort rate and in the bounds; heads bind how many they are."""
    some = [session for session, _ in played(task, 4)]
    silent, leavers = left(task, range(10, 12), challenged=False), left(task, range(20, 23), challenged=True)
    true, shown = StepCounts(9, 7), [*some, *silent, *leavers]
    head = signed(task, some, counts=true)
    found = audited(task, shown, head)
    assert found.good, found.faults
    assert (found.attendance.expired_challenged, found.attendance.expired_invited) == (3, 2)
    begun_since = left(task, range(30, 33), challenged=True, expires=NOW + 30)
    assert audited(task, [*shown, *begun_since], head).good
    assert audited(task, shown, head, heads=[signed(task, some[:2])]).good  # a head of an older server

    disguised = [replace(each, commit=None, nonce=b"") for each in leavers]  # as if they had never seen their report
    removed = {"one of them": shown[:-1], "what they knew": [*some, *silent, *disguised]}
    for what, rewritten in removed.items():
        number = StepCounts(len(rewritten), len(rewritten) - sum(each.commit is None for each in rewritten))
        assert "some were removed" in " ".join(audited(task, rewritten, head).faults), what
        later = signed(task, some, counts=number)
        assert audited(task, rewritten, later).good  # without the earlier head nobody would know
        assert "some were removed" in " ".join(audited(task, rewritten, later, heads=[head]).faults), what
        assert "some were removed" in str(later.follows(head, [])), what
    delayed = [*some, *silent, *(replace(each, expires=NOW + 2000) for each in leavers)]  # as if they were under way
    at_last = signed(task, some, counts=true, time=NOW + 1500)
    assert audited(task, delayed, at_last, closed_at=NOW + 1500).attendance.pending_challenged == 3
    assert "some were removed" in " ".join(audited(task, delayed, at_last, heads=[head], closed_at=NOW + 1500).faults)
    for more in (left(task, range(40, 41), challenged=True), left(task, range(40, 41), challenged=False)):
        assert "some were added" in " ".join(audited(task, [*shown, *more], head).faults)
    early = signed(task, some, counts=true, time=NOW + 1000)
    assert "after the log was written" in " ".join(audited(task, shown, early).faults)
    assert "some were removed" in str(signed(task, some).follows(head, []))
    assert signed(task, some, counts=StepCounts(10, 7)).follows(head, []) is None
    assert head.follows(signed(task, some), []) is None


def test_a_receipt_is_for_one_session_alone(task: Task) -> None:
    both = played(task, 4)
    some = [session for session, _ in both]
    record = with_receipt(both[2][1], 2, some)
    receipt = Receipt.from_json(record.receipt)
    assert not receipt.shows(both[1][1])
    assert not receipt.shows(replace(record, verdict=both[1][1].verdict))
    assert not replace(receipt, place=3).shows(record)
    assert not replace(receipt, path=receipt.path[:-1]).shows(record)
    stolen = replace(both[1][1], receipt=record.receipt)
    assert "is not one for the session" in " ".join(audited(task, some, signed(task, some), own=[stolen]).faults)


def test_heads_and_receipts_that_are_not_genuine_are_refused(task: Task) -> None:
    some = [session for session, _ in played(task, 2)]
    document = signed(task, some).to_document()
    assert TreeHead.from_json(json.dumps(document)) == signed(task, some)
    for change in ({"size": 3}, {"time": 1}, {"root": bytes(32).hex()}, {"key": bytes(32).hex()}, {"task": "00" * 32}):
        with pytest.raises(BadInput, match="not signed"):
            TreeHead.from_document({**document, **change})
    counted = signed(task, some, counts=StepCounts(5, 3))
    assert TreeHead.from_document(counted.to_document()) == counted
    for more in ({"begun": 4}, {"challenged": 2}):
        with pytest.raises(BadInput, match="not signed"):
            TreeHead.from_document({**counted.to_document(), **more})
    uncounted = {name: part for name, part in counted.to_document().items() if name not in ("begun", "challenged")}
    with pytest.raises(BadInput, match="not signed"):
        TreeHead.from_document(uncounted)
    with pytest.raises(BadInput, match="not the head of a log"):
        TreeHead.from_document({**counted.to_document(), "begun": -1})
    for wrong in ("", "[]", "{}", "null", json.dumps({**document, "size": True}), json.dumps({**document, "root": 1})):
        with pytest.raises(BadInput, match="not the head of a log"):
            TreeHead.from_json(wrong)
        with pytest.raises(BadInput, match="not a receipt"):
            Receipt.from_json(wrong)
    with pytest.raises(BadInput, match="not the head of a log"):
        Receipt.from_document({"place": 0, "path": []})


def test_heads_follow_each_other_by_a_path(task: Task) -> None:
    some = [session for session, _ in played(task, 3)]
    first, last = signed(task, some[:1]), signed(task, some)
    assert last.follows(last, []) is None
    assert "removed" in str(first.follows(last, []))
    assert "rewritten" in str(last.follows(first, []))
    assert "different keys" in str(signed(task, some, OTHER_KEY).follows(first, []))
