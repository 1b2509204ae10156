"""`veridp catalogue`, `explore`, `exact` and `schema`: the mechanisms that veridp knows, the paths of one, the exact
privacy loss between two inputs or of the worst pair found, and what `--json` prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from veridp.budget import Deadline
from veridp.catalogue import catalogue
from veridp.cli.options import (
    Arg,
    AsJson,
    Data,
    Epsilon,
    HtmlFile,
    MarkdownFile,
    MechanismOptions,
    Size,
    Target,
    Time,
    chosen_data,
    chosen_mechanism,
    literal,
    seconds,
    stating,
)
from veridp.cli.output import (
    FAILS,
    HOLDS,
    print_json,
    progress_bar,
    show,
    show_json,
    status_line,
    user_code,
    write_report,
    write_result_page,
)
from veridp.errors import BadInput, VeridpError
from veridp.kernel.explore import MAX_PATHS, explore
from veridp.kernel.output import Raised
from veridp.kernel.symbols import count_text
from veridp.mechanism import Mechanism
from veridp.report.listing import entries, listing, markdown, path_lines, path_tree
from veridp.result import Result
from veridp.sampling.sample import check_returns

if TYPE_CHECKING:
    from veridp.report.exact import ComparedMechanism


# ----------------------------------------------------------------------------------------------------------- catalogue
# `veridp catalogue`: the mechanisms that veridp knows.


def list_catalogue(
    as_json: AsJson = False,
    report: MarkdownFile = None,
) -> None:
    """List the mechanisms of the literature that veridp knows, right and wrong, with their true costs."""
    listed = entries(catalogue)
    if report is not None:
        write_report(report, markdown(listed))
    if as_json:
        show_json("catalogue", *({"target": entry.name, **entry.as_dict()} for entry in listed))
    else:
        show(listing(listed, Console().width))


# ------------------------------------------------------------------------------------------------------------- explore
# `veridp explore TARGET`: the paths of a mechanism.


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


# -------------------------------------------------------------------------------------------------------------- schema
# `veridp schema`: the JSON schema of what commands print with `--json`.


FILE = "output.schema.json"


def show_schema() -> None:
    """Print the JSON schema of the documents that --json prints."""
    print_json(json.loads((files("veridp.report") / FILE).read_text(encoding="utf-8")))


# --------------------------------------------------------------------------------------------------------------- exact
# `veridp exact TARGET`: the exact privacy loss between two inputs, or of the worst pair that a search finds.


CERTIFYING_SHARE = 0.3  # of the time, where what a search finds is to be certified

TargetIfAny = Annotated[
    str | None, typer.Argument(help="file.py:function, package.module:function, or a catalogue name")
]
CompareTime = Annotated[
    float | None,
    typer.Option("--time", parser=seconds, help="how long it may take: 90, 90s, 2m; 60s, or 3s each with --all"),
]
Plot = Annotated[Path | None, typer.Option(help="draw both distributions and the privacy profile to this file")]


@stating
def show_exact(
    stated: MechanismOptions,
    target: TargetIfAny = None,
    left: Annotated[str | None, typer.Option(help="one input, as a Python literal")] = None,
    right: Annotated[str | None, typer.Option(help="its neighbour, as a Python literal")] = None,
    time: CompareTime = None,
    certified: Annotated[bool, typer.Option("--certified", help="enclose the answer, whatever the rounding")] = False,
    notions: Annotated[bool, typer.Option("--notions", help="print ρ (zCDP), μ (GDP), Rényi divergences")] = False,
    most: Annotated[int, typer.Option("--show", min=1, help="print at most so many outputs")] = 12,
    plot: Plot = None,
    html: HtmlFile = None,
    everything: Annotated[bool, typer.Option("--all", help="compare every mechanism of the catalogue")] = False,
    report: MarkdownFile = None,
    as_json: AsJson = False,
) -> int:
    """Print the exact ε between two inputs (--left, --right), or of the worst pair found; exit 1 if above the claim."""
    if everything:
        if target is not None:
            raise BadInput(f"--all compares the whole catalogue; leave out {target!r}, or leave out --all")
        return _show_all(3.0 if time is None else time, report, as_json)
    if target is None:
        raise BadInput("no mechanism; give file.py:function, package.module:function or a catalogue name, or --all")
    if (left is None) != (right is None):
        raise BadInput("--left and --right go together; give both, or neither to search for the worst pair")
    from veridp.engines.exact import (  # numerics take longer to import than all the rest: only where needed
        compare,
        worst,
    )
    from veridp.report.exact import comparison_page

    deadline = Deadline(60.0 if time is None else time)
    with user_code():
        mechanism = stated.mechanism(target, deadline)
        if left is not None and right is not None:
            pair = literal("--left", left), literal("--right", right)
            search, comparison = None, compare(mechanism, *pair, certified=certified, seconds=deadline.left)
        else:
            with _progress(mechanism.name) as progress:
                share = CERTIFYING_SHARE if certified else 0.0
                search = worst(mechanism, stated.size, seconds=deadline.left * (1 - share), progress=progress)
            comparison = search.comparison
            if certified:
                pair = comparison.left, comparison.right
                comparison = compare(mechanism, *pair, certified=True, seconds=max(deadline.left, 1e-3))
                search = replace(search, comparison=comparison)
        result: Result = comparison if search is None else search
        costs = comparison.notions(seconds=max(deadline.left, 1e-3)) if notions else None
        document, page = result.to_dict(), comparison_page(comparison, search, most, costs)
        if costs is not None:
            document["notions"] = costs.to_dict()
        status = FAILS if comparison.refuted else HOLDS
    if plot is not None:
        from veridp.report.exact import plot_comparison

        plot_comparison(comparison, plot)
    write_result_page(html, target, result)
    if as_json:
        show_json("exact", {"target": target, **document})
    else:
        show(page)
    return status


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str, int, float], None]]:
    """A line on stderr that tells how the search stands, where somebody may be looking."""
    with status_line(f"{name}: exploring") as tell:

        def update(stage: str, tried: int, best: float) -> None:
            tell(f"{name}: {stage}, {count_text(tried, 'pair')} tried, ε >= {best:.6g}")

        yield update


def _show_all(seconds: float, report: Path | None, as_json: bool) -> int:
    from veridp.report.exact import catalogue_markdown, catalogue_table

    lines = []
    with progress_bar("comparing") as progress:
        for number, name in enumerate(catalogue):
            progress(name, number / len(catalogue), 0.0)
            lines.append(_line(name, catalogue[name], seconds))
    if report is not None:
        write_report(report, catalogue_markdown(lines))
    if as_json:
        show_json("exact", *({"target": line.name, **line.as_dict()} for line in lines))
    else:
        show(catalogue_table(lines))
    return 0


def _line(name: str, mechanism: Mechanism, seconds: float) -> ComparedMechanism:
    from veridp.claim import number
    from veridp.engines.exact import worst
    from veridp.report.exact import ComparedMechanism

    start = perf_counter()
    known: dict[str, Any] = {"name": name, "size": mechanism.size, "claim": mechanism.claim}
    known["true"] = mechanism.true_epsilon(mechanism.size)
    try:
        found = worst(mechanism, seconds=seconds)
        mass = found.witness.left_probability.lower
    except VeridpError as error:
        return ComparedMechanism(**known, found=None, mass=None, seconds=perf_counter() - start, note=str(error))
    claim = mechanism.claim
    note = ""
    if claim is not None and claim.delta:
        note = f"δ({claim.epsilon:g}) = {number(found.delta(claim.epsilon))}"
    if found.refuted:
        note = f"claim exceeded{', ' + note if note else ''}"
    return ComparedMechanism(**known, found=found.epsilon, mass=mass, seconds=perf_counter() - start, note=note)
