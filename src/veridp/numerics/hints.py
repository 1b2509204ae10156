"""What a float solver knows about linear programs: which rows and columns make up an optimal basis.

All programs are solved side by side, in one call. Where some have no solution, each gets a variable that measures by
how much its rows are missed, at a price far above all others, to tell which. A hint may be wrong: what follows from it
is checked exactly (`simplex`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from veridp.numerics.simplex import IntegerProgram

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
