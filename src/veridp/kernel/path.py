"""Paths: what a mechanism did on one way through it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadOutput
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition, Select, affine
from veridp.kernel.functions import FLOOR
from veridp.kernel.output import Kind, Raised, Slot, Template, kind_of, leaf_text, tree_text
from veridp.kernel.returned import constant, opened_array, opened_container, opened_subclass, tree_of
from veridp.kernel.site import Site
from veridp.kernel.stand_ins.text import NoisyText
from veridp.kernel.symbols import Derived, Noise, Symbol, Unknown, drawn_in, number_text
from veridp.kernel.weights import Weight


@dataclass(frozen=True, eq=False)
class Option:
    """One way to go at a fork: the conditions that lead there, or the chance that does, and what it is called."""

    conditions: tuple[Condition, ...]
    weight: Number | Weight = 1
    label: str = ""
    rounded: bool = False  # whether the weight is

    def same(self, other: Option) -> bool:
        return (
            self.weight == other.weight
            and len(self.conditions) == len(other.conditions)
            and all(mine.same(theirs) for mine, theirs in zip(self.conditions, other.conditions, strict=True))
        )


@dataclass(frozen=True, eq=False)
class Fork:
    """A place where the mechanism went one way of several."""

    options: tuple[Option, ...]
    taken: int
    site: Site
    implied: bool = False  # whether what came before leaves no other way: then it adds no condition

    @property
    def option(self) -> Option:
        return self.options[self.taken]


Step = Noise | Fork


@dataclass(frozen=True)
class Again:
    """What a path ends in that came back to where it was after so many of its steps, at the head of a loop."""

    place: int
    head: str = field(default="", repr=False)
    order: int = field(default=0, repr=False)  # of that visit among all that the run made of heads of loops


@dataclass(frozen=True, eq=False)
class Path:
    """The draws and forks in their order, and the output: constants, and expressions affine in the noise.

    Where the mechanism raises, the output is a `Raised`. Where exploration was told to defer, entries of the output may
    also be conditions and undecided choices. Where it was told to follow loops only until they come back, and this one
    does, it is `Again`.
    """

    steps: tuple[Step, ...]
    output: Any

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise drawn on it, in order."""
        return tuple(step for step in self.steps if isinstance(step, Noise))

    @cached_property
    def forks(self) -> tuple[Fork, ...]:
        return tuple(step for step in self.steps if isinstance(step, Fork))

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """What the noise (and the open values) must satisfy to lead down it."""
        return tuple(
            [c for s in self.steps if isinstance(s, Fork) and not s.implied for c in s.options[s.taken].conditions]
        )

    @cached_property
    def weight(self) -> Any:
        """The probability of its finite random choices: a number, or a Weight where it depends on open values."""
        weight: Any = Fraction(1)
        for step in self.steps:
            if isinstance(step, Fork) and step.options[step.taken].weight != 1:
                weight *= step.option.weight
        return weight if isinstance(weight, Weight) else exact(weight)

    @cached_property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The open values that it depends on, in order of their names."""
        found = {s for c in self.conditions for s in drawn_in(c.slack.terms)}
        found |= {s for leaf in leaves(self.output) for s in symbols_of(leaf)}
        found |= self.weight.unknowns() if isinstance(self.weight, Weight) else set()
        return tuple(sorted(symbol for symbol in found if isinstance(symbol, Unknown)))

    def holds(self, values: dict[Symbol, Any]) -> NDArray[np.bool_]:
        """Where these values of its symbols lead down it."""
        shape = np.broadcast_shapes(*(np.shape(value) for value in values.values()))
        mask = np.ones(shape, dtype=bool)
        for condition in self.conditions:
            mask &= condition.holds(values)
        return mask

    def frequency(self, rng: np.random.Generator, count: int) -> float:
        """An estimate of its probability: its weight times the share of `count` fresh draws that lead down it."""
        if self.unknowns:
            raise ValueError(f"the path depends on open values ({self.unknowns[0].name}, …): it has no one probability")
        values: dict[Symbol, Any] = {noise: noise.distribution.draw(rng, count) for noise in self.noises}
        if not values:
            return float(self.weight)
        return float(self.weight) * float(np.mean(self.holds(values)))

    def __str__(self) -> str:
        conditions = " and ".join(str(condition) for condition in self.conditions) or "always"
        chance = f" with weight {weight_text(self.weight)}" if self.weight != 1 else ""
        return f"{output_text(self.output)} where {conditions}{chance}"


def weight_text(weight: Number | Weight) -> str:
    return weight.text() if isinstance(weight, Weight) else number_text(weight)


LEAVES = (bool, int, float, str, type(None), Fraction, Affine, Condition, Select, Raised, Again, NoisyText)
PLAIN = frozenset(LEAVES)


def map_leaves(function: Callable[[Any], Any], output: Any) -> Any:
    """The output with the function applied to each of its leaves; arrays become lists, NumPy scalars plain ones."""
    if type(output) in PLAIN:
        return function(output)
    if type(output) not in (list, tuple) and (opened := opened_subclass(output)) is not None:
        output = opened
    if isinstance(output, np.ndarray | np.void):
        return map_leaves(function, _entries(output))
    if isinstance(output, list | tuple):
        mapped = [function(entry) if type(entry) in PLAIN else map_leaves(function, entry) for entry in output]
        return mapped if isinstance(output, list) else _like_tuple(output, mapped)
    if isinstance(output, dict):
        return {key: map_leaves(function, entry) for key, entry in output.items()}
    opened = opened_container(output)
    return function(_plain(output)) if opened is None else map_leaves(function, opened)


def _entries(array: Any) -> Any:
    """What an array of objects holds, one level down."""
    if array.dtype.names is not None or array.dtype.metadata or (array.ndim > 1 and not array.size):
        return opened_array(array)
    return array.item() if array.ndim == 0 else list(array)


def _like_tuple(output: tuple[Any, ...], entries: list[Any]) -> tuple[Any, ...]:
    return type(output)(*entries) if hasattr(output, "_fields") else tuple(entries)


def leaves(output: Any) -> list[Any]:
    """The leaves of an output, from left to right."""
    found: list[Any] = []
    map_leaves(found.append, output)
    return found


def output_text(output: Any) -> str:
    """The output for people: strings in quotes, exact numbers as decimals, expressions in their symbols."""
    if type(output) is int:  # the options of a choice among many: the rest of the way takes far longer
        return str(output)
    try:
        return tree_text(tree_of(output, lambda leaf, kind: _plain(leaf), _kind_of_any), _leaf_text)
    except BadOutput:  # a dict with keys that no output may have
        return repr(output)


def _plain(leaf: Any) -> Any:
    return leaf.item() if isinstance(leaf, np.generic) else leaf


def _kind_of_any(value: object) -> Kind | None:
    kind = kind_of_expression(value)
    return Kind.TEXT if kind is None and kind_of(value) is None and not isinstance(value, Mapping) else kind


def _leaf_text(leaf: Any) -> str:
    if isinstance(leaf, Affine | Condition | Select | NoisyText):
        return leaf.text()
    if isinstance(leaf, Fraction):
        return number_text(leaf)
    return repr(leaf) if isinstance(leaf, float) else leaf_text(leaf)


def kind_of_expression(value: object) -> Kind | None:
    """The kind of what stands for a scalar in the output of a path; None for a plain value."""
    if isinstance(value, NoisyText):
        return Kind.TEXT
    if isinstance(value, Condition | Select):
        return Kind.BOOL
    return Kind.FLOAT if isinstance(value, Affine | Fraction) else None


def entries_of(output: Any) -> list[Any]:
    """The leaves of an output in the order of its outline: those of a dict by its sorted keys, not as they came in."""
    found: list[Any] = []
    tree_of(output, lambda value, kind: found.append(value), kind_of_expression)
    return found


def outline_of(output: Any) -> Template:
    """The nesting of an output alone: a slot for each leaf."""
    number = itertools.count()
    return Template(tree_of(output, lambda value, kind: Slot(Kind.FLOAT, next(number)), kind_of_expression))


@dataclass(frozen=True, eq=False)
class OutputForm:
    """The identity of a path's outputs: the template that all of them fit, and the numbers in its slots."""

    template: Template
    numbers: tuple[Affine, ...]

    @classmethod
    def of(cls, output: Any) -> OutputForm:
        """The form of an output without undecided entries; BadOutput where it has none."""
        numbers: list[Affine] = []

        def leaf(value: Any, kind: Kind) -> Any:
            if isinstance(value, NoisyText):  # released with its numbers, from which the text follows
                return tuple(p if isinstance(p, str) else (p.form, leaf(p.number, Kind.FLOAT)) for p in value.parts)
            if not isinstance(value, Affine):
                return constant(value)
            numbers.append(value)
            return Slot(Kind.FLOAT, len(numbers) - 1)

        return cls(Template(tree_of(output, leaf, kind_of_expression)), tuple(numbers))


def symbols_of(leaf: Any) -> Iterator[Noise | Unknown]:
    """The draws and open values that the leaf of an output is made of; a plain one has none."""
    if isinstance(leaf, Affine):
        yield from drawn_in(leaf.terms)
    elif isinstance(leaf, Condition):
        yield from drawn_in(leaf.slack.terms)
    elif isinstance(leaf, Select):
        for part in (leaf.condition, leaf.then, leaf.other):
            yield from symbols_of(part)
    elif isinstance(leaf, NoisyText):
        for number in leaf.numbers:
            yield from drawn_in(number.terms)


Given = Mapping[Unknown, Number] | Mapping[Noise, Number]


def with_values(paths: Sequence[Path], values: Given) -> list[Path]:
    """The paths with open values, or draws, given: conditions that become false drop a path, those that hold go.

    What paths share (a fork, above all) is worked out once.
    """
    conditions: dict[int, Condition | bool] = {}
    found = []
    for path in paths:
        steps: list[Step] = []
        for step in path.steps:
            if isinstance(step, Noise) or step.implied:
                steps.append(step)
                continue
            told = [condition_with_values(condition, values, conditions) for condition in step.option.conditions]
            if not all(condition is not False for condition in told):
                break
            kept = tuple(condition for condition in told if isinstance(condition, Condition))
            weight = step.option.weight
            weight = exact(weight.evaluate(values)) if isinstance(weight, Weight) else weight
            steps.append(Fork((Option(kept, weight, step.option.label),), 0, step.site))
        else:
            found.append(Path(tuple(steps), map_leaves(lambda leaf: _leaf_with_values(leaf, values), path.output)))
    return found


def _function_with_values(symbol: Derived, values: Given) -> Derived | Number:
    told = tuple(_leaf_with_values(argument, values) for argument in symbol.arguments)
    if any(isinstance(argument, Affine) for argument in told):
        return Derived(symbol.function, told)
    if symbol.function is FLOOR:
        return math.floor(Fraction(told[0]))  # without rounding
    return exact(Derived(symbol.function, told).evaluate({}))


def condition_with_values(condition: Condition, values: Given, known: dict[int, Condition | bool]) -> Condition | bool:
    """The condition with open values given, or its truth; `known` keeps the answers by identity."""
    answer = known.get(id(condition))
    if answer is None:
        slack = _leaf_with_values(condition.slack, values)
        if isinstance(slack, Affine):
            answer = Condition(slack, condition.relation)
        else:
            answer = bool(condition.relation.holds(slack))
        known[id(condition)] = answer
    return answer


def _leaf_with_values(leaf: Any, values: Given) -> Any:
    if isinstance(leaf, Affine):
        constant, terms = leaf.constant, dict(leaf.terms)
        for symbol in [symbol for symbol in terms if symbol in values]:
            constant += terms.pop(symbol) * values[symbol]  # type: ignore[index]
        for function in leaf.functions:
            told, coefficient = _function_with_values(function, values), terms.pop(function)
            if isinstance(told, Derived):
                terms[told] = terms.get(told, 0) + coefficient
            else:
                constant += coefficient * told
        return affine(constant, terms)
    if isinstance(leaf, Condition):
        return condition_with_values(leaf, values, {})
    if isinstance(leaf, Select):
        condition = _leaf_with_values(leaf.condition, values)
        then, other = (_leaf_with_values(part, values) for part in (leaf.then, leaf.other))
        if isinstance(condition, bool):
            return then if condition else other
        return Select.of(condition, then, other)
    if isinstance(leaf, NoisyText):
        return leaf.with_numbers([_leaf_with_values(number, values) for number in leaf.numbers])
    return leaf
