"""Whether the events of a certificate are one mechanism: every run is in one of them, and in no two.

Part of the checker. Each row of noise is a variable of its own, independent of the others; a run reads those that it
draws. Boundaries where continuous noise decides have probability 0 whatever the data are, and are left out of
account; conditions on data alone, or on whole noise alone, are taken to the letter.

Events that come from a program mostly form a decision tree. So they are split first: where every event has a condition
on the same hyperplane, those on either side can be looked at apart. What is left when no hyperplane is common to all
is put to z3.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import z3

from veridp.prove.document import Condition, Flaw, Linear
from veridp.prove.noise_rules import Noise

SECONDS = 120  # for one question


class Region(Protocol):
    """What an event is here: where its conditions hold, with the probability of the choices that lead to it."""

    @property
    def weight(self) -> Fraction: ...

    @property
    def conditions(self) -> tuple[Condition, ...]: ...


def check_runs(
    events: Sequence[Region],
    noises: Sequence[Noise] | Mapping[int, Noise],
    size: int,
    given: Sequence[Condition] = (),
    place: str = "/events",
) -> int:
    """The number of pairs of events that were found disjoint; raises Flaw where events overlap or leave a gap.

    With finite random choices, events are told apart by what was chosen as well, which their weight accounts for: the
    weights of the events that hold must then sum to 1 for all noise and data. Only data that satisfy the conditions
    given are looked at. Noise is given by its rows.
    """
    rows = noises if isinstance(noises, Mapping) else dict(enumerate(noises))
    tree = _Tree(events, rows)
    space = _Space(events, rows, size, given, place)
    alike = all(event.weight == 1 for event in events)
    for group in tree.groups():
        if len(group.events) == 1 and alike and not group.undecided:
            continue  # one event, whose conditions are those that lead to it
        if alike:
            space.check_covered(group)
            space.check_disjoint(group, tree.halves)
        else:
            space.check_weights(group)
    return len(events) * (len(events) - 1) // 2


# ------------------------------------------------------------------------------------------------- the decision tree

Plane = int  # the number of a hyperplane


@dataclass(frozen=True, eq=False)
class _Half:
    """A condition as a half-space: which side of its hyperplane, and whether the boundary is in."""

    front: bool
    boundary: str  # "in", "out", or "null": of probability 0
    condition: Condition


@dataclass(frozen=True)
class _Group:
    """The events on one side of some hyperplanes, and the conditions that say on which."""

    events: tuple[int, ...]
    path: tuple[Condition, ...]
    undecided: bool  # whether an event has conditions that the path does not say


class _Tree:
    """Events by the hyperplanes of their conditions."""

    def __init__(self, events: Sequence[Region], noises: Mapping[int, Noise]) -> None:
        self.noises = noises
        self.planes: dict[object, Plane] = {}
        self.halves = [self._halves(event) for event in events]

    def groups(self) -> Iterator[_Group]:
        """Groups of events such that no two events of different groups overlap, and the paths of the groups cover all.

        A group is split by a hyperplane on which each of its events has one condition, if both sides have events, those
        of a side agree on the boundary, and this is of exactly one of the sides (or has probability 0).
        """
        everything = tuple(range(len(self.halves)))
        if any(halves is None for halves in self.halves):
            yield _Group(everything, (), True)
            return
        pending: list[tuple[tuple[int, ...], frozenset[Plane], tuple[Condition, ...]]] = [(everything, frozenset(), ())]
        while pending:
            members, used, path = pending.pop()
            mine = [self.halves[e] or {} for e in members]
            common = frozenset.intersection(*(frozenset(halves) for halves in mine)) - used
            for plane in sorted(common):
                sides = {(halves[plane].front, halves[plane].boundary): halves[plane] for halves in mine}
                fronts, boundaries = ({key[part] for key in sides} for part in (0, 1))
                if len(sides) == len(fronts) == 2 and boundaries in ({"null"}, {"in", "out"}):
                    for half in sides.values():
                        there = [
                            e for e, halves in zip(members, mine, strict=True) if halves[plane].front == half.front
                        ]
                        pending.append((tuple(there), used | {plane}, (*path, half.condition)))
                    break
            else:
                yield _Group(members, path, any(plane not in used for halves in mine for plane in halves))

    def _halves(self, event: Region) -> dict[Plane, _Half] | None:
        """The conditions by their hyperplanes; None where one is no half-space, or two are on one hyperplane."""
        found: dict[Plane, _Half] = {}
        for condition in event.conditions:
            slack = condition.slack
            terms = [("noise", row, c) for row, c in sorted(slack.noise.items())]
            terms += [("data", entry, c) for entry, c in sorted(slack.data.items())]
            if condition.relation == "==" or not terms:
                return None
            lead = terms[0][2]
            key = (tuple((what, index, c / lead) for what, index, c in terms), slack.constant / lead)
            plane = self.planes.setdefault(key, len(self.planes))
            if plane in found:
                return None
            null = is_continuous(slack, self.noises)
            boundary = "null" if null else "in" if condition.relation == ">=" else "out"
            found[plane] = _Half(lead > 0, boundary, condition)
        return found


def is_continuous(expression: Linear, noises: Mapping[int, Noise]) -> bool:
    """Whether it takes no value with positive probability, whatever the data are."""
    return any(not noises[row].whole for row in expression.noise)


def _apart(first: Mapping[Plane, _Half], second: Mapping[Plane, _Half]) -> bool:
    """Whether a half-space of one event is the opposite of one of the other, with no boundary in both."""
    shared = ((half, second[plane]) for plane, half in first.items() if plane in second)
    return any(a.front != b.front and (a.boundary, b.boundary) != ("in", "in") for a, b in shared)


# ------------------------------------------------------------------------------------------------------ in z3's words


class _Space:
    def __init__(
        self, events: Sequence[Region], noises: Mapping[int, Noise], size: int, given: Sequence[Condition], place: str
    ) -> None:
        self.events = events
        self.noises = noises
        self.place = place
        self.noise = {
            row: z3.ToReal(z3.Int(f"noise {row}")) if noise.whole else z3.Real(f"noise {row}")
            for row, noise in noises.items()
        }
        self.data = [z3.Real(f"data[{entry}]") for entry in range(size)]
        self.given = [self._exact(condition) for condition in given]

    # ---------------------------------------------------------------------------------------- what is asked

    def check_covered(self, group: _Group) -> None:
        events = [self.events[e] for e in group.events]
        outside = [z3.Or([z3.Not(self._closed(condition)) for condition in event.conditions]) for event in events]
        point = self._solution(self.place, "they cover all runs", [*self._within(group), *outside])
        if point is not None:
            raise Flaw(self.place, f"no event covers the run with {point}")

    def check_disjoint(self, group: _Group, halves: Sequence[Mapping[Plane, _Half] | None]) -> None:
        opens = {e: [self._open(condition) for condition in self.events[e].conditions] for e in group.events}
        within = self._within(group)
        for first, second in itertools.combinations(group.events, 2):
            if _apart(halves[first] or {}, halves[second] or {}):
                continue
            what = f"it is disjoint from event {first}"
            point = self._solution(f"{self.place}/{second}", what, [*within, *opens[first], *opens[second]])
            if point is not None:
                raise Flaw(f"{self.place}/{second}", f"it overlaps event {first}, for the run with {point}")

    def check_weights(self, group: _Group) -> None:
        events = [self.events[e] for e in group.events]
        conditions = [condition for event in events for condition in event.conditions]
        off_boundaries = [self._value(c.slack) != 0 for c in conditions if self._continuous(c.slack)]
        inside = [z3.And([self._exact(condition) for condition in event.conditions]) for event in events]
        total = z3.Sum([z3.If(here, rational(e.weight), 0) for here, e in zip(inside, events, strict=True)])
        claims = [*self._within(group), *off_boundaries, total != 1]
        point = self._solution(self.place, "their weights sum to 1", claims)
        if point is not None:
            raise Flaw(self.place, f"the weights of the events do not sum to 1 for the run with {point}")

    def _within(self, group: _Group) -> list[Any]:
        return [*self._supports(), *(self._open(condition) for condition in group.path)]

    def _value(self, expression: Linear) -> Any:
        terms = [rational(c) * self.noise[row] for row, c in expression.noise.items()]
        terms += [rational(c) * self.data[entry] for entry, c in expression.data.items()]
        return z3.Sum([rational(expression.constant), *terms])

    def _continuous(self, expression: Linear) -> bool:
        return is_continuous(expression, self.noises)

    def _exact(self, condition: Condition) -> Any:
        return RELATION[condition.relation](self._value(condition.slack))

    def _closed(self, condition: Condition) -> Any:
        """The condition with its boundary, where that has no probability."""
        if condition.relation == ">" and self._continuous(condition.slack):
            return self._value(condition.slack) >= 0
        return self._exact(condition)

    def _open(self, condition: Condition) -> Any:
        """The condition without its boundary, where that has no probability."""
        if condition.relation == ">=" and self._continuous(condition.slack):
            return self._value(condition.slack) > 0
        return self._exact(condition)

    def _supports(self) -> Iterator[Any]:
        for row, variable in self.noise.items():
            least, largest = self.noises[row].support
            if least is not None:
                yield variable >= rational(least)
            if largest is not None:
                yield variable <= rational(largest)

    def _solution(self, place: str, hoped: str, claims: Sequence[Any]) -> str | None:
        """A point where all claims hold, in words; None where there is none."""
        named = {f"noise {row}": variable for row, variable in self.noise.items()}
        named |= {f"data[{entry}]": variable for entry, variable in enumerate(self.data)}
        return solution(place, hoped, [*self.given, *claims], named)


def solution(place: str, hoped: str, claims: Sequence[Any], named: Mapping[str, Any] | None = None) -> str | None:
    """A point where all claims hold, told by the variables named, or all there are; None where there is none.

    Raises Flaw, with what was hoped for, where z3 cannot tell.
    """
    solver = z3.Solver()
    solver.set("timeout", SECONDS * 1000)
    solver.add(*claims)
    answer = solver.check()
    if answer == z3.unsat:
        return None
    if answer == z3.unknown:
        raise Flaw(place, f"z3 could not tell within {SECONDS} s whether {hoped}")
    model = solver.model()
    if named is None:
        named = {name: variable() for name, variable in sorted((str(v), v) for v in model.decls())}
    values = {name: model.eval(v, model_completion=True).as_fraction() for name, v in named.items()}
    return ", ".join(f"{name} = {value}" for name, value in values.items())


RELATION: dict[str, Callable[[Any], Any]] = {
    ">=": lambda value: value >= 0,
    ">": lambda value: value > 0,
    "==": lambda value: value == 0,
}


def rational(value: Fraction) -> Any:
    return z3.Q(value.numerator, value.denominator)
