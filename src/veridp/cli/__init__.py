"""The command line: a module for each family of commands; they share `options` and `output`. Nothing imports it."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated, Any

import typer

from veridp.cli.account import app as budget_commands
from veridp.cli.account import show_account
from veridp.cli.audit import show_audit, show_verification, write_starter
from veridp.cli.cache import show_cache
from veridp.cli.collect import app as collect_commands
from veridp.cli.exact import list_catalogue, show_exact, show_paths, show_schema
from veridp.cli.examples import add_examples
from veridp.cli.local import app as local_commands
from veridp.cli.output import NOT_JUDGED, accept_any_text, complain
from veridp.cli.prove import show_check, show_proof
from veridp.cli.scan import show_scan
from veridp.cli.search import show_attack, show_detection, show_found, show_runs
from veridp.errors import INTERRUPTING, VeridpError
from veridp.project import project_settings

INTERRUPTED = 130  # the exit status of typer after Ctrl-C

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
app.command("audit")(show_audit)
app.command("verify")(show_verification)
app.command("cache")(show_cache)
app.command("scan")(show_scan)
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
app.command("pipeline")(show_runs)
app.command("account")(show_account)
app.command("schema")(show_schema)
app.add_typer(budget_commands, name="budget")
app.add_typer(collect_commands, name="collect")
add_examples(app)


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
        status = int(app(prog_name="veridp", standalone_mode=False) or 0)
        if status == INTERRUPTED:
            complain("cut short: interrupted before there was a result")
        return status
    except VeridpError as error:
        complain(str(error))
    except typer.TyperException as error:  # an unknown option, a value out of range
        complain(_usage(error))
    except (*INTERRUPTING, SystemExit):
        raise
    except BaseException as error:  # Python would exit with 1, which says that a claim is refuted
        traceback.print_exc()
        complain(f"a fault of veridp itself, {type(error).__name__}: {error}; please report it with the lines above")
    return NOT_JUDGED


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the options, and what to write instead."""
    message = (error.format_message() if hasattr(error, "format_message") else str(error)).rstrip(".")
    option, reasons = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    if option is not None and reasons is not None:
        return _bad_value(option, reasons()[0])
    if option is not None and message.startswith("Missing"):
        return f"{message}; give {option.help}"
    if option is not None and ";" in message:  # our own words, with their remedy
        return message
    if "requires" in message:
        return f"{message}; write {'it' if message.endswith('an argument') else 'them'} after the option"
    context = getattr(error, "ctx", None)
    return f"{message}; `{context.command_path if context else 'veridp'} --help` lists what there is"


def _bad_value(option: Any, reason: dict[str, Any]) -> str:
    """What the option must be, what it is, and a value that will do."""
    name, kind, limits = option.opts[0], reason["type"], reason.get("ctx", {})
    wanted = {"int_parsing": "a whole number", "float_parsing": "a number"}.get(kind, "")
    wanted = f">= {limits['ge']:g}" if "ge" in limits else f"<= {limits['le']:g}" if "le" in limits else wanted
    if not wanted:
        return (
            f"{name}: {str(reason['msg']).removeprefix('Value error, ').rstrip('.')}; give one of them ({option.help})"
        )
    whole = kind == "int_parsing" or isinstance(limits.get("ge"), int)
    usual = option.metavar if option.nargs > 1 else option.default
    example = f"{name} {(1 if whole else 0.5) if usual is None else usual}"
    return f"{name} must be {wanted}, got {reason['input']!r}; give for instance {example} ({option.help})"
