"""The measure of a set of noise: the integral of independent densities over linear conditions, component by
component."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veridp.engines.exact.elimination import Tree, tree_root
from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Symbol
from veridp.numerics.components import components
from veridp.numerics.quadrature import Grid, edges, panels, whole_numbers

# ---------------------------------------------------------------------------------------------------------- components
# Conditions taken apart into components that share no noise, so that what many paths share is worked out once.


class Component:
    """Conditions that hang together by their noise, which is numbered as they name it.

    Components of the same `kind` are the same but for which draws their noise comes from.
    """

    __slots__ = ("conditions", "kind", "ranks")

    def __init__(self, conditions: tuple[Condition, ...], ranks: dict[Symbol, int], kind: int) -> None:
        self.conditions = conditions
        self.ranks = ranks
        self.kind = kind


Kinds = dict[Hashable, int]


class Splitter:
    """Takes lists of conditions apart, one after the other; what a list begins with like the last is not done again.

    Splitters that share `kinds` tell the same kinds.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._last: list[Condition] = []
        self._so_far: list[tuple[Component, ...]] = [()]  # what each beginning of the last list comes to

    def split(self, conditions: Sequence[Condition]) -> tuple[Component, ...]:
        """The components that the conditions make."""
        same = 0
        for mine, before in zip(conditions, self._last, strict=False):
            if mine is not before:
                break
            same += 1
        del self._last[same:], self._so_far[same + 1 :]
        for condition in conditions[same:]:
            self._so_far.append(self._joined(self._so_far[-1], condition))
        self._last += conditions[same:]
        return self._so_far[-1]

    def _joined(self, components: tuple[Component, ...], condition: Condition) -> tuple[Component, ...]:
        """The components after one more condition, which ties together all those that it touches."""
        terms = condition.slack.terms
        touching = [component for component in components if not terms.keys().isdisjoint(component.ranks)]
        conditions: tuple[Condition, ...] = ()
        ranks: dict[Symbol, int] = {}
        for component in touching:
            before = len(ranks)
            ranks |= {symbol: before + rank for symbol, rank in component.ranks.items()} if before else component.ranks
            conditions += component.conditions
        signature: list[Hashable] = [component.kind for component in touching]
        signature += condition.relation, condition.slack.constant
        for symbol, factor in terms.items():
            rank = ranks.get(symbol)
            if rank is None:
                ranks[symbol] = len(ranks)
            signature += factor, _kind(symbol) if rank is None else rank
        kind = self._kinds.setdefault(tuple(signature), len(self._kinds))
        joined = Component((*conditions, condition), ranks, kind)
        return (*(component for component in components if component not in touching), joined)


def kind_of(components: Sequence[Component], numbers: Sequence[Affine]) -> Hashable:
    """What the components, and expressions in noise, are but for which draws their noise comes from.

    It may tell apart what is the same, but takes nothing for the same that is not.
    """
    places: dict[Symbol, Hashable] = {}
    for number in numbers:
        for symbol in number.terms:
            ranks = ((place, c.ranks[symbol]) for place, c in enumerate(components) if symbol in c.ranks)
            places.setdefault(symbol, next(ranks, None) or (len(places), _kind(symbol)))
    signature = tuple([(n.constant, *[(places[s], factor) for s, factor in n.terms.items()]) for n in numbers])
    return tuple([component.kind for component in components]), signature


def _kind(symbol: Symbol) -> Hashable:
    return symbol.distribution if isinstance(symbol, Noise) else symbol


# ------------------------------------------------------------------------------------------------------------- measure
# The measure of a set of noise: the integral of independent densities over linear inequalities.
#
# Variables are eliminated along the tree that the inequalities make of them: what hangs below a variable is a function
# of that variable alone, in closed form where nothing hangs below, else by quadrature between breakpoints.
# Inequalities
# that do not make a tree are cut open by fixing a variable, over which is then integrated.
#
# Many measures of one structure are computed at once: constants may be arrays, an entry for each.


Array = NDArray[np.float64]
MOST_CUTS = 2  # how many variables may be fixed to make a tree
MOST_POINTS = 40_000_000  # how many points one elimination may visit at once; more are done in parts
MOST_CORNERS = 1000  # of a variable that is fixed


@dataclass(frozen=True, eq=False)
class RowForm:
    """Σ coefficient · variable + constant, the constant with an entry for each row."""

    coefficients: tuple[tuple[int, float], ...]
    constant: Array

    @property
    def variables(self) -> frozenset[int]:
        return _variables(self.coefficients)

    def coefficient(self, variable: int) -> float:
        return next((c for v, c in self.coefficients if v == variable), 0.0)

    def fixed(self, variable: int, values: Array) -> RowForm:
        """The form with the variable at these values, an entry for each row."""
        rest = tuple((v, c) for v, c in self.coefficients if v != variable)
        return RowForm(rest, self.constant + self.coefficient(variable) * values)

    def repeated(self, times: int) -> RowForm:
        return RowForm(self.coefficients, np.repeat(self.constant, times))

    def some(self, rows: slice) -> RowForm:
        return RowForm(self.coefficients, self.constant[rows])


@dataclass(frozen=True, eq=False)
class NoiseRegion:
    """Independent noise, a variable each; inequalities `form >= 0`; and further densities at forms of the variables."""

    noise: dict[int, Distribution]
    inequalities: tuple[RowForm, ...]
    densities: tuple[tuple[Distribution, RowForm], ...] = ()
    rows: int = 1

    def log_measure(self, cuts: int = 0) -> Array:
        """ln of the measure, an entry for each row; `cuts` variables have been fixed already."""
        total = np.zeros(self.rows)
        for form in self.inequalities:
            if not form.coefficients:
                total = np.where(form.constant >= 0, total, -np.inf)
        for noise, form in self.densities:
            if not form.coefficients:
                total = total + noise.log_density(form.constant)
        for part in self._connected():
            total = total + _log_measure(part, cuts)
        return total

    def _connected(self) -> Iterator[NoiseRegion]:
        """The parts that have no variable in common; variables that nothing bounds are left out."""
        links = [form for form in self.inequalities if form.coefficients]
        ties = [(noise, form) for noise, form in self.densities if form.coefficients]
        for group in _groups(tuple(form.variables for form in [*links, *(form for _, form in ties)])):
            yield NoiseRegion(
                {variable: self.noise[variable] for variable in sorted(group)},
                tuple(form for form in links if form.variables <= group),
                tuple((noise, form) for noise, form in ties if form.variables <= group),
                self.rows,
            )

    def fixed(self, variable: int, grid: Grid) -> NoiseRegion:
        """The region with the variable fixed at each point of the grid: a row for each row and point."""
        count = grid.points.shape[1]
        values = np.broadcast_to(grid.points, (self.rows, count)).ravel()
        return NoiseRegion(
            {v: noise for v, noise in self.noise.items() if v != variable},
            tuple(form.repeated(count).fixed(variable, values) for form in self.inequalities),
            tuple((noise, form.repeated(count).fixed(variable, values)) for noise, form in self.densities),
            self.rows * count,
        )

    def some(self, rows: slice) -> NoiseRegion:
        """The region of these rows."""
        return NoiseRegion(
            self.noise,
            tuple(form.some(rows) for form in self.inequalities),
            tuple((noise, form.some(rows)) for noise, form in self.densities),
            len(range(*rows.indices(self.rows))),
        )


@lru_cache(maxsize=4096)
def _variables(coefficients: tuple[tuple[int, float], ...]) -> frozenset[int]:
    return frozenset(variable for variable, _ in coefficients)


@lru_cache(maxsize=4096)
def _groups(named: tuple[frozenset[int], ...]) -> tuple[frozenset[int], ...]:
    """The variables in groups that forms, which name these, tie together."""
    return tuple(frozenset().union(*(named[k] for k in group)) for group in components(named))


def _log_measure(region: NoiseRegion, cuts: int) -> Array:
    """ln of the measure of a connected region."""
    root = tree_root(region)
    if root is not None:
        return Tree(region, root).log_measure()
    if cuts == MOST_CUTS:
        raise NotExact(
            f"{', '.join(f'n{variable}' for variable in region.noise)} are entangled by conditions that link more than "
            f"two at a time or form cycles (fixing {MOST_CUTS} does not make a tree); use an engine that samples"
        )
    return _cut(region, cuts)


# -------------------------------------------------------------------------------------------------------- cuts


def _cut(region: NoiseRegion, cuts: int) -> Array:
    """ln of the measure, by fixing one variable at the points of a grid."""
    variable = _best_cut(region)
    noise = region.noise[variable]
    low, high = (np.full(region.rows, end) for end in noise.support)
    breaks = np.column_stack([np.zeros(region.rows), *_corners(region, variable)])
    if noise.integer:
        reach = noise.tail * noise.width
        first, last = np.maximum(low, breaks.min(axis=1) - reach), np.minimum(high, breaks.max(axis=1) + reach)
        grid = whole_numbers(np.ceil(first), np.floor(last))
    else:
        rate = noise.steepness + sum(n.steepness for n in region.noise.values())
        ends = edges(breaks, 16.0 / rate, noise.tail * noise.width, low, high)
        grid = panels(ends)
    inner = region.fixed(variable, grid)
    size = max(1, MOST_POINTS // 50_000)
    values = np.concatenate(
        [inner.some(slice(at, at + size)).log_measure(cuts + 1) for at in range(0, inner.rows, size)]
    ).reshape(region.rows, -1)
    return grid.integrate(values + noise.log_density(grid.points))


def _best_cut(region: NoiseRegion) -> int:
    """The variable in most of the conditions that stand in the way of a tree."""
    forms = [*region.inequalities, *(form for _, form in region.densities)]

    def weight(variable: int) -> tuple[int, int]:
        present = [form for form in forms if variable in form.variables]
        return sum(len(form.coefficients) > 2 for form in present), sum(len(form.coefficients) > 1 for form in present)

    return max(region.noise, key=weight)


def _corners(region: NoiseRegion, variable: int) -> list[Array]:
    """The variable wherever kinks and inequalities pin it down: between these the measure is smooth in it.

    A few planes pin it if a combination of them, with every one taking part, leaves no other variable.
    """
    order = sorted(region.noise)
    unit = np.eye(len(order))
    planes: dict[tuple[float, ...], list[Array]] = {}  # normals, with the offsets of all planes that have them
    for noise, form in [*((None, form) for form in region.inequalities), *region.densities]:
        normal = tuple(form.coefficient(v) for v in order)
        levels = (0.0,) if noise is None else noise.kinks
        planes.setdefault(normal, []).extend(level - form.constant for level in levels)
    for v, row in zip(order, unit, strict=True):
        planes.setdefault(tuple(row), []).extend(np.full(region.rows, kink) for kink in region.noise[v].kinks)
    found: list[Array] = []
    for size in range(1, len(order) + 1):
        for normals in itertools.combinations([normal for normal, offsets in planes.items() if offsets], size):
            shares = _shares(np.array(normals), unit[order.index(variable)])
            if shares is None:
                continue
            if len(found) + math.prod(len(planes[normal]) for normal in normals) > MOST_CORNERS:
                raise NotExact(
                    f"{', '.join(f'n{v}' for v in order)} are entangled by too many conditions; "
                    f"use an engine that samples"
                )
            for offsets in itertools.product(*(planes[normal] for normal in normals)):
                found.append(sum(share * offset for share, offset in zip(shares, offsets, strict=True)))
    return found


def _shares(normals: Array, target: Array) -> Array | None:
    """How the target is combined of the normals, if every one of them is needed."""
    if 1 in np.count_nonzero(normals[:, target == 0], axis=0):
        return None  # nothing cancels a variable that only one of them has
    shares, _, rank, _ = np.linalg.lstsq(normals.T, target)
    needed = rank == len(normals) and np.all(np.abs(shares) > 1e-12) and np.allclose(normals.T @ shares, target)
    return np.asarray(shares, dtype=float) if needed else None
