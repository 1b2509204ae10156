"""Shifts that events have in common: one that all of them have, or one beside which each has a little of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from veridp.adjacency import Hull, Polytope
from veridp.engines.prove.alignment.proof import Alignment, CornerShifts
from veridp.engines.prove.alignment.shifts import Rule, Shift, ShiftProblem, Signed, requirements_of, signed_variables
from veridp.engines.prove.events import NoiseEvent
from veridp.kernel.symbols import Noise
from veridp.numerics.linear import Infeasible, LinearProgram, solve_whole
from veridp.numerics.rational import least_squares

MAX_SHARED_MOVES = 1_000  # of all noise of all events: past this, no shift is sought that they share


def common_alignments(events: Sequence[NoiseEvent], polytopes: Sequence[Polytope]) -> list[list[Alignment]] | None:
    """One shift that keeps every condition and every number of all events as they are; None where there is none.

    Of all shifts that do, it is the one of the least Σ move²/width², linear in the difference: least squares.
    """
    noises = {noise: None for event in events for noise in event.noises if moves_freely(noise)}
    place = {noise: k for k, noise in enumerate(noises)}
    size = polytopes[0].size
    wanted: dict[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], None] = {}
    for event in events:
        for each in requirements_of(event):
            left, right = [Fraction(0)] * len(noises), [Fraction(0)] * size
            for k, coefficient in each.noise.items():
                if event.noises[k] in place:
                    left[place[event.noises[k]]] = Fraction(coefficient)
            for entry, coefficient in each.data.items():
                right[entry] = -Fraction(coefficient)
            if any(left) or any(right):
                wanted[tuple(left), tuple(right)] = None
    weights = [Fraction(noise.distribution.width) ** 2 for noise in noises]
    solved = least_squares([row[0] for row in wanted], [row[1] for row in wanted], weights)
    if solved is None:
        return None
    slopes = {
        noise: {i: slope for i, slope in enumerate(row) if slope} for noise, row in zip(noises, solved, strict=True)
    }
    if any(noise.distribution.integer and any(s.denominator > 1 for s in slopes[noise].values()) for noise in noises):
        return None
    return [[_linear(event.noises, slopes, polytope) for polytope in polytopes] for event in events]


def shared_alignments(events: Sequence[NoiseEvent], polytopes: Sequence[Polytope]) -> list[list[Alignment]] | None:
    """Shifts of which as much as possible is common to all events, where one difference is the worst of each polytope.

    What is common counts once in the largest of their losses, so what is minimised is its price and the largest price
    of what events have beside it. None where there are several differences to go through, or no such shifts.
    """
    columns = []
    for polytope in polytopes:
        tasks = [ShiftProblem(event.noises, requirements_of(event), polytope, with_delta=True) for event in events]
        size = sum(len(task.noises) for task in tasks)
        if size > MAX_SHARED_MOVES or any(task.mixed or task.whole or isinstance(polytope, Hull) for task in tasks):
            return None
        found = _shared_shifts(tasks)
        if found is None:
            return None
        columns.append(found)
    return [list(row) for row in zip(*columns, strict=True)]


def _shared_shifts(tasks: Sequence[ShiftProblem]) -> list[Alignment] | None:
    program = LinearProgram()
    prices = {noise: price for task in tasks for noise, price in zip(task.noises, task.prices, strict=True)}
    common = {noise: signed_variables(program, price) for noise, price in prices.items()}
    dearest = program.variable(Fraction(1))
    own: list[list[Signed]] = []
    for task in tasks:
        own.append([signed_variables(program, price, priced=False) for price in task.prices])
        paid: dict[int, Fraction] = {dearest: Fraction(1)}
        for signed, price in zip(own[-1], task.prices, strict=True):
            paid |= {column: -Fraction((price.up if sign > 0 else price.down) or 0) for column, sign in signed}
        program.at_least_zero(paid)
        for each in task.requirements:
            terms = {
                column: sign * c
                for place, c in each.noise.items()
                for column, sign in (*common[task.noises[place]], *own[-1][place])
            }
            (program.zero if each.equal else program.at_least_zero)(terms, each.at(task.base))
    (answer,) = solve_whole([program])
    if isinstance(answer, Infeasible):
        return None

    def value(signed: Signed) -> Fraction:
        return sum((sign * answer.values[column] for column, sign in signed), start=Fraction(0))

    found = []
    for task, private in zip(tasks, own, strict=True):
        moves = [value(common[noise]) + value(signed) for noise, signed in zip(task.noises, private, strict=True)]
        shift = task.shift(moves)
        found.append(Alignment(CornerShifts((), (shift,)), task.base, shift, shift.cost))
    return found


def moves_freely(noise: Noise) -> bool:
    price = noise.distribution.price_with_delta
    return price.up is not None and price.down is not None


def _linear(noises: Sequence[Noise], slopes: Mapping[Noise, Mapping[int, Fraction]], polytope: Polytope) -> Alignment:
    rule = Rule((Fraction(0),) * len(noises), tuple(slopes.get(noise, {}) for noise in noises))
    if isinstance(polytope, Hull):
        shifts = tuple(Shift(rule.at(corner), Fraction(0)) for corner in polytope.listed)
        worst = max(range(len(shifts)), key=lambda k: sum(map(abs, shifts[k].moves or ())))
        return Alignment(
            CornerShifts(tuple(range(polytope.size)), shifts), polytope.listed[worst], shifts[worst], Fraction(0)
        )
    still = {i for i, ends in enumerate(zip(polytope.low, polytope.high, strict=True)) if not any(ends)}
    rule = Rule(rule.constants, tuple({i: s for i, s in row.items() if i not in still} for row in rule.slopes))
    return Alignment(rule, polytope.high, Shift(rule.at(polytope.high), Fraction(0)), Fraction(0))
