"""Branches that need not be taken apart: those that choose a constant for the list that is returned, and clipping.

`if noisy >= bar: answers.append(True)` and `else: answers.append(False)` make two paths of one, and n of them 2^n.
Where the text shows that the list is only appended to and then returned by the mechanism itself, nothing can tell which
branch was taken until then: so the entry stays undecided in one path, as `answers.append(noisy >= bar)` leaves it. What
is appended may be computed from plain numbers (`1 - bit`), and there may be an `elif`: computing all of it in advance
has no effects, as it calls nothing.

`if norm > bound: g = g * bound / norm` does the same as `g = g * bound / max(norm, bound)`: for a smaller norm the
factor is 1. So a run may take the branch whatever the norm is, with the larger of both for the norm, if nothing else
reads it.
"""

from __future__ import annotations

import ast
import ctypes
import dis
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.site import is_inner
from veridp.kernel.stand_ins.arrays import Vector
from veridp.kernel.stand_ins.text import nodes_around
from veridp.kernel.state.contents import reads_frames

PLAIN_CONSTANTS = (bool, int, float, str, type(None), np.bool_, np.int64, np.float64)
COMPUTED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.BitXor: operator.xor,
}  # fmt: skip
ORDERED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
COMPARED: dict[type, Callable[[Any, Any], Any]] = {**ORDERED, ast.Eq: operator.eq, ast.NotEq: operator.ne}


@dataclass(frozen=True)
class ChosenEntry:
    """The list of this name gets one value or the other as its next entry: expressions in the text, then values.

    Without a name it is the list that is returned, as a comprehension over something, and `place` tells where in it.
    """

    name: str
    then: Any
    other: Any
    place: int = 0
    over: ast.expr | None = None


def asking_frame(frame: FrameType | None) -> FrameType | None:
    """The frame of user code that asks for the truth of a condition; None where it asks for what is made of it."""
    while frame is not None and frame.f_code is not _TRUTH and is_inner(frame):
        frame = frame.f_back
    asks = frame.f_back if frame is not None and frame.f_code is _TRUTH else None
    return None if asks is None or is_inner(asks) else asks


_TRUTH = Condition.__bool__.__code__


def chosen_entry(frame: FrameType) -> tuple[list[Any] | None, ChosenEntry] | None:
    """The list, and what is chosen for it, where the user's code decides that right now; None where it does more."""
    chosen = _chosen_at(frame.f_code, frame.f_lasti // 2)
    caller = frame.f_back if chosen is None or chosen.name else getattr(frame.f_back, "f_back", None)
    if chosen is None or caller is None or not is_inner(caller):
        return None  # who called a helper may look at its list
    entries = frame.f_locals.get(chosen.name)
    names = {**frame.f_globals, **frame.f_locals}
    if chosen.over is None:
        place = 0 if type(entries) is list and not _reads_frames(frame) else -1
    else:
        around = {**frame.f_globals, **(frame.f_back.f_locals if frame.f_back is not None else {})}
        place = _steps_of(frame.f_locals.get(".0")) - 1 if _starts_anew(chosen.over, around) else -1
    if place < 0:
        return None
    try:
        then, other = (_entry(node, names) for node in (chosen.then, chosen.other))
    except _NOT_PLAIN:
        return None
    return entries, ChosenEntry(chosen.name, then, other, place)


def _steps_of(iterator: Any) -> int:
    """How many steps an iterator over a list, a range or the like has gone; 0 where that is not known."""
    match iterator.__reduce__() if type(iterator) in _COUNTED else None:
        case (_, (inner, *_)) if type(iterator) in (enumerate, zip):
            return _steps_of(inner)
        case (_, _, int() as steps):
            return steps
    return 0


def _starts_anew(node: ast.expr, names: dict[str, Any]) -> bool:
    """Whether a loop over this goes over an iterator of its own, which nothing else moves."""
    match node:
        case ast.Name(id=name):
            return type(names.get(name)) in (*map(type, _PLAIN_SEQUENCES), Vector)
        case ast.Call(func=ast.Name(id="range" | "enumerate" | "zip" as name), args=[_, *_] as parts):
            genuine = {"range": range, "enumerate": enumerate, "zip": zip}[name]
            own = name == "range" or all(_starts_anew(part, names) for part in parts)
            return own and names.get(name, genuine) == genuine
    return False


_PLAIN_SEQUENCES: list[Any] = [[], (), range(0), "", np.zeros(0)]
_COUNTED = (enumerate, zip, *(type(iter(each)) for each in _PLAIN_SEQUENCES))


def stored_entry(frame: FrameType, condition: Condition) -> Callable[[], None] | None:
    """What writes the choice, where user code decides right now whether to write a plain value into an entry of a list
    or an array, which is otherwise only written to until it is returned; None where it does more."""
    branch = _stored_at(frame.f_code, frame.f_lasti // 2)
    if branch is None:
        return None
    target, value = branch
    names = {**frame.f_globals, **frame.f_locals}
    entries: Any = names.get(target.value.id) if isinstance(target.value, ast.Name) else None
    if type(entries) not in (list, Vector):
        return None
    try:
        place = _plain(target.slice, names)
        before, after = entries[place], _plain(value, names)
    except _NOT_PLAIN:
        return None
    if type(before) not in PLAIN_CONSTANTS or type(place) is bool:
        return None
    if isinstance(entries, Vector):
        after = type(before)(after)
    if type(after) is not type(before) or isinstance(after, str | None):
        return None  # a choice stands for numbers of one type, and code that is given it may ask for more than numbers
    return lambda: operator.setitem(entries, place, Select.of(condition, after, before))


@lru_cache(maxsize=4096)
def _stored_at(code: CodeType, instruction: int) -> tuple[ast.Subscript, ast.expr] | None:
    """The entry that is set, and to what, where that is all that is decided here."""
    test, branch, *around = _around(code, instruction)
    match branch:
        case ast.If(body=[ast.Assign(targets=[ast.Subscript() as target], value=value)], orelse=[]):
            pass
        case ast.If(body=[ast.AugAssign(target=ast.Subscript() as target, op=operation, value=other)], orelse=[]):
            value = ast.BinOp(target, operation, other)
        case _:
            return None
    function = next((node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)), None)
    if branch.test is not test or not isinstance(function, ast.FunctionDef) or function.name != code.co_name:
        return None
    own = isinstance(target.value, ast.Name) and target.value.id in code.co_varnames
    return (target, value) if own and _only_written(function, target.value.id, branch) else None  # type: ignore[attr-defined]


def _only_written(function: ast.FunctionDef, name: str, branch: ast.If) -> bool:
    """Whether the function reads the entries of a list only in the branch, and where it returns it."""
    nodes = list(ast.walk(function))
    written = [n.value for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    returned = [each for n in nodes if isinstance(n, ast.Return) for each in ast.walk(n)]
    allowed = {id(n) for n in [*written, *returned, *(each for part in branch.body for each in ast.walk(part))]}
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return all(id(n) in allowed for n in uses)


def _reads_frames(frame: FrameType) -> bool:
    """Whether the function, or one that it calls by a global name, may look at the list in another way."""
    named = [frame.f_globals.get(name) for name in frame.f_code.co_names]
    return any(map(reads_frames, (frame.f_code, *(each.__code__ for each in named if type(each) is FunctionType))))


class _NotPlain(Exception):
    """Raised where a value is computed from anything but plain numbers and texts."""


_NOT_PLAIN = (_NotPlain, ArithmeticError, LookupError, TypeError, ValueError)


def _entry(node: ast.expr, names: dict[str, Any]) -> Any:
    """What the expression stands for: a plain value, or a choice where it depends on noise."""
    match node:
        case ast.IfExp(test=ast.Compare(ops=[operation], left=left, comparators=[right]), body=body, orelse=orelse):
            sides = [names.get(side.id) if isinstance(side, ast.Name) else None for side in (left, right)]
            if not any(type(side) is Affine for side in sides):
                return _entry(body if _plain(node.test, names) else orelse, names)
            terms = [s if type(s) is Affine else _plain(n, names) for s, n in zip(sides, (left, right), strict=True)]
            if type(operation) not in ORDERED:
                raise _NotPlain
            return Select.of(ORDERED[type(operation)](*terms), _entry(body, names), _entry(orelse, names))
    return _plain(node, names)


def _plain(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of an expression that is made of plain values, and calls nothing but `int` and `bool`."""
    match node:
        case ast.Constant(value=value) if isinstance(value, PLAIN_CONSTANTS):
            return value
        case ast.Name(id=name) if type(names.get(name)) in PLAIN_CONSTANTS and name in names:
            return names[name]
        case ast.Subscript(value=ast.Name(id=name), slice=index) if type(names.get(name)) in (list, tuple, Vector):
            entry = names[name][_plain(index, names)]
            if type(entry) in PLAIN_CONSTANTS:
                return entry
        case ast.BinOp(op=operation) if type(operation) in COMPUTED:
            return COMPUTED[type(operation)](_plain(node.left, names), _plain(node.right, names))
        case ast.UnaryOp(op=ast.Not()):
            return not _plain(node.operand, names)
        case ast.Compare(ops=[operation], comparators=[other]) if type(operation) in COMPARED:
            return COMPARED[type(operation)](_plain(node.left, names), _plain(other, names))
        case ast.IfExp():
            return _plain(node.body if _plain(node.test, names) else node.orelse, names)
        case ast.Call(func=ast.Name(id="int" | "bool" as name), args=[argument], keywords=[]):
            genuine = {"int": int, "bool": bool}[name]
            if names.get(name, genuine) == genuine:  # the stand-in of int is equal to it
                return genuine(_plain(argument, names))
    raise _NotPlain


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code."""
    while frame is not None and is_inner(frame):
        frame = frame.f_back
    return frame


def _around(code: CodeType, instruction: int) -> list[ast.AST]:
    """The test that is decided here and what it is part of, innermost first.

    Nothing for `low < x < high`, which asks for two truths at one place of the text: neither is the test.
    """
    name = dis.opname[code.co_code[2 * instruction]]
    place = list(code.co_positions())[instruction]
    decides = None not in place and name.startswith(("POP_JUMP", "TO_BOOL"))
    nodes = nodes_around(code.co_filename, place) if decides else []
    chained = bool(nodes) and isinstance(nodes[0], ast.Compare) and len(nodes[0].ops) > 1
    return [*(nodes if not chained else ()), ast.Pass(), ast.Pass()]


@lru_cache(maxsize=4096)
def _chosen_at(code: CodeType, instruction: int) -> ChosenEntry | None:
    test, branch, *around = _around(code, instruction)
    if isinstance(branch, ast.IfExp) and branch.test is test:
        return _chosen_in(branch, around)
    if not isinstance(branch, ast.If):
        return None
    function = next((node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)), None)
    if branch.test is not test or not isinstance(function, ast.FunctionDef) or function.name != code.co_name:
        return None
    appended = _appended([branch])
    if appended is None:
        return None
    list_name, entry = appended
    if not isinstance(entry, ast.IfExp):
        return None
    own = list_name in code.co_varnames  # and no variable that another function can see
    return ChosenEntry(list_name, entry.body, entry.orelse) if own and only_collects(function, list_name) else None


def _chosen_in(branch: ast.IfExp, around: list[ast.AST]) -> ChosenEntry | None:
    """What is chosen for the next entry of a list that is returned as a comprehension."""
    while around and isinstance(around[0], ast.comprehension):
        around = around[1:]
    match around:
        case [ast.ListComp(elt=element, generators=[part]), ast.Return(), *outer] if element is branch:
            returned = not any(isinstance(node, ast.Try | ast.TryStar | ast.With) for node in outer)
            if returned and not part.ifs and not part.is_async:
                return ChosenEntry("", branch.body, branch.orelse, over=part.iter)
    return None


def _appended(statements: list[ast.stmt]) -> tuple[str, ast.expr] | None:
    """The list and the value, where all that is done is to append it."""
    match statements:
        case [
            ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value], keywords=[])
            )
        ]:
            return name, value
        case [ast.If(test=test, body=body, orelse=orelse)]:
            then, other = _appended(body), _appended(orelse)
            if then is not None and other is not None and then[0] == other[0]:
                return then[0], ast.IfExp(test, then[1], other[1])
    return None


def empty_lists(statements: list[ast.stmt]) -> Iterator[str]:
    """The names that the statements set to an empty list."""
    for node in statements:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs: list[tuple[ast.expr, ast.expr | None]] = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
                pairs = [(target, value)]
            case _:
                pairs = []
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, ast.List) and not value.elts:
                yield target.id


def only_collects(function: ast.FunctionDef, name: str) -> bool:
    """Whether the list is set once, to an empty one, only ever appended to, and returned by itself."""
    nodes = list(ast.walk(function))
    appended = [n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr == "append"]
    returned = [n.value for n in nodes if isinstance(n, ast.Return)]
    allowed = sum(isinstance(node, ast.Name) and node.id == name for node in [*appended, *returned])
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name]
    stores = sum(not isinstance(n.ctx, ast.Load) for n in uses)
    return name in empty_lists(function.body) and stores == 1 and len(uses) - 1 == allowed


# ------------------------------------------------------------------------------------------------------------ clipping

Factors = Counter[str]  # what a product is made of, with exponents; none for 1


@dataclass(frozen=True)
class NormBranch:
    """A branch that scales by bound/norm where the norm is larger: which variable is the norm, and what the bound.

    The other way scales by 1, if the variable `factor` is 1 where there is one.
    """

    norm: str
    bound: ast.expr
    factor: str | None = None


def norm_branch(frame: FrameType | None) -> tuple[FrameType, str, float] | None:
    """The frame, the variable of the norm and the bound, where the user's code decides right now whether to clip."""
    frame = _users(frame)
    found = None if frame is None else _clips_at(frame.f_code, frame.f_lasti // 2)
    if frame is None or found is None:
        return None
    known = frame.f_locals
    factor = 1 if found.factor is None else known.get(found.factor)
    alike = type(factor) in (int, float) and factor == 1
    bound = _value(found.bound, {**frame.f_globals, **known})
    return (frame, found.norm, float(bound)) if alike and isinstance(bound, int | float) and bound > 0 else None


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return getattr(names.get(name), attribute, None)
    return None


def set_local(frame: FrameType, name: str, value: Any) -> None:
    """Set a local variable of a frame that is running."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


@lru_cache(maxsize=4096)
def _clips_at(code: CodeType, instruction: int) -> NormBranch | None:
    test, branch, *around = _around(code, instruction)
    function = next((node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)), None)
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or function is None or reads_frames(code):
        return None
    larger, smaller = test.left, test.comparators[0]
    if isinstance(test.ops[0], ast.Lt | ast.LtE):
        larger, smaller = smaller, larger
    elif not isinstance(test.ops[0], ast.Gt | ast.GtE):
        return None
    bound = _factors(smaller)
    if not isinstance(larger, ast.Name) or bound is None or larger.id not in code.co_varnames:
        return None
    reads = [n for n in ast.walk(function) if _is_name(n, larger.id) and isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
    if len(reads) > sum(_is_name(n, larger.id) for n in ast.walk(branch)):
        return None  # who reads it later must not see the larger of both
    wanted = _joined(bound, ast.Div(), Counter([_key(larger)]))
    ways = _ways(branch, test, around)
    if ways is None:
        return None
    then, other, target = ways
    if then is None or other is None or target == larger.id:
        return None
    if _joined(then, ast.Div(), other) == wanted:
        return NormBranch(larger.id, smaller)
    if target is not None and then == wanted:  # a factor that was 1 until here
        return NormBranch(larger.id, smaller, target)
    return None


def _ways(
    branch: ast.AST, test: ast.AST, around: list[ast.AST]
) -> tuple[Factors | None, Factors | None, str | None] | None:
    """What both ways make of a variable, or return, as products; and the variable."""
    if not isinstance(branch, ast.If | ast.IfExp) or branch.test is not test:
        return None
    if isinstance(branch, ast.IfExp):
        return _factors(branch.body), _factors(branch.orelse), None
    match branch.body, branch.orelse:
        case [ast.Return(value=then)], rest:
            match rest or _following(branch, around):
                case [ast.Return(value=other), *_]:
                    return _factors(then), _factors(other), None
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)], []:
            return _factors(value), Counter([f"name {name}"]), name
        case [ast.AugAssign(target=ast.Name(id=name), op=ast.Mult() | ast.Div() as op, value=value)], []:
            own, more = Counter([f"name {name}"]), _factors(value)
            return None if more is None else (_joined(own, op, more), own, name)
    return None


def _following(branch: ast.AST, around: list[ast.AST]) -> list[ast.stmt]:
    """The statements after the branch."""
    for node in around:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and any(each is branch for each in block):
                return block[block.index(branch) + 1 :]
    return []


def _factors(node: ast.expr | None) -> Factors | None:
    """The expression as a product of variables, attributes and numbers; None where it is none."""
    match node:
        case ast.Constant(value=value) if type(value) in (int, float) and value == 1:
            return Counter()
        case ast.Name() | ast.Constant() | ast.Attribute(value=ast.Name()):
            return Counter([_key(node)])
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
            first, second = _factors(left), _factors(right)
            return None if first is None or second is None else _joined(first, op, second)
    return None


def _key(node: ast.expr) -> str:
    return f"name {node.id}" if isinstance(node, ast.Name) else ast.unparse(node)


def _joined(first: Factors, op: ast.operator, second: Factors) -> Factors:
    """Two products times each other, or one over the other, without what cancels."""
    sign = -1 if isinstance(op, ast.Div) else 1
    exponents = {key: first[key] + sign * second[key] for key in {*first, *second}}
    return Counter({key: exponent for key, exponent in exponents.items() if exponent})


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
