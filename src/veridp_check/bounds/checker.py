"""Whether a certificate of bounds proves what it says. Part of the checker.

Where any two data are neighbours, an output is at most e^ε times as likely on some data as on others if its density is
nowhere above `most` and nowhere below `least`, and most <= e^ε least. The density of an output, where the number y is
released on data x, is the sum over its events of their probability: that of finite choices, times how often uniform
noise that is compared with x falls where it must, times the density of the uniform noise that gives y, if the event's
conditions hold for it. This sum is linear in x and y on each of finitely many cells, and beyond the bounds in none. For
each x, the y at which a condition is just met, or the released noise is at an end of its support, have probability 0,
and are left out of account.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.bounds.reader import Enclosed, OutputBounds, OutputSlab
from veridp_check.coupling.cases import check_one_value, values_of
from veridp_check.coupling.checker import EventPiece, check_events, piece_of
from veridp_check.coverage import data_name, deciding, in_words
from veridp_check.document import NUMERIC, CertificateFlaw, LinearCondition, LinearForm, decimal_of, text_of
from veridp_check.enclosures import log_above
from veridp_check.linear import Ask, LinearExpression, LinearRelation, cells, number, variable
from veridp_check.noise import NoiseDraw
from veridp_check.shifts import count

X, Y = variable(data_name(0)), variable("released number")


# ------------------------------------------------------------------------------------------------------------ cases


def check_data(certificate: Enclosed) -> str:
    """Any two data are neighbours; these are all numbers of an interval, or different values."""
    if certificate.adjacency != "any":
        raise CertificateFlaw("/adjacency", f"bounds are for any two data, not for {certificate.adjacency}")
    if certificate.domain is not None:
        if certificate.size != 1 or len(certificate.cases) != 1:
            raise CertificateFlaw("/cases", "one case of one number is needed where there is an interval")
        return f"all {certificate.scope}, any two of which are neighbours"
    check_one_value(certificate)
    if not certificate.cases:
        raise CertificateFlaw("/cases", "there is no case")
    return f"{count(len(values_of(certificate.cases)), 'value')} of the data; nothing is said of others"


def _within(certificate: Enclosed) -> list[LinearCondition]:
    """That x is in the interval."""
    if certificate.domain is None:
        return []
    low, high = certificate.domain
    one = Fraction(1)
    return [
        LinearCondition(LinearForm({}, {0: one}, -low), ">="),
        LinearCondition(LinearForm({}, {0: -one}, high), ">="),
    ]


def check_all_runs(certificate: Enclosed) -> str:
    """In every case each run is in one event, except with probability 0."""
    given = _within(certificate)
    for c, case in enumerate(certificate.cases):
        check_events(case.events, certificate.noises, certificate.size, given, f"/cases/{c}/events")
    events = sum(len(case.events) for case in certificate.cases)
    return f"{count(events, 'event')}, whose probabilities sum to 1 whatever the data are"


# -------------------------------------------------------------------------------------------------------- densities


@dataclass(frozen=True)
class _Part:
    """What an event adds to the density of its output: how much, where its conditions hold, and 0 elsewhere.

    Where an expression of `edges` is 0 the density is not specified: these are finitely many released numbers.
    """

    conditions: tuple[LinearRelation, ...]
    edges: tuple[LinearRelation, ...]
    factor: Fraction
    compared: _Compared | None

    def amount(self, ask: Ask) -> LinearExpression:
        if not all(map(ask, self.conditions)) or not all(ask(edge, False) for edge in self.edges):
            return number(0)
        return number(self.factor) if self.compared is None else self.compared.chance(ask) * self.factor


@dataclass(frozen=True)
class _Compared:
    """Uniform noise from 0 to the scale that is above and below some expressions of the data."""

    above: tuple[LinearExpression, ...]
    below: tuple[LinearExpression, ...]
    scale: Fraction

    def chance(self, ask: Ask) -> LinearExpression:
        """How often it is."""
        low, high = number(0), number(self.scale)
        for bound in self.above:
            low = bound if ask(LinearRelation(bound - low, ">")) else low
        for bound in self.below:
            high = bound if ask(LinearRelation(high - bound, ">")) else high
        return (high - low) * (1 / self.scale) if ask(LinearRelation(high - low, ">")) else number(0)


def _part(piece: EventPiece, noises: Sequence[NoiseDraw], place: str) -> _Part:
    event = piece.event
    conditions = tuple(LinearRelation(_value(c.slack), c.relation) for c in event.conditions if not _rows(c.slack))
    edges: tuple[LinearRelation, ...] = ()
    compared: list[_Compared] = []
    factor = piece.weight
    released = [row for number_ in event.numbers for row in _rows(number_)]
    if event.functions:
        raise CertificateFlaw(f"{place}/functions", "functions of numbers have no density here")
    if len(event.numbers) > 1 or len(released) != len(event.numbers):
        raise CertificateFlaw(f"{place}/numbers", "one number with one noise of its own is needed, or none")
    for row in piece.rows:
        asked = [c for _, c in piece.conditions if c.slack.noise.get(row)]
        if noises[row].kind != "uniform":
            raise CertificateFlaw(f"{place}/draws", f"noise {row} has to be uniform, not {noises[row].kind}")
        if any(len(_rows(c.slack)) > 1 for c in asked):
            raise CertificateFlaw(f"{place}/conditions", f"noise {row} is compared with other noise")
        (scale,) = noises[row].parameters
        if row in released:
            slope = event.numbers[0].noise[row]
            noise = (Y - _value(event.numbers[0])) * (1 / slope)
            edges += tuple(LinearRelation(_value(c.slack) + noise * c.slack.noise[row], c.relation) for c in asked)
            edges += (LinearRelation(noise, ">"), LinearRelation(number(scale) - noise, ">"))
            factor /= scale * abs(slope)
        else:
            compared.append(_compared(asked, row, scale))
    if len(compared) > 1:
        raise CertificateFlaw(f"{place}/conditions", "more than one noise is compared with the data")
    return _Part(conditions, edges, factor, compared[0] if compared else None)


def _rows(expression: LinearForm) -> list[int]:
    return [row for row, c in expression.noise.items() if c]


def _value(expression: LinearForm) -> LinearExpression:
    """The expression without its noise."""
    return number(expression.constant) + X * expression.data.get(0, Fraction(0))


def _compared(asked: Sequence[LinearCondition], row: int, scale: Fraction) -> _Compared:
    """The noise, by the conditions that compare it with data."""
    above, below = [], []
    for condition in asked:
        slope = condition.slack.noise[row]
        bound = _value(condition.slack) * (-1 / slope)
        above += [bound] if slope > 0 or condition.relation == "==" else []
        below += [bound] if slope < 0 or condition.relation == "==" else []
    return _Compared(tuple(above), tuple(below), scale)


def check_densities(certificate: Enclosed) -> str:
    """Every output has slabs that cover all numbers, and no density is beyond their bounds."""
    given = [LinearRelation(_value(c.slack), c.relation) for c in _within(certificate)]
    places = {bounds.output: b for b, bounds in reversed(list(enumerate(certificate.bounds)))}
    for case in certificate.cases:
        for event in case.events:
            if event.output not in places:
                raise CertificateFlaw("/bounds", f"the output {event.output} has no bounds")
    for b, bounds in enumerate(certificate.bounds):
        if places[bounds.output] != b:
            raise CertificateFlaw(f"/bounds/{b}/output", f"the output {bounds.output} is listed twice")
        _check_slabs(bounds, f"/bounds/{b}/slabs")
        for c, case in enumerate(certificate.cases):
            parts = [
                _part(piece_of(event, certificate.noises), certificate.noises, f"/cases/{c}/events/{e}")
                for e, event in enumerate(case.events)
                if event.output == bounds.output
            ]
            _check_density(_density(parts), given, bounds, f"/bounds/{b}/slabs")
    slabs = sum(len(bounds.slabs) for bounds in certificate.bounds)
    return f"{count(len(places), 'output')}, whose densities are within {count(slabs, 'bound')} for all data"


def _density(parts: Sequence[_Part]) -> Callable[[Ask], LinearExpression]:
    return lambda ask: sum((part.amount(ask) for part in parts), start=number(0))


def _check_slabs(bounds: OutputBounds, place: str) -> None:
    stops = [slab.stop for slab in bounds.slabs]
    if not stops or stops[-1] is not None:
        raise CertificateFlaw(place, "the last slab has to go on for ever")
    finite = [stop for stop in stops[:-1] if stop is not None]
    if len(finite) != len(stops) - 1 or any(b <= a for a, b in itertools.pairwise(finite)):
        raise CertificateFlaw(place, "each slab has to end above the one before")
    if finite and NUMERIC not in bounds.output:
        raise CertificateFlaw(place, f"the output {bounds.output} releases no number, and has one slab")


def _check_density(
    density: Callable[[Ask], LinearExpression], given: Sequence[LinearRelation], bounds: OutputBounds, place: str
) -> None:
    for s, (slab, within) in enumerate(_ranges(bounds)):
        statement = f"the density of {bounds.output} is nowhere beyond {slab.least} and {slab.most}"
        with deciding(f"{place}/{s}", statement):
            for cell in cells(density, [*given, *within]):
                for name, bound, excess in (
                    ("least", slab.least, number(slab.least) - cell.answer),
                    ("most", slab.most, cell.answer - number(slab.most)),
                ):
                    point = cell.system.point(LinearRelation(excess, ">"))
                    if point is not None:
                        reason = f"the density of {bounds.output} is beyond {bound} for {in_words(point)}"
                        raise CertificateFlaw(f"{place}/{s}/{name}", reason)


def _ranges(bounds: OutputBounds) -> Iterator[tuple[OutputSlab, list[LinearRelation]]]:
    start: Fraction | None = None
    for slab in bounds.slabs:
        above = [] if start is None else [LinearRelation(Y - number(start), ">")]
        below = [] if slab.stop is None else [LinearRelation(number(slab.stop) - Y, ">")]
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
                raise CertificateFlaw(
                    f"/bounds/{b}/slabs/{s}/least", "a number above 0 is needed where most is above 0"
                )
            worst = max(worst, slab.most / slab.least)
    loss = log_above(worst) if worst > 1 else Fraction(0)
    if loss > certificate.epsilon:
        stated = text_of(certificate.epsilon)
        raise CertificateFlaw("/epsilon", f"the worst output loses {decimal_of(loss)}, which is more than {stated}")
    return f"the worst output loses {decimal_of(loss, 10)}, and ε is {decimal_of(certificate.epsilon, 10)}"


BOUNDS_STEPS = (
    ("data", check_data),
    ("events", check_all_runs),
    ("densities", check_densities),
    ("epsilon", check_epsilon),
)
