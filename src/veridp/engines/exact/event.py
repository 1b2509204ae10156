"""Events: sets of outputs that print as a sentence, and the part of a distribution that lies in one."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.exact.pieces import ClassKey, DistributionPiece, Factor, Groups, factors, numbers_of
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.feasibility import has_room
from veridp.kernel.output import Kind, Raised, Slot, Template, is_finite_number, leaf_key, leaf_names, leaf_text
from veridp.kernel.path import Path
from veridp.kernel.symbols import Relation
from veridp.sampling.encode import OutputEvent
from veridp.sampling.outputs import Outputs

# --------------------------------------------------------------------------------------------------------------- event
# Events: sets of outputs that print as a sentence and can be evaluated on an output.


@dataclass(frozen=True)
class NumberSpan:
    """An interval of numbers; ends may be infinite, and belong to it where finite."""

    low: float
    high: float

    def text(self, name: str) -> str:
        if self.low == self.high:
            return f"{name} = {self.low:.6g}"
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{name} is any number"
        if math.isinf(self.low):
            return f"{name} <= {self.high:.6g}"
        if math.isinf(self.high):
            return f"{name} >= {self.low:.6g}"
        return f"{name} in [{self.low:.6g}, {self.high:.6g}]"


@dataclass(frozen=True)
class LinearEntry:
    """A linear combination of leaves of the output: one entry, mostly."""

    terms: tuple[tuple[int, float], ...]  # leaf positions and factors
    names: tuple[str, ...]

    def value(self, shown: Template, columns: Mapping[Slot, NDArray[Any]]) -> Any:
        """Its value in outputs of one form; None where some leaf is no number."""
        if not all(_is_number(shown.leaves[position]) for position, _ in self.terms):
            return None
        return sum(factor * _column(shown.leaves[position], columns) for position, factor in self.terms)

    def __str__(self) -> str:
        parts: list[str] = []
        for (_, factor), name in zip(self.terms, self.names, strict=True):
            size = "" if abs(factor) == 1 else f"{abs(factor):.6g}·"
            sign = ("-" if factor < 0 else "") if not parts else (" - " if factor < 0 else " + ")
            parts.append(f"{sign}{size}{name}")
        return "".join(parts)


@dataclass(frozen=True)
class Tie:
    """That a combination of numbers has a value, up to rounding; or, with a step, the value plus a multiple of it."""

    entry: LinearEntry
    value: Number
    step: Number

    def among(self, shown: Template, columns: Mapping[Slot, NDArray[Any]]) -> Any:
        """In which outputs of one form it holds."""
        number = self.entry.value(shown, columns)
        if number is None:
            return False
        off = number - float(self.value)
        if self.step:
            off = off - float(self.step) * np.round(off / float(self.step))
        return np.abs(off) <= ROUNDED_TIE * (1 + np.abs(number))

    def excludes(self, other: Tie) -> bool:
        """Whether no output keeps both."""
        return (self.entry, self.step) == (other.entry, other.step) and self.value != other.value

    def demand(self, number: Affine | Number | None) -> Demand:
        """What it takes of noise for the combination, which is this number."""
        if number is None or (isinstance(number, Affine) and number.continuous):
            return []
        off = number - exact(self.value)
        if isinstance(off, Affine) and off.terms:
            if not self.step:
                return [(Condition(off, Relation.EQUAL),)]
            if any(Fraction(move) % self.step for move in off.terms.values()):
                raise NotExact("integer noise moves an entry of the output by unlike steps; use an engine that samples")
        rest = Fraction(off.constant if isinstance(off, Affine) else off)
        return [] if (rest % self.step if self.step else rest) else [()]

    def text(self, negated: bool = False) -> str:
        name, word = str(self.entry), "is not" if negated else "is"
        if not self.step:
            return f"{name} {'≠' if negated else '='} {float(self.value):.6g}"
        steps = "a whole number" if self.step == 1 else f"a multiple of {float(self.step):.6g}"
        return f"{name} {word} {f'{float(self.value):.6g} plus ' if self.value else ''}{steps}"


class LeafPattern(ABC):
    """What stands in a template for leaves of a kind of their own: texts with a number in them, for example."""

    @abstractmethod
    def fits(self, leaf: Any, columns: Mapping[Slot, NDArray[Any]]) -> NDArray[np.bool_] | bool:
        """Where the leaf is one of them."""


@dataclass(frozen=True)
class ExactEvent(OutputEvent):
    """All of: the output has the given form, each numeric entry named lies in one of its spans, and numbers are tied.

    Slots and spans stand for finite numbers; NaN and the infinities are constants of a form.
    """

    template: Template | None = None  # the constants that the output must show; slots stand for any number
    equal: tuple[tuple[str, int, Any], ...] = ()  # single leaves, by name and position, that must have a value
    within: tuple[tuple[LinearEntry, tuple[NumberSpan, ...]], ...] = ()
    either: tuple[ExactEvent, ...] = field(default=())  # or, instead of all that: one of these
    any_order: Groups = ()  # groups of leaves whose values may stand in any order
    tied: tuple[Tie, ...] = ()
    untied: tuple[tuple[Tie, ...], ...] = ()  # groups of ties that do not hold all at once

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""
        found = np.zeros(len(outputs), dtype=bool)
        for template, rows in outputs.forms():
            found[rows] = self._among(template, {slot: outputs.columns[slot][rows] for slot in template.slots})
        return found

    def _among(self, shown: Template, columns: Mapping[Slot, NDArray[Any]]) -> NDArray[np.bool_] | bool:
        """Which rows of one form belong to it."""
        holds: NDArray[np.bool_] | bool = not self.either
        for event in self.either:
            holds = holds | event._among(shown, columns)
        if self.template is not None and self.template.outline != shown.outline:
            return False
        places = [place for _, place, _ in self.equal]
        places += [place for entry in self.linear_entries for place, _ in entry.terms]
        if max(places, default=-1) >= len(shown.leaves):
            return False
        wanted = {} if self.template is None else dict(enumerate(self.template.leaves))
        also = [(position, value) for _, position, value in self.equal]
        for group in self.any_order:
            values = {**wanted, **dict(also)}
            for key, count in Counter(leaf_key(values[place]) for place in group).items():
                value = next(values[place] for place in group if leaf_key(values[place]) == key)
                holds = holds & (sum(equals(value, shown.leaves[place], columns) * 1 for place in group) == count)
        ordered = {place for group in self.any_order for place in group}
        for position, value in (*wanted.items(), *also):
            if position not in ordered:
                holds = holds & equals(value, shown.leaves[position], columns)
        for entry, spans in self.within:
            number = entry.value(shown, columns)
            if number is None:
                return False
            inside = [(span.low <= number) & (number <= span.high) for span in spans]
            holds = holds & np.isfinite(number) & np.logical_or.reduce(inside)
        for tie in self.tied:
            holds = holds & tie.among(shown, columns)
        for ties in self.untied:
            holds = holds & ~np.logical_and.reduce([tie.among(shown, columns) for tie in ties])
        return holds

    @property
    def linear_entries(self) -> list[LinearEntry]:
        """The combinations of numbers that it speaks of."""
        return [entry for entry, _ in self.within] + [tie.entry for ties in (self.tied, *self.untied) for tie in ties]

    @property
    def is_one_output(self) -> bool:
        """Whether it holds for a single output alone."""
        return self.template is not None and not self.template.slots and not self.any_order

    def __and__(self, other: ExactEvent) -> ExactEvent:
        return ExactEvent(
            self.template or other.template,
            self.equal + other.equal,
            self.within + other.within,
            any_order=self.any_order + other.any_order,
            tied=self.tied + other.tied,
            untied=self.untied + other.untied,
        )

    def _by_spans(self) -> list[tuple[tuple[NumberSpan, ...], list[LinearEntry]]]:
        table: dict[tuple[NumberSpan, ...], list[LinearEntry]] = {}
        for entry, spans in self.within:
            table.setdefault(spans, []).append(entry)
        return list(table.items())

    def __str__(self) -> str:
        if self.either:
            shown = " or ".join(f"({event})" for event in self.either[:4])
            return shown + (f" or {len(self.either) - 4} more cases" if len(self.either) > 4 else "")
        numbers = [_sentence(entries, spans) for spans, entries in self._by_spans()]
        ties = [tie.text() for tie in self.tied]
        ties += [" or ".join(tie.text(negated=True) for tie in group) for group in self.untied if self._adds(group)]
        known = [f"{name} is {leaf_text(value)}" for name, _, value in self.equal] + numbers + ties
        parts = known
        if self.template is not None and (self.template.leaves or not parts):
            bare = len(self.template.leaves) == 1 and self.template.slots
            form = [] if bare and known else [output_is(self.template)]
            parts = form + known
        return ", ".join([" and ".join(parts) or "any output", *map(self._order_text, self.any_order)])

    def _adds(self, untied: tuple[Tie, ...]) -> bool:
        """Whether it is not clear from the spans already that these ties do not all hold."""
        spans = dict(self.within)
        return not any(
            not tie.step and not any(span.low <= tie.value <= span.high for span in spans[tie.entry])
            for tie in untied
            if tie.entry in spans
        )

    def _order_text(self, group: Sequence[int]) -> str:
        names = {place: name for name, place, _ in self.equal}
        names |= {} if self.template is None else dict(enumerate(leaf_names(self.template.tree)))
        first, second, *others = (names[place] for place in group)
        rest = others if len(others) < 2 else ["…", others[-1]]
        return f"with {', '.join((first, second, *rest))} in any order"


def _sentence(entries: list[LinearEntry], spans: tuple[NumberSpan, ...]) -> str:
    names = [str(entry) for entry in entries]
    name = (
        names[0]
        if len(names) == 1
        else f"each of {', '.join(names if len(names) < 5 else [*names[:2], '…', names[-1]])}"
    )
    return " or ".join(span.text(name) for span in spans)


def output_is(template: Template) -> str:
    """That the output fits the template, in words."""
    if isinstance(template.tree, Raised):
        return str(template)
    return "output is a number" if isinstance(template.tree, Slot) else f"output is {template}"


def _is_number(leaf: Any) -> bool:
    return leaf.kind in (Kind.INT, Kind.FLOAT) if isinstance(leaf, Slot) else is_finite_number(leaf)


def _column(leaf: Any, columns: Mapping[Slot, NDArray[Any]]) -> Any:
    return columns[leaf] if isinstance(leaf, Slot) else float(leaf)


def equals(value: Any, leaf: Any, columns: Mapping[Slot, NDArray[Any]]) -> NDArray[np.bool_] | bool:
    """Where the leaf has the value, or is a finite number where the value is a slot."""
    if isinstance(value, LeafPattern):
        return value.fits(leaf, columns)
    if not isinstance(leaf, Slot):
        return _is_number(leaf) if isinstance(value, Slot) else same(value, leaf)
    if isinstance(value, bool):
        return np.asarray(columns[leaf] == value) if leaf.kind is Kind.BOOL else False
    if not _is_number(leaf) or not isinstance(value, int | float | Slot):
        return False
    if isinstance(value, Slot):
        return np.asarray(np.isfinite(columns[leaf]))
    return np.asarray(np.isclose(columns[leaf], value, rtol=1e-12, atol=1e-12, equal_nan=True))


def same(first: Any, second: Any) -> bool:
    """Whether two leaves of outputs are the same, finite numbers up to rounding."""
    if is_finite_number(first) and is_finite_number(second):
        return math.isclose(first, second, rel_tol=1e-12, abs_tol=1e-12)
    return leaf_key(first) == leaf_key(second)


# ---------------------------------------------------------------------------------------------------------- event part
# The part of a law that lies in an event: its pieces, with the event's demands among their conditions.


ROUNDED_TIE = 1e-9  # how far, relatively, rounding may put numbers off a tie
ON_END = Fraction(1, 10**6)  # a lattice point this close to an end of a span belongs to it
Leaf = Any  # a constant, or an Affine
Demand = list[tuple[Condition, ...]]  # alternatives that exclude each other; none where it cannot be met


def pieces_within(paths: Sequence[Path], event: ExactEvent) -> list[list[DistributionPiece]]:
    """For each independent factor of the output that the event speaks of, or that is not certain, the pieces in it.

    The probability of the event is the product over the factors of the sums over their pieces. Ends of spans are
    taken as the rational numbers that the floats denote; lattice points within 1e-6 of an end belong to the span.
    """
    if event.either or event.any_order:
        raise NotExact("an event of several alternatives is enclosed one alternative at a time; take them one by one")
    parts = factors(paths)
    if not all(_speaks_apart(event, factor) for factor in parts):
        parts = factors(paths, split=False)
    return [_pieces(event, factor) for factor in parts if _speaks(event, factor) or not _is_certain(factor)]


def _places(factor: Factor, key: ClassKey) -> dict[int, int]:
    """Where the leaves of the whole output stand among those of the factor."""
    positions = range(len(key.template.leaves)) if factor.positions is None else factor.positions
    return {position: place for place, position in enumerate(positions)}


def _speaks_apart(event: ExactEvent, factor: Factor) -> bool:
    """Whether nothing that the event says ties this factor to others."""
    if factor.positions is None:
        return True
    inside = [{position in factor.positions for position, _ in entry.terms} for entry in event.linear_entries]
    return event.template is None and all(len(kinds) == 1 for kinds in inside)


def _speaks(event: ExactEvent, factor: Factor) -> bool:
    named = {position for _, position, _ in event.equal}
    named |= {position for entry in event.linear_entries for position, _ in entry.terms}
    return factor.positions is None or not named.isdisjoint(factor.positions)


def _is_certain(factor: Factor) -> bool:
    """Whether it has probability 1 by itself: the weight of a path, and what it asks of noise, may be apart."""
    return all(piece.weight == 1 and not piece.conditions for pieces in factor.classes.values() for piece in pieces)


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
    numbers = iter(numbers_of(key, piece))
    return [next(numbers) if isinstance(leaf, Slot) else leaf for leaf in key.template.leaves]


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
    for kept, ties in ((True, event.tied), *((False, group) for group in event.untied)):
        here = [tie for tie in ties if factor.positions is None or tie.entry.terms[0][0] in factor.positions]
        demands = [tie.demand(_combination(tie.entry, places, leaves)) for tie in here]
        if kept:
            yield from demands
        elif here:
            yield _not_all(demands)


def _not_all(demands: Sequence[Demand]) -> Demand:
    """That some demand is not met."""
    if [] in demands:
        return [()]
    if any(demand != [()] for demand in demands):
        raise NotExact("integers keep a relation in some outputs and not in others; use an engine that samples")
    return []


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
        yield ([()] if _is_numeric(leaf) else []) if isinstance(pattern, Slot) else _equal(leaf, pattern)


def _is_numeric(leaf: Leaf) -> bool:
    return isinstance(leaf, Affine) or is_finite_number(leaf)


def _equal(leaf: Leaf, constant: Any) -> Demand:
    if not isinstance(leaf, Affine):
        return [()] if same(constant, leaf) else []
    if leaf.continuous or not _is_numeric(constant):
        return []
    return [(Condition(leaf - exact(constant), Relation.EQUAL),)]


def _combination(entry: LinearEntry, places: dict[int, int], leaves: Sequence[Leaf]) -> Affine | Number | None:
    """The value of the entry; None where it has none."""
    total: Any = 0
    for position, factor in entry.terms:
        leaf = leaves[places[position]] if position in places else None
        if not _is_numeric(leaf):
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
