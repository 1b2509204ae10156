"""`veridp local evaluate`: the study of estimates and gains, on the Adult ages or on a column of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

from veridp.cli.local.options import Column, Errors, FileFormat, Format, OnError, Range, chosen_ends
from veridp.cli.local.tables import RowTally, batches, tell, usable
from veridp.cli.options import AsJson, Seed
from veridp.cli.output import HOLDS, NOT_JUDGED, progress_bar, show, show_json, write_report
from veridp.errors import BadInput

if TYPE_CHECKING:
    from veridp.local.study import People, Study


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
    """Measure estimates and gains of attacks beside theory; write a page with plots, and a CSV file for each plot."""
    from veridp.local.study import StudySettings, adult_ages, evaluate
    from veridp.report.local import study_csv, study_page

    people = adult_ages() if data is None else _own(data, column, ends, on_error, form)
    fewer = {"epsilons": (0.1, 1.0, 10.0), "sizes": (20, 50, 80), "betas": (0.1, 0.5)} if quick else {}
    settings = StudySettings(repetitions=repetitions, seed=seed, **fewer)  # type: ignore[arg-type]
    with progress_bar(people.name) as progress:
        study = evaluate(people, settings, progress)
    for figure in study.figures:
        write_report(folder / f"{figure.name}.csv", study_csv(figure))
    write_report(folder / "index.html", study_page(study))
    if as_json:
        show_json("local evaluate", {"target": study.people.name, **_document(study, folder)})
    else:
        show(_summary(study))
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
        table.add_row(figure.title, str(len(figure.points)), f"{agreeing} of {judged}" if judged else "")
    return table


def _document(study: Study, folder: Path) -> dict[str, object]:
    from veridp.local.study.run import as_rows

    return {
        "people": study.people.name,
        "users": len(study.people.values),
        "mean": study.people.mean,
        "finished": study.finished,
        "page": str(folder / "index.html"),
        "figures": {figure.name: [_known(row) for row in as_rows(figure)] for figure in study.figures},
    }


def _known(row: dict[str, object]) -> dict[str, object]:
    """The row with null where a table has an empty cell."""
    return {name: None if value == "" else value for name, value in row.items()}
