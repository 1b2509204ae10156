"""The part of a law that lies in an event: its pieces, with the event's demands among their conditions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan, same
from veridp.engines.exact.pieces import ClassKey, DistributionPiece, Factor, factors
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.feasibility import has_room
from veridp.kernel.path import Path
from veridp.kernel.symbols import Relation
from veridp.kernel.template import Slot, is_finite_number

ON_END = Fraction(1, 10**6)  # a lattice point this close to an end of a span belongs to it
Leaf = Any  # a constant, or an Affine
Demand = list[tuple[Condition, ...]]  # alternatives that exclude each other; none where it cannot be met


def pieces_within(paths: Sequence[Path], event: ExactEvent) -> list[list[DistributionPiece]]:
    """For each independent factor of the output that the event speaks of, the pieces that lie in it.

    The probability of the event is the product over the factors of the sums over their pieces. Ends of spans are
    taken as the rational numbers that the floats denote; lattice points within 1e-6 of an end belong to the span.
    """
    if event.either:
        raise NotExact("an event of several alternatives is enclosed one alternative at a time; take them one by one")
    parts = factors(paths)
    if not all(_speaks_apart(event, factor) for factor in parts):
        parts = factors(paths, split=False)
    return [_pieces(event, factor) for factor in parts if _speaks(event, factor)]


def _places(factor: Factor, key: ClassKey) -> dict[int, int]:
    """Where the leaves of the whole output stand among those of the factor."""
    positions = range(len(key.template.leaves)) if factor.positions is None else factor.positions
    return {position: place for place, position in enumerate(positions)}


def _speaks_apart(event: ExactEvent, factor: Factor) -> bool:
    """Whether nothing that the event says ties this factor to others."""
    if factor.positions is None:
        return True
    inside = [{position in factor.positions for position, _ in entry.terms} for entry, _ in event.within]
    return event.template is None and all(len(kinds) == 1 for kinds in inside)


def _speaks(event: ExactEvent, factor: Factor) -> bool:
    named = {position for _, position, _ in event.equal}
    named |= {position for entry, _ in event.within for position, _ in entry.terms}
    return factor.positions is None or not named.isdisjoint(factor.positions)


def _pieces(event: ExactEvent, factor: Factor) -> list[DistributionPiece]:
    found = []
    for key, pieces in factor.classes.items():
        for piece in pieces:
            for chosen in itertools.product(*_demands(event, factor, key, _leaves(key, piece))):
                added = tuple(itertools.chain(*chosen))
                if has_room(piece.conditions, added):
                    found.append(DistributionPiece(piece.weight, (*piece.conditions, *added), ()))
    return found


def _leaves(key: ClassKey, piece: DistributionPiece) -> list[Leaf]:
    """The leaves of an output of the class: constants, and expressions in noise."""
    numbers: dict[int, Any] = dict(zip(key.free, piece.numbers, strict=True))
    for factors_, value in key.relations:  # the last entry of a relation follows from free ones before it
        given = [(index, factor) for index, factor in enumerate(factors_) if factor]
        last, lead = given.pop()
        rest = sum((numbers[index] * factor for index, factor in given), start=exact(0))
        numbers[last] = (value - rest) * (1 / Fraction(lead))
    slots = itertools.count()
    return [numbers[next(slots)] if isinstance(leaf, Slot) else leaf for leaf in key.template.leaves]


def _demands(event: ExactEvent, factor: Factor, key: ClassKey, leaves: Sequence[Leaf]) -> Iterator[Demand]:
    places = _places(factor, key)
    if event.template is not None:
        yield from _fitting(event.template.tree, key.template.tree, iter(leaves))
    for _, position, constant in event.equal:
        if factor.positions is None or position in factor.positions:
            yield _equal(leaves[places[position]], constant) if position in places else []
    for entry, spans in event.within:
        if factor.positions is None or entry.terms[0][0] in factor.positions:
            yield _in_spans(_combination(entry, places, leaves), spans)


def _fitting(pattern: Any, tree: Any, leaves: Iterator[Leaf]) -> Iterator[Demand]:
    """What it takes for an output of the form of the tree, with these leaves, to show the pattern."""
    if isinstance(pattern, tuple) is not isinstance(tree, tuple):
        yield []
    elif isinstance(pattern, tuple):
        if type(pattern) is not type(tree) or len(pattern) != len(tree):
            yield []
            return
        for inner, branch in zip(pattern, tree, strict=True):
            yield from _fitting(inner, branch, leaves)
    else:
        leaf = next(leaves)
        yield ([()] if _is_number(leaf) else []) if isinstance(pattern, Slot) else _equal(leaf, pattern)


def _is_number(leaf: Leaf) -> bool:
    return isinstance(leaf, Affine) or is_finite_number(leaf)


def _equal(leaf: Leaf, constant: Any) -> Demand:
    if not isinstance(leaf, Affine):
        return [()] if same(constant, leaf) else []
    if leaf.continuous or not _is_number(constant):
        return []
    return [(Condition(leaf - exact(constant), Relation.EQUAL),)]


def _combination(entry: LinearEntry, places: dict[int, int], leaves: Sequence[Leaf]) -> Affine | Number | None:
    """The value of the entry; None where it has none."""
    total: Any = 0
    for position, factor in entry.terms:
        leaf = leaves[places[position]] if position in places else None
        if not _is_number(leaf):
            return None
        total = (leaf if isinstance(leaf, Affine) else exact(leaf)) * exact(factor) + total
    return total if isinstance(total, Affine) else exact(total)


def _in_spans(value: Affine | Number | None, spans: Sequence[NumberSpan]) -> Demand:
    if value is None:
        return []
    if not isinstance(value, Affine):
        return [()] if any(span.low <= value <= span.high for span in spans) else []
    slack = Fraction(0) if value.continuous else ON_END
    return [_bounds(value, span, slack) for span in _apart(spans, 2 * slack)]


def _apart(spans: Sequence[NumberSpan], gap: Fraction) -> list[NumberSpan]:
    """The spans with those that overlap, or lie closer than the gap, made one."""
    found: list[NumberSpan] = []
    for span in sorted(spans, key=lambda span: span.low):
        if found and (math.isinf(found[-1].high) or span.low <= found[-1].high + gap):
            found[-1] = NumberSpan(found[-1].low, max(found[-1].high, span.high))
        else:
            found.append(span)
    return found


def _bounds(value: Affine, span: NumberSpan, slack: Fraction) -> tuple[Condition, ...]:
    found = []
    if math.isfinite(span.low):
        found.append(Condition(value - exact(span.low) + slack, Relation.AT_LEAST))
    if math.isfinite(span.high):
        found.append(Condition(-value + exact(span.high) + slack, Relation.AT_LEAST))
    return tuple(found)
