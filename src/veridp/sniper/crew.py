"""Tasks run side by side: on any executor, in worker processes of our own, or here one after the other.

A task is a function of the search's setting and an argument, and draws from streams of its own: results do not depend
on who ran it. What cannot be sent to another process is run here.
"""

from __future__ import annotations

import functools
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any, TypeVar

import cloudpickle

from veridp.errors import BadInput, VeridpError, WorkerLost
from veridp.program.blocks import Failure
from veridp.program.pool import Crew as Workers
from veridp.program.pool import hidden_main
from veridp.program.shipping import packed
from veridp.program.threads import one_thread, one_thread_for_good

Argument = TypeVar("Argument")
Result = TypeVar("Result")
ATTEMPTS = 3  # how often workers may be lost before it is the mechanism's fault


class Crew:
    """Who runs the tasks of a search; to be used as a context, which ends the workers."""

    def __init__(self, setting: object, executor: Executor | None = None, workers: int | None = None) -> None:
        self.setting = setting
        self.executor = executor
        self.own: Workers | None = None
        self.limits: Any = None
        self.size = workers if workers is not None else _cores()
        if self.size < 1:
            raise BadInput(f"workers = {workers!r} leaves nobody to work; give at least 1")
        self.payload = self._payload() if executor is not None or self.size > 1 else None

    def _payload(self) -> bytes | None:
        try:
            return packed(self.setting)
        except Exception:  # what cannot be sent away is run here; where does not matter to the result
            return None

    @property
    def hands(self) -> int:
        """How many tasks run at a time."""
        return 1 if self.payload is None else self.size

    def __enter__(self) -> Crew:
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
        waiting, flying = iter(arguments), list[tuple[Argument, Future[Any]]]()
        try:
            while True:
                while len(flying) < 2 * self.size and (argument := next(waiting, _END)) is not _END:
                    flying.append((argument, self._submit(function, argument)))
                if not flying:
                    return
                yield self._landed(function, flying)
        finally:
            for _, future in flying:
                future.cancel()

    def _submit(self, function: Any, argument: Any) -> Future[Any]:
        if self.executor is None and self.own is None:
            self.own = Workers(self.size, threads=False)
        executor = self.executor if self.executor is not None else self.own.executor  # type: ignore[union-attr]
        with hidden_main():  # submitting may start a process
            return executor.submit(_remotely, self.payload or b"", cloudpickle.dumps((function, argument)))

    def _landed(self, function: Any, flying: list[tuple[Any, Future[Any]]]) -> Any:
        """The result of the first task under way; tasks of workers that are gone are run again."""
        for attempt in range(ATTEMPTS):
            try:
                result = flying[0][1].result()
            except BrokenExecutor:
                if attempt + 1 == ATTEMPTS:
                    raise WorkerLost(
                        f"the workers of a search ended {ATTEMPTS} times; look for os._exit, a crash in compiled code, "
                        f"or too little memory, or search in this process with workers=1"
                    ) from None
                self._replace()
                flying[:] = [(argument, self._submit(function, argument)) for argument, _ in flying]
                continue
            flying.pop(0)
            if isinstance(result, Failure):
                result.reraise()
            return result
        raise AssertionError("not reached")

    def _replace(self) -> None:
        """Go on with workers of our own in place of those that are gone."""
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
        function, argument = pickle.loads(task)  # noqa: S301 - it comes from the process that started this one
        return function(_unpacked(payload), argument)
    except VeridpError as error:
        return Failure(type(error)(*error.args), None, f"in a worker:\n{traceback.format_exc()}")


@functools.lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301 - it comes from the process that started this one


def load_classifiers() -> None:
    """Load what takes long to load, once rather than in each forked process, and before threads are limited."""
    import sklearn.ensemble  # noqa: F401
