"""The exact optimum of a linear program in whole numbers, from a basis that is optimal or not far from it.

A basis is a set of columns and as many rows: the rows hold with equality, all other columns are 0, and the rows' prices
make the reduced costs of the columns 0. Both are solutions of one square matrix. Where the basis is not optimal, steps
of the dual simplex method follow; Bland's rule keeps these from going round in circles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from flint import fmpq, fmpz_mat

from veridp.errors import NotSolved
from veridp.numerics.components import components
from veridp.numerics.rational import fraction, independent_columns, solution

MAX_PIVOTS = 2_000
MAX_DENSE = 24  # rows: past this a matrix is taken apart into its blocks
ZERO = Fraction(0)


class IntegerRow(NamedTuple):
    """Σ coefficient · variable + constant, at least 0 or 0: what was asked for times a positive scale."""

    terms: Mapping[int, int]
    constant: int
    equal: bool
    scale: int


class BasisBlock(NamedTuple):
    """Some rows and some columns."""

    rows: list[int]
    columns: list[int]


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

    def prices(self, of_rows: Mapping[int, fmpq]) -> tuple[Fraction, ...]:
        """A price for each row as it was asked for, from those of some rows as they are here."""
        return tuple(fraction(of_rows[k] * row.scale) if k in of_rows else ZERO for k, row in enumerate(self.rows))

    def blocks(self, rows: Sequence[int], columns: Sequence[int]) -> list[BasisBlock]:
        """These rows and columns in groups without a coefficient in common; as one group where that is not worth it."""
        if len(rows) <= MAX_DENSE:
            return [BasisBlock(list(rows), list(columns))] if rows else []
        known = set(columns)
        named = [[c for c in self.rows[row].terms if c in known] for row in rows]
        return [
            BasisBlock(
                [rows[k] for k in group if k < len(rows)], [columns[k - len(rows)] for k in group if k >= len(rows)]
            )
            for group in components([*named, *([column] for column in columns)])
        ]

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
    found = Basis((), ())
    for block in program.blocks(rows, columns):
        chosen = [block.columns[k] for k in independent_columns(program.matrix(block.rows, block.columns))]
        kept = independent_columns(program.matrix(block.rows, chosen).transpose())
        found = Basis((*found.rows, *(block.rows[k] for k in kept)), (*found.columns, *chosen))
    return found


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
        self.blocks = [(b, program.matrix(b.rows, b.columns)) for b in program.blocks(basis.rows, basis.columns)]
        self.x: dict[int, fmpq] = {}
        self.y: dict[int, fmpq] = {}
        for block, matrix in self.blocks:
            x = solution(matrix, [-program.rows[row].constant for row in block.rows])
            y = solution(matrix.transpose(), [program.costs[column] for column in block.columns])
            self.x |= zip(block.columns, x, strict=True)
            self.y |= zip(block.rows, y, strict=True)
        self.reduced = [fmpq(cost) for cost in program.costs]
        for row, price in self.y.items():
            if price:
                for column, value in program.rows[row].terms.items():
                    self.reduced[column] -= price * value

    # --------------------------------------------------------------------------------------------- what it shows

    @property
    def is_least(self) -> bool:
        """Whether the prices show that no solution is cheaper."""
        rows, free = self.program.rows, self.program.free
        if any(price < 0 and not rows[row].equal for row, price in self.y.items()):
            return False
        return not any(cost < 0 or (cost and column in free) for column, cost in enumerate(self.reduced))

    def violations(self) -> Iterator[_Violated]:
        """What keeps it from being a solution, in Bland's order."""
        x = self.x
        for column in sorted(x):
            if x[column] < 0 and column not in self.program.free:
                yield _Violated(column, None, 1)
        for k, row in enumerate(self.program.rows):
            total: fmpq | int = row.constant
            for column, value in row.terms.items():
                if column in x:
                    total += x[column] * value
            if total < 0 or (total and row.equal):
                yield _Violated(None, k, 1 if total < 0 else -1)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        """Of all variables."""
        found = [ZERO] * len(self.program.costs)
        for column, value in self.x.items():
            if value:
                found[column] = fraction(value)
        return tuple(found)

    @cached_property
    def cost(self) -> Fraction:
        total = sum((value * self.program.costs[column] for column, value in self.x.items()), start=fmpq(0))
        return fraction(total / self.program.scale)

    @cached_property
    def prices(self) -> tuple[Fraction, ...]:
        """What each row adds to the cost for each unit that is taken from its constant: a dual solution.

        The rows at these prices bound the cost of every solution from below, by -Σ price · constant, which is `cost`.
        """
        return self.program.prices({row: price / self.program.scale for row, price in self.y.items()})

    # ------------------------------------------------------------------------------------------------------ steps

    def step(self, violated: _Violated) -> Basis | tuple[Fraction, ...]:
        """The next basis of the dual simplex method; or a Farkas ray, where what is violated can never be met."""
        program, column, row = self.program, violated.column, violated.row
        terms: Mapping[int, int] = {} if row is None else program.rows[row].terms
        weights: dict[int, fmpq] = {}  # of the rows that make up what is violated
        for block, matrix in self.blocks:
            asked = [int(c == column) if row is None else terms.get(c, 0) for c in block.columns]
            if any(asked):
                weights |= zip(block.rows, solution(matrix.transpose(), asked), strict=True)
        gains = [fmpq(terms.get(c, 0)) for c in range(len(program.costs))]  # for each unit of a column that is 0
        for used, weight in weights.items():
            for c, value in program.rows[used].terms.items():
                gains[c] -= weight * value
        entering = self._entering(gains, weights, violated.way)
        if entering is not None:
            return self._exchanged(violated, entering)
        ray = {used: -weight * violated.way for used, weight in weights.items()}
        return program.prices(ray if row is None else {**ray, row: fmpq(violated.way)})

    def _entering(self, gains: Sequence[fmpq], weights: Mapping[int, fmpq], way: int) -> int | None:
        """The column, or the row after all columns, whose price allows least: the first of these."""
        width, basic, free = len(gains), set(self.basis.columns), self.program.free
        ratios = [
            (self.reduced[column] / abs(gain), column)
            for column, gain in enumerate(gains)
            if column not in basic and (gain * way > 0 or (gain and column in free))
        ]
        ratios += [
            (self.y[row] / abs(weight), width + row)
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
