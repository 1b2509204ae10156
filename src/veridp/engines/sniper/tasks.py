"""Runs tasks in parallel: on any executor, in our own worker processes, or one after the other in this process.

A task is a function of the search's setting and an argument, and draws from its own streams: results do not depend on
the worker. Tasks that cannot be sent to another process run here. The setting is sent to a worker once; `changes` to it
are sent with each task.
"""

from __future__ import annotations

import functools
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cloudpickle

from veridp.budget import whole
from veridp.budget.threads import one_thread, one_thread_for_good
from veridp.errors import VeridpError, WorkerLost, extra
from veridp.sampling.blocks import Failure
from veridp.sampling.shipping import packed
from veridp.sampling.worker_pool import WorkerPool as Workers
from veridp.sampling.worker_pool import first_done, hidden_main

Argument = TypeVar("Argument")
Result = TypeVar("Result")
ATTEMPTS = 3  # how often workers may be lost before it is the mechanism's fault


@dataclass
class _Task:
    """An argument, and its result once that is known; none where it is not under way."""

    argument: Any
    future: Future[Any] | None = None


class TaskPool:
    """Who runs the tasks of a search; to be used as a context, which ends the workers."""

    def __init__(self, setting: Any, executor: Executor | None = None, workers: int | None = None) -> None:
        self.shipped = setting  # what every worker has got
        self.changes: dict[str, Any] = {}
        self.executor = executor
        self.own: Workers | None = None
        self.limits: Any = None
        self.size = whole("workers", workers) if workers is not None else _cores()
        self.payload = self._payload() if executor is not None or self.size > 1 else None

    def _payload(self) -> bytes | None:
        try:
            return packed(self.shipped)
        except Exception:  # what cannot be sent away is run here; where does not matter to the result
            return None

    @property
    def setting(self) -> Any:
        """The setting of the tasks that are run now."""
        return replace(self.shipped, **self.changes)

    @property
    def hands(self) -> int:
        """How many tasks run at a time."""
        return 1 if self.payload is None else self.size

    def __enter__(self) -> TaskPool:
        if self.payload is None:
            load_classifiers()
            self.limits = one_thread()
        return self

    def __exit__(self, *error: object) -> None:
        if self.limits is not None:
            self.limits.restore_original_limits()
        if self.own is not None:
            self.own.dismiss(kill=error[0] is not None)
            self.own = None

    def run(self, function: Callable[[Any, Argument], Result], arguments: Iterable[Argument]) -> Iterator[Result]:
        """The results, in the order of the arguments; the arguments are taken as they are needed."""
        if self.payload is None:
            for argument in arguments:
                yield function(self.setting, argument)
            return
        waiting, flying, losses = iter(arguments), list[_Task](), 0
        try:
            while True:
                while len(flying) < 2 * self.size and (argument := next(waiting, _END)) is not _END:
                    flying.append(_Task(argument))
                if not flying:
                    return
                try:
                    result = self._first(function, flying)
                except BrokenExecutor:
                    losses += 1
                    self._replace(flying, losses)
                    continue
                losses = 0
                flying.pop(0)
                if isinstance(result, Failure):
                    result.reraise()
                yield result
        finally:
            for task in flying:
                if task.future is not None:
                    task.future.cancel()

    def _first(self, function: Any, flying: list[_Task]) -> Any:
        """The result of the first task; all are under way then."""
        if self.executor is None and self.own is None:
            self.own = Workers(self.size, threads=False)
        executor = self.executor if self.executor is not None else self.own.executor  # type: ignore[union-attr]
        for task in flying:
            if task.future is None:
                content = cloudpickle.dumps((function, self.changes, task.argument))
                with hidden_main():  # submitting may start a process
                    task.future = executor.submit(_remotely, self.payload or b"", content)
        first: Future[Any] = flying[0].future  # type: ignore[assignment]
        if self.own is not None:
            first_done([first], executor)
        return first.result()

    def _replace(self, flying: list[_Task], losses: int) -> None:
        """Go on with workers of our own in place of those that are gone; their tasks are run again."""
        if losses == ATTEMPTS:
            raise WorkerLost(
                f"the workers of a search died {ATTEMPTS} times; check for os._exit, a crash in compiled code, "
                f"or too little memory, or search in this process with workers=1"
            )
        for task in flying:
            task.future = None
        self.executor = None
        if self.own is not None:
            self.own.dismiss(kill=True)
            self.own = None


_END: Any = object()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _remotely(payload: bytes, task: bytes) -> Any:
    """The task's result, or a Failure."""
    try:
        load_classifiers()
        one_thread_for_good()  # tasks run side by side, and are small: their threads would wait for each other
        function, changes, argument = pickle.loads(task)  # noqa: S301 - it comes from the process that started this one
        return function(replace(_unpacked(payload), **changes), argument)
    except VeridpError as error:
        return Failure(type(error)(*error.args), None, f"in a worker:\n{traceback.format_exc()}")


@functools.lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301 - it comes from the process that started this one


def load_classifiers() -> None:
    """Load what takes long to load, once rather than in each forked process, and before threads are limited."""
    with extra("attack", "attacks by classifiers need"):
        import sklearn.ensemble  # noqa: F401
