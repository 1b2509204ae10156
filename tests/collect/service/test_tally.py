"""Running sums are what counting the sessions would give, and cost the same however many sessions there are."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, text

from veridp.collect import Client, MemoryVault, Task
from veridp.collect import estimate as estimates
from veridp.collect.service import store
from veridp.collect.service.background import Known
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys
from veridp.collect.service.operations import status_of
from veridp.collect.service.tally import KEPT_SECONDS, forget_expired, standing, standings, support
from veridp.collect.task import SessionStage

KEYS = NonceKeys((bytes(32),))
STEPS = 4  # a session may be left after any of them: not begun, invited, challenged, decided


def play(database: Database, task: Task, token: bytes, steps: int, when: float, rng: random.Random) -> None:
    """Take a client so far; every fifth opening is wrong."""
    client = Client(task.protocol, task.verifier, MemoryVault(), rng)
    with database.writing() as connection:
        store.put_tokens(connection, task, [token])
        if steps < 1:
            return
        session = store.invite(connection, task, token, when, KEYS)
        if steps < 2:
            return
        commit = client.commit(session.invitation, task.items[0] if task.items else task.low)
        session = store.put_commit(connection, task, token, commit, when, Known(), KEYS)
        store.put_commit(connection, task, token, commit, when, Known(), KEYS)  # sent again, counted once
        if steps < 3:
            return
        opening = client.open(session.challenge)
        if rng.random() < 0.2:
            opening = replace(opening, proof=b"")
        for _ in range(2):
            store.put_opening(connection, task, token, opening, when, task.verifier)


def test_running_sums_are_what_the_sessions_add_up_to(database: str, small_task: Callable[..., Task]) -> None:
    """Sessions of three tasks that stop anywhere, written by three processes in turns, on two shards."""
    tasks = [small_task(name, name=name) for name in ("voue", "volh", "pm-ho")]
    now, rng = time.time(), random.Random(5)
    first, second, third = (Database.open(database) for _ in range(3))
    second, third = replace(second, shard=(first.shard + 1) % 64), replace(third, shard=first.shard)
    with first.writing() as connection:
        for task in tasks:
            store.put_task(connection, task)
    for number in range(60):
        when = now - 1000 if number % 3 == 0 else now  # expired by now, or not
        play(rng.choice((first, second, third)), rng.choice(tasks), rng.randbytes(32), rng.randrange(STEPS), when, rng)
    with first.reading() as connection:
        for task in tasks:
            found = list(store.all_sessions(connection, task))
            kinds = Counter((session.stage, session.expires <= now) for session in found)
            stands = standing(connection, task, now).attendance
            for stage in (SessionStage.ACCEPTED, SessionStage.REJECTED):
                assert getattr(stands, stage) == kinds[stage, True] + kinds[stage, False]
            for stage in (SessionStage.INVITED, SessionStage.CHALLENGED):
                assert getattr(stands, f"expired_{stage}") == kinds[stage, True]
                assert getattr(stands, f"pending_{stage}") == kinds[stage, False]
            verdicts = [s.verdict for s in found if s.verdict and s.verdict.accepted]
            assert stands.accepted == len(verdicts) > 0
            outputs = np.array([verdict.outputs for verdict in verdicts], dtype=np.int64)
            assert support(connection, task) == task.protocol.support(outputs, [v.session for v in verdicts])
    asked: list[str] = []
    event.listen(first.reader, "before_cursor_execute", lambda *found: asked.append(found[2]))
    with first.reading() as connection:
        together = standings(connection, tasks, now)
        assert len([one for one in asked if "SELECT" in one]) == 2  # for all tasks
        assert together == {task.name: standing(connection, task, now) for task in tasks}
    with first.writing() as connection:
        before = [standing(connection, task, now) for task in tasks]
        kept = connection.execute(text("SELECT count(*) FROM under_way")).scalar_one()
        for task in tasks:
            forget_expired(connection, task, now + KEPT_SECONDS)
        assert [standing(connection, task, now) for task in tasks] == before
        assert 0 < connection.execute(text("SELECT count(*) FROM under_way")).scalar_one() < kept
    for opened in (first, second, third):
        opened.close()


def test_a_transaction_that_fails_adds_nothing(database: str, small_task: Callable[..., Task]) -> None:
    task, opened = small_task("vgrr"), Database.open(database)
    with opened.writing() as connection:
        store.put_task(connection, task)
        store.put_tokens(connection, task, [b"t" * 32])

    def fail() -> None:
        with opened.writing() as connection:
            store.invite(connection, task, b"t" * 32, time.time(), KEYS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with opened.reading() as connection:
        assert standing(connection, task, time.time()).attendance.pending_invited == 0
    with opened.writer.begin() as connection, pytest.raises(KeyError, match="tally"):
        store.invite(connection, task, b"t" * 32, time.time(), KEYS)  # sessions change with their sums, or not at all
    opened.close()


def test_asking_how_a_collection_stands_reads_no_reports(
    database: str, small_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements and the rows they give are the same for 1 report and for 40; variances are computed once."""
    task = small_task("pm-ho", minimum_batch=1, high=7.25, maximum_abort_rate=1.0)
    opened, rng, now = Database.open(database), random.Random(2), time.time()
    with opened.writing() as connection:
        store.put_task(connection, task)
    asked: list[str] = []
    event.listen(opened.reader, "before_cursor_execute", lambda *found: asked.append(found[2]))
    computed: list[int] = []
    exact = estimates.variance

    def counted(*arguments: Any) -> Any:
        computed.append(1)
        return exact(*arguments)

    monkeypatch.setattr(estimates, "variance", counted)
    statements = []
    for reports in (1, 40):
        for _ in range(reports):
            play(opened, task, rng.randbytes(32), STEPS, now, rng)
        asked.clear()
        with opened.reading() as connection:
            assert status_of(connection, task, now)["estimate"] is not None
        statements.append(list(asked))
    assert statements[0] == statements[1]
    assert not any("outputs" in statement for statement in statements[0])
    assert len(computed) <= task.protocol.inputs
    opened.close()
