"""The cheapest shift of the noise that carries an event over one difference of the data: a small linear program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import Box, Corner, Hull, Polytope
from veridp.engines.prove.events import NoiseEvent, entry_of, is_equality
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine
from veridp.kernel.symbols import Noise, Unknown
from veridp.numerics.integer_program import solve_whole
from veridp.numerics.linear import Answer, Infeasible, LinearProgram
from veridp.numerics.simplex import ZERO


@dataclass(frozen=True)
class Requirement:
    """Σ noise · move + Σ data · difference + constant must be at least 0, or 0; noise by its place in the event."""

    noise: Mapping[int, Number]
    data: Mapping[int, Number]
    equal: bool
    constant: Number = 0

    def at(self, difference: Sequence[Fraction]) -> Number:
        """What it comes to at a difference of the data where no noise moves."""
        return sum((c * difference[entry] for entry, c in self.data.items()), start=self.constant)


def requirement(expression: Affine, noises: Sequence[Noise], equal: bool) -> Requirement:
    """That the expression does not fall (or stays) when noise and data move."""
    place = {noise.index: k for k, noise in enumerate(noises)}
    noise: dict[int, Number] = {}
    data: dict[int, Number] = {}
    for symbol, coefficient in expression.terms.items():
        if isinstance(symbol, Unknown):
            data[entry_of(symbol)] = coefficient
        else:
            noise[place[symbol.index]] = coefficient
    return Requirement(noise, data, equal)


def requirements_of(event: NoiseEvent) -> list[Requirement]:
    """What a shift must meet to carry the event into itself: its conditions, then its numbers."""
    conditions = [requirement(c.slack, event.noises, is_equality(c)) for c in event.conditions]
    return conditions + [requirement(number, event.noises, True) for number in event.numbers]


@dataclass(frozen=True)
class Shift:
    """By how much each noise is moved, and what that costs; no moves and inf where there is no way."""

    moves: tuple[Fraction, ...] | None
    cost: Fraction | float


NO_SHIFT = Shift(None, math.inf)


class ShiftProblem:
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

    def shift(self, moves: Sequence[Fraction]) -> Shift:
        return Shift(tuple(moves), cost_of(self.noises, moves))


def cost_of(noises: Sequence[Noise], moves: Sequence[Fraction]) -> Fraction:
    """What the moves cost together."""
    return sum((n.distribution.price.of(move) for n, move in zip(noises, moves, strict=True)), start=Fraction(0))


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
    corners: Sequence[Corner]
    if isinstance(polytope, Hull):
        corners = polytope.listed
    else:
        low, high = list(_at_zero(polytope)), list(_at_zero(polytope))
        for entry, coefficient in each.data.items():
            ends = (polytope.low[entry], polytope.high[entry])
            low[entry], high[entry] = ends if coefficient > 0 else ends[::-1]
        corners = tuple(low), tuple(high)
    return next((corner for corner in corners if (value := each.at(corner)) < 0 or (value and each.equal)), None)


def _at_zero(box: Box) -> Corner:
    """The difference of the box that is nearest to none."""
    return tuple(min(max(Fraction(0), low), high) for low, high in zip(box.low, box.high, strict=True))


# ------------------------------------------------------------------------------------------------ corner by corner


def program_at(task: ShiftProblem, corner: Corner, *, priced: bool = True) -> LinearProgram:
    """The linear program for the cheapest shift at one difference; without prices, only whether there is one.

    Its rows are the requirements of the task.
    """
    program = LinearProgram()
    columns = [
        signed_variables(program, noise, priced=priced, whole=noise.distribution.integer) for noise in task.noises
    ]
    for each in task.requirements:
        terms = {column: sign * c for place, c in each.noise.items() for column, sign in columns[place]}
        (program.zero if each.equal else program.at_least_zero)(terms, each.at(corner))
    return program


Signed = Sequence[tuple[int, int]]  # columns with their signs, which sum to a number that may be negative


def signed_variables(program: LinearProgram, noise: Noise, *, priced: bool = True, whole: bool = False) -> Signed:
    """Variables for the way up and the way down, as far as the noise may go there."""
    price = noise.distribution.price
    return [
        (program.variable(unit if priced else ZERO, whole=whole), sign)
        for unit, sign in ((price.up, 1), (price.down, -1))
        if unit is not None
    ]


def cheapest_shifts(asked: Sequence[tuple[ShiftProblem, Corner]]) -> list[Shift]:
    """The cheapest shift of each task at its corner; NO_SHIFT where there is none."""
    answers = solve_whole([program_at(task, corner) for task, corner in asked])
    return [_shift(task, answer) for (task, _), answer in zip(asked, answers, strict=True)]


def _shift(task: ShiftProblem, answer: Answer) -> Shift:
    if isinstance(answer, Infeasible):
        return NO_SHIFT
    values = iter(answer.values)
    moves = []
    for noise in task.noises:
        price = noise.distribution.price
        up = ZERO if price.up is None else next(values)
        moves.append(up if price.down is None else up - next(values))
    return Shift(tuple(moves), answer.cost)
