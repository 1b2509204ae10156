"""Whether a certificate of an alignment proves what it says.

Part of the checker: the argument for each step stands above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import permutations
from operator import le, mul

from veridp_check.alignment.reader import (
    AlignmentEvent,
    Certificate,
    DifferenceBox,
    DifferenceHull,
    ShiftRule,
    ShiftTable,
)
from veridp_check.coverage import EventRegion, check_runs
from veridp_check.document import LISTED, NUMERIC, CertificateFlaw, LinearCondition, Stated, text_of
from veridp_check.formulas import FormulaMap
from veridp_check.maps import PiecewiseMap
from veridp_check.records import RecordSums, Seen, Way, ends_of, sums_of, ways_to_differ
from veridp_check.shifts import Carried, Kept, bounds_in, check_cost, check_kept, count, depends_on_whole
from veridp_check.weights import ExponentialRatio, PiecewiseWeight, check_weight

SENSE = {"linf": [(-1, 1)], "monotone": [(0, 1), (-1, 0)]}  # the boxes of differences, by the ends of every entry
MEANS = "means"  # the data of the events are sums divided by the number of records
SCALED = ("laplace", "normal", "exponential", "gumbel", "logistic", "cauchy")  # divided by n, of a scale divided by n
KNOWN = (*SENSE, "l1", "any", LISTED)


# ----------------------------------------------------------------------------------------------------- neighbours


def check_neighbours(certificate: Certificate) -> str:
    """The polytopes are those of the adjacency."""
    size, listed, name = certificate.size, certificate.polytopes, certificate.adjacency
    for p, polytope in enumerate(listed):
        if isinstance(polytope, DifferenceHull):
            _check_corners_differ(polytope, p)
    if certificate.records:
        return check_differences(certificate.records, listed, certificate)
    if name == "any":
        check_interval(listed, certificate)
        return f"any two {certificate.scope}, as far apart as these are"
    if certificate.domain is not None:
        raise CertificateFlaw("/domain", f"the data under {name} are no single number")
    if name not in KNOWN:
        raise CertificateFlaw("/adjacency", f"an alignment is for one of {', '.join(KNOWN)}, not for {name}")
    if name == LISTED:
        check_symmetry(listed)
        return f"data that differ as {count(len(listed), 'polytope')} of the certificate {_say(listed)}, and no others"
    if name == "l1" and len(listed) == size and isinstance(listed[0], DifferenceBox):
        return _check_segments(listed, size)
    wanted = 1 if name == "l1" else len(SENSE[name])
    if len(listed) != wanted:
        raise CertificateFlaw("/polytopes", f"{count(wanted, 'polytope')} under {name}, not {len(listed)}")
    if name == "l1":
        return _check_cross(listed[0], size)
    for p, (polytope, (low, high)) in enumerate(zip(listed, SENSE[name], strict=True)):
        if not isinstance(polytope, DifferenceBox):
            raise CertificateFlaw(f"/polytopes/{p}", f"a box is needed under {name}, not corners")
        for end, ends, needed in (("low", polytope.low, low), ("high", polytope.high, high)):
            for i, value in enumerate(ends):
                if value != needed:
                    raise CertificateFlaw(
                        f"/polytopes/{p}/{end}/{i}", f"under {name} it is {needed}, not {text_of(value)}"
                    )
    boxes = " and ".join(f"[{low}, {high}]^{size}" for low, high in SENSE[name])
    return f"{boxes}, as {name} has it for {count(size, 'entry')}"


def check_interval(listed: Sequence[DifferenceBox | DifferenceHull], certificate: Stated) -> None:
    """The differences of any two numbers of an interval are what lies between its length, downwards and upwards."""
    if certificate.domain is None:
        raise CertificateFlaw("/domain", "an interval is needed where any two numbers are neighbours")
    if certificate.size != 1:
        raise CertificateFlaw("/size", f"one number is needed, not {certificate.size}")
    low, high = certificate.domain
    if list(listed) != [DifferenceBox((low - high,), (high - low,))]:
        raise CertificateFlaw("/polytopes", f"one box is needed, from {text_of(low - high)} to {text_of(high - low)}")


def check_differences(
    sums: Sequence[Seen], listed: Sequence[DifferenceBox | DifferenceHull], certificate: Stated
) -> str:
    """Whatever the neighbours are, their sums differ by a vector of one of the polytopes, in both directions.

    A mean of corners is in a hull, and in a box if they are. Where records may stand in any order, these must not
    matter: each place has the same cells.
    """
    over_records = [each for each in sums if isinstance(each, RecordSums)]
    alike = all(cells == each.places[0] for each in over_records for cells in each.places)
    if certificate.adjacency.endswith("-unordered") and not alike:
        raise CertificateFlaw("/records", f"places of records differ, which mean nothing under {certificate.adjacency}")
    for p, polytope in enumerate(listed):
        if isinstance(polytope, DifferenceHull) and not polytope.corners:
            raise CertificateFlaw(f"/polytopes/{p}/corners", "there is no corner")
    if isinstance(sums[0], PiecewiseMap):
        sums[0].check()
    ways = ways_to_differ(sums, certificate.adjacency)
    for way in ways:
        mirrored = tuple(frozenset(_negative(vector) for vector in each) for each in way)
        for each in (way, mirrored):
            if not any(_contains(polytope, each) for polytope in listed):
                low, high = ends_of(each)
                between = " and ".join(f"{_vector(end)}" for end in (low, high))
                raise CertificateFlaw("/polytopes", f"none has the differences between {between} of neighbours")
    kinds = count(len(ways), "kind")
    if isinstance(sums[0], PiecewiseMap):
        values, pieces = count(sums[0].count, "value"), count(len(sums[0].pieces), "piece")
        return f"{kinds} of difference in {values} of a function of {pieces}, which is continuous: {certificate.scope}"
    if isinstance(sums[0], FormulaMap):
        return f"{kinds} of difference in {count(sums[0].count, 'formula')} of the data: {certificate.scope}"
    found = count(sums[0].count, "sum")
    return f"{kinds} of difference in {found} over the records: {certificate.scope}"


def _contains(polytope: DifferenceBox | DifferenceHull, way: Way) -> bool:
    if isinstance(polytope, DifferenceBox):
        low, high = ends_of(way)
        return all(map(le, polytope.low, low)) and all(map(le, high, polytope.high))
    found = sums_of(way)
    return found is not None and found <= frozenset(polytope.corners)


def _check_corners_differ(polytope: DifferenceHull, p: int) -> None:
    seen: dict[tuple[Fraction, ...], int] = {}
    for c, corner in enumerate(polytope.corners):
        if corner in seen:
            raise CertificateFlaw(
                f"/polytopes/{p}/corners/{c}", f"this corner is listed twice: it is corner {seen[corner]} too"
            )
        seen[corner] = c


def _check_cross(polytope: DifferenceBox | DifferenceHull, size: int) -> str:
    """One entry moves by up to 1, either way."""
    if not isinstance(polytope, DifferenceHull):
        raise CertificateFlaw("/polytopes/0", "corners are needed under l1, not a box")
    if len(polytope.corners) != 2 * size:
        raise CertificateFlaw("/polytopes/0/corners", f"l1 has {2 * size} corners, not {len(polytope.corners)}")
    for c, corner in enumerate(polytope.corners):
        if sorted(map(abs, corner)) != [0] * (size - 1) + [1]:
            raise CertificateFlaw(f"/polytopes/0/corners/{c}", f"{_vector(corner)} is no corner of l1")
    return f"{2 * size} corners, all those of l1 for {count(size, 'entry')}"


def _check_segments(listed: Sequence[DifferenceBox | DifferenceHull], size: int) -> str:
    """The same, as a segment for each entry."""
    for p, polytope in enumerate(listed):
        high = tuple(Fraction(i == p) for i in range(size))
        if polytope != DifferenceBox(tuple(-x for x in high), high):
            raise CertificateFlaw(
                f"/polytopes/{p}", f"under l1 it is where entry {p} moves by up to 1, and no other does"
            )
    return f"{count(size, 'segment')}, all those of l1 for {count(size, 'entry')}"


def check_symmetry(listed: Sequence[DifferenceBox | DifferenceHull]) -> None:
    """Neighbours are so in both directions, and so must be the differences: with each polytope there is its mirror."""
    if not listed:
        raise CertificateFlaw("/polytopes", "there is no polytope")
    mirrored = {_mirrored(polytope) for polytope in listed}
    for p, polytope in enumerate(listed):
        if isinstance(polytope, DifferenceHull) and not polytope.corners:
            raise CertificateFlaw(f"/polytopes/{p}/corners", "there is no corner")
        if _unordered(polytope) not in mirrored:
            raise CertificateFlaw(
                f"/polytopes/{p}", "its mirror image is not listed, so that one direction is left out"
            )


def _unordered(polytope: DifferenceBox | DifferenceHull) -> object:
    return polytope if isinstance(polytope, DifferenceBox) else frozenset(polytope.corners)


def _mirrored(polytope: DifferenceBox | DifferenceHull) -> object:
    if isinstance(polytope, DifferenceBox):
        return DifferenceBox(_negative(polytope.high), _negative(polytope.low))
    return frozenset(map(_negative, polytope.corners))


def _negative(vector: Sequence[Fraction]) -> tuple[Fraction, ...]:
    return tuple(-x for x in vector)


def _say(listed: Sequence[object]) -> str:
    return "says" if len(listed) == 1 else "say"


# -------------------------------------------------------------------------------------------------------- outputs


def check_outputs(certificate: Certificate) -> str:
    """The outputs differ, each has events, and each event has as many numbers as its output has numeric entries."""
    places: dict[str, int] = {}
    for index, output in enumerate(certificate.outputs):
        if output in places:
            raise CertificateFlaw(
                f"/outputs/{index}", f"the output {output} is listed twice: it is output {places[output]} too"
            )
        places[output] = index
    for e, event in enumerate(certificate.events):
        entries = certificate.outputs[event.output].count(NUMERIC)
        if len(event.numbers) != entries:
            text = certificate.outputs[event.output]
            raise CertificateFlaw(
                f"/events/{e}/numbers", f"the output {text} has {entries} numeric entries, not {len(event.numbers)}"
            )
    unused = set(range(len(certificate.outputs))) - {event.output for event in certificate.events}
    if unused:
        raise CertificateFlaw(f"/outputs/{min(unused)}", "no event gives this output")
    return f"{count(len(certificate.outputs), 'output')}, given by {count(len(certificate.events), 'event')}"


# --------------------------------------------------------------------------------------------------------- shifts


def places_of(certificate: Certificate) -> Iterator[Carried]:
    """The shifts of every event over every polytope, and what they must keep: polytope by polytope for each event."""
    for e, event in enumerate(certificate.events):
        if len(event.shifts) != len(certificate.polytopes):
            raise CertificateFlaw(f"/events/{e}/shifts", f"{count(len(certificate.polytopes), 'table or rule')} needed")
        weights = event.weight.costs if isinstance(event.weight, PiecewiseWeight) else [Fraction(0)] * len(event.shifts)
        if len(weights) != len(certificate.polytopes):
            raise CertificateFlaw(f"/events/{e}/weight/costs", f"{count(len(certificate.polytopes), 'cost')} needed")
        noises = [certificate.noises[row] for row in event.draws]
        kept = list(_kept(event, f"/events/{e}"))
        for p, (polytope, shifts) in enumerate(zip(certificate.polytopes, event.shifts, strict=True)):
            yield Carried(noises, kept, polytope, shifts, f"/events/{e}/shifts/{p}", weights[p])


def _kept(event: AlignmentEvent, place: str) -> Iterator[Kept]:
    """What must not change, or not fall: the conditions and the numeric entries."""
    move = {row: k for k, row in enumerate(event.draws)}
    named = [(c.slack, c.relation == "==", f"condition {place}/conditions/{k}") for k, c in enumerate(event.conditions)]
    named += [(number, True, f"the numeric entry {place}/numbers/{k}") for k, number in enumerate(event.numbers)]
    for expression, equal, what in named:
        yield Kept({move[row]: c for row, c in expression.noise.items()}, expression.data, equal, what)


def check_shifts(certificate: Certificate) -> str:
    """Every shift carries its event into itself, on data that moved by any difference.

    On data D a run is in the event where every a·noise + b·D + c stands to 0 as the condition says. So no inequality
    that held can fail if the change of its left side is >= 0, no equation if it is 0; and a numeric entry stays what it
    was just if its change is 0.
    """
    tables = rules = 0
    for at in places_of(certificate):
        found = check_kept(at)
        tables, rules = (tables, rules + 1) if isinstance(at.shifts, ShiftRule) else (tables + found, rules)
    parts = [count(tables, "shift")] * bool(tables) + [count(rules, "rule")] * bool(rules)
    which = "each of which keeps every condition and every numeric entry"
    return f"{' and '.join(parts)}, {which}" if parts else "there are none"


def check_costs(certificate: Certificate) -> str:
    """Every move is one that the noise allows, and the stated costs are the sums of what they cost."""
    for at in places_of(certificate):
        check_cost(at)
    kinds = sorted({noise.kind for noise in certificate.noises}) or ["no"]
    return f"the moves are allowed for {' and '.join(kinds)} noise, and cost what is stated"


# ------------------------------------------------------------------------------------------- the rest of the proof


def check_convexity(certificate: Certificate) -> str:
    """What is given stands for all differences.

    A rule gives a shift for each of them. A table has shifts for the corners of some entries; a difference between
    these is a mean Σλδ of corners. Take the same mean ΣλΔ of their shifts: it changes each condition by the mean of
    changes that are all >= 0 (or all 0), the noise allows it (a mean of upward moves is one), and as each price is
    convex in the move, it costs at most the mean of the costs; or no more than a cost that was stated for all means of
    the moves at once. Whole noise is the exception: it moves by whole steps
    only, and where it does so by a rule with slopes, or by a table with corners, the certificate has to restrict itself
    to data that are whole numbers. A table must then have a corner for every whole difference.
    """
    depends = False
    if certificate.records and certificate.data == "whole":
        raise CertificateFlaw("/data", "sums over records need not be whole")
    if certificate.data == MEANS:
        _check_means(certificate)
    for at in places_of(certificate):
        if certificate.data != "whole" and isinstance(at.shifts, ShiftTable) and at.shifts.at == "whole":
            raise CertificateFlaw(f"{at.place}/at", "shifts for whole differences only: the data must be whole")
        depends |= _depends_on_whole(certificate, at)
    if certificate.data != "whole":
        return "means of the shifts serve for all differences between the corners"
    if not depends:
        return "nothing is said of data that are not whole, though it would hold for them"
    return "every whole difference has its shift; nothing is said of data that are not whole"


def _check_means(certificate: Certificate) -> None:
    """Means of n records, and noise whose scales are the stated ones divided by n, are like sums of one record.

    The means of neighbours differ by the differences of the sums, divided by n. Divide every shift by n too: what it
    keeps is linear and so is kept, and as the scales are so divided, the noise allows it at the same cost. Which run is
    in which event does not depend on the scales. For this the records must be as many on both sides, and the scale must
    be all that the distribution of the noise has.
    """
    if certificate.size is not None or not certificate.adjacency.startswith("replace") or not certificate.records:
        raise CertificateFlaw("/data", "means are for every size, of as many records on both sides")
    for k, noise in enumerate(certificate.noises):
        if noise.kind not in SCALED:
            raise CertificateFlaw(f"/noises/{k}/kind", f"{noise.kind} noise cannot be divided by the number of records")


def _depends_on_whole(certificate: Certificate, at: Carried) -> bool:
    """Whether whole noise moves by what depends on the difference; raises Flaw where that is not accounted for."""
    place = depends_on_whole(at)
    if place is None:
        return False
    if certificate.data != "whole":
        raise CertificateFlaw(
            place, "whole noise is moved, which only carries over whole differences: the data must be whole"
        )
    if isinstance(at.shifts, ShiftTable):
        _check_whole_corners(certificate, at, at.shifts)
    return True


def _check_whole_corners(certificate: Certificate, at: Carried, table: ShiftTable) -> None:
    """Every whole difference is a corner, or 0 where that needs no shift."""
    if isinstance(at.polytope, DifferenceHull):
        if certificate.adjacency != "l1":
            raise CertificateFlaw("/data", f"whole differences under {certificate.adjacency} need not be corners")
        return
    for i in table.entries if table.at == "corners" else ():
        ends = (at.polytope.low[i], at.polytope.high[i])
        if ends[1] - ends[0] > 1 or any(end.denominator != 1 for end in ends):
            raise CertificateFlaw(
                f"{at.place}/entries", f"whole differences of entry {i} need not be corners, and have no shift"
            )


@dataclass(frozen=True)
class WeightedRegion:
    """An event, or its part in a region of the data on which its weight is one formula."""

    weight: Fraction | ExponentialRatio
    conditions: tuple[LinearCondition, ...]


def check_events(certificate: Certificate) -> str:
    """Every run is in an event, and in one only, except runs of probability 0."""
    if not certificate.events:
        raise CertificateFlaw("/events", "there is no event")
    regions: list[EventRegion] = []
    for e, event in enumerate(certificate.events):
        if isinstance(event.weight, PiecewiseWeight):
            for piece in event.weight.pieces:
                regions.append(WeightedRegion(piece.weight, (*event.conditions, *piece.conditions)))
            continue
        regions.append(WeightedRegion(event.weight, event.conditions))
        if not 0 < event.weight <= 1:
            raise CertificateFlaw(
                f"/events/{e}/weight", f"a probability above 0 is needed, not {text_of(event.weight)}"
            )
    _check_weights(certificate)
    pairs = check_runs(regions, certificate.noises, certificate.entries, certificate.bounds)
    if any(event.weight != 1 for event in certificate.events):
        return "for all noise and data, the weights of the events that hold sum to 1"
    return f"they cover all runs, and no two of them overlap ({count(pairs, 'pair')})"


def _check_weights(certificate: Certificate) -> None:
    """Weights that depend on the data are above 0 on all data, and change by no more than they are said to cost.

    On data D the runs of an event have probability W(D) · P[noise in its region]. A shift bounds the change of the
    latter, the cost of the weight that of the former; together they cost the sum. Weights that depend on sums over
    records are not accepted.
    """
    covered: set[str] = set()
    least = [partial(_least_change, polytope) for polytope in certificate.polytopes]
    for e, event in enumerate(certificate.events):
        if isinstance(event.weight, PiecewiseWeight):
            place = f"/events/{e}/weight"
            if certificate.records:
                raise CertificateFlaw(place, "a number is needed where the data are sums over records")
            check_weight(event.weight, least, certificate.size, place)
            regions = [WeightedRegion(Fraction(1), piece.conditions) for piece in event.weight.pieces]
            if str(regions) not in covered:  # many events have the same regions
                check_runs(regions, (), certificate.size, place=f"{place}/pieces")
                covered.add(str(regions))


def _least_change(polytope: DifferenceBox | DifferenceHull, slope: Sequence[Fraction]) -> Fraction:
    """The least value of slope · difference."""
    if isinstance(polytope, DifferenceBox):
        ends = zip(slope, polytope.low, polytope.high, strict=True)
        return sum((min(c * low, c * high) for c, low, high in ends), start=Fraction(0))
    return min(sum(map(mul, slope, corner), start=Fraction(0)) for corner in polytope.corners)


def check_epsilon(certificate: Certificate) -> str:
    """No shift, together with the weight of its event, costs more than ε."""
    worst = Fraction(0)
    for at in places_of(certificate):
        if isinstance(at.shifts, ShiftRule):
            costs = [(at.shifts.cost, f"{at.place}/cost")]
        else:
            costs = [(shift.cost, f"{at.place}/table/{k}/cost") for k, shift in enumerate(at.shifts.shifts)]
        for moved, place in costs:
            cost = moved + at.weight
            worst = max(worst, cost)
            if cost > certificate.epsilon:
                raise CertificateFlaw(place, f"the cost {text_of(cost)} is above ε = {text_of(certificate.epsilon)}")
    found = f"the dearest shift costs {text_of(worst)}, and ε is {text_of(certificate.epsilon)}"
    return found if certificate.rho is None else f"{found}; {_check_rho(certificate, certificate.rho)}"


def _check_rho(certificate: Certificate, rho: Fraction) -> str:
    """The losses of all outputs lie in an interval whose length squared is at most 8ρ.

    Let Z = ln P/Q be the loss between two neighbours, which lies in an interval of length η, and K(t) = ln E_Q[e^(tZ)].
    K(0) = K(1) = 0, and K''(t) is the variance of Z under a distribution of weights proportional to e^(tZ) Q: at most
    η²/4 (Popoviciu). So K(t) - t(t - 1)η²/8 is concave, and 0 at 0 and at 1: it is not positive for t > 1. The Rényi
    divergence of order t is K(t)/(t - 1), and so it is at most tη²/8: this is η²/8-zCDP.
    """
    spread = loss_range(certificate)
    if spread is None:
        raise CertificateFlaw("/rho", "the range of the losses is not known: not all weights are e^… by one sum")
    if rho < spread**2 / 8:
        raise CertificateFlaw("/rho", f"ρ is {text_of(spread**2 / 8)}, not less")
    return f"losses lie in a range of {text_of(spread)}, and ρ is {text_of(rho)}"


def loss_range(certificate: Certificate) -> Fraction | None:
    """The most by which the losses of two outputs differ, between the same neighbours; None where it is not known.

    Where the weight of every event i is c_i e^(l_i·x)/D(x), with the same D for all, its loss from x to x + δ is
    -l_i·δ plus a number that is the same for all. That of an output with several events lies between theirs.
    """
    exponents, divisors = [], set()
    for event in certificate.events:
        plain = not (event.draws or event.conditions or event.numbers)
        if not plain or not isinstance(event.weight, PiecewiseWeight):
            return None
        ratio, *others = (piece.weight for piece in event.weight.pieces)
        if len(ratio.numerator) != 1 or any(other != ratio for other in others):
            return None
        exponents.append(next(iter(ratio.numerator)))
        divisors.add(frozenset(frozenset(divisor.items()) for divisor in ratio.divisors))
        if len(divisors) > 1 or len(ratio.divisors) != 1:
            return None
    spreads = [Fraction(0)]
    for polytope in certificate.polytopes:
        for first, second in permutations(exponents, 2):
            slopes = {i: a - b for i, (a, b) in enumerate(zip(first[:-1], second[:-1], strict=True))}
            if isinstance(polytope, DifferenceBox):
                spreads.append(bounds_in(slopes, polytope)[1])
            else:
                spreads += [sum((slopes[i] * x for i, x in enumerate(c)), Fraction(0)) for c in polytope.corners]
    return max(spreads)


ALIGNMENT_STEPS = (
    ("neighbours", check_neighbours),
    ("outputs", check_outputs),
    ("shifts", check_shifts),
    ("costs", check_costs),
    ("convexity", check_convexity),
    ("events", check_events),
    ("epsilon", check_epsilon),
)


def _vector(values: Sequence[Fraction]) -> str:
    return f"({', '.join(map(text_of, values))})"
