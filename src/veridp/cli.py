"""The command line. Results go to stdout, everything else to stderr; nothing imports this module."""

from __future__ import annotations

import ast
import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from veridp.catalogue import catalogue
from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Mechanism
from veridp.program.explore import MAX_PATHS
from veridp.program.explore import explore as explore_paths
from veridp.report.tree import path_lines, path_tree
from veridp.target import load

NOT_JUDGED = 2

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
out, err = Console(), Console(stderr=True)

Target = Annotated[str, typer.Argument(help="file.py:function, package.module:function, or a catalogue name")]
Size = Annotated[int | None, typer.Option(help="length of the input; the mechanism's usual one if not given")]
Arg = Annotated[list[str] | None, typer.Option("--arg", help="an argument of the mechanism, as name=value")]
Epsilon = Annotated[float | None, typer.Option(help="the mechanism's argument epsilon")]
Data = Annotated[str | None, typer.Option(help="the input itself, as a Python literal such as '[1, 2, 3]'")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]


@app.callback()
def veridp() -> None:
    """How private is this, really?"""


@app.command("catalogue")
def show_catalogue(as_json: AsJson = False) -> None:
    """List the mechanisms of the literature that veridp knows, right and wrong, with their true costs."""
    rows = [(name, mechanism, mechanism.true_epsilon(mechanism.size)) for name, mechanism in catalogue.items()]
    if as_json:
        _print_json([_catalogue_entry(name, mechanism, true) for name, mechanism, true in rows])
        return
    table = Table("name", "adjacency", "size", "claims", "true ε", "what it does")
    for name, mechanism, true in rows:
        kept = mechanism.keeps_claim(mechanism.size)
        style = "" if kept is None else "green" if kept else "red"
        cost = "unknown" if true is None else f"[{style}]{true:.6g}[/]" if style else f"{true:.6g}"
        table.add_row(name, str(mechanism.adjacency), str(mechanism.size), str(mechanism.claim), cost, mechanism.summary)
    out.print(table)


def _catalogue_entry(name: str, mechanism: Mechanism, true: float | None) -> dict[str, Any]:
    claim = mechanism.claim
    return {
        "name": name,
        "adjacency": str(mechanism.adjacency),
        "size": mechanism.size,
        "claim": None if claim is None else {"epsilon": claim.epsilon, "delta": claim.delta},
        "true_epsilon": true,
        "summary": mechanism.summary,
    }


@app.command()
def explore(
    target: Target,
    size: Size = None,
    data: Data = None,
    epsilon: Epsilon = None,
    arg: Arg = None,
    max_paths: Annotated[int, typer.Option(help="give up past so many paths")] = MAX_PATHS,
    show: Annotated[int, typer.Option(help="print at most so many paths")] = 64,
    as_json: AsJson = False,
) -> None:
    """Print every path of a mechanism: the noise it draws, the branches it takes, the output it gives."""
    with _user_code():
        mechanism = _mechanism(target, epsilon, arg)
        given = _data(mechanism, size, data)
        paths = explore_paths(mechanism, given, max_paths=max_paths)
    if as_json:
        _print_json({"mechanism": str(mechanism), "data": given, "paths": path_lines(paths)})
        return
    plural = "" if len(paths) == 1 else "s"
    out.print(path_tree(f"[bold]{mechanism}[/] on {given}: {len(paths)} path{plural}", paths, show))


# ------------------------------------------------------------------------------------------------------ input


def _mechanism(target: str, epsilon: float | None, arg: list[str] | None) -> Mechanism:
    arguments = dict(_parsed_argument(text) for text in arg or [])
    if epsilon is not None:
        arguments["epsilon"] = epsilon
    return load(target).bind(**arguments)


def _parsed_argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise BadInput(f"--arg {text!r} is not name=value; write for instance --arg threshold=0.5")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _data(mechanism: Mechanism, size: int | None, data: str | None) -> Any:
    if data is None:
        return mechanism.adjacency.example(mechanism.size if size is None else size, mechanism.domain)
    if size is not None:
        raise BadInput("--size and --data both say what the input is; give one of them")
    try:
        return ast.literal_eval(data)
    except (ValueError, SyntaxError):
        raise BadInput(f"--data {data!r} is not a Python literal; write for instance --data '[1, 2, 3]'") from None


# ----------------------------------------------------------------------------------------------------- output


def _print_json(document: object) -> None:
    json.dump(document, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


@contextlib.contextmanager
def _user_code() -> Iterator[None]:
    """What user code prints goes to stderr, so that stdout holds the result alone."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def main() -> None:
    """Run the command line: exit status 0, 1 (refuted) or 2 (could not be judged, with one line that says why)."""
    try:
        app()
    except VeridpError as error:
        err.print(f"veridp: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(NOT_JUDGED)
    except KeyboardInterrupt:
        err.print("veridp: interrupted", style="bold red")
        sys.exit(130)


if __name__ == "__main__":
    main()
