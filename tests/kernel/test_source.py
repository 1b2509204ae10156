"""The text of a function: that which runs, or none."""

from __future__ import annotations

import ast
import linecache
from types import FunctionType

import pytest

from veridp.errors import NotExplorable
from veridp.kernel.source import asks_identity, definition_of, nested_codes


def doubled(x: float) -> float:
    def half() -> float:
        return x / 2

    return 4 * half()


def changed(text: str, later: str) -> FunctionType:
    """A function whose file says something else by now."""
    names: dict[str, FunctionType] = {}
    linecache.cache["<changed>"] = len(later), None, later.splitlines(keepends=True), "<changed>"
    exec(compile(text, "<changed>", "exec"), names)  # noqa: S102
    return names["f"]


def test_the_text_is_that_of_the_function() -> None:
    found = definition_of(doubled.__code__, globals())
    assert ast.unparse(found).splitlines()[0] == "def doubled(x: float) -> float:"
    assert [code.co_name for code in nested_codes(doubled.__code__)] == ["half"]


@pytest.mark.parametrize(
    "later", ["def f(x):\n    return x + 2\n", "def f(x):\n    return x + 1.0\n", "\ndef f(x):\n    return x + 1\n", ""]
)
def test_a_text_that_does_not_run_is_refused(later: str) -> None:
    text = "def f(x):\n    return x + 1\n"
    function = changed(text, text)
    assert definition_of(function.__code__, function.__globals__).name == "f"
    function = changed(text, later)
    with pytest.raises(NotExplorable, match="the source of f cannot be read"):
        definition_of(function.__code__, function.__globals__)


def test_who_asks_which_object_something_is() -> None:
    def within(x: object) -> object:
        return lambda y: y is x

    assert asks_identity(within.__code__)
    assert asks_identity((lambda x: id(x)).__code__)
    assert not asks_identity((lambda x: x is None or x == 2).__code__)
