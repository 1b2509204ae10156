"""What a proof has to carry over from one input to its neighbours: events, each a polyhedron of noise for every data.

An event is a set of runs with one output. Paths with the same output are merged into one event where their union is
convex; where it is not they stay apart, each an event of its own (a run is then carried to a run down the same path,
so that the map is one-to-one for certain).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.errors import NotExplorable
from veridp.program.affine import Affine, Condition, Noise, Relation, Unknown
from veridp.program.distribution import Number
from veridp.program.path import Path, leaves, map_leaves, output_text
from veridp.prove.convex import union_if_convex

NUMERIC = "#"  # stands for a numeric entry in the name of an output


@dataclass(frozen=True, eq=False)
class Event:
    """Runs with one output: the noise that they draw, what it satisfies, and the entries that must not change."""

    output: str
    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]
    numbers: tuple[Affine, ...]
    weight: Number
    paths: int  # how many paths it was merged from


def events_of(paths: Sequence[Path]) -> list[Event]:
    """The events of a mechanism's paths."""
    groups: dict[tuple[str, tuple[Any, ...]], list[Path]] = {}
    for path in paths:
        groups.setdefault((_name(path.output), _structure(path)), []).append(path)
    found: list[Event] = []
    for (name, _), members in groups.items():
        found += _merged(name, members)
    return found


def _merged(name: str, paths: Sequence[Path]) -> list[Event]:
    mergeable = len(paths) > 1 and not _numbers(paths[0].output) and all(path.weight == 1 for path in paths)
    if mergeable:
        union = union_if_convex([path.conditions for path in paths])
        if union is not None:
            return [Event(name, paths[0].noises, union, (), 1, len(paths))]
    return [Event(name, p.noises, p.conditions, _numbers(p.output), p.weight, 1) for p in paths]


def _structure(path: Path) -> tuple[Any, ...]:
    """What paths must share to be merged: the noise they draw, in order."""
    return tuple((noise.index, noise.distribution) for noise in path.noises)


def _name(output: Any) -> str:
    return output_text(map_leaves(lambda leaf: NUMERIC if isinstance(leaf, Affine) else leaf, output))


def _numbers(output: Any) -> tuple[Affine, ...]:
    return tuple(leaf for leaf in leaves(output) if isinstance(leaf, Affine))


Difference = Mapping[Unknown, Fraction]  # by how much each entry of the data moves


def change(expression: Affine, difference: Difference) -> Fraction:
    """By how much the data's part of the expression changes when the data move by the difference."""
    total = Fraction(0)
    for symbol, coefficient in expression.terms.items():
        if isinstance(symbol, Unknown):
            if symbol not in difference:
                raise NotExplorable(f"{symbol.name} is left open, but is no entry of the data")
            total += coefficient * difference[symbol]
    return total


def on_noise(expression: Affine) -> dict[int, Number]:
    """The coefficients of the expression's noise, by index."""
    return {symbol.index: c for symbol, c in expression.terms.items() if isinstance(symbol, Noise)}


def is_equality(condition: Condition) -> bool:
    return condition.relation is Relation.EQUAL
