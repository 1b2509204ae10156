"""Regions of open data: where data alone decide which way a mechanism goes.

Each condition on data alone has a hyperplane, whose sides the mechanism tells apart. A region is a choice of a side of
every such hyperplane; on the data of one region all these conditions are decided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import Box, Polytope
from veridp.engines.prove.cases import DataCase, OutputPart
from veridp.engines.prove.events import entry_of, events_of
from veridp.errors import NotExplorable
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.path import Fork, Option, Path, Step
from veridp.kernel.symbols import Noise, Relation, Unknown, drawn_in
from veridp.numerics.inequalities import LinearInequality, are_possible, cover
from veridp.numerics.rational import Rational

MAX_REGIONS = 64  # regions
MANY_SIDES = 4096  # choices of a side of every hyperplane

Side = str  # of a hyperplane: ">", "<" or "=="


def region_cases(paths: Sequence[Path], bounds: Sequence[Condition] = ()) -> list[DataCase]:
    """The regions that the paths tell apart, each with its events; one without conditions where data decide nothing.

    Data satisfy the bounds.
    """
    return [
        DataCase(None, conditions, (OutputPart(None, tuple(events_of([_on_noise(path) for path in here]))),))
        for conditions, here in regions_of(paths, bounds)
    ]


def regions_of(
    paths: Sequence[Path], bounds: Sequence[Condition] = ()
) -> list[tuple[tuple[Condition, ...], list[Path]]]:
    """The regions that the paths tell apart, by their conditions, and the paths that are possible in each."""
    found = _ways(paths, bounds)
    if found is not None:
        return found
    planes = _planes(paths)
    if math.prod(len(plane.choices) for plane in planes) > MANY_SIDES:
        raise NotExplorable(_too_many(MANY_SIDES))
    found = []
    for sides in itertools.product(*(plane.choices for plane in planes)):
        conditions = tuple(plane.condition(side) for plane, side in zip(planes, sides, strict=True))
        if not is_possible([*conditions, *bounds]):
            continue
        if len(found) == MAX_REGIONS:
            raise NotExplorable(_too_many(MAX_REGIONS))
        chosen = dict(zip([plane.key for plane in planes], sides, strict=True))
        here = [path for path in paths if all(_holds(c, chosen) for c in path.conditions if is_on_data(c))]
        found.append((conditions, here))
    return found


def _ways(paths: Sequence[Path], bounds: Sequence[Condition]) -> list[tuple[tuple[Condition, ...], list[Path]]] | None:
    """What the paths ask of data, where no data fulfil what two of them ask: far fewer regions than sides make.

    None where some data do, as where noise decides before data do, and where there are too many ways.
    """
    ways: dict[object, tuple[tuple[Condition, ...], list[Path]]] = {}
    for path in paths:
        asked = tuple(condition for condition in path.conditions if is_on_data(condition))
        if any(condition.slack.functions for condition in asked):
            return None
        key = frozenset((c.relation, c.slack.constant, frozenset(c.slack.terms.items())) for c in asked)
        ways.setdefault(key, (asked, []))[1].append(path)
    found = [(asked, here) for asked, here in ways.values() if is_possible([*asked, *bounds])]
    if len(found) > MAX_REGIONS:
        return None
    apart = not any(is_possible([*one, *other, *bounds]) for (one, _), (other, _) in itertools.combinations(found, 2))
    return found if apart else None


def is_possible(conditions: Sequence[Condition]) -> bool:
    """Whether some data satisfy the conditions, which are on data alone."""
    return are_possible([_inequality(condition) for condition in conditions])


def between(low: Number, high: Number, paths: Sequence[Path]) -> list[Path]:
    """The paths that data between the ends can take, without asking what all such data answer alike.

    For these data they are the paths of the mechanism, and for all data they are those of some mechanism: where a
    question goes, all that follow the other answer to it go too.
    """
    known: dict[object, bool] = {}

    def possible(conditions: Sequence[Condition]) -> bool:
        key = frozenset((c.relation, c.slack.constant, frozenset(c.slack.terms.items())) for c in conditions)
        if key not in known:
            entries = sorted({symbol for c in conditions for symbol in c.slack.terms}, key=str)
            bounds = [Condition(Affine(-low, {entry: 1}), Relation.AT_LEAST) for entry in entries]
            bounds += [Condition(Affine(high, {entry: -1}), Relation.AT_LEAST) for entry in entries]
            known[key] = is_possible([*conditions, *bounds])
        return known[key]

    def followed(path: Path) -> Path | None:
        asked: list[Condition] = []
        steps: list[Step] = []
        for step in path.steps:
            conditions = step.option.conditions if isinstance(step, Fork) else ()
            if len(conditions) == 1 and is_on_data(conditions[0]) and not conditions[0].slack.functions:
                if not possible([*asked, conditions[0]]):
                    return None
                if not possible([*asked, conditions[0].negated()]):
                    continue
                asked.append(conditions[0])
            steps.append(step)
        return Path(tuple(steps), path.output)

    return [found for found in map(followed, paths) if found is not None]


def are_all(regions: Sequence[Sequence[Condition]]) -> bool:
    """Whether the regions, by their conditions, were shown to make up all data."""
    return cover([[_inequality(condition) for condition in conditions] for conditions in regions])


def _too_many(count: int) -> str:
    return f"the data alone decide which of more than {count} ways to go; prove a smaller size, or let noise decide"


def is_on_data(condition: Condition) -> bool:
    return not any(isinstance(symbol, Noise) for symbol in drawn_in(condition.slack.terms))


def are_neighbours(left: DataCase, right: DataCase, polytope: Polytope, bounds: Sequence[Condition] = ()) -> bool:
    """Whether data of one region can move into the other by a difference of the polytope."""
    claims = [_inequality(condition) for condition in (*left.conditions, *bounds)]
    claims += [_inequality(condition, moved=True) for condition in (*right.conditions, *bounds)]
    if isinstance(polytope, Box):
        for entry, (low, high) in enumerate(zip(polytope.low, polytope.high, strict=True)):
            claims.append(LinearInequality({("difference", entry): 1}, -low, ">="))
            claims.append(LinearInequality({("difference", entry): -1}, high, ">="))
    else:
        shares = [("share", k) for k in range(polytope.count)]
        claims += [LinearInequality({share: 1}, 0, ">=") for share in shares]
        claims.append(LinearInequality(dict.fromkeys(shares, 1), -1, "=="))
        for entry in range(polytope.size):
            mixed = {share: corner[entry] for share, corner in zip(shares, polytope.corners(), strict=True)}
            claims.append(LinearInequality({**mixed, ("difference", entry): -1}, 0, "=="))
    return are_possible(claims)


# ------------------------------------------------------------------------------------------------------ hyperplanes


@dataclass(frozen=True)
class _Plane:
    key: object
    slack: Affine
    choices: tuple[Side, ...]

    def condition(self, side: Side) -> Condition:
        match side:
            case "==":
                return Condition(self.slack, Relation.EQUAL)
            case ">" | ">=":
                return Condition(self.slack, Relation(side))
            case _:
                return Condition(-self.slack, Relation.ABOVE if side == "<" else Relation.AT_LEAST)


SIDES: dict[tuple[Relation, bool], frozenset[str]] = {  # what a condition on a plane, or on its back, allows
    (Relation.AT_LEAST, True): frozenset({">", "=="}),
    (Relation.ABOVE, True): frozenset({">"}),
    (Relation.EQUAL, True): frozenset({"=="}),
    (Relation.AT_LEAST, False): frozenset({"<", "=="}),
    (Relation.ABOVE, False): frozenset({"<"}),
    (Relation.EQUAL, False): frozenset({"=="}),
}
PARTS = {">": {">"}, ">=": {">", "=="}, "==": {"=="}, "<": {"<"}, "<=": {"<", "=="}}


def _planes(paths: Sequence[Path]) -> list[_Plane]:
    asked: dict[object, tuple[Affine, set[frozenset[str]]]] = {}
    for path in paths:
        for condition in path.conditions:
            if is_on_data(condition):
                if condition.slack.functions:
                    raise NotExplorable(f"a function of the data alone decides: {condition.text()}; let noise decide")
                key, front, slack = _plane(condition)
                asked.setdefault(key, (slack, set()))[1].add(SIDES[condition.relation, front])
    return [_Plane(key, slack, _choices(allowed)) for key, (slack, allowed) in asked.items()]


def _choices(allowed: set[frozenset[str]]) -> tuple[Side, ...]:
    """The coarsest sides that every condition is one of."""
    for coarse in (("<", ">="), ("<=", ">")):
        if allowed <= {frozenset(PARTS[side]) for side in coarse}:
            return coarse
    return "<", "==", ">"


def _plane(condition: Condition) -> tuple[object, bool, Affine]:
    """A key of the hyperplane, whether the condition looks to its front, and an expression that is positive there."""
    terms = sorted(condition.slack.terms.items(), key=lambda term: term[0])
    lead = Fraction(terms[0][1])
    front = lead > 0
    slack = condition.slack if front else -condition.slack
    key = (slack.constant / abs(lead), frozenset((s, c / abs(lead)) for s, c in slack.terms.items()))
    return key, front, slack


def _holds(condition: Condition, chosen: dict[object, Side]) -> bool:
    key, front, _ = _plane(condition)
    return PARTS[chosen[key]] <= SIDES[condition.relation, front]


def _on_noise(path: Path) -> Path:
    """The path without its conditions on data alone."""
    steps: list[Step] = []
    for step in path.steps:
        if isinstance(step, Fork) and any(is_on_data(c) for c in step.option.conditions):
            kept = tuple(c for c in step.option.conditions if not is_on_data(c))
            step = Fork((Option(kept, step.option.weight, step.option.label),), 0, step.site, step.implied)
        steps.append(step)
    return Path(tuple(steps), path.output)


# ------------------------------------------------------------------------------------------------------ inequalities


def _inequality(condition: Condition, *, moved: bool = False) -> LinearInequality:
    """The condition, on data or on data moved by the difference."""
    terms: dict[tuple[str, int], Rational] = {}
    for symbol, coefficient in condition.slack.terms.items():
        if not isinstance(symbol, Unknown):
            raise TypeError(f"{symbol.name} is noise, not data")
        terms["data", entry_of(symbol)] = coefficient
        if moved:
            terms["difference", entry_of(symbol)] = coefficient
    return LinearInequality(terms, condition.slack.constant, condition.relation.value)
