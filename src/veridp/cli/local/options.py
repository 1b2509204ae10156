"""What the local commands are given: the plan of a collection, by a file or by options."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.cli.options import literal
from veridp.errors import BadInput

if TYPE_CHECKING:
    from veridp.local.plan import Plan


class OnError(StrEnum):
    """What to do about a row that cannot be used."""

    fail = "fail"
    skip = "skip"


class Format(StrEnum):
    """How a file is written."""

    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"


Files = Annotated[
    list[Path] | None, typer.Argument(help="CSV, Parquet or Arrow files; - or nothing for standard input")
]
Column = Annotated[str | None, typer.Option(help="the column to read; may be left out where there is but one")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="the file to write; standard output if not given")]
FileFormat = Annotated[Format | None, typer.Option("--format", help="of the input; by its ending, else CSV")]
Errors = Annotated[
    OnError, typer.Option("--on-error", help="fail at the first bad row, or skip bad rows and count them")
]
Range = Annotated[str | None, typer.Option("--range", help="the ends between which numbers lie: low,high")]


def planned(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the options of `chosen_plan` in place of its first parameter, which is given the plan."""
    options = inspect.signature(chosen_plan, eval_str=True, locals={"Plan": object}).parameters
    own = list(inspect.signature(command, eval_str=True, locals={"Plan": object}).parameters.values())[1:]

    @functools.wraps(command)
    def run(**given: Any) -> int:
        plan = chosen_plan(**{name: given.pop(name) for name in options})
        return command(plan, **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *options.values())]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what the options are read from
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    return run


def chosen_plan(
    plan: Annotated[
        Path | None, typer.Option("--plan", help="the plan of the collection, as --save-plan wrote it")
    ] = None,
    oracle: Annotated[
        str | None, typer.Option("--oracle", help="grr, oue, pm, …; the one of least variance if not given")
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="what a report may cost its user")] = None,
    labels: Annotated[
        str | None, typer.Option("--values", help="the labels: a,b,c or 0..99 or @file with one per line")
    ] = None,
    ends: Range = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="a setting of the oracle, as name=value")] = None,
) -> Plan:
    """The plan that the file holds, or the one that the options write out."""
    from veridp.local.plan import Plan

    if plan is not None:
        if any(option is not None for option in (oracle, epsilon, labels, ends, settings)):
            raise BadInput("--plan defines everything; leave out --oracle, --epsilon, --values, --range and --set")
        return Plan.from_text(text_of(plan))
    if epsilon is None:
        raise BadInput("no privacy budget; give --epsilon or --plan")
    domain = None if labels is None else chosen_labels(labels)
    pair = None if ends is None else chosen_ends(ends)
    options = _chosen_settings(settings)
    if oracle is None:
        if options:
            raise BadInput("--set is for an oracle; name it with --oracle")
        return Plan.best(epsilon, domain, pair)
    low, high = pair or (None, None)
    return Plan(oracle, epsilon, domain, low, high, options)


def chosen_labels(text: str) -> tuple[str, ...]:
    """The labels that a text such as a,b,c or 0..99 or @file stands for."""
    if text.startswith("@"):
        return tuple(line for line in text_of(Path(text[1:])).splitlines() if line)
    if span := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", text):
        return tuple(str(number) for number in range(int(span[1]), int(span[2]) + 1))
    return tuple(label.strip() for label in text.split(","))


def chosen_ends(text: str) -> tuple[float, float]:
    """The two numbers of a range."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"--range {text!r} is not low,high; write for instance --range 17,90") from None
    return low, high


def _chosen_settings(settings: list[str] | None) -> dict[str, object]:
    chosen: dict[str, object] = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"--set {text!r} is not name=value; write for instance --set bits=128")
        chosen[name] = value if value.isalpha() else literal("--set", value)
    return chosen


def text_of(path: Path) -> str:
    """What a file holds, as text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise BadInput(f"{path}: {reason}; give a file that can be read") from None
