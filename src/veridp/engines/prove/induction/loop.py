"""A mechanism as one loop over its queries: its text, read by a small grammar, and its runs cut into steps.

A proof for every size rests on this: what a step does depends on the loop's local variables, the query and fresh noise
alone. So the text is read, and everything in it must be understood completely; whatever the grammar does not name is
refused. It names:

- one `for` over the data (or over `enumerate` of it), at the top level of the function, and no other use of the data;
- `if`, `break`, `continue`, `pass`, `return`, assignments to local names, and `append` to a list that is returned;
- numbers, strings, True, False, None; arithmetic, comparisons, `and`, `or`, `not`, conditional expressions;
- names of the function's own, arguments and module constants with plain values, which nothing may assign to;
- draws from rng, `abs`, `min`, `max`, `bool`, `int`, `float`, and functions of the math module.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from veridp.errors import NotExplorable, NotInductive
from veridp.kernel.decimals import Written
from veridp.kernel.explore import walk
from veridp.kernel.expressions import RUN, decided, unknown
from veridp.kernel.flow.branches import empty_lists, only_collects
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.path import Path
from veridp.kernel.site import Site
from veridp.kernel.source import definition_of
from veridp.mechanism import Mechanism

# Their exact types: no code can change such a value in place, nor did a user say what its operators do.
PLAIN_TYPES = (bool, int, float, str, Fraction, type(None), np.float64, Written)
PURE_BUILTINS = {name: getattr(builtins, name) for name in ("abs", "min", "max", "bool", "int", "float")}
DRAWS = {name for name in dir(StandInGenerator) if not name.startswith("_") and hasattr(np.random.Generator, name)}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd, ast.Not)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


@dataclass(frozen=True)
class Loop:
    """The one loop of a mechanism over its data."""

    skipped: frozenset[str]  # names that pass nothing on: parameters rng and data, what the loop assigns at each step
    collecting: frozenset[str]  # lists that are appended to and returned, never read
    period: int  # steps are alike only if their numbers are, modulo this


def loop_of(mechanism: Mechanism) -> Loop:
    """The loop; NotInductive, with the line and what stands there, where the grammar does not understand the text."""
    return _Reader(mechanism).loop()


class TextReader:
    """Reads the text of a mechanism by a grammar."""

    proof = "a proof for every size"  # what needs the text

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism, self.function = mechanism, mechanism.function
        if type(self.function) is not FunctionType or hasattr(self.function, "__wrapped__"):
            raise NotInductive(f"{mechanism.name} is not a plain function with readable source")
        try:
            self.definition = definition_of(self.function.__code__, self.function.__globals__)
        except NotExplorable as error:
            raise NotInductive(str(error)) from None
        arguments = self.definition.args
        if arguments.vararg or arguments.kwarg:
            self.refuse(self.definition, "parameters with a star")
        self.rng, self.data = mechanism.roles.generator or "", mechanism.roles.data
        self.parameters = {each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        site = Site(self.function.__code__.co_filename, getattr(node, "lineno", 0))
        raise NotInductive(f"{site}: {self.proof} does not support {what}")


class _Reader(TextReader):
    """Reads the text of a mechanism that is one loop."""

    proof = "induction over the size"

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism)
        self.assigned = {n.id for n in ast.walk(self.definition) if isinstance(n, ast.Name) and _is_store(n)}
        for name, value in mechanism.values.items():
            if type(value) not in PLAIN_TYPES:
                raise NotInductive(f"the argument {name} of {mechanism.name} is a {type(value).__name__}, not a number")

    def loop(self) -> Loop:
        body = self.definition.body
        loops = [node for node in body if isinstance(node, ast.For) and _iterated(node) == self.data]
        uses = [node for node in ast.walk(self.definition) if isinstance(node, ast.Name) and node.id == self.data]
        others = [node for node in uses if not loops or node not in ast.walk(loops[0].iter)]
        if others:
            self.refuse(others[0], f"{self.data} outside of a single loop over it")
        if not loops:
            raise NotInductive(f"{self.mechanism.name} has no loop over {self.data}")
        loop = loops[0]
        if isinstance(loop.iter, ast.Call) and not self._is_plain_enumerate(loop.iter):
            self.refuse(loop, f"'{ast.unparse(loop.iter)}'")
        self.targets = self._targets(loop)
        self.lists = {name for name in empty_lists(body[: body.index(loop)]) if only_collects(self.definition, name)}
        if len(self.lists) > 1 or not isinstance(body[-1], ast.Return):
            self.refuse(body[-1], "several lists, or a function that does not end with return")
        for statement in body[1:] if ast.get_docstring(self.definition) is not None else body:
            if statement is loop:
                for inner in [*loop.body, *loop.orelse]:
                    self.statement(inner)
            else:
                self.statement(statement)
        after = [*body[body.index(loop) + 1 :], *loop.orelse]
        for name in self.targets & {name for statement in after for name in _read(statement)}:
            self.refuse(loop, f"{name}, which is read after the loop")
        period = self._period(loop)
        skipped = frozenset({self.rng, self.data, *self.targets, *_overwritten(loop, after)})
        return Loop(skipped, frozenset(self.lists), period)

    def _is_plain_enumerate(self, call: ast.Call) -> bool:
        """Whether it counts the queries from a fixed number on."""
        starts = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
        fixed = all(isinstance(start, ast.Constant) and type(start.value) is int for start in starts)
        return fixed and len(starts) <= 1 and self._outside("enumerate") is enumerate

    def _targets(self, loop: ast.For) -> set[str]:
        """The names that the loop sets to its number and its query."""
        parts = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        if not all(isinstance(part, ast.Name) for part in parts) or len(parts) != 1 + isinstance(loop.iter, ast.Call):
            self.refuse(loop, "a loop variable that is not a plain name")
        return {part.id for part in parts if isinstance(part, ast.Name)}

    def _period(self, loop: ast.For) -> int:
        """What the number of a step is taken modulo, which is all it may be used for; 1 where it is not used."""
        if not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Tuple):
            return 1
        number = loop.target.elts[0].id  # type: ignore[attr-defined]
        remainders = [n for n in ast.walk(loop) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
        by = [n.right for n in remainders if isinstance(n.left, ast.Name) and n.left.id == number]
        uses = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == number and not _is_store(n)]
        if len(uses) != len(by) or any(_is_store(n) and n.id == number for n in _names(loop.body)):
            self.refuse(loop, f"the number of a step, {number}, for something other than a remainder")
        values = [
            n.value if isinstance(n, ast.Constant) else self.mechanism.values.get(getattr(n, "id", "")) for n in by
        ]
        whole = [value for value in values if type(value) is int and value > 0]
        if len(whole) != len(values):
            self.refuse(loop, f"a remainder of {number} by something that is not a fixed whole number")
        return math.lcm(1, *whole)

    # -------------------------------------------------------------------------------------------- statements

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case ast.If(test=test, body=body, orelse=orelse):
                self.expression(test)
                for inner in [*body, *orelse]:
                    self.statement(inner)
            case ast.Assign(targets=[target], value=value):
                self._assignment(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assignment(target, value)
            case ast.AugAssign(target=ast.Name() as target, op=operator, value=value) if isinstance(
                operator, OPERATORS
            ):
                self._assignment(target, value)
            case ast.Return(value=value):
                self._returned(node, value)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value], keywords=[])
            ):
                if name not in self.lists:
                    self.refuse(node, f"{name}, a list that is not only appended to and returned")
                self.expression(value)
            case _:
                self.refuse(node, f"'{ast.unparse(node).splitlines()[0]}'")

    def _assignment(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                for name, part in zip(names, values, strict=True):
                    self._assignment(name, part)
            case ast.Name(id=name), _:
                if name in self.parameters:
                    self.refuse(target, f"an assignment to the parameter {name}")
                if isinstance(value, ast.List) and name not in self.lists:
                    self.refuse(target, f"{name}, a list that is not only appended to and returned")
                if name not in self.lists:
                    self.expression(value)
            case _:
                self.refuse(target, f"an assignment to '{ast.unparse(target)}'")

    def _returned(self, node: ast.AST, value: ast.expr | None) -> None:
        """The list where there is one, and nothing else; else numbers, also several."""
        if self.lists:
            if not (isinstance(value, ast.Name) and value.id in self.lists):
                self.refuse(node, "a return of something other than the list that is appended to")
        elif isinstance(value, ast.Tuple | ast.List):
            for part in value.elts:
                self._returned(node, part)
        elif value is not None:
            self.expression(value)

    # ------------------------------------------------------------------------------------------- expressions

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=value) if type(value) in PLAIN_TYPES:
                pass
            case ast.Name(id=name):
                self._name(node, name)
            case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, OPERATORS):
                self.expression(left)
                self.expression(right)
            case ast.UnaryOp(op=operator, operand=operand) if isinstance(operator, OPERATORS):
                self.expression(operand)
            case ast.BoolOp(values=values):
                for operand in values:
                    self.expression(operand)
            case ast.Compare(left=left, ops=operators, comparators=others) if all(
                isinstance(operator, COMPARISONS) for operator in operators
            ):
                for operand in [left, *others]:
                    self.expression(operand)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                for operand in (test, body, orelse):
                    self.expression(operand)
            case ast.Call(func=called, args=positional, keywords=named):
                self._call(called)
                for operand in [*positional, *(keyword.value for keyword in named)]:
                    self.expression(operand)
            case _:
                self.refuse(node, f"'{ast.unparse(node)}'")

    def _name(self, node: ast.expr, name: str) -> None:
        """A local variable, an argument, or a constant of the module or of what surrounds the function."""
        if name in self.lists or name in (self.rng, self.data):
            self.refuse(node, f"{name} as a value")
        if name in self.assigned or name in self.parameters:
            return
        cells = dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))
        value = cells[name].cell_contents if name in cells else self.function.__globals__.get(name, self)
        if type(value) not in PLAIN_TYPES:
            self.refuse(node, f"{name}, which is not a plain constant")

    def _call(self, called: ast.expr) -> None:
        match called:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if name == self.rng and method in DRAWS:
                pass
            case ast.Attribute(value=ast.Name(id=name), attr=method) if self._outside(name) is math and hasattr(
                math, method
            ):
                pass
            case ast.Name(id=name) if name in PURE_BUILTINS and self._outside(name) is PURE_BUILTINS[name]:
                pass
            case _:
                self.refuse(called, f"a call of '{ast.unparse(called)}'")

    def _outside(self, name: str) -> object:
        """What the name means where the function does not define it; nothing where it does."""
        if name in self.assigned or name in self.parameters or name in self.function.__code__.co_freevars:
            return None
        return self.function.__globals__.get(name, getattr(builtins, name, None))


def _iterated(loop: ast.For) -> str | None:
    """The name that is looped over, or that enumerate is given."""
    source = loop.iter
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "enumerate":
        source = source.args[0] if source.args else source
    return source.id if isinstance(source, ast.Name) else None


def _names(statements: Sequence[ast.stmt]) -> Iterator[ast.Name]:
    for statement in statements:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.Name))


def _is_store(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _overwritten(loop: ast.For, after: Sequence[ast.stmt]) -> set[str]:
    """Names that every step sets before it reads them, and that nothing reads after the loop."""
    read_later = {name for statement in after for name in _read(statement)}
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
    """The names that are read: an augmented assignment reads its target too."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not _is_store(node)}
    augmented = [node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign)]
    return names | {target.id for target in augmented if isinstance(target, ast.Name)}


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
        for entries in (local[name] for name in loop.collecting if name in local):
            entries[:] = map(decided, entries)  # in this step, not when they are returned: nothing reads them before
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
