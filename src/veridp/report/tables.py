"""Verdicts as tables for other programs and for papers: CSV, and LaTeX with the rules of booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from veridp.claim import Standing, Verdict
from veridp.errors import BadInput
from veridp.report.audit import UNJUDGED, Audited

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
