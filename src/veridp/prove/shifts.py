"""The cheapest shift of the noise for every event and every corner of the neighbourhood: one large linear program.

The shift of one event at one corner is a small linear program; all of them together, side by side, are one that
separates into them, and is solved in one call. What comes out is rounded to rationals and checked exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from veridp.program import distribution as d
from veridp.program.affine import Affine, Unknown
from veridp.prove.events import Difference, Event, change, is_equality, on_noise

PENALTY = 1e4  # the cost of a unit by which an inequality is not met: far above that of any shift
DENOMINATOR = 10_000
NEARLY = 1e-9  # what rounding may add to the cost of a shift


@dataclass(frozen=True)
class Rule:
    """How noise may be shifted: the cost of a unit upwards, and downwards; None where it may not."""

    up: Fraction | None
    down: Fraction | None


def rule(noise: d.Distribution) -> Rule:
    """ln f(x)/f(x + Δ) is at most |Δ|/b for Laplace noise, and Δ/b for exponential noise shifted upwards.

    Other noise has no bounded rule: it must stay as it is.
    """
    if isinstance(noise, d.Laplace):
        return Rule(1 / Fraction(noise.scale), 1 / Fraction(noise.scale))
    if isinstance(noise, d.Exponential):
        return Rule(1 / Fraction(noise.scale), None)
    if isinstance(noise, d.Geometric) and noise.p < 1:
        unit = Fraction(-math.log1p(-float(noise.p)))
        return Rule(unit, None)
    return Rule(None, None)


@dataclass(frozen=True)
class Shift:
    """By how much each noise is moved for one event and corner, and what that costs; infeasible without an answer."""

    moves: tuple[Fraction, ...] | None
    cost: Fraction | float


def cheapest_shifts(events: Sequence[Event], corners: NDArray[np.float64], name: str = "data") -> list[list[Shift]]:
    """For each event, for each corner: the cheapest shift."""
    differences = [
        {Unknown(f"{name}[{i}]"): Fraction(value) for i, value in enumerate(corner)} for corner in corners.tolist()
    ]
    program = _Program()
    for event in events:
        for difference in differences:
            program.add(event, difference)
    program.solve()
    count = len(differences)
    flat = program.shifts()
    return [flat[start : start + count] for start in range(0, len(flat), count)]


class _Program:
    """Blocks of variables: up and down for each noise of an event, and one that measures what cannot be met."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.upper: list[float | None] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.bounds: list[float] = []
        self.blocks: list[tuple[int, Event, Difference]] = []
        self.solution: NDArray[np.float64] = np.empty(0)

    def add(self, event: Event, difference: Difference) -> None:
        first = len(self.costs)
        self.blocks.append((first, event, difference))
        for noise in event.noises:
            allowed = rule(noise.distribution)
            for cost in (allowed.up, allowed.down):
                self.costs.append(0.0 if cost is None else float(cost))
                self.upper.append(0.0 if cost is None else None)
        self.costs.append(PENALTY)
        self.upper.append(None)
        place = {noise.index: first + 2 * k for k, noise in enumerate(event.noises)}
        miss = len(self.costs) - 1
        for condition in event.conditions:
            signs = (1, -1) if is_equality(condition) else (1,)
            for sign in signs:
                self._at_least(place, miss, condition.slack, difference, sign)
        for number in event.numbers:
            for sign in (1, -1):
                self._at_least(place, miss, number, difference, sign)

    def _at_least(
        self, place: dict[int, int], miss: int, expression: Affine, difference: Difference, sign: int
    ) -> None:
        """sign · (change of the expression) >= 0, or missed by so much."""
        row = len(self.bounds)
        for index, coefficient in on_noise(expression).items():
            value = sign * float(coefficient)
            self._entry(row, place[index], -value)
            self._entry(row, place[index] + 1, value)
        self._entry(row, miss, -1.0)
        self.bounds.append(sign * float(change(expression, difference)))

    def _entry(self, row: int, column: int, value: float) -> None:
        self.rows.append(row)
        self.columns.append(column)
        self.values.append(value)

    def solve(self) -> None:
        shape = (len(self.bounds), len(self.costs))
        matrix = coo_array((self.values, (self.rows, self.columns)), shape=shape).tocsr()
        limits = [(0.0, upper) for upper in self.upper]
        answer = linprog(self.costs, A_ub=matrix, b_ub=self.bounds, bounds=limits, method="highs")
        if not answer.success:
            raise ArithmeticError(f"the linear program was not solved: {answer.message}")
        self.solution = answer.x

    def shifts(self) -> list[Shift]:
        return [self._shift(first, event, difference) for first, event, difference in self.blocks]

    def _shift(self, first: int, event: Event, difference: Difference) -> Shift:
        count = len(event.noises)
        ups, downs = self.solution[first : first + 2 * count : 2], self.solution[first + 1 : first + 2 * count : 2]
        least = float(np.dot(self.solution[first : first + 2 * count], self.costs[first : first + 2 * count]))
        for denominator in (1, 2, 12, DENOMINATOR):
            moves = tuple(Fraction(float(x)).limit_denominator(denominator) for x in ups - downs)
            if meets(event, difference, moves) and cost(event, moves) <= least + NEARLY * (1 + least):
                return Shift(moves, cost(event, moves))
        return Shift(None, math.inf)


def meets(event: Event, difference: Difference, moves: Sequence[Fraction]) -> bool:
    """Whether the moves carry every run of the event, on any data, to one of the same event on the moved data."""
    by_index = {noise.index: move for noise, move in zip(event.noises, moves, strict=True)}

    def moved(expression: Affine) -> Fraction:
        part = sum((c * by_index[i] for i, c in on_noise(expression).items()), start=Fraction(0))
        return part + change(expression, difference)

    for noise, move in zip(event.noises, moves, strict=True):
        allowed = rule(noise.distribution)
        if (move > 0 and allowed.up is None) or (move < 0 and allowed.down is None):
            return False
        if noise.distribution.integer and move.denominator != 1:
            return False
    for condition in event.conditions:
        gain = moved(condition.slack)
        if gain < 0 or (is_equality(condition) and gain != 0):
            return False
    return all(moved(number) == 0 for number in event.numbers)


def cost(event: Event, moves: Sequence[Fraction]) -> Fraction:
    """What the moves cost: the most by which they change the density of the noise, as a logarithm."""
    total = Fraction(0)
    for noise, move in zip(event.noises, moves, strict=True):
        allowed = rule(noise.distribution)
        unit = allowed.up if move > 0 else allowed.down
        total += abs(move) * (unit or 0)
    return total
