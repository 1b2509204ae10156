"""The threads of numerical libraries: how many of them a process may use."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


def one_thread() -> Any:
    """Give BLAS and OpenMP one thread each, until `restore_original_limits` is called on the result.

    It reaches the libraries that are loaded already.
    """
    return threadpool_limits(1)


def one_thread_for_good() -> None:
    """As `one_thread`, once for each thread of each process: a forked process does not count as its parent."""
    _once(os.getpid(), threading.get_ident())


@functools.cache
def _once(process: int, thread: int) -> Any:
    return one_thread()


def without_parents_threads() -> None:
    """Call OpenMP code without threads in this forked process.

    If the parent used such threads, OpenMP believes that they exist here too, and waits for them for ever.
    """
    threadpool_limits(1, user_api="openmp")
