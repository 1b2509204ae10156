"""Linear programs in rational numbers, solved exactly.

A float solver tells which basis is optimal; the answer is the rational solution of that basis, checked to be feasible
and, by its dual, optimal. Where the floats err, exact simplex steps go on from there (`simplex`). A program without a
solution is shown to have none by a Farkas ray. Nothing of the floats is left in an answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veridp.numerics.hints import Hint, hints
from veridp.numerics.rational import Rational
from veridp.numerics.simplex import ZERO, Basis, IntegerProgram, IntegerRow, Vertex, completed, optimum


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
