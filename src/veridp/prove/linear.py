"""Many small linear programs side by side, solved in one call.

Each block has a variable that measures by how much its inequalities are missed, at a price far above any shift; so one
block that has no solution does not spoil the rest, and shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

PENALTY = 1e4  # the cost of a unit by which an inequality is missed, where the dearest unit of a shift costs 1
Terms = Mapping[int, float]


class Blocks:
    """Variables that are not negative, with costs; rows that must not be negative."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.upper: list[float | None] = []
        self.whole: list[int] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.constants: list[float] = []
        self.miss = -1
        self.unit = 1.0

    def start(self, unit: float) -> int:
        """Begin a block whose dearest unit costs so much; the column of what is missed."""
        self.unit = unit or 1.0
        self.miss = len(self.costs)
        self.costs.append(PENALTY)
        self.upper.append(None)
        self.whole.append(0)
        return self.miss

    def variable(self, cost: float, *, allowed: bool = True, whole: bool = False) -> int:
        """A new variable of the block; one that is not allowed is 0."""
        self.costs.append(cost / self.unit)
        self.upper.append(None if allowed else 0.0)
        self.whole.append(int(whole))
        return len(self.costs) - 1

    def at_least_zero(self, terms: Terms, constant: float) -> None:
        """Σ terms + constant >= 0, or missed by so much."""
        row = len(self.constants)
        self.rows += [row] * (len(terms) + 1)
        self.columns += [*terms, self.miss]
        self.values += [*terms.values(), 1.0]
        self.constants.append(constant)

    def zero(self, terms: Terms, constant: float) -> None:
        """Σ terms + constant = 0, or missed by so much."""
        self.at_least_zero(terms, constant)
        self.at_least_zero({column: -value for column, value in terms.items()}, -constant)

    def solve(self) -> NDArray[np.float64]:
        """The values of all variables in a cheapest solution."""
        if not self.costs:
            return np.empty(0)
        return np.asarray(self._answer().x)

    def prices(self) -> NDArray[np.float64]:
        """What each row adds to the cost for a unit by which it is asked for more: the dual solution, in row order."""
        marginals: NDArray[np.float64] = np.asarray(self._answer().ineqlin.marginals)
        return np.abs(marginals) * self.unit

    def _answer(self) -> Any:
        shape = (len(self.constants), len(self.costs))
        matrix = coo_array((self.values, (self.rows, self.columns)), shape=shape).tocsr()
        limits = np.array([(0.0, np.inf if upper is None else upper) for upper in self.upper])
        answer = linprog(
            self.costs,
            A_ub=-matrix,
            b_ub=self.constants,
            bounds=limits,
            method="highs",
            integrality=self.whole if any(self.whole) else None,
        )
        if not answer.success:
            raise ArithmeticError(f"the linear program was not solved: {answer.message}")
        return answer
