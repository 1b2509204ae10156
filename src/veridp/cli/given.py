"""What commands are given: the options that they share, and the mechanism and data that these name."""

from __future__ import annotations

import ast
from typing import Annotated, Any

import typer

from veridp.claim import Claim
from veridp.errors import BadInput
from veridp.mechanism import Mechanism
from veridp.target import load

Target = Annotated[str, typer.Argument(help="file.py:function, package.module:function, or a catalogue name")]
Size = Annotated[int | None, typer.Option(min=1, help="length of the input; the mechanism's usual one if not given")]
Arg = Annotated[list[str] | None, typer.Option("--arg", help="an argument of the mechanism, as name=value")]
Epsilon = Annotated[float | None, typer.Option(help="the mechanism's argument epsilon")]
Data = Annotated[str | None, typer.Option(help="the input itself, as a Python literal such as '[1, 2, 3]'")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]


def chosen_mechanism(target: str, epsilon: float | None, arg: list[str] | None) -> Mechanism:
    """The mechanism that the target names, with the arguments of `--epsilon` and `--arg` set."""
    arguments: dict[str, Any] = {} if epsilon is None else {"epsilon": Claim(epsilon).epsilon}
    for text in arg or []:
        name, value = _parsed_argument(text)
        if name in arguments:
            raise BadInput(f"--arg {text!r} sets {name} a second time; give it once")
        arguments[name] = value
    return load(target).bind(**arguments)


def _parsed_argument(text: str) -> tuple[str, Any]:
    """Name and value; a value that is no Python literal is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise BadInput(f"--arg {text!r} is not name=value; write for instance --arg threshold=0.5")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def chosen_data(mechanism: Mechanism, size: int | None, data: str | None) -> Any:
    """The input that `--data` writes out, or an ordinary one of the size of `--size`."""
    if data is None:
        return mechanism.adjacency.example(mechanism.size if size is None else size, mechanism.domain)
    if size is not None:
        raise BadInput("--size and --data both say what the input is; give one of them")
    return literal("--data", data)


def literal(option: str, text: str) -> Any:
    """The value that the text of an option writes out."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise BadInput(f"{option} {text!r} is not a Python literal; write for instance {option} '[1, 2, 3]'") from None
