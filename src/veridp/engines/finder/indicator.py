"""The indicator of an event along paths, exact and made differentiable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from veridp.engines.exact.event import same
from veridp.engines.finder.candidates import End, EventForm, Leaf, leaves_of, tree_of_path
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.output import Slot, is_finite_number
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, Relation, Symbol, Unknown

# --------------------------------------------------------------------------------------------------------------- relax
# Truth values made differentiable: the indicator of an event as an expression over slacks, read hard or soft.
#
# A slack is how far a comparison is from turning over. Read hard, an expression is 0 or 1. Read soft, it follows the
# rules of DP-Finder (Bichsel et al., CCS 2018, Table 1) with sharpness c:
#
#     ¬B            1 - B                     E >= 0    sigmoid(c E)
#     B1 and B2     B1 · B2                   E = 0     exp(-c E²)
#     B1 or B2      B1 + B2 - B1 · B2         if        B · E1 + (1 - B) · E2
#
# All is vectorised over the noise: a slack is a row of numbers, one for each draw.


Array = NDArray[np.float64]
SHARPNESS = 50.0
SLACK_TOLERANCE = 1e-9  # how far rounding may carry a slack that is 0


class SlackReading(ABC):
    """The slacks, a row each, and what comparisons with 0 mean; every node's value is computed once."""

    def __init__(self, slacks: Array) -> None:
        self.slacks = slacks
        self.known: dict[SoftTruth, Array] = {}

    def of(self, node: SoftTruth) -> Array:
        """The value of the node, for each draw."""
        value = self.known.get(node)
        if value is None:
            value = self.known[node] = node.value(self)
        return value

    @abstractmethod
    def at_least(self, atom: int) -> Array: ...

    @abstractmethod
    def equal(self, atom: int) -> Array: ...


class Hard(SlackReading):
    """Comparisons without relaxation: 0 or 1."""

    def at_least(self, atom: int) -> Array:
        return np.asarray(self.slacks[atom] >= 0, dtype=float)

    def equal(self, atom: int) -> Array:
        return np.asarray(np.abs(self.slacks[atom]) <= SLACK_TOLERANCE, dtype=float)


class Soft(SlackReading):
    """Every comparison as a smooth step; `gradient` collects the derivatives by the slacks, averaged over the draws."""

    def __init__(self, slacks: Array, sharpness: float = SHARPNESS) -> None:
        super().__init__(slacks)
        self.sharpness = sharpness
        self.gradient = np.zeros(len(slacks))

    def at_least(self, atom: int) -> Array:
        return np.asarray(expit(self.sharpness * self.slacks[atom]))

    def equal(self, atom: int) -> Array:
        return np.asarray(np.exp(-self.sharpness * self.slacks[atom] ** 2))

    def add(self, atom: int, slope: Array) -> None:
        self.gradient[atom] += slope.mean()


class SoftTruth(ABC):
    """A truth value, or a probability, that depends on slacks."""

    @abstractmethod
    def value(self, at: SlackReading) -> Array: ...

    @abstractmethod
    def spread(self, at: Soft, weight: Array) -> None:
        """Add, to the gradient, weight times the derivative of the value by each slack."""


@dataclass(frozen=True, eq=False)
class ConstantTruth(SoftTruth):
    constant: float

    def value(self, at: SlackReading) -> Array:
        return np.full(at.slacks.shape[1], self.constant)

    def spread(self, at: Soft, weight: Array) -> None:
        pass


@dataclass(frozen=True, eq=False)
class AtLeast(SoftTruth):
    """slack >= 0; slack > 0 is the negation of -slack >= 0."""

    atom: int

    def value(self, at: SlackReading) -> Array:
        return at.at_least(self.atom)

    def spread(self, at: Soft, weight: Array) -> None:
        value = at.of(self)
        at.add(self.atom, weight * at.sharpness * value * (1 - value))


@dataclass(frozen=True, eq=False)
class Equal(SoftTruth):
    atom: int

    def value(self, at: SlackReading) -> Array:
        return at.equal(self.atom)

    def spread(self, at: Soft, weight: Array) -> None:
        at.add(self.atom, weight * at.of(self) * (-2 * at.sharpness) * at.slacks[self.atom])


@dataclass(frozen=True, eq=False)
class Not(SoftTruth):
    inner: SoftTruth

    def value(self, at: SlackReading) -> Array:
        return 1 - at.of(self.inner)

    def spread(self, at: Soft, weight: Array) -> None:
        self.inner.spread(at, -weight)


@dataclass(frozen=True, eq=False)
class And(SoftTruth):
    parts: tuple[SoftTruth, ...]

    def value(self, at: SlackReading) -> Array:
        product = np.ones(at.slacks.shape[1])
        for part in self.parts:
            product = product * at.of(part)
        return product

    def spread(self, at: Soft, weight: Array) -> None:
        after = [np.ones(at.slacks.shape[1])]
        for part in reversed(self.parts[1:]):
            after.append(after[-1] * at.of(part))
        before = weight
        for part, rest in zip(self.parts, reversed(after), strict=True):
            part.spread(at, before * rest)
            before = before * at.of(part)


@dataclass(frozen=True, eq=False)
class Or(SoftTruth):
    first: SoftTruth
    second: SoftTruth

    def value(self, at: SlackReading) -> Array:
        first, second = at.of(self.first), at.of(self.second)
        return first + second - first * second

    def spread(self, at: Soft, weight: Array) -> None:
        self.first.spread(at, weight * (1 - at.of(self.second)))
        self.second.spread(at, weight * (1 - at.of(self.first)))


@dataclass(frozen=True, eq=False)
class Blend(SoftTruth):
    """`then` where the condition holds, else `other`."""

    condition: SoftTruth
    then: SoftTruth
    other: SoftTruth

    def value(self, at: SlackReading) -> Array:
        condition = at.of(self.condition)
        return condition * at.of(self.then) + (1 - condition) * at.of(self.other)

    def spread(self, at: Soft, weight: Array) -> None:
        condition = at.of(self.condition)
        self.condition.spread(at, weight * (at.of(self.then) - at.of(self.other)))
        self.then.spread(at, weight * condition)
        self.other.spread(at, weight * (1 - condition))


@dataclass(frozen=True, eq=False)
class SoftSum(SoftTruth):
    """Disjoint ways to the same event, each with the probability of its finite random choices."""

    weights: tuple[float, ...]
    parts: tuple[SoftTruth, ...]

    def value(self, at: SlackReading) -> Array:
        total = np.zeros(at.slacks.shape[1])
        for weight, part in zip(self.weights, self.parts, strict=True):
            total = total + weight * at.of(part)
        return total

    def spread(self, at: Soft, weight: Array) -> None:
        for own, part in zip(self.weights, self.parts, strict=True):
            part.spread(at, own * weight)


def conjunction(parts: Sequence[SoftTruth]) -> SoftTruth:
    """All of the parts, those that are certain left out; impossible where one is."""
    kept = [part for part in parts if not (isinstance(part, ConstantTruth) and part.constant == 1)]
    if any(isinstance(part, ConstantTruth) and part.constant == 0 for part in kept):
        return ConstantTruth(0.0)
    return kept[0] if len(kept) == 1 else And(tuple(kept)) if kept else ConstantTruth(1.0)


# ----------------------------------------------------------------------------------------------------------- indicator
# The indicator of an event along paths, as an expression over slacks, and the noise that both sides share.


class Draws:
    """Noise that every path and both inputs share: the k-th draw of a run comes from the k-th stream of the seed.

    Draws of one place in the program are the same numbers whatever the data, and scale along where their
    distribution does.
    """

    def __init__(self, seed: int, block: int, count: int) -> None:
        self.seed, self.block, self.count = seed, block, count
        self._drawn: dict[Noise, Array] = {}

    def __getitem__(self, noise: Noise) -> Array:
        if noise not in self._drawn:
            rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.block, noise.index)))
            self._drawn[noise] = np.asarray(noise.distribution.draw(rng, self.count), dtype=float)
        return self._drawn[noise]


@dataclass(frozen=True)
class GradientPoint:
    """An expectation of an indicator and its gradient by the data and by the ends."""

    value: float
    by_data: Array
    by_ends: Array


@dataclass
class Atoms:
    """Affine expressions in noise, data and ends, each kept once: the slacks of comparisons."""

    data: Sequence[Unknown]
    ends: Sequence[End]
    expressions: list[tuple[Affine | Number, int | None, float]] = field(default_factory=list)
    _known: dict[Any, int] = field(default_factory=dict)

    def add(self, expression: Affine | Number, end: int | None = None, sign: float = 0.0) -> int:
        """The number of expression + sign · end."""
        terms = tuple(sorted(expression.terms.items(), key=_by_symbol)) if isinstance(expression, Affine) else ()
        constant = expression.constant if isinstance(expression, Affine) else expression
        key = (constant, terms, end, sign)
        if key not in self._known:
            self._known[key] = len(self.expressions)
            self.expressions.append((expression, end, sign))
        return self._known[key]


def _by_symbol(term: tuple[Symbol, Number]) -> Symbol:
    return term[0]


@dataclass(frozen=True, eq=False)
class Indicator:
    """Whether a run on open data ends in an event with open ends: the sum over paths of their conditions' product."""

    node: SoftTruth
    atoms: Atoms

    @classmethod
    def of(cls, paths: Sequence[Path], form: EventForm, data: Sequence[Unknown] = ()) -> Indicator:
        """Of the form, along paths whose open values are the data."""
        build = _Build(Atoms(data, form.ends))
        ways = [(float(path.weight), build.path(path, form)) for path in paths]
        kept = [(weight, node) for weight, node in ways if not (isinstance(node, ConstantTruth) and not node.constant)]
        return cls(SoftSum(tuple(weight for weight, _ in kept), tuple(node for _, node in kept)), build.atoms)

    @cached_property
    def _matrices(self) -> tuple[Array, Array, Array]:
        """The constants, and the coefficients of the data and of the ends, a row for each atom."""
        count = len(self.atoms.expressions)
        constants = np.zeros(count)
        data, ends = np.zeros((count, len(self.atoms.data))), np.zeros((count, len(self.atoms.ends)))
        places = {unknown: place for place, unknown in enumerate(self.atoms.data)}
        for row, (expression, end, sign) in enumerate(self.atoms.expressions):
            if isinstance(expression, Affine):
                constants[row] = float(expression.constant)
                for symbol, coefficient in expression.terms.items():
                    if isinstance(symbol, Unknown):
                        data[row, places[symbol]] = float(coefficient)
            else:
                constants[row] = float(expression)
            if end is not None:
                ends[row, end] = sign
        return constants, data, ends

    def _noise(self, draws: Draws) -> Array:
        total = np.zeros((len(self.atoms.expressions), draws.count))
        for row, (expression, _, _) in enumerate(self.atoms.expressions):
            for symbol, coefficient in expression.terms.items() if isinstance(expression, Affine) else ():
                if isinstance(symbol, Noise):
                    drawn = draws[symbol]
                    total[row] += drawn if coefficient == 1 else float(coefficient) * drawn
        return total

    def at(self, draws: Draws) -> DrawnIndicator:
        """The indicator with its noise drawn."""
        return DrawnIndicator(self, self._noise(draws))


@dataclass(frozen=True, eq=False)
class DrawnIndicator:
    """An indicator with its noise drawn: a function of data and ends."""

    indicator: Indicator
    noise: Array

    def _slacks(self, data: Array, ends: Array) -> Array:
        constants, by_data, by_ends = self.indicator._matrices
        return self.noise + (constants + by_data @ data + by_ends @ ends)[:, None]

    def hits(self, data: Array, ends: Array) -> Array:
        """For each draw, whether the event happens (its probability, where finite choices are summed out)."""
        return Hard(self._slacks(data, ends)).of(self.indicator.node)

    def soft(self, data: Array, ends: Array, sharpness: float) -> GradientPoint:
        """The relaxed indicator's mean over the draws, with its gradient."""
        _, by_data, by_ends = self.indicator._matrices
        at = Soft(self._slacks(data, ends), sharpness)
        value = at.of(self.indicator.node)
        self.indicator.node.spread(at, np.ones(len(value)))
        return GradientPoint(float(value.mean()), at.gradient @ by_data, at.gradient @ by_ends)


class _Build:
    """Makes nodes of conditions and of what a form demands of leaves; equal comparisons become one node."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self._comparisons: dict[tuple[type[SoftTruth], int], SoftTruth] = {}

    def path(self, path: Path, form: EventForm) -> SoftTruth:
        """Whether a run goes down the path and its output meets the form."""
        tree = tree_of_path(path)
        leaves = leaves_of(tree)
        if form.partial is None and not _same_outline(tree, form.tree):
            return ConstantTruth(0.0)
        demands = [self._meets(leaves[place], place, wanted) for place, wanted in form.demands.items()]
        return conjunction([*(self.condition(condition) for condition in path.conditions), *demands])

    def condition(self, condition: Condition) -> SoftTruth:
        match condition.relation:
            case Relation.AT_LEAST:
                return self._comparison(AtLeast, condition.slack)
            case Relation.ABOVE:
                return Not(self._comparison(AtLeast, -condition.slack))
            case Relation.EQUAL | Relation.UNEQUAL:
                if condition.slack.continuous:
                    return ConstantTruth(float(condition.relation is Relation.UNEQUAL))
                equal = self._comparison(Equal, condition.slack)
                return equal if condition.relation is Relation.EQUAL else Not(equal)

    def _comparison(
        self, kind: type[AtLeast] | type[Equal], slack: Affine | Number, end: int | None = None, sign: float = 0.0
    ) -> SoftTruth:
        atom = self.atoms.add(slack, end, sign)
        return self._comparisons.setdefault((kind, atom), kind(atom))

    def _truth(self, value: Condition | Select | bool) -> SoftTruth:
        """Whether a deferred truth value holds."""
        if isinstance(value, Condition):
            return self.condition(value)
        if not isinstance(value, Select):
            return ConstantTruth(float(value))
        if value.then is True:
            return Or(self._truth(value.condition), self._truth(value.other))
        if value.other is False:
            return And((self._truth(value.condition), self._truth(value.then)))
        return Blend(self._truth(value.condition), self._truth(value.then), self._truth(value.other))

    def _meets(self, leaf: Leaf, place: int, wanted: Any) -> SoftTruth:
        """Whether a leaf is what the form wants."""
        if isinstance(leaf, Condition):
            truth = self._truth(leaf)
            return (truth if wanted else Not(truth)) if isinstance(wanted, bool) else ConstantTruth(0.0)
        if isinstance(leaf, Select):
            return Blend(
                self._truth(leaf.condition),
                self._meets(leaf.then, place, wanted),
                self._meets(leaf.other, place, wanted),
            )
        if isinstance(wanted, Slot):
            return self._within_ends(leaf, place)
        if not isinstance(leaf, Affine):
            return ConstantTruth(float(same(wanted, leaf)))
        if leaf.continuous or not is_finite_number(wanted):
            return ConstantTruth(0.0)
        return self._comparison(Equal, leaf - exact(wanted))

    def _within_ends(self, leaf: Leaf, place: int) -> SoftTruth:
        """Whether a leaf is a number, and keeps to the ends."""
        if not isinstance(leaf, Affine):
            if not is_finite_number(leaf):
                return ConstantTruth(0.0)
            leaf = exact(leaf)
        kept = []
        for number, end in enumerate(self.atoms.ends):
            if end.position == place:
                slack, sign = (leaf, -1.0) if end.lower else (-leaf, 1.0)
                kept.append(self._comparison(AtLeast, slack, number, sign))
        return conjunction(kept)


def _same_outline(tree: Any, other: Any) -> bool:
    if not isinstance(tree, tuple) or not isinstance(other, tuple):
        return not isinstance(tree, tuple) and not isinstance(other, tuple)
    return type(tree) is type(other) and len(tree) == len(other) and all(map(_same_outline, tree, other))


def values_of_numbers(
    paths: Sequence[Path], form: EventForm, draws: Draws, data: Mapping[Unknown, float]
) -> dict[int, Array]:
    """For each number of the form, the values that it has on those draws that meet the form."""
    found: dict[int, list[Array]] = {place: [] for place in form.numbers}
    unknowns = tuple(data)
    for path in paths:
        leaves = leaves_of(tree_of_path(path))
        hits = Indicator.of([path], form.with_ends(()), unknowns).at(draws)
        taken = hits.hits(np.array([data[unknown] for unknown in unknowns]), np.zeros(0)) > 0
        if not taken.any():
            continue
        symbols: dict[Symbol, Any] = dict(data.items())
        symbols.update((noise, draws[noise][taken]) for noise in path.noises)
        for place, values in found.items():
            values += [np.broadcast_to(number, int(taken.sum())) for number in _numbers(leaves[place], symbols)]
    return {place: np.concatenate(values) if values else np.zeros(0) for place, values in found.items()}


def _numbers(leaf: Leaf, symbols: Mapping[Symbol, Any]) -> list[Any]:
    """The values of a leaf that is a number, or may become one."""
    if isinstance(leaf, Affine):
        return [leaf.evaluate(symbols)]
    if isinstance(leaf, Select):
        return [*_numbers(leaf.then, symbols), *_numbers(leaf.other, symbols)]
    return [float(leaf)] if is_finite_number(leaf) else []
