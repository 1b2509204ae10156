"""What each address of the service does."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from veridp.collect.messages import Commit, Message, Opening, Reason, Refused, decode, encode
from veridp.collect.receipts import TreeHead
from veridp.collect.service import store, tree
from veridp.collect.service.background import (
    CommitQueue,
    Known,
    SessionCache,
    SessionSteps,
    VerifierPool,
    is_digest,
)
from veridp.collect.service.database import Database
from veridp.collect.service.keys import SigningKey
from veridp.collect.service.openapi import document
from veridp.collect.service.operations import (
    CONTENT_POLICY,
    JOIN_POLICY,
    Limiter,
    Metrics,
    ServiceSettings,
    address_of,
    client_file,
    join_page,
    limit_of_guesses,
    live_page,
    read_body,
    status_of,
)
from veridp.collect.service.partitions import drop_deleted, drop_some, is_missing
from veridp.collect.service.schema import tasks, under_way, unlogged
from veridp.collect.service.store import Sent
from veridp.collect.service.tally import forget_expired, standings
from veridp.collect.task import NAME, SessionStage, Task
from veridp.errors import BadInput

MESSAGE_TYPE = "application/msgpack"
TOKENS_TOGETHER = 4000  # that are written in one transaction: clients of SQLite wait for it, some 20 ms
LOG_SECONDS = 5.0  # after which decided sessions are in the log, if nobody asks before
CHECKED = Known()  # a commitment of the due form, and no verdict

R = TypeVar("R")
M = TypeVar("M", bound=Message)
log = logging.getLogger("veridp.collect")


@dataclass(frozen=True)
class Service:
    """A process of the service."""

    settings: ServiceSettings
    steps: SessionSteps
    signing_key: SigningKey
    database: Database
    queue: CommitQueue
    verifiers: VerifierPool
    limiter: Limiter
    metrics: Metrics
    known: dict[str, Task]  # tasks never change
    cached: SessionCache
    underway: dict[tuple[str, float], asyncio.Future[dict[str, Any]]]
    growing: dict[str, asyncio.Future[TreeHead]]
    stirred: set[str]  # tasks with sessions that no head may count yet
    dropping: set[asyncio.Task[None]]

    # ------------------------------------------------------------------------------------------------- clients

    async def session(self, request: Request) -> Response:
        """The invitation of the token's one session."""
        token = self._client(request)
        task = await self._task(request)
        found = await self._timed(self.queue.do_together(token, self.steps.invite, (task, token)))
        self.stirred.add(task.name)
        self.cached.keep(task, token, found)
        return _message(found.invitation)

    async def commit(self, request: Request) -> Response:
        """The challenge that answers a commitment."""
        token = self._client(request)
        task = await self._task(request)
        commit = await self._message(request, task, Commit)
        _check_task(task, commit)
        if not is_digest(task.verifier) and (task.name, token) not in self.cached.sessions:
            # Checking points takes milliseconds, so only tokens with a session may ask for it.
            before = await self._write(token, lambda connection: store.get_session(connection, task, token))
            self.cached.keep(task, token, before)
        await self.verifiers.check(task, commit)
        sent = Sent(task, token, commit, CHECKED, self.cached.take(task, token))
        found = await self._timed(self.queue.do_together(token, self.steps.commit, sent))
        self.stirred.add(task.name)
        self.cached.keep(task, token, found)
        return _message(found.challenge)

    async def open(self, request: Request) -> Response:
        """The verdict on an opening."""
        token = self._client(request)
        task = await self._task(request)
        opening = await self._message(request, task, Opening)
        _check_task(task, opening)
        before = self.cached.take(task, token)
        if before is None or before.stage == SessionStage.INVITED:
            before = await self._write(token, lambda connection: store.get_session(connection, task, token))
        known = CHECKED
        if before.stage == SessionStage.CHALLENGED and before.commit is not None:
            known = Known(
                before.commit, opening, await self.verifiers.judge(task, before.commit, before.challenge, opening)
            )
        sent = Sent(task, token, opening, known, before)
        found = await self._timed(self.queue.do_together(token, self.steps.open, sent))
        assert found.verdict is not None  # noqa: S101  `put_opening` decides
        return _message(found.verdict)

    async def receipt(self, request: Request) -> Response:
        """The place of the token's decided session in the log, with the path to a signed head."""
        token = self._client(request)
        task = await self._task(request)
        try:
            found = await self._read(lambda connection: tree.receipt_of(connection, task, token))
        except Refused as refusal:
            if refusal.reason != Reason.UNAVAILABLE:
                raise
            await self._grow(task)
            found = await self._read(lambda connection: tree.receipt_of(connection, task, token))
        return JSONResponse(found.to_document())

    async def head(self, request: Request) -> Response:
        """The newest signed head of the log."""
        self._limit(request)
        task = await self._task(request)
        found = await self._read(lambda connection: tree.head_of(connection, task))
        return JSONResponse((found or await self._grow(task)).to_document())

    async def consistency(self, request: Request) -> Response:
        """What shows that the log of one size begins with that of another."""
        self._limit(request)
        task = await self._task(request)
        given = [request.query_params.get(name, "") for name in ("first", "second")]
        if not all(text.isascii() and text.isdigit() and len(text) < 19 for text in given):
            raise Refused(Reason.MALFORMED, "give two sizes of the log: ?first=…&second=…")
        path = await self._read(lambda connection: tree.consistency_of(connection, task, *map(int, given)))
        return JSONResponse({"path": [step.hex() for step in path]})

    async def _grow(self, task: Task) -> TreeHead:
        """The head with all decided sessions; those who ask at once share the work."""
        if task.name not in self.growing:
            step = self._write(b"", lambda connection: tree.grow(connection, task, self.signing_key))
            self.growing[task.name] = asyncio.ensure_future(step)
            self.growing[task.name].add_done_callback(lambda _: self.growing.pop(task.name))
        return await asyncio.shield(self.growing[task.name])

    async def _log_all(self, task: Task) -> None:
        """Put all decided sessions into the log: as many at a time as a transaction takes, until none is left."""
        size = -1
        while size != (grown := (await self._grow(task)).size):
            size = grown

    async def keep_log(self) -> None:
        """Every few seconds, add decided sessions to the log and count those that have begun. Never returns."""
        waiting = under_way  # at first: a process that was killed may not have counted them
        while True:
            await asyncio.sleep(LOG_SECONDS)
            with _logged("sessions are not in the log yet"):
                self.stirred.update(await self._read(partial(tree.tasks_to_log, waiting=waiting)))
                waiting = unlogged
            for name in sorted(self.stirred):
                with _logged(f"sessions of {name!r} are not in the log yet"):  # which keeps no other task waiting
                    await self._keep_log_of(name)

    async def _keep_log_of(self, name: str) -> None:
        self.stirred.discard(name)  # before: it may be stirred again meanwhile
        try:
            task = await self._read(partial(store.get_task, name=name))
            await self._log_all(task)
            await self._write(b"", partial(forget_expired, task=task, now=time.time()))
        except Exception as error:
            if not (isinstance(error, Refused) and error.reason == Reason.TASK_CLOSED):  # it was deleted
                self.stirred.add(name)
            raise

    async def get_task(self, request: Request) -> Response:
        """The definition of a task, which clients read before they take part."""
        self._limit(request)
        task = await self._task(request)
        return Response(task.to_json(), media_type="application/json")

    # ------------------------------------------------------------------------------------------ administrators

    async def put_task(self, request: Request) -> Response:
        """Keep a task; the same task again changes nothing."""
        self._administrator(request)
        given = await self._json(request)
        name = request.path_params["name"]
        if isinstance(given, dict) and given.setdefault("name", name) != name:
            raise BadInput(f"the task is named {given['name']!r} and the address says {name!r}")
        task = Task.from_document(given)
        await self._administer(lambda connection: store.put_task(connection, task))
        return Response(task.to_json(), media_type="application/json")

    async def list_tasks(self, request: Request) -> Response:
        """All tasks: until when they are open, and how many reports they have."""
        self._administrator(request)
        return JSONResponse({"tasks": await self._read(_listed)})

    async def close(self, request: Request) -> Response:
        """Begin no sessions of a task from now on, or from another time."""
        self._administrator(request)
        task = await self._task(request)
        given = await self._json(request)
        closes = given.get("closes", int(time.time())) if isinstance(given, dict) else None
        if type(closes) is not int or not 0 <= closes < 1 << 53:
            raise Refused(Reason.MALFORMED, 'give {"closes": seconds since 1970}, or {} for now')
        await self._administer(lambda connection: store.close_task(connection, task, closes))
        return JSONResponse({"task": task.name, "closes": closes})

    async def delete(self, request: Request) -> Response:
        """Delete what clients sent to a task that is closed."""
        self._administrator(request)
        task = await self._task(request)
        await self._administer(lambda connection: store.delete_task(connection, task, time.time()))
        self.known.pop(task.name, None)
        await asyncio.wait({self.drop()}, timeout=self.settings.database_seconds)
        return JSONResponse({"task": task.name, "deleted": True})

    def drop(self) -> asyncio.Task[None]:
        """Give back the space of deleted tasks: on SQLite, some rows at a time between the steps of clients."""

        async def drop() -> None:
            try:
                if self.database.writer.dialect.name == "postgresql":
                    await asyncio.to_thread(drop_deleted, self.database.writer)
                else:
                    while await self.queue.do(b"", drop_some):
                        pass
            except SQLAlchemyError as error:
                log.warning("the space of deleted tasks is given back later: %s", error)

        found = asyncio.create_task(drop())
        self.dropping.add(found)
        found.add_done_callback(self.dropping.discard)
        return found

    async def put_tokens(self, request: Request) -> Response:
        """Let the clients take part whose tokens have these hashes: some at a time, since clients of SQLite wait."""
        self._administrator(request)
        task = await self._task(request)
        hashes = sorted(set(_hashes(await self._json(request))))
        for start in range(0, len(hashes), TOKENS_TOGETHER):
            some = hashes[start : start + TOKENS_TOGETHER]
            await self._apart(partial(store.put_tokens, task=task, hashes=some))
        return JSONResponse({"tokens": len(hashes)})

    async def status(self, request: Request) -> Response:
        """How the collection stands, with the estimate if it may be published."""
        self._administrator(request)
        task = await self._task(request)
        confidence = _confidence(request)
        key = (task.name, confidence)
        if key not in self.underway:  # all who ask meanwhile get the same answer: it may take long to compute
            reading = self._read(lambda connection: status_of(connection, task, time.time(), confidence))
            self.underway[key] = asyncio.ensure_future(reading)
            self.underway[key].add_done_callback(lambda _: self.underway.pop(key))
        return JSONResponse(await asyncio.shield(self.underway[key]))

    async def log(self, request: Request) -> Response:
        """The whole transcript, for auditors."""
        self._administrator(request)
        task = await self._task(request)
        await self._log_all(task)

        async def pieces() -> AsyncIterator[bytes]:
            with await asyncio.to_thread(self.database.reader.connect) as connection:
                found = await asyncio.to_thread(tree.log_of, connection, task.name)
                while piece := await asyncio.to_thread(lambda: b"".join(p for _, p in zip(range(500), found))):  # noqa: B905
                    yield piece

        return StreamingResponse(pieces(), media_type="application/octet-stream")

    # --------------------------------------------------------------------------------------------------- all

    async def live(self, request: Request) -> Response:
        self._limit(request)
        task = await self._task(request)
        return HTMLResponse(live_page(task), headers={"Content-Security-Policy": CONTENT_POLICY})

    async def join(self, request: Request) -> Response:
        """The page on which a person takes part."""
        self._limit(request)
        task = await self._task(request)
        return HTMLResponse(join_page(task), headers={"Content-Security-Policy": JOIN_POLICY})

    async def client_script(self, request: Request) -> Response:
        """A file of the JavaScript client."""
        self._limit(request)
        found = client_file(request.path_params["file"])
        if found is None:
            raise Refused(Reason.NOT_FOUND, "the client has no such file")
        return Response(found, media_type="text/javascript", headers={"X-Content-Type-Options": "nosniff"})

    async def health(self, request: Request) -> Response:
        self._limit(request)
        await self._read(lambda connection: connection.execute(select(tasks.c.name).limit(1)).all())
        return PlainTextResponse("ok\n")

    async def openapi(self, request: Request) -> Response:
        self._limit(request)
        return JSONResponse(document())

    async def metrics_page(self, request: Request) -> Response:
        self._administrator(request, self.settings.metrics_token)
        text = await self._timed(asyncio.to_thread(self.metrics.text))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    # --------------------------------------------------------------------------------------------------- parts

    async def _task(self, request: Request) -> Task:
        name = request.path_params["name"]
        if not NAME.fullmatch(name):
            raise Refused(Reason.UNKNOWN_TASK, f"there is no task {name[:80]!r}")
        if name not in self.known:
            self.known[name] = await self._read(lambda connection: store.get_task(connection, name))
        return self.known[name]

    async def _read(self, step: Callable[[Connection], R]) -> R:
        def run() -> R:
            with self.database.reading() as connection:
                return step(connection)

        return await self._timed(asyncio.to_thread(run))

    async def _write(self, key: bytes, step: Callable[[Connection], R]) -> R:
        """What the step gives, once it is durable."""
        return await self._timed(self.queue.do(key, step))

    async def _administer(self, step: Callable[[Connection], None]) -> None:
        """Change a task: beside the queue on PostgreSQL, where it may wait for a lock; through it on SQLite."""
        await (self._apart(step) if self.database.writer.dialect.name == "postgresql" else self._write(b"", step))

    async def _apart(self, step: Callable[[Connection], None]) -> None:
        """Do a step in a thread of its own, so that no client waits for it."""

        def run() -> None:
            with self.database.writing() as connection:
                step(connection)

        await self._timed(asyncio.to_thread(run))

    async def _timed(self, answer: Awaitable[R]) -> R:
        """The database's answer, if it comes in time. A step that timed out may still be carried out later."""
        try:
            async with asyncio.timeout(self.settings.database_seconds):
                return await answer
        except SQLAlchemyError as error:
            if not is_missing(error):
                raise
            self.known.clear()
            raise Refused(Reason.TASK_CLOSED, "the task was deleted; its name cannot be used again") from None
        except TimeoutError:
            raise Refused(Reason.UNAVAILABLE, "the database does not answer in time; try again") from None

    async def _message(self, request: Request, task: Task, kind: type[M]) -> M:
        _check_type(request, MESSAGE_TYPE)
        return decode(await read_body(request, task.largest_message, self.settings.request_seconds), kind)

    async def _json(self, request: Request) -> object:
        _check_type(request, "application/json")
        try:
            return json.loads(await read_body(request, self.settings.largest_body, self.settings.request_seconds))
        except (ValueError, RecursionError):
            raise Refused(Reason.MALFORMED, "the body is not a JSON document") from None

    def _client(self, request: Request) -> bytes:
        """The hash of the client's token.

        An address that guesses tokens is limited for new clients, but not for those whose sessions have begun: they
        would miss their deadline and count as aborts.
        """
        hashed = store.token_hash(_bearer(request))
        if (request.path_params["name"], hashed) not in self.cached.sessions:
            self.limiter.check(limit_of_guesses(request), taken=0)
        self.limiter.check(f"token {hashed.hex()}")
        return hashed

    def _administrator(self, request: Request, other: str = "") -> None:
        """Refuse a request that has neither the admin token nor the other one.

        The administrator has a limit of its own, so guesses from the same address cannot use it up.
        """
        found = _bearer(request).encode()
        good = [hmac.compare_digest(found, token.encode()) for token in (self.settings.admin_token, other) if token]
        if not any(good):
            self.limiter.check(limit_of_guesses(request), taken=0)
            raise Refused(Reason.UNKNOWN_TOKEN, "this needs the admin token")
        self.limiter.check("administrator")

    def _limit(self, request: Request) -> None:
        """Limits requests without a token, by address."""
        self.limiter.check(f"address {address_of(request)}")


def _listed(connection: Connection) -> list[dict[str, Any]]:
    known = store.all_tasks(connection)
    found = standings(connection, [task for task, _ in known], time.time())
    return [
        {
            "task": task.name,
            "mechanism": task.mechanism,
            "epsilon": task.protocol.epsilon,
            "closes": closes,
            "accepted": found[task.name].attendance.accepted,
        }
        for task, closes in known
    ]


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log any error instead of raising it: the step is tried again later."""
    try:
        yield
    except Exception as error:
        log.warning("%s: %s", what, error)


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise Refused(Reason.UNKNOWN_TOKEN, "send a token: Authorization: Bearer …")
    return token


def _check_type(request: Request, needed: str) -> None:
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != needed:
        raise Refused(Reason.WRONG_CONTENT_TYPE, f"content of type {found!r}; send {needed}")


def _check_task(task: Task, message: Message) -> None:
    if message.task != task.digest:
        raise Refused(Reason.WRONG_TASK, f"the message does not belong to the task {task.name!r} defined here")


def _hashes(given: object) -> list[bytes]:
    hashes = given.get("hashes") if isinstance(given, dict) and len(given) == 1 else None
    if not isinstance(hashes, list):
        raise Refused(Reason.MALFORMED, 'send {"hashes": ["…", …]}')
    try:
        found = [bytes.fromhex(entry) for entry in hashes]
    except (ValueError, TypeError):
        found = [b""]
    if any(len(entry) != store.TOKEN_BYTES for entry in found):
        raise Refused(Reason.MALFORMED, f"a hash of a token is {store.TOKEN_BYTES} bytes in hexadecimal digits")
    return found


def _confidence(request: Request) -> float:
    try:
        found = float(request.query_params.get("confidence", "0.95"))
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        raise Refused(Reason.MALFORMED, "confidence must be in (0, 1)")
    return found


def _message(message: Message) -> Response:
    return Response(encode(message), media_type=MESSAGE_TYPE)
