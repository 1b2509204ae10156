"""`veridp sniper TARGET`: the strongest certified attack on a mechanism that can only be run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    literal,
    seconds,
)
from veridp.cli.output import FAILS, HOLDS, progress_bar, show, show_json, user_code
from veridp.errors import BadInput
from veridp.kernel.symbols import count_text

if TYPE_CHECKING:
    from veridp.engines.sniper import AttackResult


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


def show_attack(
    target: Target,
    size: Size = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    relation: Relation = None,
    domain: Values = None,
    arg: Arg = None,
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
    workers: Annotated[int | None, typer.Option(min=1, help="processes; one for each core if not given")] = None,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="draw the certified privacy profile to this file")] = None,
    as_json: AsJson = False,
) -> int:
    """Print a lower bound on ε that holds with the confidence, and the attack behind it; exit 1 if above the claim.

    Ctrl-C ends the search and prints the bound that was reached so far.
    """
    from veridp.engines.sniper import search  # numerics take longer to import than all the rest: only where needed

    with user_code():
        deadline = None if time is None else Deadline(time)
        mechanism = chosen_mechanism(target, epsilon, arg, delta, relation, domain=domain, size=size, deadline=deadline)
        if refute and mechanism.claim is None:
            raise BadInput("--refute needs a claim; give --epsilon")
        with progress_bar(target) as progress:
            finding = search(
                mechanism,
                size,
                pairs=None if pairs is None else _chosen_pairs(pairs),
                samples=samples,
                final_samples=final_samples,
                seconds=None if deadline is None else deadline.left,
                confidence=confidence,
                claim=mechanism.claim if refute else None,
                width=width,
                models=model,
                bits=bits,
                paper=paper,
                workers=workers,
                seed=seed,
                progress=progress,
            )
    if plot is not None:
        from veridp.report.plot import plot_profile

        plot_profile(finding, plot)
    if as_json:
        show_json("sniper", {"target": target, **finding.to_dict()})
    else:
        show("\n".join(_lines(target, finding)))
    return FAILS if finding.refuted else HOLDS


def _chosen_pairs(text: str) -> Any:
    """Names of sources, or pairs written out."""
    if text.lstrip().startswith(("[", "(")):
        return literal("--pairs", text)
    return [name.strip() for name in text.split(",")]


def _lines(target: str, finding: AttackResult) -> list[str]:
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
