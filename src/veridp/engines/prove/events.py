"""What a proof has to carry over from one input to its neighbours: events, each a polyhedron of noise for every data.

An event is a set of runs with one output. Paths with the same output are merged into one event where their union is
convex; where it is not they stay apart, each an event of its own (a run is then carried to a run down the same path,
so that the map is one-to-one for certain).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from veridp.engines.prove.convex import union_if_convex
from veridp.errors import NotExplorable
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.path import OutputForm, Path
from veridp.kernel.site import Site
from veridp.kernel.symbols import Noise, Relation, Symbol, Unknown
from veridp.kernel.template import Template

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
