"""Whether linear inequalities can hold together, and whether regions cover a space, decided exactly.

Limits are in steps, not in seconds: what is undecided by then counts as possible, and as not covered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from veridp.errors import NotSolved
from veridp.numerics.linear import LinearProgram, solve, tightened
from veridp.numerics.rational import Rational
from veridp.numerics.simplex import IntegerRow, Vertex, optimum

MAX_BRANCHES = 300  # programs that are solved in the search for whole numbers
MAX_PIECES = 4_000  # pieces of a region that are looked at to show that others cover it
MAX_ROWS_WITHOUT_HINT = 24  # up to here exact steps alone are faster than a float solver's hint
MARGIN = Fraction(1)  # by how much strict inequalities are met, where that is possible

Sign = Literal[">", ">=", "==", "!="]
OPPOSITE: dict[Sign, tuple[int, Sign]] = {">": (-1, ">="), ">=": (-1, ">"), "==": (1, "!="), "!=": (1, "==")}


@dataclass(frozen=True, eq=False)
class LinearInequality:
    """How Σ coefficient · variable + constant compares with 0."""

    terms: Mapping[Any, Rational]
    constant: Rational
    sign: Sign

    def negated(self) -> LinearInequality:
        """What holds where this does not."""
        factor, sign = OPPOSITE[self.sign]
        return self._times(factor, sign)

    def sides(self) -> tuple[LinearInequality, ...]:
        """Alternatives, one of which holds where this does: two for "!=", else this alone."""
        return (self._times(1, ">"), self._times(-1, ">")) if self.sign == "!=" else (self,)

    def _times(self, factor: int, sign: Sign) -> LinearInequality:
        return LinearInequality({v: factor * c for v, c in self.terms.items()}, factor * self.constant, sign)


def are_possible(inequalities: Sequence[LinearInequality], whole: Collection[Hashable] = ()) -> bool:
    """Whether some values satisfy all of the inequalities; False only where that was shown to be impossible.

    Values of the variables in `whole` are integers, all others are real.
    """
    try:
        return inner_point(inequalities, whole) is not None
    except NotSolved:
        return True


def inner_point(
    inequalities: Sequence[LinearInequality], whole: Collection[Hashable] = ()
) -> dict[Hashable, Fraction] | None:
    """Values that satisfy all of the inequalities; None where there are none.

    Where all variables are real, strict inequalities are met by as large a margin as can be, up to MARGIN. Raises
    NotSolved where the search does not end soon enough.
    """
    for chosen in itertools.product(*(inequality.sides() for inequality in inequalities)):
        program, columns = _program(chosen, whole)
        vertex = _solution(program)
        if vertex is not None:
            return {variable: vertex.values[column] for variable, column in columns.items()}
    return None


def _program(
    inequalities: Sequence[LinearInequality], whole: Collection[Hashable]
) -> tuple[LinearProgram, dict[Hashable, int]]:
    """A program whose least cost is what the strict inequalities lack of the margin, and the columns of variables."""
    program = LinearProgram()
    lacking = program.variable(Fraction(1))
    columns: dict[Hashable, int] = {}
    for variable in (variable for inequality in inequalities for variable in inequality.terms):
        if variable not in columns:
            columns[variable] = program.variable(free=True, whole=variable in whole)
    for inequality in inequalities:
        terms = {columns[variable]: value for variable, value in inequality.terms.items() if value}
        constant = Fraction(inequality.constant)
        if inequality.sign == "==":
            program.zero(terms, constant)
        elif inequality.sign == ">=":
            program.at_least_zero(terms, constant)
        elif terms.keys() <= program.whole:
            program.at_least_zero(terms, constant - _step([*terms.values(), constant]))
        else:
            program.at_least_zero({**terms, lacking: 1}, constant - MARGIN)
    return tightened(program), columns


def _step(numbers: Sequence[Rational]) -> Fraction:
    """The least positive sum of whole multiples of these numbers."""
    scale = math.lcm(*(number.denominator for number in numbers))
    multiples = [number.numerator * (scale // number.denominator) for number in numbers]
    return Fraction(math.gcd(*multiples) or 1, scale)


def _solution(program: LinearProgram) -> Vertex | None:
    """A solution that costs less than the margin, with whole numbers where they are asked for: branch and bound."""
    pending = [program.rows]
    for _ in range(MAX_BRANCHES):
        if not pending:
            return None
        rows = pending.pop()
        part = program.with_rows(rows)
        answer = optimum(part.integers) if len(rows) <= MAX_ROWS_WITHOUT_HINT else solve([part])[0]
        if not isinstance(answer, Vertex) or answer.cost >= MARGIN:
            continue
        split = next((c for c in sorted(program.whole) if answer.values[c].denominator != 1), None)
        if split is None:
            return answer
        below = math.floor(answer.values[split])
        pending.append([*rows, IntegerRow({split: -1}, below, False, 1)])
        pending.append([*rows, IntegerRow({split: 1}, -below - 1, False, 1)])
    raise NotSolved(f"no whole numbers were found in {MAX_BRANCHES} branches; try a smaller size")


def cover(parts: Sequence[Sequence[LinearInequality]], region: Sequence[LinearInequality] = ()) -> bool:
    """Whether the parts cover the region of real numbers, or all of space; True only where that was shown.

    The region is cut along the inequalities of a part that meets it: the rest has to be covered by the other parts.
    """
    pending = [(list(region), 0)]
    for _ in range(MAX_PIECES):
        if not pending:
            return True
        piece, used = pending.pop()
        if not are_possible(piece):
            continue
        while used < len(parts) and not are_possible([*piece, *parts[used]]):
            used += 1
        if used == len(parts):
            return False
        for inequality in parts[used]:
            pending.append(([*piece, inequality.negated()], used + 1))
            piece = [*piece, inequality]
    return False
