"""Linear programs in rational numbers, solved exactly; some variables may be whole."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veridp.errors import NotSolved
from veridp.numerics.rational import Rational
from veridp.numerics.simplex import ZERO, Basis, Hint, IntegerProgram, IntegerRow, Vertex, completed, hints, optimum

# -------------------------------------------------------------------------------------------------------------- linear
# Linear programs in rational numbers, solved exactly.
#
# A float solver tells which basis is optimal; the answer is the rational solution of that basis, checked to be feasible
# and, by its dual, optimal. Where the floats err, exact simplex steps go on from there (`simplex`). A program without a
# solution is shown to have none by a Farkas ray. Nothing of the floats is left in an answer.


class LinearProgram:
    """The least Σ cost · variable where every row Σ coefficient · variable + constant is at least 0, or 0.

    Variables are not negative, unless they are free. No cost is negative and free variables cost nothing, so the least
    cost is at least 0.
    """

    def __init__(self) -> None:
        self.costs: list[Fraction] = []
        self.free: set[int] = set()
        self.whole: set[int] = set()
        self.rows: list[IntegerRow] = []

    def variable(self, cost: Fraction = ZERO, *, free: bool = False, whole: bool = False) -> int:
        """The column of a new variable."""
        if cost < 0 or (free and cost):
            raise ValueError(f"a {'free ' if free else ''}variable cannot cost {cost}")
        column = len(self.costs)
        self.costs.append(cost)
        if free:
            self.free.add(column)
        if whole:
            self.whole.add(column)
        return column

    def at_least_zero(self, terms: Mapping[int, Rational], constant: Rational = 0) -> None:
        """Σ terms + constant >= 0."""
        self._add(terms, constant, False)

    def zero(self, terms: Mapping[int, Rational], constant: Rational = 0) -> None:
        """Σ terms + constant = 0."""
        self._add(terms, constant, True)

    def _add(self, terms: Mapping[int, Rational], constant: Rational, equal: bool) -> None:
        scale = math.lcm(constant.denominator, *[value.denominator for value in terms.values()])
        if scale == 1:
            integers = {column: value.numerator for column, value in terms.items() if value}
        else:
            integers = {c: value.numerator * (scale // value.denominator) for c, value in terms.items() if value}
        self.rows.append(IntegerRow(integers, constant.numerator * (scale // constant.denominator), equal, scale))

    def with_rows(self, rows: Sequence[IntegerRow]) -> LinearProgram:
        """The program with other rows."""
        found = LinearProgram()
        found.costs, found.free, found.whole, found.rows = self.costs, self.free, self.whole, list(rows)
        return found

    @cached_property
    def integers(self) -> IntegerProgram:
        """The program with its costs, too, in whole numbers; to be asked for when it is complete."""
        scale = math.lcm(*(cost.denominator for cost in self.costs))
        costs = [cost.numerator * (scale // cost.denominator) for cost in self.costs]
        return IntegerProgram(costs, scale, frozenset(self.free), self.rows)


@dataclass(frozen=True, eq=False)
class Infeasible:
    """That there is no solution: the rows at these prices (a Farkas ray) sum to what is negative for all variables."""

    prices: tuple[Fraction, ...]


Answer = Vertex | Infeasible


def solve(programs: Sequence[LinearProgram]) -> list[Answer]:
    """The optimum of each program, where variables that should be whole need not be; or why it has none.

    Raises NotSolved where exact steps do not come to an end soon enough.
    """
    exact = [program.integers for program in programs]
    return [_answer(program, hint) for program, hint in zip(exact, hints(exact), strict=True)]


def _answer(program: IntegerProgram, hint: Hint | None) -> Answer:
    if hint is not None and hint.missed:
        ray = optimum(program.part(hint.priced))
        if not isinstance(ray, Vertex):
            prices = dict(zip(hint.priced, ray, strict=True))
            return Infeasible(tuple(prices.get(row, ZERO) for row in range(len(program.rows))))
        hint = None
    found = optimum(program, None if hint is None else _vertex(program, hint))
    return found if isinstance(found, Vertex) else Infeasible(found)


def _vertex(program: IntegerProgram, hint: Hint) -> Vertex:
    """The vertex that a hint tells of: rows and columns are a basis mostly, else what they lack is added."""
    if len(hint.priced) == len(hint.positive):
        with suppress(ZeroDivisionError):
            return Vertex(program, Basis(tuple(hint.priced), tuple(hint.positive)))
    return Vertex(program, completed(program, [*hint.priced, *hint.tight], [*hint.positive, *hint.idle]))


# ----------------------------------------------------------------------------------------------------- integer program
# Linear programs some of whose variables must be whole numbers: branch and bound on exact optima.


MAX_BRANCHES = 500


def solve_whole(programs: Sequence[LinearProgram]) -> list[Answer]:
    """The answer to each program in whole numbers, where these are asked for; else as `solve` has it.

    The prices of an answer are those of the last program without that demand. Raises NotSolved where the search for
    whole numbers does not end soon enough.
    """
    rounded = [tightened(program) if program.whole else program for program in programs]
    return [_branched(program, answer) for program, answer in zip(rounded, solve(rounded), strict=True)]


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


def tightened(program: LinearProgram) -> LinearProgram:
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
