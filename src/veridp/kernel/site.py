"""Where in the user's code something happened."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache, lru_cache
from types import FrameType, TracebackType

INNER = (
    "veridp.budget",
    "veridp.kernel",
    "veridp.sampling",
    "veridp.mechanism",
    "veridp.audit",
    "numpy",
    "functools",
)  # frames of these packages are never the user's

STANDARD_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
VERIDP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
MECHANISMS = tuple(os.path.join(VERIDP, folder, "") for folder in ("catalogue", "local"))
INSTALLED = os.path.join(sysconfig.get_path("purelib"), "")


@dataclass(frozen=True)
class Site:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def of_python(self) -> bool:
        """Whether it is a line of Python's own library."""
        return self.file.startswith("<frozen") or (
            self.file.startswith(STANDARD_LIBRARY) and not self.file.startswith(INSTALLED)
        )

    @property
    def prefix(self) -> str:
        """The line and a colon, to begin a message; nothing where it is one of Python's library or of an engine."""
        of_engine = self.file.startswith(VERIDP) and not self.file.startswith(MECHANISMS)
        return "" if self.of_python or of_engine else f"{self}: "


def here() -> Site:
    """The innermost line of user code that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inner(frame):
        frame = frame.f_back
    return Site("<unknown>", 0) if frame is None else _site(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=4096)
def _site(file: str, line: int) -> Site:
    """The site: the same object for all that happens there."""
    return Site(file, line)


def raised_at(trace: TracebackType | None) -> Site:
    """The innermost line of user code on the way to an exception; one of Python's library where there is no other."""
    site = Site("<unknown>", 0)
    known = False
    while trace is not None:
        if not is_inner(trace.tb_frame):
            inner = Site(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            if not (known and inner.of_python):
                site, known = inner, not inner.of_python
        trace = trace.tb_next
    return site


def is_inner(frame: FrameType) -> bool:
    """Whether the frame is veridp's or NumPy's, and not the user's."""
    return _is_inner_module(frame.f_globals.get("__name__", ""))


@cache
def _is_inner_module(module: str) -> bool:
    return any(module == inner or module.startswith(inner + ".") for inner in INNER)
