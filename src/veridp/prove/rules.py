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

import numpy as np
from numpy.typing import NDArray

from veridp.program.symbols import Noise
from veridp.prove.linear import Blocks
from veridp.prove.neighbours import Box, Corner
from veridp.prove.prices import cost_of, price_of
from veridp.prove.shifts import DENOMINATORS, Requirement, Task, moved_to

MANY = 8  # entries: past this, corners are not gone through


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


class RuleProgram:
    """For each task, a linear program for an affine rule: constants, and slopes in the mixed entries."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self.found: list[tuple[Task, list[tuple[int, int]], dict[tuple[int, int], tuple[int, int]]]] = []

    def add(self, task: Task) -> None:
        """The shift of a noise is its value amid the box, plus slope · (difference - middle) for each mixed entry."""
        box = task.box
        half = {i: float(box.high[i] - box.low[i]) / 2 for i in task.mixed}
        middle = {i: float(box.high[i] + box.low[i]) / 2 for i in task.mixed}
        self.blocks.start(task.unit)
        centres, slopes = [], {}
        for place, noise in enumerate(task.noises):
            price = price_of(noise.distribution)
            whole = noise.distribution.integer
            up, down = price.up is not None, price.down is not None
            centre = (
                self.blocks.variable(float(price.up or 0), allowed=up, whole=whole),
                self.blocks.variable(float(price.down or 0), allowed=down, whole=whole),
            )
            centres.append(centre)
            for i in task.mixed:
                dear = float(max(price.up or 0, price.down or 0)) * half[i]
                slopes[place, i] = (
                    self.blocks.variable(dear, allowed=up, whole=whole),
                    self.blocks.variable(dear, allowed=up, whole=whole),
                )
            if up and not down:  # never downwards, wherever in the box
                reach = {column: -half[i] for i in task.mixed for column in slopes[place, i]}
                self.blocks.at_least_zero({centre[0]: 1.0, **reach}, 0.0)
        for each in task.requirements:
            self._require(each, task, centres, slopes, half, middle)
        self.found.append((task, centres, slopes))

    def _require(
        self,
        each: Requirement,
        task: Task,
        centres: Sequence[tuple[int, int]],
        slopes: Mapping[tuple[int, int], tuple[int, int]],
        half: Mapping[int, float],
        middle: Mapping[int, float],
    ) -> None:
        """In the middle of the box it must be met with as much to spare as it may lose towards the worst corner."""
        terms = {column: sign * float(c) for place, c in each.noise.items() for column, sign in _signed(centres[place])}
        constant = float(each.constant) + sum(
            float(c) * middle.get(entry, float(task.base[entry])) for entry, c in each.data.items()
        )
        for i in task.mixed:
            change = {
                column: sign * float(c) * half[i]
                for place, c in each.noise.items()
                for column, sign in _signed(slopes[place, i])
            }
            own = float(each.data.get(i, 0)) * half[i]
            if each.equal:
                self.blocks.zero(change, own)
            elif change or own:
                loss = self.blocks.variable(0.0)
                self.blocks.at_least_zero({loss: 1.0, **change}, own)
                self.blocks.at_least_zero({loss: 1.0, **{column: -v for column, v in change.items()}}, -own)
                terms[loss] = -1.0
        (self.blocks.zero if each.equal else self.blocks.at_least_zero)(terms, constant)

    def rules(self) -> list[Rule | None]:
        """The rules found, in the order in which they were asked for; None where there is none."""
        if not self.found:
            return []
        solution = self.blocks.solve()
        return [_rounded_rule(task, centres, slopes, solution) for task, centres, slopes in self.found]


def _signed(columns: tuple[int, int]) -> tuple[tuple[int, float], tuple[int, float]]:
    return (columns[0], 1.0), (columns[1], -1.0)


def _rounded_rule(
    task: Task,
    centres: Sequence[tuple[int, int]],
    slopes: Mapping[tuple[int, int], tuple[int, int]],
    solution: NDArray[np.float64],
) -> Rule | None:
    box = task.box
    for denominator in DENOMINATORS:

        def rational(columns: tuple[int, int], denominator: int = denominator) -> Fraction:
            return Fraction(float(solution[columns[0]] - solution[columns[1]])).limit_denominator(denominator)

        steep = [
            {i: slope for i in task.mixed if (slope := rational(slopes[place, i]))} for place in range(len(centres))
        ]
        middle = [rational(columns) for columns in centres]
        constants = [
            value - sum((s * (box.low[i] + box.high[i]) / 2 for i, s in slope.items()), start=Fraction(0))
            for value, slope in zip(middle, steep, strict=True)
        ]
        rule = Rule(tuple(constants), tuple(steep))
        if keeps(task, rule):
            return rule
    return None


def keeps(task: Task, rule: Rule) -> bool:
    """Whether the rule meets every requirement for every difference of the box, by moves that the noise allows."""
    box = task.box
    for noise, constant, slopes in zip(task.noises, rule.constants, rule.slopes, strict=True):
        least, most = bounds_of(constant, slopes, box)
        price = price_of(noise.distribution)
        if not (price.allows(least) and price.allows(most)):
            return False
        if noise.distribution.integer and any(x.denominator != 1 for x in (constant, *slopes.values())):
            return False
    for each in task.requirements:
        total = dict(each.data)
        constant = each.constant
        for place, coefficient in each.noise.items():
            constant += coefficient * rule.constants[place]
            for i, slope in rule.slopes[place].items():
                total[i] = total.get(i, Fraction(0)) + coefficient * slope
        least, most = bounds_of(constant, total, box)
        if least < 0 or (each.equal and most > 0):
            return False
    return True


def bounds_of(constant: Fraction, slopes: Mapping[int, Fraction], box: Box) -> tuple[Fraction, Fraction]:
    """The least and the largest value of an affine expression in the box."""
    ends = [(slope * box.low[i], slope * box.high[i]) for i, slope in slopes.items()]
    return constant + sum(min(e) for e in ends), constant + sum(max(e) for e in ends)


@dataclass(frozen=True)
class Dearest:
    """What a rule costs at most, or a bound above it, and a corner where it costs much."""

    corner: Corner
    cost: Fraction


def dearest(task: Task, rule: Rule) -> Dearest:
    """The most that the rule costs in the box: exactly, where no more than MANY entries hang together.

    Noises that depend on no common entry are dearest independently; their corners are gone through apart.
    """
    box = task.box
    corner, total = task.base, Fraction(0)
    for group in _linked(rule):
        noises = [task.noises[place] for place in group.places]

        def price(values: Sequence[Fraction], group: _Group = group, noises: Sequence[Noise] = noises) -> Fraction:
            moves = rule.at(moved_to(task.base, group.entries, values))
            return cost_of(noises, [moves[place] for place in group.places])

        if len(group.entries) > MANY:
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
    groups: list[tuple[set[int], set[int]]] = []
    for place, slopes in enumerate(rule.slopes):
        places, entries = {place}, set(slopes)
        for other in [group for group in groups if not group[1].isdisjoint(entries)]:
            places |= other[0]
            entries |= other[1]
            groups.remove(other)
        groups.append((places, entries))
    for places, entries in groups:
        yield _Group(tuple(sorted(places)), tuple(sorted(entries)))
