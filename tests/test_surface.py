"""The public names, and what it takes to import them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.resources import files

import veridp

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
