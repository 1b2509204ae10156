"""Whether the events of a certificate are one mechanism: every run is in one of them, and in no two.

Part of the checker. Each row of noise is a variable of its own, independent of the others; a run reads those that it
draws. Boundaries where continuous noise decides have probability 0 whatever the data are, and are left out of
account; conditions on data alone, or on whole noise alone, are taken to the letter.

Events that come from a program mostly form a decision tree. So they are split first: where every event has a condition
on the same hyperplane, those on either side can be checked separately. What is left when no hyperplane is common to all
is decided by their facets, or cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from veridp_check.document import CertificateFlaw, LinearCondition, LinearForm, text_of
from veridp_check.linear import Ask, LinearExpression, LinearRelation, Point, Undecided, cells, number, variable
from veridp_check.noise import OPAQUE, NoiseDraw
from veridp_check.tiling import tile
from veridp_check.weights import ExponentialRatio, sum_to_one

Answer = TypeVar("Answer")
SHIFT = variable("shift of a boundary")


class EventRegion(Protocol):
    """What an event is here: where its conditions hold, with the probability of the choices that lead to it."""

    @property
    def weight(self) -> Fraction | ExponentialRatio: ...

    @property
    def conditions(self) -> tuple[LinearCondition, ...]: ...


def check_runs(
    events: Sequence[EventRegion],
    noises: Sequence[NoiseDraw] | Mapping[int, NoiseDraw],
    size: int,
    given: Sequence[LinearCondition] = (),
    place: str = "/events",
) -> int:
    """The number of pairs of events that were found disjoint; raises Flaw where events overlap or leave a gap.

    With finite random choices, events also differ in what was chosen, which their weight accounts for: the
    weights of the events that hold must then sum to 1 for all noise and data. Only data that satisfy the conditions
    `given` are considered. Noise is given by its rows.
    """
    rows = noises if isinstance(noises, Mapping) else dict(enumerate(noises))
    tree = _Tree(events, rows)
    space = _Space(events, rows, size, given, place)
    alike = all(event.weight == 1 for event in events)
    for group in tree.groups():
        if len(group.events) == 1 and alike and not group.undecided:
            continue  # one event, whose conditions are those that lead to it
        if not (alike and space.is_tiled(group)):
            space.check_weights(group)
    return len(events) * (len(events) - 1) // 2


# ------------------------------------------------------------------------------------------------- the decision tree

Plane = int  # the number of a hyperplane


@dataclass(frozen=True, eq=False)
class _Half:
    """A condition as a half-space: which side of its hyperplane, and whether the boundary is in."""

    front: bool
    boundary: str  # "in", "out", or "null": of probability 0
    condition: LinearCondition


@dataclass(frozen=True)
class _Group:
    """The events on one side of some hyperplanes, and the conditions that say on which."""

    events: tuple[int, ...]
    path: tuple[LinearCondition, ...]
    undecided: bool  # whether an event has conditions that the path does not say


class _Tree:
    """Events by the hyperplanes of their conditions."""

    def __init__(self, events: Sequence[EventRegion], noises: Mapping[int, NoiseDraw]) -> None:
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
        pending: list[tuple[tuple[int, ...], frozenset[Plane], tuple[LinearCondition, ...]]] = [
            (everything, frozenset(), ())
        ]
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

    def _halves(self, event: EventRegion) -> dict[Plane, _Half] | None:
        """The conditions by their hyperplanes; None where one is not a half-space, or two are on one hyperplane."""
        found: dict[Plane, _Half] = {}
        for condition in event.conditions:
            slack = condition.slack
            terms = list(relation_of(condition).value.terms.items())
            if condition.relation == "==" or not terms:
                return None
            lead = min(terms)[1]
            key = (frozenset((name, c / lead) for name, c in terms), slack.constant / lead)
            plane = self.planes.setdefault(key, len(self.planes))
            if plane in found:
                return None
            null = is_continuous(slack, self.noises)
            boundary = "null" if null else "in" if condition.relation == ">=" else "out"
            found[plane] = _Half(lead > 0, boundary, condition)
        return found


def is_continuous(expression: LinearForm, noises: Mapping[int, NoiseDraw]) -> bool:
    """Whether it takes no value with positive probability, whatever the data are; functions may cancel noise."""
    if expression.functions or any(noises[row].kind == OPAQUE for row in expression.noise):
        return False
    return any(not noises[row].whole for row in expression.noise)


# ------------------------------------------------------------------------------------------------------ cell by cell


class _Space:
    """All noise and data, and which events hold where."""

    def __init__(
        self,
        events: Sequence[EventRegion],
        noises: Mapping[int, NoiseDraw],
        size: int,
        given: Sequence[LinearCondition],
        place: str,
    ) -> None:
        self.events = events
        self.noises = noises
        self.size = size
        self.place = place
        self.names = [*(noise_name(row) for row in noises), *(data_name(entry) for entry in range(size))]
        self.continuous = frozenset(noise_name(row) for row, noise in noises.items() if not noise.whole)
        self.opaque = frozenset(noise_name(row) for row, noise in noises.items() if noise.kind == OPAQUE)
        self.whole = frozenset(noise_name(row) for row, noise in noises.items() if noise.whole)
        self.given = [*self._supports(), *(relation_of(condition) for condition in given)]

    def is_tiled(self, group: _Group) -> bool:
        """Whether the events of the group were shown to tile the part of space where the conditions of its path hold.

        A boundary that counts is moved by a variable that is positive, and as small as one likes: towards the side that
        it does not belong to. Then it is on its right side, whatever the point, once that variable is small enough.
        """
        conditions = [condition for e in group.events for condition in self.events[e].conditions]
        if any(relation.sign == "==" for relation in (*map(relation_of, conditions), *self.given)):
            return False
        part = [SHIFT, *(self._open(relation) for relation in self.given), *map(self._opened, group.path)]
        return tile(part, [[self._opened(condition) for condition in self.events[e].conditions] for e in group.events])

    def _opened(self, condition: LinearCondition) -> LinearExpression:
        return self._open(relation_of(condition))

    def _open(self, relation: LinearRelation) -> LinearExpression:
        """An expression that is positive where the relation holds."""
        names = relation.value.terms
        functions = any(is_function(name) or name in self.opaque for name in names)
        if any(name in self.continuous for name in names) and not functions:
            return relation.value
        return relation.value + SHIFT if relation.sign == ">=" else relation.value - SHIFT

    def check_weights(self, group: _Group) -> None:
        """The events of the group that hold have weights that sum to 1, wherever the conditions of its path hold."""
        path = [self._without_boundary(condition) for condition in group.path]
        conditions = {(c.slack.text, c.relation): c for e in group.events for c in self.events[e].conditions}
        asked = {key: (relation_of(c), not is_continuous(c.slack, self.noises)) for key, c in conditions.items()}
        needed = {e: [(c.slack.text, c.relation) for c in self.events[e].conditions] for e in group.events}

        def holding(ask: Ask) -> list[int]:
            known: dict[tuple[str, str], bool] = {}  # in a cell, the same is true wherever it is asked

            def holds(key: tuple[str, str]) -> bool:
                if key not in known:
                    known[key] = ask(*asked[key])
                return known[key]

            return [e for e, keys in needed.items() if all(map(holds, keys))]

        def right(holding: list[int]) -> bool:
            return sum_to_one([self.events[e].weight for e in holding], self.size)

        what = "the weights of the events that hold sum to 1"
        found = counterexample(self.place, what, holding, right, [*self.given, *path], self.whole)
        if found is None:
            return
        held, point = found
        run = in_words({name: point.get(name, Fraction(0)) for name in self.names})
        if not held:
            raise CertificateFlaw(self.place, f"no event covers the run with {run}")
        if all(event.weight == 1 for event in self.events):
            raise CertificateFlaw(f"{self.place}/{held[1]}", f"it overlaps event {held[0]}, for the run with {run}")
        raise CertificateFlaw(self.place, f"the weights of the events do not sum to 1 for the run with {run}")

    def _without_boundary(self, condition: LinearCondition) -> LinearRelation:
        """The condition without its boundary, where that has no probability."""
        relation = relation_of(condition)
        return LinearRelation(relation.value, ">") if is_continuous(condition.slack, self.noises) else relation

    def _supports(self) -> Iterator[LinearRelation]:
        return supports_of(self.noises)


def supports_of(noises: Mapping[int, NoiseDraw]) -> Iterator[LinearRelation]:
    """Where the noise lies."""
    for row, noise in noises.items():
        least, largest = noise.support
        if least is not None:
            yield LinearRelation(variable(noise_name(row)) - number(least), ">=")
        if largest is not None:
            yield LinearRelation(number(largest) - variable(noise_name(row)), ">=")


def noise_name(row: int) -> str:
    return f"noise {row}"


def data_name(entry: int) -> str:
    return f"data[{entry}]"


FUNCTION = "function "  # begins the name of a function's value, which may be any number here


def is_function(name: str) -> bool:
    return name.startswith(FUNCTION)


def relation_of(condition: LinearCondition, data: Callable[[int], str] = data_name) -> LinearRelation:
    """The condition, with names for its noise and data."""
    slack = condition.slack
    terms = {noise_name(row): c for row, c in slack.noise.items() if c}
    terms |= {data(entry): c for entry, c in slack.data.items() if c}
    for function, c in slack.functions.items():  # equal functions of equal expressions are one variable
        terms[FUNCTION + function.text] = terms.get(FUNCTION + function.text, Fraction(0)) + c
    return LinearRelation(LinearExpression(terms, slack.constant), condition.relation)


def counterexample(
    place: str,
    statement: str,
    question: Callable[[Ask], Answer],
    right: Callable[[Answer], bool],
    given: Sequence[LinearRelation] = (),
    whole: frozenset[str] = frozenset(),
) -> tuple[Answer, Point] | None:
    """A point where the given relations hold and the question's answer is not right, with the answer; None if none is.

    Raises Flaw, with the statement, where it takes too long to decide.
    """
    with deciding(place, statement):
        for cell in cells(question, given, whole):
            if not right(cell.answer) and (point := cell.system.point()) is not None:
                return cell.answer, point
    return None


@contextmanager
def deciding(place: str, statement: str) -> Iterator[None]:
    """Make it a Flaw that something could not be decided."""
    try:
        yield
    except Undecided as error:
        raise CertificateFlaw(place, f"whether {statement} could not be decided: {error}") from None


def in_words(point: Point) -> str:
    return ", ".join(f"{name} = {text_of(value)}" for name, value in point.items())
