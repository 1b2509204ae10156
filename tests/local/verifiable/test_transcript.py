"""The log of a task, and an auditor who finds whatever was changed in it."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from veridp.errors import BadInput
from veridp.local.verifiable import Client, MemoryVault, Session, Task
from veridp.local.verifiable.played import new_session, play_honest
from veridp.local.verifiable.transcript import audit, written

NOW = 5000


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
    found = audit(io.BytesIO(b"".join(written(task, NOW, some))))
    assert found.good
    assert found.task == task
    assert (found.attendance.accepted, found.attendance.rejected, found.attendance.pending_invited) == (9, 1, 1)
    assert found.rejected == {"wrong-length": 1}
    assert found.outputs == [s.verdict.outputs for s in some[:9] if s.verdict]


def test_expiry_is_judged_at_the_time_of_the_log(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session = replace(new_session(task, random.Random(1)), expires=100)
    late = audit(io.BytesIO(b"".join(written(task, 100, [session])))).attendance
    early = audit(io.BytesIO(b"".join(written(task, 99, [session])))).attendance
    assert (late.expired_invited, late.pending_invited) == (1, 0)
    assert (early.expired_invited, early.pending_invited) == (0, 1)


FIELDS = ("id", "nonce", "promise", "expires", "stage", "reason", "commitment", "opening", "outputs")


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
        ("id", lambda v: 7, "record 0"),
    ],
)
def test_what_was_changed_is_found(
    small_task: Callable[..., Task], field: str, change: Callable[[Any], Any], complaint: str
) -> None:
    task = small_task("vgrr")
    pieces = list(written(task, NOW, [play_honest(task, "bee", random.Random(1))]))
    record = msgpack.unpackb(pieces[1])
    record[FIELDS.index(field)] = change(record[FIELDS.index(field)])
    found = audit(io.BytesIO(pieces[0] + msgpack.packb(record)))
    assert not found.good
    assert found.outputs == []
    assert complaint in found.faults[0]


def test_a_session_that_is_there_twice_is_found(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session = play_honest(task, "bee", random.Random(1))
    found = audit(io.BytesIO(b"".join(written(task, NOW, [session, session]))))
    assert "twice" in found.faults[0]


def test_another_definition_of_the_task_is_found(small_task: Callable[..., Task]) -> None:
    """All hashes are bound to the definition: a log cannot be passed off as that of a more private task."""
    task, other = small_task("vgrr"), small_task("vgrr", minimum_batch=7)
    pieces = list(written(task, NOW, [play_honest(task, "bee", random.Random(1))]))
    header = next(iter(written(other, NOW, [])))
    assert audit(io.BytesIO(header + pieces[1])).fault_count > 0


def test_a_log_that_breaks_off_is_found(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    log = b"".join(written(task, NOW, [play_honest(task, "bee", random.Random(1))]))
    cut = audit(io.BytesIO(log[:-3]))
    assert cut.attendance.accepted == 0
    with pytest.raises(BadInput, match="not a log"):
        audit(io.BytesIO(b"hello"))
    with pytest.raises(BadInput, match="not a log"):
        audit(io.BytesIO(b""))
    with pytest.raises(BadInput, match="form"):
        audit(io.BytesIO(msgpack.packb(["other", "{}", 1])))
