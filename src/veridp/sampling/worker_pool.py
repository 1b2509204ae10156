"""Runs tasks in order: here, in worker processes, in threads, or on any executor."""

from __future__ import annotations

import itertools
import logging
import math
import os
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Generic, Self, TypeVar

import cloudpickle

from veridp.errors import WorkerLost
from veridp.sampling.checkpoint import Journal
from veridp.sampling.cluster import ClusterExecutor
from veridp.sampling.worker_processes import Failure, TaskResults, WorkerProcesses, carried_out, hidden_main

# ------------------------------------------------------------------------------------------------------------ shipping
# Pickles for other processes: functions of scripts, notebooks and files that cannot be imported are pickled by value.


_lock = threading.Lock()


def packed(value: object, *, anywhere: bool = False) -> bytes:
    """The value as bytes that a fresh process with the same sys.path can unpickle.

    `anywhere`: one on another machine too, if it has the same installed packages.
    """
    with _lock:  # the list of modules to pickle by value is global
        local = [module for module in _outside_modules() if anywhere or not _importable(module)]
        for module in local:
            cloudpickle.register_pickle_by_value(module)
        try:
            data: bytes = cloudpickle.dumps(value)
        finally:
            for module in local:
                cloudpickle.unregister_pickle_by_value(module)
    return data


def _outside_modules() -> list[ModuleType]:
    """The modules that belong neither to Python nor to an installed package."""
    installed = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib")})
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        ours = name.partition(".")[0] in ("veridp", "veridp_check", "_veridp_pytest")  # in a folder of a checkout
        if name != "__main__" and isinstance(module, ModuleType) and file and not (ours or file.startswith(installed)):
            found.append(module)
    return [module for module in found if sys.modules.get(module.__name__) is module]


def _importable(module: ModuleType) -> bool:
    """Whether importing its name along sys.path would find the file that it came from."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.__name__.split(".")
    for end in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), path)
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or ())
    return spec is not None and spec.origin == module.__file__


# --------------------------------------------------------------------------------------------------------- worker pool
# Results come in the order of the tasks. A worker that dies does not lose the run: its task is run again, and only one
# that ends its worker over and over is given up. An executor of the caller that breaks is replaced by workers of ours.


Shared = TypeVar("Shared")
Argument = TypeVar("Argument")
Found = TypeVar("Found")

ATTEMPTS = 3  # how often a task may end its worker
REMOTE_TASK_SECONDS = 1.0  # of work in a task for another machine: beside it, sending is little
LOOK_AT_POOL = 1.0  # seconds between two looks at whether an executor still keeps track of its workers


def cores() -> int:
    """How many processes can run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def width(executor: Executor | None) -> int:
    """How many tasks an executor runs at a time, where it is a cluster; else how many this machine does."""
    return executor.width if isinstance(executor, ClusterExecutor) else cores()


class WorkerPool(Generic[Shared]):
    """Who runs tasks: any executor, workers of our own, or this process; a context, which ends the workers.

    A task is a function of `shared`, which a worker gets once, and an argument. Results do not depend on who ran the
    tasks. What cannot be sent to another process is run here. Our own workers are threads for code that lets go of the
    interpreter, else processes.
    """

    def __init__(
        self,
        shared: Shared,
        executor: Executor | None = None,
        workers: int | None = None,
        *,
        threads: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.shared, self.executor, self.threads, self.journal = shared, executor, threads, journal
        self.size = workers or width(executor)
        self.own: WorkerProcesses | ThreadPoolExecutor | None = None

    @cached_property
    def payload(self) -> bytes | None:
        """What every worker gets; None where all tasks are run here."""
        if self.executor is None and self.size == 1:
            return None
        try:
            return packed(self.shared, anywhere=self.remote)
        except Exception:  # a mechanism can hold anything
            return None

    @property
    def remote(self) -> bool:
        """Whether tasks go to other machines."""
        return isinstance(self.executor, ClusterExecutor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.dismiss()

    def results(
        self,
        function: Callable[[Shared, Argument], Found],
        arguments: Iterable[Argument],
        *,
        per_worker: int = 2,
        patience: float | None = None,
        lost: Callable[[int], str] = lambda number: f"task {number} ended its worker {ATTEMPTS} times",
    ) -> Generator[Found, None, None]:
        """What the function gives for each argument, in their order; arguments are taken as they are needed.

        At most so many tasks `per_worker` are under way. Raises what a task raises; TimeoutError where no worker of our
        own answers for as long as the `patience`, in seconds; WorkerLost, with the text of `lost`, where the task of
        this number ends its worker over and over.
        """
        if self.payload is None:
            return (function(self.shared, argument) for argument in arguments)
        return _Run(self, self.payload, function, iter(arguments), per_worker, patience, lost).results()

    def remembered(
        self,
        function: Callable[[Shared, Argument], Found],
        arguments: Iterable[Argument],
        *,
        name: str = "",
        keep: Callable[[Found], bool] = lambda result: True,
        **options: Any,
    ) -> Generator[Found, None, None]:
        """The `results`, of which those that the journal knows are not computed; it keeps the others."""
        if self.journal is None:
            return self.results(function, arguments, **options)
        return self.journal.completed(
            name or function.__qualname__,
            arguments,
            lambda others: self.results(function, others, **options),
            keep,
        )

    def submit(self, payload: bytes, task: bytes) -> Future[Any]:
        """Have a task run; RuntimeError where the executor is broken or has been shut down."""
        workers = self.workers()
        if isinstance(workers, WorkerProcesses):
            return workers.submit(payload, task)
        with hidden_main():  # submitting may start a process
            return workers.submit(carried_out, payload, task)

    def workers(self) -> WorkerProcesses | Executor:
        """The executor, or workers of our own."""
        if self.executor is not None:
            return self.executor
        if self.own is None:
            self.own = ThreadPoolExecutor(self.size) if self.threads else WorkerProcesses(self.size)
        return self.own

    def replace_executor(self) -> None:
        """Go on with workers of our own."""
        if isinstance(self.executor, ProcessPoolExecutor) and getattr(self.executor, "_broken", False):
            _end_late_worker(self.executor)
        self.executor = None

    def dismiss(self) -> None:
        """End our own workers; threads are waited for."""
        if self.journal is not None:
            self.journal.close()
        if isinstance(self.own, WorkerProcesses):
            self.own.end()
        elif self.own is not None:
            self.own.shutdown(wait=True, cancel_futures=True)
        self.own = None


@dataclass
class _Run:
    """Tasks under way, each with a number."""

    pool: WorkerPool[Any]
    payload: bytes
    function: Callable[[Any, Any], Any]
    arguments: Iterator[Any]
    per_worker: int
    patience: float | None
    lost: Callable[[int], str]
    taken: int = 0  # arguments, so far
    per_task: int = 1  # arguments of a task
    tasks: dict[int, list[Any]] = field(default_factory=dict)  # those without result: arguments by the first's number
    waiting: list[int] = field(default_factory=list)  # those of them that have to be run, the next one last
    flying: dict[Future[Any], int] = field(default_factory=dict)
    landed: dict[int, TaskResults] = field(default_factory=dict)
    losses: Counter[int] = field(default_factory=Counter)

    def results(self) -> Generator[Any, None, None]:
        try:
            number = 0
            while True:
                while number not in self.landed:
                    self._launch(number)
                    if not self.flying:
                        return
                    self._land()
                for result in self.landed.pop(number).results:
                    if isinstance(result, Failure):
                        result.reraise()
                    yield result
                    number += 1
        finally:
            for future in self.flying:
                future.cancel()

    def _launch(self, first: int) -> None:
        """Keep the workers busy, but not so far ahead that results pile up."""
        most = self.per_worker * self.pool.size
        while len(self.flying) < most and self._has_next(first + 2 * most * self.per_task):
            number = self.waiting.pop()
            task = self.function, self.tasks[number]
            content = packed(task, anywhere=True) if self.pool.remote else cloudpickle.dumps(task)
            try:
                self.flying[self.pool.submit(self.payload, content)] = number
            except (RuntimeError, OSError):  # the executor is broken, has been shut down, or cannot start a worker
                if self.pool.executor is None:
                    raise
                self._replace_executor()

    def _has_next(self, end: int) -> bool:
        """Whether a task waits; one with a number below the end is taken if none does."""
        if not self.waiting and self.taken < end:
            arguments = list(itertools.islice(self.arguments, self.per_task))
            if arguments:
                self.tasks[self.taken] = arguments
                self.waiting.append(self.taken)
                self.taken += len(arguments)
        return bool(self.waiting)

    def _land(self) -> None:
        patience = self.patience if self.pool.executor is None else None
        try:
            done = first_done(self.flying, self.pool.workers(), patience)
        except BrokenExecutor:
            self._replace_executor()
            return
        if not done:
            raise TimeoutError
        lost = []
        for future in done:
            number = self.flying.pop(future)
            try:
                self.landed[number] = future.result()
                self._size_tasks(len(self.tasks.pop(number)), self.landed[number].seconds)
            except Exception:  # a task that fails gives a Failure: its worker, or the executor, is gone
                lost.append(number)
        if lost and self.pool.executor is not None:
            self._replace_executor()
            return
        self._run_again(*lost)
        self.losses.update(lost)
        for number in lost:
            if self.losses[number] >= ATTEMPTS:
                reasons = "look for os._exit, a crash in compiled code, or too little memory"
                raise WorkerLost(f"{self.lost(number)}; {reasons}")

    def _size_tasks(self, arguments: int, seconds: float) -> None:
        """Have tasks that travel far take a second or so. How arguments are grouped changes no result."""
        if self.pool.remote:
            enough = math.ceil(REMOTE_TASK_SECONDS * arguments / max(seconds, 1e-3))
            self.per_task = max(1, min(enough, 2 * self.per_task))

    def _replace_executor(self) -> None:
        """The caller's executor is gone, and with it all that was under way; arguments are run one by one from here."""
        logging.getLogger("veridp").warning("the executor %r is lost; going on with processes here", self.pool.executor)
        for first, arguments in list(self.tasks.items()):
            self.tasks |= {first + place: [argument] for place, argument in enumerate(arguments)}
        self._run_again(*self.tasks)
        self.flying.clear()
        self.per_task = 1
        self.pool.replace_executor()

    def _run_again(self, *numbers: int) -> None:
        self.waiting = sorted({*self.waiting, *numbers}, reverse=True)


def first_done(
    futures: Collection[Future[Any]], workers: WorkerProcesses | Executor, patience: float | None = None
) -> set[Future[Any]]:
    """The futures that are done, as soon as one is; none after so many seconds.

    Raises BrokenExecutor where none will ever be: if a worker of Python's process pool dies while a future that was
    cancelled is in its list, the thread that keeps the list fails silently.
    """
    ends = None if patience is None else time.monotonic() + patience
    while True:
        left = LOOK_AT_POOL if ends is None else min(LOOK_AT_POOL, max(0.0, ends - time.monotonic()))
        keeper = getattr(workers, "_executor_manager_thread", None)
        lost = isinstance(keeper, threading.Thread) and not keeper.is_alive()
        if isinstance(workers, WorkerProcesses):
            workers.advance(left)
            done = {future for future in futures if future.done()}
        else:
            done, _ = wait(futures, timeout=left, return_when=FIRST_COMPLETED)
        if done or not futures or (ends is not None and time.monotonic() >= ends):
            return done
        if lost:
            raise BrokenExecutor("the process pool has lost track of its workers")


def _end_late_worker(executor: ProcessPoolExecutor) -> None:
    """End the processes of a broken pool of Python's.

    It ends its workers itself, except one that was being started when it broke: for that one its shutdown waits
    without end.
    """
    for process in list((getattr(executor, "_processes", None) or {}).values()):
        with suppress(Exception):  # it may have ended by itself
            process.kill()
