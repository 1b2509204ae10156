"""Loops that retry: where they begin, and whether a run has come back to where it was.

A run that returns to the head of a `while` loop in the state that it had there before does from then on what it did
before: what it drew in between is forgotten. Its state there is what it can still read: the local variables that are
live at the head, by a backward flow over the bytecode, with whatever they reach, and whatever the mechanism reaches
by itself (globals, closures, attributes). Values on the stack are none of it, since a loop is a statement: but for
the iterators of `for` loops around it, which must not have moved. Callers wait meanwhile, and what they can still read
has changed only if the loop reached it.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from veridp.errors import NotExplorable
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine
from veridp.kernel.handmade.coins import CoinBook
from veridp.kernel.site import VERIDP, is_users_code
from veridp.kernel.state.contents import names_in, plain_state, reads_frames
from veridp.kernel.state.fingerprint import Fingerprint, fingerprint
from veridp.kernel.state.memory import changed, gained
from veridp.kernel.symbols import Rounds, Symbol

MAX_VISITS = 4  # of one loop by one call: what has not come back by then counts as a loop that goes on
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # others run between their rounds
ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
SETS = frozenset({"STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF"})
ALWAYS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


@dataclass(frozen=True)
class LoopHead:
    """Where a round of a loop begins: the local variables that are live there, and the `for` loops around it."""

    name: str  # tells it from other loops
    live: frozenset[str]
    around: frozenset[int]  # where these loops ask for their next entry


@lru_cache(maxsize=4096)
def loop_heads(code: CodeType) -> dict[int, LoopHead]:
    """The heads of the `while` loops of the code, by their offsets; none of a generator, which others interrupt.

    A loop that calls nothing draws nothing anew: it is left out.
    """
    if code.co_flags & SUSPENDED:
        return {}
    instructions = list(dis.get_instructions(code))
    by_offset = {instruction.offset: instruction for instruction in instructions}
    back = [(at.offset, at.argval) for at in instructions if _jumps(at) and at.argval <= at.offset]
    calls = [at.offset for at in instructions if at.opname.startswith("CALL")]
    calling = {target for source, target in back if any(target <= call <= source for call in calls)}
    back = [jump for jump in back if jump[1] in calling or by_offset[jump[1]].opname == "FOR_ITER"]
    targets = {target for _, target in back if by_offset[target].opname != "FOR_ITER"}
    if not targets:
        return {}
    live = live_variables(code, instructions)
    iterated = [(source, target) for source, target in back if target not in targets]
    name = f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"

    def head(offset: int) -> LoopHead:
        around = frozenset(start for end, start in iterated if start < offset < end)
        return LoopHead(f"{name}+{offset}", live[offset], around)

    heads = {offset: head(offset) for offset in targets}
    for top, bottom in _tests(instructions, back):
        heads[top] = heads[bottom] = head(top)
    return heads


def _jumps(at: dis.Instruction) -> bool:
    return at.opcode in dis.hasjrel or at.opcode in dis.hasjabs


def _tests(instructions: Sequence[dis.Instruction], back: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where the tests of loops begin: each is there twice, before the first round and after every round."""
    places = {at.offset: place for place, at in enumerate(instructions)}
    for source, target in back:
        top, bottom = places[target] - 1, places[source]
        begun = None
        while top >= 0 and _same_source(instructions[top], instructions[bottom]):
            begun = instructions[top].offset, instructions[bottom].offset
            top, bottom = top - 1, bottom - 1
        if begun is not None:
            yield begun


def _same_source(first: dis.Instruction, second: dis.Instruction) -> bool:
    """Whether they do the same part of the source."""
    same = (first.opname, first.argval) == (second.opname, second.argval) or (_jumps(first) and _jumps(second))
    known = first.positions is not None and first.positions.col_offset is not None
    return same and known and first.positions == second.positions


def live_variables(
    code: CodeType, instructions: Sequence[dis.Instruction], kept: bool = True
) -> dict[int, frozenset[str]]:
    """The local variables that may be read after each offset before they are set.

    Those of functions around always may be; those that functions within use, also after the end, where these are kept.
    (A function within that is called before is reached by a live variable, or by the mechanism, and so are its
    variables.)
    """
    handlers = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    outer, shared = frozenset(code.co_freevars), frozenset(code.co_cellvars if kept else ())
    live = dict.fromkeys((instruction.offset for instruction in instructions), outer)
    following = dict(zip(live, list(live)[1:], strict=False))
    settled = False
    while not settled:
        settled = True
        for at in reversed(instructions):
            after = [at.argval] if _jumps(at) else []
            if at.opname not in ENDS and at.opname not in ALWAYS and at.offset in following:
                after.append(following[at.offset])
            found = frozenset[str]().union(*(live[offset] for offset in after))
            names = at.argval if isinstance(at.argval, tuple) else (at.argval,)
            if at.opname in ENDS:
                found = shared
            elif at.opname in SETS:
                found -= {at.argval}
            elif any(part in at.opname for part in ("FAST", "DEREF", "CLOSURE")):
                found |= {name for name in names if isinstance(name, str)}
            raised = [entry.target for entry in handlers if entry.start <= at.offset <= entry.end]
            found = found.union(outer, *(live[target] for target in raised))
            if found != live[at.offset]:
                live[at.offset], settled = found, False
    return live


_Number = tuple[Number, frozenset[tuple[Symbol, Number]], str, bool]  # what tells a number from others
Added = tuple[tuple[str, int], ...]  # what is added to which variables
LoopPlace = tuple[str, int, tuple[int, ...]]  # the name of a head, how many steps led to it, and the ways they took


@dataclass(frozen=True, eq=False)
class Visit:
    """The state of a run at the head of a loop, and how many of its steps it had done."""

    head: str
    order: int  # how many visits of any loop the run had made before
    place: int
    numbers: dict[str, _Number]  # local variables that are numbers
    rest: Fingerprint
    rounds: Rounds | None = None  # where the loop is known to count
    counted: dict[str, Affine] = field(default_factory=dict)  # the variables that it adds to

    def added(self, later: Visit) -> Added | None:
        """What the run has added to variables since, with all else as it was; None where it was not."""
        if self.numbers.keys() != later.numbers.keys():
            return None
        found = []
        for name, (constant, *others) in self.numbers.items():
            now, *others_now = later.numbers[name]
            if others != others_now or (now != constant and others[1] != "i"):
                return None
            found += [(name, int(now - constant))] if now != constant else []
        before, now_held = self.rest, later.rest
        return None if changed(before, now_held) or gained(before, now_held) else tuple(found)


class Loops:
    """The loops of a mechanism's code, and what was learned of those that count.

    A loop *counts* if a round that comes back leaves all as it was but for numbers that it adds to. If the way that a
    round goes does not depend on these, they may be read as if it had come back some number of times before: the number
    of its rounds is geometric, and independent of how the last one goes.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.replayed: frozenset[str] = frozenset()  # the heads that paths came back to, where these are replayed
        self.counting: dict[str, Added] = {}  # by the names of heads; nothing for those that turned out not to count
        self.chances: dict[LoopPlace, Number] = {}  # that a round is the last
        self.coins: CoinBook | None = None  # of calls that toss a coin, where these are looked for

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Loops | None:
        """None where the code that is found from here has no loop that could retry, or looks into frames."""
        codes = [each.__code__ for each in functions_of(function)]
        return cls(function) if any(map(_has_loops, codes)) and not any(map(reads_frames, codes)) else None

    def visit(
        self, variables: dict[str, Any], head: LoopHead, order: int, place: int, rounds: Rounds | None
    ) -> Visit | None:
        """The state of a run at the head; None where some of it cannot be read."""
        live = {name: value for name, value in variables.items() if name in head.live}
        numbers = {name: _number(value) for name, value in live.items() if type(value) in (int, Affine)}
        others = {name: value for name, value in live.items() if name not in numbers}
        counted = {name: variables[name] for name, _ in rounds.added} if rounds is not None else {}
        try:
            rest = _at_sight(others) if self.replayed else fingerprint(partial(self.function, others))
        except NotExplorable:
            return None
        return Visit(head.name, order, place, numbers, rest, rounds, counted)


def _at_sight(variables: dict[str, Any]) -> Fingerprint:
    """The variables alone: enough to follow paths that were listed, since what a run does is compared with them."""
    return Fingerprint({name: [_sight(value)] for name, value in variables.items()})


def _sight(value: Any) -> object:
    """What tells it from others: a plain value by itself, a list by its entries too, all else by identity."""
    entries = [plain_state(type(entry), entry) or id(entry) for entry in value] if type(value) is list else []
    return plain_state(type(value), value) or (id(value), *entries)


def _number(value: int | Affine) -> _Number:
    if type(value) is not Affine:
        return value, frozenset(), "i", False  # type: ignore[return-value]
    return value.constant, frozenset(value.terms.items()), value.kind, value.numpy


def functions_of(found: Any) -> Iterator[FunctionType]:
    """The functions of the user that this one may call, as far as its code names them; methods with their classes."""
    pending, seen = [found], set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) is partial:
            pending += [value.func, *value.args, *value.keywords.values()]
        elif type(value) is MethodType:
            pending += [value.__func__, value.__self__]
        elif type(value) is FunctionType and is_users_code(value.__code__.co_filename):
            yield value
            for cell in value.__closure__ or ():
                with suppress(ValueError):  # not assigned yet
                    pending.append(cell.cell_contents)
            names = names_in(value.__code__)
            named = [value.__globals__.get(name) for name in names]
            modules = [
                each
                for each in named
                if type(each) is ModuleType and is_users_code(getattr(each, "__file__", None) or VERIDP)
            ]
            pending += named + [vars(module).get(name) for module in modules for name in names]
        elif isinstance(value, type) or type(value).__module__ not in sys.stdlib_module_names:
            kind = value if isinstance(value, type) else type(value)
            pending += [part for base in kind.__mro__ for part in vars(base).values() if type(part) is FunctionType]
            pending += [part for part in getattr(value, "__dict__", {}).values() if callable(part)]


def _has_loops(code: CodeType) -> bool:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return bool(loop_heads(code)) or any(map(_has_loops, inner))


Visits = dict[LoopHead, list[Visit]]  # of one call
At = Callable[[dict[str, Any], LoopHead, Visits], None]
Leave = Callable[[bool, Any], None]  # what to do when a call ends: whether it returns, and what
AtCall = Callable[[FrameType], tuple[Leave | None, bool]]  # also whether its steps are forgotten


@contextmanager
def watched_loops(at_head: At, at_call: AtCall) -> Iterator[None]:
    """Calls `at_head` whenever a call of user code in the body is at the head of a loop, with its earlier visits.

    It is given the local variables, and may set them. `at_call` is called where a call that has such loops begins.
    """

    def entered(frame: FrameType) -> Actions | None:
        heads = loop_heads(frame.f_code)
        if not heads:
            return None
        leave, forgotten = at_call(frame)
        if forgotten:  # what it does at the heads of its loops is none of the path's
            return Actions({}, leave)
        visits: Visits = {head: [] for head in heads.values()}
        moved = {start: [head for head in visits if start in head.around] for start in _starts(visits)}

        def act(frame: FrameType) -> None:
            head = heads.get(frame.f_lasti)
            if head is not None:
                at_head(frame.f_locals, head, visits)
            for inner_head in moved.get(frame.f_lasti, ()):
                visits[inner_head].clear()

        return Actions(dict.fromkeys([*heads, *moved], act), leave)

    with watched_instructions(entered):
        yield


@dataclass(frozen=True)
class Actions:
    """What to do before which instructions of a call, and at its end."""

    before: dict[int, Callable[[FrameType], None]]
    leave: Leave | None = None


@contextmanager
def watched_instructions(entered: Callable[[FrameType], Actions | None]) -> Iterator[None]:
    """Does at instructions of user code in the body what `entered` says of its calls; nothing where it gives None.

    A tracer that was there before goes on tracing.
    """
    before = sys.gettrace()

    def enter(frame: FrameType, event: Any, argument: Any) -> Any:
        inner = before(frame, event, argument) if before is not None else None
        actions = entered(frame) if is_users_code(frame.f_code.co_filename) else None
        if actions is None:
            return inner
        frame.f_trace_opcodes |= bool(actions.before)  # a tracer that was there before may want them
        frame.f_trace_lines &= inner is not None
        at, leave = actions.before.get, actions.leave

        def step(frame: FrameType, event: Any, argument: Any) -> Any:
            nonlocal inner
            if inner is not None:
                inner = inner(frame, event, argument)
            if event == "opcode":
                action = at(frame.f_lasti)
                if action is not None:
                    action(frame)
            elif event == "return" and leave is not None:
                leave(dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"), argument)
            return step

        return step

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _starts(heads: Iterable[LoopHead]) -> frozenset[int]:
    return frozenset[int]().union(*(head.around for head in heads))
