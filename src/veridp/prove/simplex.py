"""The exact optimum of a linear program in whole numbers, from a basis that is optimal or not far from it.

A basis is a set of columns and as many rows: the rows hold with equality, all other columns are 0, and the rows' prices
make the reduced costs of the columns 0. Both are solutions of one square matrix. Where the basis is not optimal, steps
of the dual simplex method follow; Bland's rule keeps these from going round in circles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from flint import fmpz_mat

from veridp.errors import NotSolved

MAX_PIVOTS = 2_000
ZERO = Fraction(0)


class IntegerRow(NamedTuple):
    """Σ coefficient · variable + constant, at least 0 or 0: what was asked for times a positive scale."""

    terms: Mapping[int, int]
    constant: int
    equal: bool
    scale: int


@dataclass(frozen=True, eq=False)
class IntegerProgram:
    """The least Σ cost · variable (costs times a positive scale) where all rows are met.

    Variables are at least 0 unless they are free. No cost is negative; that of free variables is 0.
    """

    costs: Sequence[int]
    scale: int
    free: frozenset[int]
    rows: Sequence[IntegerRow]

    def part(self, rows: Sequence[int]) -> IntegerProgram:
        """The program with these rows only."""
        return IntegerProgram(self.costs, self.scale, self.free, [self.rows[row] for row in rows])

    def matrix(self, rows: Sequence[int], columns: Sequence[int]) -> fmpz_mat:
        """The coefficients of these columns in these rows."""
        width, place = len(columns), {column: k for k, column in enumerate(columns)}
        entries = [0] * (len(rows) * width)
        for k, row in enumerate(rows):
            for column, value in self.rows[row].terms.items():
                if column in place:
                    entries[k * width + place[column]] = value
        return fmpz_mat(len(rows), width, entries)


@dataclass(frozen=True)
class Basis:
    """As many rows as columns; their matrix is not singular."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


def completed(program: IntegerProgram, rows: Sequence[int], columns: Sequence[int]) -> Basis:
    """A largest basis among these rows and columns, the first of them first."""
    chosen = [columns[k] for k in _pivots(program.matrix(rows, columns))]
    kept = _pivots(program.matrix(rows, chosen).transpose())
    return Basis(tuple(rows[k] for k in kept), tuple(chosen))


def _pivots(matrix: fmpz_mat) -> list[int]:
    """The first columns that are linearly independent."""
    reduced, _, rank = matrix.rref()
    width, entries = matrix.ncols(), reduced.entries()
    return [next(k for k in range(width) if entries[row * width + k]) for row in range(rank)]


class _Scaled(NamedTuple):
    """Rational numbers by their keys, with one denominator."""

    numerators: dict[int, int]
    denominator: int


def _solved(matrix: fmpz_mat, right: Sequence[int], keys: Iterable[int]) -> _Scaled:
    """The solution of a square system; ZeroDivisionError where it is singular."""
    solution: Any = matrix.solve(fmpz_mat(len(right), 1, right))
    numerators, denominator = solution.numer_denom()
    return _Scaled(dict(zip(keys, map(int, numerators.entries()), strict=True)), int(denominator))


class _Violated(NamedTuple):
    """A column or a row that is below 0, or an equation that is above; way is where it must go."""

    column: int | None
    row: int | None
    way: int


class Vertex:
    """The exact solution of a basis, with its prices and reduced costs. ZeroDivisionError where that is singular."""

    def __init__(self, program: IntegerProgram, basis: Basis) -> None:
        self.program = program
        self.basis = basis
        self.matrix = program.matrix(basis.rows, basis.columns)
        self.x = _solved(self.matrix, [-program.rows[row].constant for row in basis.rows], basis.columns)
        self.y = _solved(self.matrix.transpose(), [program.costs[column] for column in basis.columns], basis.rows)
        self.reduced = [cost * self.y.denominator for cost in program.costs]
        for row, price in self.y.numerators.items():
            if price:
                for column, value in program.rows[row].terms.items():
                    self.reduced[column] -= price * value

    # --------------------------------------------------------------------------------------------- what it shows

    @property
    def is_least(self) -> bool:
        """Whether the prices show that no solution is cheaper."""
        rows, free = self.program.rows, self.program.free
        if any(price < 0 and not rows[row].equal for row, price in self.y.numerators.items()):
            return False
        return min(self.reduced, default=0) >= 0 and not any(self.reduced[column] for column in free)

    def violations(self) -> Iterator[_Violated]:
        """What keeps it from being a solution, in Bland's order."""
        values, one = self.x
        for column in sorted(values):
            if values[column] < 0 and column not in self.program.free:
                yield _Violated(column, None, 1)
        for k, row in enumerate(self.program.rows):
            total = row.constant * one
            for column, value in row.terms.items():
                if column in values:
                    total += value * values[column]
            if total < 0 or (total and row.equal):
                yield _Violated(None, k, 1 if total < 0 else -1)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        """Of all variables."""
        values, one = self.x
        found = [ZERO] * len(self.program.costs)
        for column, value in values.items():
            if value:
                found[column] = Fraction(value, one)
        return tuple(found)

    @cached_property
    def cost(self) -> Fraction:
        total = sum(self.program.costs[column] * value for column, value in self.x.numerators.items())
        return Fraction(total, self.x.denominator * self.program.scale)

    @cached_property
    def prices(self) -> tuple[Fraction, ...]:
        """What each row adds to the cost for each unit that is taken from its constant: a dual solution.

        The rows at these prices bound the cost of every solution from below, by -Σ price · constant, which is `cost`.
        """
        prices, one = self.y
        scale = one * self.program.scale
        return tuple(Fraction(prices.get(k, 0) * row.scale, scale) for k, row in enumerate(self.program.rows))

    # ------------------------------------------------------------------------------------------------------ steps

    def step(self, violated: _Violated) -> Basis | tuple[Fraction, ...]:
        """The next basis of the dual simplex method; or a Farkas ray, where what is violated can never be met."""
        program, basis = self.program, self.basis
        column, row = violated.column, violated.row
        terms: Mapping[int, int] = {} if row is None else program.rows[row].terms
        asked = [int(c == column) if row is None else terms.get(c, 0) for c in basis.columns]
        weights, one = _solved(self.matrix.transpose(), asked, basis.rows)
        gains = [terms.get(c, 0) * one for c in range(len(program.costs))]  # for each unit of a column that is 0
        for used, weight in weights.items():
            for column, value in program.rows[used].terms.items():
                gains[column] -= weight * value
        entering = self._entering(gains, weights, violated.way)
        if entering is None:
            ray = {used: -violated.way * weight for used, weight in weights.items()}
            ray |= {} if row is None else {row: violated.way * one}
            return tuple(Fraction(ray.get(k, 0) * each.scale, one) for k, each in enumerate(program.rows))
        return self._exchanged(violated, entering)

    def _entering(self, gains: Sequence[int], weights: Mapping[int, int], way: int) -> int | None:
        """The column, or the row after all columns, whose price allows least: the first of these."""
        width, basic, free = len(gains), set(self.basis.columns), self.program.free
        ratios = [
            (Fraction(self.reduced[column], abs(gain)), column)
            for column, gain in enumerate(gains)
            if column not in basic and (gain * way > 0 or (gain and column in free))
        ]
        ratios += [
            (Fraction(self.y.numerators[row], abs(weight)), width + row)
            for row, weight in weights.items()
            if weight * way > 0 and not self.program.rows[row].equal
        ]
        return min(ratios)[1] if ratios else None

    def _exchanged(self, violated: _Violated, entering: int) -> Basis:
        rows, columns, width = set(self.basis.rows), set(self.basis.columns), len(self.program.costs)
        if violated.row is not None:
            rows.add(violated.row)
        elif violated.column is not None:
            columns.remove(violated.column)
        if entering < width:
            columns.add(entering)
        else:
            rows.remove(entering - width)
        return Basis(tuple(sorted(rows)), tuple(sorted(columns)))


def optimum(program: IntegerProgram, start: Vertex | None = None) -> Vertex | tuple[Fraction, ...]:
    """A vertex that is a solution, and none is cheaper; or a Farkas ray, the price of each row, if there is none.

    The search begins at the vertex given, if its prices are those of a cheapest solution of some rows; else without
    any. Raises NotSolved after MAX_PIVOTS steps.
    """
    vertex = start if start is not None and start.is_least else Vertex(program, Basis((), ()))
    for _ in range(MAX_PIVOTS):
        violated = next(vertex.violations(), None)
        if violated is None:
            return vertex
        following = vertex.step(violated)
        if not isinstance(following, Basis):
            return following
        vertex = Vertex(program, following)
    raise NotSolved(
        f"a linear program with {len(program.rows)} rows and {len(program.costs)} variables has no exact solution "
        f"after {MAX_PIVOTS:,} steps; try a smaller size"
    )
