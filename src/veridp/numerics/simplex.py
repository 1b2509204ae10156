"""The exact optimum of a linear program, from a basis that a float solver suggests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import fmpq, fmpz_mat
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from veridp.errors import NotSolved
from veridp.numerics.components import components
from veridp.numerics.rational import fraction, independent_columns, solution

# ------------------------------------------------------------------------------------------------------------- simplex
# The exact optimum of a linear program in whole numbers, from a basis that is optimal or not far from it.
#
# A basis is a set of columns and as many rows: the rows hold with equality, all other columns are 0, and the rows'
# prices make the reduced costs of the columns 0. Both are solutions of one square matrix. Where the basis is not
# optimal, steps of the dual simplex method follow; Bland's rule keeps these from going round in circles.


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


# --------------------------------------------------------------------------------------------------------------- hints
# What a float solver knows about linear programs: which rows and columns make up an optimal basis.
#
# All programs are solved side by side, in one call. Where some have no solution, each gets a variable that measures by
# how much its rows are missed, at a price far above all others, to tell which. A hint may be wrong: what follows from
# it is checked exactly (`simplex`).


PENALTY = 1e4  # the cost of a unit by which a row is missed, where the dearest unit of a variable costs about 1
TINY = 1e-7  # what counts as 0 among scaled floats
INFEASIBLE = 2  # a status of linprog
PASSES = 3  # over rows and columns, to bring their coefficients near 1

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True)
class Hint:
    """Where a program has its optimum, as far as floats tell.

    Rows that have a price, further rows that hold with equality; columns above 0, further ones without reduced cost.
    Where some rows are missed, those with a price cannot be met together.
    """

    missed: bool
    priced: list[int]
    tight: list[int]
    positive: list[int]
    idle: list[int]


def hints(programs: Sequence[IntegerProgram]) -> list[Hint | None]:
    """A hint for each program; None where floats cannot hold its numbers, or the solver fails."""
    if not any(program.costs for program in programs):  # no variables, and nothing to solve
        return [None] * len(programs)
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            batch = _Batch(programs)
            found = batch.hints()
            return [*found] if found else _told_apart(programs, batch.hints(may_miss=True))
    except (OverflowError, FloatingPointError):
        return [None] if len(programs) == 1 else [hint for program in programs for hint in hints([program])]


def _told_apart(programs: Sequence[IntegerProgram], found: Sequence[Hint]) -> list[Hint | None]:
    """The hints of programs some of which have no solution: the prices of the others are better found without these."""
    met = [k for k, hint in enumerate(found) if not hint.missed]
    if len(met) == len(programs):
        return [None] * len(programs)
    better = dict(zip(met, hints([programs[k] for k in met]), strict=True))
    return [better.get(k, hint) for k, hint in enumerate(found)]


class _Batch:
    """The programs in scaled floats; equations as two rows each, so that each row is missed in one direction only."""

    def __init__(self, programs: Sequence[IntegerProgram]) -> None:
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        constants: list[float] = []
        costs: list[float] = []
        equal: list[bool] = []
        free: list[int] = []
        self.first_row, self.first_column = [0], [0]
        for program in programs:
            start = len(costs)
            dearest = max(program.costs, default=0) or 1
            costs += [cost / dearest for cost in program.costs]
            free += [start + column for column in program.free]
            for row in program.rows:
                most = max(map(abs, row.terms.values()), default=0) or abs(row.constant) or 1
                rows += [len(constants)] * len(row.terms)
                columns += [start + column for column in row.terms]
                values += [value / most for value in row.terms.values()]
                constants.append(row.constant / most)
                equal.append(row.equal)
            self.first_row.append(len(constants))
            self.first_column.append(len(costs))
        self.rows, self.columns = np.array(rows, dtype=np.intp), np.array(columns, dtype=np.intp)
        self.values, self.constants, self.costs = np.array(values), np.array(constants), np.array(costs)
        self.equal, self.free = np.array(equal, dtype=bool), np.array(free, dtype=np.intp)
        self.row_block = np.repeat(np.arange(len(programs)), np.diff(self.first_row))
        self.column_block = np.repeat(np.arange(len(programs)), np.diff(self.first_column))
        self.count = len(programs)
        self._scale()

    def _scale(self) -> None:
        """Bring coefficients and costs near 1 by factors for rows and columns, and the constants of a program to 1."""
        priced = np.flatnonzero(self.costs)
        rows = np.concatenate([self.rows, len(self.constants) + self.column_block[priced]])
        columns = np.concatenate([self.columns, priced])
        sizes = np.log2(np.abs(np.concatenate([self.values, self.costs[priced]])))
        by_row, by_column = np.zeros(len(self.constants) + self.count), np.zeros(len(self.costs))
        for _ in range(PASSES):
            by_row = -_middle(rows, sizes + by_column[columns], len(by_row))
            by_column = -_middle(columns, sizes + by_row[rows], len(by_column))
        row_factor = np.exp2(np.round(by_row[: len(self.constants)]))
        column_factor = np.exp2(np.round(by_column))
        self.values *= row_factor[self.rows] * column_factor[self.columns]
        self.costs *= column_factor * np.exp2(by_row[len(self.constants) :])[self.column_block]
        self.constants *= row_factor
        largest = np.zeros(self.count)
        np.maximum.at(largest, self.row_block, np.abs(self.constants))
        self.constants /= np.where(largest, largest, 1.0)[self.row_block]

    def hints(self, *, may_miss: bool = False) -> list[Hint]:
        """A hint for each program; none at all where rows are missed that must not be."""
        answer = self._answer(may_miss)
        if answer.status == INFEASIBLE and not may_miss:
            return []
        if not answer.success:
            raise FloatingPointError(answer.message)
        values = answer.x[: len(self.costs)]
        missed = answer.x[len(self.costs) :] > TINY if may_miss else np.zeros(self.count, dtype=bool)
        prices = -answer.ineqlin.marginals
        height = len(self.constants)
        price = prices[:height]
        price[self.equal] -= prices[height:]
        slack = self.constants + _sums(self.rows, self.values * values[self.columns], height)
        reduced = self.costs - _sums(self.columns, self.values * price[self.rows], len(self.costs))
        return list(
            map(
                Hint,
                missed.tolist(),
                self._by_row(np.abs(price) > TINY),
                self._by_row((np.abs(price) <= TINY) & (np.abs(slack) <= TINY)),
                self._by_column(np.abs(values) > TINY),
                self._by_column((np.abs(values) <= TINY) & (np.abs(reduced) <= TINY)),
            )
        )

    def _answer(self, may_miss: bool) -> Any:
        """The solver's answer: its rows are ours, and then the equations the other way round."""
        height, width, twice = len(self.constants), len(self.costs), np.flatnonzero(self.equal)
        second = np.full(height, -1)
        second[twice] = height + np.arange(len(twice))
        again = second[self.rows] >= 0
        rows = np.concatenate([self.rows, second[self.rows[again]]])
        columns = np.concatenate([self.columns, self.columns[again]])
        values = np.concatenate([self.values, -self.values[again]])
        costs = self.costs
        if may_miss:
            blocks = np.concatenate([self.row_block, self.row_block[twice]])
            rows = np.concatenate([rows, np.arange(len(blocks))])
            columns = np.concatenate([columns, width + blocks])
            values = np.concatenate([values, np.ones(len(blocks))])
            costs = np.concatenate([costs, np.full(self.count, PENALTY)])
        limits = np.tile([0.0, np.inf], (len(costs), 1))
        limits[self.free, 0] = -np.inf
        return linprog(
            costs,
            A_ub=coo_array((-values, (rows, columns)), shape=(height + len(twice), len(costs))).tocsr(),
            b_ub=np.concatenate([self.constants, -self.constants[twice]]),
            bounds=limits,
            method="highs-ds",
        )

    def _by_row(self, chosen: NDArray[np.bool_]) -> list[list[int]]:
        return _split(np.flatnonzero(chosen), self.first_row)

    def _by_column(self, chosen: NDArray[np.bool_]) -> list[list[int]]:
        return _split(np.flatnonzero(chosen), self.first_column)


def _middle(places: Places, sizes: Floats, count: int) -> Floats:
    """Halfway between the least and the largest of each place; 0 where it has none."""
    least, largest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, places, sizes)
    np.maximum.at(largest, places, sizes)
    known = largest >= least
    middle = np.zeros(count)
    middle[known] = (least[known] + largest[known]) / 2
    return middle


def _sums(places: Places, values: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(places, weights=values, minlength=count), dtype=np.float64)


def _split(places: Places, starts: Sequence[int]) -> list[list[int]]:
    """Ascending places by the blocks that begin at the starts, counted from there."""
    cuts = np.searchsorted(places, starts).tolist()
    found = places.tolist()
    return [
        [place - start for place in found[begin:end]]
        for start, (begin, end) in zip(starts[:-1], pairwise(cuts), strict=True)
    ]
