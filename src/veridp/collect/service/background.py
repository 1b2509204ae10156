"""Work off the event loop: one writer per process, whose requests share a transaction; and a pool of processes that
verify openings."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from veridp.budget.worker import end_with_parent
from veridp.collect.commitments import scheme
from veridp.collect.harmless import Layout
from veridp.collect.messages import Challenge, Commit, Opening, Reason, Refused, SessionVerdict
from veridp.collect.service import store
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys
from veridp.collect.task import Session, Task, Verifier

# ------------------------------------------------------------------------------------------------------- session cache
# Sessions that a process has seen lately, so that the next step of a client does not ask the database first.


MOST_SESSIONS = 10_000
LARGEST_COMMITMENT = 8192  # bytes; sessions with longer ones are read again, so that memory stays bounded


@dataclass(frozen=True)
class SessionCache:
    """Recent sessions by task and token. Another process may have advanced them meanwhile.

    What they hold never changes, but more may have been added. So a change that builds on one is conditional on its
    stage, and the session is read again where the stage is another.
    """

    sessions: OrderedDict[tuple[str, bytes], Session] = field(default_factory=OrderedDict)

    def keep(self, task: Task, token: bytes, session: Session) -> None:
        if session.commit is not None and len(session.commit.commitment) > LARGEST_COMMITMENT:
            return
        self.sessions[task.name, token] = session
        if len(self.sessions) > MOST_SESSIONS:
            self.sessions.popitem(last=False)

    def take(self, task: Task, token: bytes) -> Session | None:
        return self.sessions.pop((task.name, token), None)


# -------------------------------------------------------------------------------------------------------- commit queue
# One writer for a process: what is asked at once is written in one transaction, and answered when it is durable.


MAX_STEPS_PER_TRANSACTION = 256
GATHER_SECONDS = 0.005  # that a transaction waits for more steps if the last one had several: a lone client never waits
MAX_GATHERS = 5  # of these waits, each while the one before brought steps
MAX_TRIES_OF_A_STEP = 5  # of a step alone, when the database gives up on it (a deadlock, a lost connection)

Q = TypeVar("Q")
R = TypeVar("R")
log = logging.getLogger("veridp.collect")


Batch = Callable[[Connection, Sequence[Q]], Sequence[R | Refused]]  # what becomes of each request, in order


@dataclass
class Asked(Generic[Q, R]):
    """A request whose result is awaited, and the batch that it is a part of."""

    key: bytes
    batch: Batch[Q, R]
    request: Q
    answer: asyncio.Future[R]
    loop: asyncio.AbstractEventLoop
    found: R | None = None
    refused: BaseException | None = None

    def note(self, found: R | Refused) -> None:
        self.refused, self.found = (found, None) if isinstance(found, Refused) else (None, found)

    def tell(self) -> None:
        """Deliver the answer, if it is still awaited; called in the event loop."""
        if self.answer.done():
            return
        if self.refused is not None:
            self.answer.set_exception(self.refused)
        else:
            self.answer.set_result(self.found)  # type: ignore[arg-type]


@dataclass
class CommitQueue:
    """Runs steps, each wholly or not at all, in a thread of its own.

    `do` returns when the step's transaction is committed: a crash after that loses nothing. A step may be run again
    if its transaction failed, so it must have no other effects. Steps of one transaction go by their keys, so that
    two processes never wait for each other in a circle, and those of one batch are run together.
    """

    database: Database
    pause: Callable[[float], None] = time.sleep
    _queue: queue.SimpleQueue[Asked[Any, Any] | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="veridp commit queue", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what was asked, then end."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    async def do(self, key: bytes, step: Callable[[Connection], R]) -> R:
        """What the step returns, once it is durable; raises `Refused` if the step does."""
        return await self.do_together(key, _one_by_one, step)

    async def do_together(self, key: bytes, batch: Batch[Q, R], request: Q) -> R:
        """What the batch gives for the request, once it is durable; raises `Refused` if it gives that."""
        loop = asyncio.get_running_loop()
        asked: Asked[Q, R] = Asked(key, batch, request, loop.create_future(), loop)
        self._queue.put(asked)
        return await asked.answer

    def _work(self) -> None:
        crowded = False
        while (first := self._queue.get()) is not None:
            if crowded:
                self._gather()
            together, last = [first], False
            while len(together) < MAX_STEPS_PER_TRANSACTION and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    last = True
                    break
                together.append(following)
            crowded = len(together) > 1
            self._write(sorted(together, key=lambda asked: asked.key))
            if last:
                return

    def _gather(self) -> None:
        """Wait while more steps arrive, but not for long: a transaction of ten costs little more than one of one."""
        for _ in range(MAX_GATHERS):
            before = self._queue.qsize()
            self.pause(GATHER_SECONDS)
            if self._queue.qsize() == before:
                return

    def _write(self, together: list[Asked[Any, Any]]) -> None:
        try:
            self._transact(together)
        except Exception as error:
            if len(together) > 1 or isinstance(error, DBAPIError):
                log.warning("a transaction of %d steps failed, each is tried alone: %s", len(together), error)
                for asked in together:
                    self._alone(asked)
                return
            together[0].refused = error
        _tell_all(together)

    def _alone(self, asked: Asked[Any, Any]) -> None:
        for _ in range(MAX_TRIES_OF_A_STEP):
            try:
                self._transact([asked])
                break
            except DBAPIError as error:
                asked.refused = error
            except Exception as error:  # a fault of the step, for its caller
                asked.refused = error
                break
        _tell_all([asked])

    def _transact(self, together: list[Asked[Any, Any]]) -> None:
        batches: dict[Batch[Any, Any], list[Asked[Any, Any]]] = {}
        for asked in together:
            batches.setdefault(asked.batch, []).append(asked)
        with self.database.writing() as connection:
            for batch, members in batches.items():
                found = batch(connection, [asked.request for asked in members])
                for asked, answer in zip(members, found, strict=True):
                    asked.note(answer)


@dataclass(frozen=True)
class SessionSteps:
    """The batches of the three steps that clients take."""

    keys: NonceKeys

    def invite(self, connection: Connection, asked: Sequence[tuple[Task, bytes]]) -> list[Session | Refused]:
        return store.invite_all(connection, asked, time.time(), self.keys)

    def commit(self, connection: Connection, sent: Sequence[store.Sent[Commit]]) -> list[Session | Refused]:
        return store.put_commits(connection, sent, time.time(), self.keys)

    def open(self, connection: Connection, sent: Sequence[store.Sent[Opening]]) -> list[Session | Refused]:
        return store.put_openings(connection, sent, time.time())


def _one_by_one(connection: Connection, steps: Sequence[Callable[[Connection], R]]) -> list[R | Refused]:
    """The batch of steps that have nothing in common."""
    found: list[R | Refused] = []
    for step in steps:
        try:
            found.append(step(connection))
        except Refused as refusal:
            found.append(refusal)
    return found


def _tell_all(together: list[Asked[Any, Any]]) -> None:
    """Wake the event loop once, for all answers of a transaction."""

    def tell() -> None:
        for asked in together:
            asked.tell()

    together[0].loop.call_soon_threadsafe(tell)


# ------------------------------------------------------------------------------------------------------- verifier pool
# Verification off the event loop: a pool of processes that judge openings, several at a time.


MOST_HASHED_ENTRIES = 256  # of an opening that is judged in place: handing it to another process costs more
MAX_CASES_TOGETHER = 32
MAX_TRIES_OF_A_CASE = 3


@dataclass(frozen=True)
class SessionCase:
    """A commitment to check, or with its challenge and opening a session to judge."""

    layout: Layout
    scheme: str
    commit: Commit
    challenge: Challenge | None = None
    opening: Opening | None = None


@dataclass(frozen=True)
class Known:
    """Stands in for the verifier once a pool has judged: it knows the verdict on this opening only."""

    commit: Commit | None = None
    opening: Opening | None = None
    verdict: SessionVerdict | None = None

    def check(self, commit: Commit) -> None:
        return None

    def judge(self, commit: Commit, challenge: Challenge, opening: Opening) -> SessionVerdict:
        if self.verdict is None or (commit, opening) != (self.commit, self.opening):
            raise Refused(Reason.CONFLICT, "the session changed meanwhile; try again")
        return self.verdict


@dataclass
class _Waiting:
    case: SessionCase
    answer: asyncio.Future[SessionVerdict | None]
    tries: int = 0


@dataclass
class VerifierPool:
    """The pool. Cases that wait go to a free process together; if a process dies, its cases are judged again."""

    processes: int
    _pool: ProcessPoolExecutor | None = None
    _waiting: list[_Waiting] = field(default_factory=list)
    _busy: int = 0
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self.processes, mp_context=spawn, initializer=end_with_parent)

    async def ready(self) -> None:
        """Wait until a process of the pool answers: the first one takes a second or two to start."""
        await asyncio.get_running_loop().run_in_executor(self._pool, judged, [])

    def stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    async def check(self, task: Task, commit: Commit) -> None:
        """Refuse a commitment of the wrong form; a single digest is checked at once."""
        verifier = task.verifier
        if is_digest(verifier):
            verifier.check(commit)
        else:
            await self._asked(SessionCase(verifier.layout, task.scheme, commit))

    async def judge(self, task: Task, commit: Commit, challenge: Challenge, opening: Opening) -> SessionVerdict:
        """The verdict on an opening; a short one under a single digest is judged at once."""
        verifier = task.verifier
        if is_digest(verifier) and verifier.layout.size <= MOST_HASHED_ENTRIES:
            return verifier.judge(commit, challenge, opening)
        found = await self._asked(SessionCase(task.protocol.layout, task.scheme, commit, challenge, opening))
        assert found is not None  # noqa: S101  a case with an opening has a verdict
        return found

    async def _asked(self, case: SessionCase) -> SessionVerdict | None:
        waiting = _Waiting(case, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._dispatch()
        return await waiting.answer

    def _dispatch(self) -> None:
        while self._waiting and self._busy < self.processes:
            together, self._waiting = (
                self._waiting[:MAX_CASES_TOGETHER],
                self._waiting[MAX_CASES_TOGETHER:],
            )
            self._busy += 1
            running = asyncio.get_running_loop().create_task(self._run(together))
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def _run(self, together: list[_Waiting]) -> None:
        pool = self._pool
        try:
            assert pool is not None  # noqa: S101  started
            cases = [waiting.case for waiting in together]
            found = await asyncio.get_running_loop().run_in_executor(pool, judged, cases)
        except BrokenProcessPool as error:
            if self._pool is pool:
                self.start()
            self._again(together, error)
        except Exception as error:  # it would be lost otherwise
            for waiting in together:
                _fail(waiting, error)
        else:
            for waiting, answer in zip(together, found, strict=True):
                if isinstance(answer, Refused):
                    _fail(waiting, answer)
                elif not waiting.answer.done():
                    waiting.answer.set_result(answer)
        finally:
            self._busy -= 1
            self._dispatch()

    def _again(self, together: list[_Waiting], error: Exception) -> None:
        for waiting in together:
            waiting.tries += 1
            if waiting.tries < MAX_TRIES_OF_A_CASE:
                self._waiting.append(waiting)
            else:
                _fail(waiting, error)


def is_digest(verifier: Verifier) -> bool:
    """Whether commitments are a hash alone, which costs nothing to check."""
    return verifier.scheme.commitment_bytes(verifier.layout) <= 64


def _fail(waiting: _Waiting, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)


def judged(cases: list[SessionCase]) -> list[SessionVerdict | Refused | None]:
    """The answers to cases, in order."""
    return [_judged(case) for case in cases]


def _judged(case: SessionCase) -> SessionVerdict | Refused | None:
    verifier = _verifier(case.layout, case.scheme)
    if case.challenge is not None and case.opening is not None:
        return verifier.judge(case.commit, case.challenge, case.opening)
    try:
        verifier.check(case.commit)
    except Refused as refusal:
        return refusal
    return None


@lru_cache(maxsize=64)
def _verifier(layout: Layout, name: str) -> Verifier:
    return Verifier(layout, scheme(name))
