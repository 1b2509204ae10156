"""Every --help shows an example, and the example is one that its command accepts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from veridp.cli import app
from veridp.cli.examples import EXAMPLES


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All commands below this one, groups left out, by their names."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for inner in command.commands:
        yield from commands(command.commands[inner], f"{name} {inner}".strip())


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_command_has_an_example() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_ends_with_an_example_that_is_accepted(name: str) -> None:
    command, example = COMMANDS[name], EXAMPLES[name]
    with typer.Context(command, info_name=f"veridp {name}") as context:
        shown = " ".join(command.get_help(context).split())
    assert shown.endswith(f"Example: {example}")
    words = shlex.split(example.partition(" > ")[0])
    assert words[: 1 + len(name.split())] == ["veridp", *name.split()]
    command.make_context(name, words[1 + len(name.split()) :])  # raises what a user would see
