"""The cheapest shift of the noise that keeps an event: for one difference, or as an affine rule for a box of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import Box, Corner, Hull, Polytope
from veridp.engines.prove.events import NoiseEvent, entry_of, is_equality
from veridp.kernel.distributions import Number, Price
from veridp.kernel.expressions import Affine
from veridp.kernel.symbols import Noise, Unknown
from veridp.numerics.components import components
from veridp.numerics.linear import Answer, Infeasible, LinearProgram, solve_whole
from veridp.numerics.simplex import ZERO

# -------------------------------------------------------------------------------------------------------------- shifts
# The cheapest shift of the noise that carries an event over one difference of the data: a small linear program.


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
    """That the expression does not fall (or stays) when noise and data move, and functions in it do not."""
    place = {noise.index: k for k, noise in enumerate(noises)}
    noise: dict[int, Number] = {}
    data: dict[int, Number] = {}
    for symbol, coefficient in expression.terms.items():
        if isinstance(symbol, Unknown):
            data[entry_of(symbol)] = coefficient
        elif isinstance(symbol, Noise):
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
    """Noise to be shifted so that requirements are met for every difference of a polytope.

    Its prices are those of pure ε, or those to search by where a δ is allowed.
    """

    def __init__(
        self,
        noises: Sequence[Noise],
        requirements: Sequence[Requirement],
        polytope: Polytope,
        *,
        with_delta: bool = False,
    ) -> None:
        self.noises = tuple(noises)
        laws = [noise.distribution for noise in noises]
        self.prices = tuple(law.price_with_delta if with_delta else law.price for law in laws)
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
    def convex(self) -> bool:
        """Whether a mean of shifts costs at most the mean of what they cost."""
        return all(price.convex for price in self.prices)

    @property
    def entries_of_whole_noise(self) -> set[int]:
        """The entries of the data whose moves noise in whole steps may have to follow."""
        whole = {k for k, noise in enumerate(self.noises) if noise.distribution.integer}
        found: set[int] = set()
        for group in components([[*each.noise, *((i,) for i in each.data)] for each in self.requirements]):
            if any(whole & each.noise.keys() for each in (self.requirements[k] for k in group)):
                found |= {i for k in group for i in self.requirements[k].data}
        return found

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
        return Shift(tuple(moves), cost_of(self.prices, moves))

    def cost_up_to(self, moves: Sequence[Sequence[Fraction]]) -> Fraction:
        """What any means of the moves cost together, each noise being moved by one of those that are listed for it.

        A price that is not in proportion to the move need not be convex, but it grows with the size of the move.
        """
        total = Fraction(0)
        for noise, price, listed in zip(self.noises, self.prices, moves, strict=True):
            far = [(noise.distribution.price_up_to(move), price.of(move)) for move in listed]
            total += max(Fraction(cost) if bent is None else Fraction(bent) for bent, cost in far)
        return total


def cost_of(prices: Sequence[Price], moves: Sequence[Fraction]) -> Fraction:
    """What the moves cost together."""
    return sum((price.of(move) for price, move in zip(prices, moves, strict=True)), start=Fraction(0))


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
        signed_variables(program, price, priced=priced, whole=noise.distribution.integer)
        for noise, price in zip(task.noises, task.prices, strict=True)
    ]
    for each in task.requirements:
        terms = {column: sign * c for place, c in each.noise.items() for column, sign in columns[place]}
        (program.zero if each.equal else program.at_least_zero)(terms, each.at(corner))
    return program


Signed = Sequence[tuple[int, int]]  # columns with their signs, which sum to a number that may be negative


def signed_variables(program: LinearProgram, price: Price, *, priced: bool = True, whole: bool = False) -> Signed:
    """Variables for the way up and the way down, as far as noise of this price may go there."""
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
    for price in task.prices:
        up = ZERO if price.up is None else next(values)
        moves.append(up if price.down is None else up - next(values))
    return task.shift(moves)


# --------------------------------------------------------------------------------------------------------------- rules
# One shift for every difference of a box: an affine rule, found by one linear program in place of 2^size.
#
# Δ = constant + Σ slope · difference for each noise. A requirement is affine in the difference then, and least at a
# corner that shows by its signs. So all of it is one linear program: what a requirement has in the middle of the box
# must
# be at least what it loses from there to its worst corner.


MAX_CORNER_ENTRIES = 8  # entries: past this, corners are not gone through


@dataclass(frozen=True)
class Rule:
    """A shift for every difference: constant + Σ slope · difference, for each noise."""

    constants: tuple[Fraction, ...]
    slopes: tuple[Mapping[int, Fraction], ...]

    def at(self, difference: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """The moves at one difference."""
        return tuple(
            sum((slope * difference[entry] for entry, slope in slopes.items()), start=constant)
            for constant, slopes in zip(self.constants, self.slopes, strict=True)
        )


def cheapest_rules(tasks: Sequence[ShiftProblem]) -> list[Rule | None]:
    """An affine rule for each task; None where there is none."""
    programs = [_RuleProgram(task) for task in tasks]
    answers = solve_whole([each.program for each in programs])
    return [each.rule(answer) for each, answer in zip(programs, answers, strict=True)]


class _RuleProgram:
    """The linear program for the rule of a task: of each noise the shift amid the box, and slopes in mixed entries.

    What a slope costs is bounded by what the shift at the ends of its entry costs more than in the middle.
    """

    def __init__(self, task: ShiftProblem) -> None:
        self.task = task
        self.program = LinearProgram()
        self.half = {i: (task.box.high[i] - task.box.low[i]) / 2 for i in task.mixed}
        self.middle = {i: (task.box.high[i] + task.box.low[i]) / 2 for i in task.mixed}
        self.centres: list[Signed] = []
        self.slopes: list[dict[int, Signed]] = []
        for noise, price in zip(task.noises, task.prices, strict=True):
            self._add_noise(price, whole=noise.distribution.integer)
        for each in task.requirements:
            self._require(each)

    def _add_noise(self, price: Price, *, whole: bool) -> None:
        program = self.program
        dear = max(price.up or ZERO, price.down or ZERO)
        centre = signed_variables(program, price, whole=False)
        slopes: dict[int, Signed] = {
            i: [(program.variable(dear * self.half[i], whole=whole), sign) for sign in (1, -1)] if centre else []
            for i in self.task.mixed
        }
        if centre and price.down is None:  # never downwards, wherever in the box
            reach = {column: -self.half[i] for i, slope in slopes.items() for column, _ in slope}
            program.at_least_zero({centre[0][0]: 1, **reach})
        if centre and whole:  # what is left of the centre where all differences are 0
            constant = {program.variable(free=True, whole=True): Fraction(-1)}
            moved = {column: -sign * self.middle[i] for i, slope in slopes.items() for column, sign in slope}
            program.zero({**constant, **dict(centre), **moved})
        self.centres.append(centre)
        self.slopes.append(slopes)

    def _require(self, each: Requirement) -> None:
        """In the middle of the box it must be met with as much to spare as it may lose towards the worst corner."""
        program, task = self.program, self.task
        add = program.zero if each.equal else program.at_least_zero
        terms = {column: sign * c for place, c in each.noise.items() for column, sign in self.centres[place]}
        for i in task.mixed:
            change = {
                column: sign * c * self.half[i]
                for place, c in each.noise.items()
                for column, sign in self.slopes[place][i]
            }
            own = each.data.get(i, ZERO) * self.half[i]
            if each.equal:
                program.zero(change, own)
            elif change or own:
                loss = program.variable()
                program.at_least_zero({loss: 1, **change}, own)
                program.at_least_zero({loss: 1, **{column: -value for column, value in change.items()}}, -own)
                terms[loss] = Fraction(-1)
        add(terms, each.at(moved_to(task.base, task.mixed, [self.middle[i] for i in task.mixed])))

    def rule(self, answer: Answer) -> Rule | None:
        if isinstance(answer, Infeasible):
            return None

        def value(signed: Signed) -> Fraction:
            return sum((sign * answer.values[column] for column, sign in signed), start=ZERO)

        slopes = [{i: slope for i, signed in each.items() if (slope := value(signed))} for each in self.slopes]
        constants = [
            value(centre) - sum((slope * self.middle[i] for i, slope in each.items()), start=ZERO)
            for centre, each in zip(self.centres, slopes, strict=True)
        ]
        return Rule(tuple(constants), tuple(slopes))


def bounds_of(constant: Fraction, slopes: Mapping[int, Fraction], box: Box) -> tuple[Fraction, Fraction]:
    """The least and the largest value of an affine expression in the box."""
    ends = [(slope * box.low[i], slope * box.high[i]) for i, slope in slopes.items()]
    return constant + sum(min(e) for e in ends), constant + sum(max(e) for e in ends)


@dataclass(frozen=True)
class Dearest:
    """What a rule costs at most, or a bound above it, and a corner where it costs much."""

    corner: Corner
    cost: Fraction


def dearest(task: ShiftProblem, rule: Rule) -> Dearest:
    """The most that the rule costs in the box: exactly, where no more than MAX_CORNER_ENTRIES entries hang together.

    Noises that depend on no common entry are dearest independently; their corners are gone through apart.
    """
    box = task.box
    corner, total = task.base, Fraction(0)
    for group in linked_noises(rule):
        prices = [task.prices[place] for place in group.places]

        def price(
            values: Sequence[Fraction], group: LinkedNoises = group, prices: Sequence[Price] = prices
        ) -> Fraction:
            moves = rule.at(moved_to(task.base, group.entries, values))
            return cost_of(prices, [moves[place] for place in group.places])

        if len(group.entries) > MAX_CORNER_ENTRIES:
            for place in group.places:
                ends = bounds_of(rule.constants[place], rule.slopes[place], box)
                total += max(task.prices[place].of(end) for end in ends)
            continue
        best = max(itertools.product(*((box.low[i], box.high[i]) for i in group.entries)), key=price)
        corner, total = moved_to(corner, group.entries, best), total + price(best)
    reached = [bounds_of(constant, slopes, box) for constant, slopes in zip(rule.constants, rule.slopes, strict=True)]
    flat = task.cost_up_to(reached)
    return Dearest(corner, min(total, flat) if task.convex else flat)


@dataclass(frozen=True)
class LinkedNoises:
    """Noises whose shifts depend on these entries, and no other's does."""

    places: tuple[int, ...]
    entries: tuple[int, ...]


def linked_noises(rule: Rule) -> Iterator[LinkedNoises]:
    """The noises that a rule moves, in groups that depend on no common entry."""
    for places in components(rule.slopes):
        yield LinkedNoises(tuple(places), tuple(sorted({entry for place in places for entry in rule.slopes[place]})))
