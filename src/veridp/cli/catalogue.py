"""`veridp catalogue`: the mechanisms that veridp knows."""

from __future__ import annotations

from rich.console import Console

from veridp.catalogue import catalogue
from veridp.cli.options import AsJson, MarkdownFile
from veridp.cli.output import show, show_json, write_report
from veridp.report.catalogue import entries, listing, markdown


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
