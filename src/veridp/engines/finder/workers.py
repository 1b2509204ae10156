"""Runs the tasks of a search in order: here, or in worker processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from typing import Any

from veridp.budget import Deadline
from veridp.engines.finder.restart import Searcher, run_remotely
from veridp.sampling.shipping import packed
from veridp.sampling.worker_pool import WorkerPool, first_done, hidden_main

WORTH_IT = 10.0  # seconds of work past which starting processes pays


class Workers:
    """Who carries out the tasks; results come in the order of the tasks and do not depend on who that is."""

    def __init__(self, searcher: Searcher, workers: int | None) -> None:
        self.searcher = searcher
        self.count = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
        self._payload: bytes | None = None
        self._crew: WorkerPool | None = None

    def results(self, task: str, arguments: Sequence[Any], deadline: Deadline) -> Iterator[Any]:
        """What the Searcher's method of this name gives for each argument, until the time is up.

        The first is always worked out, and here: it tells whether the others are worth starting processes for.
        """
        if not arguments:
            return
        started = time.monotonic()
        yield getattr(self.searcher, task)(arguments[0], deadline.left)
        work = (time.monotonic() - started) * (len(arguments) - 1)
        if self._crew is None and ((self.count or 1) < 2 or work < WORTH_IT or not self._packed()):
            yield from self._here(task, arguments[1:], deadline)
            return
        waiting = list(arguments[1:])
        try:
            for result in self._elsewhere(task, waiting, deadline):
                waiting.pop(0)
                yield result
        except BrokenExecutor:  # a worker was ended from outside: what is not done yet is done here
            self.dismiss(kill=True)
            yield from self._here(task, waiting, deadline)

    def _here(self, task: str, arguments: Sequence[Any], deadline: Deadline) -> Iterator[Any]:
        for argument in arguments:
            if deadline.passed:
                return
            yield getattr(self.searcher, task)(argument, deadline.left)

    def _packed(self) -> bool:
        """Whether the search can be sent to other processes; what cannot is run here, with the same result."""
        if self._payload is None:
            try:
                self._payload = packed(self.searcher.settings)
            except Exception:  # a mechanism can hold anything
                return False
        return True

    def _elsewhere(self, task: str, arguments: Sequence[Any], deadline: Deadline) -> Iterator[Any]:
        waiting, flying = list(reversed(arguments)), list[Future[Any]]()
        while waiting or flying:
            while waiting and len(flying) < (self.count or 1) and not deadline.passed:
                flying.append(self._submit(task, waiting.pop(), deadline.left))
            if not flying:
                return
            if self._crew is not None:
                first_done(flying[:1], self._crew.executor)
            yield flying.pop(0).result()

    def _submit(self, task: str, argument: Any, seconds: float) -> Future[Any]:
        if self._payload is None:
            raise RuntimeError("the search was not packed")
        if self._crew is None:
            self._crew = WorkerPool(self.count or 1, threads=False)
        with hidden_main():  # submitting may start a process
            return self._crew.executor.submit(run_remotely, self._payload, task, argument, seconds)

    def dismiss(self, kill: bool) -> None:
        if self._crew is not None:
            self._crew.dismiss(kill=kill)
            self._crew = None


@contextmanager
def workers_for(searcher: Searcher, workers: int | None) -> Iterator[Workers]:
    """Workers that leave with the context: at once where it ends in an error or an interrupt."""
    crew = Workers(searcher, workers)
    completed = False
    try:
        yield crew
        completed = True
    finally:
        crew.dismiss(kill=not completed)
