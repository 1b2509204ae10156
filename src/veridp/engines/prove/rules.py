"""One shift for every difference of a box: an affine rule, found by one linear program in place of 2^size.

Δ = constant + Σ slope · difference for each noise. A requirement is affine in the difference then, and least at a
corner that shows by its signs. So all of it is one linear program: what a requirement has in the middle of the box must
be at least what it loses from there to its worst corner.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import Box, Corner
from veridp.engines.prove.shifts import Requirement, ShiftProblem, Signed, cost_of, moved_to, signed_variables
from veridp.kernel.symbols import Noise
from veridp.numerics.components import components
from veridp.numerics.integer_program import solve_whole
from veridp.numerics.linear import Answer, Infeasible, LinearProgram
from veridp.numerics.simplex import ZERO

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
        for noise in task.noises:
            self._add_noise(noise)
        for each in task.requirements:
            self._require(each)

    def _add_noise(self, noise: Noise) -> None:
        program, price = self.program, noise.distribution.price
        dear = max(price.up or ZERO, price.down or ZERO)
        whole = noise.distribution.integer
        centre = signed_variables(program, noise, whole=False)
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
    for group in _linked(rule):
        noises = [task.noises[place] for place in group.places]

        def price(values: Sequence[Fraction], group: _Group = group, noises: Sequence[Noise] = noises) -> Fraction:
            moves = rule.at(moved_to(task.base, group.entries, values))
            return cost_of(noises, [moves[place] for place in group.places])

        if len(group.entries) > MAX_CORNER_ENTRIES:
            for place, noise in zip(group.places, noises, strict=True):
                ends = bounds_of(rule.constants[place], rule.slopes[place], box)
                total += max(cost_of([noise], [end]) for end in ends)
            continue
        best = max(itertools.product(*((box.low[i], box.high[i]) for i in group.entries)), key=price)
        corner, total = moved_to(corner, group.entries, best), total + price(best)
    return Dearest(corner, total)


@dataclass(frozen=True)
class _Group:
    """Noises whose shifts depend on these entries, and no other's does."""

    places: tuple[int, ...]
    entries: tuple[int, ...]


def _linked(rule: Rule) -> Iterator[_Group]:
    for places in components(rule.slopes):
        yield _Group(tuple(places), tuple(sorted({entry for place in places for entry in rule.slopes[place]})))
