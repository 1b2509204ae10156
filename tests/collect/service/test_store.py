"""What is asked of the database, the commit queue, the verifier pool, limits."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from veridp.collect import Client, MemoryVault, Reason, Refused, Task
from veridp.collect.attacks import new_session
from veridp.collect.messages import Commit, Invitation, Opening, decode, encode
from veridp.collect.service import store
from veridp.collect.service.app import application
from veridp.collect.service.background import (
    GATHER_SECONDS,
    LARGEST_COMMITMENT,
    MOST_SESSIONS,
    CommitQueue,
    Known,
    SessionCache,
    VerifierPool,
)
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys
from veridp.collect.service.operations import Limiter, ServiceSettings
from veridp.collect.service.tally import standing
from veridp.collect.task import Session, SessionStage
from veridp.errors import BadInput

TASK = Task("pets", "vgrr", 1.0, items=("cat", "dog", "fox"), minimum_batch=1)
KEYS = NonceKeys((bytes(32),))


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    found = Database.open(database)
    yield found
    found.close()


def prepared(database: Database, *tokens: bytes) -> None:
    with database.writing() as connection:
        store.put_task(connection, TASK)
        store.put_tokens(connection, TASK, tokens)


def test_a_step_that_lost_the_race_sees_what_the_winner_did(opened: Database) -> None:
    """Two commitments for one session: the second is refused even if both read the session before either wrote."""
    prepared(opened, b"t" * 32)
    rng = random.Random(1)
    with opened.writing() as connection:
        session = store.invite(connection, TASK, b"t" * 32, time.time(), KEYS)
        assert store.invite(connection, TASK, b"t" * 32, time.time(), KEYS) == session
    client = Client(TASK.protocol, TASK.verifier, MemoryVault(), rng)
    other = Client(TASK.protocol, TASK.verifier, MemoryVault(), rng)
    commits = [c.commit(session.invitation, "dog") for c in (client, other)]
    with opened.writing() as connection:
        both = [store.Sent(TASK, b"t" * 32, commit, Known(), session) for commit in commits]
        winner, loser = store.put_commits(connection, both, time.time(), KEYS)
        assert isinstance(winner, Session)
        assert isinstance(loser, Refused)
        assert loser.reason == Reason.SECOND_COMMITMENT
    with opened.reading() as connection:
        assert store.get_session(connection, TASK, b"t" * 32).commit == commits[0]


def begun(found: Sequence[Session | Refused]) -> list[Session]:
    """The sessions; none may have been refused."""
    assert not [each for each in found if isinstance(each, Refused)]
    return [each for each in found if isinstance(each, Session)]


def test_steps_taken_together_are_those_taken_alone(opened: Database) -> None:
    """A batch of good, repeated, foreign and wrong messages gives each what it would get alone, and counts it once."""
    tokens, now = [bytes([i]) * 32 for i in range(6)], time.time()
    prepared(opened, *tokens)
    with opened.writing() as connection:
        asked = [(TASK, token) for token in (*tokens, tokens[0], b"?" * 32)]
        *first, again, unknown = store.invite_all(connection, asked, now, KEYS)
    invited = begun(first)
    assert again == invited[0]
    assert isinstance(unknown, Refused)
    assert unknown.reason == Reason.UNKNOWN_TOKEN
    clients = [Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(i)) for i in range(6)]
    commits = [client.commit(session.invitation, "dog") for client, session in zip(clients, invited, strict=True)]
    with opened.writing() as connection:
        sent = [
            store.Sent(TASK, token, commit, Known(), cached)
            for token, commit, cached in zip(tokens, commits, [*invited[:3], None, None, None], strict=True)
        ]
        foreign = replace(sent[1], token=tokens[2], cached=None)
        *after, repeated, refused = store.put_commits(connection, [*sent, sent[0], foreign], now, KEYS)
        challenged = begun(after)
        assert [each.commit for each in challenged] == commits
        assert repeated == challenged[0]
        assert isinstance(refused, Refused)
        assert refused.reason == Reason.WRONG_SESSION
        openings = [client.open(each.challenge) for client, each in zip(clients, challenged, strict=True)]
        openings[5] = replace(openings[5], proof=b"")
        opening = [
            store.Sent(TASK, t, o, TASK.verifier, s) for t, o, s in zip(tokens, openings, challenged, strict=True)
        ]
        decided = begun(store.put_openings(connection, [*opening, opening[0], opening[5]], now))
    assert [str(each.stage) for each in decided] == [*["accepted"] * 5, "rejected", "accepted", "rejected"]
    with opened.reading() as connection:
        assert [store.get_session(connection, TASK, token) for token in tokens] == decided[:6]
        counted = standing(connection, TASK, now)
    assert (counted.attendance.accepted, counted.rejected) == (5, {"wrong-length": 1})
    assert counted.attendance.pending_invited == counted.attendance.pending_challenged == 0


def test_a_session_that_went_on_elsewhere_is_looked_up_again(opened: Database) -> None:
    """What a process remembers may be old: each step then gives what it gives to who asks the database."""
    token, now = b"t" * 32, time.time()
    prepared(opened, token)
    client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(1))
    other = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(2))
    with opened.writing() as connection:
        invited = store.invite(connection, TASK, token, now, KEYS)
        commit, second = (c.commit(invited.invitation, "dog") for c in (client, other))
        challenged = store.put_commit(connection, TASK, token, commit, now, Known(), KEYS, invited)
        opening = client.open(challenged.challenge)
        late = invited.expires + 1.0
        for when in (now, late):
            assert store.put_commit(connection, TASK, token, commit, when, Known(), KEYS, invited) == challenged
        with pytest.raises(Refused, match="second-commitment"):
            store.put_commit(connection, TASK, token, second, now, Known(), KEYS, invited)
        with pytest.raises(Refused, match="expired"):
            store.put_opening(connection, TASK, token, opening, late, TASK.verifier, challenged)
        decided = store.put_opening(connection, TASK, token, opening, now, TASK.verifier, invited)
        assert decided.verdict is not None
        assert decided.verdict.accepted
        for when, cached in ((now, challenged), (late, challenged), (now, invited), (now, None)):
            assert store.put_opening(connection, TASK, token, opening, when, TASK.verifier, cached) == decided
        changed = replace(opening, proof=b"")
        with pytest.raises(Refused, match="replayed"):
            store.put_opening(connection, TASK, token, changed, now, TASK.verifier, challenged)
    with opened.reading() as connection:
        assert store.get_session(connection, TASK, token) == decided


def committed_session() -> tuple[Session, Opening]:
    """A session whose client has committed, and the opening that it would send."""
    rng = random.Random(2)
    session = new_session(TASK, rng)
    client = Client(TASK.protocol, TASK.verifier, MemoryVault(), rng)
    session = session.committed(client.commit(session.invitation, "dog"), 0, TASK.verifier)
    opening = client.open(session.challenge)
    return session, opening


def test_a_verdict_is_good_for_its_opening_alone() -> None:
    session, opening = committed_session()
    assert session.commit is not None
    known = Known(session.commit, opening, TASK.verifier.judge(session.commit, session.challenge, opening))
    assert session.opened(opening, 0, known).stage == SessionStage.ACCEPTED
    for other in (replace(opening, proof=b""), replace(opening, closed=())):
        with pytest.raises(Refused, match="conflict"):
            session.opened(other, 0, known)


def test_what_is_remembered_is_bounded() -> None:
    cached, rng = SessionCache(), random.Random(3)
    session = new_session(TASK, rng)
    long = Commit(TASK.digest, session.context.session, bytes(LARGEST_COMMITMENT + 1))
    cached.keep(TASK, b"long", replace(session, commit=long))
    assert cached.take(TASK, b"long") is None
    for number in range(MOST_SESSIONS + 1):
        cached.keep(TASK, number.to_bytes(4, "big"), session)
    assert len(cached.sessions) == MOST_SESSIONS
    assert cached.take(TASK, bytes(4)) is None
    assert cached.take(replace(TASK, name="other"), (5).to_bytes(4, "big")) is None
    assert cached.take(TASK, (5).to_bytes(4, "big")) == session


def run_queue(database: Database, use: Callable[[CommitQueue], object]) -> None:
    async def run() -> None:
        queue = CommitQueue(database)
        queue.start()
        try:
            await use(queue)  # type: ignore[misc]
        finally:
            queue.stop()

    asyncio.run(run())


def test_steps_of_one_transaction_do_not_disturb_each_other(opened: Database) -> None:
    """A refusal, a fault of the database and a fault of a step, among fifty good steps at once."""
    prepared(opened)

    def good(number: int) -> Callable[[Connection], int]:
        def step(connection: Connection) -> int:
            store.put_tokens(connection, TASK, [number.to_bytes(32, "big")])
            return number

        return step

    def refused(connection: Connection) -> None:
        raise Refused(Reason.EXPIRED, "on purpose")

    def clashes(connection: Connection) -> None:
        connection.execute(text("INSERT INTO tasks (name, document) VALUES ('pets', '')"))

    def fails(connection: Connection) -> None:
        raise ZeroDivisionError

    async def use(queue: CommitQueue) -> None:
        steps = [queue.do(bytes([i]), good(i)) for i in range(50)]
        bad = [queue.do(b"x", step) for step in (refused, clashes, fails)]
        found = await asyncio.gather(*steps, *bad, return_exceptions=True)
        assert found[:50] == list(range(50))
        assert [type(error) for error in found[50:]] == [Refused, IntegrityError, ZeroDivisionError]

    run_queue(opened, use)
    with opened.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM tokens")).scalar_one() == 50


def test_only_who_has_company_waits_for_more(tmp_path: Path) -> None:
    opened, pauses, go = Database.open(f"sqlite:///{tmp_path}/collect.db"), list[float](), threading.Event()

    async def use() -> None:
        queue = CommitQueue(opened, pauses.append)
        queue.start()
        for _ in range(3):
            await queue.do(b"", lambda connection: None)
        assert pauses == []
        first = asyncio.ensure_future(queue.do(b"", lambda connection: go.wait(60)))
        others = [asyncio.ensure_future(queue.do(b"", lambda connection: None)) for _ in range(2)]
        await asyncio.sleep(0)  # all three are asked
        go.set()
        await asyncio.gather(first, *others)
        await queue.do(b"", lambda connection: None)
        assert pauses == [GATHER_SECONDS]
        await asyncio.to_thread(queue.stop)

    asyncio.run(use())
    opened.close()


def test_judges_are_replaced_when_they_die() -> None:
    session, opening = committed_session()

    async def use() -> None:
        verifiers = VerifierPool(1)
        verifiers.start()
        assert session.commit is not None
        first = await verifiers.judge(TASK, session.commit, session.challenge, opening)
        for child in multiprocessing.active_children():
            os.kill(child.pid or 0, signal.SIGKILL)
        second = await verifiers.judge(TASK, session.commit, session.challenge, opening)
        assert first == second == TASK.verifier.judge(session.commit, session.challenge, opening)
        assert first.accepted
        verifiers.stop()

    asyncio.run(use())


@pytest.mark.parametrize("trouble", [BrokenProcessPool("died"), PoolTimeout("all in use")])
def test_what_fails_on_the_servers_side_has_a_name(trouble: Exception, tmp_path: Path) -> None:
    """A client is told to come again, and does."""

    class Failing(VerifierPool):
        async def check(self, task: Task, commit: Commit) -> None:
            raise trouble

    async def use() -> None:
        app = application(ServiceSettings(f"sqlite:///{tmp_path}/collect.db", "a" * 20))
        head = {"Authorization": "Bearer token", "Content-Type": "application/msgpack"}
        served = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test/tasks/pets", headers=head)
        async with app.router.lifespan_context(app), served as http:
            service = app.state.service
            prepared(service.database, store.token_hash("token"))
            client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(1))
            invitation = decode((await http.post("/session")).content, Invitation)
            commit = encode(client.commit(invitation, "dog"))
            app.state.service = replace(service, verifiers=Failing(1))
            answer = await http.post("/commit", content=commit)
            assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")
            app.state.service = service
            assert (await http.post("/commit", content=commit)).status_code == 200

    asyncio.run(use())


def test_limits_let_bursts_through_and_no_more() -> None:
    now = [0.0]
    limiter = Limiter(2.0, 3, clock=lambda: now[0])
    for _ in range(3):
        limiter.check("a")
    with pytest.raises(Refused) as refused:
        limiter.check("a")
    assert refused.value.reason == Reason.TOO_FAST
    limiter.check("b")
    now[0] = 1.0
    limiter.check("a")
    limiter.check("a")
    with pytest.raises(Refused):
        limiter.check("a")
    with pytest.raises(Refused):
        limiter.check("a", taken=0)
    for _ in range(5):
        limiter.check("c", taken=0)
    for _ in range(1000):
        Limiter(0.0, 1).check("a")


def test_settings_are_checked_and_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="16 characters"):
        ServiceSettings("sqlite://", "short")
    with pytest.raises(BadInput, match="negative"):
        ServiceSettings("sqlite://", "a" * 20, judges=0)
    monkeypatch.delenv("VERIDP_COLLECT_SETTINGS", raising=False)
    with pytest.raises(BadInput, match="veridp collect serve"):
        ServiceSettings.from_environment()
    monkeypatch.setenv("VERIDP_COLLECT_SETTINGS", "")
    settings = ServiceSettings("sqlite:///x.db", "a" * 20, rate=7.0)
    settings.to_environment()
    assert ServiceSettings.from_environment() == settings
