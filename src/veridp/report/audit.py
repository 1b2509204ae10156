"""Verdicts for people, as a page or a table, and for other programs and papers: plain data, JUnit XML, SARIF 2.1.0,
CSV, and LaTeX with the rules of booktabs."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from veridp.claim import Claim, Witness, data_text, number
from veridp.errors import BadInput
from veridp.verdict import FloatCost, Remark, Standing, Verdict, with_assumptions

# --------------------------------------------------------------------------------------------------------------- audit
# Verdicts for people: a page for one, a table for several; and as plain data.


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


# ---------------------------------------------------------------------------------------------------- for people


def verdict_page(verdict: Verdict) -> RenderableType:
    """Everything that the verdict says, the standing first."""
    standing = verdict.standing.value.upper()
    head = Text.assemble(
        (standing, COLOURS[verdict.standing]),
        with_assumptions(f"  {verdict.mechanism} claims {verdict.claim}: {verdict.bounds_text}", verdict.assumed),
    )
    return Group(head, *(Text(line) for line in _lines(verdict)))


def _lines(verdict: Verdict) -> list[str]:
    lines = [f"    {verdict.how}", *(f"    {caveat}" for caveat in verdict.caveats)]
    if verdict.standing is not Standing.PROVED and math.isfinite(verdict.epsilon.upper):
        lines.append(f"    {number(verdict.epsilon.upper)}-DP is proved {verdict.scope}")
    if verdict.witness is not None:
        lines += _witness_lines(verdict.witness, verdict.claim)
    if verdict.as_floats is not None:
        lines += _float_lines(verdict.as_floats)
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
    return [*lines, "; ".join(filter(None, [f"seed {verdict.seed}", versions, verdict.source]))]


def _witness_lines(witness: Witness, claim: Claim) -> list[str]:
    sure = "exactly" if witness.confidence == 1 else f"at confidence {witness.confidence:g}"
    low_bits = ", as floats, whose low bits the event may look at" if witness.as_floats else ""
    epsilon = f"ε >= {number(max(witness.epsilon(claim.tolerated.delta).lower, 0.0))}"
    return [
        f"witness ({sure}: {claim.violation(witness) or epsilon}{low_bits})",
        f"    left   {data_text(witness.left)}",
        f"    right  {data_text(witness.right)}",
        f"    event  {witness.event}",
        f"    probability {witness.left_probability} on left, {witness.right_probability} on right",
        *_exceeded(witness),
    ]


def _float_lines(cost: FloatCost) -> list[str]:
    witness = cost.witness
    event = (
        [] if witness is None else [f"    {witness}", "    round the output to a grid, or use a mechanism that does"]
    )
    return ["as floats", f"    {cost}", *event, *(f"    {fault}" for fault in cost.faults)]


def _exceeded(witness: Witness) -> list[str]:
    point = witness.exceeds
    if point is None:
        return []
    plus = f" + {point.delta:g}" if point.delta else ""
    return [f"    a sequential test shows P[left] > e^{number(point.epsilon)} P[right]{plus}"]


def _limits(verdict: Verdict) -> list[str]:
    lines = []
    if verdict.detectable is not None:
        lines.append(f"    {verdict.detectable}")
    if verdict.smallest_mass:
        lines.append(f"    events of probability below {verdict.smallest_mass:.2g} could not be noticed")
    if verdict.alpha:
        lines.append(f"    a false alarm has probability at most {verdict.alpha:g}")
    if verdict.rate_text:
        lines.append(f"    {verdict.rate_text}")
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
    how = f"{how}; {verdict.source}" if verdict.source else how
    return [one.target, str(verdict.claim), str(verdict.epsilon), standing, how, f"{verdict.seconds:.1f}"]


def _witness_of(one: Audited) -> list[str]:
    verdict = one.verdict
    return [] if verdict is None or verdict.witness is None else _witness_lines(verdict.witness, verdict.claim)


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


# ------------------------------------------------------------------------------------------------------------------ ci
# Verdicts for machines that watch a project: JUnit XML, and SARIF 2.1.0 with the user's file and line.


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
REFUTED, OPEN, PROVED, FAILED = "VDP001", "VDP002", "VDP003", "VDP900"
RULES = {
    REFUTED: ("PrivacyClaimRefuted", "The mechanism does not keep the privacy that it claims.", "error"),
    OPEN: ("PrivacyClaimNotProved", "Nothing above the privacy claim was found, but it is not proved.", "note"),
    PROVED: ("PrivacyClaimProved", "The privacy claim is proved for the stated neighbours and size.", "none"),
    FAILED: ("MechanismNotJudged", "The mechanism could not be judged.", "warning"),
}
RULE_OF = {Standing.REFUTED: REFUTED, Standing.NOT_REFUTED: OPEN, Standing.PROVED: PROVED}
KIND = {REFUTED: "fail", OPEN: "open", PROVED: "pass", FAILED: "review"}


def junit(results: Sequence[Audited]) -> str:
    """A test case for each target: a failure where it is refuted, an error where it could not be judged."""
    failures = sum(_rule(one) == REFUTED for one in results)
    errors = sum(_rule(one) == FAILED for one in results)
    seconds = sum(one.verdict.seconds for one in results if one.verdict is not None)
    attributes = {"tests": len(results), "failures": failures, "errors": errors, "time": f"{seconds:.3f}"}
    suite = ElementTree.Element(
        "testsuite", {"name": "veridp", **{key: str(value) for key, value in attributes.items()}}
    )
    for one in results:
        took = 0.0 if one.verdict is None else one.verdict.seconds
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "veridp", "name": one.target, "time": f"{took:.3f}"}
        )
        if _rule(one) == REFUTED:
            ElementTree.SubElement(case, "failure", {"type": REFUTED, "message": _message(one)}).text = _details(one)
        elif _rule(one) == FAILED:
            ElementTree.SubElement(case, "error", {"type": FAILED, "message": one.reason})
        else:
            ElementTree.SubElement(case, "system-out").text = _message(one)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def sarif(results: Sequence[Audited], version: str) -> dict[str, Any]:
    """A SARIF log with a result for each target; rule ids stay the same from version to version."""
    rules = [
        {
            "id": rule,
            "name": name,
            "shortDescription": {"text": text},
            "defaultConfiguration": {"level": level},
        }
        for rule, (name, text, level) in RULES.items()
    ]
    driver = {"name": "veridp", "version": version, "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [*map(_result, results)]}],
    }


def _result(one: Audited) -> dict[str, Any]:
    rule = _rule(one)
    document: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "kind": KIND[rule],
        "level": RULES[rule][2] if KIND[rule] == "fail" else "none",
        "message": {"text": _message(one)},
        "partialFingerprints": {"veridpTarget/v1": f"{rule}:{one.target}"},
    }
    place = _place(one)
    if place.file:
        location = {"artifactLocation": {"uri": _uri(place.file)}, "region": {"startLine": max(place.line, 1)}}
        document["locations"] = [{"physicalLocation": location}]
    return document


def _place(one: Audited) -> Remark:
    """The line to show: the first thing to look at, or where the mechanism begins."""
    remarks = () if one.verdict is None else one.verdict.look_at
    return next((remark for remark in remarks if remark.file), Remark("", one.file, one.line))


def _uri(file: str) -> str:
    """The path from here, as these logs want it, where the file is below this folder."""
    relative = os.path.relpath(file)
    return (file if relative.startswith("..") else relative).replace(os.sep, "/")


def _rule(one: Audited) -> str:
    return FAILED if one.verdict is None else RULE_OF[one.verdict.standing]


def _message(one: Audited) -> str:
    verdict = one.verdict
    if verdict is None:
        return one.reason
    look = f" First look at: {verdict.look_at[0].sentence}." if verdict.look_at else ""
    known = f"{verdict.mechanism}: {verdict.claim} is {verdict.standing.value}, {verdict.bounds_text} ({verdict.how}"
    caveats = "".join(f" {caveat[0].upper()}{caveat[1:]}." for caveat in verdict.caveats)
    return f"{with_assumptions(known, verdict.assumed)}).{caveats}{look}"


def _details(one: Audited) -> str:
    verdict: Verdict | None = one.verdict
    if verdict is None or verdict.witness is None:
        return ""
    witness = verdict.witness
    inputs = f"left = {data_text(witness.left)}\nright = {data_text(witness.right)}"
    return f"{inputs}\nevent: {witness.event}\n\n{verdict.snippet}\n"


# --------------------------------------------------------------------------------------------------------------- tables

LATEX_HEADINGS = ("Mechanism", "Claim", r"$\varepsilon$", "Verdict", "Rests on")
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "α": r"$\alpha$", "μ": r"$\mu$", "ρ": r"$\rho$", "∞": r"$\infty$",
    "≤": r"$\le$", "≥": r"$\ge$", "—": "---", "…": r"\dots{}",
}  # fmt: skip


def audited_table(results: Sequence[Audited], suffix: str) -> str:
    """The results as a table in the format of this suffix: .csv or .tex."""
    formats = {".csv": _csv, ".tex": _latex}
    if suffix not in formats:
        raise BadInput(f"a table is CSV or LaTeX, not {suffix or 'without an ending'}; give a file such as audit.csv")
    return formats[suffix](results)


def audited_row(one: Audited) -> dict[str, Any]:
    """The result in plain columns; empty where there is no verdict."""
    verdict = one.verdict
    row: dict[str, Any] = {"target": one.target, "standing": UNJUDGED}
    return row | ({"reason": one.reason} if verdict is None else _columns(verdict))


def _columns(verdict: Verdict) -> dict[str, Any]:
    witness, claim = verdict.witness, verdict.claim
    return {
        "standing": verdict.standing.value,
        "claim": str(claim),
        "epsilon_claimed": claim.epsilon,
        "delta_claimed": claim.delta,
        "epsilon_lower": verdict.epsilon.lower,
        "epsilon_upper": verdict.epsilon.upper,
        "confidence": "" if witness is None else witness.confidence,
        "how": verdict.how,
        "left": "" if witness is None else str(witness.left),
        "right": "" if witness is None else str(witness.right),
        "event": "" if witness is None else str(witness.event),
        "left_probability": "" if witness is None else witness.left_probability.lower,
        "right_probability": "" if witness is None else witness.right_probability.upper,
        "assumed": verdict.assumption,
        "finished": verdict.finished,
        "seconds": f"{verdict.seconds:.3f}",
        "reason": "",
    }


def _csv(results: Sequence[Audited]) -> str:
    rows = [audited_row(one) for one in results]
    names = list(dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _latex(results: Sequence[Audited]) -> str:
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{tabular}{lllll}",
        r"\toprule",
        " & ".join(LATEX_HEADINGS) + r" \\",
        r"\midrule",
        *(" & ".join(cells) + r" \\" for cells in map(_latex_cells, results)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cells(one: Audited) -> list[str]:
    verdict = one.verdict
    if verdict is None:
        return [rf"\texttt{{{_escaped(one.target)}}}", "", "", UNJUDGED, _escaped(one.reason)]
    standing = verdict.standing.value
    shown = rf"\textbf{{{standing}}}" if verdict.standing is Standing.REFUTED else standing
    how = "; ".join(filter(None, (verdict.how, verdict.assumption)))
    name = rf"\texttt{{{_escaped(one.target)}}}"
    return [name, _escaped(str(verdict.claim)), _escaped(str(verdict.epsilon)), shown, _escaped(how)]


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))
