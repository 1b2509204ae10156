"""`veridp statdp TARGET`: statistical tests of a claim, with a counterexample that a person understands."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from veridp.budget import Deadline
from veridp.cli.options import Arg, AsJson, Epsilon, Relation, Seed, Size, Target, Values, chosen_mechanism, seconds
from veridp.cli.output import FAILS, HOLDS, progress_bar, show, show_json, user_code
from veridp.errors import BadInput

MOST_LEVELS = 1000

Levels = Annotated[
    str | None,
    typer.Option("--test-epsilons", help="what to test against: first:last:step, or numbers with commas between"),
]


def show_detection(
    target: Target,
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
    as_json: AsJson = False,
) -> int:
    """Test what a mechanism claims on samples, and draw the p-value against ε; exit 1 if the claim is refuted."""
    from veridp.engines.statdp import detect
    from veridp.report.statdp import detection_page, write_plot  # numerics: only where needed

    levels = None if test_epsilons is None else parsed_levels(test_epsilons)
    with user_code():
        deadline = Deadline(math.inf if time is None else time)
        mechanism = chosen_mechanism(target, epsilon, arg, None, relation, domain=domain, size=size, deadline=deadline)
        with progress_bar(target) as progress:
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
            )
    if plot is not None:
        write_plot([detection], plot)
    if as_json:
        show_json("statdp", {"target": target, **detection.to_dict()})
    else:
        show(detection_page(detection))
    return FAILS if detection.refuted else HOLDS


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
