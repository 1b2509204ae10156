"""Reading a certificate of couplings: the parts and cases of a mechanism, and how parts are carried over.

Part of the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.alignment_reader import DifferenceBox, DifferenceHull, ShiftRule, ShiftTable, carried_in, polytope_in
from veridp_check.document import (
    HEADER,
    DocumentNode,
    LinearCondition,
    LinearForm,
    Stated,
    condition_in,
    noise_in,
    number_in,
    size_in,
    stated_in,
)
from veridp_check.noise import NoiseDraw


@dataclass(frozen=True)
class CouplingEvent:
    """Runs with one output of a part: what they draw, satisfy and release."""

    output: str
    weight: Fraction
    draws: tuple[int, ...]
    conditions: tuple[LinearCondition, ...]
    numbers: tuple[LinearForm, ...]


@dataclass(frozen=True)
class CouplingPart:
    """Events that decide some entries of the output; None: all of it."""

    entries: tuple[int, ...] | None
    events: tuple[CouplingEvent, ...]


@dataclass(frozen=True)
class CouplingCase:
    """A value of the data as text, or a region of them by conditions; and the parts that decide the output there."""

    value: str | None
    conditions: tuple[LinearCondition, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True)
class EventTransport:
    """A share of an event of the left part, carried into one of the right by shifts."""

    source: int
    target: int
    share: Fraction
    shifts: ShiftTable | ShiftRule


@dataclass(frozen=True)
class PartCoupling:
    """How a part is carried over to another, at no more than cost + ln ratio."""

    left: int
    right: int
    cost: Fraction
    ratio: Fraction
    transports: tuple[EventTransport, ...]


@dataclass(frozen=True)
class CouplingPair:
    """Two neighbouring cases, the polytope of their differences (None between values), a coupling for each part."""

    left: int
    right: int
    polytope: int | None
    couplings: tuple[int, ...]


@dataclass(frozen=True)
class Cases(Stated):
    """What a certificate of couplings says."""

    size: int
    polytopes: tuple[DifferenceBox | DifferenceHull, ...]
    noises: tuple[NoiseDraw, ...]
    shape: str | None  # of the output, where parts decide entries of it
    parts: tuple[CouplingPart, ...]
    cases: tuple[CouplingCase, ...]
    couplings: tuple[PartCoupling, ...]
    pairs: tuple[CouplingPair, ...]

    @property
    def by_value(self) -> bool:
        return not self.polytopes

    @property
    def scope(self) -> str:
        return f"{super().scope}{f', on the {len(self.cases)} data listed' if self.by_value else ''}"


def read_couplings(document: object) -> Cases:
    """The certificate in the document; raises Flaw where it is not made as one."""
    names = ("polytopes", "noises", "shape", "parts", "cases", "couplings", "pairs")
    field = DocumentNode(document).fields(*HEADER, *names)
    size = size_in(field)
    noises = tuple(noise_in(node) for node in field["noises"].entries())
    polytopes = tuple(polytope_in(node, size) for node in field["polytopes"].entries())
    is_open = bool(polytopes)  # else the data are values, which have no entries that could be named
    parts = tuple(_part(node, size if is_open else 0, noises) for node in field["parts"].entries())
    cases = tuple(_case(node, size, parts, is_open) for node in field["cases"].entries())
    couplings = tuple(_coupling(node, size if is_open else 0, parts) for node in field["couplings"].entries())
    return Cases(
        **vars(stated_in(field)),
        polytopes=polytopes,
        noises=noises,
        shape=None if field["shape"].value is None else field["shape"].text(),
        parts=parts,
        cases=cases,
        couplings=couplings,
        pairs=tuple(_pair(node, cases, polytopes, couplings) for node in field["pairs"].entries()),
    )


def number_below(node: DocumentNode, count: int, what: str) -> int:
    """The number of one of so many."""
    number = node.whole()
    if number >= count:
        raise node.flaw(f"there is no {what} {number}")
    return number


def _part(node: DocumentNode, size: int, noises: Sequence[NoiseDraw]) -> CouplingPart:
    field = node.fields("entries", "events")
    entries = None
    if field["entries"].value is not None:
        entries = tuple(entry.whole() for entry in field["entries"].entries())
    return CouplingPart(entries, tuple(event_in(event, size, noises) for event in field["events"].entries()))


def event_in(node: DocumentNode, size: int, noises: Sequence[NoiseDraw]) -> CouplingEvent:
    """An event by itself, which carries its output as a text."""
    field = node.fields("output", "weight", "draws", "conditions", "numbers")
    draws = _draws(field["draws"], noises)
    return CouplingEvent(
        output=field["output"].text(),
        weight=field["weight"].rational(),
        draws=draws,
        conditions=tuple(condition_in(c, draws, size) for c in field["conditions"].entries()),
        numbers=tuple(number_in(n, draws, size) for n in field["numbers"].entries()),
    )


def _draws(node: DocumentNode, noises: Sequence[NoiseDraw]) -> tuple[int, ...]:
    """The rows of the noise that the event draws, in the order of the draws; some may be drawn by other parts."""
    rows: list[int] = []
    for entry in node.entries():
        row = number_below(entry, len(noises), "noise")
        if rows and noises[row].draw <= noises[rows[-1]].draw:
            raise entry.flaw(f"noise {row} is draw {noises[row].draw} of a run, which is not after that before it")
        rows.append(row)
    return tuple(rows)


def _case(node: DocumentNode, size: int, parts: Sequence[CouplingPart], is_region: bool) -> CouplingCase:
    field = node.fields("value", "conditions", "parts")
    if (field["value"].value is None) != is_region:
        raise field["value"].flaw("a text is needed where there are no polytopes, and null where there are")
    value = None if is_region else field["value"].text()
    conditions = tuple(condition_in(c, (), size) for c in field["conditions"].entries())
    if conditions and not is_region:
        raise field["conditions"].flaw("a value has no conditions")
    return CouplingCase(value, conditions, tuple(number_below(p, len(parts), "part") for p in field["parts"].entries()))


def _coupling(node: DocumentNode, size: int, parts: Sequence[CouplingPart]) -> PartCoupling:
    field = node.fields("left", "right", "cost", "ratio", "transports")
    left, right = (number_below(field[name], len(parts), "part") for name in ("left", "right"))
    transports = tuple(_transport(t, size, parts[left], parts[right]) for t in field["transports"].entries())
    return PartCoupling(left, right, field["cost"].rational(), field["ratio"].rational(), transports)


def _transport(node: DocumentNode, size: int, left: CouplingPart, right: CouplingPart) -> EventTransport:
    field = node.fields("from", "to", "share", "shifts")
    return EventTransport(
        source=number_below(field["from"], len(left.events), "event"),
        target=number_below(field["to"], len(right.events), "event"),
        share=field["share"].rational(),
        shifts=carried_in(field["shifts"], None, size),
    )


def _pair(
    node: DocumentNode,
    cases: Sequence[CouplingCase],
    polytopes: Sequence[DifferenceBox | DifferenceHull],
    couplings: Sequence[PartCoupling],
) -> CouplingPair:
    field = node.fields("left", "right", "polytope", "couplings")
    polytope = None
    if polytopes:
        polytope = number_below(field["polytope"], len(polytopes), "polytope")
    elif field["polytope"].value is not None:
        raise field["polytope"].flaw("there is no polytope")
    left, right = (number_below(field[name], len(cases), "case") for name in ("left", "right"))
    numbers = tuple(number_below(c, len(couplings), "coupling") for c in field["couplings"].entries())
    return CouplingPair(left, right, polytope, numbers)
