"""What a search chooses from: pairs of neighbours, and events on their outputs."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Adjacency, Domain, Pair, Patch, is_interval, moving
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.errors import BadInput
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.output import Kind, Slot, Template, leaf_key, leaf_names
from veridp.kernel.path import Path, kind_of_expression, outline_of
from veridp.kernel.returned import constant, tree_of
from veridp.mechanism import Mechanism

# ------------------------------------------------------------------------------------------------------- neighbourhood
# Where pairs come from: patches of a relation, or where it has none, pairs that are drawn and changed.
#
# A domain that is not an interval has no patches; its pairs are drawn, and changed one entry at a time.


Array = NDArray[np.float64]
TRIES = 32  # random mixtures of corners that must be neighbours before their hull is taken as one polytope
MOST_CORNERS = 64  # of a relation of one's own, past which its hull is not used


def patches(mechanism: Mechanism, size: int, domain: Domain) -> list[Patch] | None:
    """The patches that make up the neighbourhood; None where it has no polytope, or the domain is not an interval."""
    if not is_interval(domain):
        return None
    low, high = (float(end) for end in domain)  # type: ignore[arg-type]
    if not low < high:
        raise BadInput(f"domain = {domain!r} is empty; give a pair (low, high) with low < high")
    relation = mechanism.adjacency
    ordered = relation.patches(size, (low, high))
    if ordered is None:
        return _of_corners(relation, size, (low, high))
    return list(_both(_in_orders(ordered) if relation.any_order else ordered))


def _in_orders(ordered: Sequence[Patch]) -> Iterator[Patch]:
    """The patches, also with the right input turned by one, and backwards."""
    yield from ordered
    for patch in ordered:
        yield replace(patch, name=f"{patch.name}, turned", to_right=np.roll(patch.to_right, 1, axis=0))
        yield replace(patch, name=f"{patch.name}, backwards", to_right=patch.to_right[::-1])


def _both(found: Iterable[Patch]) -> Iterator[Patch]:
    """The patches, each in both directions where the two inputs differ in length."""
    for patch in found:
        yield patch
        if patch.sizes[0] != patch.sizes[1]:
            yield patch.reversed()


def _of_corners(relation: Adjacency, size: int, domain: tuple[float, float]) -> list[Patch] | None:
    """The hull of the relation's corners where it is convex, as far as random mixtures tell; else a ray to each."""
    corners = relation.vertices(size)
    if corners is None:
        return None
    hull = moving(f"{relation.name} neighbours", corners.T, 0.0, 1.0, domain)
    hull = replace(hull, total=slice(size, None))
    rng = np.random.default_rng(0)
    if len(corners) <= MOST_CORNERS and all(relation.adjacent(*hull.pair(hull.draw(rng))) for _ in range(TRIES)):
        return [hull]
    return [moving(f"{relation.name} corner", corner[:, None], 0.0, 1.0, domain) for corner in corners]


# --------------------------------------------------------------------------------------------- without a polytope


class PairSource(ABC):
    """Pairs of a neighbourhood that is not a polytope."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Pair:
        """A pair at random."""

    @abstractmethod
    def near(self, pair: Pair) -> Iterator[Pair]:
        """Pairs that differ from this one a little."""


@dataclass(frozen=True, eq=False)
class ListedPairs(PairSource):
    """Pairs that somebody listed: those that a relation proposes."""

    pairs: Sequence[Pair]

    def draw(self, rng: np.random.Generator) -> Pair:
        return self.pairs[int(rng.integers(len(self.pairs)))]

    def near(self, pair: Pair) -> Iterator[Pair]:
        yield from ()


@dataclass(frozen=True, eq=False)
class ValuePairs(PairSource):
    """Pairs of lists (or of single values) from a finite domain."""

    relation: Adjacency
    size: int
    values: Sequence[Any]

    def draw(self, rng: np.random.Generator) -> Pair:
        for _ in range(1000):
            left = self._value(rng) if self.relation.single else [self._value(rng) for _ in range(self.size)]
            right = self.relation.random_neighbour(left, self.values, rng)
            if left != right and self.relation.adjacent(left, right):
                return Pair(left, right, "random") if rng.random() < 0.5 else Pair(right, left, "random")
        raise BadInput(
            f"adjacency {self.relation}: no neighbours were found among random inputs from {self.values!r}; "
            f"give a domain in which inputs have neighbours, or pairs to start from"
        )

    def _value(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def near(self, pair: Pair) -> Iterator[Pair]:
        """The pairs in which one entry, of one side or of both, has another value."""
        if self.relation.single:
            for value in self.values:
                yield from (Pair(value, pair.right, "near"), Pair(pair.left, value, "near"))
            return
        left, right = list(pair.left), list(pair.right)  # type: ignore[call-overload]
        for place, value in itertools.product(range(max(len(left), len(right))), self.values):
            mine, theirs = ([*s[:place], value, *s[place + 1 :]] if place < len(s) else s for s in (left, right))
            for changed in ((mine, right), (left, theirs), (mine, theirs)):
                if changed != (left, right) and self.relation.adjacent(*changed) and changed[0] != changed[1]:
                    yield Pair(*changed, "near")


def pair_source(mechanism: Mechanism, size: int, domain: Domain) -> PairSource:
    """The pairs of a neighbourhood without a polytope."""
    relation = mechanism.adjacency
    if relation.listable and not is_interval(domain):
        return ValuePairs(relation, size, list(domain))
    listed = list(mechanism.pairs(size, domain))
    if not listed:
        raise BadInput(f"{mechanism.name}: no pair of neighbours of size {size} to try in {domain}")
    return ListedPairs(listed)


# -------------------------------------------------------------------------------------------------------------- events
# The events that the search looks at: an output with these constants, its numbers on this side of these ends.
#
# A *form* is an event whose ends are still open: they are variables of the search, next to the data.


MANY_FORMS = 256  # past this, forms are drawn and not listed
FEW_PATHS = 8
NUMBER = Slot(Kind.FLOAT, 0)  # what a form demands of a leaf that may be any number
Leaf = Any  # of a path's output: a constant, an Affine, a Condition or a Select


@dataclass(frozen=True)
class End:
    """An end that a number of the output must keep to: at least it (`lower`), or at most."""

    position: int
    lower: bool


@dataclass(frozen=True)
class EventForm:
    """An event with open ends: what each leaf of the output must be, and which of its numbers have ends.

    `demands` has an entry for each leaf: a constant, or NUMBER. Where `partial`, only the leaves at these positions
    are asked for; then all outputs of the mechanism have this one outline.
    """

    tree: Any
    ends: tuple[End, ...] = ()
    partial: frozenset[int] | None = None

    @property
    def template(self) -> Template:
        return Template(self.tree)

    @property
    def numbers(self) -> list[int]:
        """The positions of the leaves that may be any number."""
        leaves = self.template.leaves
        return [place for place in self._asked if isinstance(leaves[place], Slot)]

    @property
    def _asked(self) -> Sequence[int]:
        return sorted(self.partial) if self.partial is not None else range(len(self.template.leaves))

    @property
    def demands(self) -> dict[int, Any]:
        """What the leaf at each position that is asked for must be."""
        leaves = self.template.leaves
        return {place: leaves[place] for place in self._asked}

    def with_ends(self, ends: Sequence[End]) -> EventForm:
        return EventForm(self.tree, tuple(ends), self.partial)

    def event(self, values: Sequence[float]) -> ExactEvent:
        """The event with its ends at these values."""
        spans: dict[int, NumberSpan] = {}
        for end, value in zip(self.ends, values, strict=True):
            span = spans.get(end.position, NumberSpan(-math.inf, math.inf))
            spans[end.position] = (
                NumberSpan(float(value), span.high) if end.lower else NumberSpan(span.low, float(value))
            )
        within = tuple((LinearEntry(((place, 1.0),), (self._name(place),)), (span,)) for place, span in spans.items())
        if self.partial is None:
            return ExactEvent(template=self.template, within=within)
        constants = [(place, value) for place, value in self.demands.items() if not isinstance(value, Slot)]
        return ExactEvent(equal=tuple((self._name(p), p, value) for p, value in constants), within=within)

    def _name(self, place: int) -> str:
        return leaf_names(self.tree)[place]


def tree_of_path(path: Path) -> Any:
    """The output of a path as a tree whose leaves are constants and expressions."""
    return tree_of(path.output, lambda value, kind: value, kind_of_expression)


def leaves_of(tree: Any) -> list[Leaf]:
    """The leaves of a tree, from left to right."""
    return [leaf for branch in tree for leaf in leaves_of(branch)] if isinstance(tree, tuple) else [tree]


def _options(leaf: Leaf) -> list[Any]:
    """What the leaf of a path can turn out to be: constants, or NUMBER."""
    if isinstance(leaf, Affine):
        return [NUMBER]
    if isinstance(leaf, Condition):
        return [True, False]
    if isinstance(leaf, Select):
        return _distinct([*_options(leaf.then), *_options(leaf.other)])
    return [constant(leaf)]


def _distinct(options: Sequence[Any]) -> list[Any]:
    return list({leaf_key(option): option for option in options}.values())


def _tree_with(tree: Any, leaves: Iterator[Any]) -> Any:
    """The tree with its leaves replaced; numbers get slots of their own, so that the form is a proper template."""
    if isinstance(tree, tuple):
        return type(tree)(_tree_with(branch, leaves) for branch in tree)
    return next(leaves)


def _form(tree: Any, values: Sequence[Any], partial: frozenset[int] | None = None) -> EventForm:
    number = itertools.count()
    slots = iter([Slot(Kind.FLOAT, next(number)) if value is NUMBER else value for value in values])
    return EventForm(_tree_with(tree, slots), partial=partial)


class Forms:
    """The forms that the outputs of paths can have: all of them while they are few, else drawn at random."""

    def __init__(self, paths: Sequence[Path]) -> None:
        trees = [tree_of_path(path) for path in paths]
        self._choices = [(tree, [_options(leaf) for leaf in leaves_of(tree)]) for tree in trees]
        count = sum(math.prod(map(len, options)) for _, options in self._choices)
        self.listed: tuple[EventForm, ...] | None = None
        if count <= MANY_FORMS:
            made = [_form(tree, values) for tree, options in self._choices for values in itertools.product(*options)]
            distinct = {form.template: form for form in made}.values()
            self.listed = tuple(sorted(distinct, key=lambda form: -len(form.template.leaves)))  # longer ones tell more
        outlines = {outline_of(path.output) for path in paths}
        self._partial = len(outlines) == 1 and len(paths) <= FEW_PATHS  # what is not asked for is summed over paths

    def draw(self, rng: np.random.Generator) -> EventForm:
        """One of the forms, all alike; where they are many, one that asks for some of the leaves only, if it can."""
        if self.listed is not None:
            return self.listed[int(rng.integers(len(self.listed)))]
        tree, options = self._choices[rng.integers(len(self._choices))]
        values = [choices[rng.integers(len(choices))] for choices in options]
        if not self._partial:
            return _form(tree, values)
        asked = rng.choice(len(values), size=min(1 + rng.geometric(0.5), len(values)), replace=False)
        return _form(tree, values, frozenset(map(int, asked)))

    def __str__(self) -> str:
        if self.listed is None:
            return "a sample of many outputs"
        return "one kind of output" if len(self.listed) == 1 else f"{len(self.listed)} kinds of output"


def draw_ends(form: EventForm, rng: np.random.Generator) -> EventForm:
    """The form with ends for its numbers: a half-line or an interval for each of them, or for one alone."""
    numbers = form.numbers
    if len(numbers) > 1 and rng.random() < 0.5:
        numbers = [numbers[rng.integers(len(numbers))]]
    ends = []
    for place in numbers:
        which = rng.integers(3)
        ends += [End(place, lower) for lower in (True, False) if which == 2 or lower is bool(which)]
    return form.with_ends(ends)
