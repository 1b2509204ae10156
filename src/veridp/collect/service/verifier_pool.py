"""Verification off the event loop: a pool of processes that judge openings, several at a time."""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache

from veridp.budget.child_process import end_with_parent
from veridp.collect.commitments import scheme
from veridp.collect.layout import Layout
from veridp.collect.messages import Challenge, Commit, Opening, SessionVerdict
from veridp.collect.reasons import Reason, Refused
from veridp.collect.session import Verifier
from veridp.collect.task import Task

MOST_TOGETHER = 32
TRIES = 3


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
    """What a pool has found already, in the place of the verifier that found it: the verdict on this opening alone."""

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
class Judges:
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
        if verifier.scheme.commitment_bytes(verifier.layout) <= 64:
            verifier.check(commit)
        else:
            await self._asked(SessionCase(verifier.layout, task.scheme, commit))

    async def judge(self, task: Task, commit: Commit, challenge: Challenge, opening: Opening) -> SessionVerdict:
        """The verdict on an opening."""
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
            together, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
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
        except Exception as error:  # nobody else would hear of it
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
            if waiting.tries < TRIES:
                self._waiting.append(waiting)
            else:
                _fail(waiting, error)


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
