"""Slow clients, guessers, a database that hangs, and uploads: none of them keeps others waiting for ever."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from sqlalchemy import Connection, insert
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.requests import Request

from veridp.collect import Client, MemoryVault, Task
from veridp.collect.messages import Challenge, Commit, Invitation, Message, SessionVerdict, decode, encode
from veridp.collect.receipts import TreeHead
from veridp.collect.service import background, handlers, operations, schema, store, tree
from veridp.collect.service.app import application
from veridp.collect.service.database import Database
from veridp.collect.service.handlers import TOKENS_TOGETHER
from veridp.collect.service.operations import ImpatientProtocol, ServiceSettings, limit_of_guesses
from veridp.collect.transcript import audit

ADMIN, PATIENCE = "an admin token of the tests", 60.0
TASK = Task("pets", "vgrr", 1.0, items=("cat", "dog", "fox"))


@contextlib.asynccontextmanager
async def running(settings: ServiceSettings, task: Task = TASK) -> AsyncIterator[tuple[Starlette, httpx.AsyncClient]]:
    """An application with the task and one token, and a client of its administrator."""
    app = application(settings)
    head = {"Authorization": f"Bearer {ADMIN}"}
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=head)
    async with app.router.lifespan_context(app), http:
        with app.state.service.database.writing() as connection:
            store.put_task(connection, task)
            store.put_tokens(connection, task, [store.token_hash("token")])
        yield app, http


def test_a_database_that_hangs_is_said_and_waited_for(tmp_path: Path) -> None:
    """Somebody else holds the write lock: a client gets 503, and its session once the lock is free."""
    url = f"sqlite:///{tmp_path}/collect.db"

    async def use() -> None:
        async with running(ServiceSettings(url, ADMIN, database_seconds=0.3)) as (_, http):
            other = Database.open(url)
            client = {"Authorization": "Bearer token"}
            with other.writer.begin():
                answer = await http.post("/tasks/pets/session", headers=client)
                assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")
            async with asyncio.timeout(PATIENCE):
                while (await http.post("/tasks/pets/session", headers=client)).status_code == 503:
                    await asyncio.sleep(0.05)
            assert (await http.post("/tasks/pets/session", headers=client)).status_code in (200, 503)
            other.close()

    asyncio.run(use())


def test_who_guesses_tokens_does_not_make_others_at_the_address_abort(tmp_path: Path) -> None:
    """A client whose session has begun completes it while somebody at its address is refused for guessing."""

    async def use() -> None:
        settings = ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN, rate=1e-6, burst=6)
        async with running(settings) as (_, http):

            async def post(step: str, token: str, message: Message | None = None) -> httpx.Response:
                head = {"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"}
                body = b"" if message is None else encode(message)
                return await http.post(f"/tasks/pets/{step}", headers=head, content=body)

            client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(1))
            commit = client.commit(decode((await post("session", "token")).content, Invitation), "dog")
            guesses = [(await post("session", f"guess {number}")).status_code for number in range(8)]
            assert (guesses[0], guesses[-1]) == (401, 429)
            opening = client.open(decode((await post("commit", "token", commit)).content, Challenge))
            verdict = decode((await post("open", "token", opening)).content, SessionVerdict)
            assert verdict.accepted

    asyncio.run(use())


def test_who_has_no_session_costs_no_check_of_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points take milliseconds; who has no token sent as many as they liked, and no limit counted them."""
    task = replace(TASK, scheme="ristretto255")

    async def use() -> None:
        settings = ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN, rate=1e-6, burst=6)
        async with running(settings, task) as (app, http):
            checked, check = [], app.state.service.verifiers.check

            async def counted(task: Task, commit: Commit) -> None:
                checked.append(commit)
                await check(task, commit)

            monkeypatch.setattr(app.state.service.verifiers, "check", counted)
            points = bytes(task.verifier.scheme.commitment_bytes(task.verifier.layout) - 32) + b"\xff" * 32
            wrong = encode(Commit(task.digest, bytes(16), points))

            async def refusal(token: str, content: bytes) -> str:
                head = {"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"}
                return str((await http.post("/tasks/pets/commit", headers=head, content=content)).json()["reason"])

            assert await refusal("nobody's", wrong) == "unknown-token"
            assert await refusal("token", wrong) == "out-of-order"
            assert checked == []
            client = {"Authorization": "Bearer token"}
            assert (await http.post("/tasks/pets/session", headers=client)).status_code == 200
            assert await refusal("token", wrong) == "wrong-point"
            assert len(checked) == 1
            found = [await refusal(f"guess {number}", b"not a message") for number in range(8)]
            assert (found[0], found[-1]) == ("malformed", "too-fast")  # by address: each token is a new one
            assert await refusal("token", wrong) == "wrong-point"  # a session that has begun goes on

    asyncio.run(use())


def test_reads_of_a_database_that_hangs_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    async def use() -> None:
        async with running(ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN, database_seconds=0.2)) as (
            _,
            http,
        ):
            reading = Database.reading

            @contextlib.contextmanager
            def hung(self: Database) -> Iterator[Connection]:
                free.wait(PATIENCE)
                with reading(self) as connection:
                    yield connection

            monkeypatch.setattr(Database, "reading", hung)
            try:
                for path in ("/healthz", "/metrics", "/tasks/pets/status"):
                    answer = await http.get(path)
                    assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable"), path
            finally:
                free.set()

    asyncio.run(use())


def test_an_upload_of_tokens_does_not_hold_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes in parts, each in a transaction of its own, and not through the queue of the clients' steps."""
    parts, seen, rng, put = [], [], random.Random(1), store.put_tokens

    async def use() -> None:
        settings = ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN, database_seconds=PATIENCE)
        async with running(settings) as (app, http):
            service = app.state.service

            def noting(connection: Connection, task: Task, hashes: list[bytes]) -> None:
                with service.database.reading() as other:
                    seen.append(len(other.execute(schema.tokens.select()).all()))
                parts.append(len(hashes))
                put(connection, task, hashes)

            async def queued(key: bytes, step: object) -> None:
                raise AssertionError("an upload waits in the queue of the clients' steps")

            monkeypatch.setattr(store, "put_tokens", noting)
            monkeypatch.setattr(service.queue, "do", queued)
            hashes = [rng.randbytes(32).hex() for _ in range(2 * TOKENS_TOGETHER + 1)]
            answer = await http.put("/tasks/pets/tokens", json={"hashes": hashes})
            assert answer.json() == {"tokens": len(hashes)}

    asyncio.run(use())
    assert parts == [TOKENS_TOGETHER, TOKENS_TOGETHER, 1]
    assert seen == [1, 1 + TOKENS_TOGETHER, 1 + 2 * TOKENS_TOGETHER]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ServiceSettings]:
    """Settings of a server that waits a moment for requests."""
    monkeypatch.setenv(operations.VARIABLE, "")
    settings = ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN, request_seconds=0.5)
    settings.to_environment()
    operations._request_seconds.cache_clear()
    yield settings
    operations._request_seconds.cache_clear()


@contextlib.asynccontextmanager
async def listening(settings: ServiceSettings) -> AsyncIterator[int]:
    """The port of a server in this process."""
    config = uvicorn.Config(application(settings), port=0, http=ImpatientProtocol, log_level="error")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    async with asyncio.timeout(PATIENCE):
        while not server.started:
            await asyncio.sleep(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def trickle(port: int, begin: bytes) -> bytes:
    """What the server says to a request that begins so and then arrives byte by byte, until it closes or resets."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begin)
    said = bytearray()

    async def listen() -> None:
        while piece := await reader.read(4096):
            said.extend(piece)

    listening_task = asyncio.ensure_future(listen())
    with contextlib.suppress(OSError):
        while not listening_task.done():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)
    with contextlib.suppress(OSError):
        await listening_task
    writer.close()
    return bytes(said)


def test_requests_that_trickle_in_are_cut_off(impatient: ServiceSettings) -> None:
    """In the head of the first request, in the head of a later one, and in the body; whoever is quick is answered."""
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    put = b"PUT /tasks/pets/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    long = f"Content-Length: 100000\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode()

    async def use() -> None:
        async with listening(impatient) as port, asyncio.timeout(PATIENCE):
            base = f"http://127.0.0.1:{port}"
            async with httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {ADMIN}"}) as http:
                document = {"mechanism": "vgrr", "epsilon": 1.0, "items": ["a", "b"]}
                assert (await http.put("/tasks/pets", json=document)).status_code == 200
                assert await trickle(port, get + b"X-Slow: ") == b""
                assert (await trickle(port, get + b"\r\n" + get + b"X-Slow: ")).count(b"200 OK") == 1
                said = await trickle(port, put + long)
                assert b"408" in said.splitlines()[0]
                assert b"too-slow" in said
                await asyncio.sleep(0.6)  # an idle connection may wait longer than a request
                assert (await http.get("/healthz")).status_code == 200

    asyncio.run(use())


def test_a_head_without_end_is_cut_off(impatient: ServiceSettings) -> None:
    """One long header, many short ones, and one that follows a request which is still answered; a long body is read."""
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    post = f"POST /tasks/pets/close HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n".encode()

    async def sent(port: int, begin: bytes, piece: bytes) -> tuple[int, bytes]:
        """How much could be sent before the connection was closed, up to a limit; and what was answered."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)
        total, said = 0, b""
        with contextlib.suppress(OSError):
            while total < 8 << 20:
                writer.write(piece)
                await writer.drain()
                total += len(piece)
                await asyncio.sleep(0)
        with contextlib.suppress(OSError):
            said = await reader.read(4096)
        writer.close()
        return total, said

    async def use() -> None:
        settings = replace(impatient, request_seconds=PATIENCE)
        async with listening(settings) as port, asyncio.timeout(PATIENCE):
            for begin, piece in (
                (get + b"X: ", b"x" * 65536),
                (get, b"X: y\r\n" * 8192),
                (get + b"\r\n" + get, b"X: y\r\n" * 8192),
            ):
                total, _ = await sent(port, begin, piece)
                assert total < 8 << 20
            _, said = await sent(
                port, post + b"Content-Type: application/json\r\nContent-Length: 8388608\r\n\r\n", b" " * 65536
            )
            assert b"404" in said.splitlines()[0]

    asyncio.run(use())


def test_connections_that_send_nothing_make_room_for_others(
    impatient: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more connections than a process may have, those close first that have sent no whole request for longest."""
    head = f"PUT /tasks/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n"
    unfinished = f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n".encode()
    monkeypatch.setattr(operations, "most_connections", lambda: 4)

    async def use() -> None:
        settings = replace(impatient, request_seconds=PATIENCE)
        async with listening(settings) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            async with asyncio.timeout(PATIENCE):
                assert (await http.get("/healthz")).status_code == 200
                idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
                for (_, writer), begun in zip(idle, (unfinished, b"G", b""), strict=True):
                    writer.write(begun)
                assert (await http.get("/healthz")).status_code == 200
                idle += [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
                assert (await http.get("/healthz")).status_code == 200
                left = [number for number, (reader, _) in enumerate(idle) if not reader.at_eof()]
                while len(left) > 4:
                    await asyncio.sleep(0.02)
                    left = [number for number, (reader, _) in enumerate(idle) if not reader.at_eof()]
                assert set(left) <= {4, 5, 6, 7}
                for _, writer in idle:
                    writer.close()

    asyncio.run(use())


def test_a_burst_is_in_the_log_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More sessions than a transaction puts there."""
    monkeypatch.setattr(tree, "MOST_TOGETHER", 2)
    rng, now = random.Random(1), time.time()

    async def use() -> None:
        async with running(ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN)) as (app, http):
            service = app.state.service
            with service.database.writing() as connection:
                for token in (rng.randbytes(32) for _ in range(5)):
                    store.put_tokens(connection, TASK, [token])
                    client = Client(TASK.protocol, TASK.verifier, MemoryVault(), rng)
                    session = store.invite(connection, TASK, token, now, service.steps.keys)
                    commit = client.commit(session.invitation, "dog")
                    session = store.put_commit(connection, TASK, token, commit, now, TASK.verifier, service.steps.keys)
                    store.put_opening(connection, TASK, token, client.open(session.challenge), now, TASK.verifier)
            found = audit(io.BytesIO((await http.get("/tasks/pets/log")).content))
            assert (found.head.size if found.head else 0, found.attendance.accepted, found.faults) == (5, 5, [])

    asyncio.run(use())


def test_a_network_is_limited_as_one_client() -> None:
    """Who has one address of IPv6 has 2^64: all of them are one client."""

    def of(host: str) -> str:
        return limit_of_guesses(Request({"type": "http", "client": (host, 1), "headers": []}))

    assert of("2001:db8::1") == of("2001:db8::ffff:1:2") != of("2001:db8:0:1::1")
    assert of("::ffff:10.0.0.1") == of("10.0.0.1") != of("10.0.0.2")
    assert of("fe80::1%eth0") == of("fe80::2%eth0")
    assert of("not:an address") == "guesses not:an address"


def test_a_task_that_another_process_deleted_stays_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/collect.db"

    async def use() -> None:
        async with running(ServiceSettings(url, ADMIN)) as (_, http):
            assert (await http.get("/tasks/pets")).status_code == 200  # it is known now
            other = Database.open(url)
            with other.writing() as connection:
                store.close_task(connection, TASK, 1)
                store.delete_task(connection, TASK, time.time())
            other.close()
            answers = [
                await http.post("/tasks/pets/close", json={"closes": int(time.time()) + 600}),
                await http.put("/tasks/pets/tokens", json={"hashes": ["00" * 32]}),
            ]
            assert [(answer.status_code, answer.json()["reason"]) for answer in answers] == [(410, "task-closed")] * 2

    asyncio.run(use())


def test_a_task_that_cannot_be_logged_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that somebody damaged: the log of every other task grows, in this round and in later ones."""
    monkeypatch.setattr(handlers, "LOG_SECONDS", 0.01)
    url, damaged = f"sqlite:///{tmp_path}/collect.db", replace(TASK, name="ants")  # which comes first

    async def use() -> None:
        async with running(ServiceSettings(url, ADMIN)) as (app, http):
            database = app.state.service.database
            with database.writing() as connection:
                store.put_task(connection, damaged)
                connection.execute(
                    insert(schema.sessions),
                    {"id": b"i", "task": "ants", "token": b"t", "promise": b"p", "expires": 1, "stage": "accepted"}
                    | {"reason": "", "nonce": b"n", "commitment": b"c", "opening": b"o", "outputs": None},
                )
                connection.execute(insert(schema.unlogged), {"task": "ants", "id": b"i"})
            for size, token in enumerate(("token", "another"), 1):
                hashed, now = store.token_hash(token), time.time()
                client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(size))
                with database.writing() as connection:
                    store.put_tokens(connection, TASK, [hashed])
                    begun = store.invite(connection, TASK, hashed, now, app.state.service.steps.keys)
                    sent, keys = client.commit(begun.invitation, "dog"), app.state.service.steps.keys
                    begun = store.put_commit(connection, TASK, hashed, sent, now, TASK.verifier, keys)
                    store.put_opening(connection, TASK, hashed, client.open(begun.challenge), now, TASK.verifier)
                async with asyncio.timeout(PATIENCE):
                    while (await http.get("/tasks/pets/head")).json()["size"] != size:
                        await asyncio.sleep(0.01)

    asyncio.run(use())


def test_who_leaves_is_counted_under_a_signed_head_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an operator cannot wait to see how many left before it decides whether to count them."""
    monkeypatch.setattr(handlers, "LOG_SECONDS", 0.01)

    async def use() -> None:
        async with running(ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN)) as (_, http):
            client = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(1))
            mine = {"Authorization": "Bearer token", "Content-Type": "application/msgpack"}
            await counted(http, 0, 0)
            invited = await http.post("/tasks/pets/session", headers=mine)
            await counted(http, 1, 0)
            sent = encode(client.commit(decode(invited.content, Invitation), "dog"))
            assert (await http.post("/tasks/pets/commit", headers=mine, content=sent)).status_code == 200
            await counted(http, 1, 1)

    asyncio.run(use())


async def counted(http: httpx.AsyncClient, begun: int, challenged: int) -> None:
    """Wait until the newest head counts so many."""
    async with asyncio.timeout(PATIENCE):
        while True:
            head = (await http.get("/tasks/pets/head")).json()  # or a refusal, if it is asked for too often
            if (head.get("begun"), head.get("challenged")) == (begun, challenged):
                return
            await asyncio.sleep(0.01)


def test_who_leaves_is_counted_after_a_restart_and_after_the_database_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, failures, grow = ServiceSettings(f"sqlite:///{tmp_path}/collect.db", ADMIN), [0], tree.grow

    def failing(*given: Any) -> TreeHead:
        if failures[0]:
            failures[0] -= 1
            raise OperationalError("UPDATE", None, Exception("disk I/O error"))
        return grow(*given)

    monkeypatch.setattr(tree, "grow", failing)

    async def begin(http: httpx.AsyncClient, token: str) -> None:
        """A session that its client leaves."""
        answer = await http.post("/tasks/pets/session", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200

    async def use() -> None:
        async with running(settings) as (_, http):
            await counted(http, 0, 0)
            await begin(http, "token")
        monkeypatch.setattr(handlers, "LOG_SECONDS", 0.01)
        async with running(settings) as (app, http):
            await counted(http, 1, 0)
            with app.state.service.database.writing() as connection:
                store.put_tokens(connection, TASK, [store.token_hash("another")])
            failures[0] = 1 + background.MAX_TRIES_OF_A_STEP
            await begin(http, "another")
            await counted(http, 2, 0)
            assert failures == [0]

    asyncio.run(use())
