"""Detections for people: the curve of p-values in the terminal, as a picture and on a page."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from veridp.claim import Witness
from veridp.engines.statdp import CurvePoint, Detection
from veridp.errors import BadInput, extra
from veridp.verdict import with_assumptions

HEIGHT = 10  # lines of the curve in the terminal
CELL = 5  # columns for each test ε, where there is room
MARGIN = 7  # columns to the left of the curve
RAW, CORRECTED, BOTH = "●", "○", "◉"
SMALLEST = 1e-300


def p_text(value: float) -> str:
    """A p-value in three digits; one too small for a float as what it is known to be below.

    >>> p_text(0.0123456), p_text(0.0)
    ('0.0123', '<1e-300')
    """
    return f"<{SMALLEST:g}" if value < SMALLEST else f"{value:.3g}"


# ------------------------------------------------------------------------------------------------ in the terminal


def detection_page(detection: Detection) -> RenderableType:
    """The verdict, the witness, the curve, and what it all rests on."""
    refuted = detection.refuted
    head = Text.assemble(
        ("REFUTED" if refuted else "NOT REFUTED", "bold red" if refuted else "bold yellow"),
        with_assumptions(f"  {detection.mechanism} claims {detection.claim}", detection.mechanism.assumptions),
    )
    return Group(head, *(Text(line) for line in _summary(detection)), Text(), TerminalCurve(detection))


def _summary(detection: Detection) -> list[str]:
    lines = [
        f"p against the claim: {p_text(detection.corrected_p_value)}, corrected for all that was tested; "
        f"{p_text(detection.p_value)} as the paper reports it",
        f"ε >= {detection.epsilon_lower:.4g} at confidence {1 - detection.alpha:g}",
    ]
    if detection.witness is not None:
        lines += _witness_lines(detection.witness)
    lines += ["searched", *(f"    {what}" for what in detection.searched)]
    if not detection.finished:
        lines.append("    the search was cut short")
    return lines


def _witness_lines(witness: Witness) -> list[str]:
    arguments = ", ".join(f"{name}={value!r}" for name, value in witness.arguments.items())
    return [
        f"event  {witness.event}",
        f"    probability {witness.left_probability} on {witness.left}",
        f"    against     {witness.right_probability} on {witness.right}",
        *([f"    with {arguments}"] if arguments else []),
    ]


@dataclass(frozen=True)
class TerminalCurve:
    """p against test ε, drawn with characters within the width there is: the claimed ε has a line of its own."""

    detection: Detection

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = (options.max_width - MARGIN) // len(self.detection.curve)
        yield Text("\n".join(self.lines(max(1, min(CELL, room)))), no_wrap=True)

    def lines(self, cell: int) -> list[str]:
        """The lines of the drawing, with so many columns for each test ε."""
        points, claimed = self.detection.curve, self.detection.claimed
        lines = []
        for row in range(HEIGHT, -1, -1):
            marks = [f"{_mark(point, row, point is claimed):^{cell}}" for point in points]
            label = f"{row / HEIGHT:.1f}" if row % (HEIGHT // 2) == 0 else ""
            lines.append(f"{label:>{MARGIN - 2}} │{''.join(marks)}")
        lines.append(f"{'':>{MARGIN - 2}} └{'─' * (cell * len(points))}")
        lines.append(f"{'':>{MARGIN}}{_labels(points, cell)}")
        lines.append(f"{'':>{MARGIN}}test ε (┊ claimed)   {RAW} p, {CORRECTED} corrected, {BOTH} both")
        return [line.rstrip() for line in lines]


def _mark(point: CurvePoint, row: int, claimed: bool) -> str:
    raw, corrected = (round(value * HEIGHT) == row for value in (point.p_value, point.corrected_p_value))
    return BOTH if raw and corrected else RAW if raw else CORRECTED if corrected else "┊" if claimed else " "


def _labels(points: Sequence[CurvePoint], cell: int) -> str:
    """The test ε below their columns, as many as there is room for."""
    every = -(-CELL // cell)
    return "".join(f"{point.epsilon:^{cell * every}.3g}" for point in points[::every])


# ------------------------------------------------------------------------------------------------------ as pictures


def write_plot(detections: Sequence[Detection], path: Path) -> None:
    """Write the curves to a file: a picture (PNG, SVG or PDF by its ending), or a page (HTML) around one."""
    if path.suffix.lower() in (".html", ".htm"):
        text = html_page(detections)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"--plot {path}: {error.strerror}; give a file that can be written") from None
        return
    try:
        _figure(detections).savefig(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"--plot {path}: {error}; give a file that ends in .png, .svg, .pdf or .html") from None


def _figure(detections: Sequence[Detection]) -> Any:
    """p against test ε, a line for each detection, its claimed ε a vertical one of the same colour."""
    with extra("plot", "plots need"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for detection in detections:
        levels = [point.epsilon for point in detection.curve]
        (line,) = axes.plot(
            levels, [point.p_value for point in detection.curve], marker="o", label=f"claimed {detection.claim}"
        )
        corrected = [point.corrected_p_value for point in detection.curve]
        axes.plot(levels, corrected, color=line.get_color(), linestyle="--", linewidth=1)
        axes.axvline(detection.claim.epsilon, color=line.get_color(), linestyle=":")
    axes.axhline(detections[0].alpha, color="grey", linewidth=0.8)
    axes.set_xlabel("test ε")
    axes.set_ylabel("p-value (dashed: corrected)")
    axes.set_ylim(-0.03, 1.03)
    axes.set_title(detections[0].mechanism.name)
    axes.legend()
    return figure


def html_page(detections: Sequence[Detection]) -> str:
    """A page that stands by itself: the curves, and for each detection its verdict, its witness and its table."""
    drawing = io.StringIO()
    _figure(detections).savefig(drawing, format="svg")
    picture = drawing.getvalue()[drawing.getvalue().index("<svg") :]
    name = html.escape(detections[0].mechanism.name)
    parts = "".join(map(_section, detections))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: StatDP</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right}"
        "td:last-child,th:last-child{text-align:left}tr.claimed{font-weight:bold}svg{max-width:100%;height:auto}"
        f"</style></head><body><h1>{name}</h1>\n{picture}\n{parts}</body></html>\n"
    )


def _section(detection: Detection) -> str:
    head = f"{detection.claim} is {'refuted' if detection.refuted else 'not refuted'}"
    lines = "\n".join(_summary(detection))
    rows = "".join(_row(point, point is detection.claimed) for point in detection.curve)
    columns = "".join(f"<th>{name}</th>" for name in ("test ε", "p", "corrected p", "event"))
    return f"<h2>{html.escape(head)}</h2><pre>{html.escape(lines)}</pre>\n<table><tr>{columns}</tr>{rows}</table>\n"


def _row(point: CurvePoint, claimed: bool) -> str:
    cells = [f"{point.epsilon:.4g}", p_text(point.p_value), p_text(point.corrected_p_value), _event_text(point)]
    shown = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr{' class=claimed' if claimed else ''}>{shown}</tr>"


def _event_text(point: CurvePoint) -> str:
    return "none is frequent enough" if point.event is None else f"{point.event}; {point.left} against {point.right}"
