"""Runs of a loop that draws a fresh sample in every round, without a path for every sequence of samples.

Let a function consist of rounds, and let its state between two of them be the same whatever was drawn in the rounds
before, where numbers that were released count as known. What it does in a round then depends on these numbers and on
what it draws in that round alone. So it is enough to see each way through one round in every round: a run takes the
same way in all of them, and there are as many runs as one round has ways.

A round begins at the head of a `for` loop over a `range`, in the function itself. Its state there is that of its live
local variables. That it has no other state is made sure of by an allow-list: what it calls stores nothing but in local
variables, and reaches by name nothing but plain values, functions of the kind, and modules that keep no state.
"""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from veridp.errors import NotExplorable, TooManyPaths
from veridp.kernel.decimals import Written
from veridp.kernel.explore import check_again, follow
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.flow.loops import Actions, live_variables, watched_instructions
from veridp.kernel.flow.releases import AdaptiveRun
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.handmade.coins import LoopCoin
from veridp.kernel.noise import Uniform
from veridp.kernel.path import Fork, Option, Path
from veridp.kernel.run import Stage, Way
from veridp.kernel.site import here, is_users_code
from veridp.kernel.stand_ins.modules import seeing_stand_ins
from veridp.kernel.state.contents import READS_FRAMES, names_in, plain_state
from veridp.kernel.state.fingerprint import COMPUTED_NAMES
from veridp.kernel.state.memory import Watch
from veridp.kernel.symbols import Noise, Symbol, drawn_in
from veridp.mechanism import Mechanism
from veridp.mechanism.declared import Adopting

MAX_WAYS = 512  # through one round: 2^9
KEPT_CONDITIONS = 8  # by a run that is to tell where rounds begin: what it takes for possible need not be
MAX_FORKS = 50_000  # in all rounds of a run
STORES = frozenset(
    {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME"}
)  # an import reaches all
STATELESS = frozenset({"math", "numpy", "itertools", "operator", "statistics"})  # modules, as far as code uses them
FORBIDDEN = READS_FRAMES | COMPUTED_NAMES | {"delattr", "iter", "next", "open", "print"}
SETTINGS = frozenset({"seterr", "seterrcall", "setbufsize", "set_printoptions", "set_string_function"})  # of NumPy

# ------------------------------------------------------------------------------------------------- where rounds begin


@lru_cache(maxsize=256)
def round_heads(code: CodeType) -> dict[int, frozenset[str]]:
    """The heads of `for` loops over ranges, by their offsets: the variables that are live there.

    None of a loop in a `with` or `try`, or around which another loop is that goes over anything else, or that sets a
    variable on which the range of the inner one depends.
    """
    lines = {position for node in _loops(code) for position in (_position(node), _position(node.iter))}
    instructions = list(dis.get_instructions(code))
    live = live_variables(code, instructions, kept=False)  # a function that holds variables is no state that is read
    found: dict[int, frozenset[str]] = {}
    for before, at in zip([None, *instructions], instructions, strict=False):
        if at.opname != "FOR_ITER" or at.positions is None:
            continue
        if (at.positions.lineno, at.positions.col_offset) in lines:
            first = before if before is not None and before.opname == "EXTENDED_ARG" else at
            found[first.offset] = live[at.offset]
    return found


def _position(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _loops(code: CodeType) -> list[ast.For]:
    for node in ast.walk(_parsed(code.co_filename)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno and "range" not in code.co_varnames + code.co_freevars:
                return list(_within(node.body, frozenset(), True))
    return []


@cache
def _parsed(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def _within(body: Sequence[ast.stmt], stored: frozenset[str], outermost: bool) -> Iterator[ast.For]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _within([*node.body, *node.orelse], stored, outermost)
        elif isinstance(node, ast.For) and _is_range(node.iter, None if outermost else stored):
            yield node
            inner = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            yield from _within(node.body, stored | inner, False)


def _is_range(node: ast.expr, stored: frozenset[str] | None) -> bool:
    """Whether it is a range; of constants and variables that are not stored to, where these are given."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "range":
        return False
    parts = [part for argument in node.args for part in ast.walk(argument)]
    plain = (ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.operator)
    return stored is None or all(
        isinstance(part, plain) and not (isinstance(part, ast.Name) and part.id in stored) for part in parts
    )


# ------------------------------------------------------------------------------------------------- what keeps no state


def keeps_no_state(function: Any) -> bool:
    """Whether what the function calls can keep no state but in local variables."""
    pending, seen = [function], set[int]()
    names, modules = set[str](), list[ModuleType]()
    while pending:
        value = pending.pop()
        if id(value) in seen or _plain(value) is not None:
            continue
        seen.add(id(value))
        if isinstance(value, Adopting):
            pending.append(value.function)
        elif isinstance(value, partial):
            pending += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, FunctionType) and is_users_code(value.__code__.co_filename):
            if not _is_local(value.__code__) or vars(value):
                return False
            names |= names_in(value.__code__)
            named = {name: value.__globals__[name] for name in names_in(value.__code__) if name in value.__globals__}
            if named.get("range", range) is not range:
                return False
            pending += [*named.values(), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            try:
                pending += [cell.cell_contents for cell in value.__closure__ or ()]
            except ValueError:
                return False
        elif isinstance(value, ModuleType):
            modules.append(value)
        elif isinstance(value, type):
            if value.__module__.partition(".")[0] not in {"builtins", *STATELESS}:
                return False
        elif not _is_named(value) and not (_is_bare(value) and value.__name__ not in FORBIDDEN):
            return False
    return all(_is_stateless(module, names) for module in modules)


def _is_stateless(module: ModuleType, names: set[str]) -> bool:
    """Whether the module keeps no state, and none of these names is that of a container which code could change."""
    containers = (dict, list, set, np.ndarray)
    return module.__name__.partition(".")[0] in STATELESS and not any(
        isinstance(vars(module).get(name), containers) for name in names
    )


def _is_local(code: CodeType) -> bool:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    outside = any(
        at.opname in STORES or (at.opname == "STORE_DEREF" and at.argval in code.co_freevars)
        for at in dis.get_instructions(code)
    )
    reaching = any(name.startswith("__") or name in FORBIDDEN or name in SETTINGS for name in code.co_names)
    return not outside and not reaching and all(map(_is_local, inner))


# ------------------------------------------------------------------------------------------------------------ the runs


@dataclass(frozen=True)
class RoundStart:
    """Where a run began a round: after how many steps, and in which state."""

    place: int
    state: object


class UnreadableState(Exception):
    """Raised where the state between two rounds is not one that can be compared."""


def snapshot(variables: dict[str, Any]) -> object:
    """The contents of variables, as they are now: nested tuples of plain values and expressions."""
    seen: dict[int, int] = {}

    def read(value: Any) -> object:
        if (state := _plain(value)) is not None:
            return state
        if type(value) is Affine:
            return value
        if isinstance(value, ModuleType) or _is_named(value) or _is_bare(value):
            return "by name", id(value)
        if id(value) in seen:
            return "the same as", seen[id(value)]
        seen[id(value)] = len(seen)
        if isinstance(value, StandInGenerator):
            return "the generator"
        if type(value) in (list, tuple):
            return type(value), tuple(map(read, value))
        if type(value) is dict:
            return dict, tuple((read(key), read(part)) for key, part in value.items())
        if isinstance(value, np.ndarray):
            whole = value
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
            where = value.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
            place = seen.setdefault(id(whole), len(seen)), where, value.strides
            entries = np.asarray(value).view(np.ndarray).ravel().tolist()
            return type(value), value.shape, value.dtype.str, place, tuple(map(read, entries))
        raise UnreadableState

    return tuple((name, read(value)) for name, value in sorted(variables.items()))


def _plain(value: Any) -> object:
    """What tells a plain value from others; None for what is no such value."""
    return (Written, float(value).hex()) if type(value) is Written else plain_state(type(value), value)


def _is_named(value: Any) -> bool:
    """Whether it is a type or a ufunc that is found in its module: not one that was made in a run."""
    home = np if isinstance(value, np.ufunc) else sys.modules.get(getattr(value, "__module__", None) or "")
    return isinstance(value, np.ufunc | type) and getattr(home, value.__name__, None) is value


def _is_bare(value: Any) -> bool:
    """Whether it is a function that holds no values."""
    if isinstance(value, BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, ModuleType)
    held = ("__closure__", "__defaults__", "__kwdefaults__", "__dict__")
    return isinstance(value, FunctionType) and not any(getattr(value, name) for name in held)


class RoundsRun(AdaptiveRun):
    """A run that takes the same way in every round; before these are known, it notes where they may begin."""

    def __init__(self, ways: Callable[[int], Sequence[int]], head: int | None) -> None:
        super().__init__(Way(), {}, functions=True)
        self.ways, self.head = ways, head
        self.seen: list[tuple[int, int]] = []  # heads of loops, and how many steps there were before
        self.starts: list[RoundStart] = []
        self.options: list[list[int]] = [[]]  # how many ways there were at each fork, by rounds

    def watched(self) -> Any:
        return _watched_rounds(self.at_head_of)

    def is_known(self, symbol: Symbol) -> bool:
        """Also of noise alone: what a round releases of a sample without records."""
        return isinstance(symbol, Noise) and not isinstance(symbol.distribution, Uniform)

    def at_head_of(self, offset: int, frame: FrameType) -> None:
        self.seen.append((offset, self.place))
        if offset != self.head:
            return
        if self.tape is not None or self.branched:
            self.refuse("the generator is copied or branched, so its state is not that of one stream")
        live = round_heads(frame.f_code)[offset]
        try:
            state = snapshot({name: value for name, value in frame.f_locals.items() if name in live})
        except UnreadableState:
            self.refuse("the state between two rounds of a loop cannot be compared")
        self.starts.append(RoundStart(self.place, state))
        self.options.append([])
        self.conditions, self.fresh = [], self.drawn

    def _new_fork(self, options: tuple[Option, ...], asked: Condition | LoopCoin | None) -> None:
        possible = self.choose_way(options)
        taken = self.options[-1]
        if len(possible) > 1:
            old = [
                s
                for c in options[0].conditions
                for s in drawn_in(c.slack.terms)
                if getattr(s, "index", -1) < self.fresh
            ]
            if old or self.tape is not None:
                self.refuse("a round of a loop is decided by what was drawn before it")
            ways = self.ways(len(self.starts))
            way = ways[len(taken)] if len(taken) < len(ways) else 0
            if way >= len(possible) or self.place - self.drawn >= MAX_FORKS:
                self.refuse("the rounds of a loop are not alike")
            taken.append(len(possible))
            chosen = possible[way]
            known = self.conditions if self.head is not None else self.conditions[-KEPT_CONDITIONS:]
            self.conditions = [*known, *options[chosen].conditions]
        else:
            chosen = possible[0]
        self.next = Stage(Fork(options, chosen, here(), implied=len(possible) == 1), asked, chosen)
        self.stages.append(self.next)


@contextmanager
def _watched_rounds(at_head: Callable[[int, FrameType], None]) -> Iterator[None]:
    """Calls `at_head` at the heads of loops of the first call of user code in the body."""
    first: list[FrameType] = []

    def entered(frame: FrameType) -> Actions | None:
        if first:
            return None
        first.append(frame)
        return Actions(dict.fromkeys(round_heads(frame.f_code), lambda frame: at_head(frame.f_lasti, frame)))

    with watched_instructions(entered):
        yield


@dataclass(frozen=True, eq=False)
class RoundsPath:
    """A path through all rounds that takes the same way in each of them."""

    path: Path
    starts: tuple[RoundStart, ...]


def rounds_paths(mechanism: Mechanism, data: Any, mixed: Sequence[int] = ()) -> list[RoundsPath]:
    """A path for each way through a round, which takes it in every round; and one for each of these seeds, that takes
    ways at random.

    NotExplorable where there are no such rounds.
    """
    plain = mechanism.bound()
    if not keeps_no_state(plain):
        raise NotExplorable(f"{mechanism.name} may keep state beyond its local variables")
    watch = Watch(mechanism.name, plain)
    function = watch.deciding(seeing_stand_ins(plain))

    def followed(ways: Callable[[int], Sequence[int]], head: int | None) -> tuple[RoundsRun, Path]:
        run = RoundsRun(ways, head)
        return run, follow(run, mechanism.name, function, data, False)

    head = _head_of(*followed(partial(_same, ()), None))
    found: list[RoundsPath] = []
    pending: list[tuple[int, ...]] = [()]
    known: list[tuple[int, ...]] = []
    while pending:
        if len(found) >= MAX_WAYS:
            raise TooManyPaths(f"{mechanism.name} has more than {MAX_WAYS} ways through a round")
        way = pending.pop()
        run, path = followed(partial(_same, way), head)
        options = next((each for each in run.options[1:] if each), [])
        if run.options[0] or any(each and each != options for each in run.options[1:-1]) or run.options[-1]:
            raise NotExplorable(f"{mechanism.name}: the rounds of its loop are not alike")
        whole = way + (0,) * (len(options) - len(way))
        known.append(whole)
        pending += [(*whole[:at], other) for at in range(len(way), len(options)) for other in range(1, options[at])]
        found.append(RoundsPath(path, tuple(run.starts)))

        def again(path: Path = path, way: tuple[int, ...] = way) -> None:
            check_again(path, RoundsRun(partial(_same, way), head), mechanism.name, function, data, False)

        if len(found) == 1:
            again()
        watch.after_run(again)
    for seed in mixed:
        rng = np.random.default_rng(seed)
        taken = defaultdict[int, tuple[int, ...]](partial(_one_of, known, rng))
        run, path = followed(taken.__getitem__, head)
        found.append(RoundsPath(path, tuple(run.starts)))
    watch.settle()
    return found


def _same(way: tuple[int, ...], round_number: int) -> tuple[int, ...]:
    return way


def _one_of(ways: Sequence[tuple[int, ...]], rng: np.random.Generator) -> tuple[int, ...]:
    return ways[int(rng.integers(len(ways)))]


def _head_of(run: RoundsRun, path: Path) -> int:
    """The loop between whose rounds all forks lie, and the most often."""
    forks = [k for k, step in enumerate(path.steps) if isinstance(step, Fork) and not step.implied]
    visits: dict[int, list[int]] = {}
    for offset, place in run.seen:
        visits.setdefault(offset, []).append(place)
    fitting = [
        (len(places), offset)
        for offset, places in visits.items()
        if forks and len(places) > 2 and places[0] <= forks[0] and forks[-1] < places[-1]
    ]
    drawing = [each for each in fitting if _draws_in_every_round(path, visits[each[1]], forks)]
    if not drawing:
        raise NotExplorable("it has no loop that draws a sample in each of its rounds")
    return max(drawing)[1]


def _draws_in_every_round(path: Path, places: Sequence[int], forks: Sequence[int]) -> bool:
    """Whether a number is drawn that decides nothing, in every round that decides something."""
    decided = {s for condition in path.conditions for s in condition.slack.terms}
    drawn = [k for k, step in enumerate(path.steps) if not isinstance(step, Fork) and step not in decided]
    rounds = list(pairwise(places))
    return all(any(low <= k < high for k in drawn) for low, high in rounds if any(low <= fork < high for fork in forks))
