"""Tasks of a search, run in parallel by a worker pool.

A task is a function of the search's setting and an argument, and draws from its own streams: results do not depend on
the worker. The setting is sent to a worker once; `changes` to it are sent with each task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, TypeVar

from veridp.budget import whole
from veridp.budget.child_process import one_thread, one_thread_for_good
from veridp.errors import extra
from veridp.sampling.worker_pool import ATTEMPTS, WorkerPool

Argument = TypeVar("Argument")
Found = TypeVar("Found")


class TaskPool(WorkerPool[Any]):
    """Who runs the tasks of a search; to be used as a context, which ends the workers."""

    def __init__(self, setting: Any, executor: Executor | None = None, workers: int | None = None) -> None:
        super().__init__(setting, executor, None if workers is None else whole("workers", workers))
        self.changes: dict[str, Any] = {}
        self.limits: Any = None

    @property
    def setting(self) -> Any:
        """The setting of the tasks that are run now."""
        return replace(self.shared, **self.changes)

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
        super().__exit__(*error)

    def run(self, function: Callable[[Any, Argument], Found], arguments: Iterable[Argument]) -> Iterator[Found]:
        """What the function finds for each argument, in their order; the arguments are taken as they are needed."""
        if self.payload is None:
            return (function(self.setting, argument) for argument in arguments)
        tasks = ((function, self.changes, argument) for argument in arguments)
        return self.results(_in_worker, tasks, lost=lambda _: f"a task of the search ended its worker {ATTEMPTS} times")


def _in_worker(setting: Any, task: tuple[Callable[[Any, Any], Any], dict[str, Any], Any]) -> Any:
    load_classifiers()
    one_thread_for_good()  # tasks run side by side, and are small: their threads would wait for each other
    function, changes, argument = task
    return function(replace(setting, **changes), argument)


def load_classifiers() -> None:
    """Load what takes long to load, once rather than in each forked process, and before threads are limited."""
    with extra("attack", "attacks by classifiers need"):
        import sklearn.ensemble  # noqa: F401
