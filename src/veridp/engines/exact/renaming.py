"""How entries of the output are read as the numbers that they were computed from, and events told in terms of outputs.

A reading must not run outputs together, or tell the same output apart: where an entry is read in one way on some paths
and otherwise on others, the entries that are released as they are must tell which of the two it was.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.engines.exact.event import ExactEvent, LeafPattern, LinearEntry, NumberSpan, Tie, equals
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.functions import PRODUCT, QUOTIENT
from veridp.kernel.output import Kind, Slot, Template, is_finite_number
from veridp.kernel.stand_ins.text import WrittenNumber
from veridp.kernel.symbols import PureFunction, Relation, drawn_in, has_no_atoms
from veridp.numerics.rational import echelon

DIGITS = r"-?[0-9][0-9,_]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?"
FOREIGN = re.compile(r"[^-+0-9,._e]")  # what no number has in it
FIXED = re.compile(r"[,_]?(?:\.([0-9]+))?([f%])")  # formats that round to a number of decimals
IDENTITY = PureFunction("·", float)
Spans = tuple[NumberSpan, ...]


class Renaming(ABC):
    """By which function an entry of the output was computed from the number that is read in its place."""

    @abstractmethod
    def shown(self, entry: LinearEntry, spans: Spans) -> tuple[LinearEntry, Spans]:
        """The entry of outputs, and where it lies if the number lies in these spans."""

    def clashes(self, constant: Any, continuous: bool) -> bool:
        """Whether another path that shows this constant there would be taken for another output, or be one."""
        return not continuous


@dataclass(frozen=True)
class RisingRenaming(Renaming):
    """An entry that is factor · function(x) + constant, of which x is read."""

    function: PureFunction
    factor: Number
    constant: Number

    def shown(self, entry: LinearEntry, spans: Spans) -> tuple[LinearEntry, Spans]:
        return entry, tuple(NumberSpan(*sorted(map(self._at, (span.low, span.high)))) for span in spans)

    def clashes(self, constant: Any, continuous: bool) -> bool:
        return not continuous and is_finite_number(constant) and self._at(float(constant)) != constant

    def _at(self, x: float) -> float:
        if self.function is IDENTITY and math.isfinite(x):  # as rounding gives it: 6.1, not 61 times 0.1
            return float(Fraction(self.factor) * Fraction(x) + Fraction(self.constant))
        return float(self.factor) * float(self.function.compute(x)) + float(self.constant)


# -------------------------------------------------------------------------------------- numbers that follow from others


@dataclass(frozen=True)
class FollowingEntry(LinearEntry):
    """The number x that an entry y = factor · (x * k, x / k or k / x) + constant tells, where k is released too."""

    renaming: FollowingRenaming

    def value(self, shown: Template, columns: Mapping[Slot, Any]) -> Any:
        own, other = super().value(shown, columns), self.renaming.known.value(shown, columns)
        if own is None or other is None:
            return None
        bare = (own - float(self.renaming.constant)) / float(self.renaming.factor)
        return self.renaming.inverse(bare, other + float(self.renaming.offset))

    def __str__(self) -> str:
        return f"the number that {self.names[0]} was computed from"


@dataclass(frozen=True)
class FollowingRenaming(Renaming):
    """An entry that is factor · (x * k, x / k or k / x) + constant, where k = known + offset of released entries."""

    operation: str
    factor: Number
    constant: Number
    known: LinearEntry
    offset: Number

    def inverse(self, value: Any, known: Any) -> Any:
        match self.operation:
            case "x * k":
                return value / known
            case "x / k":
                return value * known
        return known / value

    def shown(self, entry: LinearEntry, spans: Spans) -> tuple[LinearEntry, Spans]:
        return FollowingEntry(entry.terms, entry.names, self), spans


# -------------------------------------------------------------------------------------------------- numbers in texts


@dataclass(frozen=True)
class WrittenEntry(LinearEntry):
    """The number that is written in a text."""

    renaming: WrittenRenaming

    def value(self, shown: Template, columns: Mapping[Slot, Any]) -> Any:
        text = shown.leaves[self.terms[0][0]]
        return self.renaming.number_in(text) if isinstance(text, str) else None

    def __str__(self) -> str:
        return f"the number in {self.names[0]}"


@dataclass(frozen=True, repr=False)
class WrittenRenaming(Renaming, LeafPattern):
    """A text with a number in it: as it is, or rounded to multiples of a unit, with a sign also where it is 0.

    Where there are `others`, numbers follow that are not read. What comes after the first has something in it that no
    number has, so there is one way to find it.
    """

    before: str
    after: str
    unit: float | None
    others: bool = False

    def number_in(self, text: str) -> float | None:
        """The number that the text has; what is written -0 is half a unit below 0."""
        rest = "(?s:.*)" if self.others else ""
        found = re.fullmatch(f"{re.escape(self.before)}({DIGITS}){re.escape(self.after)}{rest}", text)
        if found is None:
            return None
        number = float(found[1].replace(",", "").replace("_", ""))
        return -self.unit / 2 if self.unit is not None and number == 0 and found[1].startswith("-") else number

    def fits(self, leaf: Any, columns: Mapping[Slot, Any]) -> bool:
        return isinstance(leaf, str) and self.number_in(leaf) is not None

    def clashes(self, constant: Any, continuous: bool) -> bool:
        return self.fits(constant, {})

    def __repr__(self) -> str:
        return repr(f"{self.before}#{self.after}{'…' * self.others}")

    def shown(self, entry: LinearEntry, spans: Spans) -> tuple[LinearEntry, Spans]:
        told = [NumberSpan(self._written(span.low), self._written(span.high)) for span in spans]
        return WrittenEntry(entry.terms, entry.names, self), tuple(told)

    def _written(self, level: float) -> float:
        if self.unit is None or not math.isfinite(level):
            return level
        return float(f"{(level if level >= 0 else -0.5 if level >= -1 else level + 1) * self.unit:.15g}")


def written_form(parts: Sequence[str | WrittenNumber]) -> tuple[WrittenNumber, WrittenRenaming, int | None]:
    """The first number of a text, the renaming, and to how many decimals it is rounded: None where it is not."""
    numbers = [place for place, part in enumerate(parts) if isinstance(part, WrittenNumber)]
    others = len(numbers) > 1
    until = numbers[1] if others else len(parts)
    before, after = "".join(map(str, parts[: numbers[0]])), "".join(map(str, parts[numbers[0] + 1 : until]))
    if others and FOREIGN.search(after) is None:
        raise NotExact("several noisy numbers are written into one text, and nothing in it tells where the first ends")
    written: WrittenNumber = parts[numbers[0]]  # type: ignore[assignment]
    if written.form in ("", "d", ","):
        return written, WrittenRenaming(before, after, None, others), None
    fixed = FIXED.fullmatch(written.form)
    if fixed is None:
        raise NotExact(f"a noisy number that is written as {written.form!r} has no exact loss here")
    decimals = 6 if fixed[1] is None else int(fixed[1])
    percent = fixed[2] == "%"
    after = "%" * percent + after
    return written, WrittenRenaming(before, after, 10.0**-decimals, others), decimals + 2 * percent


# -------------------------------------------------------------------------------------------- numbers that are not read

UNREAD, ANYTHING = "\ue002", "\ue003"  # leaves of outputs that are taken together


@dataclass(frozen=True, repr=False)
class OtherNumbers(LeafPattern):
    """Any number but some: those of which an entry has no value with positive probability."""

    constants: frozenset[float]

    def fits(self, leaf: Any, columns: Mapping[Slot, Any]) -> Any:
        fits: Any = equals(Slot(Kind.FLOAT, 0), leaf, columns)
        for constant in self.constants:
            fits = fits & np.logical_not(equals(constant, leaf, columns))
        return fits

    def __repr__(self) -> str:
        return "another number"


@dataclass(frozen=True, repr=False)
class AnyLeaf(LeafPattern):
    """Any leaf."""

    def fits(self, leaf: Any, columns: Mapping[Slot, Any]) -> bool:
        return True

    def __repr__(self) -> str:
        return "anything"


def has_no_value(leaf: Affine) -> bool:
    """Whether the entry takes no value with positive probability.

    A quotient x / y is c just where x - cy = 0. If draws occur in x and y in different proportions, some draw is in
    x - cy, whatever c is.
    """
    if has_no_atoms(leaf.terms):
        return True
    if len(leaf.terms) != 1 or not leaf.functions or (quotient := leaf.functions[0]).function is not QUOTIENT:
        return False
    if len(quotient.expressions) < 2 or any(each.functions for each in quotient.expressions):
        return False
    draws = [symbol for symbol in drawn_in([quotient]) if has_no_atoms([symbol])]
    rows = [[exact(each.terms.get(symbol, 0)) for symbol in draws] for each in quotient.expressions]
    return bool(draws) and len(echelon(rows).pivots) == 2


# ------------------------------------------------------------------------------------------------------------ readings

Guard = tuple[tuple[tuple[int, Fraction], ...], Fraction, Relation]  # a condition on released entries, by their places
Read = Renaming | tuple[type, Any] | str | None  # None: a number as it is; a tuple: the key of a constant; UNREAD
_NEGATED = {Relation.AT_LEAST: Relation.ABOVE, Relation.ABOVE: Relation.AT_LEAST}


@dataclass
class Readings:
    """How each entry was read, by the outline of the output and its place, with what tells when."""

    seen: dict[tuple[object, int], dict[Read, tuple[bool, set[frozenset[Guard]]]]] = field(default_factory=dict)

    @property
    def renamings(self) -> dict[int, dict[Renaming | None, set[frozenset[Guard]]]]:
        """The ways in which numbers are read in other numbers' places, by places, and when each of them is."""
        found: dict[int, dict[Renaming | None, set[frozenset[Guard]]]] = {}
        for (_, place), read in self.seen.items():
            for each, (_, guards) in read.items():
                if not isinstance(each, tuple | str):
                    found.setdefault(place, {}).setdefault(each, set()).update(guards)
        return {place: ways for place, ways in found.items() if ways.keys() != {None}}

    def note(self, outline: object, place: int, read: Read, continuous: bool, guards: frozenset[Guard]) -> None:
        """That the entry was read so on a path whose outputs satisfy the guards; NotExact where another one clashes."""
        known = self.seen.setdefault((outline, place), {})
        mine = known.setdefault(read, (continuous, set()))
        if guards in mine[1]:
            return
        mine[1].add(guards)
        for other, (others_continuous, theirs) in known.items():
            if not _clash(read, continuous, other, others_continuous):
                continue
            if not all(_exclude(guards, each) for each in theirs):
                raise NotExact("an entry of the output is computed by different functions on different paths or inputs")

    def take(self, other: Readings) -> None:
        """Note all that the other has noted."""
        for (outline, place), ways in other.seen.items():
            for read, (continuous, every) in ways.items():
                for guards in every:
                    self.note(outline, place, read, continuous, guards)

    def shown(self, event: ExactEvent) -> ExactEvent:
        """The event in terms of the outputs themselves."""
        renamings = self.renamings
        if not renamings and not self.leaves_unread:
            return event
        within = tuple(_shown(renamings, entry, spans) for entry, spans in event.within)
        untied = [tie for ties in event.untied if not _are_constants(ties) for tie in ties]
        if any(place in renamings for tie in (*event.tied, *untied) for place, _ in tie.entry.terms):
            raise NotExact("the event that shows the loss ties several numbers that functions were applied to")
        template = event.template and self._with_patterns(event.template, renamings)
        return replace(event, template=template, within=within, either=tuple(map(self.shown, event.either)))

    @property
    def leaves_unread(self) -> bool:
        """Whether outputs are taken together, so that what is computed of them is a lower bound."""
        ways = [way for read in self.seen.values() for way in read]
        return any(way == UNREAD or (isinstance(way, WrittenRenaming) and way.others) for way in ways)

    def _with_patterns(self, template: Template, renamings: Ways) -> Template:
        """The template with texts where numbers in them are read, and what outputs have that are taken together."""
        leaves: list[Any] = list(template.leaves)
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, Slot):
                leaves[place] = next((w for w in renamings.get(place, ()) if isinstance(w, LeafPattern)), leaf)
            elif leaf in (UNREAD, ANYTHING):
                leaves[place] = self._others(place) if leaf == UNREAD else AnyLeaf()
        return Template(_with_leaves(template.tree, iter(leaves)))

    def _others(self, place: int) -> LeafPattern:
        read = [how for (_, where), ways in self.seen.items() if where == place for how in ways]
        constants = [how[1] for how in read if isinstance(how, tuple) and is_finite_number(how[1])]
        return OtherNumbers(frozenset(map(float, constants)))


def _are_constants(ties: Sequence[Tie]) -> bool:
    """Whether they say which constants other outputs have in place of single entries: that is said of outputs."""
    return all(not tie.step and len(tie.entry.terms) == 1 and tie.entry.terms[0][1] == 1 for tie in ties)


Ways = Mapping[int, Mapping[Renaming | None, set[frozenset[Guard]]]]


def _shown(renamings: Ways, entry: LinearEntry, spans: Spans) -> tuple[LinearEntry, Spans]:
    renamed = [place for place, _ in entry.terms if place in renamings]
    if not renamed:
        return entry, spans
    if len(entry.terms) > 1:
        raise NotExact("the event that shows the loss ties several numbers that functions were applied to")
    ((place, factor),) = entry.terms
    if factor != 1:  # the number itself lies where its multiple lies, divided by the factor
        entry = replace(entry, terms=((place, 1.0),))
        spans = tuple(NumberSpan(*sorted((span.low / factor, span.high / factor))) for span in spans)
    ways = renamings[renamed[0]]
    told = [(entry, spans) if way is None else way.shown(entry, spans) for way in ways]
    if len(told) == 1:
        return told[0]
    if any(other != spans for _, other in told):
        raise NotExact("the event that shows the loss is about a number to which different functions were applied")
    options = zip((each for each, _ in told), map(tuple, ways.values()), strict=True)
    return GuardedEntry(entry.terms, entry.names, tuple(options)), spans


def _with_leaves(tree: Any, leaves: Iterator[Any]) -> Any:
    return type(tree)(_with_leaves(part, leaves) for part in tree) if isinstance(tree, tuple) else next(leaves)


@dataclass(frozen=True)
class GuardedEntry(LinearEntry):
    """A number that released entries tell in one way or another, each where one of its guards holds."""

    options: tuple[tuple[LinearEntry, tuple[frozenset[Guard], ...]], ...]

    def value(self, shown: Template, columns: Mapping[Slot, Any]) -> Any:
        found: Any = math.nan
        for entry, guards in self.options:
            number = entry.value(shown, columns)
            if number is None:
                return None
            for each in guards:
                found = np.where(_holds(each, shown, columns), number, found)
        return found

    def __str__(self) -> str:
        return f"the number that {self.names[0]} was computed from"


def _holds(guards: frozenset[Guard], shown: Template, columns: Mapping[Slot, Any]) -> Any:
    holds: Any = True
    for form, constant, relation in guards:
        slack = LinearEntry(tuple((place, float(c)) for place, c in form), ()).value(shown, columns)
        holds = holds & relation.holds(slack + float(constant)) if slack is not None else False
    return holds


def _clash(one: Read, continuous: bool, other: Read, others_continuous: bool) -> bool:
    if isinstance(one, tuple) or isinstance(other, tuple):
        if isinstance(one, Renaming) and isinstance(other, tuple):
            return one.clashes(other[1], continuous)
        return isinstance(other, Renaming) and isinstance(one, tuple) and other.clashes(one[1], others_continuous)
    return one != other


def _exclude(one: frozenset[Guard], other: frozenset[Guard]) -> bool:
    """Whether no output satisfies both."""
    opposite = {(tuple((p, -c) for p, c in form), -constant, _NEGATED[relation]) for form, constant, relation in other}
    return not opposite.isdisjoint(one)


def guards_of(conditions: Sequence[Condition], released: Mapping[int, Affine]) -> frozenset[Guard]:
    """What conditions say of the entries that are released as they are."""
    found = set()
    for condition in conditions:
        told = follows_from(condition.slack, released) if condition.relation in _NEGATED else None
        if told is not None:
            form, constant = told
            scale = abs(form[0][1])
            found.add((tuple((place, c / scale) for place, c in form), constant / scale, condition.relation))
    return frozenset(found)


def follows_from(
    expression: Affine, released: Mapping[int, Affine]
) -> tuple[tuple[tuple[int, Fraction], ...], Fraction] | None:
    """The expression as a combination of released entries, by their places, and a constant; None where it is none."""
    places = [place for place, entry in released.items() if not set(entry.terms).isdisjoint(expression.terms)]
    columns = [*(released[place] for place in places), expression]
    symbols = list(dict.fromkeys(symbol for column in columns for symbol in column.terms))
    if not places or not set(expression.terms) <= {s for place in places for s in released[place].terms}:
        return None
    reduced = echelon([[exact(column.terms.get(symbol, 0)) for column in columns] for symbol in symbols])
    if reduced.pivots[-1] == len(places):
        return None
    form = {places[at]: Fraction(row[-1]) for at, row in zip(reduced.pivots, reduced.rows, strict=True) if row[-1]}
    rest = Fraction(expression.constant) - sum(Fraction(released[p].constant) * c for p, c in form.items())
    return tuple(sorted(form.items())), rest


def following(
    leaf: Affine, released: Mapping[int, Affine], names: Sequence[str]
) -> Iterator[tuple[Affine, FollowingRenaming]]:
    """The argument that a released product or quotient tells, where the other one follows from released entries."""
    (function,), (factor,) = leaf.functions, leaf.terms.values()
    if function.function not in (PRODUCT, QUOTIENT) or len(function.expressions) < 2:
        return
    for other, argument in ((1, 0), (0, 1)):
        known, read = function.arguments[other], function.arguments[argument]
        told = follows_from(known, released) if known.continuous and not read.functions else None
        if told is not None and read.continuous:
            form, offset = told
            entry = LinearEntry(tuple((p, float(c)) for p, c in form), tuple(names[p] for p, _ in form))
            product = function.function is PRODUCT
            operation = "x * k" if product else "x / k" if other else "k / x"
            yield read, FollowingRenaming(operation, factor, leaf.constant, entry, offset)
