"""Reading a certificate of couplings: the parts and cases of a mechanism, and how parts are carried over.

Part of the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.alignment.reader import DifferenceBox, DifferenceHull, ShiftRule, ShiftTable, carried_in, polytope_in
from veridp_check.document import (
    CertificateFlaw,
    DocumentNode,
    FunctionValue,
    LinearCondition,
    LinearForm,
    Stated,
    condition_in,
    functions_in,
    noise_in,
    number_in,
    size_in,
    stated_in,
)
from veridp_check.noise import NoiseDraw
from veridp_check.records import Seen, fields_in, records_in


@dataclass(frozen=True)
class CouplingEvent:
    """Runs with one output of a part: what they draw, satisfy and release."""

    output: str
    weight: Fraction
    draws: tuple[int, ...]
    conditions: tuple[LinearCondition, ...]
    numbers: tuple[LinearForm, ...]
    functions: tuple[FunctionValue, ...]


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
    """How a part is carried over to another, at no more than cost + ln ratio, but for a probability of delta."""

    left: int
    right: int
    cost: Fraction
    ratio: Fraction
    transports: tuple[EventTransport, ...]
    delta: Fraction = Fraction(0)


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
    records: tuple[Seen, ...]  # none where the data are numbers by themselves, or values
    polytopes: tuple[DifferenceBox | DifferenceHull, ...]
    noises: tuple[NoiseDraw, ...]
    shape: str | None  # of the output, where parts decide entries of it
    parts: tuple[CouplingPart, ...]
    cases: tuple[CouplingCase, ...]
    couplings: tuple[PartCoupling, ...]
    pairs: tuple[CouplingPair, ...]

    @property
    def entries(self) -> int:
        """How many numbers its events take for the data."""
        return self.records[0].count if self.records else self.size

    @property
    def by_value(self) -> bool:
        return not self.polytopes

    @property
    def scope(self) -> str:
        return f"{super().scope}{f', on the {len(self.cases)} data listed' if self.by_value else ''}"


def read_couplings(document: object) -> Cases:
    """The certificate in the document; raises Flaw where it is not made as one."""
    return _read(document)


def read_approximate(document: object) -> Cases:
    """The same for one that proves (ε, δ) for values of the data: shifts state no costs, and couplings a δ."""
    found = _read(document, "delta")
    if not found.by_value:
        raise CertificateFlaw("/polytopes", "(ε, δ) is proved by couplings for values of the data alone")
    return found


def _read(document: object, *more: str) -> Cases:
    names = ("polytopes", "noises", "shape", "parts", "cases", "couplings", "pairs", *more)
    field = fields_in(document, *names)
    stated, size = stated_in(field), size_in(field)
    records = records_in(field, stated)
    size = records[0].count if records else size
    noises = tuple(noise_in(node, opaque=True) for node in field["noises"].entries())
    polytopes = tuple(polytope_in(node, size) for node in field["polytopes"].entries())
    is_open = bool(polytopes)  # else the data are values, which have no entries that could be named
    parts = tuple(_part(node, size if is_open else 0, noises) for node in field["parts"].entries())
    cases = tuple(_case(node, size, parts, is_open) for node in field["cases"].entries())
    couplings = tuple(_coupling(node, size if is_open else 0, parts, not more) for node in field["couplings"].entries())
    return Cases(
        **vars(stated),
        records=records,
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
    field = node.fields("output", "weight", "draws", "conditions", "numbers", optional=("functions",))
    draws = _draws(field["draws"], noises)
    functions = functions_in(field, draws, size)
    return CouplingEvent(
        output=field["output"].text(),
        weight=field["weight"].rational(),
        draws=draws,
        conditions=tuple(condition_in(c, draws, size, functions) for c in field["conditions"].entries()),
        numbers=tuple(number_in(n, draws, size, functions) for n in field["numbers"].entries()),
        functions=tuple(functions),
    )


def _draws(node: DocumentNode, noises: Sequence[NoiseDraw]) -> tuple[int, ...]:
    """The rows of the noise that the event draws, in the order of the draws; some may be drawn by other parts."""
    rows: list[int] = []
    for entry in node.entries():
        row = number_below(entry, len(noises), "noise")
        if rows and noises[row].draw <= noises[rows[-1]].draw:
            raise entry.flaw(f"noise {row} is draw {noises[row].draw} of a run, which is not after that before it")
        if not {noises[each].draw for each in rows}.issuperset(noises[row].of):
            raise entry.flaw(f"noise {row} is a function of draws that are not before it")
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


def _coupling(node: DocumentNode, size: int, parts: Sequence[CouplingPart], pure: bool) -> PartCoupling:
    field = node.fields("left", "right", "cost", "transports", "ratio" if pure else "delta")
    left, right = (number_below(field[name], len(parts), "part") for name in ("left", "right"))
    transports = tuple(_transport(t, size, parts[left], parts[right], pure) for t in field["transports"].entries())
    ratio, delta = (field["ratio"].rational(), Fraction(0)) if pure else (Fraction(1), field["delta"].rational())
    return PartCoupling(left, right, field["cost"].rational(), ratio, transports, delta)


def _transport(node: DocumentNode, size: int, left: CouplingPart, right: CouplingPart, pure: bool) -> EventTransport:
    field = node.fields("from", "to", "share", "shifts")
    return EventTransport(
        source=number_below(field["from"], len(left.events), "event"),
        target=number_below(field["to"], len(right.events), "event"),
        share=field["share"].rational(),
        shifts=carried_in(field["shifts"], None, size, pure),
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
