"""`veridp pipeline TARGET`: two aligned runs of a program, on given inputs or on pairs that are searched for."""

from __future__ import annotations

from typing import Annotated

import typer

from veridp.budget import Deadline
from veridp.claim import with_assumptions
from veridp.cli.options import AsJson, Data, MechanismOptions, Seed, Target, Time, literal, stating
from veridp.cli.output import HOLDS, progress_bar, show, show_json, user_code
from veridp.errors import BadInput

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
    if as_json:
        show_json("pipeline", {"target": target, **found.to_dict()})
    else:
        show(with_assumptions(str(found), {} if left is not None or data is not None else mechanism.assumptions))
    return HOLDS
