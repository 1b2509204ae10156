"""`veridp local …`: perturb, aggregate and estimate, from values to estimates through files; evaluate, the study of
estimates and gains; and attack."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from veridp.cli.local_attack import show_attack
from veridp.cli.options import AsJson, Confidence, Seed
from veridp.cli.output import HOLDS, NOT_JUDGED, progress_bar, show, show_json, write_report
from veridp.cli.tables import (
    STDIN,
    Column,
    Errors,
    FileFormat,
    Files,
    Format,
    OnError,
    Output,
    Range,
    RowTally,
    Writer,
    batches,
    chosen_ends,
    named,
    planned,
    tell,
    text_of,
    usable,
)
from veridp.errors import BadInput, extra

if TYPE_CHECKING:
    from veridp.budget import Progress
    from veridp.collect.evaluation import ProtocolStudy
    from veridp.local.oracle import Counts
    from veridp.local.plan import Plan
    from veridp.local.study import People, Study


# ------------------------------------------------------------------------------------------------------------- collect
# `veridp local perturb`, `aggregate` and `estimate`: the way from values to estimates, through files.


OwnSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="for tests only: who knows it can undo the noise. Fresh if not given"),
]


@planned
def perturb_values(
    chosen: Plan,
    files: Files = None,
    column: Column = None,
    output: Output = None,
    form: FileFormat = None,
    on_error: Errors = OnError.fail,
    save_plan: Annotated[
        Path | None, typer.Option(help="also write the plan to this file, for the other commands")
    ] = None,
    seed: OwnSeed = None,
) -> int:
    """Print a report for each value of a column: what may leave the device."""
    from veridp.local.plan import to_columns

    if save_plan is not None:
        write_report(save_plan, json.dumps(chosen.as_json(), indent=2, ensure_ascii=False) + "\n")
    rng = np.random.default_rng(seed)
    tally = RowTally(on_error)
    with _bar("perturbing") as progress, Writer(output) as writer:
        for batch in batches(files, None if column is None else [column], form):
            writer.write(to_columns(chosen.oracle.perturb(usable(chosen.parsed, batch, tally), rng)))
            progress(f"perturbing, {tally.read:,} rows", batch.share, 0.0)
    tell(tally)
    return 0


@planned
def aggregate_reports(
    chosen: Plan,
    files: Files = None,
    output: Output = None,
    form: FileFormat = None,
    on_error: Errors = OnError.fail,
) -> int:
    """Print the counts of reports, as one JSON document that `estimate` reads; those of many machines add up."""
    from veridp.local.plan import aggregated, column_names, from_columns, template

    like = template(chosen.oracle)
    total = chosen.oracle.aggregate(like)
    tally = RowTally(on_error)
    with _bar("aggregating") as progress:
        for batch in batches(files, column_names(like), form):
            tally.read += len(batch.lines) + len(batch.faults)
            reports, faults = from_columns(like, batch.columns)
            good = np.setdiff1d(np.arange(len(reports)), list(faults))
            counts, refused = aggregated(chosen.oracle, reports[good])
            by_line = dict(batch.faults)
            by_line |= {batch.lines[row]: reason for row, reason in faults.items()}
            by_line |= {batch.lines[int(good[row])]: reason for row, reason in refused.items()}
            for line, reason in sorted(by_line.items()):
                tally.fault(batch.source, line, reason)
            total = total + counts
            progress(f"aggregating, {tally.read:,} rows", batch.share, 0.0)
    rows = {"read": tally.read, "skipped": tally.skipped}
    document = {"target": named(files), "plan": chosen.as_json(), "counts": total.as_json(), "rows": rows}
    show_json("local aggregate", document, file=output)
    tell(tally)
    return 0


def show_estimate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="documents of counts by `aggregate`, added up; - or nothing for standard input"),
    ] = None,
    step: Annotated[
        list[str] | None, typer.Option(help="post-processing, in this order: clip, normalise, norm-sub, simplex")
    ] = None,
    confidence: Confidence = 0.95,
    most: Annotated[
        int, typer.Option("--show", min=1, help="print at most so many values, the most frequent first")
    ] = 20,
    output: Output = None,
    as_json: AsJson = False,
) -> int:
    """Print estimates with standard errors and intervals; unbiased unless steps are given."""
    from veridp.local import postprocess
    from veridp.local.means import BinnedGRR, mean_of
    from veridp.report.local import estimate_table

    plan, counts = _added(files or [STDIN])
    estimate = plan.oracle.estimate(counts)
    if plan.labels is not None:
        estimate = estimate.named(plan.labels)
    mean = plan.oracle.mean(counts) if isinstance(plan.oracle, BinnedGRR) else None
    if step:
        if plan.numeric and mean is None:
            raise BadInput(f"--step is for frequencies; {plan.oracle_name} estimates a mean")
        estimate = postprocess.apply(estimate, step)
        mean = None if mean is None else mean_of(estimate, plan.oracle.levels, mean.standard_error)  # type: ignore[attr-defined]
    if output is not None:
        ends = None if estimate.steps else estimate.interval(confidence)
        table = {"value": list(estimate.names), "estimate": estimate.values, "error": estimate.standard_errors}
        with Writer(output) as writer:
            writer.write(table if ends is None else table | {"lower": ends.lower, "upper": ends.upper})
    if as_json:
        show_json("local estimate", {"target": named(files), **_document(plan, estimate, mean, confidence)})
    elif output is None:
        show(estimate_table(estimate, confidence, most))
        if mean is not None:
            show(f"mean {mean.value:.6g}, standard error {mean.standard_error:.2g}")
    return 0


def _document(plan: Plan, estimate: Any, mean: Any, confidence: float) -> dict[str, object]:
    ends = None if estimate.steps else estimate.interval(confidence)
    rows = []
    for place, name in enumerate(estimate.names):
        row = {"value": name, "estimate": estimate.values[place], "error": estimate.standard_errors[place]}
        if ends is not None:
            row |= {"lower": ends.lower[place], "upper": ends.upper[place]}
        rows.append(row)
    document: dict[str, object] = {"plan": plan.as_json(), "users": estimate.users, "steps": list(estimate.steps)}
    document |= {"confidence": confidence, "estimates": rows}
    return document | ({} if mean is None else {"mean": mean.value, "mean_error": mean.standard_error})


def _added(files: list[Path]) -> tuple[Plan, Counts]:
    """The plan that all documents share, and their counts together."""
    from veridp.local.oracle import Counts
    from veridp.local.plan import Plan

    plan: Plan | None = None
    total: Counts | None = None
    for path in files:
        try:
            (document,) = json.loads(sys.stdin.read() if path == STDIN else text_of(path))["results"]
            own, counts = Plan.from_json(document["plan"]), Counts.from_json(document["counts"])
        except BadInput:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{path}: not a document of counts ({error}); make one with: veridp local aggregate"
            ) from None
        if plan is not None and own.as_json() != plan.as_json():
            raise BadInput(f"{path}: was collected with a different plan than {files[0]}; estimate them one by one")
        plan, total = own, counts if total is None else total + counts
    if plan is None or total is None:
        raise BadInput("give at least one document of counts")
    return plan, total


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Progress]:
    with progress_bar(name) as progress:
        progress(name, 0.0, 0.0)
        yield lambda stage, share, best: progress(stage.removeprefix(f"{name}, "), share, best)


# ------------------------------------------------------------------------------------------------------------ evaluate
# `veridp local evaluate`: the study of estimates and gains, on the Adult ages or on a column of one's own.


def show_study(
    data: Annotated[
        Path | None, typer.Option(help="a file with a column of numbers; the Adult ages if not given")
    ] = None,
    column: Column = None,
    ends: Range = None,
    form: FileFormat = None,
    on_error: Errors = OnError.fail,
    folder: Annotated[Path, typer.Option("--output", "-o", help="the folder for the page and the tables")] = Path(
        "report/local"
    ),
    repetitions: Annotated[int, typer.Option(min=2, help="how often everything is repeated")] = 20,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="fewer places on each curve")] = False,
    as_json: AsJson = False,
) -> int:
    """Repeat a published study: figures 1 to 9 and table 2 under their numbers, with what was published beside what is
    measured and computed here. Write a page with plots, and a CSV file for each plot."""
    with extra("collect", "figure 9 and table 2 need"):
        import msgpack
        import rbcl
        import sqlalchemy
    del msgpack, rbcl, sqlalchemy
    from veridp.collect.evaluation import evaluate_protocols, table_2_conclusions
    from veridp.local.study import StudySettings, adult_ages, evaluate
    from veridp.report.local import study_csv, study_page

    people = adult_ages() if data is None else _own(data, column, ends, on_error, form)
    fewer = {"epsilons": (0.1, 1.0, 10.0), "sizes": (20, 50, 80), "betas": (0.1, 0.5)} if quick else {}
    settings = StudySettings(repetitions=repetitions, seed=seed, **fewer)  # type: ignore[arg-type]
    with progress_bar(people.name) as progress:
        study = evaluate(people, settings, progress)
        protocols = evaluate_protocols(people, repetitions)
    for figure in study.figures:
        write_report(folder / f"{figure.name}.csv", study_csv(figure))
    write_report(folder / "index.html", study_page(study, protocols))
    if as_json:
        show_json("local evaluate", {"target": study.people.name, **_evaluate_document(study, protocols, folder)})
    else:
        show(_summary(study))
        for conclusion in table_2_conclusions(protocols.summaries):
            show(f"table 2: {conclusion.standing}: {conclusion.text.en}")
        show(f"{folder / 'index.html'} and a CSV file for each figure beside it")
    return HOLDS if study.finished else NOT_JUDGED


def _own(data: Path, column: str | None, ends: str | None, on_error: OnError, form: Format | None) -> People:
    """The people whose numbers the column holds."""
    from veridp.local.plan import parsed_numbers
    from veridp.local.study import People

    tally = RowTally(on_error)
    parts = [usable(parsed_numbers, batch, tally) for batch in batches([data], column and [column], form)]
    tell(tally)
    if not sum(map(len, parts)):
        raise BadInput(f"{data}: has no rows that can be used")
    low, high = (None, None) if ends is None else chosen_ends(ends)
    return People.own(column or data.stem, np.concatenate(parts), low, high)


def _summary(study: Study) -> Table:
    from veridp.report.local import agreement

    table = Table(box=None, pad_edge=False)
    for name in ("figure", "points", "within twice the interval of theory"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for figure in study.figures:
        agreeing, judged = agreement(figure)
        table.add_row(
            f"figure {figure.number}: {figure.title}",
            str(len(figure.points)),
            f"{agreeing} of {judged}" if judged else "",
        )
    return table


def _evaluate_document(study: Study, protocols: ProtocolStudy, folder: Path) -> dict[str, object]:
    from veridp.collect.evaluation import figure_9_conclusions, table_2_conclusions
    from veridp.local.conclusions import conclusions
    from veridp.local.study import as_rows

    said = {f"figure {one.number}": conclusions(one, study.people, study.settings) for one in study.figures}
    said["figure 9"] = figure_9_conclusions(protocols.commitments)
    said["table 2"] = table_2_conclusions(protocols.summaries)

    return {
        "people": study.people.name,
        "users": len(study.people.values),
        "mean": study.people.mean,
        "finished": study.finished,
        "page": str(folder / "index.html"),
        "figures": {figure.name: [_known(row) for row in as_rows(figure)] for figure in study.figures},
        "conclusions": {
            name: [{"agreement": str(one.standing), "text": one.text.en} for one in found]
            for name, found in said.items()
        },
        "protocols": [vars(row) for row in protocols.summaries],
        "commitment_costs": [vars(row) for row in protocols.commitments],
        "session_costs": [vars(row) for row in protocols.sessions],
        "several_numbers": [vars(row) for row in protocols.several],
        "session_attacks": [vars(row) for row in protocols.attacks],
    }


def _known(row: dict[str, object]) -> dict[str, object]:
    """The row with null where a table has an empty cell."""
    return {name: None if value == "" else value for name, value in row.items()}


app = typer.Typer(help="Collect under local privacy: perturb, aggregate, estimate; attack and evaluate.")
app.command("perturb")(perturb_values)
app.command("aggregate")(aggregate_reports)
app.command("estimate")(show_estimate)
app.command("attack")(show_attack)
app.command("evaluate")(show_study)
