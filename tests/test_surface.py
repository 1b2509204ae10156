"""The public names, and what it takes to import them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest
import typer

import veridp
from veridp.cli import app
from veridp.errors import BadInput

PUBLIC = [
    "Mechanism",
    "Outputs",
    "Rows",
    "accounting",
    "adapters",
    "audit",
    "audit_all",
    "catalogue",
    "check",
    "exact",
    "executor",
    "explore",
    "finder",
    "local",
    "mechanism",
    "pipeline",
    "prove",
    "sample",
    "sniper",
    "statdp",
    "tally",
    "unknown",
    "unknowns",
]
ENGINES: dict[str, Callable[..., Any]] = {
    "exact.compare": lambda **named: veridp.exact.compare(noisy, [0], [1], **named),
    "exact.worst": lambda **named: veridp.exact.worst(noisy, **named),
    "prove": lambda **named: veridp.prove(noisy, **named),
    "prove.prove_sizes": lambda **named: veridp.prove.prove_sizes(noisy, 1, **named),  # type: ignore[attr-defined]
    "prove.prove_for_every_size": lambda **named: veridp.prove.prove_for_every_size(noisy, **named),  # type: ignore[attr-defined]
    "statdp.detect": lambda **named: veridp.statdp.detect(noisy, **named),
    "sniper.search": lambda **named: veridp.sniper.search(noisy, **named),
    "finder.search": lambda **named: veridp.finder.search(noisy, **named),
    "pipeline.compare": lambda **named: veridp.pipeline.compare(noisy, [0], [1], **named),
    "pipeline.search": lambda **named: veridp.pipeline.search(noisy, [0.0], **named),
    "audit": lambda **named: veridp.audit(noisy, 1.0, **named),
    "check": lambda **named: veridp.check(noisy, 1.0, **named),
}
# Commands that load a mechanism and let an engine work on it.
ENGINE_COMMANDS = ("audit", "check", "exact", "finder", "pipeline", "prove", "scan", "sniper", "statdp")
MECHANISM_OPTIONS = {"--time", "--size", "--epsilon", "--adjacency", "--domain", "--arg", "--json"}
SLOW_TO_IMPORT = ["scipy", "z3", "numba", "flint", "rich", "typer", "matplotlib", "sklearn"]


def test_the_public_names_are_these() -> None:
    assert sorted(veridp.__all__) == PUBLIC
    assert all(hasattr(veridp, name) for name in PUBLIC)


def test_every_public_name_says_what_it_is() -> None:
    assert [name for name in PUBLIC if not inspect.getdoc(getattr(veridp, name))] == []


def test_public_functions_take_these_parameters() -> None:
    def parameters(function: object) -> list[str]:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]

    explored = ["mechanism", "data", "max_paths", "defer", "functions", "retries", "seconds", "arguments"]
    assert parameters(veridp.explore) == explored
    assert parameters(veridp.sample)[:4] == ["mechanism", "data", "count", "seed"]
    assert parameters(veridp.tally)[:5] == ["mechanism", "data", "count", "seed", "events"]
    assert parameters(veridp.mechanism)[:4] == ["function", "epsilon", "delta", "adjacency"]


def test_importing_it_imports_nothing_slow() -> None:
    script = f"import sys, veridp; print([name for name in {SLOW_TO_IMPORT} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert run.stdout.strip() == "[]"


def test_it_is_typed() -> None:
    assert (files("veridp") / "py.typed").is_file()


def noisy(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_takes_the_same_keywords(engine: str) -> None:
    """Each keyword is read, since none of these values can be: a keyword that goes unread would raise nothing."""
    for name, value, complaint in [
        ("adjacency", "nobody", "adjacency = 'nobody' is unknown"),
        ("domain", "few", "domain must be a pair"),
        ("seconds", 0.0, "seconds must be a number > 0, got 0.0"),
    ]:
        with pytest.raises(BadInput, match=complaint):
            ENGINES[engine](**{name: value})


def _commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in command.commands.items():
        yield from _commands(inner, f"{path}{name} ") if hasattr(inner, "commands") else [(path + name, inner)]


def test_every_engine_command_takes_the_same_options() -> None:
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in _commands(typer.main.get_command(app))
    }
    assert [name for name in ENGINE_COMMANDS if not options[name] >= MECHANISM_OPTIONS] == []
    assert sorted(name for name, known in options.items() if known >= MECHANISM_OPTIONS) == sorted(ENGINE_COMMANDS)
