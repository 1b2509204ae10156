"""Runs the tasks of a search in order: here, or in worker processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

from veridp.budget import Deadline
from veridp.engines.finder.restart import Searcher
from veridp.errors import WorkerLost
from veridp.sampling.worker_pool import WorkerPool

WORTH_IT = 10.0  # seconds of work past which starting processes pays


class RestartPool(WorkerPool[Searcher]):
    """Who carries out the tasks of a search; to be used as a context, which ends the workers."""

    def run(self, task: str, arguments: Sequence[Any], deadline: Deadline) -> Iterator[Any]:
        """What the Searcher's method of this name gives for each argument, until the time is up.

        The first is always computed, and here: it tells whether the others are worth starting processes for.
        """
        done, started = 0, time.monotonic()
        for argument in itertools.islice(arguments, 1):
            yield _carried_out(self.shared, (task, argument, deadline))
            done += 1
        work = (time.monotonic() - started) * (len(arguments) - 1)
        tasks = ((task, argument, deadline) for argument in arguments[1:] if not deadline.passed)
        if self.own is not None or (work >= WORTH_IT and self.payload is not None):
            try:
                for result in self.results(_carried_out, tasks, per_worker=1):
                    yield result
                    done += 1
                return
            except WorkerLost:  # what is not done yet is done here
                tasks = ((task, argument, deadline) for argument in arguments[done:] if not deadline.passed)
        yield from (_carried_out(self.shared, task) for task in tasks)


def _carried_out(searcher: Searcher, task: tuple[str, Any, Deadline]) -> Any:
    name, argument, deadline = task
    return getattr(searcher, name)(argument, deadline.left)
