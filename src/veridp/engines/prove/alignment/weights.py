"""Finite choices whose weights depend on open data: what keeping them costs.

Let W(x) be the probability, on data x, of the choices that lead to an event. Between neighbours x and x + δ, ln W
changes by at most the largest of -∇ ln W · δ on the way from one to the other, if W is continuous there. Let W = N/D
with sums of exponentials N = Σ c e^(l·x) and D = Σ d e^(k·x). Then c·W + ∇W·δ is 1/D² times

    Σ c d (cost + (l - k)·δ) e^((l + k)·x),

and so a cost is enough if this is nowhere negative. It is not if no coefficient is. In a region where h_r(x) >= 0 it is
a polynomial in t_r = e^(-h_r(x)), which lie in (0, 1]: then it suffices that no Bernstein coefficient is negative.
Every coefficient is linear in δ, so the least cost is read off the corners of the differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from veridp.adjacency import Corner, Domain, Polytope
from veridp.adjacency.base import numbers_of
from veridp.engines.prove.alignment.weight_slope import DataWeight, best_piece, is_continuous, slope_cost
from veridp.engines.prove.cases import _event_key
from veridp.engines.prove.events import NoiseEvent, events_of
from veridp.engines.prove.regions import are_all, between, is_on_data, is_possible, regions_of
from veridp.errors import ExplorationDisagrees, NotExplorable
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition, sign_of
from veridp.kernel.noise import Uniform
from veridp.kernel.path import Fork, Option, Path, Step, leaves, map_leaves, symbols_of
from veridp.kernel.site import Site
from veridp.kernel.stand_ins.text import NoisyText
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, Unknown, drawn_in
from veridp.kernel.weights import Weight, plain, weight_of

MAX_REGIONS = 64  # that data alone tell apart
MAX_CORNER_ENTRIES = 8  # of the domain, at whose corners probabilities are compared with rounding
MAX_ROUNDING = 1e-5  # of a probability, relatively
FEW_ROUNDINGS = 8  # that a number went through before it is compared


# -------------------------------------------------------------------------------------------------------------- events


class WeightedEvents(NamedTuple):
    """Events with weights that depend on the data, and how far rounding may change a probability, relatively."""

    events: list[NoiseEvent]
    rounding: float


def weighted_events(paths: Sequence[Path], polytopes: Sequence[Polytope], domain: Domain) -> WeightedEvents | None:
    """The events of the paths, where some weight depends on the data, with what their weights cost; None where none do.

    The proof is for data between the ends of the domain alone. Uniform noise that is compared with functions of
    the data alone is a finite choice, too. Raises NotExplorable where the data decide too much, or by functions that
    are not modelled, and ExplorationDisagrees where floats are too coarse for the weights of some data in the domain.
    """
    if not any(isinstance(path.weight, Weight) or any(_bounds(path)) for path in paths):
        return None
    low, high = (exact(end(numbers_of(domain))) for end in (min, max))
    members = [member for path in between(low, high, paths) for member in _members(path)]
    rounding = _rounding(_groups(members), polytopes[0].size, domain)
    members = _whole(members)
    regions = _regions(members)
    return WeightedEvents([_weighted(group, regions, polytopes) for group in _groups(members)], rounding)


@dataclass(frozen=True, eq=False)
class _Member:
    """A path: the conditions on data alone, the weight of its choices, and what is left of it."""

    event: NoiseEvent
    conditions: tuple[Condition, ...]
    weight: Weight
    chosen: tuple[int, ...]  # which way it went wherever chance decided
    bounds: tuple[_Bound, ...]  # that its uniform noise was compared with


@dataclass(frozen=True, eq=False)
class _Bound:
    """What uniform noise is compared with: the expression, and the weight that it is."""

    expression: Affine
    weight: Weight
    below: bool  # whether the noise is above it

    def error(self, place: Mapping[Symbol, float]) -> float:
        """How far rounding may carry it on these data."""
        value = self.weight.evaluate(place)
        sums = FEW_ROUNDINGS * math.ulp(1.0) * abs(value) if self.below else 0.0  # else it is as precise as its end
        return abs(float(self.expression.evaluate(place)) - value) + sums


def _groups(members: Sequence[_Member]) -> list[list[_Member]]:
    """The members that make up an event together."""
    found: dict[object, list[_Member]] = {}
    for member in members:
        found.setdefault(_event_key(member.event), []).append(member)
    return list(found.values())


def _whole(members: Sequence[_Member]) -> list[_Member]:
    """The members, those put together that differ in what the data decide alone, where that makes no difference.

    Where chance decides alike, only the data tell members apart: so no two of them are possible on the same data.
    """
    alike: dict[object, list[_Member]] = {}
    for member in members:
        alike.setdefault((_event_key(member.event), member.chosen, member.weight), []).append(member)
    found: list[_Member] = []
    for group in alike.values():
        covered = len(group) > 1 and are_all([member.conditions for member in group])
        found += [replace(group[0], conditions=())] if covered else group
    return found


def _members(path: Path) -> Iterator[_Member]:
    """The path, in as many parts as the data tell apart when its uniform noise is made a weight."""
    chosen = dict(_bounds(path, constants=True))
    dropped = {id(condition) for bounds in chosen.values() for condition in bounds}
    data = [condition for condition in path.conditions if is_on_data(condition)]
    if any(condition.slack.functions for condition in data):
        raise NotExplorable("the data are compared by functions that are not modelled; use an engine that samples")
    (event,) = events_of([_without(path, chosen, dropped | set(map(id, data)))])
    ways: list[tuple[list[Condition], Any]] = [(data, path.weight)]
    for noise, asked in chosen.items():
        ways = [
            ([*given, *more], weight * chance)
            for given, weight in ways
            for more, chance in _chances(noise, asked, given)
        ]
    compared = [(noise, condition) for noise, asked in chosen.items() for condition in asked]
    bounds = [bound for noise, condition in compared if (bound := _compared_with(noise, condition)) is not None]
    taken = tuple(fork.taken for fork in path.forks if not _is_by_data(fork))
    for given, weight in ways:
        distinct = {_key(condition): condition for condition in given}
        yield _Member(event, tuple(distinct.values()), Weight.of(weight), taken, tuple(bounds))


def _is_by_data(fork: Fork) -> bool:
    conditions = [condition for option in fork.options for condition in option.conditions]
    return bool(conditions) and all(map(is_on_data, conditions))


def _bounds(path: Path, constants: bool = False) -> Iterator[tuple[Noise, list[Condition]]]:
    """The uniform noise that is compared with weights alone, and the conditions on it; or with constants, too."""
    released = {symbol for leaf in leaves(path.output) for symbol in symbols_of(leaf)}
    for noise in path.noises:
        if noise in released or noise.distribution != Uniform():
            continue
        asked = [condition for condition in path.conditions if noise in drawn_in(condition.slack.terms)]
        alone = all(_bound(noise, condition) is not None for condition in asked)
        if alone and (constants or any(condition.slack.functions for condition in asked)):
            yield noise, asked


def _bound(noise: Noise, condition: Condition) -> Weight | Number | None:
    """What the noise is compared with; None where that is no weight."""
    slack = condition.slack
    slope = slack.terms.get(noise)
    if slope is None or condition.relation not in (Relation.AT_LEAST, Relation.ABOVE):
        return None
    rest = {symbol: c for symbol, c in slack.terms.items() if symbol != noise}
    weight = weight_of(Affine(slack.constant, rest) if rest else slack.constant)
    return None if weight is None else weight * (Fraction(-1) / slope)


def _compared_with(noise: Noise, condition: Condition) -> _Bound | None:
    """What the noise is compared with; None where that is a number."""
    weight, slope = _bound(noise, condition), Fraction(condition.slack.terms[noise])
    if not isinstance(weight, Weight):
        return None
    terms = {symbol: -c / slope for symbol, c in condition.slack.terms.items() if symbol != noise}
    return _Bound(Affine(-condition.slack.constant / slope, terms), weight, slope > 0)


def _chances(
    noise: Noise, conditions: Sequence[Condition], given: Sequence[Condition]
) -> Iterator[tuple[list[Condition], Any]]:
    """How likely uniform noise satisfies the conditions: cases of the data, with the probability in each."""
    lows: list[Any] = [0]
    highs: list[Any] = [1]
    for condition in conditions:
        (lows if condition.slack.terms[noise] > 0 else highs).append(_bound(noise, condition))
    for more, low in _extremes(lows, True, given):
        for others, high in _extremes(highs, False, [*given, *more]):
            every = [*more, *others]
            for decided, positive in _compared(high, low, [*given, *every]):
                if positive:
                    yield [*every, *decided], high - low


def _rounding(groups: Sequence[Sequence[_Member]], size: int, domain: Domain) -> float:
    """How far rounding may change a probability, relatively, on data at the corners of the domain.

    A part of [0, 1] is as long as it should be up to what rounding makes of its ends. Raises ExplorationDisagrees where
    that may be much of a probability.
    """
    worst = 0.0
    if not any(member.bounds for group in groups for member in group):
        return worst
    ends = [float(min(numbers_of(domain))), float(max(numbers_of(domain)))]
    for corner in itertools.product(ends, repeat=min(size, MAX_CORNER_ENTRIES)):
        data = [*corner, *[corner[-1]] * (size - len(corner))]
        place: dict[Symbol, float] = {Unknown(f"data[{i}]"): x for i, x in enumerate(data)}
        for group in groups:
            here = [member for member in group if all(c.holds(place) for c in member.conditions)]
            chance = math.fsum(member.weight.evaluate(place) for member in here)
            error = math.fsum(bound.error(place) for member in here for bound in member.bounds)
            worst = max(worst, error / chance if error and chance else error)
            if not error <= MAX_ROUNDING * chance:  # an overflow gives NaN
                output = here[0].event.output
                raise ExplorationDisagrees(
                    f"on {data}, the probability {chance:.3g} of the output {output} is lost to rounding, as uniform "
                    f"noise is compared with larger numbers; use rng.choice, or a smaller domain"
                )
    return worst


def _extremes(
    values: Sequence[Any], largest: bool, given: Sequence[Condition]
) -> Iterator[tuple[list[Condition], Any]]:
    """The largest (or smallest) of the values: cases of the data, with the value in each."""
    first, *others = values
    if not others:
        yield [], first
        return
    for more, other in _extremes(others, largest, given):
        for decided, ahead in _compared(first, other, [*given, *more]):
            yield [*more, *decided], first if ahead is largest else other


def _compared(first: Any, second: Any, given: Sequence[Condition]) -> Iterator[tuple[list[Condition], bool]]:
    """Whether the first is at least the second: cases of the data that are given, with the answer in each."""
    truth = sign_of(Weight.of(first - second), Relation.AT_LEAST)
    if truth is None:
        raise NotExplorable("which of two probabilities is larger depends on the data in a way that is not modelled")
    if isinstance(truth, bool):
        yield [], truth
        return
    sides = [(truth, True), (truth.negated(), False)]
    possible = [(condition, answer) for condition, answer in sides if is_possible([*given, condition])]
    for condition, answer in possible:
        yield [condition] if len(possible) > 1 else [], answer


def _without(path: Path, chosen: Collection[Noise], dropped: set[int]) -> Path:
    """The path without its choices, this noise and the conditions of these identities; the noise left is renumbered."""
    left = [noise for noise in path.noises if noise not in chosen]
    places: dict[Symbol, Noise] = {noise: replace(noise, index=place) for place, noise in enumerate(left)}
    steps: list[Step] = list(places.values())
    for fork in path.forks:
        kept = [c for c in fork.option.conditions if id(c) not in dropped]
        renamed = tuple(Condition(_renamed(c.slack, places), c.relation) for c in kept)
        steps.append(Fork((Option(renamed, 1, fork.option.label),), 0, fork.site, fork.implied))
    return Path(tuple(steps), map_leaves(lambda leaf: _renamed(leaf, places), path.output))


def _renamed(leaf: Any, places: Mapping[Symbol, Noise]) -> Any:
    """The leaf of an output with other symbols for its noise."""
    if isinstance(leaf, NoisyText):
        parts = [p if isinstance(p, str) else replace(p, number=_renamed(p.number, places)) for p in leaf.parts]
        return NoisyText(tuple(parts))
    if not isinstance(leaf, Affine):
        return leaf
    terms: dict[Symbol, Number] = {}
    for symbol, c in leaf.terms.items():
        if isinstance(symbol, Derived):
            symbol = Derived(symbol.function, tuple(_renamed(argument, places) for argument in symbol.arguments))
        terms[places.get(symbol, symbol)] = c
    return Affine(leaf.constant, terms, leaf.kind, leaf.held)


def _key(condition: Condition) -> object:
    return condition.relation, condition.slack.constant, frozenset(condition.slack.terms.items())


def _regions(members: Sequence[_Member]) -> list[tuple[tuple[Condition, ...], list[_Member]]]:
    """Regions that make up all data, and the members that are possible in each."""
    found: dict[object, tuple[tuple[Condition, ...], list[_Member]]] = {}
    for member in members:
        key = frozenset(map(_key, member.conditions))
        found.setdefault(key, (member.conditions, []))[1].append(member)
    if len(found) > MAX_REGIONS:
        raise NotExplorable(f"the data alone decide which of more than {MAX_REGIONS} ways to go; prove a smaller size")
    sets = [conditions for conditions, _ in found.values()]
    if all(_are_disjoint(*pair) for pair in itertools.combinations(sets, 2)):
        return list(found.values())
    site = Site("", 0)
    paths = [Path((Fork((Option(m.conditions),), 0, site),), place) for place, m in enumerate(members)]
    return [(conditions, [members[path.output] for path in here]) for conditions, here in regions_of(paths)]


def _are_disjoint(first: Sequence[Condition], second: Sequence[Condition]) -> bool:
    opposite = {_key(condition.negated()) for condition in second}
    return any(_key(condition) in opposite for condition in first) or not is_possible([*first, *second])


def _weighted(
    group: Sequence[_Member],
    regions: Sequence[tuple[tuple[Condition, ...], list[_Member]]],
    polytopes: Sequence[Polytope],
) -> NoiseEvent:
    """The event of a group: its weight is the sum of those of its members in each region."""
    mine = set(map(id, group))
    totals = [(conditions, sum(m.weight for m in here if id(m) in mine)) for conditions, here in regions]
    event, first = group[0].event, totals[0][1]
    if all(total == first for _, total in totals):
        totals = [((), first)]
    if not isinstance(plain(first), Weight) and len(totals) == 1:
        return replace(event, weight=plain(first), paths=len(group))
    pieces = [best_piece(conditions, Weight.of(total), polytopes) for conditions, total in totals]
    costs: list[Fraction | float] = []
    corners: list[Corner] = []
    for polytope in polytopes:
        found = [slope_cost(piece, polytope) for piece in pieces]
        cost, corner = max(found, key=lambda each: each[0])
        costs.append(cost if is_continuous(pieces) else math.inf)
        corners.append(corner)
    return replace(event, weight=DataWeight(tuple(pieces), tuple(costs), tuple(corners)), paths=len(group))


# --------------------------------------------------------------------------------------------------------------- slope


# ---------------------------------------------------------------------------------------------------------- continuity
