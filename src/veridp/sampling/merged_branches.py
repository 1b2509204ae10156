"""A function of an author's, rewritten so that short branches do not part a batch.

`if x > 0: out.append(True)`, with an `else` that appends False, parts the rows of a batch in two, and ten such lines in
a thousand runs. Where both arms only append and assign numbers, the rewritten function computes both for all rows and
gives each row its own. What cannot be merged while it runs (None and a number, say) still parts the rows there.

The rewriting relies on nothing but the function's source, which must compile to the very code that runs; and the
outputs are compared with those of the function itself, like those of any batch.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from veridp.mechanism import Mechanism
from veridp.sampling.batch_number import ACCEPTED, Batch

Function = Callable[..., Any]

# ------------------------------------------------------------------------------------------ while it runs


def can_merge(test: Any, numbers: Callable[[], Sequence[Any]]) -> bool:
    """Whether rows differ in a test, and what the arms assign to was a number before: lists may have other names."""
    if type(test) is not Batch or test.kind != "b":
        return False
    try:
        return all(isinstance(value, ACCEPTED) for value in numbers())
    except NameError:
        return False


def either(test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """The value of the first expression where the test holds, else that of the second."""
    if type(test) is Batch and test.kind == "b":
        try:
            merged = test.either(then(), other())
        except Exception:  # of an arm that some rows do not take
            merged = None
        if merged is not None:
            return merged
    return then() if test else other()


def both(test: Any, condition: Callable[[], Any]) -> bool:
    """Whether the test holds, and the condition too, which is computed for all rows at once."""
    try:
        value = condition()
    except Exception:  # of rows for which the test does not hold
        return bool(test) and bool(condition())
    if type(value) is Batch and value.kind == "b":
        return bool(test & value)
    return bool(value) and bool(test)


# ------------------------------------------------------------------------------------------ the syntax tree

INJECTED: dict[str, Any] = {"_veridp_can_merge": can_merge, "_veridp_either": either, "_veridp_both": both}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)


def _is_simple(node: ast.AST) -> bool:
    """Whether an expression is arithmetic with names and constants: computing it in vain changes nothing."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_simple(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, ARITHMETIC) and _is_simple(left) and _is_simple(right)
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq()]):
            return _is_simple(left) and _is_simple(node.comparators[0])
    return False


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


class _Arm:
    """The statements of an arm: what it appends to which lists, what it assigns, and a last `if` of its own."""

    def __init__(self, statements: Sequence[ast.stmt]) -> None:
        self.appended: dict[str, ast.expr] = {}
        self.assigned: dict[str, ast.expr] = {}
        self.last: ast.If | None = None
        self.simple = all(
            self._read(statement, number == len(statements)) for number, statement in enumerate(statements, 1)
        )

    def _read(self, statement: ast.stmt, last: bool) -> bool:
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value], keywords=[])
            ):
                return self._take(self.appended, name, value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._take(self.assigned, name, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if isinstance(op, ARITHMETIC):
                before = ast.Name(name, ast.Load())
                return self._take(self.assigned, name, ast.BinOp(before, op, value))
            case ast.If(test=test, orelse=[]) if last and _is_simple(test):
                self.last = statement
                return True
            case ast.Pass():
                return True
        return False

    def _take(self, targets: dict[str, ast.expr], name: str, value: ast.expr) -> bool:
        """Note a target; False where it occurs before, or the value depends on one that does."""
        earlier = {*self.appended, *self.assigned}
        if name in earlier or not _is_simple(value) or (_names(value) & earlier):
            return False
        targets[name] = value
        return True


class _Merger(ast.NodeTransformer):
    """Rewrites the branches that can be merged, and counts them."""

    def __init__(self) -> None:
        self.merged = 0

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if not (_is_simple(node.body) and _is_simple(node.orelse)):
            return node
        self.merged += 1
        return _call("_veridp_either", node.test, _later(node.body), _later(node.orelse))

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        arms = then, other = _Arm(node.body), _Arm(node.orelse)
        targets = {**then.appended, **other.appended, **then.assigned, **other.assigned}
        read = {name for arm in arms for value in arm.assigned.values() for name in _names(value)}
        read |= {name for arm in arms for value in arm.appended.values() for name in _names(value)}
        if (
            not (then.simple and other.simple and targets)
            or other.last is not None
            or list(then.appended) != list(other.appended)  # in one order: two names may stand for one list
            or {*then.appended, *other.appended} & {*then.assigned, *other.assigned, *read}
            or (then.last is not None and _names(then.last.test) & then.appended.keys())
        ):
            return node
        self.merged += 1
        test = f"_veridp_test_{self.merged}"
        before = [name for name in {**then.assigned, **other.assigned} if not _is_new(name, then, other)]
        merged: list[ast.stmt] = []
        # What is assigned comes last and all at once, so that every expression sees what was there before the branch.
        for name, value in then.appended.items():
            append = ast.Attribute(_load(name), "append", ast.Load())
            merged.append(ast.Expr(ast.Call(append, [_either(test, value, other.appended[name])], [])))
        names = list({**then.assigned, **other.assigned})
        if names:
            chosen = [_either(test, *(arm.assigned.get(name, _load(name)) for arm in arms)) for name in names]
            targets_of = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
            merged.append(ast.Assign([targets_of], ast.Tuple(chosen, ast.Load())))
        if then.last is not None:
            condition = _call("_veridp_both", _load(test), _later(then.last.test))
            merged.append(ast.If(condition, then.last.body, []))
        known = _later(ast.Tuple([_load(name) for name in before], ast.Load()))
        return [
            ast.Assign([ast.Name(test, ast.Store())], node.test),
            ast.If(
                _call("_veridp_can_merge", _load(test), known),
                merged,
                [ast.If(_load(test), node.body, node.orelse)],
            ),
        ]


def _is_new(name: str, then: _Arm, other: _Arm) -> bool:
    """Whether both arms assign to a name without asking what it was."""
    values = [arm.assigned.get(name) for arm in (then, other)]
    return all(value is not None and name not in _names(value) for value in values)


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_load(name), list(arguments), [])


def _either(test: str, then: ast.expr, other: ast.expr) -> ast.expr:
    return _call("_veridp_either", _load(test), _later(then), _later(other))


# ------------------------------------------------------------------------------------------ the function


def merged_function(function: Function) -> Function | None:
    """The function with merged branches, its own or those of functions that it calls by name; None if it has none."""
    if isinstance(function, functools.partial):
        inner = merged_function(function.func)
        return None if inner is None else functools.partial(inner, *function.args, **function.keywords)
    return _rebuilt(function, {}) if isinstance(function, types.FunctionType) else None


def _rebuilt(function: types.FunctionType, seen: dict[types.FunctionType, Function | None]) -> Function | None:
    if function in seen:
        return seen[function]
    seen[function] = None  # one that calls itself is not rewritten within itself
    node = _definition(function)
    if node is None:
        return None
    free = function.__code__.co_freevars
    if not _same(_compiled(node, function, free), function.__code__):
        return None
    helpers = {
        name: rebuilt for name, value in _called(function, node) if (rebuilt := _helper(value, seen)) is not None
    }
    merger = _Merger()
    rewritten = merger.visit(node)
    if not merger.merged and not helpers:
        return None
    new = {**INJECTED, **helpers}
    code = _compiled(rewritten, function, (*dict.fromkeys((*free, *new)),))
    if code is None:
        return None
    own = dict(zip(free, function.__closure__ or (), strict=True))
    cells = tuple(types.CellType(new[name]) if name in new else own[name] for name in code.co_freevars)
    rebuilt = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, cells)
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    seen[function] = rebuilt
    return rebuilt


def _definition(function: types.FunctionType) -> ast.FunctionDef | None:
    """The definition of a function, at its lines; None where there is no source of it."""
    try:
        lines, first = inspect.getsourcelines(function)
        body = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError):
        return None
    if len(body) != 1 or not isinstance(node := body[0], ast.FunctionDef):
        return None
    if any(isinstance(part, ast.Global | ast.Nonlocal) for part in ast.walk(node)):
        return None
    node.decorator_list = []
    ast.increment_lineno(node, first - 1)
    return node


def _compiled(node: ast.FunctionDef, function: types.FunctionType, free: Sequence[str]) -> types.CodeType | None:
    """The code of the definition, with these names for variables of functions around it."""
    (around,) = ast.parse(f"def around({', '.join(free)}): pass").body
    around.body = [node]  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([around], []))
    try:
        outer = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    (made,) = (part for part in outer.co_consts if isinstance(part, types.CodeType))
    return next((p for p in made.co_consts if isinstance(p, types.CodeType) and p.co_name == node.name), None)


def _same(code: types.CodeType | None, running: types.CodeType) -> bool:
    """Whether the source compiles to the code that runs: a file may have been changed since it was read."""
    if code is None or (code.co_code, code.co_names, code.co_varnames) != (
        running.co_code,
        running.co_names,
        running.co_varnames,
    ):
        return False
    pairs = list(zip(code.co_consts, running.co_consts, strict=False))
    return len(code.co_consts) == len(running.co_consts) and all(
        _same(one, two)
        if isinstance(one, types.CodeType) and isinstance(two, types.CodeType)
        else repr(one) == repr(two)
        for one, two in pairs
    )


def _called(function: types.FunctionType, node: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """The names that the function calls and does not bind itself, with what they stand for."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    called = {part.func.id for part in ast.walk(node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}
    for name in sorted(called - set(function.__code__.co_varnames) - set(function.__code__.co_cellvars)):
        if name in cells:
            try:
                yield name, cells[name].cell_contents
            except ValueError:  # an empty cell
                continue
        elif name in function.__globals__:
            yield name, function.__globals__[name]


def _helper(value: Any, seen: dict[types.FunctionType, Function | None]) -> Any:
    """What stands for a function that is called: rewritten too, where its branches can be merged."""
    if isinstance(value, Mechanism) and isinstance(value.function, types.FunctionType):
        inner = _rebuilt(value.function, seen)
        return None if inner is None else replace(value, function=inner)
    return _rebuilt(value, seen) if isinstance(value, types.FunctionType) else None
