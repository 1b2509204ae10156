"""The events that the search looks at: an output with these constants, its numbers on this side of these ends.

A *form* is an event whose ends are still open: they are variables of the search, next to the data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.output import Kind, Slot, Template, constant, leaf_key, leaf_names, tree_of
from veridp.kernel.path import Path, kind_of_expression, outline_of

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
