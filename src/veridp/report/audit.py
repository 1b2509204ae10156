"""Verdicts for people: a page for one, a table for several; and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from veridp.claim import Standing, Verdict, Witness, data_text, with_assumptions

COLOURS = {Standing.PROVED: "bold green", Standing.REFUTED: "bold red", Standing.NOT_REFUTED: "bold yellow"}
HEADINGS = ["mechanism", "claims", "ε", "verdict", "how", "seconds"]
UNJUDGED = "unjudged"


@dataclass(frozen=True)
class Audited:
    """A target with its verdict, or with the reason why there is none; and where the mechanism's code begins."""

    target: str
    verdict: Verdict | None
    reason: str = ""
    file: str = ""
    line: int = 0

    @property
    def refuted(self) -> bool:
        return self.verdict is not None and self.verdict.standing is Standing.REFUTED


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.6g}"


# ---------------------------------------------------------------------------------------------------- for people


def verdict_page(verdict: Verdict) -> RenderableType:
    """Everything that the verdict says, the standing first."""
    standing = verdict.standing.value.upper()
    head = Text.assemble(
        (standing, COLOURS[verdict.standing]),
        with_assumptions(
            f"  {verdict.mechanism} claims {verdict.claim}: {verdict.epsilon.statement('ε')}", verdict.assumed
        ),
    )
    return Group(head, *(Text(line) for line in _lines(verdict)))


def _lines(verdict: Verdict) -> list[str]:
    lines = [f"    {verdict.how}", *(f"    {caveat}" for caveat in verdict.caveats)]
    if verdict.standing is not Standing.PROVED and math.isfinite(verdict.epsilon.upper):
        lines.append(f"    {_number(verdict.epsilon.upper)}-DP is proved {verdict.scope}")
    if verdict.witness is not None:
        lines += _witness_lines(verdict.witness, verdict.claim.tolerated.delta)
    if verdict.alignment:
        lines += ["proof, where it costs most", f"    {verdict.alignment}"]
    if verdict.look_at:
        lines += ["first look at", *(f"    {remark}" for remark in verdict.look_at)]
    if verdict.searched:
        lines += ["searched", *(f"    {what}" for what in verdict.searched), *_limits(verdict)]
    lines += ["engines", *(f"    {one.engine} ({one.seconds:.1f} s): {one.finding}" for one in verdict.evidence)]
    if verdict.snippet:
        lines += ["to see it again", *(f"    {line}" for line in verdict.snippet.splitlines())]
    versions = ", ".join(f"{name} {number}" for name, number in verdict.versions.items())
    return [*lines, f"seed {verdict.seed}; {versions}"]


def _witness_lines(witness: Witness, delta: float) -> list[str]:
    sure = "exactly" if witness.confidence == 1 else f"at confidence {witness.confidence:g}"
    low_bits = ", as floats, whose low bits the event may look at" if witness.as_floats else ""
    return [
        f"witness ({sure}: ε >= {_number(max(witness.epsilon(delta).lower, 0.0))}{low_bits})",
        f"    left   {data_text(witness.left)}",
        f"    right  {data_text(witness.right)}",
        f"    event  {witness.event}",
        f"    probability {witness.left_probability} on left, {witness.right_probability} on right",
    ]


def _limits(verdict: Verdict) -> list[str]:
    lines = []
    if verdict.smallest_mass:
        lines.append(f"    events of probability below {verdict.smallest_mass:.2g} could not be noticed")
    if verdict.alpha:
        lines.append(f"    a false alarm has probability at most {verdict.alpha:g}")
    return lines if verdict.finished else [*lines, "    the search was cut short"]


def audited_page(results: Sequence[Audited]) -> RenderableType:
    """A table with a line for each target, then the witness of every refuted claim, then what verdicts depend on."""
    lines = [line for one in results if one.refuted for line in [one.target, *_witness_of(one)]]
    lines += [f"{one.target}: {caveat}" for one in results if one.verdict for caveat in one.verdict.caveats]
    return Group(_table(results), *map(Text, lines))


def _table(results: Sequence[Audited]) -> Table:
    table = Table(*HEADINGS)
    for one in results:
        style = "dim" if one.verdict is None else COLOURS[one.verdict.standing]
        name, claim, interval, standing, how, seconds = map(Text, _cells(one))
        standing.stylize(style)
        table.add_row(name, claim, interval, standing, how, seconds)
    return table


def _cells(one: Audited) -> list[str]:
    verdict = one.verdict
    if verdict is None:
        return [one.target, "", "", UNJUDGED.upper(), one.reason, ""]
    standing, how = verdict.standing.value.upper(), with_assumptions(verdict.how, verdict.assumed)
    return [one.target, str(verdict.claim), str(verdict.epsilon), standing, how, f"{verdict.seconds:.1f}"]


def _witness_of(one: Audited) -> list[str]:
    verdict = one.verdict
    return (
        []
        if verdict is None or verdict.witness is None
        else _witness_lines(verdict.witness, verdict.claim.tolerated.delta)
    )


def audited_markdown(results: Sequence[Audited]) -> str:
    """The table as a page, with the witness of every refuted claim."""
    rows = [HEADINGS, ["---"] * len(HEADINGS), *map(_cells, results)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    parts = ["# Audit", table]
    parts += [f"{one.target}: {caveat}." for one in results if one.verdict for caveat in one.verdict.caveats]
    for one in results:
        if one.refuted and one.verdict is not None:
            witness = "\n".join(_witness_of(one))
            look = "".join(f"First look at {remark}.\n\n" for remark in one.verdict.look_at[:1])
            parts.append(f"## {one.target}\n\n{look}```text\n{witness}\n```\n\n```python\n{one.verdict.snippet}\n```")
    return "\n\n".join(parts) + "\n"


# ------------------------------------------------------------------------------------------------- as plain data


def audited_document(one: Audited) -> dict[str, Any]:
    """The target with its verdict, or with the reason why there is none, as plain data."""
    judged = {"standing": UNJUDGED, "reason": one.reason} if one.verdict is None else one.verdict.to_dict()
    return {"target": one.target, **judged}
