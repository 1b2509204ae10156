"""Reading a certificate of an alignment: noise, events, and how each is carried over the differences of neighbours.

Part of the checker.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.document import (
    DocumentNode,
    LinearCondition,
    LinearForm,
    Stated,
    coefficients_in,
    condition_in,
    draws_in,
    functions_in,
    noise_in,
    number_in,
    size_in,
    stated_in,
    vector_in,
)
from veridp_check.noise import NoiseDraw
from veridp_check.records import Seen, bounds_of, fields_in, records_in
from veridp_check.weights import PiecewiseWeight, weight_in

Corner = tuple[Fraction, ...]


@dataclass(frozen=True)
class DifferenceBox:
    """Differences whose entries lie between two ends, each on its own."""

    low: Corner
    high: Corner

    def corners(self, entries: Sequence[int]) -> Iterator[dict[int, Fraction]]:
        """The corners of these entries: the first changes last."""
        for values in itertools.product(*((self.low[i], self.high[i]) for i in entries)):
            yield dict(zip(entries, values, strict=True))

    def whole(self, entries: Sequence[int]) -> Iterator[dict[int, Fraction]]:
        """The differences of these entries in whole numbers: the first changes last."""
        ranges = [range(math.ceil(self.low[i]), math.floor(self.high[i]) + 1) for i in entries]
        for values in itertools.product(*ranges):
            yield dict(zip(entries, map(Fraction, values), strict=True))


@dataclass(frozen=True)
class DifferenceHull:
    """Differences that are means of the corners listed."""

    corners: tuple[Corner, ...]


@dataclass(frozen=True)
class EventShift:
    """By how much each noise of an event is moved, and the cost that is stated for it."""

    moves: tuple[Fraction, ...]
    cost: Fraction


@dataclass(frozen=True)
class ShiftTable:
    """A shift for each corner of the entries listed (or each whole difference), whatever the other entries do."""

    entries: tuple[int, ...]
    at: str  # "corners" or "whole"
    shifts: tuple[EventShift, ...]


@dataclass(frozen=True)
class NoiseMove:
    """The shift of one noise for every difference: constant + Σ slope · entry."""

    constant: Fraction
    slopes: Mapping[int, Fraction]


@dataclass(frozen=True)
class ShiftRule:
    """A shift for every difference of a box, and what it is said to cost at most."""

    moves: tuple[NoiseMove, ...]
    cost: Fraction


@dataclass(frozen=True)
class AlignmentEvent:
    """Runs with one output; `shifts` has a table or a rule for each polytope."""

    output: int
    weight: Fraction | PiecewiseWeight
    paths: int
    draws: tuple[int, ...]
    conditions: tuple[LinearCondition, ...]
    numbers: tuple[LinearForm, ...]
    shifts: tuple[ShiftTable | ShiftRule, ...]


@dataclass(frozen=True)
class Certificate(Stated):
    """What a certificate of an alignment says."""

    size: int
    records: tuple[Seen, ...]  # none where the data are numbers by themselves, and not sums over records
    data: str
    polytopes: tuple[DifferenceBox | DifferenceHull, ...]
    outputs: tuple[str, ...]
    noises: tuple[NoiseDraw, ...]
    events: tuple[AlignmentEvent, ...]

    @property
    def entries(self) -> int:
        """How many numbers its events take for the data."""
        return self.records[0].count if self.records else self.size

    @property
    def scope(self) -> str:
        return f"{super().scope}{', on whole numbers' if self.data == 'whole' else ''}"

    @property
    def bounds(self) -> list[LinearCondition]:
        """Between what numbers the sums lie, where these are of so many records."""
        return [] if self.size is None else bounds_of(self.records)


def read_alignment(document: object) -> Certificate:
    """The certificate in the document; raises Flaw where it is not made as one."""
    return _read(document, priced=True, optional=("rho",))


def read_divergence(document: object) -> Certificate:
    """The same for one that proves (ε, δ): it states no costs of shifts, which are not numbers."""
    return _read(document, "delta", "rho", "mu", priced=False, optional=("rdp", "profile"))


def _read(document: object, *more: str, priced: bool, optional: Sequence[str] = ()) -> Certificate:
    field = fields_in(document, "data", "polytopes", "outputs", "noises", "events", *more, optional=optional)
    stated = stated_in(field)
    records = records_in(field, stated)
    size = records[0].count if records else size_in(field)
    noises = tuple(noise_in(node) for node in field["noises"].entries())
    outputs = tuple(node.text() for node in field["outputs"].entries())
    polytopes = tuple(polytope_in(node, size) for node in field["polytopes"].entries())
    return Certificate(
        **vars(stated),
        records=records,
        data=field["data"].one_of(("real", "whole", "means")),
        polytopes=polytopes,
        outputs=outputs,
        noises=noises,
        events=tuple(_event(node, size, noises, outputs, priced) for node in field["events"].entries()),
    )


def polytope_in(node: DocumentNode, size: int) -> DifferenceBox | DifferenceHull:
    """A box, or a hull of corners."""
    found = node.mapping()
    if "corners" in found:
        corners = node.fields("corners")["corners"].entries()
        return DifferenceHull(tuple(vector_in(corner, size, "a corner") for corner in corners))
    field = node.fields("low", "high")
    low, high = (vector_in(field[name], size, "an end of a box") for name in ("low", "high"))
    for i, (least, most) in enumerate(zip(low, high, strict=True)):
        if least > most:
            raise field["high"].flaw(f"entry {i} ends at {most}, below its beginning at {least}")
    return DifferenceBox(low, high)


def _event(
    node: DocumentNode, size: int, noises: Sequence[NoiseDraw], outputs: Sequence[str], priced: bool
) -> AlignmentEvent:
    field = node.fields(
        "output", "weight", "paths", "draws", "conditions", "numbers", "shifts", optional=("functions",)
    )
    output = field["output"].whole()
    if output >= len(outputs):
        raise field["output"].flaw(f"there is no output {output}")
    draws = draws_in(field["draws"], noises, "run")
    functions = functions_in(field, draws, size)
    return AlignmentEvent(
        output=output,
        weight=weight_in(field["weight"], size),
        paths=field["paths"].whole(least=1),
        draws=draws,
        conditions=tuple(condition_in(c, draws, size, functions) for c in field["conditions"].entries()),
        numbers=tuple(number_in(n, draws, size, functions) for n in field["numbers"].entries()),
        shifts=tuple(carried_in(entry, len(draws), size, priced) for entry in field["shifts"].entries()),
    )


def carried_in(node: DocumentNode, draws: int | None, size: int, priced: bool = True) -> ShiftTable | ShiftRule:
    """A rule or a table of shifts, of so many draws; None: of as many as will be seen.

    Their costs are stated where they are priced, and else taken for 0.
    """
    cost = ["cost"] * priced
    if "rule" in node.mapping():
        field = node.fields("rule", *cost)
        moves = field["rule"].entries()
        _check_count(field["rule"], len(moves), draws)
        return ShiftRule(tuple(_move(move, size) for move in moves), _cost(field))
    field = node.fields("entries", "at", "table")
    entries = [entry.whole() for entry in field["entries"].entries()]
    if entries != sorted(set(entries)) or any(entry >= size for entry in entries):
        raise field["entries"].flaw("entries of the data are needed, in order, none twice")
    at = field["at"].one_of(("corners", "whole"))
    return ShiftTable(tuple(entries), at, tuple(_shift(s, draws, cost) for s in field["table"].entries()))


def _check_count(node: DocumentNode, count: int, draws: int | None) -> None:
    if draws is not None and count != draws:
        raise node.flaw(f"{draws} moves are needed, one for each draw of the event, not {count}")


def _move(node: DocumentNode, size: int) -> NoiseMove:
    field = node.fields("constant", "data")
    return NoiseMove(field["constant"].rational(), coefficients_in(field["data"], range(size), "entry of the data"))


def _shift(node: DocumentNode, draws: int | None, cost: Sequence[str]) -> EventShift:
    field = node.fields("moves", *cost)
    moves = field["moves"].entries()
    _check_count(field["moves"], len(moves), draws)
    return EventShift(tuple(move.rational() for move in moves), _cost(field))


def _cost(field: Mapping[str, DocumentNode]) -> Fraction:
    return field["cost"].rational() if "cost" in field else Fraction(0)
