"""The density of a class of outputs, as a function of its free numeric entries."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.engines.exact.measure import Component, NoiseRegion, RowForm, Splitter
from veridp.engines.exact.noise import as_float, check_scale, numeric
from veridp.engines.exact.pieces import DistributionPiece, alike, canonical
from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution, Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Relation
from veridp.numerics.quadrature import log_sum
from veridp.numerics.rational import determinant, echelon

Array = NDArray[np.float64]
MOST_BREAKS = 600
MAX_PLAIN_NUMBER = Fraction(10**60)  # numbers between 1/MAX_PLAIN_NUMBER and MAX_PLAIN_NUMBER are taken as they come
MAX_CONSTANT = Fraction(10**130)  # far beyond what noise of the largest scale reaches


@dataclass(frozen=True, eq=False)
class _Linear:
    """An expression in the noise that is left, the numeric entries and a constant."""

    terms: tuple[tuple[int, float], ...]
    on_entries: Array
    constant: float

    def at(self, entries: Array) -> RowForm:
        return RowForm(self.terms, entries @ self.on_entries + self.constant)


class PieceDensity:
    """The density of one piece at given values of its numeric entries.

    Each entry fixes one noise symbol: it is solved for, over the rationals, and its density is taken at what the entry
    and the other noise leave for it.
    """

    def __init__(self, piece: DistributionPiece) -> None:
        self.piece = piece
        self.entries = len(piece.numbers)
        for number in piece.numbers:
            for symbol, factor in number.terms.items():
                if isinstance(symbol, Noise):
                    check_scale(abs(as_float(factor)) * numeric(symbol.distribution).width)
        solved, self.log_jacobian = _solve(piece)
        self.log_weight = _log(piece.weight)
        self.noise = {n.index: numeric(n.distribution) for n in piece.noises if n not in solved}
        self.inequalities = [
            self._linear(moderate(slack), solved) for condition in piece.conditions for slack in slacks(condition)
        ]
        self.densities = [(numeric(n.distribution), self._linear(Affine(0, {n: 1}), solved)) for n in solved]

    def _linear(self, expression: Affine, solved: dict[Noise, _Solution]) -> _Linear:
        terms: dict[int, Fraction] = {}
        on_entries = [Fraction(0)] * self.entries
        constant = Fraction(expression.constant)
        for symbol, coefficient in expression.terms.items():
            if not isinstance(symbol, Noise):
                raise NotExact(f"{symbol.name} is left open; the exact engine needs concrete data and arguments")
            if symbol not in solved:
                terms[symbol.index] = terms.get(symbol.index, Fraction(0)) + coefficient
                continue
            solution = solved[symbol]
            constant += coefficient * solution.constant
            on_entries = [a + coefficient * b for a, b in zip(on_entries, solution.on_entries, strict=True)]
            for other, c in solution.terms.items():
                terms[other.index] = terms.get(other.index, Fraction(0)) + coefficient * c
        kept = tuple((index, as_float(c)) for index, c in sorted(terms.items()) if c)
        return _Linear(kept, np.array([as_float(c) for c in on_entries]), as_float(constant))

    def log_density(self, entries: Array) -> Array:
        """ln of the density at the entries, a row of them for each point (one empty row where there are none)."""
        region = NoiseRegion(
            self.noise,
            tuple(linear.at(entries) for linear in self.inequalities),
            tuple((noise, linear.at(entries)) for noise, linear in self.densities),
            len(entries),
        )
        return region.log_measure() + (self.log_weight + self.log_jacobian)

    @property
    def tail(self) -> float:
        """How far past its last break it is looked at closely."""
        return max(
            abs(as_float(c)) * numeric(n.distribution).outlook * numeric(n.distribution).width
            for number in self.piece.numbers
            for n, c in number.terms.items()
            if isinstance(n, Noise)
        )

    def breaks(self) -> list[float]:
        """Where the density of a single entry may fail to be smooth: kinks, carried along the conditions to it."""
        planes: list[tuple[_Linear, tuple[float, ...]]] = [(linear, (0.0,)) for linear in self.inequalities]
        planes += [(linear, self._kinks(noise)) for noise, linear in self.densities]
        return sorted(self._carried(ENTRY, [(_variables(linear), linear.constant, kinks) for linear, kinks in planes]))

    def _kinks(self, noise: Distribution) -> tuple[float, ...]:
        """Kinks and ends; the steps of integer noise matter to an entry that is continuous by other noise alone."""
        ends = [end for end in noise.support if math.isfinite(end)]
        steps = noise.integer and not self.piece.numbers[0].continuous
        return tuple({noise.middle, *ends, *(() if steps else noise.kinks)})

    def _carried(self, target: int, planes: list[_Plane]) -> set[float]:
        """Where the target has a kink: its own, and where all other variables of a plane have one."""
        found = set() if target == ENTRY else set(self._kinks(self.noise[target]))
        for plane in planes:
            terms, constant, levels = plane
            if target not in terms:
                continue
            rest = [other for other in planes if other is not plane]
            others = [(c, self._carried(v, rest)) for v, c in terms.items() if v != target]
            count = math.prod(len(values) for _, values in others) * len(levels)
            if len(found) + count > MOST_BREAKS:
                raise NotExact("the density of an output entry has too many breakpoints; use an engine that samples")
            for level, *values in itertools.product(levels, *(values for _, values in others)):
                at = (level - constant - sum(c * v for (c, _), v in zip(others, values, strict=True))) / terms[target]
                found.add(float(f"{at:.13g}"))
        return found


_Plane = tuple[dict[int, float], float, tuple[float, ...]]  # coefficients, constant, and the levels where it matters
ENTRY = -1  # stands for the numeric entry among the noise variables


def _variables(linear: _Linear) -> dict[int, float]:
    entry = {ENTRY: float(linear.on_entries[0])} if linear.on_entries[0] else {}
    return dict(linear.terms) | entry


def slacks(condition: Condition) -> list[Affine]:
    """The condition as inequalities `slack >= 0`; between integers the bound is put halfway, safe from rounding."""
    slack = condition.slack
    if slack.continuous:
        return [slack]
    steps = math.lcm(*(Fraction(c).denominator for c in slack.terms.values()))
    terms = {symbol: c * steps for symbol, c in slack.terms.items()}
    level = -slack.constant * steps
    half = Fraction(1, 2)
    if condition.relation is Relation.EQUAL:
        if Fraction(level).denominator != 1:
            return [Affine(-1, dict.fromkeys(terms, 0))]
        return [Affine(half - level, terms), Affine(half + level, {symbol: -c for symbol, c in terms.items()})]
    least = math.floor(level) + 1 if condition.relation is Relation.ABOVE else math.ceil(level)
    return [Affine(half - least, terms)]


def moderate(slack: Affine) -> Affine:
    """An equivalent inequality `slack >= 0` in numbers that floats hold: no noise reaches beyond MAX_CONSTANT."""
    sizes = [abs(Fraction(factor)) for factor in slack.terms.values()]
    if max([*sizes, abs(Fraction(slack.constant))]) <= MAX_PLAIN_NUMBER and min(sizes) >= 1 / MAX_PLAIN_NUMBER:
        return slack
    largest = max(sizes) or Fraction(1)
    constant = max(-MAX_CONSTANT, min(MAX_CONSTANT, slack.constant / largest))
    return Affine(exact(constant), {symbol: exact(factor / largest) for symbol, factor in slack.terms.items()})


# ---------------------------------------------------------------------------------------- solving for the entries


@dataclass(frozen=True)
class _Solution:
    """A noise symbol, as what the entries and the other noise make it."""

    terms: dict[Noise, Fraction]
    on_entries: tuple[Fraction, ...]
    constant: Fraction


def _solve(piece: DistributionPiece) -> tuple[dict[Noise, _Solution], float]:
    """One noise symbol for each entry, solved for; and ln of the factor by which densities change.

    The entries are independent, so elimination finds as many pivots: noise that few conditions name is taken first, so
    that what is left stays as simple as it was.
    """
    numbers, count = piece.numbers, len(piece.numbers)
    if not count:
        return {}, 0.0
    named = Counter(symbol for condition in piece.conditions for symbol in condition.slack.terms)
    noises = sorted(
        {n for number in numbers for n in number.terms if isinstance(n, Noise)},
        key=lambda n: (n.distribution.integer, named[n], -n.index),
    )
    found = echelon(
        [
            [*(number.terms.get(n, 0) for n in noises), *(int(i == k) for i in range(count)), -number.constant]
            for k, number in enumerate(numbers)
        ]
    )
    pivots = [noises[place] for place in found.pivots]
    solved = {
        pivot: _Solution(
            {n: -c for n, c in zip(noises, row, strict=False) if c and n != pivot}, tuple(row[-count - 1 : -1]), row[-1]
        )
        for pivot, row in zip(pivots, found.rows, strict=True)
    }
    moving = [pivot for pivot in pivots if not pivot.distribution.integer]  # integer noise is counted, not measured
    smooth = [number for number in numbers if number.continuous]
    if len(moving) != len(smooth):
        raise NotExact("only integers tell some continuous entries apart; use an engine that samples")
    if not smooth:
        return solved, 0.0
    return solved, -_log(abs(determinant([[number.terms.get(pivot, 0) for pivot in moving] for number in smooth])))


def _log(weight: Number) -> float:
    return math.log(weight.numerator) - math.log(weight.denominator) if weight else -math.inf


def _rate(piece: DistributionPiece) -> float:
    steepest = [abs(as_float(c)) for number in piece.numbers for c in number.terms.values()]
    return sum(numeric(n.distribution).steepness for n in piece.noises) / min(steepest)


class Density:
    """The density of a class: the sum over its pieces, those that the entries cannot tell apart joined."""

    def __init__(self, pieces: Sequence[DistributionPiece]) -> None:
        self.pieces, self.joined = pieces, joined(pieces)
        self.parts = [PieceDensity(piece) for piece, _ in self.joined]
        self.entries = self.parts[0].entries if self.parts else 0
        self._log_weights = np.array([weight for _, weight in self.joined])

    def __call__(self, entries: Array) -> Array:
        """ln of the density at each row of entries."""
        found = np.full((len(entries), len(self.parts)), -np.inf)
        for noise, places in self._shifts:
            forms = [self.parts[place].densities[0][1] for place in places]
            at = entries @ np.column_stack([form.on_entries for form in forms]) + [form.constant for form in forms]
            found[:, places] = noise.log_density(at) + [self.parts[place].log_jacobian for place in places]
        for place in self._others:
            found[:, place] = self.parts[place].log_density(entries)
        return log_sum(found + self._log_weights)

    @cached_property
    def _shifts(self) -> list[tuple[Distribution, list[int]]]:
        """The parts that are a single draw each, which nothing bounds, by their distribution: looked at together."""
        places: dict[Distribution, list[int]] = {}
        for place, part in enumerate(self.parts):
            if len(part.densities) == 1 and not part.noise and not part.inequalities:
                places.setdefault(part.densities[0][0], []).append(place)
        return list(places.items())

    @cached_property
    def _others(self) -> list[int]:
        return sorted({*range(len(self.parts))}.difference(*(places for _, places in self._shifts)))

    @cached_property
    def mass(self) -> float:
        """ln of the probability of the class, where it has no numeric entries."""
        return float(self(np.empty((1, 0)))[0])

    @property
    def rate(self) -> float:
        """How fast the logarithm of any piece may change along an entry."""
        return max(map(_rate, self.pieces), default=1.0)

    @property
    def tail(self) -> float:
        return max((part.tail for part in self.parts), default=1.0)

    def breaks(self) -> list[float]:
        return sorted({point for part in self.parts for point in part.breaks()})


def joined(pieces: Sequence[DistributionPiece]) -> list[tuple[DistributionPiece, float]]:
    """Pieces of weight 1 whose sum, each times a weight, has the density of these; with ln of the weights.

    Conditions that share no noise with the entries, directly or through other conditions, are independent of them. So
    their probability, a constant, goes into the weight; and pieces that then are the same but for the names of their
    noise are one, which has their weights together.
    """
    splitter, known = Splitter({}), _Known({}, {}, {})
    bare, weights = [], []
    for piece in pieces:
        symbols = {symbol for number in piece.numbers for symbol in number.terms}
        components = splitter.split(piece.conditions)
        tied = [component for component in components if not symbols.isdisjoint(component.ranks)]
        apart = [known.log_mass(component) for component in components if component not in tied]
        conditions = tuple(condition for component in tied for condition in component.conditions)
        bare.append(DistributionPiece(1, conditions, piece.numbers))
        weights.append(_log(piece.weight) + sum(apart))
    return [(bare[places[0]], float(log_sum(np.array([weights[place] for place in places])))) for places in alike(bare)]


@dataclass(frozen=True)
class _Known:
    """ln of the probabilities of components: by their kinds, and by what they are but for the names of their noise."""

    by_kind: dict[int, float]
    by_form: dict[object, float]
    colours: dict[object, int]

    def log_mass(self, component: Component) -> float:
        if component.kind not in self.by_kind:
            piece = DistributionPiece(1, component.conditions, ())
            density = PieceDensity(piece)  # refuses what is left open
            form = canonical(piece, self.colours) or ("alone", component.kind)
            if form not in self.by_form:
                self.by_form[form] = float(density.log_density(np.empty((1, 0)))[0])
            self.by_kind[component.kind] = self.by_form[form]
        return self.by_kind[component.kind]
