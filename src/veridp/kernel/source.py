"""The text of a function, as it runs."""

from __future__ import annotations

import ast
import builtins
import dis
import itertools
import linecache
import operator
from collections.abc import Iterator
from functools import lru_cache
from numbers import Number
from types import CellType, CodeType, FunctionType
from typing import Any

from veridp.errors import NotExplorable


def definition_of(code: CodeType, module: dict[str, Any]) -> ast.FunctionDef:
    """The text of a function of the module with these globals, once it is certain that this text is what runs."""
    text = "".join(linecache.getlines(code.co_filename, module))
    try:
        functions, compiled = _read(text, code.co_filename)
    except SyntaxError as error:
        raise NotExplorable(f"the source of {code.co_name} cannot be read: {error}") from None
    found = [node for node in functions if _first_line(node) == code.co_firstlineno]
    if len(found) != 1 or not any(_same_code(code, other) for other in compiled if other.co_name == code.co_name):
        raise NotExplorable(
            f"the source of {code.co_name} cannot be read, or is not what runs; define it as a plain function"
        )
    return found[0]


@lru_cache(maxsize=32)
def _read(text: str, file: str) -> tuple[list[ast.FunctionDef], list[CodeType]]:
    """The functions of a module: their texts, and their code."""
    compiled = list(nested_codes(compile(text, file, "exec", dont_inherit=True)))
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)], compiled


def _first_line(definition: ast.FunctionDef) -> int:
    return min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)])


def _same_code(first: CodeType, second: CodeType) -> bool:
    parts = ("co_firstlineno", "co_code", "co_names", "co_varnames", "co_freevars")
    return (
        all(getattr(first, part) == getattr(second, part) for part in parts)
        and len(first.co_consts) == len(second.co_consts)
        and all(
            _same_code(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else (type(a), a) == (type(b), b)
            for a, b in zip(first.co_consts, second.co_consts, strict=True)
        )
    )


IDENTITY = frozenset({"id", "is_", "is_not", "__eq__", "__ne__"})  # names of functions, and of methods of objects
SETS = frozenset({"STORE_DEREF", "MAKE_CELL"})  # a variable of a closure, or one that hides it
ASKS_IDENTITY = (id, operator.is_, operator.is_not, object.__eq__, object.__ne__)  # whatever they are called


@lru_cache(maxsize=4096)
def asks_identity(code: CodeType) -> bool:
    """Whether the code, or a function within, asks which object something is, unless whether it is None."""
    others = [one for one in _identities(code) if one.opname != "LOAD_CONST" or one.argval is not None]
    return bool(others) or _names_identity(code)


def asks_which_number(function: FunctionType) -> bool:
    """Whether its code asks which object something is, that may be a number: not a class, None, True, False or a text.

    Small integers are one object each in CPython, of others there may be many.
    """
    code = function.__code__
    steps = itertools.chain.from_iterable(map(dis.get_instructions, (code, *nested_codes(code))))
    set_here = {one.argval for one in steps if one.opname in SETS}
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def is_number(one: dis.Instruction) -> bool:
        if one.opname == "LOAD_DEREF":
            return one.argval in set_here or one.argval not in cells or not _holds_class(cells[one.argval])
        if one.opname == "LOAD_GLOBAL":
            told: Any = function.__globals__.get(one.argval, getattr(builtins, one.argval, 0))
        elif one.opname == "LOAD_CONST":
            told = one.argval
        else:
            return one.opname != "LOAD_ATTR" or one.argval != "__class__"
        return isinstance(told, Number) and not isinstance(told, bool)

    return _names_identity(code) or any(map(is_number, _identities(code)))


def _holds_class(cell: CellType) -> bool:
    try:
        return isinstance(cell.cell_contents, type)
    except ValueError:  # a variable that has no value yet
        return False


@lru_cache(maxsize=4096)
def _identities(code: CodeType) -> list[dis.Instruction]:
    """What puts the second of the two objects in place that `is` compares, here and in functions within."""
    pairs = (pair for each in (code, *nested_codes(code)) for pair in itertools.pairwise(dis.get_instructions(each)))
    return [before for before, step in pairs if step.opname == "IS_OP"]


@lru_cache(maxsize=4096)
def _names_identity(code: CodeType) -> bool:
    return any(not IDENTITY.isdisjoint(each.co_names) for each in (code, *nested_codes(code)))


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code of functions within, and of those within these."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from nested_codes(part)
