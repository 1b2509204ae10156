"""Linear programs some of whose variables must be whole numbers: branch and bound on exact optima."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

from veridp.errors import NotSolved
from veridp.numerics.linear import Answer, Infeasible, LinearProgram, solve
from veridp.numerics.simplex import IntegerRow, Vertex

MAX_BRANCHES = 500


def solve_whole(programs: Sequence[LinearProgram]) -> list[Answer]:
    """The answer to each program in whole numbers, where these are asked for; else as `solve` has it.

    The prices of an answer are those of the last program without that demand. Raises NotSolved where the search for
    whole numbers does not end soon enough.
    """
    tightened = [_tightened(program) if program.whole else program for program in programs]
    return [_branched(program, answer) for program, answer in zip(tightened, solve(tightened), strict=True)]


def _branched(program: LinearProgram, answer: Answer) -> Answer:
    """The cheapest answer in whole numbers: the first to be met, when cheaper bounds go first."""
    if isinstance(answer, Infeasible) or (split := _fractional(program, answer)) is None:
        return answer
    numbers = itertools.count()
    pending = [(answer.cost, next(numbers), program, answer)]
    for _ in range(MAX_BRANCHES):
        if not pending:
            return Infeasible(())
        _, _, program, answer = heapq.heappop(pending)
        if (split := _fractional(program, answer)) is None:
            return answer
        below = math.floor(answer.values[split])
        sides = [
            program.with_rows([*program.rows, row])
            for row in (IntegerRow({split: -1}, below, False, 1), IntegerRow({split: 1}, -below - 1, False, 1))
        ]
        for side, found in zip(sides, solve(sides), strict=True):
            if isinstance(found, Vertex):
                heapq.heappush(pending, (found.cost, next(numbers), side, found))
    raise NotSolved(f"no cheapest shift of integer noise found in {MAX_BRANCHES} branches; try a smaller size")


def _fractional(program: LinearProgram, answer: Vertex) -> int | None:
    """A variable that should be whole and is not; the first."""
    return next((column for column in sorted(program.whole) if answer.values[column].denominator != 1), None)


def _tightened(program: LinearProgram) -> LinearProgram:
    """The program with rows over whole variables alone rounded to what these can reach."""
    return program.with_rows([_rounded(row) if row.terms.keys() <= program.whole else row for row in program.rows])


def _rounded(row: IntegerRow) -> IntegerRow:
    step = math.gcd(*row.terms.values())
    if not step:
        return row
    if row.equal and row.constant % step:
        return IntegerRow({}, -1, False, 1)  # never met
    terms = {column: value // step for column, value in row.terms.items()}
    return IntegerRow(terms, row.constant // step, row.equal, 1)
