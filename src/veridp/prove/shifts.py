"""The cheapest shift of the noise that carries an event over one difference of the data: a small linear program.

What the solver finds is rounded to rationals and checked exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veridp.program.affine import Affine
from veridp.program.symbols import Noise, Unknown
from veridp.prove.events import Event, entry_of, is_equality
from veridp.prove.linear import Blocks
from veridp.prove.neighbours import Box, Corner, Hull, Polytope
from veridp.prove.prices import are_allowed, cost_of, price_of

DENOMINATORS = (
    1,
    2,
    12,
    10_000,
)  # of the rationals that a solution is rounded to, in the order in which they are tried
NEARLY = 1e-9  # what rounding may add to the cost of a shift


@dataclass(frozen=True)
class Requirement:
    """Σ noise · move + Σ data · difference + constant must be at least 0, or 0; noise by its place in the event."""

    noise: Mapping[int, Fraction]
    data: Mapping[int, Fraction]
    equal: bool
    constant: Fraction = Fraction(0)

    def gain(self, moves: Sequence[Fraction], difference: Sequence[Fraction]) -> Fraction:
        total = sum((c * moves[place] for place, c in self.noise.items()), start=self.constant)
        return total + sum((c * difference[entry] for entry, c in self.data.items()), start=Fraction(0))

    def met(self, moves: Sequence[Fraction], difference: Sequence[Fraction]) -> bool:
        gain = self.gain(moves, difference)
        return gain == 0 if self.equal else gain >= 0


def requirement(expression: Affine, noises: Sequence[Noise], equal: bool) -> Requirement:
    """That the expression does not fall (or stays) when noise and data move."""
    place = {noise.index: k for k, noise in enumerate(noises)}
    noise: dict[int, Fraction] = {}
    data: dict[int, Fraction] = {}
    for symbol, coefficient in expression.terms.items():
        if isinstance(symbol, Unknown):
            data[entry_of(symbol)] = Fraction(coefficient)
        else:
            noise[place[symbol.index]] = Fraction(coefficient)
    return Requirement(noise, data, equal)


def requirements_of(event: Event) -> list[Requirement]:
    """What a shift must meet to carry the event into itself: its conditions, then its numbers."""
    conditions = [requirement(c.slack, event.noises, is_equality(c)) for c in event.conditions]
    return conditions + [requirement(number, event.noises, True) for number in event.numbers]


@dataclass(frozen=True)
class Shift:
    """By how much each noise is moved, and what that costs; no moves and inf where there is no way."""

    moves: tuple[Fraction, ...] | None
    cost: Fraction | float


NO_SHIFT = Shift(None, math.inf)


class Task:
    """Noise to be shifted so that requirements are met for every difference of a polytope."""

    def __init__(self, noises: Sequence[Noise], requirements: Sequence[Requirement], polytope: Polytope) -> None:
        self.noises = tuple(noises)
        self.polytope = polytope
        self.requirements = tuple(requirements)
        if isinstance(polytope, Hull):
            self.mixed = tuple(range(polytope.size))
            self.base: Corner = polytope.listed[0]
        else:
            self.mixed, self.base = _mixed_entries(self.requirements, polytope)

    @property
    def whole(self) -> bool:
        """Whether there is noise that moves in whole steps only."""
        return any(noise.distribution.integer for noise in self.noises)

    @property
    def box(self) -> Box:
        """The polytope, where it is a box."""
        if not isinstance(self.polytope, Box):
            raise TypeError(f"{self.polytope} is no box")
        return self.polytope

    def corners(self, whole: bool = False) -> list[Corner]:
        """The differences that stand for all of them, the other entries at their worst; or all whole differences."""
        if isinstance(self.polytope, Hull):
            return list(self.polytope.listed)
        ends = [(self.polytope.low[i], self.polytope.high[i]) for i in self.mixed]
        values = [[*map(Fraction, range(int(low), int(high) + 1))] if whole else [low, high] for low, high in ends]
        return [moved_to(self.base, self.mixed, chosen) for chosen in itertools.product(*values)]

    @property
    def unit(self) -> float:
        """The price of the dearest unit of a shift."""
        prices = [price_of(noise.distribution) for noise in self.noises]
        return max((float(price.up or 0) for price in prices), default=0.0)

    def met(self, moves: Sequence[Fraction], corner: Corner) -> bool:
        return are_allowed(self.noises, moves) and all(r.met(moves, corner) for r in self.requirements)

    def shift(self, moves: Sequence[Fraction]) -> Shift:
        return Shift(tuple(moves), cost_of(self.noises, moves))


def _mixed_entries(requirements: Sequence[Requirement], box: Box) -> tuple[tuple[int, ...], Corner]:
    """The entries whose rise helps some requirements and harms others, or that an equation holds; and a difference
    where the others are at their worst, or 0 if they do not matter."""
    helps: set[int] = set()
    harms: set[int] = set()
    for each in requirements:
        for entry, coefficient in each.data.items():
            if each.equal or coefficient > 0:
                helps.add(entry)
            if each.equal or coefficient < 0:
                harms.add(entry)
    base = tuple(
        box.high[i] if i in harms else box.low[i] if i in helps else none for i, none in enumerate(_at_zero(box))
    )
    return tuple(sorted(helps & harms)), base


def moved_to(base: Corner, entries: Sequence[int], values: Sequence[Fraction]) -> Corner:
    """The corner with these entries at these values."""
    corner = list(base)
    for entry, value in zip(entries, values, strict=True):
        corner[entry] = value
    return tuple(corner)


def failing_corner(each: Requirement, polytope: Polytope) -> Corner | None:
    """A difference at which a requirement without noise is not met; None where it always is."""
    if isinstance(polytope, Hull):
        return next((corner for corner in polytope.listed if not each.met((), corner)), None)
    low, high = list(_at_zero(polytope)), list(_at_zero(polytope))
    for entry, coefficient in each.data.items():
        ends = (polytope.low[entry], polytope.high[entry])
        low[entry], high[entry] = ends if coefficient > 0 else ends[::-1]
    return next((tuple(corner) for corner in (low, high) if not each.met((), corner)), None)


def _at_zero(box: Box) -> Corner:
    """The difference of the box that is nearest to none."""
    return tuple(min(max(Fraction(0), low), high) for low, high in zip(box.low, box.high, strict=True))


# ------------------------------------------------------------------------------------------------ corner by corner


class Corners:
    """The linear programs of single differences, solved together; without prices, only whether they can be met.

    Integer noise is asked to move in whole steps only where the solution without that is not whole: it mostly is.
    """

    def __init__(self, *, priced: bool = True, whole: bool = False) -> None:
        self.priced = priced
        self.whole = whole
        self.blocks = Blocks()
        self.starts: list[tuple[Task, Corner, int]] = []

    def add(self, task: Task, corner: Corner) -> None:
        self.blocks.start(task.unit)
        first = len(self.blocks.costs)
        for noise in task.noises:
            price = price_of(noise.distribution)
            for unit in (price.up, price.down):
                whole = self.whole and noise.distribution.integer and unit is not None
                self.blocks.variable(float(unit or 0) * self.priced, allowed=unit is not None, whole=whole)
        for each in task.requirements:
            terms: dict[int, float] = {}
            for place, coefficient in each.noise.items():
                terms[first + 2 * place] = float(coefficient)
                terms[first + 2 * place + 1] = -float(coefficient)
            constant = float(each.constant + sum(c * corner[entry] for entry, c in each.data.items()))
            (self.blocks.zero if each.equal else self.blocks.at_least_zero)(terms, constant)
        self.starts.append((task, corner, first))

    def shifts(self) -> list[Shift]:
        """The cheapest shift of each task at its corner, in the order in which they were added."""
        solution = self.blocks.solve()
        found = [_rounded(task, corner, solution[first:]) for task, corner, first in self.starts]
        again = (
            [] if self.whole else [k for k, shift in enumerate(found) if shift is NO_SHIFT and self.starts[k][0].whole]
        )
        if again:
            program = Corners(whole=True)
            for k in again:
                program.add(*self.starts[k][:2])
            for k, shift in zip(again, program.shifts(), strict=True):
                found[k] = shift
        return found


def _rounded(task: Task, corner: Corner, solution: NDArray[np.float64]) -> Shift:
    """The rational shift that the solver meant; none where that meets not all requirements, or costs more."""
    count = len(task.noises)
    floats = solution[: 2 * count : 2] - solution[1 : 2 * count : 2]
    exact = [Fraction(float(x)) for x in floats]
    least = float(sum(price_of(n.distribution).of(x) for n, x in zip(task.noises, exact, strict=True)))
    for denominator in DENOMINATORS:
        shift = task.shift([x.limit_denominator(denominator) for x in exact])
        if task.met(shift.moves or (), corner) and shift.cost <= least + NEARLY * (1 + least):
            return shift
    return NO_SHIFT
