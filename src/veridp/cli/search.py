"""`veridp statdp|sniper|finder TARGET`: search for a counterexample, by statistical tests, a trained attack, or
climbing. `veridp pipeline TARGET`: two aligned runs of a program, on given inputs or on pairs that are searched for."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from veridp.budget import Deadline
from veridp.claim import number
from veridp.cli.options import (
    Arg,
    AsJson,
    Confidence,
    Data,
    Epsilon,
    HtmlFile,
    MechanismOptions,
    Relation,
    RunOptions,
    Seed,
    Size,
    Target,
    Time,
    Values,
    chosen_mechanism,
    literal,
    running,
    seconds,
    stating,
)
from veridp.cli.output import FAILS, HOLDS, progress_bar, show, show_json, user_code, write_result_page
from veridp.errors import BadInput
from veridp.kernel.symbols import count_text
from veridp.verdict import with_assumptions

if TYPE_CHECKING:
    from veridp.engines.finder import FinderResult, Restart
    from veridp.engines.sniper import AttackResult
    from veridp.engines.statdp import Detection

R = TypeVar("R", bound="Detection | AttackResult | FinderResult")
Workers = Annotated[int | None, typer.Option(min=1, help="processes; one for each core if not given")]


def _shown(
    command: str, target: str, result: R, html: Path | None, as_json: bool, page: Callable[[R], RenderableType]
) -> int:
    """The exit status for the result, which is printed as JSON or as text, and written as a page."""
    write_result_page(html, target, result)
    if as_json:
        show_json(command, {"target": target, **result.to_dict()})
    else:
        show(page(result))
    return FAILS if result.refuted else HOLDS


# -------------------------------------------------------------------------------------------------------------- statdp
# `veridp statdp TARGET`: statistical tests of a claim, with a counterexample that a person understands.


MOST_LEVELS = 1000

Levels = Annotated[
    str | None,
    typer.Option("--test-epsilons", help="what to test against: first:last:step, or numbers with commas between"),
]


@running
def show_detection(
    target: Target,
    where: RunOptions,
    epsilon: Epsilon = None,
    test_epsilons: Levels = None,
    size: Size = None,
    relation: Relation = None,
    domain: Values = None,
    arg: Arg = None,
    selection_samples: Annotated[int, typer.Option(min=1, help="runs on either side to choose events")] = 100_000,
    samples: Annotated[int, typer.Option(min=1, help="fresh runs on either side to test them")] = 500_000,
    alpha: Annotated[float, typer.Option(help="the probability of a false alarm, in all")] = 0.05,
    time: Annotated[
        float | None, typer.Option("--time", parser=seconds, help="how long it may take: 90, 90s, 2m, 1.5h")
    ] = None,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="draw the curve to this file: .png, .svg, .pdf or .html")] = None,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> int:
    """Test what a mechanism claims on samples, and draw the p-value against ε; exit 1 if the claim is refuted."""
    from veridp.engines.statdp import detect
    from veridp.report.statdp import detection_page, write_plot  # numerics: only where needed

    levels = None if test_epsilons is None else parsed_levels(test_epsilons)
    with user_code():
        deadline = Deadline(math.inf if time is None else time)
        mechanism = chosen_mechanism(target, epsilon, arg, None, relation, domain=domain, size=size, deadline=deadline)
        with where.started() as run, progress_bar(target) as progress:
            detection = detect(
                mechanism,
                None,
                size,
                test_epsilons=levels,
                selection_samples=selection_samples,
                samples=samples,
                seconds=deadline.left,
                alpha=alpha,
                seed=seed,
                progress=progress,
                **run,
            )
    if plot is not None:
        write_plot([detection], plot)
    return _shown("statdp", target, detection, html, as_json, detection_page)


def parsed_levels(text: str) -> list[float]:
    """Test ε from text such as 0.3:2.2:0.1, both ends among them, or 0.5,0.7,1.

    >>> parsed_levels("0.5:0.7:0.1")
    [0.5, 0.6, 0.7]
    """
    try:
        parts = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        parts = []
    ranged = ":" in text
    if not parts or not all(map(math.isfinite, parts)) or (ranged and (len(parts) != 3 or parts[2] <= 0)):
        raise BadInput(
            f"--test-epsilons {text!r} is neither first:last:step nor numbers; write for instance 0.3:2.2:0.1"
        )
    if not ranged:
        return parts
    first, last, step = parts
    count = math.floor((last - first) / step + 1e-9) + 1
    if not 1 <= count <= MOST_LEVELS:
        raise BadInput(f"--test-epsilons {text!r} names {max(count, 0)} values; give from 1 to {MOST_LEVELS}")
    return [float(level) for level in np.round(first + step * np.arange(count), 12)]


# -------------------------------------------------------------------------------------------------------------- sniper
# `veridp sniper TARGET`: the strongest certified attack on a mechanism that can only be run.


Pairs = Annotated[
    str | None,
    typer.Option(help="what to try: patterns, corners, random, moves, with commas between; or '[(left, right)]'"),
]
AttackTime = Annotated[
    float | None,
    typer.Option("--time", parser=seconds, help="how long it may take, 2m if not given: 90, 90s, 1.5h"),
]
Width = Annotated[float | None, typer.Option(min=0.0, help="stop as soon as the bound is so close to its estimate")]
Models = Annotated[
    list[str] | None,
    typer.Option(help="only this: one entry, table of counts, logistic regression, boosted trees, neural network"),
]


@running
@stating
def show_attack(
    target: Target,
    stated: MechanismOptions,
    where: RunOptions,
    pairs: Pairs = None,
    samples: Annotated[int | None, typer.Option(min=1, help="training samples of either input, 10^6")] = None,
    final_samples: Annotated[int | None, typer.Option(min=1, help="samples to confirm with, 10^7")] = None,
    time: AttackTime = None,
    confidence: Confidence = 0.95,
    refute: Annotated[bool, typer.Option("--refute", help="stop as soon as the claim is refuted")] = False,
    width: Width = None,
    model: Models = None,
    bits: Annotated[bool, typer.Option("--bits", help="look at the bits of floating-point outputs too")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="run the published configuration; takes hours")] = False,
    workers: Workers = None,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="draw the certified privacy profile to this file")] = None,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> int:
    """Print a lower bound on ε that holds with the confidence, and the attack behind it; exit 1 if above the claim.

    Ctrl-C ends the search and prints the bound that was reached so far.
    """
    from veridp.engines.sniper import search

    with user_code():
        deadline = None if time is None else Deadline(time)
        mechanism = stated.mechanism(target, deadline)
        if refute and mechanism.claim is None:
            raise BadInput("--refute needs a claim; give --epsilon")
        with where.started() as run, progress_bar(target) as progress:
            finding = search(
                mechanism,
                stated.size,
                pairs=None if pairs is None else _chosen_pairs(pairs),
                samples=samples,
                final_samples=final_samples,
                seconds=None if deadline is None else deadline.left,
                confidence=confidence,
                claim=mechanism.claim if refute else None,
                until_refuted=refute and not paper,
                width=width,
                models=model,
                bits=bits,
                paper=paper,
                workers=workers,
                seed=seed,
                progress=progress,
                **run,
            )
    if plot is not None:
        from veridp.report.exact import plot_profile

        plot_profile(finding, plot)
    return _shown("sniper", target, finding, html, as_json, lambda finding: "\n".join(_lines(target, finding)))


def _chosen_pairs(text: str) -> Any:
    """Names of sources, or pairs written out."""
    if text.lstrip().startswith(("[", "(")):
        return literal("--pairs", text, "[([0, 0], [0, 1])]")
    return [name.strip() for name in text.split(",")]


def _lines(target: str, finding: AttackResult) -> list[str]:
    from veridp.engines.sniper.result import TRADEOFF_CONVERSION

    at = f" at δ = {finding.delta:g}" if finding.delta else ""
    lines = [f"{target}: ε >= {finding.epsilon_lower:.6g}{at}, with confidence {finding.confidence:g}"]
    witness = finding.witness
    if witness is not None:
        left, right = (f"{count} of {finding.samples}" for count in finding.counts)
        lines += [
            f"left   {witness.left}",
            f"right  {witness.right}",
            f"event  {witness.event}",
            f"       {left} on the left, so its probability is at least {witness.left_probability.lower:.6g}",
            f"       {right} on the right, so its probability is at most {witness.right_probability.upper:.6g}",
            f"found by {finding.model}; estimated ε of this event: {finding.estimate:.6g}",
        ]
    if finding.tradeoffs:
        lines.append(f"so ρ >= {finding.rho_lower:.6g} (zCDP) and μ >= {finding.mu_lower:.6g} (Gaussian DP)")
        lines.append(f"       {TRADEOFF_CONVERSION}")
    ended = "" if finding.finished else "; cut short"
    lines.append(
        f"searched {', '.join(finding.searched)}: {count_text(finding.tried, 'pair')}, {finding.drawn:.3g} outputs, "
        f"{finding.seconds:.1f} s{ended}"
    )
    if finding.claim is not None:
        judged = "refuted" if finding.refuted else "not refuted"
        if finding.refuted and witness is not None and witness.as_floats:
            judged = "refuted as floats: the event may look at their low bits; round the output to a grid and try again"
        lines.append(with_assumptions(f"claimed {finding.claim}: {judged}", finding.mechanism.assumptions))
    return lines


# -------------------------------------------------------------------------------------------------------------- finder
# `veridp finder TARGET`: the worst neighbours and event that climbs from random restarts find.


@running
@stating
def show_found(
    target: Target,
    stated: MechanismOptions,
    where: RunOptions,
    restarts: Annotated[int, typer.Option(min=1, help="random pairs and events to climb from")] = 50,
    random: Annotated[
        bool, typer.Option("--random", help="the baseline: random pairs and events, as many as climbs evaluate")
    ] = False,
    workers: Workers = None,
    confidence: Confidence = 0.99,
    time: Time = 60.0,
    seed: Seed = 0,
    most: Annotated[int, typer.Option("--show", min=0, help="print at most so many restarts")] = 5,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> int:
    """Print the worst neighbours and event that a search finds, and how it is known; exit 1 if above the claim."""
    from veridp.engines.finder import search  # numerics take longer to import than all the rest: only where needed

    with user_code():
        deadline = Deadline(time)
        mechanism = stated.mechanism(target, deadline)
        with where.started() as run, progress_bar(target) as progress:
            found = search(
                mechanism,
                stated.size,
                restarts=restarts,
                seconds=deadline.left,
                seed=seed,
                progress=progress,
                random=random,
                workers=workers,
                confidence=confidence,
                **run,
            )
    return _shown("finder", target, found, html, as_json, lambda found: _page(target, found, most))


def _page(target: str, found: FinderResult, most: int) -> RenderableType:
    witness = found.witness
    lines = [
        f"{target}: ε {'=' if found.verified == 'exact' else '>='} {number(found.epsilon)} ({found.verified})",
        f"left   {witness.left}",
        f"right  {witness.right}",
        f"where {witness.event}:",
        f"    probability {witness.left_probability} on left, {witness.right_probability} on right",
    ]
    if found.hoeffding is not None:
        lines.append(f"by Hoeffding's inequality alone, from the same samples: ε >= {number(found.hoeffding)}")
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
    shown = ["" if value is None or math.isnan(value) else number(value) for value in values]
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


# ------------------------------------------------------------------------------------------------------------- pipeline


Side = Annotated[str | None, typer.Option(help="an input, as a Python literal; with both, none is searched for")]


@stating
def show_runs(
    target: Target,
    stated: MechanismOptions,
    left: Side = None,
    right: Side = None,
    data: Data = None,
    max_pairs: Annotated[int, typer.Option(min=1, help="pairs of neighbours that are compared")] = 96,
    time: Time = 60.0,
    seed: Seed = 0,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> int:
    """Print what runs on neighbours release, line by line, what that costs, and what noise does not hide.

    What it finds are candidates, not verdicts: it exits with 0 whatever it finds. `veridp audit` confirms them.
    """
    from veridp.engines.pipeline import PipelineSearch, compare, search  # numerics: only where needed

    if (left is None) != (right is None):
        raise BadInput("--left and --right belong together; give both, or neither to search for pairs")
    with user_code():
        deadline = Deadline(time)
        mechanism = stated.mechanism(target, deadline)
        with progress_bar(target) as progress:
            if left is not None and right is not None:
                sides = literal("--left", left), literal("--right", right)
                result = compare(mechanism, *sides, seed=seed, seconds=deadline.left)
                found = PipelineSearch.of(result)
            else:
                example = None if data is None else literal("--data", data)
                options = {"seed": seed, "max_pairs": max_pairs, "seconds": deadline.left, "progress": progress}
                found = search(mechanism, example, **options)  # type: ignore[arg-type]
    write_result_page(html, target, found)
    if as_json:
        show_json("pipeline", {"target": target, **found.to_dict()})
    else:
        show(with_assumptions(str(found), {} if left is not None or data is not None else mechanism.assumptions))
    return HOLDS
