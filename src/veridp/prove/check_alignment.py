"""Whether a certificate of an alignment proves what it says.

Part of the checker: the argument for each step stands above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.prove.aligned import Box, Certificate, Event, Hull, Rule, Shift, Table
from veridp.prove.covering import check_runs
from veridp.prove.document import NUMERIC, Flaw, Linear
from veridp.prove.noise_rules import Noise, Price

ROUNDING = Fraction(1, 10**9)  # how far above an irrational cost its stated rational may lie, as a share of it
MOST_BITS = 16  # a table of more than 2^this shifts is not gone through
MANY = 12  # entries of the data that hang together in a rule: past this its cost is bounded noise by noise
SENSE = {"linf": [(-1, 1)], "monotone": [(0, 1), (-1, 0)]}  # the boxes of differences, by the ends of every entry


# ----------------------------------------------------------------------------------------------------- neighbours


def check_neighbours(certificate: Certificate) -> str:
    """The polytopes are those of the adjacency."""
    size, listed, name = certificate.size, certificate.polytopes, certificate.adjacency
    for p, polytope in enumerate(listed):
        if isinstance(polytope, Hull):
            _check_corners_differ(polytope, p)
    if name not in (*SENSE, "l1"):
        _check_symmetry(certificate)
        return (
            f"{_count(len(listed), 'polytope')} as listed: the adjacency {name!r} is not known here, "
            f"so that they are its polytopes is not verified"
        )
    wanted = 1 if name == "l1" else len(SENSE[name])
    if len(listed) != wanted:
        raise Flaw("/polytopes", f"{_count(wanted, 'polytope')} under {name}, not {len(listed)}")
    if name == "l1":
        return _check_cross(listed[0], size)
    for p, (polytope, (low, high)) in enumerate(zip(listed, SENSE[name], strict=True)):
        if not isinstance(polytope, Box):
            raise Flaw(f"/polytopes/{p}", f"a box is needed under {name}, not corners")
        for end, ends, needed in (("low", polytope.low, low), ("high", polytope.high, high)):
            for i, value in enumerate(ends):
                if value != needed:
                    raise Flaw(f"/polytopes/{p}/{end}/{i}", f"under {name} it is {needed}, not {value}")
    boxes = " and ".join(f"[{low}, {high}]^{size}" for low, high in SENSE[name])
    return f"{boxes}, as {name} has it for {_count(size, 'entry')}"


def _check_corners_differ(polytope: Hull, p: int) -> None:
    seen: dict[tuple[Fraction, ...], int] = {}
    for c, corner in enumerate(polytope.corners):
        if corner in seen:
            raise Flaw(f"/polytopes/{p}/corners/{c}", f"this corner is listed twice: it is corner {seen[corner]} too")
        seen[corner] = c


def _check_cross(polytope: Box | Hull, size: int) -> str:
    """One entry moves by up to 1, either way."""
    if not isinstance(polytope, Hull):
        raise Flaw("/polytopes/0", "corners are needed under l1, not a box")
    if len(polytope.corners) != 2 * size:
        raise Flaw("/polytopes/0/corners", f"l1 has {2 * size} corners, not {len(polytope.corners)}")
    for c, corner in enumerate(polytope.corners):
        if sorted(map(abs, corner)) != [0] * (size - 1) + [1]:
            raise Flaw(f"/polytopes/0/corners/{c}", f"{_vector(corner)} is no corner of l1")
    return f"{2 * size} corners, all those of l1 for {_count(size, 'entry')}"


def _check_symmetry(certificate: Certificate) -> None:
    """Neighbours are so in both directions, and so must be the differences."""
    if not certificate.polytopes:
        raise Flaw("/polytopes", "there is no polytope")
    boxes = {(p.low, p.high) for p in certificate.polytopes if isinstance(p, Box)}
    corners = {corner for p in certificate.polytopes if isinstance(p, Hull) for corner in p.corners}
    for p, polytope in enumerate(certificate.polytopes):
        reason = "its negative is not listed, so that one direction is left out"
        if isinstance(polytope, Box):
            if (_negative(polytope.high), _negative(polytope.low)) not in boxes:
                raise Flaw(f"/polytopes/{p}", reason)
            continue
        if not polytope.corners:
            raise Flaw(f"/polytopes/{p}/corners", "there is no corner")
        for c, corner in enumerate(polytope.corners):
            if _negative(corner) not in corners:
                raise Flaw(f"/polytopes/{p}/corners/{c}", reason)


def _negative(vector: Sequence[Fraction]) -> tuple[Fraction, ...]:
    return tuple(-x for x in vector)


# -------------------------------------------------------------------------------------------------------- outputs


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


# --------------------------------------------------------------------------------------------------------- shifts


@dataclass(frozen=True)
class _Place:
    """An event and a polytope, and where its shifts stand."""

    event: Event
    polytope: Box | Hull
    shifts: Table | Rule
    event_place: str
    place: str


def _places(certificate: Certificate) -> Iterator[_Place]:
    for e, event in enumerate(certificate.events):
        if len(event.shifts) != len(certificate.polytopes):
            raise Flaw(f"/events/{e}/shifts", f"{_count(len(certificate.polytopes), 'table or rule')} needed")
        for p, (polytope, shifts) in enumerate(zip(certificate.polytopes, event.shifts, strict=True)):
            yield _Place(event, polytope, shifts, f"/events/{e}", f"/events/{e}/shifts/{p}")


def check_shifts(certificate: Certificate) -> str:
    """Every shift carries its event into itself, on data that moved by any difference.

    On data D a run is in the event where every a·noise + b·D + c stands to 0 as the condition says. With noise moved
    by Δ and data by δ, the left side changes by a·Δ + b·δ, whatever noise and data are. So no inequality that held can
    fail if the change is >= 0, no equation if it is 0; and a numeric entry stays what it was just if its change is 0.
    A table has Δ for the corners of some entries of δ; the others change the sum by at least the least of b·δ over
    their ends. A rule has Δ as an affine function of δ, and so the change is one: least where each entry is at the end
    that its coefficient says.
    """
    tables = rules = 0
    for at in _places(certificate):
        if isinstance(at.shifts, Rule):
            _check_rule(at, at.shifts)
            rules += 1
        else:
            tables += _check_table(at, at.shifts)
    parts = [_count(tables, "shift")] * bool(tables) + [_count(rules, "rule")] * bool(rules)
    which = "each of which keeps every condition and every numeric entry"
    return f"{' and '.join(parts)}, {which}" if parts else "there are none"


def _check_table(at: _Place, table: Table) -> int:
    differences = _differences(at, table)
    if len(table.shifts) != len(differences):
        what = "corner" if table.at == "corners" else "whole difference"
        reason = f"{_count(len(differences), 'shift')} needed, one for each {what} of the entries"
        raise Flaw(f"{at.place}/table", f"{reason}, not {len(table.shifts)}")
    for k, (difference, shift) in enumerate(zip(differences, table.shifts, strict=True)):
        _check_shift(at, difference, shift, f"{at.place}/table/{k}")
    return len(differences)


def _differences(at: _Place, table: Table) -> list[dict[int, Fraction]]:
    """The differences that a table has shifts for, in their order."""
    if isinstance(at.polytope, Hull):
        size = len(at.polytope.corners[0])
        if table.at != "corners":
            raise Flaw(f"{at.place}/at", "corners are needed, as the differences are given by them")
        if table.entries != tuple(range(size)):
            raise Flaw(f"{at.place}/entries", "all entries are needed, as the differences are given by corners")
        return [dict(enumerate(corner)) for corner in at.polytope.corners]
    many = {"corners": 2, "whole": max(map(_whole_count, at.polytope.low, at.polytope.high))}[table.at]
    if len(table.entries) * math.log2(many or 1) > MOST_BITS or len(table.entries) > MOST_BITS:
        raise Flaw(f"{at.place}/entries", f"so many entries have more than 2^{MOST_BITS} differences; give a rule")
    return list(getattr(at.polytope, table.at)(table.entries))


def _whole_count(low: Fraction, high: Fraction) -> int:
    return math.floor(high) - math.ceil(low) + 1


def _check_shift(at: _Place, difference: Mapping[int, Fraction], shift: Shift, place: str) -> None:
    moves = dict(zip(at.event.draws, shift.moves, strict=True))
    known = ", ".join(f"{i}: {value}" for i, value in difference.items())
    where = f"where the data move by ({known})" if difference else "however the data move"
    for expression, what, equal in _kept(at):
        change = sum((c * moves[row] for row, c in expression.noise.items()), start=Fraction(0))
        least = most = change + sum((c * difference.get(i, 0) for i, c in expression.data.items()), start=Fraction(0))
        if isinstance(at.polytope, Box):
            rest = {i: c for i, c in expression.data.items() if i not in difference}
            low, high = _bounds(rest, at.polytope)
            least, most = least + low, most + high
        _check_change(least, most, equal, place, where, what)


def _check_rule(at: _Place, rule: Rule) -> None:
    if not isinstance(at.polytope, Box):
        raise Flaw(f"{at.place}/rule", "a rule is for a box, not for corners")
    moves = dict(zip(at.event.draws, rule.moves, strict=True))
    for expression, what, equal in _kept(at):
        slopes = dict(expression.data)
        constant = Fraction(0)
        for row, c in expression.noise.items():
            constant += c * moves[row].constant
            for i, slope in moves[row].slopes.items():
                slopes[i] = slopes.get(i, Fraction(0)) + c * slope
        low, high = _bounds(slopes, at.polytope)
        _check_change(constant + low, constant + high, equal, f"{at.place}/rule", "for some difference", what)


def _check_change(least: Fraction, most: Fraction, equal: bool, place: str, where: str, what: str) -> None:
    if least < 0 or (equal and most > 0):
        raise Flaw(place, f"{where} it changes {what} by {least if least < 0 else most}")


def _kept(at: _Place) -> Iterator[tuple[Linear, str, bool]]:
    """What must not change, or not fall, with its name, and whether it must not change at all."""
    for k, condition in enumerate(at.event.conditions):
        yield condition.slack, f"condition {at.event_place}/conditions/{k}", condition.relation == "=="
    for k, number in enumerate(at.event.numbers):
        yield number, f"the numeric entry {at.event_place}/numbers/{k}", True


def _bounds(slopes: Mapping[int, Fraction], box: Box) -> tuple[Fraction, Fraction]:
    """The least and the largest value of Σ slope · entry in the box."""
    ends = [(slope * box.low[i], slope * box.high[i]) for i, slope in slopes.items()]
    return sum((min(e) for e in ends), start=Fraction(0)), sum((max(e) for e in ends), start=Fraction(0))


# ---------------------------------------------------------------------------------------------------------- costs


def check_costs(certificate: Certificate) -> str:
    """Every move is one that the noise allows, and the stated costs are the sums of what they cost."""
    for at in _places(certificate):
        noises = [certificate.noises[row] for row in at.event.draws]
        if isinstance(at.shifts, Rule):
            _check_rule_cost(at, at.shifts, noises)
            continue
        for k, shift in enumerate(at.shifts.shifts):
            price = _total(noises, shift.moves, [f"{at.place}/table/{k}/moves/{m}" for m in range(len(noises))])
            _check_stated(price, shift.cost, f"{at.place}/table/{k}/cost")
    kinds = sorted({noise.kind for noise in certificate.noises}) or ["no"]
    return f"the moves are allowed for {' and '.join(kinds)} noise, and cost what is stated"


def _total(noises: Sequence[Noise], moves: Sequence[Fraction], places: Sequence[str]) -> Price:
    prices = []
    for noise, move, place in zip(noises, moves, places, strict=True):
        price = noise.price(move)
        if price is None:
            raise Flaw(place, f"{noise.kind} noise must not be moved by {move}")
        prices.append(price)
    return Price.total(prices)


def _check_stated(price: Price, stated: Fraction, place: str) -> None:
    if not price.amount <= stated <= price.amount * (1 + (ROUNDING if price.rounded else 0)):
        amount = f"just under {float(price.amount):.15g}" if price.rounded else price.amount
        raise Flaw(place, f"the moves cost {amount}, not {stated}")


def _check_rule_cost(at: _Place, rule: Rule, noises: Sequence[Noise]) -> None:
    """The price is convex in the move, which is affine in the difference: so it is largest at a corner.

    Noises whose moves have no entry of the difference in common can be at their dearest together; for those that have,
    all corners of their entries are tried, or where these are too many, what each costs at most is added up.
    """
    box = at.polytope
    if not isinstance(box, Box):
        raise Flaw(f"{at.place}/rule", "a rule is for a box, not for corners")
    totals = []
    for group in _linked(rule):
        places = [f"{at.place}/rule/{k}" for k in group]
        chosen = [noises[k] for k in group]
        for k, noise, place in zip(group, chosen, places, strict=True):
            move = rule.moves[k]
            if noise.whole and any(x.denominator != 1 for x in (move.constant, *move.slopes.values())):
                raise Flaw(place, f"{noise.kind} noise moves in whole steps, so whole numbers are needed")
        entries = sorted({i for k in group for i in rule.moves[k].slopes})
        if len(entries) <= MANY:
            tried = [[_moved(rule, k, difference) for k in group] for difference in box.corners(entries)]
            totals.append(max((_total(chosen, moves, places) for moves in tried), key=lambda price: price.amount))
            continue
        for k, noise, place in zip(group, chosen, places, strict=True):
            low, high = _bounds(rule.moves[k].slopes, box)
            ends = [_total([noise], [rule.moves[k].constant + end], [place]) for end in (low, high)]
            totals.append(max(ends, key=lambda price: price.amount))
    price = Price.total(totals)
    if rule.cost < price.amount:
        raise Flaw(f"{at.place}/cost", f"the moves may cost {price.amount}, not only {rule.cost}")


def _moved(rule: Rule, k: int, difference: Mapping[int, Fraction]) -> Fraction:
    move = rule.moves[k]
    return move.constant + sum((slope * difference[i] for i, slope in move.slopes.items()), start=Fraction(0))


def _linked(rule: Rule) -> list[list[int]]:
    """The noises in groups that have no entry of the difference in common."""
    groups: list[tuple[list[int], set[int]]] = []
    for k, move in enumerate(rule.moves):
        entries = {i for i, slope in move.slopes.items() if slope}
        touching = [group for group in groups if group[1] & entries]
        groups = [group for group in groups if not group[1] & entries]
        members = sorted([k, *(other for group in touching for other in group[0])])
        groups.append((members, entries.union(*(group[1] for group in touching))))
    return [members for members, _ in groups]


# ------------------------------------------------------------------------------------------- the rest of the proof


def check_convexity(certificate: Certificate) -> str:
    """What is given stands for all differences.

    A rule gives a shift for each of them. A table has shifts for the corners of some entries; a difference between
    these is a mean Σλδ of corners. Take the same mean ΣλΔ of their shifts: it changes each condition by the mean of
    changes that are all >= 0 (or all 0), the noise allows it (a mean of upward moves is one), and as each price is
    convex in the move, it costs at most the mean of the costs. Whole noise is the exception: it moves by whole steps
    only, and where it does so by a rule with slopes, or by a table with corners, the certificate has to restrict itself
    to data that are whole numbers. A table must then have a corner for every whole difference.
    """
    depends = False
    for at in _places(certificate):
        if certificate.data == "real" and isinstance(at.shifts, Table) and at.shifts.at == "whole":
            raise Flaw(f"{at.place}/at", "shifts for whole differences only: the data must be whole")
        depends |= _depends_on_whole(certificate, at)
    if certificate.data == "real":
        return "means of the shifts serve for all differences between the corners"
    if not depends:
        return "nothing is said of data that are not whole, though it would hold for them"
    return "every whole difference has its shift; nothing is said of data that are not whole"


def _depends_on_whole(certificate: Certificate, at: _Place) -> bool:
    """Whether whole noise moves by what depends on the difference; raises Flaw where that is not accounted for."""
    found = False
    for k, row in enumerate(at.event.draws):
        if not certificate.noises[row].whole:
            continue
        if isinstance(at.shifts, Rule):
            moved, place = any(at.shifts.moves[k].slopes.values()), f"{at.place}/rule/{k}"
        else:
            moving = [c for c, shift in enumerate(at.shifts.shifts) if shift.moves[k] and at.shifts.entries]
            moved, place = bool(moving), f"{at.place}/table/{min(moving, default=0)}/moves/{k}"
        if moved and certificate.data == "real":
            raise Flaw(place, "whole noise is moved, which only carries over whole differences: the data must be whole")
        if moved and isinstance(at.shifts, Table):
            _check_whole_corners(certificate, at, at.shifts)
        found |= moved
    return found


def _check_whole_corners(certificate: Certificate, at: _Place, table: Table) -> None:
    """Every whole difference is a corner, or 0 where that needs no shift."""
    if isinstance(at.polytope, Hull):
        if certificate.adjacency != "l1":
            raise Flaw("/data", f"whole differences under {certificate.adjacency} need not be corners")
        return
    for i in table.entries if table.at == "corners" else ():
        ends = (at.polytope.low[i], at.polytope.high[i])
        if ends[1] - ends[0] > 1 or any(end.denominator != 1 for end in ends):
            raise Flaw(f"{at.place}/entries", f"whole differences of entry {i} need not be corners, and have no shift")


def check_events(certificate: Certificate) -> str:
    """Every run is in an event, and in one only, but for runs of probability 0."""
    if not certificate.events:
        raise Flaw("/events", "there is no event")
    for e, event in enumerate(certificate.events):
        if not 0 < event.weight <= 1:
            raise Flaw(f"/events/{e}/weight", f"a probability above 0 is needed, not {event.weight}")
    pairs = check_runs(certificate.events, certificate.noises, certificate.size)
    if any(event.weight != 1 for event in certificate.events):
        return "for all noise and data, the weights of the events that hold sum to 1"
    return f"they cover all runs, and no two of them overlap ({_count(pairs, 'pair')})"


def check_epsilon(certificate: Certificate) -> str:
    """No shift costs more than ε."""
    worst = Fraction(0)
    for at in _places(certificate):
        if isinstance(at.shifts, Rule):
            costs = [(at.shifts.cost, f"{at.place}/cost")]
        else:
            costs = [(shift.cost, f"{at.place}/table/{k}/cost") for k, shift in enumerate(at.shifts.shifts)]
        for cost, place in costs:
            worst = max(worst, cost)
            if cost > certificate.epsilon:
                raise Flaw(place, f"the cost {cost} is above ε = {certificate.epsilon}")
    return f"the dearest shift costs {worst}, and ε is {certificate.epsilon}"


ALIGNMENT_STEPS = (
    ("neighbours", check_neighbours),
    ("outputs", check_outputs),
    ("shifts", check_shifts),
    ("costs", check_costs),
    ("convexity", check_convexity),
    ("events", check_events),
    ("epsilon", check_epsilon),
)


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


def _vector(values: Sequence[Fraction]) -> str:
    return f"({', '.join(map(str, values))})"
