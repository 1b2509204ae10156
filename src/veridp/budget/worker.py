"""What a worker process needs: to end with its parent, to use one thread, and to say things once."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import warnings
from multiprocessing.connection import wait
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


def end_with_parent() -> None:
    """End this process when the one that wanted it ends, however that ends: a pool's worker would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            wait([parent.sentinel])
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


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


def show_warnings_once() -> None:
    """Show each warning of the user's code once in this process, although it runs thousands of times.

    Filters stay: Python forgets what it has shown whenever they change for a while, and a warning may be an error.
    """
    show = warnings.showwarning
    seen: set[tuple[str, type[Warning], str, int]] = set()

    def show_once(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *other: Any, **named: Any
    ) -> None:
        warning = str(message), category, filename, lineno
        if warning not in seen:
            seen.add(warning)
            show(message, category, filename, lineno, *other, **named)

    warnings.showwarning = show_once
