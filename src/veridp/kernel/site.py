"""Where in the user's code something happened, and which instructions a run went through."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from types import CodeType, FrameType, TracebackType
from typing import Any

# ---------------------------------------------------------------------------------------------------------------- site
# Where in the user's code something happened.


INNER = (
    "veridp.budget",
    "veridp.kernel",
    "veridp.sampling",
    "veridp.mechanism",
    "veridp.audit",
    "veridp.engines.pipeline",
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


# -------------------------------------------------------------------------------------------------------- instructions
# Which instructions of the user's code a run went through, so that two runs can be compared.


MAX_CODES = 10_000  # pieces of code whose blocks are remembered
MAX_BLOCKS = 200_000  # of one run; what comes later is not compared
LIBRARIES = tuple({os.path.dirname(os.__file__) + os.sep, os.sep + "site-packages" + os.sep})


def is_users_code(file: str) -> bool:
    """Whether code of this file is the user's own: of no library, and not of veridp."""
    return not file.startswith((VERIDP, "<frozen ")) and not any(library in file for library in LIBRARIES)


class Trace:
    """The basic blocks of user code that a run entered, in order."""

    def __init__(self) -> None:
        self.blocks: list[tuple[CodeType, int]] = []
        self.returned: Site | None = None  # the line from which the outermost function of the user came back

    def same(self, other: Trace) -> bool:
        return self.blocks == other.blocks

    def parting(self, other: Trace) -> Site:
        """Where the other run leaves the way of this one."""
        pairs = enumerate(zip(self.blocks, other.blocks, strict=False))
        place = next((k for k, (mine, theirs) in pairs if mine != theirs), min(len(self.blocks), len(other.blocks)))
        longer = max(self.blocks, other.blocks, key=len)
        return site_of(*(self.blocks or longer)[max(place - 1, 0)])


@contextmanager
def traced() -> Iterator[Trace]:
    """Collects the blocks that the body enters; a tracer that was there before is put back afterwards."""
    trace = Trace()
    blocks, known = trace.blocks, _KNOWN

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        met = known.get(id(code))
        if met is None:
            if len(known) >= MAX_CODES:
                known.clear()
            met = known[id(code)] = code, _starts(code) if _is_users(frame) else frozenset()
        starts = met[1]
        if not starts:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "opcode" and frame.f_lasti in starts and len(blocks) < MAX_BLOCKS:
                blocks.append((code, frame.f_lasti))
            elif event == "return":
                trace.returned = Site(code.co_filename, frame.f_lineno)
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield trace
    finally:
        sys.settrace(before)


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not is_inner(frame) and not file.startswith("<frozen ") and not any(library in file for library in LIBRARIES)


def _starts(code: CodeType) -> frozenset[int]:
    """The offsets at which basic blocks begin: the first instruction, jump targets, and what follows a jump."""
    starts, after_jump = {0}, False
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RESUME":
            continue
        if after_jump or instruction.is_jump_target:
            starts.add(instruction.offset)
        after_jump = instruction.opcode in _JUMPS
    return frozenset(starts)


# of code that was met, by its id, which is quicker than to hash it: where its blocks begin; nothing for code of others
_KNOWN: dict[int, tuple[CodeType, frozenset[int]]] = {}
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


def site_of(code: CodeType, offset: int) -> Site:
    """The line of an instruction."""
    lines = (line for start, end, line in code.co_lines() if start <= offset < end and line)
    return Site(code.co_filename, next(lines, code.co_firstlineno))


def branch_to(code: CodeType, offset: int) -> Site:
    """The line of the jump that decides whether this block is entered; its own line where there is none."""
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        if instruction.opcode in _JUMPS and instruction.argval == offset and instruction.offset < offset:
            return site_of(code, instruction.offset)
        if instruction.offset == offset:
            break
        before = instruction
    return site_of(code, before.offset if before is not None and before.opcode in _JUMPS else offset)
