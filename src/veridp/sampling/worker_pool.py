"""Runs the blocks of a job in order: here, in worker processes, in threads, or on any executor.

A worker that dies does not lose the run: the blocks that were under way are run again, each alone, and only one that
ends its worker over and over is given up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from typing import Any

from veridp.budget.child_process import inside
from veridp.budget.parent import end_with_parent
from veridp.budget.threads import without_parents_threads
from veridp.errors import MechanismHung, WorkerLost
from veridp.kernel.template import shown
from veridp.sampling.blocks import BLOCKS, Failure, Job, Reading, run_remotely
from veridp.sampling.shipping import packed

ATTEMPTS = 3  # how often a block may end its worker
LOOK_AT_POOL = 1.0  # seconds between two looks at whether an executor still keeps track of its workers
GRACE = 30.0  # seconds past the time limit after which a worker that did not notice it is ended from outside
AT_HOME = {Reading.ONE_BY_ONE: 2**13, Reading.VECTORISED: 2**22, Reading.BATCH: 2**22, Reading.COMPILED: 2**20}


def results(job: Job, executor: Executor | None = None, workers: int | None = None) -> Generator[Any, None, None]:
    """What each block of the job gives, in the order of the blocks.

    With neither executor nor workers, small jobs run in this process, larger ones on as many workers as there are
    cores; the results are the same.
    """
    if stays_here(job, executor, workers):
        return (job.run(block) for block in range(job.blocks))
    try:
        payload = packed(job)
    except Exception:  # what cannot be sent away is run here; where does not matter to the result
        return (job.run(block) for block in range(job.blocks))
    return _Run(job, payload, executor, min(workers or _cores(), job.blocks)).results()


def stays_here(job: Job, executor: Executor | None, workers: int | None) -> bool:
    """Whether the job is run in this process."""
    crew = workers if workers is not None else (1 if job.count <= AT_HOME[job.reading] else _cores())
    return executor is None and (crew <= 1 or job.blocks <= 1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Run:
    """A job under way on an executor."""

    def __init__(self, job: Job, payload: bytes, executor: Executor | None, workers: int) -> None:
        self.job = job
        self.payload = payload
        self.workers = workers
        self.executor = executor
        self.own: WorkerPool | None = None
        self.waiting = list(range(job.blocks))[::-1]  # the next one last
        self.flying: dict[Future[Any], int] = {}
        self.landed: dict[int, Any] = {}
        self.losses: Counter[int] = Counter()
        self.suspects: set[int] = set()

    def results(self) -> Generator[Any, None, None]:
        completed = False
        try:
            for block in range(self.job.blocks):
                while block not in self.landed:
                    self._launch(block)
                    self._land()
                result = self.landed.pop(block)
                if isinstance(result, Failure):
                    result.reraise()
                yield result
            completed = True
        finally:
            for future in self.flying:
                future.cancel()
            if self.own is not None:
                self.own.dismiss(kill=not completed)

    def _launch(self, next_block: int) -> None:
        """Keep the workers busy, but not so far ahead that results pile up; suspects fly alone."""
        room = 1 if self.suspects else 2 * self.workers
        while self.waiting and len(self.flying) < room and self.waiting[-1] < next_block + 4 * self.workers:
            block = self.waiting.pop()
            try:
                with hidden_main():  # submitting may start a process
                    self.flying[self._executor().submit(run_remotely, self.payload, block)] = block
            except RuntimeError:  # the executor is broken or has been shut down
                self.waiting.append(block)
                self._lose([])

    def _executor(self) -> Executor:
        if self.executor is not None:
            return self.executor
        if self.own is None:
            self.own = WorkerPool(self.workers, threads=self.job.reading is Reading.COMPILED)
        return self.own.executor

    def _land(self) -> None:
        limit = self.job.time_limit
        # Every worker's own clock ends a block at the limit; only what ignores it makes this wait run out.
        patience = None if limit is None or self.executor is not None else limit + GRACE
        try:
            done = first_done(self.flying, self._executor(), patience)
        except BrokenExecutor:
            self._lose([])
            return
        if not done and self.flying:
            raise MechanismHung(
                f"{self.job.name} did not return within {limit:.3g} s on {shown(self.job.data)} and could not be "
                f"interrupted; its worker was ended. Give it more time, or look for a loop that does not end"
            )
        lost: list[int] = []
        for future in done:
            block = self.flying.pop(future)
            try:
                self.landed[block] = future.result()
                self.suspects.discard(block)
            except Exception:  # run_remotely raises nothing: it is the executor that failed
                lost.append(block)
        if lost:
            self._lose(lost)

    def _lose(self, blocks: list[int]) -> None:
        """The executor is gone, and with it all that was under way; go on with workers of our own."""
        lost = sorted({*blocks, *self.flying.values()})
        self.flying.clear()
        self.losses.update(lost)
        worst = next((block for block in lost if len(lost) == 1 and self.losses[block] >= ATTEMPTS), None)
        if worst is not None:
            raise WorkerLost(
                f"{self.job.name} on {shown(self.job.data)} ended its worker {ATTEMPTS} times in block {worst}, whose "
                f"stream is SeedSequence({self.job.seed}, spawn_key=({BLOCKS}, {worst})); "
                f"look for os._exit, a crash in compiled code, or too little memory"
            )
        self.suspects.update(lost)
        self.waiting = sorted({*self.waiting, *lost}, reverse=True)
        self.executor = None
        if self.own is not None:
            self.own.dismiss(kill=True)
            self.own = None


def first_done(futures: Collection[Future[Any]], executor: Executor, patience: float | None = None) -> set[Future[Any]]:
    """The futures that are done, as soon as one is; none after so many seconds.

    Raises BrokenExecutor where none will ever be: if a worker of Python's process pool dies while a future that was
    cancelled is in its list, the thread that keeps the list fails, and tells nobody.
    """
    ends = None if patience is None else time.monotonic() + patience
    while True:
        left = LOOK_AT_POOL if ends is None else min(LOOK_AT_POOL, max(0.0, ends - time.monotonic()))
        keeper = getattr(executor, "_executor_manager_thread", None)
        lost = isinstance(keeper, threading.Thread) and not keeper.is_alive()
        done, _ = wait(futures, timeout=left, return_when=FIRST_COMPLETED)
        if done or not futures or (ends is not None and time.monotonic() >= ends):
            return done
        if lost:
            raise BrokenExecutor("the process pool has lost track of its workers")


class WorkerPool:
    """Workers of our own: threads for compiled code, which lets go of the interpreter, else processes."""

    def __init__(self, workers: int, threads: bool) -> None:
        self.executor: Executor
        if threads:
            self.executor = ThreadPoolExecutor(workers)
        else:
            self.executor = ProcessPoolExecutor(workers, _context(), initializer=_answer_to_the_parent_alone)

    def dismiss(self, kill: bool) -> None:
        """Wait for the workers to leave, or end them."""
        if kill and isinstance(self.executor, ProcessPoolExecutor):
            for process in list((getattr(self.executor, "_processes", None) or {}).values()):
                with suppress(Exception):  # it may have ended by itself
                    process.kill()
        self.executor.shutdown(wait=True, cancel_futures=True)


def _context() -> Any:
    """How worker processes start: from a clean server where there is one, as a fork of a process with threads may
    hang. A contained child has no other threads, so that its workers can be forked at once."""
    if inside():
        return multiprocessing.get_context("fork")
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload(["veridp.sampling.blocks"])
    return context


def _answer_to_the_parent_alone() -> None:
    """Ctrl-C reaches the whole process group: the parent answers it, and ends its workers; they end with it too."""
    end_with_parent()
    without_parents_threads()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


_main_lock = threading.Lock()


@contextmanager
def hidden_main() -> Iterator[None]:
    """Keep new processes from importing the user's script: what they need of it is in the pickle, and a script
    without a `__name__` guard would start itself again."""
    main = sys.modules["__main__"]
    with _main_lock:
        kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
        try:
            for name in kept:
                setattr(main, name, None)
            if "__file__" in kept:
                del main.__file__
            yield
        finally:
            for name, value in kept.items():
                setattr(main, name, value)
