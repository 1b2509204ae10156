"""A mechanism as a loop over its queries: what its text must look like for an induction, and its runs cut into steps.

The text is read only to make sure that nothing but the loop's local variables passes from one step to the next.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

from veridp.errors import NotInductive
from veridp.mechanism import Mechanism
from veridp.program.affine import RUN, unknown
from veridp.program.explore import walk
from veridp.program.path import Path

UNCHANGING = (ModuleType, BuiltinFunctionType, type, int, float, str, tuple, Fraction, NoneType)  # as far as it matters


@dataclass(frozen=True)
class Loop:
    """The one loop of a mechanism over its data."""

    skipped: frozenset[str]  # names that pass nothing on: parameters rng and data, what the loop assigns at each step
    collecting: frozenset[str]  # lists that are appended to and returned, never read
    period: int  # steps are alike only if their numbers are, modulo this


def loop_of(mechanism: Mechanism) -> Loop:
    """The loop; NotInductive with the reason where the text does not make it certain that there is just that."""
    function = _definition(mechanism)
    _check_surroundings(mechanism.function, mechanism.name, set())
    positional = [*function.args.posonlyargs, *function.args.args]
    rng, data = positional[0].arg, positional[1].arg
    if any(
        isinstance(n, ast.Global | ast.Nonlocal | ast.FunctionDef | ast.Lambda | ast.ClassDef)
        for n in _inside(function)
    ):
        raise NotInductive(f"{mechanism.name} has functions of its own or outer names that it assigns")
    loops = [node for node in function.body if isinstance(node, ast.For) and _iterated(node) == data]
    uses = [node for node in _inside(function) if isinstance(node, ast.Name) and node.id == data]
    if len(loops) != 1 or len(uses) != 1:
        raise NotInductive(f"{mechanism.name} is not one loop over {data} that uses it in no other way")
    (loop,) = loops
    targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    collecting = frozenset(name for name in _lists(function) if _only_collects(function, name))
    return Loop(frozenset({rng, data, *targets, *_overwritten(function, loop)}), collecting, _period(mechanism, loop))


def _check_surroundings(function: Any, name: str, seen: set[int]) -> None:
    """Make sure that what the function finds around it cannot change from step to step."""
    code = getattr(function, "__code__", None)
    if code is None or id(function) in seen:
        return
    seen.add(id(function))
    outer = {key: function.__globals__[key] for key in code.co_names if key in function.__globals__}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    outer |= {key: cell.cell_contents for key, cell in cells}
    for key, value in outer.items():
        inner = value.function if isinstance(value, Mechanism) else value
        if isinstance(inner, FunctionType):
            _check_surroundings(inner, name, seen)
        elif not isinstance(inner, UNCHANGING):
            raise NotInductive(f"{name} uses {key}, a {type(inner).__name__} outside of it, which may change")


def _definition(mechanism: Mechanism) -> ast.FunctionDef:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(mechanism.function)))
    except (OSError, TypeError, SyntaxError) as error:
        raise NotInductive(f"the text of {mechanism.name} cannot be read: {error}") from None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if len(found) != 1:
        raise NotInductive(f"{mechanism.name} is not a plain function")
    return found[0]


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)


def _iterated(loop: ast.For) -> str | None:
    """The name that is looped over, or that enumerate is given."""
    source = loop.iter
    if (
        isinstance(source, ast.Call)
        and isinstance(source.func, ast.Name)
        and source.func.id == "enumerate"
        and source.args
    ):
        source = source.args[0]
    return source.id if isinstance(source, ast.Name) else None


def _period(mechanism: Mechanism, loop: ast.For) -> int:
    """1, unless the number of a step is used, for which there is one way only: then what its remainder is taken by."""
    if not isinstance(loop.iter, ast.Call):
        return 1
    if not isinstance(loop.target, ast.Tuple) or not isinstance(loop.target.elts[0], ast.Name):
        raise NotInductive(f"{mechanism.name} enumerates its queries in an unusual way")
    number = loop.target.elts[0].id
    remainders = [n for n in ast.walk(loop) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
    by = [n.right for n in remainders if isinstance(n.left, ast.Name) and n.left.id == number]
    uses = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == number and isinstance(n.ctx, ast.Load)]
    if len(uses) != len(by):
        raise NotInductive(f"{mechanism.name} uses the number of a step, {number}, other than for a remainder")
    values = [n.value if isinstance(n, ast.Constant) else mechanism.values.get(getattr(n, "id", "")) for n in by]
    if not all(isinstance(value, int) and value > 0 for value in values):
        raise NotInductive(f"{mechanism.name} takes the remainder of {number} by what is no fixed number")
    return math.lcm(1, *(int(value) for value in values if isinstance(value, int)))


def _overwritten(function: ast.FunctionDef, loop: ast.For) -> set[str]:
    """Names that every step sets before it reads them, and that nothing reads after the loop."""
    after = function.body[function.body.index(loop) + 1 :]
    read_later = {name for statement in [*after, *loop.orelse] for name in _read(statement)}
    found: set[str] = set()
    read: set[str] = set()
    for statement in loop.body:
        read |= _read(statement)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name not in read and name not in read_later:
                found.add(name)
    return found


def _read(statement: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _lists(function: ast.FunctionDef) -> set[str]:
    """The names that are set to an empty list before the loop."""
    found = set()
    for node in function.body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.List) and not value.elts:
            found.add(target.id)
    return found


def _only_collects(function: ast.FunctionDef, name: str) -> bool:
    """Whether the list is only ever appended to, and returned by itself."""
    appended = [n.value for n in _inside(function) if isinstance(n, ast.Attribute) and n.attr == "append"]
    returned = [n.value for n in _inside(function) if isinstance(n, ast.Return)]
    allowed = sum(_is_name(node, name) for node in [*appended, *returned])
    uses = [n for n in _inside(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return len(uses) == allowed


def _is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


# --------------------------------------------------------------------------------------------------- runs, in steps


@dataclass(frozen=True, eq=False)
class Mark:
    """The moment before a step: how much of the path there was, the local variables, and what had been collected."""

    steps: int
    local: dict[str, Any]
    collected: dict[str, int]


@dataclass(eq=False)
class Steps:
    """Queries that mark each time they are asked for the next one; each run gets a copy with marks of its own."""

    size: int
    loop: Loop
    copies: list[Steps] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def __deepcopy__(self, memo: object) -> Steps:
        copy = Steps(self.size, self.loop)
        self.copies.append(copy)
        return copy

    def __iter__(self) -> Iterator[Any]:
        return _Marking(self)


class _Marking:
    """The iterator: its caller's frame is the mechanism's."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def __iter__(self) -> _Marking:
        return self

    def __next__(self) -> Any:
        frame, run, loop = sys._getframe(1), RUN.get(), self.steps.loop
        local = dict(frame.f_locals)
        collected = {name: len(local.pop(name)) for name in loop.collecting if name in local}
        kept = {name: value for name, value in local.items() if name not in loop.skipped}
        self.steps.marks.append(Mark(len(run.steps), kept, collected))  # type: ignore[union-attr]
        number = len(self.steps.marks) - 1
        if number == self.steps.size:
            raise StopIteration
        return unknown(f"data[{number}]")


def marked_paths(mechanism: Mechanism, loop: Loop, size: int) -> list[tuple[Path, Sequence[Mark]]]:
    """The paths for this many queries, each with the marks of its steps."""
    steps = Steps(size, loop)
    paths = list(walk(mechanism, steps))
    runs = [steps.copies[0], *steps.copies[2:]]  # the first path is run twice, to see whether it is the same again
    return [(path, run.marks) for path, run in zip(paths, runs, strict=True)]
