"""Measures what is not measured yet, and writes the page and a CSV file for each artefact."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reproduction.artefact import Effort
from reproduction.page import page
from reproduction.registry import SOURCES
from reproduction.results import Run, load, save
from reproduction.steps import Steps

REPORT = Path("report") / "reproduction"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("--effort", type=Effort, choices=list(Effort), default=Effort.QUICK)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help=f"the folder to write to; {REPORT}/EFFORT if not given")
    parser.add_argument("--only", action="append", default=[], choices=[source.name for source in SOURCES])
    parser.add_argument("--results", type=Path, help="draw the page from the CSV files of this folder, measure nothing")
    options = parser.parse_args(words)
    folder = options.output or options.results or REPORT / options.effort
    if options.results is not None:
        measured, run = load(options.results)
    else:
        steps = Steps(REPORT / "steps", options.effort, options.seed, lambda line: print(line, flush=True))
        chosen = [source for source in SOURCES if not options.only or source.name in options.only]
        measured = [steps.measured(artefact) for source in chosen for artefact in source.artefacts]
        run = Run.here(steps, measured)
        save(folder, measured, run)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "page.html").write_text(page(measured, run), encoding="utf-8")
    print(f"wrote {folder / 'page.html'}")


if __name__ == "__main__":
    main()
