"""The independent checker: whether a certificate proves what it says, in exact rationals.

It shares nothing with the search but the format. What it establishes, and what it does not, is told in
docs/certificates.md; the argument for each step stands above the step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from veridp.prove.covering import check_runs
from veridp.prove.document import NUMERIC, Certificate, Event, Flaw, Linear, Shift, load_document, read_certificate
from veridp.prove.noise_rules import Price

ROUNDING = Fraction(1, 10**9)  # how far above an irrational cost its stated rational may lie, as a share of it

Corner = tuple[Fraction, ...]


@dataclass(frozen=True)
class Step:
    """One kind of check, and what it found."""

    name: str
    finding: str


@dataclass(frozen=True)
class Rejection:
    """Where a certificate fails (a JSON pointer), and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """What was verified, in order; and where that ended, if the certificate is rejected."""

    certificate: Certificate | None
    steps: tuple[Step, ...]
    rejection: Rejection | None

    @property
    def verified(self) -> bool:
        return self.rejection is None


def check_file(file: str | Path) -> Checked:
    """The verdict on a file; raises BadInput where it is no certificate at all."""
    return check(load_document(file))


def check(document: object) -> Checked:
    """The verdict on a document, as `json.loads` returns it; raises BadInput where it is no certificate at all.

    If it is verified, then the mechanism that the certificate describes is ε-differentially private for all
    neighbours of its size. That this is the mechanism which the certificate names is not established here.
    """
    certificate: Certificate | None = None
    steps: list[Step] = []
    try:
        certificate = read_certificate(document)
        for name, step in STEPS:
            steps.append(Step(name, step(certificate)))
    except Flaw as flaw:
        return Checked(certificate, tuple(steps), Rejection(flaw.place, flaw.reason))
    return Checked(certificate, tuple(steps), None)


# ----------------------------------------------------------------------------------------------------- neighbours


def check_neighbours(certificate: Certificate) -> str:
    """The corners are those of the adjacency: of each polytope all, none twice."""
    for p, polytope in enumerate(certificate.polytopes):
        seen: dict[Corner, int] = {}
        for c, corner in enumerate(polytope):
            if corner in seen:
                raise Flaw(f"/polytopes/{p}/{c}", f"this corner is listed twice: it is corner {seen[corner]} too")
            seen[corner] = c
    known = corners_of(certificate)
    count = sum(len(polytope) for polytope in certificate.polytopes)
    if known is None:
        _check_symmetry(certificate)
        return (
            f"{count} corners as listed: the adjacency {certificate.adjacency!r} is not known here, "
            f"so that they are its corners is not verified"
        )
    if len(certificate.polytopes) != len(known):
        raise Flaw(
            "/polytopes",
            f"{_count(len(known), 'polytope')} under {certificate.adjacency}, not {len(certificate.polytopes)}",
        )
    for p, (polytope, wanted) in enumerate(zip(certificate.polytopes, known, strict=True)):
        for c, corner in enumerate(polytope):
            if corner not in wanted:
                raise Flaw(f"/polytopes/{p}/{c}", f"{_vector(corner)} is no corner of {certificate.adjacency}")
        missing = wanted.difference(polytope)
        if missing:
            raise Flaw(f"/polytopes/{p}", f"the corner {_vector(min(missing))} of {certificate.adjacency} is missing")
    return f"{count} corners, all those of {certificate.adjacency} for {certificate.size} entries"


def corners_of(certificate: Certificate) -> list[frozenset[Corner]] | None:
    """The corners of each polytope of differences under a known adjacency; None under another."""
    size, listed = certificate.size, max((len(p) for p in certificate.polytopes), default=0)
    if certificate.adjacency in ("linf", "monotone") and (size > listed.bit_length() or listed != 2**size):
        # before they are made: so many corners would fill the memory
        raise Flaw("/polytopes", f"{certificate.adjacency} has 2^{size} corners in a polytope, not {listed}")
    match certificate.adjacency:
        case "linf":
            return [_cube(size, -1, 1)]
        case "monotone":
            return [_cube(size, 0, 1), _cube(size, -1, 0)]
        case "l1":
            if listed != 2 * size:
                raise Flaw("/polytopes/0" if certificate.polytopes else "/polytopes", f"l1 has {2 * size} corners")
            units = [tuple(Fraction(i == moved) for i in range(size)) for moved in range(size)]
            return [frozenset(units) | {tuple(-x for x in unit) for unit in units}]
    return None


def _cube(size: int, low: int, high: int) -> frozenset[Corner]:
    return frozenset(itertools.product((Fraction(low), Fraction(high)), repeat=size))


def _check_symmetry(certificate: Certificate) -> None:
    """Neighbours are so in both directions, and so must be the differences."""
    listed = {corner for polytope in certificate.polytopes for corner in polytope}
    for p, polytope in enumerate(certificate.polytopes):
        for c, corner in enumerate(polytope):
            if tuple(-x for x in corner) not in listed:
                raise Flaw(f"/polytopes/{p}/{c}", "its negative is not listed, so that one direction is left out")
    if not listed:
        raise Flaw("/polytopes", "there is no corner")


# --------------------------------------------------------------------------------------------------------- shifts


def check_outputs(certificate: Certificate) -> str:
    """The outputs differ, each has events, and each event has as many numbers as its output has numeric entries."""
    places: dict[str, int] = {}
    for index, output in enumerate(certificate.outputs):
        if output in places:
            raise Flaw(f"/outputs/{index}", f"the output {output} is listed twice: it is output {places[output]} too")
        places[output] = index
    for e, event in enumerate(certificate.events):
        entries = certificate.outputs[event.output].count(NUMERIC)
        if len(event.numbers) != entries:
            text = certificate.outputs[event.output]
            raise Flaw(
                f"/events/{e}/numbers", f"the output {text} has {entries} numeric entries, not {len(event.numbers)}"
            )
    unused = set(range(len(certificate.outputs))) - {event.output for event in certificate.events}
    if unused:
        raise Flaw(f"/outputs/{min(unused)}", "no event gives this output")
    return f"{_count(len(certificate.outputs), 'output')}, given by {_count(len(certificate.events), 'event')}"


def check_shifts(certificate: Certificate) -> str:
    """Every shift carries its event into itself, on data that moved to a corner.

    On data D a run is in the event where every a·noise + b·D + c stands to 0 as the condition says. With noise moved
    by Δ and data by δ, the left side changes by a·Δ + b·δ, whatever noise and data are. So no inequality that held can
    fail if the change is >= 0, no equation if it is 0; and a numeric entry stays what it was just if its change is 0.
    """
    count = 0
    for e, event in enumerate(certificate.events):
        _check_table(certificate, event, e)
        for p, polytope in enumerate(certificate.polytopes):
            for c, corner in enumerate(polytope):
                _check_shift(event, corner, event.shifts[p][c], f"/events/{e}", f"/events/{e}/shifts/{p}/{c}")
                count += 1
    return f"{_count(count, 'shift')}, each of which keeps every condition and every numeric entry"


def _check_table(certificate: Certificate, event: Event, e: int) -> None:
    """A shift for every corner."""
    if len(event.shifts) != len(certificate.polytopes):
        raise Flaw(f"/events/{e}/shifts", f"{len(certificate.polytopes)} lists are needed, one for each polytope")
    for p, (row, polytope) in enumerate(zip(event.shifts, certificate.polytopes, strict=True)):
        if len(row) != len(polytope):
            raise Flaw(
                f"/events/{e}/shifts/{p}", f"{len(polytope)} shifts are needed, one for each corner, not {len(row)}"
            )


def _check_shift(event: Event, corner: Corner, shift: Shift, event_place: str, place: str) -> None:
    moves = dict(zip(event.draws, shift.moves, strict=True))
    at = f"at the corner {_vector(corner)}"
    for k, condition in enumerate(event.conditions):
        change = _change(condition.slack, moves, corner)
        if change < 0 or (change and condition.relation == "=="):
            raise Flaw(place, f"{at} it changes condition {event_place}/conditions/{k} by {change}")
    for k, number in enumerate(event.numbers):
        change = _change(number, moves, corner)
        if change:
            raise Flaw(place, f"{at} it changes the numeric entry {event_place}/numbers/{k} by {change}")


def _change(expression: Linear, moves: dict[int, Fraction], corner: Corner) -> Fraction:
    by_noise = sum((c * moves[row] for row, c in expression.noise.items()), start=Fraction(0))
    return by_noise + sum((c * corner[entry] for entry, c in expression.data.items()), start=Fraction(0))


def check_costs(certificate: Certificate) -> str:
    """Every move is one that the noise allows, and the stated costs are the sums of what they cost."""
    for e, event in enumerate(certificate.events):
        for p, row in enumerate(event.shifts):
            for c, shift in enumerate(row):
                _check_cost(certificate, event, shift, f"/events/{e}/shifts/{p}/{c}")
    kinds = sorted({noise.kind for noise in certificate.noises}) or ["no"]
    return f"the moves are allowed for {' and '.join(kinds)} noise, and cost what is stated"


def _check_cost(certificate: Certificate, event: Event, shift: Shift, place: str) -> None:
    prices = []
    for k, (row, move) in enumerate(zip(event.draws, shift.moves, strict=True)):
        noise = certificate.noises[row]
        price = noise.price(move)
        if price is None:
            raise Flaw(f"{place}/moves/{k}", f"{noise.kind} noise must not be moved by {move}")
        prices.append(price)
    price = Price.total(prices)
    if not price.amount <= shift.cost <= price.amount * (1 + (ROUNDING if price.rounded else 0)):
        amount = f"just under {float(price.amount):.15g}" if price.rounded else price.amount
        raise Flaw(f"{place}/cost", f"the moves cost {amount}, not {shift.cost}")


# ------------------------------------------------------------------------------------------- the rest of the proof


def check_convexity(certificate: Certificate) -> str:
    """The corners stand for all neighbours.

    A difference within a polytope is a mean Σλδ of its corners. Take the same mean ΣλΔ of their shifts: it changes
    each condition by the mean of changes that are all >= 0 (or all 0), the noise allows it (a mean of upward moves is
    one), and as each price is convex in the move, it costs at most the mean of the costs. Whole noise is the exception:
    a mean of whole moves is not whole. Where it is moved, the certificate has to restrict itself to data that are whole
    numbers, and to an adjacency whose whole differences are its corners and 0, which needs no shift.
    """
    moved = _moved_whole_noise(certificate)
    if certificate.data == "real":
        if moved is not None:
            raise Flaw(moved, "whole noise is moved, which only carries over whole differences: the data must be whole")
        return "means of the shifts serve for all differences between the corners"
    if certificate.adjacency not in ("l1", "monotone"):
        raise Flaw(
            "/data", f"whole differences under {certificate.adjacency} need not be corners; only under l1, monotone"
        )
    return "every whole difference but 0 is a corner; nothing is said of data that are not whole"


def _moved_whole_noise(certificate: Certificate) -> str | None:
    for e, event in enumerate(certificate.events):
        for p, row in enumerate(event.shifts):
            for c, shift in enumerate(row):
                for k, (noise, move) in enumerate(zip(event.draws, shift.moves, strict=True)):
                    if move and certificate.noises[noise].whole:
                        return f"/events/{e}/shifts/{p}/{c}/moves/{k}"
    return None


def check_events(certificate: Certificate) -> str:
    """Every run is in an event, and in one only, but for runs of probability 0."""
    if not certificate.events:
        raise Flaw("/events", "there is no event")
    for e, event in enumerate(certificate.events):
        if not 0 < event.weight <= 1:
            raise Flaw(f"/events/{e}/weight", f"a probability above 0 is needed, not {event.weight}")
    pairs = check_runs(certificate)
    if any(event.weight != 1 for event in certificate.events):
        return "for all noise and data, the weights of the events that hold sum to 1"
    return f"they cover all runs, and no two of them overlap ({_count(pairs, 'pair')})"


def check_epsilon(certificate: Certificate) -> str:
    """No shift costs more than ε."""
    worst = Fraction(0)
    for e, event in enumerate(certificate.events):
        for p, row in enumerate(event.shifts):
            for c, shift in enumerate(row):
                worst = max(worst, shift.cost)
                if shift.cost > certificate.epsilon:
                    place = f"/events/{e}/shifts/{p}/{c}/cost"
                    raise Flaw(place, f"the cost {shift.cost} is above ε = {certificate.epsilon}")
    return f"the dearest shift costs {worst}, and ε is {certificate.epsilon}"


STEPS = (
    ("neighbours", check_neighbours),
    ("outputs", check_outputs),
    ("shifts", check_shifts),
    ("costs", check_costs),
    ("convexity", check_convexity),
    ("events", check_events),
    ("epsilon", check_epsilon),
)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _vector(values: Sequence[Fraction]) -> str:
    return f"({', '.join(map(str, values))})"
