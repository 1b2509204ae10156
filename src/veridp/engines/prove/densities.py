"""How likely an output is, as a function of one open number of the data and of the number that is released.

Where all noise that data touch is uniform, the density of an output is a sum of *layers*, one for each event. A layer
fills a polygon of the plane (data x, released number y), and its height is a constant, or affine in x where uniform
noise is compared with the data. So the plane falls apart along straight lines, and between two levels of y at which
such lines meet, the same cells follow one another from left to right. What the density is at least and at most there is
read off the ends of the cells, exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veridp.engines.prove.events import NoiseEvent
from veridp.engines.prove.pieces import piece_of
from veridp.engines.prove.regions import is_on_data
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.noise import Uniform
from veridp.kernel.symbols import Noise, Relation

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
    if len(event.numbers) > 1 or not all(isinstance(noise.distribution, Uniform) for noise in piece.noises):
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
