"""Which instructions of the user's code a run went through, so that two runs can be compared."""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from veridp.kernel.site import Site, is_inner

MAX_BLOCKS = 200_000  # of one run; what comes later is not compared
LIBRARIES = tuple({os.path.dirname(os.__file__) + os.sep, os.sep + "site-packages" + os.sep})


class Trace:
    """The basic blocks of user code that a run entered, in order."""

    def __init__(self) -> None:
        self.blocks: list[tuple[CodeType, int]] = []

    def same(self, other: Trace) -> bool:
        return self.blocks == other.blocks

    def parting(self, other: Trace) -> Site:
        """Where the other run leaves the way of this one."""
        pairs = enumerate(zip(self.blocks, other.blocks, strict=False))
        place = next((k for k, (mine, theirs) in pairs if mine != theirs), min(len(self.blocks), len(other.blocks)))
        longer = max(self.blocks, other.blocks, key=len)
        code, offset = (self.blocks or longer)[max(place - 1, 0)]
        return Site(code.co_filename, _line(code, offset))


@contextmanager
def traced() -> Iterator[Trace]:
    """Collects the blocks that the body enters; a tracer that was there before is put back afterwards."""
    trace = Trace()
    blocks, known = trace.blocks, _KNOWN

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        starts = known.get(code)
        if starts is None:
            starts = known[code] = _starts(code) if _is_users(frame) else frozenset()
        if not starts:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "opcode" and frame.f_lasti in starts and len(blocks) < MAX_BLOCKS:
                blocks.append((code, frame.f_lasti))
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
    return not is_inner(frame) and not any(library in file for library in LIBRARIES)


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


_KNOWN: dict[CodeType, frozenset[int]] = {}  # of code that was met: where its blocks begin; nothing for code of others
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


def _line(code: CodeType, offset: int) -> int:
    return next((line for start, end, line in code.co_lines() if start <= offset < end and line), code.co_firstlineno)
