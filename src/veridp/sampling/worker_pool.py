"""Runs the blocks of a job in order: here, in worker processes, in threads, or on any executor."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import sysconfig
import threading
import time
import traceback
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Generic, NoReturn, Self, TypeVar

import cloudpickle

from veridp.budget.child_process import end_with_parent, inside, without_parents_threads
from veridp.errors import BadInput, WorkerLost

# ------------------------------------------------------------------------------------------------------------ shipping
# Pickles for other processes: functions of scripts, notebooks and files that cannot be imported are pickled by value.


_lock = threading.Lock()


def packed(value: object) -> bytes:
    """The value as bytes that a fresh process with the same sys.path can unpickle."""
    with _lock:  # the list of modules to pickle by value is global
        local = [module for module in _outside_modules() if not _importable(module)]
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
        if name != "__main__" and isinstance(module, ModuleType) and file and not file.startswith(installed):
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
# The worker pool: runs tasks here, in worker processes, in threads, or on any executor; results come in order.
#
# A worker that dies does not lose the run: the tasks that were under way are run again, each alone, and only one that
# ends its worker over and over is given up.


Shared = TypeVar("Shared")
Argument = TypeVar("Argument")
Found = TypeVar("Found")

ATTEMPTS = 3  # how often a task may end its worker
LOOK_AT_POOL = 1.0  # seconds between two looks at whether an executor still keeps track of its workers


@dataclass(frozen=True)
class Failure:
    """An error on its way back from a worker, where its own class may not be able to travel."""

    error: bytes
    cause: bytes | None
    trace: str

    @classmethod
    def of(cls, error: Exception, cause: BaseException | None = None) -> Failure:
        pickled = _pickled(error) or pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        cause = cause or error.__cause__
        trace = "".join(traceback.format_exception(cause or error))
        return cls(pickled, None if cause is None else _pickled(cause), f"in a worker:\n{trace}")

    def reraise(self) -> NoReturn:
        error: Exception = pickle.loads(self.error)  # noqa: S301 - it comes from our own worker
        cause: BaseException | None = None if self.cause is None else pickle.loads(self.cause)  # noqa: S301 - as well
        error.add_note(self.trace)
        raise error from cause


def _pickled(error: BaseException) -> bytes | None:
    """The error as bytes; None where it cannot be pickled or unpickled: its text is in the trace."""
    with suppress(Exception):
        content: bytes = cloudpickle.dumps(error)
        pickle.loads(content)  # noqa: S301 - it was written here
        return content
    return None


def _carried_out(payload: bytes, task: bytes) -> Any:
    """The task's result, or a Failure."""
    try:
        function, argument = pickle.loads(task)  # noqa: S301 - it comes from the process that started this one
        shared = _unpacked(payload)
    except Exception as error:
        return Failure.of(BadInput(f"a worker cannot run the job: {type(error).__name__}: {error}"), error)
    try:
        return function(shared, argument)
    except Exception as error:
        return Failure.of(error)


@functools.lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301 - it comes from the process that started this one


def cores() -> int:
    """How many processes can run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class WorkerPool(Generic[Shared]):
    """Who runs tasks: any executor, workers of our own, or this process; a context, which ends the workers.

    A task is a function of `shared`, which a worker gets once, and an argument. Results do not depend on who ran the
    tasks. What cannot be sent to another process is run here. Our own workers are threads for code that lets go of the
    interpreter, else processes.
    """

    def __init__(
        self, shared: Shared, executor: Executor | None = None, workers: int | None = None, *, threads: bool = False
    ) -> None:
        self.shared, self.executor, self.threads = shared, executor, threads
        self.size = workers or cores()
        self.own: Executor | None = None

    @cached_property
    def payload(self) -> bytes | None:
        """What every worker gets; None where all tasks are run here."""
        if self.executor is None and self.size == 1:
            return None
        try:
            return packed(self.shared)
        except Exception:  # a mechanism can hold anything
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.dismiss(kill=error[0] is not None)

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

    def submit(self, payload: bytes, task: bytes) -> Future[Any]:
        """Have a task run; RuntimeError where the executor is broken or has been shut down."""
        with hidden_main():  # submitting may start a process
            return self.workers().submit(_carried_out, payload, task)

    def workers(self) -> Executor:
        """The executor, or workers of our own, which are started where there are none."""
        if self.executor is not None:
            return self.executor
        if self.own is None and self.threads:
            self.own = ThreadPoolExecutor(self.size)
        elif self.own is None:
            self.own = ProcessPoolExecutor(self.size, _context(), initializer=_answer_to_the_parent_alone)
        return self.own

    def dismiss(self, kill: bool) -> None:
        """Wait for our own workers to leave, or end them."""
        if self.own is None:
            return
        if kill:
            _end_workers(self.own)
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
    taken: int = 0  # tasks, so far
    tasks: dict[int, bytes] = field(default_factory=dict)  # those that have no result yet
    waiting: list[int] = field(default_factory=list)  # those of them that have to be run again, the next one last
    flying: dict[Future[Any], int] = field(default_factory=dict)
    landed: dict[int, Any] = field(default_factory=dict)
    losses: Counter[int] = field(default_factory=Counter)
    suspects: set[int] = field(default_factory=set)

    def results(self) -> Generator[Any, None, None]:
        try:
            for number in itertools.count():
                while number not in self.landed:
                    self._launch(number)
                    if not self.flying:
                        return
                    self._land()
                result = self.landed.pop(number)
                if isinstance(result, Failure):
                    result.reraise()
                yield result
        finally:
            for future in self.flying:
                future.cancel()

    def _launch(self, first: int) -> None:
        """Keep the workers busy, but not so far ahead that results pile up; suspects fly alone."""
        most = self.per_worker * self.pool.size
        while len(self.flying) < (1 if self.suspects else most) and self._has_next(first + 2 * most):
            number = self.waiting.pop()
            try:
                self.flying[self.pool.submit(self.payload, self.tasks[number])] = number
            except (RuntimeError, OSError):  # the executor is broken, has been shut down, or cannot start a worker
                if self.pool.own is not None and not getattr(self.pool.own, "_broken", False):
                    raise
                self.waiting.append(number)
                self._lose([])

    def _has_next(self, end: int) -> bool:
        """Whether a task waits; one with a number below the end is taken if none does."""
        if not self.waiting and self.taken < end:
            for argument in itertools.islice(self.arguments, 1):
                self.tasks[self.taken] = cloudpickle.dumps((self.function, argument))
                self.waiting.append(self.taken)
                self.taken += 1
        return bool(self.waiting)

    def _land(self) -> None:
        patience = self.patience if self.pool.executor is None else None
        try:
            done = first_done(self.flying, self.pool.workers(), patience)
        except BrokenExecutor:
            self._lose([])
            return
        if not done:
            raise TimeoutError
        lost = []
        for future in done:
            number = self.flying.pop(future)
            try:
                self.landed[number] = future.result()
            except Exception:  # a task that fails gives a Failure: it is the executor that failed
                lost.append(number)
            else:
                self.suspects.discard(number)
                del self.tasks[number]
        if lost:
            self._lose(lost)

    def _lose(self, numbers: list[int]) -> None:
        """The executor is gone, and with it all that was under way; go on with workers of our own."""
        lost = sorted({*numbers, *self.flying.values()})
        self.flying.clear()
        self.losses.update(lost)
        if len(lost) == 1 and self.losses[lost[0]] >= ATTEMPTS:
            raise WorkerLost(f"{self.lost(lost[0])}; look for os._exit, a crash in compiled code, or too little memory")
        self.suspects.update(lost)
        self.waiting = sorted({*self.waiting, *lost}, reverse=True)
        self.pool.dismiss(kill=True)
        if getattr(self.pool.executor, "_broken", False):
            _end_workers(self.pool.executor)
        self.pool.executor = None


def _end_workers(executor: Executor | None) -> None:
    """End the processes of an executor that no longer gives them work.

    Python's broken process pool ends its workers itself, but for one that was being started when the pool broke: for
    that one its shutdown waits without end.
    """
    if isinstance(executor, ProcessPoolExecutor):
        for process in list((getattr(executor, "_processes", None) or {}).values()):
            with suppress(Exception):  # it may have ended by itself
                process.kill()


def first_done(futures: Collection[Future[Any]], executor: Executor, patience: float | None = None) -> set[Future[Any]]:
    """The futures that are done, as soon as one is; none after so many seconds.

    Raises BrokenExecutor where none will ever be: if a worker of Python's process pool dies while a future that was
    cancelled is in its list, the thread that keeps the list fails silently.
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
