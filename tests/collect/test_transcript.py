"""The log of a task, and an auditor who finds whatever was changed in it."""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.collect import Client, MemoryVault, Session, Task, transcript
from veridp.collect.attacks import new_session, play_honest
from veridp.collect.client import Record
from veridp.collect.transcript import audit, tokens_root, written
from veridp.errors import BadInput

NOW = 500


def pieces_of(task: Task, now: int, some: list[Session]) -> Iterator[bytes]:
    """The log of these sessions, whose tokens are all there are."""
    return written(task, now, some, sorted({session.token for session in some}))


def sessions(task: Task, example: Callable[[Task], object]) -> list[Session]:
    """Nine that were accepted, one that was rejected and one that was invited."""
    rng = random.Random(2)
    found = [play_honest(task, example(task), rng) for _ in range(9)]
    client, session = Client(task.protocol, task.verifier, MemoryVault(), rng), new_session(task, rng)
    challenged = session.committed(client.commit(session.invitation, example(task)), 0, task.verifier)
    opening = client.open(challenged.challenge)
    rejected = challenged.opened(replace(opening, proof=b"x"), 0, task.verifier)
    return [*found, rejected, new_session(task, rng)]


def test_a_true_log_is_verified(task: Task, example: Callable[[Task], object]) -> None:
    some = sessions(task, example)
    found = audit(io.BytesIO(b"".join(pieces_of(task, NOW, some))))
    assert found.good
    assert found.task == task
    assert (found.attendance.accepted, found.attendance.rejected, found.attendance.pending_invited) == (9, 1, 1)
    assert found.rejected == {"wrong-length": 1}
    assert found.outputs == [s.verdict.outputs for s in some[:9] if s.verdict]


class Elsewhere(Executor):
    """Runs what it is given as another process would: on copies, and after what it was given before."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))  # noqa: S301
        found: Future[Any] = Future()
        found.set_result(pickle.loads(pickle.dumps(function(*arguments))))  # noqa: S301
        return found


def test_an_audit_by_many_processes_finds_the_same(
    task: Task, example: Callable[[Task], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log with a session that occurs twice, one that was changed, and one that is none; parts of 3, 2 at a time."""
    monkeypatch.setattr(transcript, "RECORDS_TOGETHER", 3)
    monkeypatch.setattr(transcript, "MOST_PARTS_AHEAD", 2)
    some = sessions(task, example)
    head, *records, tokens, _ = pieces_of(task, NOW, [*some, some[0]])
    changed = msgpack.unpackb(records[4])
    changed[1] = bytes(32)
    records[4:5] = [msgpack.packb(changed), msgpack.packb([1, 2])]
    log = b"".join((head, *records, tokens, msgpack.packb(len(records))))
    alone, together = audit(io.BytesIO(log)), audit(io.BytesIO(log), executor=Elsewhere())
    assert alone == together
    assert alone.faults[0].startswith("record 4, ")
    assert any("record 12" in fault and "occurs twice" in fault for fault in alone.faults)
    assert any(fault.startswith("record 5: ") for fault in alone.faults)
    assert alone.attendance.accepted == 8


def test_expiry_is_judged_at_the_time_of_the_log(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session = replace(new_session(task, random.Random(1)), expires=100)
    late = audit(io.BytesIO(b"".join(pieces_of(task, 100, [session])))).attendance
    early = audit(io.BytesIO(b"".join(pieces_of(task, 99, [session])))).attendance
    assert (late.expired_invited, late.pending_invited) == (1, 0)
    assert (early.expired_invited, early.pending_invited) == (0, 1)


FIELDS = ("id", "nonce", "promise", "expires", "stage", "reason", "commitment", "opening", "outputs", "token")


@pytest.mark.parametrize(
    ("field", "change", "complaint"),
    [
        ("outputs", lambda v: [(v[0] + 1) % 5], "the verdict is accepted with"),
        ("nonce", lambda v: bytes(32), "the nonce is not the promised one"),
        ("promise", lambda v: bytes(32), "the nonce is not the promised one"),
        ("commitment", lambda v: bytes(32), "should be rejected"),
        ("stage", lambda v: "rejected", "the verdict is rejected"),
        ("stage", lambda v: "nonsense", "nonsense"),
        ("opening", lambda v: None, "without a commitment and an opening"),
        ("opening", lambda v: b"x", "malformed"),
        ("id", lambda v: bytes(16), "session"),
        ("id", lambda v: 7, "wrong type"),
        ("id", lambda v: v[:-1], "wrong length"),
        ("reason", lambda v: [1], "wrong type"),
        ("reason", lambda v: "because", "should be accepted"),
        ("commitment", lambda v: "text", "wrong type"),
        ("commitment", lambda v: None, "without a commitment and an opening"),
        ("outputs", lambda v: 3, "wrong type"),
        ("stage", lambda v: "challenged", "does not match a session"),
        ("stage", lambda v: "invited", "does not match a session"),
        ("expires", lambda v: NOW + 661, "for longer than the task lets it"),
        ("token", lambda v: "text", "wrong type"),
    ],
)
def test_what_was_changed_is_found(
    small_task: Callable[..., Task], field: str, change: Callable[[Any], Any], complaint: str
) -> None:
    task = small_task("vgrr")
    pieces = list(pieces_of(task, NOW, [play_honest(task, "bee", random.Random(1))]))
    record = msgpack.unpackb(pieces[1])
    record[FIELDS.index(field)] = change(record[FIELDS.index(field)])
    found = audit(io.BytesIO(pieces[0] + msgpack.packb(record) + b"".join(pieces[2:])))
    assert not found.good
    assert found.outputs == []
    assert complaint in found.faults[0]


def test_a_session_that_is_there_twice_is_found(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session = play_honest(task, "bee", random.Random(1))
    found = audit(io.BytesIO(b"".join(pieces_of(task, NOW, [session, session]))))
    assert "twice" in found.faults[0]


def test_another_definition_of_the_task_is_found(small_task: Callable[..., Task]) -> None:
    """All hashes are bound to the definition: a log cannot be passed off as that of a more private task."""
    task, other = small_task("vgrr"), small_task("vgrr", minimum_batch=7)
    pieces = list(pieces_of(task, NOW, [play_honest(task, "bee", random.Random(1))]))
    header = next(iter(pieces_of(other, NOW, [])))
    assert audit(io.BytesIO(header + pieces[1])).fault_count > 0


def test_a_log_that_breaks_off_is_found(small_task: Callable[..., Task]) -> None:
    """Wherever it is cut, between records as well."""
    task, rng = small_task("vgrr"), random.Random(1)
    log = b"".join(pieces_of(task, NOW, [play_honest(task, "bee", rng) for _ in range(2)]))
    header = len(next(iter(pieces_of(task, NOW, []))))
    assert audit(io.BytesIO(log)).good
    for end in range(header, len(log)):
        cut = audit(io.BytesIO(log[:end]))
        assert any("breaks off" in fault for fault in cut.faults)
        assert cut.attendance.accepted == len(cut.outputs)
    for more in (b"\x02", log[header:]):
        assert "ends after 2 sessions" in audit(io.BytesIO(log + more)).faults[0]
    for other in (b"hello", b""):
        with pytest.raises(BadInput, match="not a log"):
            audit(io.BytesIO(other))
    with pytest.raises(BadInput, match="form"):
        audit(io.BytesIO(msgpack.packb(["other", "{}", 1])))


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats() | st.binary(max_size=40) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_whatever_a_log_holds_the_auditor_answers(data: st.DataObject) -> None:
    """Any value in the place of any part, or any byte changed: there is a fault, or the same was reported."""
    task = Task("small", "vgrr", 1.0, items=("ant", "bee", "cat"))
    honest, begun = play_honest(task, "bee", random.Random(1)), new_session(task, random.Random(2))
    pieces = list(pieces_of(task, NOW, [honest, begun]))
    which = data.draw(st.integers(1, 2))
    if data.draw(st.booleans()):
        record = msgpack.unpackb(pieces[which])
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(PARTS)
        pieces[which] = msgpack.packb(record)
    else:
        changed = bytearray(pieces[which])
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
        pieces[which] = bytes(changed)
    found = audit(io.BytesIO(b"".join(pieces)))
    assert honest.verdict is not None
    assert not found.good or found.outputs == [honest.verdict.outputs]
    assert found.attendance.accepted == len(found.outputs) == sum(found.support)


# ------------------------------------------------------------------------------------------- dropped and invented
# What a log alone cannot show: the clients' state files and the tokens that were published before the collection do.


def kept_by_clients(task: Task, number: int, rng: random.Random) -> list[tuple[Session, Record]]:
    """Decided sessions, each with what its client keeps of it after the verdict."""
    found = []
    for _ in range(number):
        session, vault = new_session(task, rng), MemoryVault()
        client = Client(task.protocol, task.verifier, vault, rng)
        session = session.committed(client.commit(session.invitation, "bee"), 0, task.verifier)
        session = session.opened(client.open(session.challenge), 0, task.verifier)
        assert session.verdict is not None
        client.finish(session.verdict)
        assert vault.record is not None
        found.append((session, Record.unpacked(vault.record)))
    return found


def test_a_client_finds_that_its_session_was_left_out_or_replaced(small_task: Callable[..., Task]) -> None:
    task, rng = small_task("vgrr"), random.Random(3)
    (first, own), (second, others) = kept_by_clients(task, 2, rng)

    def faults(sessions: list[Session], *records: Record) -> list[str]:
        return audit(io.BytesIO(b"".join(pieces_of(task, NOW, sessions))), records).faults

    assert faults([first, second], own, others) == []
    assert faults([second]) == []  # nobody who looks is missing
    (left_out,) = faults([second], own)
    assert "left out" in left_out
    assert first.context.session.hex() in left_out
    forged = Client(task.protocol, task.verifier, MemoryVault(), rng)  # the server plays the client's part
    invited = replace(first, commit=None, opening=None, verdict=None)
    replaced = invited.committed(forged.commit(invited.invitation, "elk"), 0, task.verifier)
    replaced = replaced.opened(forged.open(replaced.challenge), 0, task.verifier)
    assert faults([replaced, second]) == []
    assert any("another commitment" in fault for fault in faults([replaced, second], own))
    challenged = replace(first, opening=None, verdict=None)
    assert any("another verdict" in fault for fault in faults([challenged, second], own))
    denied = replace(first, commit=None, opening=None, verdict=None)
    assert any("another commitment" in fault for fault in faults([denied], own))
    (moved,) = faults([replace(first, expires=first.expires - 1), second], own, others)  # by which heads count it
    assert "until another time" in moved


def test_sessions_that_nobody_was_invited_to_are_found(small_task: Callable[..., Task]) -> None:
    """The server makes up sessions without a token, with one twice, or with tokens added after they were published."""
    task, rng = small_task("vgrr"), random.Random(4)
    honest, invented = (play_honest(task, "bee", rng) for _ in range(2))
    issued = sorted([honest.token, rng.randbytes(32)])
    root = tokens_root(issued)

    def found(sessions: list[Session], tokens: list[bytes]) -> list[str]:
        return audit(io.BytesIO(b"".join(written(task, NOW, sessions, tokens))), (), root.upper()).faults

    assert found([honest], issued) == []
    assert "not issued: 1" in found([honest, invented], issued)[0]
    assert "another one has: 1" in found([honest, replace(invented, token=honest.token)], issued)[0]
    assert "not the published ones" in found([honest, invented], sorted([*issued, invented.token]))[0]
    assert "not the published ones" in found([honest], [honest.token])[0]
    assert "order" in found([honest], issued[::-1])[0]
    assert found([honest, invented], sorted({*issued, invented.token}))  # whatever else, not without a fault
    many = [rng.randbytes(32) for _ in range(2500)]  # in several pieces
    whole = audit(io.BytesIO(b"".join(written(task, NOW, [], sorted(many)))))
    assert (whole.good, whole.tokens_root) == (True, tokens_root(many))


def test_logs_of_old_formats_are_read(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    pieces = list(pieces_of(task, NOW, [play_honest(task, "bee", random.Random(1))]))
    header, record = (msgpack.unpackb(piece) for piece in pieces[:2])
    for name in ("veridp log 1", "veridp log 2"):
        old = msgpack.packb([name, *header[1:]]) + msgpack.packb(record[:-1]) + pieces[-1]
        found = audit(io.BytesIO(old))
        assert found.good
        assert found.tokens_root is None
        assert "old format" in audit(io.BytesIO(old), (), "00").faults[0]
