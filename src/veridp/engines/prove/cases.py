"""The differences between neighbours, and what a mechanism does on each value of a finite domain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from veridp.adjacency import Adjacency, Domain, GivenPairs, is_frame, is_interval, is_registered, rows_of
from veridp.engines.prove.events import NoiseEvent, WeightedEvent, ended, events_of, explored, explored_values, piece_of
from veridp.engines.prove.opaque import OpaqueFunctions
from veridp.errors import BadInput
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Condition, Select
from veridp.kernel.output import Template
from veridp.kernel.path import Path, entries_of, leaves, outline_of, symbols_of
from veridp.kernel.site import Site
from veridp.kernel.symbols import Noise
from veridp.mechanism import Mechanism
from veridp.numerics.components import components
from veridp_check.document import ADJACENCIES, LISTED, PAIRS
from veridp_check.maps import PiecewiseMap

# ---------------------------------------------------------------------------------------------------------- neighbours
# The neighbours that a proof speaks of: their interval, and the word by which a certificate calls their relation.


def interval_of(mechanism: Mechanism, summed: Sequence[object] | bool = False) -> tuple[Fraction, Fraction] | None:
    """The ends between which the data are one number, where any two are neighbours, or records that are; else None.

    Under all relations, where the data are `summed` up as records are, and not seen through a function of all of them.
    """
    relation = mechanism.adjacency
    if summed and not isinstance(summed, bool) and isinstance(summed[0], PiecewiseMap) and not relation.on_records:
        return None
    match mechanism.domain:
        case (int() | float() as low, int() | float() as high) if (
            (summed or relation.single or relation.on_records) and is_interval(mechanism.domain) and low < high
        ):
            return Fraction(low), Fraction(high)
    return None


def interval_text(mechanism: Mechanism, summed: Sequence[object] | bool = False) -> str:
    """For which numbers alone a proof holds, where these are of an interval; nothing where they are not."""
    ends = interval_of(mechanism, summed)
    what = "records" if mechanism.adjacency.on_records else "numbers"
    return "" if ends is None else f"for {what} from {float(ends[0]):g} to {float(ends[1]):g}"


def certified_word(relation: Adjacency) -> str:
    """The relation in the words of certificates: its name where the checker knows it, else `listed`.

    What is proved of a listed relation rests on its polytopes alone: the checker has no other way to know it.
    """
    if isinstance(relation, GivenPairs):
        return PAIRS
    return relation.name if is_registered(relation) and relation.name in ADJACENCIES else LISTED


# --------------------------------------------------------------------------------------------------------------- cases
# What a mechanism does, case by case: on each value of a finite domain, or where data alone decide, on each region.
#
# In a case the mechanism is one or several *parts*: sets of events that decide disjoint entries of the output by noise
# that no other part uses. So the probabilities of their outputs multiply, and what they cost adds up.


MANY_VALUES = 1000  # data sets that are gone through one by one


@dataclass(frozen=True, eq=False)
class OutputPart:
    """Events that decide some entries of the output (None: all of it), by noise of their own."""

    entries: tuple[int, ...] | None
    events: tuple[NoiseEvent, ...]

    @cached_property
    def pieces(self) -> tuple[WeightedEvent, ...]:
        return tuple(piece_of(event) for event in self.events)

    @cached_property
    def by_output(self) -> dict[Template, dict[int, WeightedEvent]]:
        """The pieces that are not impossible, by their output and place."""
        found: dict[Template, dict[int, WeightedEvent]] = {}
        for number, piece in enumerate(self.pieces):
            if piece.weight:
                found.setdefault(piece.event.output, {})[number] = piece
        return found

    @cached_property
    def key(self) -> object:
        """What it says: parts with the same key are the same."""
        return self.entries, tuple(_event_key(event) for event in self.events)


def _event_key(event: NoiseEvent) -> object:
    return (
        event.output,
        event.weight,
        tuple((noise.index, noise.distribution) for noise in event.noises),
        tuple((c.slack.key, c.relation) for c in event.conditions),
        tuple(number.key for number in event.numbers),
    )


@dataclass(frozen=True, eq=False)
class DataCase:
    """A value of the data, or a region of them by its conditions, and what the mechanism does there."""

    value: Any
    conditions: tuple[Condition, ...]
    parts: tuple[OutputPart, ...]
    shape: str | None = None  # of the output, a mark for each entry, where parts decide some entries each

    @property
    def text(self) -> str:
        """The value in the words of certificates."""
        return value_text(self.value)


def value_text(value: Any) -> str:
    """The value as a Python literal, in which objects that have none are their texts.

    >>> value_text([1.5, Fraction(1, 2)])
    "[1.5, 'Fraction(1, 2)']"
    """
    return repr(_as_literal(value))


def _as_literal(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_as_literal, value))
    if type(value) is dict:
        return {_as_literal(key): _as_literal(entry) for key, entry in value.items()}
    if is_frame(value):
        return [list(map(str, value.columns)), [list(map(_as_literal, row)) for row in rows_of(value)]]
    written = type(value) in (int, str, bytes, bool, type(None)) or (type(value) is float and math.isfinite(value))
    return value if written else repr(value)


# ----------------------------------------------------------------------------------------------------------- values


def has_finite_domain(mechanism: Mechanism) -> bool:
    """Whether the data are listed values, and no numbers of an interval."""
    return mechanism.adjacency.lists_inputs or not is_interval(mechanism.domain)


def values_of(mechanism: Mechanism, size: int) -> list[Any]:
    """All data over the mechanism's finite domain; BadInput where there are too many, or no way to list them."""
    if isinstance(mechanism.adjacency, GivenPairs):
        return _few([mechanism.adjacency.inputs], mechanism)
    domain, adjacency = list(_plain_values(mechanism.domain)), mechanism.adjacency
    if adjacency.single:
        return _few([domain], mechanism)
    sizes = range(size, size + adjacency.extra + 1)
    if any(len(domain) ** each > MANY_VALUES for each in sizes):
        raise BadInput(
            f"{mechanism.name}: {len(domain)} values for each of {size} entries give too many data sets to enumerate; "
            f"prove a smaller size, or give a domain of fewer values"
        )
    return _few([[list(chosen) for chosen in itertools.product(domain, repeat=each)] for each in sizes], mechanism)


def _few(lists: Sequence[list[Any]], mechanism: Mechanism) -> list[Any]:
    values = [value for part in lists for value in part]
    if len(values) > MANY_VALUES:
        raise BadInput(
            f"{mechanism.name}: {len(values)} data sets are too many to enumerate; give a domain of fewer values"
        )
    return values


def _plain_values(domain: Domain) -> Iterator[Any]:
    for value in domain:
        yield value.item() if hasattr(value, "item") else value


def neighbouring(adjacency: Adjacency, values: Sequence[Any]) -> list[tuple[int, int]]:
    """The ordered pairs of different data that are neighbours."""
    pairs = itertools.combinations(range(len(values)), 2)
    found = [(a, b) for a, b in pairs if adjacency.adjacent(values[a], values[b])]
    return sorted([*found, *((b, a) for a, b in found)])


def value_cases(mechanism: Mechanism, values: Sequence[Any], *, joined: bool = False) -> list[DataCase]:
    """What the mechanism does on each of the values: in parts, where it falls into the same on all of them.

    `joined` makes one part of the entries in which nothing is undecided: δ is least for all of their noise together.
    """
    deferred: list[Sequence[Path]] = []
    apart: list[tuple[str, tuple[OutputPart, ...]] | None] = [None]
    first = explored(mechanism, values[0], defer=True, choosing=True)
    if _independent_parts(ended(first), joined) is not None:
        deferred = explored_values(mechanism, values, defer=True, choosing=True)
        apart = [_independent_parts(paths, joined) for paths in deferred]
    shapes = {None if parts is None else (parts[0], tuple(part.entries for part in parts[1])) for parts in apart}
    if len(shapes) == 1 and None not in shapes:
        found = zip(values, apart, strict=True)
        return [DataCase(value, (), parts[1], parts[0]) for value, parts in found if parts is not None]
    undecided = any(_is_undecided(path) for paths in deferred for path in paths)
    decided = explored_values(mechanism, values) if undecided or not deferred else deferred
    opaque = OpaqueFunctions.among(decided)
    read = events_of if opaque is None else lambda paths: list(map(opaque.event, paths))
    whole = [OutputPart(None, tuple(read(paths))) for paths in decided]
    return [DataCase(value, (), (part,)) for value, part in zip(values, whole, strict=True)]


def _is_undecided(path: Path) -> bool:
    return any(map(_is_open, leaves(path.output)))


def _is_open(leaf: Any) -> bool:
    return isinstance(leaf, Condition | Select)


def _independent_parts(paths: Sequence[Path], joined: bool) -> tuple[str, tuple[OutputPart, ...]] | None:
    """The shape of the output and its parts, where there is one path and its entries share noise only in groups.

    None where there are several paths, or one group only. If `joined`, groups with nothing undecided are one.
    """
    if len(paths) != 1 or paths[0].forks:
        return None
    entries = entries_of(paths[0].output)
    groups = components([symbols_of(entry) for entry in entries])
    if joined:
        settled = [group for group in groups if not any(_is_open(leaf) for k in group for leaf in leaves(entries[k]))]
        rest = [group for group in groups if group not in settled]
        groups = [*filter(None, [sorted(itertools.chain(*settled))]), *rest]
    if len(groups) < 2:
        return None
    parts = tuple(OutputPart(tuple(group), _events_of_entries([entries[k] for k in group])) for group in groups)
    return str(outline_of(paths[0].output)), parts


def _events_of_entries(entries: Sequence[Any]) -> tuple[NoiseEvent, ...]:
    """The events of some entries of an output that are still undecided: they are settled by exploring them alone."""
    noises = sorted({s for entry in entries for s in symbols_of(entry) if isinstance(s, Noise)})
    settled: Sequence[Path] = [Path((), list(entries))]
    if _is_undecided(settled[0]):
        settled = explore(lambda rng, data: list(entries), None)
    events = events_of([Path((*noises, *path.steps), path.output) for path in settled])
    return tuple(replace(event, sites=tuple(map(_drawn_at, event.conditions))) for event in events)


def _drawn_at(condition: Condition) -> Site:
    """Where the last noise of a condition was drawn: what is settled here was asked nowhere in the author's code."""
    return max(symbol for symbol in condition.slack.terms if isinstance(symbol, Noise)).site
