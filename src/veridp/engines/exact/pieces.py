"""From the paths of a mechanism to pieces of its output's distribution."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from operator import itemgetter
from typing import Any

from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.feasibility import has_room
from veridp.kernel.output import Kind, Slot, Template, leaf_key, leaf_names
from veridp.kernel.path import Path, entries_of, kind_of_expression, outline_of, symbols_of
from veridp.kernel.returned import constant, tree_of
from veridp.kernel.symbols import Noise, Relation, Symbol, drawn_in
from veridp.numerics.components import components
from veridp.numerics.rational import echelon

# -------------------------------------------------------------------------------------------------------------- pieces
# From the paths of a mechanism to pieces of its output's law: what is independent is taken apart.
#
# A *piece* is one way to an output: conditions on noise, and the numeric entries as expressions in it. Pieces with the
# same constants form a *class* of outputs. A *factor* is a part of the output that is independent of the rest.


MOST_PIECES = 200_000
Relations = tuple[tuple[tuple[Number, ...], Number], ...]
Grids = tuple[tuple[tuple[Number, ...], Number, Number], ...]
Leaf = Any  # a constant, an Affine, or (while deferred) a Condition or a Select
Groups = tuple[tuple[int, ...], ...]  # of leaves, by their places


@dataclass(frozen=True, eq=False)
class DistributionPiece:
    """One way to an output of a class: a weight, conditions, and the expressions of the numeric entries."""

    weight: Number
    conditions: tuple[Condition, ...]
    numbers: tuple[Affine, ...]

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        found = {s for c in self.conditions for s in c.slack.terms} | {s for n in self.numbers for s in n.terms}
        return tuple(sorted(symbol for symbol in found if isinstance(symbol, Noise)))

    @cached_property
    def key(self) -> tuple[Number, tuple[object, ...], tuple[object, ...]]:
        """What tells it from other pieces: equal pieces have equal keys."""
        return (
            self.weight,
            tuple((c.relation, expression_key(c.slack)) for c in self.conditions),
            tuple(expression_key(number) for number in self.numbers),
        )


def expression_key(expression: Affine) -> object:
    return expression.constant, tuple(sorted(expression.terms.items(), key=itemgetter(0)))


@dataclass(frozen=True)
class ClassKey:
    """What the outputs of a class have in common: the template, and the relations that their numbers keep.

    A relation is a linear combination of the numeric entries that carries no noise, with its value; a lattice is the
    remainder of an entry that moves in whole steps; a grid is a combination of other entries that only integer noise
    moves, with its step and its remainder.
    """

    template: Template
    relations: Relations = ()
    lattices: tuple[Number | None, ...] = ()
    free: tuple[int, ...] = ()  # the numeric entries that no relation gives
    grids: Grids = ()

    def __hash__(self) -> int:
        return hash((self.template, self.relations))


@dataclass(frozen=True, eq=False)
class Factor:
    """A part of the output, independent of the rest: the pieces of each class."""

    positions: tuple[int, ...] | None  # which leaves of the output it tells; None for the whole output
    classes: dict[ClassKey, list[DistributionPiece]]
    outline: Template | None = None  # of the whole output, where this is a part of it: a slot for each leaf
    alike: Groups = ()  # groups of its leaves; a class holds whatever puts the values within a group in another order

    @property
    def names(self) -> tuple[str, ...]:
        """The leaves of the whole output as Python would reach them, where this is a part of it."""
        return () if self.outline is None else leaf_names(self.outline.tree)


def factors(paths: Iterable[Path], split: bool = True, alike: Groups = ()) -> list[Factor]:
    """The law of the output as independent factors: where a single path decides nothing these may be several.

    Each path is let go when it has been read. Leaves of a single path that are `alike` are not told apart.
    """
    remaining = iter(paths)
    first = list(itertools.islice(remaining, 2))
    if len(first) == 1 and split:
        return _split(first[0], alike)
    every = itertools.chain(first, remaining)
    classes = _by_class(((path.output, path.weight, path.conditions) for path in every), alike)
    if not alike:
        return [Factor(None, classes)]
    places = outline_of(first[0].output).places  # keys of a dict count among its leaves
    return [Factor(None, classes, alike=tuple(tuple(places[k] for k in group) for group in alike))]


def _split(path: Path, alike: Groups) -> list[Factor]:
    """The path's leaves, grouped by the noise that they share."""
    leaves = entries_of(path.output)
    groups = components([*map(symbols_of, leaves), *(condition.slack.terms for condition in path.conditions)])
    if len(groups) == 1 or not leaves:
        return factors([path], split=False, alike=alike)
    answer: list[Factor] = []
    outline = outline_of(path.output)
    for group in groups:
        positions = [k for k in group if k < len(leaves)]
        conditions = [path.conditions[k - len(leaves)] for k in group if k >= len(leaves)]
        chosen = tuple(leaves[position] for position in positions)
        together = [[positions.index(place) for place in each if place in positions] for each in alike]
        here = tuple(tuple(each) for each in together if len(each) > 1)
        classes = _by_class([(chosen, path.weight if not answer else 1, conditions)], here)
        places = tuple(outline.places[position] for position in positions)  # keys of a dict count among its leaves
        answer.append(Factor(places, classes, outline, here))
    return answer


def leaves_alike(left: Path, right: Path) -> Groups:
    """Groups of undecided leaves that can be exchanged, on either side, without a change of the output's law.

    They ask the same of noise that they share with others, and of noise of their own that is distributed alike. So
    outputs that have the same values in another order are equally likely, and only how often each value occurs counts.
    """
    if outline_of(left.output) != outline_of(right.output):
        return ()
    groups: dict[object, list[int]] = {}
    sides = [_forms_of_leaves(path) for path in (left, right)]
    for place, forms in enumerate(zip(*sides, strict=True)):
        if None not in forms:
            groups.setdefault(forms, []).append(place)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _forms_of_leaves(path: Path) -> list[object | None]:
    """What each leaf asks, with its own noise named by order and distribution; None for one of another kind."""
    leaves = entries_of(path.output)
    named: Counter[Symbol] = Counter(symbol for leaf in leaves for symbol in set(symbols_of(leaf)))
    named.update(symbol for condition in path.conditions for symbol in set(drawn_in(condition.slack.terms)))
    return [_form_of_leaf(leaf, [s for s in symbols_of(leaf) if named[s] == 1]) for leaf in leaves]


def _form_of_leaf(leaf: Leaf, own: Sequence[Symbol]) -> object | None:
    values: tuple[Any, ...] = (True, False)
    if isinstance(leaf, Select):
        leaf, values = leaf.condition, (leaf.then, leaf.other)
    if not isinstance(leaf, Condition) or any(isinstance(value, Affine | Condition | Select) for value in values):
        return None
    if leaf.relation not in (Relation.AT_LEAST, Relation.ABOVE) or leaf.slack.functions:
        return None
    mine = sorted(symbol for symbol in own if isinstance(symbol, Noise))
    names: dict[Symbol, object] = {noise: (rank, noise.distribution) for rank, noise in enumerate(mine)}
    terms = frozenset((names.get(symbol, symbol), coefficient) for symbol, coefficient in leaf.slack.terms.items())
    return leaf.relation, leaf.slack.constant, terms, tuple(leaf_key(constant(value)) for value in values)


# ----------------------------------------------------------------------------------- deciding what was deferred


def _expanded(
    leaves: Sequence[Leaf], given: Iterable[Condition], alike: Groups = ()
) -> list[tuple[tuple[Condition, ...], list[Leaf]]]:
    """Every way to decide the leaves, with the conditions that lead there; of leaves alike, in one order alone."""
    before = {place: group[k] for group in alike for k, place in enumerate(group[1:])}
    ways: list[tuple[tuple[Condition, ...], list[Leaf]]] = [(tuple(given), [])]
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, Condition | Select):
            for _, values in ways:
                values.append(leaf)
            continue
        options = list(_ways(leaf))
        last = leaf_key(constant(options[-1][1])) if place in before else None
        ways = [
            ((*conditions, *more), [*values, value])
            for conditions, values in ways
            for more, value in options
            if last is None or leaf_key(constant(values[before[place]])) != last or leaf_key(constant(value)) == last
            if has_room(conditions, more)
        ]
        if len(ways) > MOST_PIECES:
            raise NotExact(f"the output can be decided in more than {MOST_PIECES} ways; use an engine that samples")
    return ways


def _decided(condition: Condition) -> Iterator[tuple[tuple[Condition, ...], bool]]:
    """The ways to decide a condition, as inequalities and equations: what is unequal is above or below."""
    if condition.relation in (Relation.AT_LEAST, Relation.ABOVE):
        yield (condition,), True
        yield (condition.negated(),), False
        return
    slack, equal = condition.slack, condition.relation is Relation.EQUAL
    if slack.continuous:
        yield (), not equal  # equality has probability 0
        return
    yield (Condition(slack, Relation.EQUAL),), equal
    yield (Condition(slack, Relation.ABOVE),), not equal
    yield (Condition(-slack, Relation.ABOVE),), not equal


def _ways(leaf: Leaf) -> Iterator[tuple[tuple[Condition, ...], Leaf]]:
    if isinstance(leaf, Condition):
        yield from _decided(leaf)
    elif isinstance(leaf, Select):
        for conditions, truth in _ways(leaf.condition):
            for more, value in _ways(leaf.then if truth else leaf.other):
                if has_room(conditions, more):
                    yield (*conditions, *more), value
    else:
        yield (), leaf


# ----------------------------------------------------------------------------------------------------------- classes


def _by_class(
    ways: Iterable[tuple[Any, Number, Iterable[Condition]]], alike: Groups = ()
) -> dict[ClassKey, list[DistributionPiece]]:
    """The classes of outputs, each of which its conditions lead to with its weight.

    Of outputs that differ in the order of leaves alike, one stands for all, with a weight of as many.
    """
    classes: dict[ClassKey, list[DistributionPiece]] = {}
    for output, weight, conditions in ways:
        reading = _Reading(output)
        if not reading.deferred:
            classes.setdefault(reading.key, []).append(DistributionPiece(weight, tuple(conditions), reading.free))
            continue
        for more, values in _expanded(entries_of(output), conditions, alike):
            reading = _Reading(output, values)
            times = math.prod(_orders([values[place] for place in group]) for group in alike)
            classes.setdefault(reading.key, []).append(DistributionPiece(weight * times, more, reading.free))
    return classes


def _orders(values: Sequence[Leaf]) -> int:
    """In how many orders these values can stand, of which there are two at most."""
    first = leaf_key(constant(values[0]))
    return math.comb(len(values), sum(leaf_key(constant(value)) == first for value in values))


class _Reading:
    """An output, read leaf by leaf; its leaves may be given, where those of the output are yet to be decided."""

    def __init__(self, output: Any, leaves: Iterable[Leaf] | None = None) -> None:
        self.numbers: list[Affine] = []
        self.deferred = False
        self._given = None if leaves is None else iter(leaves)
        self.tree = tree_of(output, self._leaf, kind_of_expression)

    def _leaf(self, value: Leaf, _: Kind) -> Any:
        if self._given is not None:
            value = next(self._given)
        if isinstance(value, Affine):
            self.numbers.append(value)
            return _slot(len(self.numbers) - 1)
        if isinstance(value, Condition | Select):
            self.deferred = True
            return None
        return constant(value)

    @cached_property
    def _relations(self) -> tuple[list[int], Relations]:
        return _relations(self.numbers)

    @property
    def key(self) -> ClassKey:
        """The class of the output."""
        independent, relations = self._relations
        lattices = tuple([_lattice(number) for number in self.numbers])
        return ClassKey(Template(self.tree), relations, lattices, tuple(independent), grids(self.numbers))

    @property
    def free(self) -> tuple[Affine, ...]:
        """Those of its numeric entries that no relation gives."""
        return tuple([self.numbers[index] for index in self._relations[0]])


@cache
def _slot(index: int) -> Slot:
    return Slot(Kind.FLOAT, index)


def _lattice(number: Affine) -> Number | None:
    """For an entry that only integer noise moves, its remainder modulo 1; None for a continuous one."""
    if number.continuous:
        return None
    if any(coefficient.denominator != 1 for coefficient in number.terms.values()):
        raise NotExact("an output entry scales integer noise by a fraction; scale it after the release instead")
    return exact(number.constant % 1)


def _relations(numbers: Sequence[Affine]) -> tuple[list[int], Relations]:
    """Which entries are free, and how the others follow from them (by elimination over the rationals)."""
    names = [symbol for number in numbers for symbol in number.terms]
    if len(set(names)) == len(names):
        return list(range(len(numbers))), ()
    free, dependent = _dependent(numbers, dict.fromkeys(names))
    return free, tuple((made, combined(numbers, made).constant) for made in dependent)


def grids(numbers: Sequence[Affine]) -> Grids:
    """The combinations of continuous entries in which all continuous noise cancels, and only integer noise is left."""
    noises = [symbol for number in numbers if number.continuous for symbol in number.terms]
    inner = dict.fromkeys(s for s in noises if not (isinstance(s, Noise) and s.distribution.integer))
    if len(inner) == len(noises) or len(set(noises)) == len(noises):
        return ()
    found = []
    for made in _dependent(numbers, inner)[1]:
        number = combined(numbers, made)
        if number.terms and any(factor and n.continuous for factor, n in zip(made, numbers, strict=True)):
            step = common_step(number)
            found.append((made, step, exact(number.constant % step)))
    return tuple(found)


def _dependent(numbers: Sequence[Affine], symbols: Iterable[Symbol]) -> tuple[list[int], list[tuple[Number, ...]]]:
    """Which numbers are independent as far as these symbols go, and the combinations in which they all cancel."""
    found = echelon([[number.terms.get(symbol, 0) for number in numbers] for symbol in symbols])
    cancelling = []
    for index in sorted({*range(len(numbers))}.difference(found.pivots)):
        made = [Fraction(int(k == index)) for k in range(len(numbers))]
        for row, pivot in zip(found.rows, found.pivots, strict=True):
            made[pivot] = -row[index]
        cancelling.append(tuple([exact(factor) for factor in made]))
    return found.pivots, cancelling


def numbers_of(key: ClassKey, piece: DistributionPiece) -> list[Affine]:
    """The numeric entries of outputs of the class, the free ones and those that follow from them."""
    found: dict[int, Affine] = dict(zip(key.free, piece.numbers, strict=True))
    for made, value in key.relations:  # the last entry of a relation follows from free ones before it
        *before, last = [index for index, factor in enumerate(made) if factor]
        lead = -1 / Fraction(made[last])
        known = [found[index] for index in before]
        found[last] = combined(known, [lead * made[index] for index in before]) - exact(lead * value)
    return [found[index] for index in range(len(found))]


def combined(numbers: Sequence[Affine], factors_: Sequence[Number]) -> Affine:
    """The linear combination of the numbers."""
    constant = sum((f * Fraction(n.constant) for f, n in zip(factors_, numbers, strict=True)), start=Fraction(0))
    terms: dict[Symbol, Number] = {}
    for factor, number in zip(factors_, numbers, strict=True):
        for symbol, coefficient in number.terms.items() if factor else ():
            terms[symbol] = terms.get(symbol, 0) + factor * Fraction(coefficient)
    return Affine(exact(constant), {symbol: exact(c) for symbol, c in terms.items() if c})


def common_step(number: Affine) -> Fraction:
    """The largest step of which all steps of an expression in integer noise are multiples."""
    steps = [abs(Fraction(c)) for c in number.terms.values()]
    shared = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * shared) for step in steps)), shared)


# ---------------------------------------------------------------------------------------------------------------- sums
# Draws that only their sum concerns, taken together as one draw of a known distribution.
#
# `x + rng.normal() + rng.normal()` is one normal draw, and a sum of like Laplace draws has a density in closed form.
# What
# is taken together needs no convolution.


MOST_TOGETHER = 60  # draws: the density of so many Laplace draws has as many terms


def collapsed(piece: DistributionPiece) -> DistributionPiece:
    """The piece with like draws that it names in one proportion only taken together."""
    if len(piece.noises) < 2:
        return piece
    expressions = [*piece.numbers, *(condition.slack for condition in piece.conditions)]
    alike: dict[object, list[_Draw]] = {}
    for draw in _draws(expressions):
        if (key := draw.noise.distribution.sum_key(draw.lead)) is not None:
            alike.setdefault((key, draw.shares), []).append(draw)
    sums = [draws for draws in alike.values() if 1 < len(draws) <= MOST_TOGETHER]
    if not sums:
        return piece
    for draws in sums:
        first = draws[0].noise
        total, factor = first.distribution.sum_of([(draw.noise.distribution, draw.lead) for draw in draws])
        noise = Noise(first.index, total, first.site)
        gone = {draw.noise for draw in draws}
        for place, share in draws[0].shares:
            terms = {symbol: c for symbol, c in expressions[place].terms.items() if symbol not in gone}
            expressions[place] = Affine(expressions[place].constant, {**terms, noise: exact(factor * share)})
    numbers, slacks = expressions[: len(piece.numbers)], expressions[len(piece.numbers) :]
    conditions = [Condition(slack, c.relation) for slack, c in zip(slacks, piece.conditions, strict=True)]
    return DistributionPiece(piece.weight, tuple(conditions), tuple(numbers))


@dataclass(frozen=True)
class _Draw:
    """A draw: its factor in the first expression that names it, and its share in each, relative to the first."""

    noise: Noise
    lead: Number
    shares: tuple[tuple[int, Fraction], ...]


def _draws(expressions: Sequence[Affine]) -> list[_Draw]:
    factors: dict[Noise, list[tuple[int, Number]]] = {}
    for place, expression in enumerate(expressions):
        for symbol, factor in expression.terms.items():
            if isinstance(symbol, Noise):
                factors.setdefault(symbol, []).append((place, factor))
    return [
        _Draw(noise, named[0][1], tuple((place, Fraction(factor) / named[0][1]) for place, factor in named))
        for noise, named in factors.items()
    ]


# ------------------------------------------------------------ pieces that are the same but for the names of their noise

REFINEMENTS = 4  # of refinement; more only if something still changes


def alike(pieces: Sequence[DistributionPiece]) -> list[list[int]]:
    """The places of the pieces of each kind: those that are the same have the same density."""
    if len(pieces) == 1:
        return [[0]]
    kinds: dict[object, list[int]] = {}
    numbers: dict[object, int] = {}
    for place, piece in enumerate(pieces):
        form = canonical(piece, numbers)
        kinds.setdefault(("alone", place) if form is None else form, []).append(place)
    return list(kinds.values())


def canonical(piece: DistributionPiece, numbers: dict[object, int]) -> object | None:
    """What the piece is but for the names of its noise; None where this cannot be told for certain.

    `numbers` numbers the colours that occur, and must be the same for all pieces that are compared.

    Noise and expressions are coloured by what they are and by the colours around them, again and again. Where
    expressions link noise in a forest, equal colourings mean that the pieces are the same (colour refinement tells
    trees apart); where they go in circles this need not hold, so nothing is said.
    """
    expressions: list[tuple[tuple[str, object], Affine]] = []
    expressions += [(("number", place), number) for place, number in enumerate(piece.numbers)]
    expressions += [(("condition", 0 if c.slack.continuous else c.relation.value), c.slack) for c in piece.conditions]
    if not _is_forest([expression for _, expression in expressions]):
        return None
    colours: dict[Symbol, object] = {noise: noise.distribution for noise in piece.noises}
    for _ in range(max(REFINEMENTS, len(colours))):
        seen: dict[Symbol, list[object]] = {noise: [] for noise in colours}
        for label, expression in expressions:
            around = _colour(expression, colours)
            for symbol, coefficient in expression.terms.items():
                seen[symbol].append((label, coefficient, around))
        refined = {noise: _numbered((colours[noise], _multiset(seen[noise])), numbers) for noise in colours}
        if len(set(refined.values())) == len(set(colours.values())):
            break
        colours = dict(refined)
    final = [(label, _colour(expression, colours)) for label, expression in expressions]
    return piece.weight, _multiset(final), _multiset(list(colours.values()))


def _colour(expression: Affine, colours: dict[Symbol, object]) -> object:
    return expression.constant, _multiset([(c, colours[symbol]) for symbol, c in expression.terms.items()])


def _numbered(colour: object, numbers: dict[object, int]) -> int:
    return numbers.setdefault(colour, len(numbers))


def _multiset(items: Sequence[object]) -> object:
    return frozenset(Counter(items).items())


def _is_forest(expressions: Sequence[Affine]) -> bool:
    """Whether noise and expressions, joined where an expression names a noise, make no circle."""
    links = [expression.terms for expression in expressions]
    points = len(links) + len({symbol for terms in links for symbol in terms})
    return sum(map(len, links)) == points - len(components(links))
