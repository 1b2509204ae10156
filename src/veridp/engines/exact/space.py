"""From the paths on two inputs to the loss over the outputs that they share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veridp.budget import check
from veridp.engines.exact.entry_loss import Numbers, along
from veridp.engines.exact.event import ExactEvent, LinearEntry, Tie
from veridp.engines.exact.joint_loss import JointLoss, product
from veridp.engines.exact.loss import Atom, Mixture, PrivacyLoss
from veridp.engines.exact.masses import ClassShare, Masses
from veridp.engines.exact.measure import Component, Kinds, Splitter, kind_of
from veridp.engines.exact.overlap import check_disjoint, fitting, without_overlap
from veridp.engines.exact.pieces import (
    ClassKey,
    DistributionPiece,
    Factor,
    collapsed,
    combined,
    common_step,
    factors,
    grids,
)
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine
from veridp.kernel.output import Slot, leaf_key, leaf_names
from veridp.kernel.path import Path
from veridp.kernel.symbols import Symbol
from veridp.numerics.components import components
from veridp.numerics.rational import echelon

Combination = tuple[Number, ...]
CERTAIN = ClassShare(1, ())


def loss_between(left: Sequence[Path], right: Sequence[Path]) -> PrivacyLoss:
    """The loss over the outputs of two lists of paths."""
    return loss_of_factors(*shared_factors(left, right))


def shared_factors(left: Sequence[Path], right: Sequence[Path]) -> tuple[list[Factor], list[Factor]]:
    """The factors of two lists of paths, taken apart in the same way."""
    mine, theirs = factors(left), factors(right)
    if not in_step(mine, theirs):
        mine, theirs = factors(left, split=False), factors(right, split=False)
    return mine, theirs


def in_step(left: Sequence[Factor], right: Sequence[Factor]) -> bool:
    """Whether two outputs fall apart in the same way."""
    return [(part.positions, part.outline) for part in left] == [(part.positions, part.outline) for part in right]


def loss_of_factors(mine: Sequence[Factor], theirs: Sequence[Factor]) -> PrivacyLoss:
    """The loss over outputs that fall apart in the same way on either side."""
    space = _Space()
    parts = tuple(space.factor_loss(a, b) for a, b in zip(mine, theirs, strict=True))
    return product(parts)


class _Space:
    """Builds the loss, and remembers the numeric parts that it has built: classes often share them."""

    def __init__(self) -> None:
        self.numeric: dict[Hashable, PrivacyLoss] = {}
        self.separated: dict[Hashable, _Separated] = {}
        self.masses = Masses()
        kinds: Kinds = {}
        self.left, self.right = Splitter(kinds), Splitter(kinds)

    def factor_loss(self, left: Factor, right: Factor) -> PrivacyLoss:
        mine, theirs = without_overlap(left.classes, right.classes), without_overlap(right.classes, left.classes)
        check_disjoint(mine, theirs)
        keys = list(dict.fromkeys([*mine, *theirs]))
        shared = _classes(keys, left)
        plans = [self._plan(each, mine.get(each.key, []), theirs.get(each.key, [])) for each in shared]
        masses = self.masses.logs([side for plan in plans for side in (plan.left, plan.right)])
        parts = [plan.loss(*pair) for plan, pair in zip(plans, batched(masses), strict=True)]
        return parts[0] if len(parts) == 1 else Mixture(tuple(parts))

    def _plan(self, shared: _Class, left: list[DistributionPiece], right: list[DistributionPiece]) -> _Plan:
        check()
        count = len(shared.key.free)
        if not count or not left or not right:
            return _Plan(shared, self._shares(left, self.left), self._shares(right, self.right))
        if len(left) == len(right) == 1:
            return self._separated(shared, left[0], right[0])
        plain = [_unit(count, index, 1) for index in range(count)]
        kind = tuple(piece.key for piece in left), tuple(piece.key for piece in right)
        return _Plan(shared, [CERTAIN], [CERTAIN], (self._numeric_loss(shared, plain, kind, left, right),))

    def _shares(self, pieces: Sequence[DistributionPiece], splitter: Splitter) -> list[ClassShare]:
        return [self.masses.share(piece.weight, splitter.split(piece.conditions)) for piece in pieces]

    def _numeric_loss(
        self,
        shared: _Class,
        combinations: Sequence[Combination],
        kind: Hashable,
        left: Sequence[DistributionPiece],
        right: Sequence[DistributionPiece],
    ) -> PrivacyLoss:
        """The loss over combinations of the entries; where it is of a kind that is known, that loss."""
        entries = tuple(shared.entry(combination) for combination in combinations)
        if (entries, kind) not in self.numeric:
            sides = Numbers(tuple(map(collapsed, left))), Numbers(tuple(map(collapsed, right)))
            several = len(entries) > 1
            if several and not _on_one_lattice((*left, *right)):
                raise NotExact("integers that depend on other numbers of the output have no exact loss here")
            self.numeric[entries, kind] = (
                JointLoss(entries, *sides) if several else along(entries[0], *sides, _lattice(left, right))
            )
        return self.numeric[entries, kind]

    def _separated(self, shared: _Class, left: DistributionPiece, right: DistributionPiece) -> _Plan:
        """The loss of two pieces, as a product over those of their entries that no noise ties together.

        Paths that differ in what concerns no entry have the same numeric parts, made of the same objects: these are
        built once.
        """
        mine = Concerned.of(left, self.left.split(left.conditions))
        theirs = Concerned.of(right, self.right.split(right.conditions))
        key = (shared.slots, *map(id, mine.objects), None, *map(id, theirs.objects))
        known = self.separated.get(key)
        if known is None:
            known = self.separated[key] = _Separated(mine, theirs, self._numeric_parts(shared, mine, theirs))
        left_share, right_share = (
            self.masses.share(left.weight, mine.rest),
            self.masses.share(right.weight, theirs.rest),
        )
        return _Plan(shared, [left_share], [right_share], known.parts)

    def _numeric_parts(self, shared: _Class, left: Concerned, right: Concerned) -> tuple[PrivacyLoss, ...]:
        """The losses of the groups of entries that hang together.

        The entries are first combined so that each carries as little noise as possible: a change of coordinates that
        both sides share leaves the loss as it is.
        """
        apart = taken_apart(left, right)
        return tuple(
            self._numeric_loss(
                shared, [apart.combinations[entry] for entry in group.entries], group.kind, [group.left], [group.right]
            )
            for group in apart.groups
        )


def batched(values: Sequence[float]) -> list[tuple[float, float]]:
    """The values two by two."""
    return list(zip(values[::2], values[1::2], strict=True))


@dataclass(frozen=True, eq=False)
class _Plan:
    """A class whose loss is known but for the probabilities of two lists of pieces."""

    shared: _Class
    left: list[ClassShare]
    right: list[ClassShare]
    numeric: tuple[PrivacyLoss, ...] = ()

    def loss(self, log_left: float, log_right: float) -> PrivacyLoss:
        atom = Atom(self.shared.event(), log_left, log_right)
        return product((atom, *self.numeric)) if self.numeric else atom


def _classes(keys: Sequence[ClassKey], factor: Factor) -> list[_Class]:
    """The classes, each with those that its outputs might be taken for."""
    alike: dict[Hashable, list[ClassKey]] = {}
    for key in keys:
        alike.setdefault(key.template, []).append(key)
    near = fitting(keys)
    return [
        _Class(key, factor, tuple(o for o in alike[key.template] if o != key), tuple(near.get(key, {}).values()))
        for key in keys
    ]


@dataclass(frozen=True, eq=False)
class _Class:
    """A class of outputs, and how its leaves stand in the whole output."""

    key: ClassKey
    factor: Factor
    others: tuple[ClassKey, ...] = ()  # classes whose outputs have the same form, and differ in how numbers are tied
    constants: tuple[Mapping[int, Number], ...] = ()  # what classes that fit the form have in place of its numbers

    def event(self) -> ExactEvent:
        positions, leaves = self.factor.positions, self.key.template.leaves
        groups = [g for g in self.factor.alike if len({leaf_key(leaves[place]) for place in g}) > 1]
        tied, untied = self._telling_ties()
        if positions is None:
            return ExactEvent(template=self.key.template, any_order=tuple(groups), tied=tied, untied=untied)
        constants = [(positions[place], leaf) for place, leaf in enumerate(leaves) if not isinstance(leaf, Slot)]
        return ExactEvent(
            equal=tuple((self._name(place), place, leaf) for place, leaf in constants),
            any_order=tuple(tuple(positions[place] for place in group) for group in groups),
            tied=tied,
            untied=untied,
        )

    def _telling_ties(self) -> tuple[tuple[Tie, ...], tuple[tuple[Tie, ...], ...]]:
        """The ties that tell outputs of this class from those of others that look alike: kept, and never all kept."""
        apart = [[Tie(self._number(k), value, 0) for k, value in fixed.items()] for fixed in self.constants]
        if not self.others:
            return (), tuple(dict.fromkeys(map(tuple, apart)))
        mine, *theirs = (self._ties(key) for key in (self.key, *self.others))
        tied = tuple(tie for tie in mine if not all(tie in ties for ties in theirs))
        rest = [
            [tie for tie in ties if tie not in mine]
            for ties in theirs
            if not any(tie.excludes(other) for tie in mine for other in ties)
        ]
        return tied, tuple(dict.fromkeys(tuple(ties) for ties in (*rest, *apart) if ties))

    def _ties(self, key: ClassKey) -> tuple[Tie, ...]:
        """What the numbers of a class keep, in terms of the whole output."""
        found = [Tie(_linear_entry(self._slots, made), value, 0) for made, value in key.relations]
        found += [Tie(_linear_entry(self._slots, made), rest, step) for made, step, rest in key.grids]
        lattices = [(k, key.lattices[k]) for k in key.free]
        found += [Tie(self._number(k), remainder, 1) for k, remainder in lattices if remainder is not None]
        return tuple(found)

    def _number(self, index: int) -> LinearEntry:
        """A single numeric entry."""
        return _linear_entry(self._slots[index : index + 1], (1,))

    @cached_property
    def _slots(self) -> tuple[tuple[int, str], ...]:
        """Where the numeric entries stand in the whole output, and what they are called."""
        places, positions = self.key.template.places, self.factor.positions
        found = [places[k] if positions is None else positions[places[k]] for k in range(len(self.key.lattices))]
        return tuple([(place, self._name(place)) for place in found])

    @cached_property
    def slots(self) -> tuple[tuple[int, str], ...]:
        """The same of the free entries."""
        return tuple([self._slots[index] for index in self.key.free])

    def entry(self, combination: Combination) -> LinearEntry:
        """A combination of the free entries."""
        return _linear_entry(self.slots, combination)

    def _name(self, place: int) -> str:
        """What the leaf is called: `output` where it is the whole, `output['n'][2]` within it."""
        names = leaf_names(self.key.template.tree) if self.factor.positions is None else self.factor.names
        return names[place]


def _on_one_lattice(pieces: Sequence[DistributionPiece]) -> bool:
    """Whether each number is continuous, or moves in whole steps with one remainder, and no combination has steps."""
    columns = list(zip(*(piece.numbers for piece in pieces), strict=True))
    alike = [{None if n.continuous else exact(n.constant % 1) for n in column} for column in columns]
    return all(len(kinds) == 1 for kinds in alike) and not any(grids(piece.numbers) for piece in pieces)


def _linear_entry(slots: Sequence[tuple[int, str]], combination: Combination) -> LinearEntry:
    used = [(slot, float(factor)) for slot, factor in zip(slots, combination, strict=True) if factor]
    return LinearEntry(tuple((place, factor) for (place, _), factor in used), tuple(name for (_, name), _ in used))


def _lattice(left: Sequence[DistributionPiece], right: Sequence[DistributionPiece]) -> float | None:
    """The remainder modulo 1 of the only entry, where it moves in whole steps; None for a continuous one."""
    numbers = [piece.numbers[0] for piece in (*left, *right)]
    if all(number.continuous for number in numbers):
        return None
    remainders = {exact(number.constant % 1) for number in numbers}
    whole = all(Fraction(c).denominator == 1 for number in numbers for c in number.terms.values())
    if len(remainders) > 1 or not whole or any(number.continuous for number in numbers):
        raise NotExact("integer noise moves an entry of the output by different steps; use an engine that samples")
    return float(remainders.pop())


# ------------------------------------------------------------------------- taking a piece's numbers apart


class Concerned:
    """The numbers of a piece, and of its components those that concern them and those that do not."""

    def __init__(self, numbers: Sequence[Affine], components: Sequence[Component], rest: Sequence[Component]) -> None:
        self.numbers, self.components, self.rest = numbers, components, rest

    @classmethod
    def of(cls, piece: DistributionPiece, components: Sequence[Component]) -> Concerned:
        symbols = {symbol for number in piece.numbers for symbol in number.terms}
        touched = [component for component in components if not symbols.isdisjoint(component.ranks)]
        return cls(piece.numbers, touched, [component for component in components if component not in touched])

    @property
    def objects(self) -> tuple[object, ...]:
        return *self.numbers, None, *self.components


@dataclass(frozen=True, eq=False)
class _Separated:
    """The numeric parts of a class, and what they were made of: kept, so that its identity stays its own."""

    left: Concerned
    right: Concerned
    parts: tuple[PrivacyLoss, ...]


@dataclass(frozen=True, eq=False)
class Group:
    """Combined entries that noise ties together, on either side of a pair of pieces."""

    entries: tuple[int, ...]
    left_side: _Side
    right_side: _Side

    @property
    def left(self) -> DistributionPiece:
        return self.left_side.concerning(self.entries)

    @property
    def right(self) -> DistributionPiece:
        return self.right_side.concerning(self.entries)

    @property
    def kind(self) -> Hashable:
        """Equal for groups that are the same on either side but for which draws their noise comes from."""
        return self.left_side.kind(self.entries), self.right_side.kind(self.entries)


@dataclass(frozen=True, eq=False)
class Apart:
    """The entries of two pieces of a class, combined, in independent groups."""

    combinations: list[Combination]
    groups: list[Group]


def taken_apart(left: Concerned, right: Concerned) -> Apart:
    """The entries of two pieces, taken apart in the same way: the losses of the groups add up to theirs."""
    combinations = _reduced(left.numbers)
    sides = _Side(left, combinations), _Side(right, combinations)
    return Apart(combinations, [Group(tuple(entries), *sides) for entries in _tied(*sides)])


class _Side:
    """One of two pieces that are taken apart: its combined entries, and for each the components that it touches."""

    def __init__(self, concerned: Concerned, combinations: Sequence[Combination]) -> None:
        self.numbers = [_moving(concerned.numbers, made) for made in combinations]
        self.touched = [
            [c for c in concerned.components if not number.terms.keys().isdisjoint(c.ranks)] for number in self.numbers
        ]

    def symbols(self, entry: int) -> set[Symbol]:
        """The noise that the entry is tied to."""
        return set(self.numbers[entry].terms).union(*(component.ranks for component in self.touched[entry]))

    def _touched_by(self, entries: Sequence[int]) -> Sequence[Component]:
        return list(dict.fromkeys(component for entry in entries for component in self.touched[entry]))

    def concerning(self, entries: Sequence[int]) -> DistributionPiece:
        """What concerns the entries, as a piece with these as its numbers."""
        conditions = [condition for component in self._touched_by(entries) for condition in component.conditions]
        return DistributionPiece(1, tuple(conditions), tuple(self.numbers[entry] for entry in entries))

    def kind(self, entries: Sequence[int]) -> Hashable:
        """Equal where the same concerns the entries, but for which draws the noise comes from."""
        return kind_of(self._touched_by(entries), [self.numbers[entry] for entry in entries])


def _tied(left: _Side, right: _Side) -> list[list[int]]:
    """The entries in groups: those that noise, on either side, ties together."""
    sides = left, right
    named = [[(side, symbol) for side in sides for symbol in side.symbols(entry)] for entry in range(len(left.numbers))]
    return components(named)


def _reduced(numbers: Sequence[Affine]) -> list[Combination]:
    """As many combinations of the numbers, in echelon form: each with a noise of its own.

    Combinations of entries that move in whole steps are whole, so that what they give lies on one lattice.
    """
    count = len(numbers)
    single = {next(iter(number.terms)): k for k, number in enumerate(numbers) if len(number.terms) == 1}
    if len(single) == count:
        found = [_unit(count, single[symbol], numbers[single[symbol]].terms[symbol]) for symbol in sorted(single)]
    else:
        symbols = sorted({symbol for number in numbers for symbol in number.terms})
        rows = [
            [*(n.terms.get(s, 0) for s in symbols), *(int(i == k) for i in range(count))] for k, n in enumerate(numbers)
        ]
        found = [tuple(row[len(symbols) :]) for row in echelon(rows).rows]
    return [_on_lattice(numbers, made) for made in found]


def _on_lattice(numbers: Sequence[Affine], made: Combination) -> Combination:
    """The combination, times what makes its steps whole where only integer noise moves it."""
    number = combined(numbers, made)
    if number.continuous:
        return made
    if any(factor and each.continuous for factor, each in zip(made, numbers, strict=True)):
        times = 1 / common_step(number)
    else:  # entries that move in whole steps themselves
        times = Fraction(math.lcm(*(Fraction(factor).denominator for factor in made)))
    return tuple([exact(factor * times) for factor in made])


def _unit(count: int, index: int, divisor: Number) -> Combination:
    """The combination that takes one of the numbers, divided."""
    return tuple([(1 if divisor == 1 else 1 / Fraction(divisor)) if k == index else 0 for k in range(count)])


def _moving(numbers: Sequence[Affine], factors_: Combination) -> Affine:
    """The combination of the numbers, which has noise."""
    given = [(number, factor) for number, factor in zip(numbers, factors_, strict=True) if factor]
    if len(given) == 1 and given[0][1] == 1:
        return given[0][0]
    total = combined(numbers, factors_)
    if not total.terms:
        raise NotExact("the numeric entries lose their noise when combined; the two inputs give different structures")
    return total
