"""One writer per process: concurrent requests share a transaction; recent sessions are cached."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from veridp.collect.reasons import Refused
from veridp.collect.service.database import Database
from veridp.collect.session import Session
from veridp.collect.task import Task

# ------------------------------------------------------------------------------------------------------- session cache
# Sessions that a process has seen lately, so that the next step of a client need not ask the database first.


MOST_SESSIONS = 10_000
LARGEST_COMMITMENT = 8192  # bytes; sessions with longer ones are read again, so that memory stays bounded


@dataclass(frozen=True)
class Remembered:
    """Sessions as they were, by task and token. They may have gone on meanwhile, by another process.

    What they hold never changes, and what they lack may have come: who goes on from one makes the change conditional
    on the stage, and looks again where it is another one.
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


MOST_TOGETHER = 256
TRIES = 5  # of a step alone, when the database gives up on it (a deadlock, a lost connection)

R = TypeVar("R")
log = logging.getLogger("veridp.collect")


@dataclass
class Asked(Generic[R]):
    """A step that somebody waits for."""

    key: bytes
    step: Callable[[Connection], R]
    answer: asyncio.Future[R]
    loop: asyncio.AbstractEventLoop
    found: R | None = None
    refused: BaseException | None = None

    def run(self, connection: Connection) -> None:
        self.refused = None
        try:
            self.found = self.step(connection)
        except Refused as refusal:
            self.refused = refusal

    def tell(self) -> None:
        """Give the answer to who waits, if it still does; in the event loop."""
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
    two processes never wait for each other in a circle.
    """

    database: Database
    _queue: queue.SimpleQueue[Asked[object] | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="veridp ledger", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what was asked, then end."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    async def do(self, key: bytes, step: Callable[[Connection], R]) -> R:
        """What the step returns, once it is durable; raises `Refused` where the step does."""
        loop = asyncio.get_running_loop()
        asked: Asked[R] = Asked(key, step, loop.create_future(), loop)
        self._queue.put(asked)  # type: ignore[arg-type]
        return await asked.answer

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            together, last = [first], False
            while len(together) < MOST_TOGETHER and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    last = True
                    break
                together.append(following)
            self._write(sorted(together, key=lambda asked: asked.key))
            if last:
                return

    def _write(self, together: list[Asked[object]]) -> None:
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

    def _alone(self, asked: Asked[object]) -> None:
        for _ in range(TRIES):
            try:
                self._transact([asked])
                break
            except DBAPIError as error:
                asked.refused = error
            except Exception as error:  # a fault of the step: who asked hears of it
                asked.refused = error
                break
        _tell_all([asked])

    def _transact(self, together: list[Asked[object]]) -> None:
        with self.database.writer.begin() as connection:
            for asked in together:
                asked.run(connection)


def _tell_all(together: list[Asked[object]]) -> None:
    """Wake the event loop once, for all answers of a transaction."""

    def tell() -> None:
        for asked in together:
            asked.tell()

    together[0].loop.call_soon_threadsafe(tell)
