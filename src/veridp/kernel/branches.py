"""Branches that need not be taken apart: those that choose a constant for the list that is returned, and clipping.

`if noisy >= bar: answers.append(True)` and `else: answers.append(False)` make two paths of one, and n of them 2^n.
Where the text shows that the list is only appended to and then returned by the mechanism itself, nothing can tell which
branch was taken until then: so the entry stays undecided in one path, as `answers.append(noisy >= bar)` leaves it.

`if norm > bound: g = g * bound / norm` does the same as `g = g * bound / max(norm, bound)`: for a smaller norm the
factor is 1. So a run may take the branch whatever the norm is, with the larger of both for the norm, if nothing else
reads it.
"""

from __future__ import annotations

import ast
import ctypes
import dis
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from veridp.kernel.site import is_inner
from veridp.kernel.text import nodes_around

PLAIN_CONSTANTS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class ChosenEntry:
    """The list of this name gets one value or the other as its next entry."""

    name: str
    then: Any
    other: Any


def chosen_entry(frame: FrameType | None) -> tuple[list[Any], ChosenEntry] | None:
    """The list, and what is chosen for it, where the user's code decides that right now; None where it does more."""
    frame = _users(frame)
    if frame is None or frame.f_back is None or not is_inner(frame.f_back):
        return None  # who called a helper may look at its list
    chosen = _chosen_at(frame.f_code, frame.f_lasti // 2)
    entries = None if chosen is None else frame.f_locals.get(chosen.name)
    return None if chosen is None or type(entries) is not list else (entries, chosen)


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code."""
    while frame is not None and is_inner(frame):
        frame = frame.f_back
    return frame


def _around(code: CodeType, instruction: int) -> list[ast.AST]:
    """The test that is decided here and what it is part of, innermost first."""
    name = dis.opname[code.co_code[2 * instruction]]
    place = list(code.co_positions())[instruction]
    decides = None not in place and name.startswith(("POP_JUMP", "TO_BOOL"))
    return [*(nodes_around(code.co_filename, place) if decides else ()), ast.Pass(), ast.Pass()]


@lru_cache(maxsize=4096)
def _chosen_at(code: CodeType, instruction: int) -> ChosenEntry | None:
    test, branch, *around = _around(code, instruction)
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(branch, ast.If):
        return None
    function = next((node for node in around if isinstance(node, ast.FunctionDef | ast.Lambda)), None)
    if branch.test is not test or not isinstance(function, ast.FunctionDef) or function.name != code.co_name:
        return None
    chosen = [_appended(statements) for statements in (branch.body, branch.orelse)]
    if chosen[0] is None or chosen[1] is None or chosen[0][0] != chosen[1][0]:
        return None
    (list_name, then), (_, other) = chosen  # type: ignore[misc]
    own = list_name in code.co_varnames  # and no variable that another function can see
    return ChosenEntry(list_name, then, other) if own and only_collects(function, list_name) else None


def _appended(statements: list[ast.stmt]) -> tuple[str, Any] | None:
    """The list and the constant, where all that is done is to append it."""
    match statements:
        case [
            ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"),
                    args=[ast.Constant(value=value)],
                    keywords=[],
                )
            )
        ] if isinstance(value, PLAIN_CONSTANTS):
            return name, value
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
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or function is None or "locals" in code.co_names:
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
