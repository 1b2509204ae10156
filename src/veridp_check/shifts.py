"""Whether shifts, given by a table or a rule, keep what they must for every difference of a polytope, and cost what is
stated. Part of the checker.

What must be kept is a sum of noise, data and a spare constant that must not fall below 0, or must stay 0. With noise
moved by Δ and data by δ it changes by a·Δ + b·δ, whatever noise and data are. A table has Δ for the corners of some
entries of δ; the others change the sum by at least the least of b·δ over their ends. A rule has Δ as an affine function
of δ, and so the change is one: least where each entry is at the end that its coefficient says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.alignment.reader import DifferenceBox, DifferenceHull, EventShift, NoiseMove, ShiftRule, ShiftTable
from veridp_check.document import CertificateFlaw, decimal_of, text_of
from veridp_check.noise import NoiseDraw, ShiftPrice

COST_TOLERANCE = Fraction(1, 10**9)  # how far above an irrational cost its stated rational may lie, as a share of it
MOST_BITS = 16  # a table of more than 2^this shifts is not gone through
MAX_RULE_ENTRIES = 12  # connected entries of the data in a rule: past this its cost is bounded noise by noise


@dataclass(frozen=True)
class Kept:
    """Σ noise · move + Σ data · difference + spare: at least 0, or 0; noise by its place among the moves."""

    noise: Mapping[int, Fraction]
    data: Mapping[int, Fraction]
    equal: bool
    what: str
    spare: Fraction = Fraction(0)


@dataclass(frozen=True)
class Carried:
    """Shifts of some noise for the differences of a polytope, what they must keep, and where they stand."""

    noises: Sequence[NoiseDraw]
    kept: Sequence[Kept]
    polytope: DifferenceBox | DifferenceHull
    shifts: ShiftTable | ShiftRule
    place: str
    weight: Fraction = Fraction(0)  # what the weight of its event costs over the polytope

    @property
    def cost(self) -> Fraction:
        """What the shifts are said to cost at most."""
        return self.shifts.cost if isinstance(self.shifts, ShiftRule) else max(s.cost for s in self.shifts.shifts)


def check_kept(at: Carried) -> int:
    """The number of shifts or rules that were found to keep what they must; raises Flaw where one does not."""
    if isinstance(at.shifts, ShiftRule):
        _check_rule(at, at.shifts)
        return 1
    return _check_table(at, at.shifts)


def check_cost(at: Carried) -> None:
    """Raise Flaw where a move is none that the noise allows, or a cost that is stated is not what the moves cost."""
    if isinstance(at.shifts, ShiftRule):
        _check_rule_cost(at, at.shifts)
        return
    flat = _up_to(at.noises, [[shift.moves[k] for shift in at.shifts.shifts] for k in range(len(at.noises))])
    for k, shift in enumerate(at.shifts.shifts):
        if flat is None or not _is_stated(flat, shift.cost):
            price = _total(at.noises, shift.moves, f"{at.place}/table/{k}/moves", range(len(at.noises)))
            _check_stated(price, shift.cost, f"{at.place}/table/{k}/cost")


def depends_on_whole(at: Carried) -> str | None:
    """The place where whole noise moves by what depends on the difference; None where there is none."""
    for k, noise in enumerate(at.noises):
        if not noise.whole:
            continue
        if isinstance(at.shifts, ShiftRule):
            if any(at.shifts.moves[k].slopes.values()):
                return f"{at.place}/rule/{k}"
        elif at.shifts.entries:
            for c, shift in enumerate(at.shifts.shifts):
                if shift.moves[k] != at.shifts.shifts[0].moves[k]:
                    return f"{at.place}/table/{c}/moves/{k}"
    return None


def count(number: int, noun: str) -> str:
    """The number with its noun."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


# ---------------------------------------------------------------------------------------------------- what is kept


def _check_table(at: Carried, table: ShiftTable) -> int:
    differences = _differences(at, table)
    if len(table.shifts) != len(differences):
        what = "corner" if table.at == "corners" else "whole difference"
        reason = f"{count(len(differences), 'shift')} needed, one for each {what} of the entries"
        raise CertificateFlaw(f"{at.place}/table", f"{reason}, not {len(table.shifts)}")
    unit = _unit([*at.polytope.low, *at.polytope.high]) if isinstance(at.polytope, DifferenceBox) else 1
    rows = [_Row.of(kept, at.polytope, table.entries, unit) for kept in at.kept]
    for k, (difference, shift) in enumerate(zip(differences, table.shifts, strict=True)):
        _check_shift(rows, difference, shift, unit, f"{at.place}/table/{k}")
    return len(differences)


def _differences(at: Carried, table: ShiftTable) -> list[dict[int, Fraction]]:
    """The differences that a table has shifts for, in their order."""
    if isinstance(at.polytope, DifferenceHull):
        size = len(at.polytope.corners[0])
        if table.at != "corners":
            raise CertificateFlaw(f"{at.place}/at", "corners are needed, as the differences are given by them")
        if table.entries != tuple(range(size)):
            raise CertificateFlaw(
                f"{at.place}/entries", "all entries are needed, as the differences are given by corners"
            )
        return [dict(enumerate(corner)) for corner in at.polytope.corners]
    many = {"corners": 2, "whole": max(map(_whole_count, at.polytope.low, at.polytope.high), default=1)}[table.at]
    if len(table.entries) * math.log2(many or 1) > MOST_BITS or len(table.entries) > MOST_BITS:
        raise CertificateFlaw(
            f"{at.place}/entries", f"so many entries have more than 2^{MOST_BITS} differences; give a rule"
        )
    return list(getattr(at.polytope, table.at)(table.entries))


def _whole_count(low: Fraction, high: Fraction) -> int:
    return math.floor(high) - math.ceil(low) + 1


@dataclass(frozen=True)
class _Row:
    """What a table must keep, in whole numbers: sums of these are exact, and faster than those of fractions.

    The coefficients of noise and of the table's entries are multiplied by `own`. `low` and `high` are the ends of what
    the other entries may change, spare included, multiplied by `own` and by the unit of the polytope.
    """

    noise: Sequence[tuple[int, int]]
    data: Sequence[tuple[int, int]]
    low: int
    high: int
    own: int
    kept: Kept

    @classmethod
    def of(cls, kept: Kept, polytope: DifferenceBox | DifferenceHull, entries: Sequence[int], unit: int) -> _Row:
        rest = {i: c for i, c in kept.data.items() if i not in entries}
        low, high = bounds_in(rest, polytope) if isinstance(polytope, DifferenceBox) else (Fraction(0), Fraction(0))
        own = _unit([*kept.noise.values(), *kept.data.values(), kept.spare])
        return cls(
            [(k, _times(c, own)) for k, c in kept.noise.items()],
            [(i, _times(c, own)) for i, c in kept.data.items() if i in entries],
            _times(low + kept.spare, own * unit),
            _times(high + kept.spare, own * unit),
            own,
            kept,
        )


def _unit(numbers: Iterable[Fraction]) -> int:
    """The least number by which all of these become whole."""
    return math.lcm(*{number.denominator for number in numbers})


def _times(number: Fraction, unit: int) -> int:
    """The number multiplied by a unit that makes it whole."""
    factor, rest = divmod(unit, number.denominator)
    if rest:
        raise ArithmeticError(f"{unit} does not make {number} whole")
    return number.numerator * factor


def _check_shift(
    rows: Sequence[_Row], difference: Mapping[int, Fraction], shift: EventShift, unit: int, place: str
) -> None:
    finer = math.lcm(unit, _unit([*shift.moves, *difference.values()]))
    moves = [_times(move, finer) for move in shift.moves]
    data = {i: _times(value, finer) for i, value in difference.items()}
    steps = finer // unit
    for row in rows:
        change = 0
        for k, c in row.noise:
            change += c * moves[k]
        for i, c in row.data:
            change += c * data[i]
        least, most = change + row.low * steps, change + row.high * steps
        if least < 0 or (row.kept.equal and most > 0):
            known = ", ".join(f"{i}: {text_of(value)}" for i, value in difference.items())
            where = f"where the data move by ({known})" if difference else "however the data move"
            raise _changed(Fraction(least, row.own * finer), Fraction(most, row.own * finer), row.kept, place, where)


def _check_rule(at: Carried, rule: ShiftRule) -> None:
    if not isinstance(at.polytope, DifferenceBox):
        raise CertificateFlaw(f"{at.place}/rule", "a rule is for a box, not for corners")
    for kept in at.kept:
        slopes = dict(kept.data)
        constant = kept.spare
        for k, c in kept.noise.items():
            constant += c * rule.moves[k].constant
            for i, slope in rule.moves[k].slopes.items():
                slopes[i] = slopes.get(i, Fraction(0)) + c * slope
        least, most = (constant + end for end in bounds_in(slopes, at.polytope))
        if least < 0 or (kept.equal and most > 0):
            raise _changed(least, most, kept, f"{at.place}/rule", "for some difference")


def _changed(least: Fraction, most: Fraction, kept: Kept, place: str, where: str) -> CertificateFlaw:
    return CertificateFlaw(place, f"{where} it changes {kept.what} by {text_of(least if least < 0 else most)}")


def bounds_in(slopes: Mapping[int, Fraction], box: DifferenceBox) -> tuple[Fraction, Fraction]:
    """The least and the largest value of Σ slope · entry in the box."""
    ends = [(slope * box.low[i], slope * box.high[i]) for i, slope in slopes.items()]
    return sum((min(e) for e in ends), start=Fraction(0)), sum((max(e) for e in ends), start=Fraction(0))


# ---------------------------------------------------------------------------------------------------------------- costs


def _total(noises: Sequence[NoiseDraw], moves: Sequence[Fraction], place: str, names: Sequence[int]) -> ShiftPrice:
    """What the moves cost together; the place of each is its name within `place`."""
    prices = []
    for noise, move, name in zip(noises, moves, names, strict=True):
        if not move:
            continue
        price = noise.price(move)
        if price is None:
            raise CertificateFlaw(f"{place}/{name}", f"{noise.kind} noise must not be moved by {text_of(move)}")
        prices.append(price)
    return ShiftPrice.total(prices)


def _up_to(noises: Sequence[NoiseDraw], moves: Sequence[Sequence[Fraction]]) -> ShiftPrice | None:
    """What any means of the moves cost together, each noise being moved by one of those that are listed for it.

    None where a noise must not be moved so.

    A mean is no larger than the largest, and where the price of a noise is known up to a size, it costs no more than
    that. Other prices are convex, and so largest at one of the moves. A table may state this in place of the prices of
    its moves: if one of its shifts does, no mean of its shifts costs more than what is stated there.
    """
    prices = []
    for noise, listed in zip(noises, moves, strict=True):
        dearest = ShiftPrice(Fraction(0))
        for move in listed:
            price = noise.price_up_to(move) or noise.price(move)
            if price is None:
                return None
            dearest = max(dearest, price, key=lambda price: price.amount)
        prices.append(dearest)
    return ShiftPrice.total(prices)


def _is_stated(price: ShiftPrice, stated: Fraction) -> bool:
    return price.amount <= stated <= price.amount * (1 + (COST_TOLERANCE if price.rounded else 0))


def _check_stated(price: ShiftPrice, stated: Fraction, place: str) -> None:
    if not _is_stated(price, stated):
        amount = f"just under {decimal_of(price.amount)}" if price.rounded else text_of(price.amount)
        raise CertificateFlaw(place, f"the moves cost {amount}, not {text_of(stated)}")


def _check_rule_cost(at: Carried, rule: ShiftRule) -> None:
    """The price is convex in the move, which is affine in the difference: so it is largest at a corner.

    Noises whose moves have no entry of the difference in common can be at their dearest together; for those that have,
    all corners of their entries are tried, or where these are too many, what each costs at most is added up.
    """
    box = at.polytope
    if not isinstance(box, DifferenceBox):
        raise CertificateFlaw(f"{at.place}/rule", "a rule is for a box, not for corners")
    place = f"{at.place}/rule"
    for k, (noise, move) in enumerate(zip(at.noises, rule.moves, strict=True)):
        check_whole_rule(noise, move, f"{place}/{k}")
    flat = _up_to(at.noises, [[move.constant + end for end in bounds_in(move.slopes, box)] for move in rule.moves])
    if flat is not None and flat.amount <= rule.cost:
        return
    totals = []
    for group in linked_noises(rule):
        chosen = [at.noises[k] for k in group]
        entries = sorted({i for k in group for i in rule.moves[k].slopes})
        if len(entries) <= MAX_RULE_ENTRIES:
            tried = [[moved(rule, k, difference) for k in group] for difference in box.corners(entries)]
            totals.append(max((_total(chosen, moves, place, group) for moves in tried), key=lambda price: price.amount))
            continue
        for k, noise in zip(group, chosen, strict=True):
            low, high = bounds_in(rule.moves[k].slopes, box)
            ends = [_total([noise], [rule.moves[k].constant + end], place, [k]) for end in (low, high)]
            totals.append(max(ends, key=lambda price: price.amount))
    price = ShiftPrice.total(totals)
    if rule.cost < price.amount:
        raise CertificateFlaw(
            f"{at.place}/cost", f"the moves may cost {text_of(price.amount)}, not only {text_of(rule.cost)}"
        )


def check_whole_rule(noise: NoiseDraw, move: NoiseMove, place: str) -> None:
    """Raise Flaw where a rule moves noise in whole numbers by others."""
    if noise.whole and any(x.denominator != 1 for x in (move.constant, *move.slopes.values())):
        raise CertificateFlaw(place, f"{noise.kind} noise moves in whole steps, so whole numbers are needed")


def moved(rule: ShiftRule, k: int, difference: Mapping[int, Fraction]) -> Fraction:
    """By how much the rule moves this noise at a difference."""
    move = rule.moves[k]
    return move.constant + sum((slope * difference[i] for i, slope in move.slopes.items()), start=Fraction(0))


def linked_noises(rule: ShiftRule) -> list[list[int]]:
    """The noises in groups that have no entry of the difference in common."""
    groups: list[tuple[list[int], set[int]]] = []
    for k, move in enumerate(rule.moves):
        entries = {i for i, slope in move.slopes.items() if slope}
        touching = [group for group in groups if group[1] & entries]
        groups = [group for group in groups if not group[1] & entries]
        members = sorted([k, *(other for group in touching for other in group[0])])
        groups.append((members, entries.union(*(group[1] for group in touching))))
    return [members for members, _ in groups]
