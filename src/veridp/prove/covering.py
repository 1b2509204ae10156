"""Whether the events of a certificate are one mechanism: every run is in one of them, and in no two.

Part of the checker. Each row of noise is a variable of its own, independent of the others; a run reads those that it
draws. Boundaries where continuous noise decides have probability 0 whatever the data are, and are left out of
account; conditions on data alone, or on whole noise alone, are taken to the letter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    space = _Space(events, rows, size, given, place)
    if all(event.weight == 1 for event in events):
        space.check_covered()
        return space.check_disjoint()
    space.check_weights()
    return 0


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

    def check_covered(self) -> None:
        events = self.events
        outside = [z3.Or([z3.Not(self._closed(condition)) for condition in event.conditions]) for event in events]
        point = self._solution(self.place, "they cover all runs", [*self._supports(), *outside])
        if point is not None:
            raise Flaw(self.place, f"no event covers the run with {point}")

    def check_disjoint(self) -> int:
        events = self.events
        sides = [self._sides(event) for event in events]
        opens = [[self._open(condition) for condition in event.conditions] for event in events]
        supports = list(self._supports())
        pairs = list(itertools.combinations(range(len(events)), 2))
        for first, second in pairs:
            if _apart(sides[first], sides[second]):
                continue
            what = f"it is disjoint from event {first}"
            point = self._solution(f"{self.place}/{second}", what, [*supports, *opens[first], *opens[second]])
            if point is not None:
                raise Flaw(f"{self.place}/{second}", f"it overlaps event {first}, for the run with {point}")
        return len(pairs)

    def check_weights(self) -> None:
        events = self.events
        conditions = [condition for event in events for condition in event.conditions]
        off_boundaries = [self._value(c.slack) != 0 for c in conditions if self._continuous(c.slack)]
        inside = [z3.And([self._exact(condition) for condition in event.conditions]) for event in events]
        total = z3.Sum([z3.If(here, rational(e.weight), 0) for here, e in zip(inside, events, strict=True)])
        claims = [*self._supports(), *off_boundaries, total != 1]
        point = self._solution(self.place, "their weights sum to 1", claims)
        if point is not None:
            raise Flaw(self.place, f"the weights of the events do not sum to 1 for the run with {point}")

    # --------------------------------------------------------------------------- pairs that need no solver

    def _sides(self, event: Region) -> dict[Side, bool]:
        """The half-spaces of the event, each with whether its boundary is out or of no account."""
        found = {}
        for condition in event.conditions:
            side = _side(condition.slack)
            if condition.relation != "==" and side is not None:
                found[side] = condition.relation == ">" or self._continuous(condition.slack)
        return found

    # ---------------------------------------------------------------------------------- in words of z3

    def _value(self, expression: Linear) -> Any:
        terms = [rational(c) * self.noise[row] for row, c in expression.noise.items()]
        terms += [rational(c) * self.data[entry] for entry, c in expression.data.items()]
        return z3.Sum([rational(expression.constant), *terms])

    def _continuous(self, expression: Linear) -> bool:
        """Whether it takes no value with positive probability, whatever the data are."""
        return any(c and not self.noises[row].whole for row, c in expression.noise.items())

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

Side = tuple[tuple[tuple[str, int, Fraction], ...], Fraction]


def rational(value: Fraction) -> Any:
    return z3.Q(value.numerator, value.denominator)


def _side(slack: Linear) -> Side | None:
    """The half-space slack >= 0 but for a positive factor; None where the slack is constant."""
    terms = [("noise", row, c) for row, c in sorted(slack.noise.items()) if c]
    terms += [("data", entry, c) for entry, c in sorted(slack.data.items()) if c]
    if not terms:
        return None
    size = abs(terms[0][2])
    return tuple((what, index, c / size) for what, index, c in terms), slack.constant / size


def _apart(first: dict[Side, bool], second: dict[Side, bool]) -> bool:
    """Whether a half-space of one event is, but for its boundary, the opposite of one of the other."""
    return any(strict or second[_turned(side)] for side, strict in first.items() if _turned(side) in second)


def _turned(side: Side) -> Side:
    terms, constant = side
    return tuple((what, index, -c) for what, index, c in terms), -constant
