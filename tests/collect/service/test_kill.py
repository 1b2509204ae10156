"""Servers that die at any moment, and several at once: no accepted report is lost or counted twice."""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from veridp.collect import Client, MemoryVault, Task
from veridp.collect.messages import Challenge, Invitation, SessionVerdict, decode, encode
from veridp.collect.service.http_client import Connection, Rehearsal, rehearse
from veridp.collect.transcript import audit

CLIENTS = 2000
KILLS = 3


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


@pytest.mark.slow
def test_a_server_killed_under_load_loses_nothing(database: str, serving: Callable[..., Any]) -> None:
    """2000 clients; the server is killed three times while they report, and started again.

    The kills wait for a number of accepted reports, not for seconds: they fall among the reports on any machine.
    """
    server = serving(database)
    task = server.new_task()
    tokens = server.put(task, CLIENTS)
    rng = random.Random(13)

    def murder() -> None:
        for kill in range(KILLS):
            enough = CLIENTS * kill // (KILLS + 1) + rng.randrange(20, 200)
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
    """Killed after each step of a session: the next server answers as the last one would have."""
    server = serving(database)
    task = server.new_task(minimum_batch=1)
    (token,) = server.put(task, 1)

    async def post(step: str, body: bytes) -> bytes:
        connection = Connection("127.0.0.1", server.port)
        status, answer = await connection.post(f"/tasks/{task.name}/{step}", token, body)
        await connection.close()
        assert status == 200, answer
        return answer

    def twice(step: str, body: bytes) -> bytes:
        """The answer, which is the same from a server that was killed and started between."""
        first = asyncio.run(post(step, body))
        family = psutil.Process(server.process.pid).children(recursive=True)
        server.kill()
        assert psutil.wait_procs(family, timeout=300)[1] == []  # it leaves no judge behind
        server.start()
        assert asyncio.run(post(step, body)) == first
        return first

    client = Client(task.protocol, task.verifier, MemoryVault(), random.Random(1))
    commit = client.commit(decode(twice("session", b""), Invitation), "cat")
    opening = client.open(decode(twice("commit", encode(commit)), Challenge))
    verdict = client.finish(decode(twice("open", encode(opening)), SessionVerdict))
    assert verdict.accepted
    assert server.status(task)["accepted"] == 1
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
