"""Data that a mechanism sees through a continuous function which is affine on pieces: a sort, a largest entry, a clamp.

Part of the checker. The pieces are polyhedra that make up all data, or all those of a domain, and on each of them every
value is an affine function of the data. Let x and x + δ be neighbours. The segment between them runs through pieces, a
share λ of it in each; in a domain it stays there, as this is convex. As the function is continuous, it changes by the
sum of what it changes in these: Σ λ A δ, where A is the matrix of a piece. So the values of neighbours differ by a mean
of the vectors A c, over all pieces and all corners c of the differences δ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from veridp_check.coverage import counterexample, deciding, in_words, relation_of
from veridp_check.document import (
    MOVES,
    CertificateFlaw,
    DocumentNode,
    LinearCondition,
    LinearForm,
    condition_in,
    number_in,
)
from veridp_check.linear import Ask, LinearRelation, LinearSystem

Vector = tuple[Fraction, ...]
MAX_CORNERS = 2**12  # of the differences of data
ZERO = Fraction(0)


@dataclass(frozen=True)
class AffinePiece:
    """A polyhedron by its conditions, and the values that the mechanism sees there."""

    conditions: tuple[LinearCondition, ...]
    values: tuple[LinearForm, ...]

    def moved(self, move: Sequence[Fraction | int]) -> Vector:
        """By how much the values change in it where the data move so."""
        return tuple(sum((c * move[i] for i, c in value.data.items()), start=ZERO) for value in self.values)

    def closed(self) -> list[LinearRelation]:
        relations = [relation_of(condition) for condition in self.conditions]
        return [replace(each, sign=">=") if each.sign == ">" else each for each in relations]


@dataclass(frozen=True)
class PiecewiseMap:
    """A function of data of this size that is affine on each of the pieces; of records of the domain, if it has one."""

    size: int
    pieces: tuple[AffinePiece, ...]
    domain: tuple[Fraction, Fraction] | None = None

    @property
    def count(self) -> int:
        """How many values it has."""
        return len(self.pieces[0].values)

    def of(self, data: Sequence[Fraction]) -> list[Fraction]:
        """Its values at these data."""

        def at(form: LinearForm) -> Fraction:
            return form.constant + sum((c * data[i] for i, c in form.data.items()), start=ZERO)

        here = next(piece for piece in self.pieces if all(_stands(at(c.slack), c.relation) for c in piece.conditions))
        return [at(value) for value in here.values]

    def ways(self, adjacency: str) -> list[tuple[frozenset[Vector]]]:
        """The vectors of whose means the values of neighbours differ, in one direction: apart where one entry moves."""
        if adjacency == "l1" or self.domain is not None:  # one entry moves, a record from one end to the other
            step = Fraction(1) if self.domain is None else self.domain[1] - self.domain[0]
            moves = [[step if i == k else ZERO for i in range(self.size)] for k in range(self.size)]
            return [
                (frozenset([(ZERO,) * self.count, *(piece.moved(move) for piece in self.pieces)]),) for move in moves
            ]
        least, most = MOVES[adjacency]
        if 2**self.size > MAX_CORNERS:
            raise CertificateFlaw("/records", f"data of size {self.size} have too many corners of differences")
        corners = list(itertools.product((least, most), repeat=self.size))
        return [(frozenset(piece.moved(corner) for piece in self.pieces for corner in corners),)]

    def check(self) -> None:
        """The pieces make up all data, and any two agree on the data that are on the boundary of both, or in both."""
        regions = [[relation_of(condition) for condition in piece.conditions] for piece in self.pieces]
        inside = [relation_of(bound) for bound in self._bounds()]

        def covered(ask: Ask) -> bool:
            return not all(map(ask, inside)) or any(all(map(ask, relations)) for relations in regions)

        found = counterexample("/records", "the pieces cover all data", covered, bool)
        if found is not None:
            raise CertificateFlaw("/records", f"no piece covers the data {in_words(found[1])}")
        for (a, one), (b, other) in itertools.combinations(enumerate(self.pieces), 2):
            for jump in _jumps(one, other):
                system = LinearSystem()
                with deciding("/records", f"pieces {a} and {b} agree where they meet"):
                    relations = [*inside, *one.closed(), *other.closed(), jump]
                    point = system.point() if all(system.assume(relation) for relation in relations) else None
                if point is not None:
                    raise CertificateFlaw("/records", f"pieces {a} and {b} differ where they meet: {in_words(point)}")

    def _bounds(self) -> Iterator[LinearCondition]:
        """That each record is of the domain."""
        if self.domain is not None:
            for (sign, end), i in itertools.product(zip((1, -1), self.domain, strict=True), range(self.size)):
                yield LinearCondition(LinearForm({}, {i: Fraction(sign)}, -sign * end), ">=")


def _jumps(one: AffinePiece, other: AffinePiece) -> Iterator[LinearRelation]:
    """Where a value of one piece is above that of the other, or below."""
    for mine, theirs in zip(one.values, other.values, strict=True):
        first, second = (relation_of(LinearCondition(form, ">")).value for form in (mine, theirs))
        for difference in (first - second, second - first):
            if difference.terms or difference.constant > 0:
                yield LinearRelation(difference, ">")


def _stands(value: Fraction, relation: str) -> bool:
    return value >= 0 if relation == ">=" else value > 0 if relation == ">" else value == 0


def map_in(node: DocumentNode, size: int, domain: tuple[Fraction, Fraction] | None) -> PiecewiseMap:
    """The function in the document."""
    nodes = node.fields("pieces")["pieces"].entries()
    pieces = tuple(_piece(each, size) for each in nodes)
    if not pieces or len({len(piece.values) for piece in pieces}) != 1:
        raise node.flaw("there have to be pieces, all with the same number of values")
    return PiecewiseMap(size, pieces, domain)


def _piece(node: DocumentNode, size: int) -> AffinePiece:
    field = node.fields("conditions", "values")
    conditions = tuple(condition_in(each, (), size, ()) for each in field["conditions"].entries())
    return AffinePiece(conditions, tuple(number_in(each, (), size, ()) for each in field["values"].entries()))
