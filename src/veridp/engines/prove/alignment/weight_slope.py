"""By how much weights that depend on data change between neighbours: the slope of their logarithm, and continuity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.adjacency import Box, Corner, Polytope
from veridp.engines.prove.events import entry_of
from veridp.engines.prove.regions import is_possible
from veridp.errors import NotExplorable
from veridp.kernel.expressions import Condition
from veridp.kernel.symbols import Relation, Unknown
from veridp.kernel.weights import Exponent, ExponentialSum, Weight, plain

MAX_BASES = 40  # choices of conditions by which a region is described
MAX_COEFFICIENTS = 20_000  # of a polynomial
Vector = Mapping[Unknown | None, Fraction]


@dataclass(frozen=True, eq=False)
class WeightPiece:
    """The weight of an event on a region of the data, and the conditions of the region that bound its slope."""

    conditions: tuple[Condition, ...]
    weight: Weight
    by: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class DataWeight:
    """A weight that depends on the data, and what keeping it costs over each polytope, with a corner that costs most.

    The cost is inf where none was found.
    """

    pieces: tuple[WeightPiece, ...]
    costs: tuple[Fraction | float, ...] = ()
    corners: tuple[Corner, ...] = ()


@dataclass
class _Coefficient:
    """Of a term: its factor in N·D, and in the gradient of N by D, by open values."""

    value: Fraction
    slope: dict[Unknown, Fraction]

    def add(self, other: _Coefficient, times: Fraction) -> None:
        self.value += other.value * times
        for symbol, c in other.slope.items():
            self.slope[symbol] = self.slope.get(symbol, Fraction(0)) + c * times


def _coefficients(weight: Weight) -> dict[Exponent, _Coefficient]:
    divisor = ExponentialSum({frozenset(): Fraction(1)})
    for each in weight.divisors:
        divisor = divisor * each
    found: dict[Exponent, _Coefficient] = {}
    for mine, c in weight.numerator.terms.items():
        for theirs, d in divisor.terms.items():
            ((exponent, _),) = (ExponentialSum({mine: c}) * ExponentialSum({theirs: d})).terms.items()
            slope = {s: v for s, v in mine if s is not None}
            for symbol, v in theirs:
                if symbol is not None:
                    slope[symbol] = slope.get(symbol, Fraction(0)) - v
            found.setdefault(exponent, _Coefficient(Fraction(0), {})).add(_Coefficient(Fraction(1), slope), c * d)
    return found


def best_piece(conditions: tuple[Condition, ...], weight: Weight, polytopes: Sequence[Polytope]) -> WeightPiece:
    """The piece, by those of its conditions that make it cheapest; by none where its factors are all positive."""
    best = WeightPiece(conditions, weight)
    least = max(slope_cost(best, polytope)[0] for polytope in polytopes)
    if math.isfinite(least):
        return best
    sides = [k for k, c in enumerate(conditions) if c.relation in (Relation.AT_LEAST, Relation.ABOVE)]
    rank = next((n for n in range(len(sides), 0, -1) if any(_bases(conditions, sides, n))), 0)
    for by in itertools.islice(_bases(conditions, sides, rank), MAX_BASES) if rank else ():
        piece = WeightPiece(conditions, weight, by)
        cost = max(slope_cost(piece, polytope)[0] for polytope in polytopes)
        if cost < least:
            best, least = piece, cost
    return best


def _bases(conditions: Sequence[Condition], sides: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    for by in itertools.combinations(sides, count):
        if _Basis.of([_vector(conditions[k]) for k in by]) is not None:
            yield by


def _vector(condition: Condition) -> Vector:
    constant = Fraction(condition.slack.constant)
    terms: dict[Unknown | None, Fraction] = {
        s: Fraction(c) for s, c in condition.slack.terms.items() if isinstance(s, Unknown)
    }
    return {**terms, None: constant} if constant else terms


@dataclass(frozen=True)
class _Basis:
    """Independent vectors, in a form that shows how others are made of them."""

    rows: tuple[tuple[Unknown | None, Vector, tuple[Fraction, ...]], ...]  # pivot, vector, what it is made of
    count: int

    @classmethod
    def of(cls, vectors: Sequence[Vector]) -> _Basis | None:
        """None where the vectors are not independent."""
        basis = cls((), len(vectors))
        for place, vector in enumerate(vectors):
            rest, made = basis.split(vector)
            if not rest:
                return None
            pivot = next(iter(rest))
            own = tuple(Fraction(k == place) - made[k] for k in range(len(vectors)))
            basis = cls((*basis.rows, (pivot, rest, own)), len(vectors))
        return basis

    def split(self, vector: Vector) -> tuple[dict[Unknown | None, Fraction], list[Fraction]]:
        """What is left of a vector, and how much of each of the basis was taken out of it."""
        rest, made = dict(vector), [Fraction(0)] * self.count
        for pivot, row, own in self.rows:
            if times := rest.get(pivot, Fraction(0)) / row[pivot]:
                rest = {s: c for s in {**rest, **row} if (c := rest.get(s, Fraction(0)) - times * row.get(s, 0))}
                made = [total + times * each for total, each in zip(made, own, strict=True)]
        return rest, made


def _bernstein(piece: WeightPiece) -> Iterator[tuple[dict[tuple[int, ...], _Coefficient], tuple[int, ...]]]:
    """Polynomials in [0, 1] that make up N·D and its gradient, by their Bernstein coefficients, with their degrees."""
    basis = _Basis.of([_vector(piece.conditions[k]) for k in piece.by])
    if basis is None:
        raise ArithmeticError("conditions that are not independent")
    classes: dict[Exponent, dict[tuple[Fraction, ...], _Coefficient]] = {}
    for exponent, coefficient in _coefficients(piece.weight).items():
        rest, made = basis.split(dict(exponent))
        powers = tuple(-each for each in made)
        classes.setdefault(frozenset(rest.items()), {})[powers] = coefficient
    for terms in classes.values():
        least = [min(powers[r] for powers in terms) for r in range(basis.count)]
        unit = [math.lcm(*(powers[r].denominator for powers in terms)) for r in range(basis.count)]
        unit = [math.lcm(u, low.denominator) for u, low in zip(unit, least, strict=True)]
        whole = {
            tuple(int((p - low) * u) for p, low, u in zip(powers, least, unit, strict=True)): c
            for powers, c in terms.items()
        }
        step = [math.gcd(*(powers[r] for powers in whole)) or 1 for r in range(basis.count)]
        whole = {tuple(p // s for p, s in zip(powers, step, strict=True)): c for powers, c in whole.items()}
        degrees = tuple(max(powers[r] for powers in whole) for r in range(basis.count))
        if math.prod(d + 1 for d in degrees) > MAX_COEFFICIENTS:
            raise NotExplorable("a weight has too high a degree")
        found = {}
        for place in itertools.product(*(range(d + 1) for d in degrees)):
            total = found[place] = _Coefficient(Fraction(0), {})
            for degree, c in whole.items():
                if all(p <= at for p, at in zip(degree, place, strict=True)):
                    share = [
                        Fraction(math.comb(at, p), math.comb(d, p))
                        for p, at, d in zip(degree, place, degrees, strict=True)
                    ]
                    total.add(c, math.prod(share, start=Fraction(1)))
        yield found, degrees


def slope_cost(piece: WeightPiece, polytope: Polytope) -> tuple[Fraction | float, Corner]:
    """What keeping the piece costs over the polytope, and a corner that costs so much; inf where no bound is found."""
    worst: tuple[Fraction | float, Corner] = (Fraction(0), tuple(Fraction(0) for _ in range(polytope.size)))
    positive = False
    for coefficients, degrees in _bernstein(piece):
        positive = positive or coefficients[degrees].value > 0
        for each in coefficients.values():
            fall, corner = _largest_fall(each.slope, polytope)
            if each.value < 0 or (not each.value and fall > 0):
                return math.inf, corner
            if each.value and fall / each.value > worst[0]:
                worst = fall / each.value, corner
    return worst if positive else (math.inf, worst[1])


def _largest_fall(slope: Mapping[Unknown, Fraction], polytope: Polytope) -> tuple[Fraction, Corner]:
    """The most by which slope · difference is below 0, and where."""
    by_entry = {entry_of(symbol): c for symbol, c in slope.items() if c}
    corners: Sequence[Corner]
    if isinstance(polytope, Box):
        ends = zip(polytope.low, polytope.high, strict=True)
        corners = [tuple(_end(low, high, by_entry.get(i, Fraction(0))) for i, (low, high) in enumerate(ends))]
    else:
        corners = polytope.listed
    falls = [(-sum((c * corner[i] for i, c in by_entry.items()), start=Fraction(0)), corner) for corner in corners]
    return max(falls, key=lambda each: each[0])


def _end(low: Fraction, high: Fraction, slope: Fraction) -> Fraction:
    """The end of an entry at which slope · entry is least; what is nearest to 0 where it makes no difference."""
    return low if slope > 0 else high if slope < 0 else min(max(low, Fraction(0)), high)


# ---------------------------------------------------------------------------------------------------------- continuity


def is_continuous(pieces: Sequence[WeightPiece]) -> bool:
    """Whether pieces have the same value where their regions meet."""
    return all(_agree(*pair) for pair in itertools.combinations(pieces, 2))


def _agree(first: WeightPiece, second: WeightPiece) -> bool:
    if first.weight == second.weight:
        return True
    conditions = (*first.conditions, *second.conditions)
    meet = [c if c.relation is Relation.EQUAL else Condition(c.slack, Relation.AT_LEAST) for c in conditions]
    if not is_possible(meet):
        return True
    basis = _Basis((), 0)
    for each in meet:
        rest, _ = basis.split(_vector(each))
        if rest and not is_possible([*meet, Condition(each.slack, Relation.ABOVE)]):
            basis = _Basis((*basis.rows, (next(symbol for symbol in rest if symbol is not None), rest, ())), 0)
    return bool(_reduced(first.weight, basis) == _reduced(second.weight, basis))


def _reduced(weight: Weight, basis: _Basis) -> Any:
    """The weight on the planes of the basis."""

    def reduced(total: ExponentialSum) -> ExponentialSum:
        terms: dict[Exponent, Fraction] = {}
        for exponent, factor in total.terms.items():
            key = frozenset(basis.split(dict(exponent))[0].items())
            terms[key] = terms.get(key, Fraction(0)) + factor
        return ExponentialSum(terms)

    return plain(Weight(reduced(weight.numerator), map(reduced, weight.divisors)))
