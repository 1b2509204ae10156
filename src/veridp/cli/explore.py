"""`veridp explore TARGET`: the paths of a mechanism."""

from __future__ import annotations

from typing import Annotated

import typer

from veridp.budget import Deadline
from veridp.cli.options import Arg, AsJson, Data, Epsilon, Size, Target, Time, chosen_data, chosen_mechanism
from veridp.cli.output import show, show_json, user_code
from veridp.kernel.explore import MAX_PATHS, explore
from veridp.kernel.output import Raised
from veridp.report.tree import path_lines, path_tree
from veridp.sampling.sample import check_returns


def show_paths(
    target: Target,
    size: Size = None,
    data: Data = None,
    epsilon: Epsilon = None,
    arg: Arg = None,
    max_paths: Annotated[int, typer.Option(min=1, help="give up past so many paths")] = MAX_PATHS,
    defer: Annotated[bool, typer.Option("--defer", help="leave open what only ends up in the output")] = False,
    time: Time = 60.0,
    limit: Annotated[int, typer.Option("--show", min=1, help="print at most so many paths")] = 64,
    as_json: AsJson = False,
) -> None:
    """Print every path of a mechanism: the noise it draws, the branches it takes, the output it gives."""
    with user_code():
        deadline = Deadline(time)
        mechanism = chosen_mechanism(target, epsilon, arg, deadline=deadline)
        given = chosen_data(mechanism, size, data)
        paths = explore(mechanism, given, max_paths=max_paths, defer=defer, seconds=deadline.left)
        if all(isinstance(path.output, Raised) for path in paths):
            check_returns(mechanism, [given])
    if as_json:
        show_json(
            "explore",
            {"target": target, "mechanism": str(mechanism), "data": given, "paths": path_lines(paths)},
        )
        return
    plural = "" if len(paths) == 1 else "s"
    show(path_tree(f"{mechanism} on {given}: {len(paths)} path{plural}", paths, limit))
