"""Memory for the arrays of one batch, kept for the next: fresh pages from the system cost as much as the arithmetic."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE = 2**27
ALIGNMENT = 64


class Arena:
    """Hands out arrays one after the other; all of them become free at once."""

    def __init__(self) -> None:
        self._memory = np.empty(SIZE, dtype=np.uint8)
        self._used = 0

    def empty(self, count: int, dtype: Any) -> NDArray[Any]:
        """An array whose content is undefined; ordinary memory where the arena is full."""
        size = count * np.dtype(dtype).itemsize
        start = self._used
        if start + size > SIZE:
            return np.empty(count, dtype=dtype)
        self._used = start + -(-size // ALIGNMENT) * ALIGNMENT
        return self._memory[start : start + size].view(dtype)

    def clear(self) -> None:
        self._used = 0


_idle = threading.local()


@contextmanager
def borrowed() -> Iterator[Arena]:
    """An arena that nobody else uses until the context ends; nothing that it handed out may outlive that."""
    idle: list[Arena] = _idle.__dict__.setdefault("arenas", [])
    arena = idle.pop() if idle else Arena()
    try:
        yield arena
    finally:
        arena.clear()
        idle.append(arena)
