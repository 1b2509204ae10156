"""Draws `docs/audit.svg`, the picture of a terminal in the README, from an audit that it runs."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

import veridp
from veridp.report.audit import Audited, audited_table, verdict_page

TARGETS = ("svt1", "svt4", "noisy_max1", "noisy_max3", "smart_sum", "prefix_sum")


def main() -> None:
    console = Console(record=True, width=132, file=io.StringIO())
    console.print(f"$ veridp audit {' '.join(TARGETS)} --size 5", style="bold", highlight=False)
    results = [Audited(name, veridp.audit(veridp.catalogue[name], size=5, seconds=10)) for name in TARGETS]
    console.print(audited_table(results))
    console.print("$ veridp audit svt4 --size 5", style="bold", highlight=False)
    console.print(verdict_page(veridp.audit(veridp.catalogue["svt4"], size=5, seconds=10)))
    picture = Path(__file__).parent / "audit.svg"
    picture.write_text(console.export_svg(title="veridp"), encoding="utf-8")


if __name__ == "__main__":
    main()
