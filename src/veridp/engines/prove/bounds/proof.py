"""Proofs by bounds on the density of every output, and their certificates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from veridp.engines.prove.alignment.proof import Proof
from veridp.engines.prove.cases import DataCase, OutputPart, interval_of, interval_text, values_of
from veridp.engines.prove.certificate import EventWriter, Json, decimal_above, header
from veridp.engines.prove.coupling.search import NO_LOSS, CouplingLoss
from veridp.engines.prove.events import NoiseEvent, events_of, explored_values, piece_of
from veridp.engines.prove.explanation import Blame, return_site
from veridp.engines.prove.regions import is_on_data
from veridp.errors import BadInput
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.noise import Uniform
from veridp.kernel.output import Template
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, Relation, number_text
from veridp.mechanism import Mechanism

# ----------------------------------------------------------------------------------------------------------- densities
# How likely an output is, as a function of one open number of the data and of the number that is released.
#
# Where all noise that data touch is uniform, the density of an output is a sum of *layers*, one for each event. A
# layer
# fills a polygon of the plane (data x, released number y), and its height is a constant, or affine in x where uniform
# noise is compared with the data. So the plane falls apart along straight lines, and between two levels of y at which
# such lines meet, the same cells follow one another from left to right. What the density is at least and at most there
# is
# read off the ends of the cells, exactly.


MAX_SLANTED_LINES = 80  # slanted lines: past this the plane is not taken apart


@dataclass(frozen=True)
class AffineBound:
    """x·data + y·number + constant."""

    x: Fraction
    y: Fraction
    constant: Fraction

    def at(self, x: Fraction, y: Fraction) -> Fraction:
        return self.x * x + self.y * y + self.constant

    def where(self, y: Fraction) -> Fraction:
        """The x at which it is 0, on this level."""
        return -(self.y * y + self.constant) / self.x

    def level(self, x: Fraction) -> Fraction:
        """The y at which it is 0, at this x."""
        return -(self.x * x + self.constant) / self.y

    def scaled(self, factor: Fraction) -> AffineBound:
        return AffineBound(self.x * factor, self.y * factor, self.constant * factor)

    def plus(self, other: AffineBound) -> AffineBound:
        return AffineBound(self.x + other.x, self.y + other.y, self.constant + other.constant)

    @property
    def normal(self) -> AffineBound:
        """The same line, the first coefficient 1."""
        return self.scaled(1 / (self.x or self.y))


NOTHING = AffineBound(Fraction(0), Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Clause:
    """Where a layer is: how an expression stands to 0."""

    line: AffineBound
    relation: Relation

    def holds(self, x: Fraction, y: Fraction) -> bool:
        return bool(self.relation.holds(self.line.at(x, y)))


@dataclass(frozen=True)
class Layer:
    """An event's part of the density: `height` within all clauses, times how often uniform noise is between the largest
    of `lows` and the least of `highs` where there are any."""

    clauses: tuple[Clause, ...]
    height: Fraction
    lows: tuple[AffineBound, ...]
    highs: tuple[AffineBound, ...]

    @property
    def lines(self) -> Iterator[AffineBound]:
        """Along these, and nowhere else, its formula changes."""
        yield from (clause.line for clause in self.clauses)
        for one, other in itertools.combinations((*self.lows, *self.highs), 2):
            yield one.plus(other.scaled(Fraction(-1)))

    def formula(self, x: Fraction, y: Fraction) -> AffineBound:
        """Its height around a point, as an affine function of x."""
        if not all(clause.holds(x, y) for clause in self.clauses):
            return NOTHING
        if not self.lows:
            return AffineBound(Fraction(0), Fraction(0), self.height)
        low = max(self.lows, key=lambda line: line.at(x, y))
        high = min(self.highs, key=lambda line: line.at(x, y))
        between = high.plus(low.scaled(Fraction(-1)))
        return between.scaled(self.height) if between.at(x, y) > 0 else NOTHING


def layer_of(event: NoiseEvent) -> Layer | None:
    """The event as a layer; None where its noise is not uniform, or hangs together otherwise than with the data."""
    piece = piece_of(event)
    uniform = all(isinstance(noise.distribution, Uniform) for noise in piece.noises)
    if event.functions or len(event.numbers) > 1 or not uniform:
        return None
    height = piece.weight
    clauses = [Clause(_line(c.slack, None, NOTHING), c.relation) for c in event.conditions if is_on_data(c)]
    lows: tuple[AffineBound, ...] = ()
    highs: tuple[AffineBound, ...] = ()
    released = [s for number in event.numbers for s in number.terms if isinstance(s, Noise)]
    if len(released) != len(event.numbers):
        return None
    for noise in piece.noises:
        asked = [condition for condition in piece.conditions if noise in condition.slack.terms]
        if any(isinstance(s, Noise) and s != noise for condition in asked for s in condition.slack.terms):
            return None
        scale = Fraction(noise.distribution.scale)  # type: ignore[attr-defined]  # uniform
        if noise in released:
            value = _solved(event.numbers[0], noise)
            clauses += [Clause(_line(c.slack, noise, value), c.relation) for c in asked]
            clauses += [Clause(side, Relation.ABOVE) for side in (value, _less(scale, value))]
            height *= abs(value.y) / scale
        elif lows:
            return None  # two factors that depend on the data
        else:
            lows, highs = _between(asked, noise, scale)
            height /= scale
    return Layer(tuple(clauses), height, lows, highs)


def _line(expression: Affine, noise: Noise | None, value: AffineBound) -> AffineBound:
    """The expression with a line in place of the noise: all else that it has is the open number."""
    total = AffineBound(Fraction(0), Fraction(0), Fraction(expression.constant))
    for symbol, coefficient in expression.terms.items():
        factor = Fraction(coefficient)
        total = total.plus(value.scaled(factor) if symbol == noise else AffineBound(factor, Fraction(0), Fraction(0)))
    return total


def _solved(number: Affine, noise: Noise) -> AffineBound:
    """The noise that gives the released number y."""
    rest = _line(number, noise, NOTHING)
    return AffineBound(-rest.x, Fraction(1), -rest.constant).scaled(1 / Fraction(number.terms[noise]))


def _less(scale: Fraction, line: AffineBound) -> AffineBound:
    return line.scaled(Fraction(-1)).plus(AffineBound(Fraction(0), Fraction(0), scale))


def _between(
    asked: Sequence[Condition], noise: Noise, scale: Fraction
) -> tuple[tuple[AffineBound, ...], tuple[AffineBound, ...]]:
    """What the conditions keep the noise above, and below."""
    lows, highs = [NOTHING], [_less(scale, NOTHING)]
    for condition in asked:
        slope = Fraction(condition.slack.terms[noise])
        bound = _line(condition.slack, noise, NOTHING).scaled(-1 / slope)
        if slope > 0 or condition.relation is Relation.EQUAL:
            lows.append(bound)
        if slope < 0 or condition.relation is Relation.EQUAL:
            highs.append(bound)
    return tuple(lows), tuple(highs)


# ------------------------------------------------------------------------------------------------------------ slabs


@dataclass(frozen=True)
class DensitySlab:
    """Released numbers up to `stop` (None: all that follow), and what the density is there at least and at most."""

    stop: Fraction | None
    least: Fraction
    most: Fraction


def slabs_of(cases: Sequence[Sequence[Layer]], ends: tuple[Fraction, Fraction]) -> list[DensitySlab] | None:
    """Slabs of the number released, with bounds of the density over all cases and all x between the ends.

    None where too many lines take the plane apart. Without a number there is one slab.
    """
    plane = _Plane(cases, ends)
    if len(plane.slanted) > MAX_SLANTED_LINES:
        return None
    found: list[DensitySlab] = []
    for start, stop in itertools.pairwise((None, *plane.levels, None)):
        slab = DensitySlab(stop, *plane.bounds(start, stop))
        if found and (found[-1].least, found[-1].most) == (slab.least, slab.most):
            found.pop()
        found.append(slab)
    return found


@dataclass(frozen=True)
class _Plane:
    cases: Sequence[Sequence[Layer]]
    ends: tuple[Fraction, Fraction]

    @cached_property
    def _lines(self) -> set[AffineBound]:
        lines = {line for layers in self.cases for layer in layers for line in layer.lines}
        return {line.normal for line in lines if line.x or line.y}

    @cached_property
    def upright(self) -> list[Fraction]:
        """Every x at which an upright line stands, and both ends."""
        inside = {line.where(Fraction(0)) for line in self._lines if not line.y}
        return sorted({x for x in inside if self._is_inside(x)} | set(self.ends))

    @cached_property
    def slanted(self) -> list[AffineBound]:
        """All other lines."""
        return [line for line in self._lines if line.y]

    @cached_property
    def levels(self) -> list[Fraction]:
        """Every y at which lines meet between the ends."""
        found = {line.level(x) for line in self.slanted for x in self.upright}
        for one, other in itertools.combinations(self.slanted, 2):
            across = one.scaled(1 / one.y).plus(other.scaled(-1 / other.y))
            if across.x and self._is_inside(x := across.where(Fraction(0))):
                found.add(one.level(x))
        return sorted(found)

    def _is_inside(self, x: Fraction) -> bool:
        return self.ends[0] <= x <= self.ends[1]

    def bounds(self, start: Fraction | None, stop: Fraction | None) -> tuple[Fraction, Fraction]:
        """The least and the largest density between two levels."""
        levels = [level for level in (start, stop) if level is not None] or [Fraction(0)]
        middle = sum(levels, start=Fraction(0)) / len(levels) + (stop is None) - (start is None)
        # where a cell begins or ends: in the middle of the slab, and over all of it
        cuts = [(x, x, x) for x in self.upright]
        for line in self.slanted:
            if line.x and self._is_inside(x := line.where(middle)):
                sides = line.where(levels[0]), line.where(levels[-1])
                cuts.append((x, min(sides), max(sides)))
        cuts.sort()
        cells = [(x, x, x) for x in self.upright]  # what is decided by data alone may be so at a single x
        cells += [((a + b) / 2, least, most) for (a, least, _), (b, _, most) in itertools.pairwise(cuts) if a < b]
        heights = [height for cell in cells for height in self._heights(middle, *cell)]
        return min(heights), max(heights)

    def _heights(self, y: Fraction, x: Fraction, least: Fraction, most: Fraction) -> Iterator[Fraction]:
        """The density at both ends of a cell, in each case."""
        for layers in self.cases:
            total = NOTHING
            for layer in layers:
                total = total.plus(layer.formula(x, y))
            yield from (total.at(end, y) for end in (least, most))


# -------------------------------------------------------------------------------------------------------------- bounds
# Proofs by bounds: between what the density of every output is at least and at most, over all data.
#
# Where any two data are neighbours, an output is at most e^ε times as likely on one as on another if and only if the
# largest density it has on any data is at most e^ε times the least. So no pair has to be looked at: bounds are enough.


ZERO = Fraction(0)


@dataclass(frozen=True)
class DensityBounds:
    """The density of one output over all data, by slabs of the number that it releases."""

    output: Template
    slabs: tuple[DensitySlab, ...]

    @property
    def ratio(self) -> Fraction | None:
        """How much likelier the output is on some data than on others; None where it is impossible on some."""
        possible = [slab for slab in self.slabs if slab.most]
        if not all(slab.least for slab in possible):
            return None
        return max((slab.most / slab.least for slab in possible), default=Fraction(1))


@dataclass(frozen=True, eq=False)
class BoundedProof(Proof):
    """For any two data of the domain, an interval or the values of the cases: the ε that bounds prove."""

    ends: tuple[Fraction, Fraction] | None
    cases: tuple[DataCase, ...]
    densities: tuple[DensityBounds, ...]

    @cached_property
    def worst(self) -> DensityBounds:
        """The output that tells most."""
        return max(self.densities, key=lambda each: math.inf if each.ratio is None else each.ratio)

    @property
    def certificate(self) -> dict[str, Any]:

        return bounds_certificate_of(self)

    @property
    def restriction(self) -> str:
        return interval_text(self.mechanism) or f"for the {len(self.cases)} data of its domain"

    @property
    def extent(self) -> str:
        data = f"{len(self.cases)} data" if self.ends is None else "one open number"
        slabs = sum(len(each.slabs) for each in self.densities)
        return f"{data}, {len(self.densities)} outputs, densities bounded on {slabs} ranges of what is released"

    @property
    def explained(self) -> str:
        ratio = self.worst.ratio
        if ratio is None:
            return f"the output {self.worst.output} is possible on some data and impossible on others"
        text = number_text(ratio) if ratio.denominator < 10**6 else f"{float(ratio):.12g}"
        return f"the output {self.worst.output} is at most {text} times as likely on one as on another: cost ln {text}"

    @property
    def moves(self) -> list[list[float]]:
        return []

    @property
    def blame(self) -> Blame | None:
        if self.epsilon == 0:
            return None
        site = return_site(self.mechanism)
        return Blame("output", self.explained, site.file, site.line, self.epsilon)


def prove_by_bounds(mechanism: Mechanism, size: int, paths: Sequence[Path]) -> BoundedProof | None:
    """The smallest ε for any two numbers of the mechanism's interval, from its paths on an open one; None where it has
    noise whose densities are not bounded here."""
    ends = interval_of(mechanism)
    if ends is None or not mechanism.adjacency.single:
        return None
    return _bounded(mechanism, size, ends, (DataCase(None, (), (OutputPart(None, tuple(events_of(paths))),)),))


def prove_values_by_bounds(mechanism: Mechanism, size: int) -> BoundedProof | None:
    """The same for any two values of a finite domain."""
    if not mechanism.adjacency.single:
        return None
    values = values_of(mechanism, size)
    explored = zip(values, explored_values(mechanism, values), strict=True)
    events = [(value, tuple(events_of(paths))) for value, paths in explored]
    return _bounded(
        mechanism, size, None, tuple(DataCase(value, (), (OutputPart(None, mine),)) for value, mine in events)
    )


def _bounded(
    mechanism: Mechanism, size: int, ends: tuple[Fraction, Fraction] | None, cases: tuple[DataCase, ...]
) -> BoundedProof | None:
    layers = [[(event.output, layer_of(event)) for part in case.parts for event in part.events] for case in cases]
    bounds = []
    for output in dict.fromkeys(name for mine in layers for name, _ in mine):
        here = [[layer for name, layer in mine if name == output] for mine in layers]
        known = [[layer for layer in mine if layer is not None] for mine in here]
        slabs = slabs_of(known, ends or (ZERO, ZERO)) if here == known else None
        if slabs is None:
            return None
        bounds.append(DensityBounds(output, tuple(slabs)))
    ratios = [each.ratio for each in bounds]
    finite = [ratio for ratio in ratios if ratio is not None]
    epsilon = CouplingLoss(ZERO, max(finite, default=Fraction(1))).epsilon if len(finite) == len(ratios) else math.inf
    exact = ZERO if NO_LOSS.epsilon == epsilon else None
    return BoundedProof(mechanism, size, epsilon, exact, ends, cases, tuple(bounds))


# -------------------------------------------------------------------------------------------------- bounds certificate
# A proof by bounds written down: cases with their events, and between what the density of each output lies.
#
# docs/certificates.md tells the format field by field.


def bounds_certificate_of(proof: BoundedProof) -> dict[str, Json]:
    """The certificate of the proof, its ε rounded up; raises BadInput where it proves nothing.

    Nothing is checked here: this is left to `veridp_check.checker`, which believes nothing of what is written.
    """
    if math.isinf(proof.epsilon):
        raise BadInput(f"{proof}: there is nothing to certify; prove another mechanism or domain")
    writer = EventWriter()
    cases: list[Json] = [_case(writer, case, proof.ends is None) for case in proof.cases]
    epsilon = decimal_above(proof.epsilon) if proof.epsilon else Fraction(0)
    return {
        **header("bounds", proof.mechanism, proof.size, proof.ends, epsilon),
        "noises": writer.noises(),
        "cases": cases,
        "bounds": [
            {"output": str(each.output), "slabs": [_slab(slab) for slab in each.slabs]} for each in proof.densities
        ],
    }


def _case(writer: EventWriter, case: DataCase, by_value: bool) -> Json:
    events: list[Json] = [
        {"output": str(event.output), **writer.event(event)} for part in case.parts for event in part.events
    ]
    return {"value": case.text if by_value else None, "events": events}


def _slab(slab: DensitySlab) -> Json:
    return {"to": None if slab.stop is None else str(slab.stop), "least": str(slab.least), "most": str(slab.most)}
