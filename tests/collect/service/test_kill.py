"""Servers that die at any moment, and several at once: no accepted report is lost or counted twice."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
import pytest

from veridp.collect import Client, MemoryVault, Task
from veridp.collect.estimate import Attendance
from veridp.collect.messages import Challenge, Invitation, SessionVerdict, decode, encode
from veridp.collect.service import store
from veridp.collect.service.database import Database
from veridp.collect.service.http_client import STEPS, Connection, Rehearsal, rehearse
from veridp.collect.service.keys import NonceKeys
from veridp.collect.service.store import token_hash
from veridp.collect.service.tally import standing, support
from veridp.collect.task import Session
from veridp.collect.transcript import audit

CLIENTS = 600
KILLS = 3
KEYS = NonceKeys((bytes(32),))


def crowd(urls: list[str], task: Task, tokens: list[str], seconds: float = 240.0) -> Rehearsal:
    """Clients spread over the servers; what they saw, together."""

    async def run() -> list[Rehearsal]:
        parts = [tokens[i :: len(urls)] for i in range(len(urls))]
        return await asyncio.gather(
            *(
                rehearse(url, task, [task.items[0]] * len(part), part, seed=i, connections=24, seconds=seconds)
                for i, (url, part) in enumerate(zip(urls, parts, strict=True))
            )
        )

    total = Rehearsal()
    for found in asyncio.run(run()):
        total.accepted |= found.accepted
        total.refused |= found.refused
        total.interruptions += found.interruptions
    return total


def check_counts(server: Any, task: Task, seen: Rehearsal, clients: int) -> None:
    """What the clients were told is what the database has, session by session."""
    assert seen.refused == {}
    assert len(seen.accepted) == clients
    status = server.status(task)
    assert (status["accepted"], status["rejected"], status["pending_challenged"]) == (clients, 0, 0)
    log = server.admin("GET", f"/tasks/{task.name}/log")
    found = audit(io.BytesIO(log.content))
    assert found.good, found.faults
    assert len(set(found.sessions)) == clients
    assert sorted(found.outputs) == sorted(seen.accepted.values())
    assert found.estimate().columns[0].value == pytest.approx(status["estimate"][0]["value"])


class Killed(Exception):
    """A process that ends here and now."""


@dataclass
class Mortal:
    """A client and its servers, which end at the points that are due, once each; what they kept is all that is left."""

    database: Database
    task: Task
    token: bytes
    due: list[str]
    vault: MemoryVault = field(default_factory=MemoryVault)

    def at(self, point: str) -> None:
        if point in self.due:
            self.due.remove(point)
            raise Killed(point)

    def served(self, step: str, work: Callable[[Any], Session]) -> Session:
        """The answer of a server that has just been started."""
        self.at(f"client, before {step}")
        with self.database.writing() as connection:
            found = work(connection)
            self.at(f"database, before {step} is committed")
        self.at(f"server, after {step}")
        return found

    def live(self) -> None:
        """One life of the client: it goes on from what it kept."""
        task, now = self.task, time.time()
        client = Client(task.protocol, task.verifier, self.vault, random.Random(repr(self.due)))
        if client.verdict is not None:
            return
        invitation = client.invitation or self.served("session", self._invited).invitation
        commit = client.commit(invitation, task.items[0])

        def committed(connection: Any) -> Session:
            return store.put_commit(connection, task, self.token, commit, now, task.verifier, KEYS)

        challenge = self.served("commit", committed).challenge
        self.at("client, before it keeps the challenge")
        opening = client.open(challenge)

        def opened(connection: Any) -> Session:
            return store.put_opening(connection, task, self.token, opening, now, task.verifier)

        verdict = self.served("open", opened).verdict
        self.at("client, before it keeps the verdict")
        assert verdict is not None
        client.finish(verdict)

    def _invited(self, connection: Any) -> Session:
        return store.invite(connection, self.task, self.token, time.time(), KEYS)


POINTS = (
    *(f"client, before {step}" for step in STEPS),
    *(f"database, before {step} is committed" for step in STEPS),
    *(f"server, after {step}" for step in STEPS),
    "client, before it keeps the challenge",
    "client, before it keeps the verdict",
)


def test_a_death_at_any_two_points_loses_and_doubles_nothing(database: str, small_task: Callable[..., Task]) -> None:
    """Every pair of points, the same one twice included: one report for each client, as the client knows it."""
    task, opened = small_task("vgrr"), Database.open(database)
    pairs = list(itertools.combinations_with_replacement(POINTS, 2))
    told = {}
    with opened.writing() as connection:
        store.put_task(connection, task)
        store.put_tokens(connection, task, [token_hash(str(i)) for i in range(len(pairs))])
    for number, pair in enumerate(pairs):
        mortal = Mortal(opened, task, token_hash(str(number)), list(pair))
        lives = 0
        while mortal.due or not Client(task.protocol, task.verifier, mortal.vault).verdict:
            lives += 1
            with contextlib.suppress(Killed):
                mortal.live()
        assert lives == 3
        verdict = Client(task.protocol, task.verifier, mortal.vault).verdict
        assert verdict is not None
        told[verdict.session] = verdict.outputs
    with opened.reading() as connection:
        found = [session.verdict for session in store.all_sessions(connection, task)]
        assert {verdict.session: verdict.outputs for verdict in found if verdict and verdict.accepted} == told
        assert len(found) == len(told) == len(pairs)
        counted = standing(connection, task, time.time()).attendance
        outputs = np.array(list(told.values()), dtype=np.int64)
        assert support(connection, task) == task.protocol.support(outputs, list(told))
    assert counted == Attendance(len(pairs), 0, 0, 0, 0, 0)
    opened.close()


@pytest.mark.slow
def test_a_server_killed_under_load_loses_nothing(database: str, serving: Callable[..., Any]) -> None:
    """600 clients; the server is killed three times while they report, and started again.

    The kills wait for a number of accepted reports, not for seconds: they fall among the reports on any machine.
    """
    server = serving(database)
    task = server.new_task()
    tokens = server.put(task, CLIENTS)
    rng = random.Random(13)

    def murder() -> None:
        for kill in range(KILLS):
            enough = CLIENTS * kill // (KILLS + 1) + rng.randrange(20, 100)
            while server.status(task)["accepted"] < enough:
                time.sleep(0.01)
            server.kill()
            server.start()

    with ThreadPoolExecutor() as pool:
        killer = pool.submit(murder)
        seen = crowd([server.url], task, tokens)
        killer.result()
    assert seen.interruptions > 0
    check_counts(server, task, seen, CLIENTS)
    server.stop()


@pytest.mark.slow
def test_a_server_killed_between_any_two_steps_goes_on(database: str, serving: Callable[..., Any]) -> None:
    """Killed when sessions have taken one, two and three steps: the next server answers as the last one did."""
    server = serving(database)
    task = server.new_task(minimum_batch=1)
    tokens = server.put(task, len(STEPS))

    async def post(step: str, token: str, body: bytes) -> bytes:
        connection = Connection("127.0.0.1", server.port)
        status, answer = await connection.post(f"/tasks/{task.name}/{step}", token, body)
        await connection.close()
        assert status == 200, answer
        return answer

    clients = [Client(task.protocol, task.verifier, MemoryVault(), random.Random(seed)) for seed in range(len(STEPS))]
    said: list[list[bytes]] = [[] for _ in clients]  # to each client
    sent = {}

    def take(number: int) -> None:
        """The next step of a client."""
        client, answers = clients[number], said[number]
        bodies = (
            lambda: b"",
            lambda: encode(client.commit(decode(answers[0], Invitation), "cat")),
            lambda: encode(client.open(decode(answers[1], Challenge))),
        )
        sent[number] = STEPS[len(answers)], tokens[number], bodies[len(answers)]()
        answers.append(asyncio.run(post(*sent[number])))

    for number in range(len(STEPS)):
        for _ in range(number + 1):
            take(number)
    family = psutil.Process(server.process.pid).children(recursive=True)
    server.kill()
    assert psutil.wait_procs(family, timeout=300)[1] == []  # it leaves no judge behind
    server.start()
    for number, client in enumerate(clients):
        assert asyncio.run(post(*sent[number])) == said[number][-1]
        while len(said[number]) < len(STEPS):
            take(number)
        assert client.finish(decode(said[number][-1], SessionVerdict)).accepted
    assert server.status(task)["accepted"] == len(STEPS)
    server.stop()


@pytest.mark.slow
def test_several_processes_give_the_same_counts(postgres: Any, serving: Callable[..., Any]) -> None:
    """Two servers on one PostgreSQL, one of two processes; clients at either, and tokens that come to both at once."""
    url = postgres.new_database()
    first, second = serving(url, "--processes", "2"), serving(url)
    task = first.new_task()
    tokens = first.put(task, 300)
    for answers in asyncio.run(race([first, second], task, tokens[:40])):
        assert len(set(answers)) == 1  # one session for each token
    assert second.status(task)["pending_invited"] == 40
    seen = crowd([first.url, second.url], task, tokens)
    one, other = first.status(task), second.status(task)
    assert one == other
    check_counts(first, task, seen, 300)
    for server in (first, second):
        page = server.admin("GET", "/metrics").text
        assert f'veridp_accepted_total{{task="{task.name}"}} 300.0' in page
        assert "veridp_step_seconds_bucket" in page
        server.stop()


async def race(servers: list[Any], task: Task, tokens: list[str]) -> list[list[bytes]]:
    """The invitations that each token gets where it asks all servers at once, three times."""

    async def ask(server: Any, token: str) -> bytes:
        connection = Connection("127.0.0.1", server.port)
        status, answer = await connection.post(f"/tasks/{task.name}/session", token, b"")
        await connection.close()
        assert status == 200
        return answer

    return [await asyncio.gather(*(ask(server, token) for server in servers * 3)) for token in tokens]
