"""Exact comparisons for people: a table of outputs, and the catalogue compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from veridp.claim import Claim, with_assumptions
from veridp.engines.exact import Comparison, Worst
from veridp.kernel.symbols import count_text

SAME_LOSS = 1e-9  # losses this close are shown as one number


def comparison_page(comparison: Comparison, search: Worst | None, most: int) -> RenderableType:
    """The outputs with their probabilities on either side, the worst first, and what follows from them."""
    table = Table("output", "p (left)", "q (right)", "ln p/q")
    for row in comparison.table[:most]:
        ratio = _log_ratio(row.left, row.right)
        loss = number(ratio) if abs(abs(ratio) - row.loss) < SAME_LOSS else f"up to ±{number(row.loss)}"
        table.add_row(Text(str(row.event)), number(row.left), number(row.right), loss)
    hidden = len(comparison.table) - most
    more = [Text(f"… and {hidden} more classes of outputs")] if hidden > 0 else []
    return Group(table, *more, *(Text(line) for line in _lines(comparison, search)))


def _lines(comparison: Comparison, search: Worst | None) -> list[str]:
    witness = comparison.witness
    lines = [
        f"left   {comparison.left}",
        f"right  {comparison.right}",
        f"ε = {number(comparison.epsilon)}, for instance where {witness.event}:",
        f"    probability {witness.left_probability} on {witness.left}",
        f"    against     {witness.right_probability} on {witness.right}",
    ]
    if search is not None:
        ended = "" if search.finished else ", cut short"
        tried = count_text(search.tried, "pair")
        lines.append(f"the worst of {tried} ({', '.join(search.searched)}{ended}); others may be worse")
    claim = comparison.claim
    if claim is not None:
        sentence = f"claimed {claim}: {judged(comparison, claim)}"
        lines.append(with_assumptions(sentence, comparison.mechanism.assumptions))
    elif comparison.as_floats:
        lines.append(comparison.as_floats)
    return lines


def judged(comparison: Comparison, claim: Claim) -> str:
    """How the claim stands between the two inputs, in words."""
    refuted = comparison.refutes(claim)
    verdict = "exceeded" if refuted else "kept between these two"
    if not claim.delta:
        return f"{verdict}; {comparison.as_floats}" if comparison.as_floats and not refuted else verdict
    bounds = comparison.delta_bounds(claim.epsilon)
    point = math.isclose(bounds.lower, bounds.upper, rel_tol=1e-6, abs_tol=1e-300)
    if not point and not refuted and not claim.covers(claim.epsilon, bounds.upper):
        verdict = "undecided between these two"
    return f"{verdict}, δ({claim.epsilon:g}) {'=' if point else 'is in'} {bounds}"


def _log_ratio(left: float, right: float) -> float:
    if left > 0 and right > 0:
        return math.log(left / right)
    return 0.0 if left == right else math.copysign(math.inf, left - right)


def number(value: float) -> str:
    """Six digits, and ∞ as itself."""
    return ("-∞" if value < 0 else "∞") if math.isinf(value) else f"{value:.6g}"


# ------------------------------------------------------------------------------------------------ the catalogue


@dataclass(frozen=True)
class ComparedMechanism:
    """A mechanism of the catalogue, compared: or why it was not."""

    name: str
    size: int
    claim: Claim | None
    true: float | None
    found: float | None
    mass: float | None
    seconds: float
    note: str = ""

    def cells(self) -> list[str]:
        def shown(value: float | None) -> str:
            return "" if value is None else number(value)

        return [
            self.name,
            str(self.size),
            "" if self.claim is None else str(self.claim),
            shown(self.found),
            shown(self.true),
            shown(self.mass),
            f"{self.seconds:.2f}",
            self.note,
        ]

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {"claim": self.claim and self.claim.to_dict()}


HEADINGS = ["mechanism", "size", "claims", "found ε", "true ε", "event mass", "seconds", ""]


def catalogue_table(lines: Sequence[ComparedMechanism]) -> Table:
    table = Table(*HEADINGS)
    for line in lines:
        table.add_row(*map(Text, line.cells()))
    return table


def catalogue_markdown(lines: Sequence[ComparedMechanism]) -> str:
    rows = [HEADINGS, ["---"] * len(HEADINGS), *(line.cells() for line in lines)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return (
        "# The catalogue, compared exactly\n\n"
        "For each mechanism: the worst pair of neighbours that the search found in its time, the exact ε between them "
        "(a lower bound on the mechanism's), and the true ε as derived by hand or in the literature. The event mass is "
        "the probability of the event that attains it.\n\n" + table + "\n"
    )
