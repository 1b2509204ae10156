"""Noisy numbers that are written into a text, where the text is returned and nothing else is done with it.

A text has no place for a stand-in, so a mark stands in it for the number; code that looks at the text would see the
mark. So a number is written only where the code shows that the text goes from there into the output and nowhere else:
in a `return` of the mechanism itself, or a lambda, within f-strings, str, format, join, tuples, lists and dicts, or
into a variable of the mechanism that is only added to, appended to and returned.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from veridp.kernel.expressions import Affine
from veridp.kernel.site import is_inner
from veridp.kernel.stand_ins import Symbolic

MARK = re.compile("\ue000([0-9]+)\ue001")
_IN_TEXT = (ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.Return)
_WRITERS = frozenset({"str", "format", "repr"})
_METHODS = frozenset({"format", "join"})


@dataclass(frozen=True, eq=False)
class WrittenNumber:
    """A number in a text, and the format in which it is written."""

    number: Affine
    form: str

    def text(self) -> str:
        return f"{{{self.number.text()}{':' if self.form else ''}{self.form}}}"


@dataclass(frozen=True, eq=False)
class NoisyText:
    """A text in which noisy numbers are written."""

    parts: tuple[str | WrittenNumber, ...]

    @classmethod
    def of(cls, text: str, marks: Mapping[str, WrittenNumber]) -> NoisyText:
        """The text with numbers in place of its marks."""
        pieces = MARK.split(text)  # every second one is the number of a mark
        return cls(tuple(marks[piece] if place % 2 else piece for place, piece in enumerate(pieces)))

    @property
    def numbers(self) -> list[Affine]:
        return [part.number for part in self.parts if isinstance(part, WrittenNumber)]

    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text() for part in self.parts)

    def with_numbers(self, numbers: Sequence[Any]) -> NoisyText | str:
        """The text with other numbers, a plain one where none of them is noisy."""
        given = iter(numbers)
        parts = [part if isinstance(part, str) else (next(given), part.form) for part in self.parts]
        if any(isinstance(part, tuple) and isinstance(part[0], Affine) for part in parts):
            return NoisyText(tuple(p if isinstance(p, str) else WrittenNumber(*p) for p in parts))
        return "".join(part if isinstance(part, str) else format(part[0], part[1]) for part in parts)


def has_mark(text: str) -> bool:
    return MARK.search(text) is not None


def goes_into_output(frame: FrameType | None) -> bool:
    """Whether what the user's code is writing right now is part of what the mechanism returns, and nothing else."""
    while frame is not None and is_inner(frame):
        frame = frame.f_back
    if frame is None or frame.f_code.co_positions is None:
        return False
    positions = list(frame.f_code.co_positions())
    place = positions[frame.f_lasti // 2]
    caller = frame.f_back
    if frame.f_code.co_name in ("<genexpr>", "<listcomp>"):
        caller = caller.f_back if caller is not None else None
    if None in place or caller is None or not is_inner(caller):
        return False  # a helper's text may be looked at by who called it
    return _is_returned(frame.f_code.co_filename, place)


@lru_cache(maxsize=256)
def _is_returned(file: str, place: Any) -> bool:
    chain = nodes_around(file, place)
    for inner, outer in itertools.pairwise(chain):
        if isinstance(outer, ast.Return) or (isinstance(outer, ast.Lambda) and inner is outer.body):
            return not any(map(_formats_text, ast.walk(outer)))
        name = _variable(inner, outer)
        if name is not None:
            function = next((node for node in chain if isinstance(node, _SCOPES)), None)
            formats = any(map(_formats_text, ast.walk(outer)))
            return isinstance(function, ast.FunctionDef) and not formats and _is_only_returned(name, function)
        if not _passes_on(inner, outer):
            return False
    return False


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NOT_FOLLOWED = (ast.Yield, ast.YieldFrom, ast.Await)
_LOOKING = frozenset({"locals", "vars", "globals", "eval", "exec", "dir"})


def _variable(inner: ast.AST, outer: ast.AST) -> str | None:
    """The variable that a text is assigned to, added to or appended to, or an entry of which it becomes."""
    if isinstance(outer, ast.Assign) and inner is outer.value and len(outer.targets) == 1:
        (target,) = outer.targets
        target = target.value if isinstance(target, ast.Subscript) else target
    elif isinstance(outer, ast.AugAssign) and isinstance(outer.op, ast.Add) and inner is outer.value:
        target = outer.target
    elif isinstance(outer, ast.Call) and isinstance(outer.func, ast.Attribute) and outer.func.attr == "append":
        target = outer.func.value
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _is_only_returned(name: str, function: ast.FunctionDef) -> bool:
    """Whether a variable holds texts, or containers of them, that are put together and returned unseen."""
    nodes = list(ast.walk(function))
    around = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    if names & _LOOKING or any(isinstance(node, _NOT_FOLLOWED) or name in _other_names(node) for node in nodes):
        return False
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    own = any(isinstance(use.ctx, ast.Store) for use in uses)
    return own and all(_is_harmless(use, around, function) for use in uses)


def _other_names(node: ast.AST) -> list[str | None]:
    """What the node names, other than by an assignment."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        return list(node.names)
    return [getattr(node, field, None) for field in ("arg", "name", "asname")]


def _is_harmless(use: ast.Name, around: Mapping[ast.AST, ast.AST], function: ast.FunctionDef) -> bool:
    outer = around[use]
    if isinstance(use.ctx, ast.Store):
        if isinstance(outer, ast.AugAssign):
            return isinstance(outer.op, ast.Add) and _is_text(outer.value)
        return isinstance(outer, ast.Assign) and _is_text(outer.value)
    if isinstance(outer, ast.Attribute) and outer.attr == "append":
        call = around[outer]
        return isinstance(call, ast.Call) and call.func is outer and isinstance(around[call], ast.Expr)
    if isinstance(outer, ast.Subscript) and outer.value is use:
        return isinstance(outer.ctx, ast.Store) and isinstance(around[outer], ast.Assign)
    inner: ast.AST = use
    while not isinstance(outer, ast.Return):
        if not _hands_on(inner, outer):
            return False
        inner, outer = outer, around[outer]
    while not isinstance(outer, _SCOPES):
        outer = around[outer]
    return outer is function


def _is_text(value: ast.AST) -> bool:
    """Whether it is a text, or a list or dict that is written out."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add) and _is_text(value.left) and _is_text(value.right)
    if isinstance(value, ast.IfExp):
        return _is_text(value.body) and _is_text(value.orelse)
    plain = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return plain or isinstance(value, ast.JoinedStr | ast.List | ast.ListComp | ast.Dict) or _writes(value)


def _hands_on(inner: ast.AST, outer: ast.AST) -> bool:
    """Whether the outer expression puts a text into a container or another text as it is."""
    if isinstance(outer, ast.FormattedValue):
        return outer.format_spec is None and outer.conversion == -1
    if isinstance(outer, ast.Call):
        method = outer.func
        joins = isinstance(method, ast.Attribute) and method.attr == "join" and isinstance(method.value, ast.Constant)
        return joins and inner is not method
    if isinstance(outer, ast.BinOp):
        return isinstance(outer.op, ast.Add) and _is_text(outer.left if inner is outer.right else outer.right)
    return isinstance(outer, ast.JoinedStr | ast.Dict | ast.IfExp | ast.Tuple | ast.List) and _passes_on(inner, outer)


def _formats_text(node: ast.AST) -> bool:
    """Whether a text is padded, cut or quoted by a further format, which would see marks in it."""
    if isinstance(node, ast.FormattedValue):
        formats = node.format_spec is not None or node.conversion != -1
        quoted = node.format_spec is not None and node.conversion != -1
        return quoted or (formats and _makes_text(node.value))
    joins = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join"
    return _writes(node) and not joins and any(map(_makes_text, node.args))  # type: ignore[attr-defined]


def _makes_text(node: ast.AST) -> bool:
    return any(isinstance(part, ast.JoinedStr) or _writes(part) for part in ast.walk(node))


def _writes(node: ast.AST) -> bool:
    """Whether it is a call of str, format or repr, or of a constant text's format or join."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _WRITERS
    method = node.func
    return isinstance(method, ast.Attribute) and method.attr in _METHODS and isinstance(method.value, ast.Constant)


def _passes_on(inner: ast.AST, outer: ast.AST) -> bool:
    """Whether the outer expression does nothing with the inner one but to put it into a text or a container."""
    if isinstance(outer, _IN_TEXT):
        return True
    if isinstance(outer, ast.Dict):
        return any(inner is value for value in outer.values)
    if isinstance(outer, ast.IfExp):
        return inner is not outer.test
    if isinstance(outer, ast.GeneratorExp | ast.ListComp):
        return inner is outer.elt
    if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add):
        return all(isinstance(side, ast.Constant | ast.JoinedStr | ast.BinOp) for side in (outer.left, outer.right))
    return _writes(outer) or isinstance(outer, ast.keyword)


def nodes_around(file: str, place: Any) -> list[ast.AST]:
    """The nodes that contain this place of a file (lines and columns, as code objects tell them), innermost first."""
    line, last_line, column, last_column = place
    tree = _parsed("".join(linecache.getlines(file)))
    return [] if tree is None else list(_down_to(tree, (line, column), (last_line, last_column)))[::-1]


@lru_cache(maxsize=32)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _down_to(node: ast.AST, first: tuple[int, int], last: tuple[int, int]) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        for part in [child] if hasattr(child, "lineno") else list(ast.iter_child_nodes(child)):
            places = [getattr(part, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")]
            if None not in places and tuple(places[:2]) <= first and last <= tuple(places[2:]):
                yield from _down_to(part, first, last)
                return


def replaced(leaf: Any, marks: Mapping[str, WrittenNumber]) -> Any:
    """The leaf of an output, with numbers where it is a text with marks."""
    written = isinstance(leaf, str) and not isinstance(leaf, Symbolic)
    return NoisyText.of(leaf, marks) if written and has_mark(leaf) else leaf
