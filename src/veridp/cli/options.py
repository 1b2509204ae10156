"""What commands are given: the options that they share, and the mechanism and data that these name."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from veridp.adjacency import BY_NAME
from veridp.budget import Deadline, killed_after
from veridp.errors import BadInput
from veridp.mechanism import Mechanism
from veridp.sampling.cluster import NAMES, executor
from veridp.target import COMMAND, LOADING, load

Target = Annotated[
    str, typer.Argument(help="file.py:function, package.module:function, a catalogue name, or command:…")
]
Size = Annotated[int | None, typer.Option(min=1, help="length of the input; the mechanism's usual one if not given")]
Arg = Annotated[list[str] | None, typer.Option("--arg", help="an argument of the mechanism, as name=value")]
Epsilon = Annotated[
    float | None, typer.Option(help="the mechanism's argument epsilon, or its claim where it has no such argument")
]
Delta = Annotated[float | None, typer.Option(help="the δ that is claimed")]
Rho = Annotated[float | None, typer.Option(help="claim ρ-zCDP in place of ε and δ")]
Mu = Annotated[float | None, typer.Option(help="claim μ-Gaussian DP in place of ε and δ")]
Rdp = Annotated[
    tuple[float, float] | None, typer.Option(metavar="ALPHA EPSILON", help="claim (α, ε)-Rényi DP in place of ε and δ")
]
Tradeoff = Annotated[
    str | None,
    typer.Option(
        help="claim a trade-off curve in place of ε and δ, by its points (α, β): '[(0, 1), (0.2, 0.5), (1, 0)]'"
    ),
]
Relation = Annotated[str | None, typer.Option("--adjacency", help=f"who is a neighbour: one of {', '.join(BY_NAME)}")]
Values = Annotated[str | None, typer.Option("--domain", help="the values of data: '(low, high)', or a list of them")]
Seed = Annotated[int, typer.Option(min=0, help="all that is drawn depends on it alone")]
Confidence = Annotated[float, typer.Option(min=0.0, max=1.0, help="how sure a statistical bound must be")]
Data = Annotated[str | None, typer.Option(help="the input itself, as a Python literal such as '[1, 2, 3]'")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]


def _markdown(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".md", ".markdown"):
        raise typer.BadParameter(f"reports are Markdown, {path.name!r} is not; give for instance {path.stem}.md")
    return path


MarkdownFile = Annotated[
    Path | None, typer.Option("--report", callback=_markdown, help="also write a Markdown page, such as report.md")
]


def _page(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"the page is HTML, {path.name!r} is not; give for instance {path.stem}.html")
    return path


HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", callback=_page, help="also write a page for a browser, such as report.html: one file"),
]

NoCache = Annotated[
    bool, typer.Option("--no-cache", help="audit what is unchanged too, and keep nothing; `veridp cache` shows what is")
]

GRACE = 1.0  # seconds past its time after which loading a file ends the command
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


Command = Callable[..., int]


def taking(provider: Callable[..., object], name: str) -> Callable[[Command], Command]:
    """A decorator: the command gets the options of the provider, and what it makes of them as the parameter `name`."""

    def decorated(command: Command) -> Command:
        names = {command.__annotations__[name]: object}  # a name that may not be imported, and need not be
        options = inspect.signature(provider, eval_str=True, locals=names).parameters
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True, locals=names).parameters.values():
            parameters += options.values() if parameter.name == name else [parameter]

        @functools.wraps(command)
        def run(**given: Any) -> int:
            provided = provider(**{option: given.pop(option) for option in options})
            return command(**{name: provided}, **given)

        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what options are read from
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__
        return run

    return decorated


@dataclass(frozen=True)
class MechanismOptions:
    """What a user states of a mechanism: its claim, its adjacency, domain and size, its arguments."""

    size: Size = None
    epsilon: Epsilon = None
    delta: Delta = None
    rho: Rho = None
    mu: Mu = None
    rdp: Rdp = None
    tradeoff: Tradeoff = None
    relation: Relation = None
    domain: Values = None
    arg: Arg = None

    def mechanism(self, target: str, deadline: Deadline | None) -> Mechanism:
        """The mechanism that the target names, as stated; loading it ends with the deadline."""
        return chosen_mechanism(target, deadline=deadline, **vars(self))


stating = taking(MechanismOptions, "stated")


@dataclass(frozen=True)
class RunOptions:
    """Where tasks run, and the file from which another run can go on."""

    executor: Annotated[str, typer.Option(help=f"who runs the tasks: {NAMES}")] = "processes"
    checkpoint: Annotated[Path | None, typer.Option(help="keep results in this file, to go on if interrupted")] = None
    resume: Annotated[bool, typer.Option("--resume", help="go on from the file of --checkpoint")] = False

    @contextmanager
    def started(self) -> Iterator[dict[str, Any]]:
        """The keywords of engines that say so; the connection to a cluster ends with the context."""
        with executor(self.executor) as chosen:
            yield {"executor": chosen, "checkpoint": self.checkpoint, "resume": self.resume}


running = taking(RunOptions, "where")


@dataclass(frozen=True)
class NotionOptions:
    """A claim in a notion other than (ε, δ), as options of a command."""

    rho: Rho = None
    mu: Mu = None
    rdp: Rdp = None
    tradeoff: Tradeoff = None

    @property
    def stated(self) -> dict[str, Any]:
        """The keywords of `Claim.stated` that are given."""
        given = {**vars(self), "tradeoff": curve_points(self.tradeoff)}
        return {name: value for name, value in given.items() if value is not None}


claiming = taking(NotionOptions, "notion")


def curve_points(text: str | None) -> Any:
    """The points of a trade-off curve that `--tradeoff` writes out."""
    return None if text is None else literal("--tradeoff", text, "[(0, 1), (0.2, 0.5), (1, 0)]")


def chosen_mechanism(
    target: str,
    epsilon: float | None,
    arg: list[str] | None,
    delta: float | None = None,
    relation: str | None = None,
    *,
    domain: str | None = None,
    size: int | None = None,
    deadline: Deadline | None = None,
    rho: float | None = None,
    mu: float | None = None,
    rdp: tuple[float, float] | None = None,
    tradeoff: str | None = None,
) -> Mechanism:
    """The mechanism that the target names, with its arguments, its claim and its settings as the options say;
    loading it ends with the deadline."""
    values = None if domain is None else literal("--domain", domain, "(0, 100)")
    notion = NotionOptions(rho, mu, rdp, tradeoff).stated
    mechanism = _loaded(target, deadline).claiming(epsilon, delta, **notion)
    mechanism = mechanism.stating(adjacency=relation, domain=values, size=size)
    arguments: dict[str, Any] = {}
    for text in arg or []:
        name, value = _parsed_argument(text)
        if name in arguments or (name, epsilon is None) == ("epsilon", False):
            raise BadInput(f"--arg {text!r} sets {name} a second time; give it once")
        arguments[name] = value
    return mechanism.bind(**arguments)


def _loaded(target: str, deadline: Deadline | None) -> Mechanism:
    """The mechanism of the target; a file whose compiled call does not return ends the command soon after its time."""
    if deadline is None or ":" not in target or target.startswith(COMMAND):
        return load(target, deadline)
    limit = min(LOADING, deadline.left)
    with killed_after(limit + GRACE, f"{target}: loading it did not end within {limit:.3g} s, in a compiled call"):
        return load(target, deadline)


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
        raise BadInput("--size and --data exclude each other; give one of them")
    return literal("--data", data)


def literal(option: str, text: str, example: str = "[1, 2, 3]") -> Any:
    """The value that the text of an option writes out."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise BadInput(f"{option} {text!r} is not a Python literal; write for instance {option} '{example}'") from None


def seconds(text: str | float) -> float:
    """A time budget in seconds, from text such as 90, 90s, 2m or 1.5h; a number, as defaults are, is one already.

    >>> seconds("2m"), seconds(60.0)
    (120.0, 60.0)
    """
    if isinstance(text, float):
        return text
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        budget = float(number) * UNITS[unit]
    except ValueError:
        budget = -1.0
    if not 0 < budget < float("inf"):
        raise typer.BadParameter(f"{text!r} is not a time; write for instance 90, 90s, 2m or 1.5h")
    return budget


Time = Annotated[float, typer.Option("--time", parser=seconds, help="how long it may take: 90, 90s, 2m, 1.5h")]
