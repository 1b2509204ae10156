"""Reading a certificate of couplings: the parts and cases of a mechanism, and how parts are carried over.

Part of the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.alignment_reader import Box, Hull, Rule, Table, carried_in, polytope_in
from veridp_check.document import (
    HEADER,
    Condition,
    Linear,
    Node,
    Stated,
    condition_in,
    noise_in,
    number_in,
    size_in,
    stated_in,
)
from veridp_check.noise import Noise


@dataclass(frozen=True)
class Event:
    """Runs with one output of a part: what they draw, satisfy and release."""

    output: str
    weight: Fraction
    draws: tuple[int, ...]
    conditions: tuple[Condition, ...]
    numbers: tuple[Linear, ...]


@dataclass(frozen=True)
class Part:
    """Events that decide some entries of the output; None: all of it."""

    entries: tuple[int, ...] | None
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Case:
    """A value of the data as text, or a region of them by conditions; and the parts that decide the output there."""

    value: str | None
    conditions: tuple[Condition, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Transport:
    """A share of an event of the left part, carried into one of the right by shifts."""

    source: int
    target: int
    share: Fraction
    shifts: Table | Rule


@dataclass(frozen=True)
class Coupling:
    """How a part is carried over to another, at no more than cost + ln ratio."""

    left: int
    right: int
    cost: Fraction
    ratio: Fraction
    transports: tuple[Transport, ...]


@dataclass(frozen=True)
class Pair:
    """Two neighbouring cases, the polytope of their differences (None between values), a coupling for each part."""

    left: int
    right: int
    polytope: int | None
    couplings: tuple[int, ...]


@dataclass(frozen=True)
class Cases(Stated):
    """What a certificate of couplings says."""

    size: int
    polytopes: tuple[Box | Hull, ...]
    noises: tuple[Noise, ...]
    shape: str | None  # of the output, where parts decide entries of it
    parts: tuple[Part, ...]
    cases: tuple[Case, ...]
    couplings: tuple[Coupling, ...]
    pairs: tuple[Pair, ...]

    @property
    def by_value(self) -> bool:
        return not self.polytopes

    @property
    def scope(self) -> str:
        return f"{super().scope}{f', on the {len(self.cases)} data listed' if self.by_value else ''}"


def read_couplings(document: object) -> Cases:
    """The certificate in the document; raises Flaw where it is not made as one."""
    names = ("polytopes", "noises", "shape", "parts", "cases", "couplings", "pairs")
    field = Node(document).fields(*HEADER, *names)
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


def number_below(node: Node, count: int, what: str) -> int:
    """The number of one of so many."""
    number = node.whole()
    if number >= count:
        raise node.flaw(f"there is no {what} {number}")
    return number


def _part(node: Node, size: int, noises: Sequence[Noise]) -> Part:
    field = node.fields("entries", "events")
    entries = None
    if field["entries"].value is not None:
        entries = tuple(entry.whole() for entry in field["entries"].entries())
    return Part(entries, tuple(event_in(event, size, noises) for event in field["events"].entries()))


def event_in(node: Node, size: int, noises: Sequence[Noise]) -> Event:
    """An event by itself, which carries its output as a text."""
    field = node.fields("output", "weight", "draws", "conditions", "numbers")
    draws = _draws(field["draws"], noises)
    return Event(
        output=field["output"].text(),
        weight=field["weight"].rational(),
        draws=draws,
        conditions=tuple(condition_in(c, draws, size) for c in field["conditions"].entries()),
        numbers=tuple(number_in(n, draws, size) for n in field["numbers"].entries()),
    )


def _draws(node: Node, noises: Sequence[Noise]) -> tuple[int, ...]:
    """The rows of the noise that the event draws, in the order of the draws; some may be drawn by other parts."""
    rows: list[int] = []
    for entry in node.entries():
        row = number_below(entry, len(noises), "noise")
        if rows and noises[row].draw <= noises[rows[-1]].draw:
            raise entry.flaw(f"noise {row} is draw {noises[row].draw} of a run, which is not after that before it")
        rows.append(row)
    return tuple(rows)


def _case(node: Node, size: int, parts: Sequence[Part], is_region: bool) -> Case:
    field = node.fields("value", "conditions", "parts")
    if (field["value"].value is None) != is_region:
        raise field["value"].flaw("a text is needed where there are no polytopes, and null where there are")
    value = None if is_region else field["value"].text()
    conditions = tuple(condition_in(c, (), size) for c in field["conditions"].entries())
    if conditions and not is_region:
        raise field["conditions"].flaw("a value has no conditions")
    return Case(value, conditions, tuple(number_below(p, len(parts), "part") for p in field["parts"].entries()))


def _coupling(node: Node, size: int, parts: Sequence[Part]) -> Coupling:
    field = node.fields("left", "right", "cost", "ratio", "transports")
    left, right = (number_below(field[name], len(parts), "part") for name in ("left", "right"))
    transports = tuple(_transport(t, size, parts[left], parts[right]) for t in field["transports"].entries())
    return Coupling(left, right, field["cost"].rational(), field["ratio"].rational(), transports)


def _transport(node: Node, size: int, left: Part, right: Part) -> Transport:
    field = node.fields("from", "to", "share", "shifts")
    return Transport(
        source=number_below(field["from"], len(left.events), "event"),
        target=number_below(field["to"], len(right.events), "event"),
        share=field["share"].rational(),
        shifts=carried_in(field["shifts"], None, size),
    )


def _pair(node: Node, cases: Sequence[Case], polytopes: Sequence[Box | Hull], couplings: Sequence[Coupling]) -> Pair:
    field = node.fields("left", "right", "polytope", "couplings")
    polytope = None
    if polytopes:
        polytope = number_below(field["polytope"], len(polytopes), "polytope")
    elif field["polytope"].value is not None:
        raise field["polytope"].flaw("there is no polytope")
    left, right = (number_below(field[name], len(cases), "case") for name in ("left", "right"))
    numbers = tuple(number_below(c, len(couplings), "coupling") for c in field["couplings"].entries())
    return Pair(left, right, polytope, numbers)
