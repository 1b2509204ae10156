"""Branches that do nothing but to choose a constant for the list that is returned.

`if noisy >= bar: answers.append(True)` and `else: answers.append(False)` make two paths of one, and n of them 2^n.
Where the text shows that the list is only appended to and then returned by the mechanism itself, nothing can tell which
branch was taken until then: so the entry stays undecided in one path, as `answers.append(noisy >= bar)` leaves it.
"""

from __future__ import annotations

import ast
import dis
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
    while frame is not None and is_inner(frame):
        frame = frame.f_back
    if frame is None or frame.f_back is None or not is_inner(frame.f_back):
        return None  # who called a helper may look at its list
    chosen = _chosen_at(frame.f_code, frame.f_lasti // 2)
    entries = None if chosen is None else frame.f_locals.get(chosen.name)
    return None if chosen is None or type(entries) is not list else (entries, chosen)


@lru_cache(maxsize=4096)
def _chosen_at(code: CodeType, instruction: int) -> ChosenEntry | None:
    name = dis.opname[code.co_code[2 * instruction]]
    place = list(code.co_positions())[instruction]
    if None in place or not name.startswith(("POP_JUMP", "TO_BOOL")):
        return None
    test, branch, *around = [*nodes_around(code.co_filename, place), ast.Pass(), ast.Pass()]
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
