"""Worker processes, each with a pipe of its own: one that dies takes its task with it, and nothing else.

Python's process pool shares two queues and their locks among its workers. A worker that is ended while it writes leaves
the others, and the thread that reads, waiting for ever. Here a pipe has one writer, so that its end is always noticed,
and no thread and no lock is left behind.
"""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

import cloudpickle

from veridp.budget import shielded
from veridp.budget.child_process import inside
from veridp.budget.worker import end_with_parent, show_warnings_once, without_parents_threads
from veridp.errors import BadInput

TASKS_PER_WORKER = 2  # the one that it runs, and the one that it will find as soon as that is done
SENT_AHEAD = 8192  # bytes: a message so short fits in any pipe, so that sending it to a busy worker does not block


# --------------------------------------------------------------------------------------------------------------- tasks


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


@dataclass(frozen=True)
class TaskResults:
    """What a task gave for each of its arguments, up to the first Failure; and how many seconds it took."""

    results: tuple[Any, ...]
    seconds: float = 0.0

    @classmethod
    def failed(cls, message: str, cause: BaseException | None = None) -> TaskResults:
        return cls((Failure.of(BadInput(message), cause),))


def carried_out(payload: bytes, task: bytes) -> TaskResults:
    """The results of a task, which is a function and its arguments, on what the payload holds."""
    started = time.monotonic()
    try:
        function, arguments = pickle.loads(task)  # noqa: S301 - it comes from the process that started this one
        shared = _unpacked(payload)
    except Exception as error:
        return TaskResults.failed(f"a worker cannot run the job: {type(error).__name__}: {error}", error)
    results: list[Any] = []
    for argument in arguments:
        try:
            results.append(function(shared, argument))
        except Exception as error:
            results.append(Failure.of(error))
            break
    return TaskResults(tuple(results), time.monotonic() - started)


@functools.lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301 - it comes from the process that started this one


# ----------------------------------------------------------------------------------------------------------- processes


@dataclass(frozen=True)
class _Task:
    """What a worker is to do, and who waits for it."""

    payload: bytes
    content: bytes
    future: Future[Any] = field(default_factory=Future)


@dataclass
class _Worker:
    """A process, the pipe to it, the payload that it has, and the tasks that it was given, the oldest first."""

    process: BaseProcess
    line: Connection
    payload: bytes | None = None
    tasks: deque[_Task] = field(default_factory=deque)

    def accepts(self, task: _Task) -> bool:
        """Whether the task can be sent now without waiting for the worker to read it."""
        message = len(task.content) + (0 if task.payload == self.payload else len(task.payload))
        return not self.tasks or (len(self.tasks) < TASKS_PER_WORKER and message <= SENT_AHEAD)

    def give(self, task: _Task) -> None:
        self.tasks.append(task)
        with suppress(OSError):  # it has ended, which is noticed where its answer is awaited
            self.line.send((None if task.payload == self.payload else task.payload, task.content))
        self.payload = task.payload

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.line.close()


class WorkerProcesses:
    """Up to `size` processes that run tasks. They are started as tasks come, and replaced where they end.

    Their futures advance in `advance` alone, so one thread has to use it. The future of a task whose worker ended has a
    BrokenExecutor as its exception.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.workers: list[_Worker] = []
        self.waiting: deque[_Task] = deque()

    def submit(self, payload: bytes, content: bytes) -> Future[Any]:
        """Have a task run; OSError where no worker can be started."""
        task = _Task(payload, content)
        self.waiting.append(task)
        with shielded():
            self._hand_out()
        return task.future

    def advance(self, seconds: float) -> None:
        """Wait for answers, at most so long; the futures of those that came are done."""
        ready = wait([end for worker in self.workers for end in (worker.line, worker.process.sentinel)], seconds)
        with shielded():  # no alarm comes between the parts of a message
            for worker in list(self.workers):
                if worker.line in ready:
                    self._receive(worker)
                elif worker.process.sentinel in ready:
                    self._lose(worker)
            self._hand_out()

    def end(self) -> None:
        """End all workers, whatever they do."""
        while self.workers:
            self.workers.pop().end()

    def _receive(self, worker: _Worker) -> None:
        try:
            result = _read(worker.line.recv_bytes())  # EOFError where an idle worker ended, too
            worker.tasks[0].future.set_result(result)
            worker.tasks.popleft()
        except (EOFError, OSError):
            self._lose(worker)
        except BaseException:  # an interrupt: nobody knows how much of the message was read
            self._lose(worker)
            raise

    def _lose(self, worker: _Worker) -> None:
        """The worker has ended, or has to. The task that it ran failed; others that it was given go to another one."""
        self.workers.remove(worker)
        worker.end()
        if worker.tasks and not (running := worker.tasks.popleft().future).done():
            running.set_exception(BrokenExecutor("a worker process ended"))
        self.waiting.extendleft(reversed(worker.tasks))

    def _hand_out(self) -> None:
        """Give waiting tasks to workers, as far as these accept them; cancelled ones are left out."""
        while self.waiting:
            if self.waiting[0].future.cancelled():
                self.waiting.popleft()
                continue
            worker = min(self.workers, key=lambda each: len(each.tasks), default=None)
            if worker is None or (worker.tasks and len(self.workers) < self.size):
                worker = self._started()
            if not worker.accepts(self.waiting[0]):
                return
            task = self.waiting.popleft()
            if not task.future.running():
                task.future.set_running_or_notify_cancel()
            worker.give(task)

    def _started(self) -> _Worker:
        line, theirs = Pipe()
        process = start_context().Process(target=_work, args=(theirs,))
        try:
            with hidden_main():
                process.start()
        except BaseException:
            line.close()
            raise
        finally:
            theirs.close()
        self.workers.append(_Worker(process, line))
        return self.workers[-1]


def _work(line: Connection) -> None:
    """All that a worker does: one task after the other, until it is ended."""
    answer_to_the_parent_alone()
    payload = b""
    while True:
        sent, content = line.recv()
        payload = payload if sent is None else sent
        line.send_bytes(_answer(carried_out(payload, content)))


def _answer(results: TaskResults) -> bytes:
    try:
        return pickle.dumps(results)
    except Exception as error:
        return pickle.dumps(TaskResults.failed(f"a result cannot be sent back: {type(error).__name__}: {error}", error))


def _read(content: bytes) -> Any:
    try:
        return pickle.loads(content)  # noqa: S301 - it comes from our own worker
    except Exception as error:
        return TaskResults.failed(f"a result cannot be read: {type(error).__name__}: {error}", error)


def start_context() -> Any:
    """How worker processes start: from a clean server where there is one, as a fork of a process with threads may
    hang. A contained child has no other threads, so that its workers can be forked at once."""
    if inside():
        return multiprocessing.get_context("fork")
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload(["veridp.sampling.blocks"])
    return context


def answer_to_the_parent_alone() -> None:
    """Ctrl-C reaches the whole process group: the parent answers it, and ends its workers; they end with it too."""
    end_with_parent()
    show_warnings_once()
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
