"""Whether a certificate of bounds proves what it says. Part of the checker.

Where any two data are neighbours, an output is at most e^ε times as likely on some data as on others if its density is
nowhere above `most` and nowhere below `least`, and most <= e^ε least. The density of an output, where the number y is
released on data x, is the sum over its events of their probability: that of finite choices, times how often uniform
noise that is compared with x falls where it must, times the density of the uniform noise that gives y, if the event's
conditions hold for it. z3 finds no x and y for which this sum is beyond the bounds. For each x, the y at which a
condition is just met, or the released noise is at an end of its support, have probability 0, and are left out of
account.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import z3

from veridp.prove.carrying import count
from veridp.prove.check_cases import check_one_value, values_of
from veridp.prove.check_coupling import Piece, check_events, piece_of
from veridp.prove.covering import RELATION, rational, solution
from veridp.prove.document import NUMERIC, Condition, Flaw, Linear
from veridp.prove.enclosed import Bounds, Enclosed
from veridp.prove.noise_rules import Noise, log_above

X, Y = z3.Real("data[0]"), z3.Real("released number")


# ------------------------------------------------------------------------------------------------------------ cases


def check_data(certificate: Enclosed) -> str:
    """Any two data are neighbours; these are all numbers of an interval, or different values."""
    if certificate.adjacency != "any":
        raise Flaw("/adjacency", f"bounds are for any two data, not for {certificate.adjacency}")
    if certificate.domain is not None:
        if certificate.size != 1 or len(certificate.cases) != 1:
            raise Flaw("/cases", "one case of one number is needed where there is an interval")
        return f"all {certificate.scope}, any two of which are neighbours"
    check_one_value(certificate)
    if not certificate.cases:
        raise Flaw("/cases", "there is no case")
    return f"{count(len(values_of(certificate.cases)), 'value')} of the data; nothing is said of others"


def _within(certificate: Enclosed) -> list[Condition]:
    """That x is in the interval."""
    if certificate.domain is None:
        return []
    low, high = certificate.domain
    one = Fraction(1)
    return [Condition(Linear({}, {0: one}, -low), ">="), Condition(Linear({}, {0: -one}, high), ">=")]


def check_all_runs(certificate: Enclosed) -> str:
    """In every case each run is in one event, but for probability 0."""
    given = _within(certificate)
    for c, case in enumerate(certificate.cases):
        check_events(case.events, certificate.noises, certificate.size, given, f"/cases/{c}/events")
    events = sum(len(case.events) for case in certificate.cases)
    return f"{count(events, 'event')}, whose probabilities sum to 1 whatever the data are"


# -------------------------------------------------------------------------------------------------------- densities


@dataclass(frozen=True)
class _Part:
    """What an event adds to the density of its output, and what has to be other than 0 for that to be told."""

    amount: Any
    off: tuple[Any, ...]


def _part(piece: Piece, noises: Sequence[Noise], place: str) -> _Part:
    event = piece.event
    inside = [RELATION[c.relation](_value(c.slack)) for c in event.conditions if not _rows(c.slack)]
    off: list[Any] = []
    amount: Any = rational(piece.weight)
    released = [row for number in event.numbers for row in _rows(number)]
    if len(event.numbers) > 1 or len(released) != len(event.numbers):
        raise Flaw(f"{place}/numbers", "one number with one noise of its own is needed, or none")
    compared = 0
    for row in piece.rows:
        asked = [c for _, c in piece.conditions if c.slack.noise.get(row)]
        if noises[row].kind != "uniform":
            raise Flaw(f"{place}/draws", f"noise {row} has to be uniform, not {noises[row].kind}")
        if any(len(_rows(c.slack)) > 1 for c in asked):
            raise Flaw(f"{place}/conditions", f"noise {row} is compared with other noise")
        (scale,) = noises[row].parameters
        if row in released:
            number = event.numbers[0]
            slope = number.noise[row]
            noise = (Y - _value(number)) / rational(slope)
            sides = [_value(c.slack) + rational(c.slack.noise[row]) * noise for c in asked]
            inside += [RELATION[c.relation](side) for c, side in zip(asked, sides, strict=True)]
            inside += [noise > 0, noise < rational(scale)]
            off += [*sides, noise, noise - rational(scale)]
            amount = amount * rational(1 / (scale * abs(slope)))
        else:
            compared += 1
            amount = amount * _chance(asked, row, scale)
    if compared > 1:
        raise Flaw(f"{place}/conditions", "more than one noise is compared with the data")
    return _Part(z3.If(z3.And(inside), amount, 0), tuple(off))


def _rows(expression: Linear) -> list[int]:
    return [row for row, c in expression.noise.items() if c]


def _value(expression: Linear) -> Any:
    """The expression without its noise."""
    return rational(expression.constant) + rational(expression.data.get(0, Fraction(0))) * X


def _chance(asked: Sequence[Condition], row: int, scale: Fraction) -> Any:
    """How often uniform noise satisfies conditions that compare it with data."""
    low, high = rational(Fraction(0)), rational(scale)
    for condition in asked:
        slope = condition.slack.noise[row]
        bound = _value(condition.slack) / rational(-slope)
        if slope > 0 or condition.relation == "==":
            low = z3.If(bound > low, bound, low)
        if slope < 0 or condition.relation == "==":
            high = z3.If(bound < high, bound, high)
    return z3.If(high > low, high - low, 0) * rational(1 / scale)


def check_densities(certificate: Enclosed) -> str:
    """Every output has slabs that cover all numbers, and no density is beyond their bounds."""
    given = [RELATION[c.relation](_value(c.slack)) for c in _within(certificate)]
    places = {bounds.output: b for b, bounds in reversed(list(enumerate(certificate.bounds)))}
    for case in certificate.cases:
        for event in case.events:
            if event.output not in places:
                raise Flaw("/bounds", f"the output {event.output} has no bounds")
    for b, bounds in enumerate(certificate.bounds):
        if places[bounds.output] != b:
            raise Flaw(f"/bounds/{b}/output", f"the output {bounds.output} is listed twice")
        _check_slabs(bounds, f"/bounds/{b}/slabs")
        for c, case in enumerate(certificate.cases):
            parts = [
                _part(piece_of(event, certificate.noises), certificate.noises, f"/cases/{c}/events/{e}")
                for e, event in enumerate(case.events)
                if event.output == bounds.output
            ]
            off = [value != 0 for part in parts for value in part.off]
            density = z3.Sum([rational(Fraction(0)), *(part.amount for part in parts)])
            _check_density(density, [*given, *off], bounds, f"/bounds/{b}/slabs")
    slabs = sum(len(bounds.slabs) for bounds in certificate.bounds)
    return f"{count(len(places), 'output')}, whose densities are within {count(slabs, 'bound')} for all data"


def _check_slabs(bounds: Bounds, place: str) -> None:
    stops = [slab.stop for slab in bounds.slabs]
    if not stops or stops[-1] is not None:
        raise Flaw(place, "the last slab has to go on for ever")
    finite = [stop for stop in stops[:-1] if stop is not None]
    if len(finite) != len(stops) - 1 or any(b <= a for a, b in itertools.pairwise(finite)):
        raise Flaw(place, "each slab has to end above the one before")
    if finite and NUMERIC not in bounds.output:
        raise Flaw(place, f"the output {bounds.output} releases no number, and has one slab")


def _check_density(density: Any, given: Sequence[Any], bounds: Bounds, place: str) -> None:
    for s, (slab, within) in enumerate(_ranges(bounds)):
        for name, bound, beyond in (
            ("least", slab.least, density < rational(slab.least)),
            ("most", slab.most, density > rational(slab.most)),
        ):
            what = f"the density of {bounds.output} is nowhere beyond {bound}"
            point = solution(f"{place}/{s}/{name}", what, [*given, *within, beyond])
            if point is not None:
                raise Flaw(f"{place}/{s}/{name}", f"the density of {bounds.output} is beyond {bound} for {point}")


def _ranges(bounds: Bounds) -> Iterator[tuple[Any, list[Any]]]:
    start: Fraction | None = None
    for slab in bounds.slabs:
        above = [] if start is None else [rational(start) < Y]
        below = [] if slab.stop is None else [rational(slab.stop) > Y]
        yield slab, above + below
        start = slab.stop


# ---------------------------------------------------------------------------------------------------------- epsilon


def check_epsilon(certificate: Enclosed) -> str:
    """No bound from above is more than e^ε times that from below; both are 0 where an output is impossible."""
    worst = Fraction(1)
    for b, bounds in enumerate(certificate.bounds):
        for s, slab in enumerate(bounds.slabs):
            if slab.most <= 0:
                continue
            if slab.least <= 0:
                raise Flaw(f"/bounds/{b}/slabs/{s}/least", "a number above 0 is needed where most is above 0")
            worst = max(worst, slab.most / slab.least)
    loss = log_above(worst) if worst > 1 else Fraction(0)
    if loss > certificate.epsilon:
        raise Flaw("/epsilon", f"the worst output loses {float(loss):.15g}, which is more than {certificate.epsilon}")
    return f"the worst output loses {float(loss):.10g}, and ε is {float(certificate.epsilon):.10g}"


BOUNDS_STEPS = (
    ("data", check_data),
    ("events", check_all_runs),
    ("densities", check_densities),
    ("epsilon", check_epsilon),
)
