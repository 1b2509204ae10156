"""`veridp scan PATH`: the functions that draw noise, and a verdict on those of them that claim something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.cli.audit import audited_target
from veridp.cli.options import AsJson, MechanismOptions, NoCache, Seed, Time, stating
from veridp.cli.output import FAILS, HOLDS, NOT_JUDGED, complain, show, show_json
from veridp.errors import BadInput, VeridpError
from veridp.project import ProjectSettings

if TYPE_CHECKING:
    from rich.table import Table

    from veridp.audit.draws import NoisyFunction
    from veridp.report.audit import Audited

LISTED = "listed"
NO_CLAIM = "no claim: give it a decorator or an argument epsilon with a default, or state --epsilon for all"
HEADINGS = ("function", "noise", "claims", "ε", "verdict", "why")


@dataclass(frozen=True)
class Scanned:
    """A function that draws noise, with its audit; without one, it is only listed, and `reason` says why."""

    function: NoisyFunction
    audited: Audited | None
    reason: str = ""

    @property
    def standing(self) -> str:
        if self.audited is None:
            return LISTED
        return "unjudged" if self.audited.verdict is None else self.audited.verdict.standing.value

    def to_dict(self) -> dict[str, Any]:
        from veridp.report.audit import audited_document

        return {
            "target": self.function.target,
            "file": str(self.function.file),
            "line": self.function.line,
            "draws": [{"line": draw.line, "call": draw.call} for draw in self.function.draws],
            "via": self.function.via or None,
            "standing": self.standing,
            "reason": self.reason or None,
            "audit": None if self.audited is None else audited_document(self.audited),
        }


@stating
def show_scan(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="a Python file, or a folder of them")],
    stated: MechanismOptions,
    time: Time = 20.0,
    alpha: Annotated[float, typer.Option(help="the probability of a false alarm, in all")] = 0.05,
    seed: Seed = 0,
    only_list: Annotated[bool, typer.Option("--list", help="read the files only: run nothing, judge nothing")] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> int:
    """Find the functions that draw noise, also through others, and judge those that claim something.

    Files are read, not run, to find them. A file is loaded only to judge one of its functions, which runs its top
    level and then the function. --time is for each function. Exit status: as for `audit`; what is only listed counts
    for nothing.
    """
    from veridp.audit.draws import noisy_functions

    functions, problems = noisy_functions(path)
    claimed = any(value is not None for value in (stated.epsilon, stated.rho, stated.mu, stated.rdp, stated.tradeoff))
    judged = [one for one in functions if not only_list and one.public and (claimed or one.has_claim)]
    share = alpha / max(len(judged), 1)  # so that all of them together have one rate of false alarms
    options: dict[str, Any] = {"alpha": share, "seed": seed, "black_box": False}
    judge = partial(
        audited_target,
        stated=stated,
        settings=context.obj or ProjectSettings(),
        seconds=time,
        options=options,
        no_cache=no_cache,
    )
    results = [_scanned(one, judge if one in judged else None, only_list) for one in functions]
    if as_json:
        show_json("scan", *(one.to_dict() for one in results))
    else:
        show(_table(results))
    for problem in problems:
        complain(problem)
    standings = {one.standing for one in results}
    return FAILS if "refuted" in standings else NOT_JUDGED if "unjudged" in standings or problems else HOLDS


def _scanned(function: NoisyFunction, judge: Callable[[str], Audited] | None, only_list: bool) -> Scanned:
    from veridp.report.audit import Audited

    if judge is None:
        private = "private: a part of others" if not function.public else NO_CLAIM
        return Scanned(function, None, "" if only_list else private)
    try:
        return Scanned(function, judge(_target(function)))
    except VeridpError as error:
        if isinstance(error, BadInput) and "no claim" in str(error):
            return Scanned(function, None, NO_CLAIM)
        return Scanned(function, Audited(function.target, None, reason=str(error)), str(error))


def _target(function: NoisyFunction) -> str:
    """The name to load it by: a file of a package is a module of it, so that its relative imports work."""
    import sys

    parts, folder = [function.file.stem], function.file.resolve().parent
    while (folder / "__init__.py").is_file():
        parts, folder = [folder.name, *parts], folder.parent
    if len(parts) == 1:
        return function.target
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    name = ".".join(part for part in parts if part != "__init__")
    return f"{name}:{function.name}"


def _table(results: list[Scanned]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from veridp.claim import number

    table = Table(*HEADINGS)
    for one in results:
        function, verdict = one.function, None if one.audited is None else one.audited.verdict
        drawn = [f"{draw.call}, line {draw.line}" for draw in function.draws[:2]]
        noise = "; ".join(drawn) + ("; …" if len(function.draws) > len(drawn) else "") or f"via {function.via}"
        claim = "" if verdict is None else str(verdict.claim)
        epsilon = "" if verdict is None else f"[{number(verdict.epsilon.lower)}, {number(verdict.epsilon.upper)}]"
        assumed = "" if verdict is None else "; ".join(f"{k} {v} assumed" for k, v in verdict.assumed.items())
        where = f"{function.file}:{function.line} {function.name}"
        table.add_row(*map(Text, (where, noise, claim, epsilon, one.standing, one.reason or assumed)))
    return table
