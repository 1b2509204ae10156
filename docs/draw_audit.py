"""Draws `docs/audit.svg`, the picture of a terminal in the README: run `python docs/draw_audit.py`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import veridp
from veridp.report.audit import Audited, audited_page, verdict_page
from veridp.verdict import Verdict

TARGETS = ("noisy_max1", "svt4", "smart_sum", "prefix_sum")
SHOWN = "svt4"
SIZE, SECONDS = 5, 100.0  # more than enough, so that no verdict is cut short


def picture(targets: Sequence[str], shown: str) -> str:
    """A terminal with an audit of all targets, and one of a single target, as SVG."""
    console = Console(record=True, width=132, file=io.StringIO())
    results = [Audited(name, _audit(name)) for name in targets]
    console.print(f"$ veridp audit {' '.join(targets)} --size {SIZE}", style="bold", highlight=False)
    console.print(audited_page(results))
    console.print(f"$ veridp audit {shown} --size {SIZE}", style="bold", highlight=False)
    console.print(verdict_page(_audit(shown)))
    return console.export_svg(title="veridp")


def _audit(name: str) -> Verdict:
    return veridp.audit(veridp.catalogue[name], size=SIZE, seconds=SECONDS)


if __name__ == "__main__":
    Path(__file__).with_name("audit.svg").write_text(picture(TARGETS, SHOWN), encoding="utf-8")
