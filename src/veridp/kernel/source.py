"""The text of a function, as it runs."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import Any

from veridp.errors import NotExplorable


def definition_of(code: CodeType, module: dict[str, Any]) -> ast.FunctionDef:
    """The text of a function of the module with these globals, once it is certain that this text is what runs."""
    text = "".join(linecache.getlines(code.co_filename, module))
    try:
        tree = ast.parse(text)
        compiled = nested_codes(compile(text, code.co_filename, "exec", dont_inherit=True))
    except SyntaxError as error:
        raise NotExplorable(f"the source of {code.co_name} cannot be read: {error}") from None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = [node for node in functions if _first_line(node) == code.co_firstlineno]
    if len(found) != 1 or not any(_same_code(code, other) for other in compiled if other.co_name == code.co_name):
        raise NotExplorable(
            f"the source of {code.co_name} cannot be read, or is not what runs; define it as a plain function"
        )
    return found[0]


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


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code of functions within, and of those within these."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from nested_codes(part)
