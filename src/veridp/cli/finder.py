"""`veridp finder TARGET`: the worst neighbours and event that climbs from random restarts find."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from veridp.budget import Deadline
from veridp.claim import with_assumptions
from veridp.cli.options import (
    Arg,
    AsJson,
    Confidence,
    Delta,
    Epsilon,
    Relation,
    Seed,
    Size,
    Target,
    Values,
    chosen_mechanism,
    seconds,
)
from veridp.cli.output import FAILS, HOLDS, progress_bar, show, show_json, user_code

if TYPE_CHECKING:
    from veridp.engines.finder import FinderResult, Restart


def show_found(
    target: Target,
    size: Size = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    relation: Relation = None,
    domain: Values = None,
    arg: Arg = None,
    restarts: Annotated[int, typer.Option(min=1, help="random pairs and events to climb from")] = 50,
    random: Annotated[
        bool, typer.Option("--random", help="the baseline: random pairs and events, as many as climbs evaluate")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="processes; one for each core if not given")] = None,
    confidence: Confidence = 0.99,
    time: Annotated[
        float | None,
        typer.Option("--time", parser=seconds, help="how long it may take, 60s if not given: 90, 2m, 1.5h"),
    ] = None,
    seed: Seed = 0,
    most: Annotated[int, typer.Option("--show", min=0, help="print at most so many restarts")] = 5,
    as_json: AsJson = False,
) -> int:
    """Print the worst neighbours and event that a search finds, and how it is known; exit 1 if above the claim."""
    from veridp.engines.finder import search  # numerics take longer to import than all the rest: only where needed

    with user_code():
        deadline = Deadline(60.0 if time is None else time)
        mechanism = chosen_mechanism(target, epsilon, arg, delta, relation, domain=domain, size=size, deadline=deadline)
        with progress_bar(target) as progress:
            found = search(
                mechanism,
                size,
                restarts=restarts,
                seconds=deadline.left,
                seed=seed,
                progress=progress,
                random=random,
                workers=workers,
                confidence=confidence,
            )
    if as_json:
        show_json("finder", {"target": target, **found.to_dict()})
    else:
        show(_page(target, found, most))
    return FAILS if found.refuted else HOLDS


def _page(target: str, found: FinderResult, most: int) -> RenderableType:
    witness = found.witness
    lines = [
        f"{target}: ε {'=' if found.verified == 'exact' else '>='} {_number(found.epsilon)} ({found.verified})",
        f"left   {witness.left}",
        f"right  {witness.right}",
        f"where {witness.event}:",
        f"    probability {witness.left_probability} on left, {witness.right_probability} on right",
    ]
    if found.hoeffding is not None:
        lines.append(f"by Hoeffding's inequality alone, from the same samples: ε >= {_number(found.hoeffding)}")
    if found.as_floats:
        lines.append(found.as_floats)
    claim = found.claim
    if claim is not None:
        judged = f"claimed {claim}: {'refuted' if found.refuted else 'not refuted'}"
        lines.append(with_assumptions(judged, found.mechanism.assumptions))
    table = Table("restart", "relaxed", "unrelaxed", "verified", "correlation", "event")
    for restart in sorted(found.restarts, key=lambda restart: -restart.rank)[:most]:
        table.add_row(*map(Text, _row(restart)))
    return Group(*map(Text, lines), *([table] if most else []), *map(Text, _summary(found)))


def _row(restart: Restart) -> list[str]:
    values = (restart.relaxed, restart.unrelaxed, restart.verified, restart.correlation)
    shown = ["" if value is None or math.isnan(value) else _number(value) for value in values]
    return [str(restart.number), *shown, str(restart.event)]


def _summary(found: FinderResult) -> list[str]:
    """How the search went."""
    each = sum(restart.seconds for restart in found.restarts) / len(found.restarts)
    draws = sum(restart.samples for restart in found.restarts) / len(found.restarts)
    count = "1 restart" if len(found.restarts) == 1 else f"{len(found.restarts)} restarts"
    lines = [f"{count}, {each:.2g} s and {draws:.0f} draws each; {'; '.join(found.searched)}"]
    if found.correlations:
        low, high = min(found.correlations), max(found.correlations)
        lines.append(f"with the same noise, left and right correlate by {low:.3g} to {high:.3g}")
    return lines + ([] if found.finished else ["the search was cut short; others may be worse"])


def _number(value: float) -> str:
    return ("-∞" if value < 0 else "∞") if math.isinf(value) else f"{value:.6g}"
