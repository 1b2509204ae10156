"""What a proof has to keep on the neighbours: events, from the paths of a mechanism, without noise that decides
nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.engines.prove.convex import union_if_convex
from veridp.errors import MechanismFailed, NotExplorable
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.output import Raised, Template
from veridp.kernel.path import OutputForm, Path
from veridp.kernel.replay import RUNS, Listing, Replayed
from veridp.kernel.site import Site
from veridp.kernel.symbols import Noise, Relation, Symbol, Unknown
from veridp.mechanism import Mechanism
from veridp_check.noise import parameters_of

# --------------------------------------------------------------------------------------------------------------- paths
# A mechanism's paths for proofs, with its decimal arguments taken for the rationals that they write down.


MOST_SHOWN = 3  # exceptions that a message names


def explored(mechanism: Mechanism, data: Any, *, defer: bool = False) -> Sequence[Path]:
    """Its paths on the data, which may be open. Nothing may rest on them before they are replayed."""
    return explore(rational_arguments(mechanism), data, defer=defer)


def check_noise(paths: Sequence[Path]) -> None:
    """Raises NotExplorable where the paths draw noise that the certificate checker does not know."""
    drawn = (noise for path in paths for noise in path.noises)
    unknown = next((noise for noise in drawn if parameters_of(noise.distribution.kind) is None), None)
    if unknown is not None:
        raise NotExplorable(
            f"{unknown.site.prefix}the certificate checker does not know {unknown.distribution.kind} noise, so nothing "
            f"can be proved of what draws it; use another engine"
        )


def explored_values(mechanism: Mechanism, values: Sequence[Any], *, defer: bool = False) -> list[Sequence[Path]]:
    """Its paths on each of the values, after plain runs agreed with them; the more values, the fewer runs on each."""
    found = []
    for value in values:
        paths = explored(mechanism, value, defer=defer)
        check_noise(paths)
        replayed(mechanism, value, paths, defer=defer, runs=max(RUNS // len(values), 1))
        found.append(paths)
    if all(isinstance(path.output, Raised) for paths in found for path in paths):
        raised = " or ".join(sorted({str(path.output) for paths in found for path in paths})[:MOST_SHOWN])
        raise MechanismFailed(f"{mechanism.name} {raised} on every input of its domain; return an output")
    return found


def replayed(
    mechanism: Mechanism,
    data: Any,
    paths: Sequence[Path],
    at: Sequence[Any] = (),
    *,
    defer: bool = False,
    runs: int = RUNS,
) -> Replayed:
    """What plain runs, also at these data, say of the paths; ExplorationDisagrees where one contradicts them."""
    return Listing.of(rational_arguments(mechanism), data, paths, defer).replay(at, runs)


def rational_arguments(mechanism: Mechanism) -> Mechanism:
    """The mechanism with decimal arguments that remember the rationals they write down: 0.1 is also 1/10.

    The code sees the floats themselves: `epsilon < 0.1` is False for 0.1, as in a plain run.
    """
    floats = {name: v for name, v in mechanism.values.items() if isinstance(v, float) and math.isfinite(v)}
    return mechanism.bind(**{name: Written.of(value) for name, value in floats.items()})


# -------------------------------------------------------------------------------------------------------------- events
# What a proof has to carry over from one input to its neighbours: events, each a polyhedron of noise for every data.
#
# An event is a set of runs with one output. Paths with the same output are merged into one event where their union is
# convex; where it is not they stay apart, each an event of its own (a run is then carried to a run down the same path,
# so that the map is one-to-one for certain).


ENTRY = re.compile(r"data\[(\d+)\]")


@dataclass(frozen=True, eq=False)
class NoiseEvent:
    """Runs with one output: the noise that they draw, what it satisfies, and the entries that must not change."""

    output: Template  # a slot for each number that is no constant
    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]
    numbers: tuple[Affine, ...]
    weight: Number
    paths: int  # how many paths it was merged from
    sites: tuple[Site, ...]  # where each of the conditions was asked


def events_of(paths: Sequence[Path]) -> list[NoiseEvent]:
    """The events of a mechanism's paths."""
    groups: dict[tuple[Template, tuple[Any, ...]], list[tuple[Path, OutputForm]]] = {}
    for path in paths:
        form = OutputForm.of(path.output)
        groups.setdefault((form.template, _structure(path)), []).append((path, form))
    return [event for members in groups.values() for event in _merged(members)]


def _merged(members: Sequence[tuple[Path, OutputForm]]) -> list[NoiseEvent]:
    paths, (first, form) = [path for path, _ in members], members[0]
    mergeable = len(paths) > 1 and not form.numbers and all(path.weight == 1 for path in paths)
    mergeable = mergeable and any(_can_move(symbol) for c in first.conditions for symbol in c.slack.terms)
    if mergeable:
        union = union_if_convex([path.conditions for path in paths])
        if union is not None:
            asked = {id(c): site for path in paths for c, site in zip(path.conditions, _sites(path), strict=True)}
            sites = tuple(asked[id(c)] for c in union)
            return [NoiseEvent(form.template, first.noises, union, (), 1, len(paths), sites)]
    return [NoiseEvent(f.template, p.noises, p.conditions, f.numbers, p.weight, 1, _sites(p)) for p, f in members]


def _can_move(symbol: Symbol) -> bool:
    """Whether it is noise that can be shifted: events without any gain nothing from being merged."""
    return isinstance(symbol, Noise) and symbol.distribution.price.up is not None


def _sites(path: Path) -> tuple[Site, ...]:
    """Where each condition of the path was asked."""
    return tuple(fork.site for fork in path.forks if not fork.implied for _ in fork.option.conditions)


def _structure(path: Path) -> tuple[Any, ...]:
    """What paths must share to be merged: the noise they draw, in order."""
    return tuple((noise.index, noise.distribution) for noise in path.noises)


def entry_of(symbol: Unknown) -> int:
    """Which entry of the data an open value is; raises NotExplorable where it is none."""
    found = ENTRY.fullmatch(symbol.name)
    if found is None:
        raise NotExplorable(f"{symbol.name} is open, but is not an entry of the data; give it a value")
    return int(found[1])


def is_equality(condition: Condition) -> bool:
    return condition.relation is Relation.EQUAL


# -------------------------------------------------------------------------------------------------------------- pieces
# Events without the noise that decides nothing but how likely they are.
#
# Noise that is compared with constants alone makes a finite choice: it has a probability, which is exact where the
# noise
# is uniform, geometric or binomial. What is left of the event is a polyhedron of noise that can be shifted.


@dataclass(frozen=True, eq=False)
class WeightedEvent:
    """An event, with the probability of its finite choices and what else its noise satisfies."""

    event: NoiseEvent
    weight: Fraction
    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]

    @property
    def numbers(self) -> tuple[Affine, ...]:
        return self.event.numbers


def piece_of(event: NoiseEvent) -> WeightedEvent:
    """The event without its finite choices; conditions on data alone are left out, as its case has them."""
    weight = Fraction(event.weight)
    kept: list[Noise] = []
    for noise in event.noises:
        asked = [condition for condition in event.conditions if noise in condition.slack.terms]
        released = any(noise in number.terms for number in event.numbers)
        alone = all(len(condition.slack.terms) == 1 for condition in asked)
        chance = None if released or not alone else probability(noise, asked)
        if chance is None:
            kept.append(noise)
        else:
            weight *= chance
    conditions = [c for c in event.conditions if any(noise in c.slack.terms for noise in kept)]
    return WeightedEvent(event, weight, tuple(kept), tuple(conditions))


def probability(noise: Noise, conditions: Sequence[Condition]) -> Fraction | None:
    """The probability that noise satisfies conditions on it alone; None where it is not rational."""
    if not conditions:
        return Fraction(1)
    low, high = None, None
    for condition in conditions:
        slope = Fraction(condition.slack.terms[noise])
        bound = -Fraction(condition.slack.constant) / slope
        strict = condition.relation is Relation.ABOVE
        equal = condition.relation is Relation.EQUAL
        if slope > 0 or equal:
            least = math.floor(bound) + 1 if noise.distribution.integer and strict else bound
            low = Fraction(least) if low is None else max(low, Fraction(least))
        if slope < 0 or equal:
            most = math.ceil(bound) - 1 if noise.distribution.integer and strict else bound
            high = Fraction(most) if high is None else min(high, Fraction(most))
    return noise.distribution.probability_between(low, high)
