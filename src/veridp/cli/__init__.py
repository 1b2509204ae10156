"""The command line: a module for each family of commands; they share `options` and `output`. Nothing imports it."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated

import typer

from veridp.cli.account import app as budget_commands
from veridp.cli.account import show_account
from veridp.cli.audit import show_audit, write_starter
from veridp.cli.collect import app as collect_commands
from veridp.cli.exact import list_catalogue, show_exact, show_paths, show_schema
from veridp.cli.local import app as local_commands
from veridp.cli.output import NOT_JUDGED, accept_any_text, complain
from veridp.cli.prove import show_check, show_proof
from veridp.cli.search import show_attack, show_detection, show_found
from veridp.errors import VeridpError
from veridp.project import project_settings

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("audit")(show_audit)
app.command("new")(write_starter)
app.command("catalogue")(list_catalogue)
app.command("explore")(show_paths)
app.command("exact")(show_exact)
app.command("check")(show_check)
app.command("prove")(show_proof)
app.add_typer(local_commands, name="local")
app.command("statdp")(show_detection)
app.command("sniper")(show_attack)
app.command("finder")(show_found)
app.command("account")(show_account)
app.command("schema")(show_schema)
app.add_typer(budget_commands, name="budget")
app.add_typer(collect_commands, name="collect")


@app.callback(invoke_without_command=True)
def veridp(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version, and exit")] = False,
) -> None:
    """How private is this, really?"""
    if context.invoked_subcommand == "audit":
        settings = project_settings(Path.cwd())
        context.obj, context.default_map = settings, {"audit": settings.options}
    if version:
        typer.echo(f"veridp {distribution_version('veridp')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line: the exit status is one of `veridp.cli.output`, or 130 where it was interrupted."""
    accept_any_text()
    try:
        status = _status()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the reader of the result went away; typer exits with 1 then
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = NOT_JUDGED
    sys.exit(status)


def _status() -> int:
    try:
        return int(app(prog_name="veridp", standalone_mode=False) or 0)
    except VeridpError as error:
        complain(str(error))
    except typer.TyperException as error:  # an unknown option, a value out of range
        complain(_usage(error))
    except Exception as error:  # Python would exit with 1, which says that a claim is refuted
        traceback.print_exc()
        complain(f"a fault of veridp itself, {type(error).__name__}: {error}; please report it with the lines above")
    return NOT_JUDGED


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the options, and the command whose help tells more."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    return f"{message.rstrip('.')}; see {context.command_path if context else 'veridp'} --help"
