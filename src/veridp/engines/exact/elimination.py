"""Measures along a tree of inequalities, and of stars: noise in the middle that bounds all other noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution
from veridp.numerics.quadrature import Grid, edges, log_sum, panels, range_sums, whole_numbers

if TYPE_CHECKING:
    from veridp.engines.exact.measure import NoiseRegion
    from veridp.kernel.distributions import Distribution


# ---------------------------------------------------------------------------------------------------------------- star
# The measures of stars: noise in the middle, and around it noise that only the middle bounds.
#
# Sparse vectors and noisy maxima are stars, hundreds of paths with the same few rays. All stars with the same middle
# are
# integrated on one grid: each ray is evaluated once, and a star is a sum of rays, so that a thousand paths cost one
# integral and a matrix product.


Array = NDArray[np.float64]
NOTHING = -1e6  # stands for the logarithm of 0, which a matrix product cannot take
MOST_ENTRIES = 8_000_000


@dataclass(frozen=True)
class Ray:
    """Noise between bounds of its own, with links `own · it + middle's · middle + constant >= 0`."""

    noise: Distribution
    low: float
    high: float
    links: tuple[tuple[float, float, float], ...]

    def breaks(self) -> list[float]:
        """Where it makes the integrand over the middle lose its smoothness."""
        inner = [0.0, *self.noise.kinks, *(end for end in (self.low, self.high) if math.isfinite(end))]
        found = [-(own * kink + constant) / middles for own, middles, constant in self.links for kink in inner]
        for place, (a, b, c) in enumerate(self.links):
            found += [(a * g - c * e) / (b * e - a * f) for e, f, g in self.links[:place] if b * e != a * f]
        return found

    @property
    def rate(self) -> float:
        return self.noise.steepness * max(abs(middles / own) for own, middles, _ in self.links)

    def log_values(self, points: Array) -> Array:
        """ln of its measure, as a function of the middle."""
        low, high = np.full(points.shape, self.low), np.full(points.shape, self.high)
        for own, middles, constant in self.links:
            bound = -(middles * points + constant) / own
            low, high = (np.maximum(low, bound), high) if own > 0 else (low, np.minimum(high, bound))
        return self.noise.log_between(low, high)


@dataclass(frozen=True)
class Middle:
    """Continuous noise between bounds."""

    noise: Distribution
    low: float
    high: float

    def breaks(self) -> list[float]:
        return [0.0, *self.noise.kinks, *(end for end in (self.low, self.high) if math.isfinite(end))]


def log_measures(middle: Middle, rays: Sequence[Ray], stars: Sequence[Sequence[int]]) -> Array:
    """ln of the measure of each star around the middle; a star is the list of its rays, by their place."""
    if not middle.low < middle.high:
        return np.full(len(stars), -np.inf)
    breaks = np.unique([*middle.breaks(), *(point for ray in rays for point in ray.breaks())])
    steepest = max(sum(rays[place].rate for place in star) for star in stars)
    width, tail = 16.0 / (middle.noise.steepness + steepest), middle.noise.tail * middle.noise.width
    grid = panels(edges(breaks[None, :], width, tail, np.array([middle.low]), np.array([middle.high])))
    points = grid.points[0]
    values = np.array([np.maximum(ray.log_values(points), NOTHING) for ray in rays]).reshape(len(rays), len(points))
    base = middle.noise.log_density(points) + grid.log_weights[0]
    size = max(1, MOST_ENTRIES // len(points))
    parts = [
        log_sum(base + _incidence(stars[start : start + size], len(rays)) @ values)
        for start in range(0, len(stars), size)
    ]
    total = np.concatenate(parts)
    return np.where(total < NOTHING / 2, -np.inf, total)


def _incidence(stars: Sequence[Sequence[int]], rays: int) -> Array:
    table = np.zeros((len(stars), rays))
    for row, star in enumerate(stars):
        for place in star:
            table[row, place] += 1.0
    return table


# --------------------------------------------------------------------------------------------------------- elimination
# Measures along a tree of inequalities: what hangs below a variable is a function of that variable alone.
#
# A leaf has its distribution function; a variable with others below it is integrated by quadrature between
# breakpoints.
# Rows that differ in little share a grid, and where they can, the sums over it.


_Integral = Callable[[int, NDArray[np.intp], Array, Array], Array]
OWN_GRIDS = 10_000  # integrals done at once, where each has a grid of its own
ON_LATTICE = 1e-9  # how far rounding may carry an integer
MOST_STRETCHED = 100_000  # integrals that share a grid, where each needs but sums over it
MOST_TERMS = 100_000_000  # of the sums over integers that are done at once: some ten seconds
TERMS_AT_ONCE = 4_000_000  # of them, that are held in memory
TIED_ROWS = 24  # integrals that share a grid, where each brings a kink of its own to it


def tree_root(region: NoiseRegion) -> int | None:
    """The variable in the middle of the tree that the inequalities make; None where they make no tree."""
    if any(len(form.coefficients) > 2 for form in region.inequalities):
        return None
    if any(len(form.coefficients) > 1 for _, form in region.densities):
        return None
    return _root(
        tuple((variable, noise.integer) for variable, noise in region.noise.items()),
        frozenset(form.variables for form in region.inequalities if len(form.coefficients) == 2),
        frozenset(variable for _, form in region.densities for variable in form.variables),
    )


@lru_cache(maxsize=4096)
def _root(
    variables: tuple[tuple[int, bool], ...], links: frozenset[frozenset[int]], tied: frozenset[int]
) -> int | None:
    """The middle of the tree of variables, each with whether it is integer; many measures have the same tree."""
    integer = dict(variables)
    near: dict[int, set[int]] = {variable: set() for variable in integer}
    for first, second in links:
        near[first].add(second)
        near[second].add(first)
    if sum(map(len, near.values())) // 2 != len(near) - 1:
        return None
    return min(near, key=lambda v: (_depth(near, v, tied), not integer[v], -len(near[v])))


def _depth(near: dict[int, set[int]], root: int, tied: frozenset[int]) -> int:
    """How deep integrals nest below the root: the last variable of a branch needs none, unless a density ties it."""
    depth, layer, seen = 0, {root}, {root}
    deepest = int(root in tied)
    while layer := {other for variable in layer for other in near[variable]} - seen:
        seen |= layer
        depth += 1
        deepest = max(deepest, depth + (not tied.isdisjoint(layer)))
    return deepest


class Tree:
    """A connected region whose inequalities link variables in a tree."""

    def __init__(self, region: NoiseRegion, root: int) -> None:
        self.region = region
        self.root = root
        self.children: dict[int, list[int]] = {variable: [] for variable in region.noise}
        self.links: dict[int, list[tuple[float, float, Array]]] = {v: [] for v in region.noise}  # to the parent
        self.bounds = {v: (np.full(region.rows, lo), np.full(region.rows, hi)) for v, (lo, hi) in self._supports()}
        self.ties = {v: [(n, f) for n, f in region.densities if f.coefficient(v)] for v in region.noise}
        self._hang(root, None)

    def _supports(self) -> Iterator[tuple[int, tuple[float, float]]]:
        for variable, noise in self.region.noise.items():
            yield variable, noise.support

    def _hang(self, variable: int, parent: int | None) -> None:
        """Sort the inequalities into bounds of one variable and links to the parent."""
        for form in self.region.inequalities:
            own = form.coefficient(variable)
            if not own:
                continue
            if len(form.coefficients) == 1:
                low, high = self.bounds[variable]
                bound = -form.constant / own
                self.bounds[variable] = (np.maximum(low, bound), high) if own > 0 else (low, np.minimum(high, bound))
                continue
            (other,) = form.variables - {variable}
            if other == parent:
                self.links[variable].append((own, form.coefficient(other), form.constant))
            elif other not in self.children[variable]:
                self.children[variable].append(other)
        for child in self.children[variable]:
            self._hang(child, variable)

    def log_measure(self) -> Array:
        if self.region.rows == 1 and self._is_star():
            return self._star_measure()
        return self._total(self.root, np.arange(self.region.rows), None, None)

    def _is_star(self) -> bool:
        branching = any(self.children[child] for child in self.children[self.root])
        return bool(self.children[self.root]) and not (
            branching or self.region.densities or self.region.noise[self.root].integer
        )

    def _star_measure(self) -> Array:
        rays = []
        for child in self.children[self.root]:
            low, high = self.bounds[child]
            links = tuple((own, parents, float(constant[0])) for own, parents, constant in self.links[child])
            rays.append(Ray(self.region.noise[child], float(low[0]), float(high[0]), links))
        low, high = self.bounds[self.root]
        middle = Middle(self.region.noise[self.root], float(low[0]), float(high[0]))
        return log_measures(middle, rays, [range(len(rays))])

    # ------------------------------------------------------------------------------------- one elimination

    def _total(self, variable: int, rows: NDArray[np.intp], low: Array | None, high: Array | None) -> Array:
        """ln of the integral over the variable and all below it, for these rows, between further bounds."""
        at_least, at_most = (bound[rows] for bound in self.bounds[variable])
        at_least = at_least if low is None else np.maximum(at_least, low)
        at_most = at_most if high is None else np.minimum(at_most, high)
        noise = self.region.noise[variable]
        if not self.children[variable] and not self.ties[variable]:
            return noise.log_between(at_least, at_most)
        integral, size = self._way_to_integrate(variable, rows)
        parts = [slice(start, start + size) for start in range(0, len(rows), size)]
        return np.concatenate([integral(variable, rows[p], at_least[p], at_most[p]) for p in parts])

    def _way_to_integrate(self, variable: int, rows: NDArray[np.intp]) -> tuple[_Integral, int]:
        """How the rows are integrated, and how many of them at a time."""
        noise, ties = self.region.noise[variable], self.ties[variable]
        if len(rows) == 1 or any(self._varies(child, rows) for child in self._below(variable)):
            return self._integral, OWN_GRIDS
        exponential = all(other.stretches and other.integer is noise.integer for other, _ in ties)
        if noise.integer:
            by_ones = all(abs(form.coefficient(variable)) == 1 for _, form in ties)
            return (self._stretched_sum, MOST_STRETCHED) if exponential and by_ones else (self._integral, OWN_GRIDS)
        return (self._stretched_integral, MOST_STRETCHED) if exponential else (self._shared_integral, TIED_ROWS)

    def _below(self, variable: int) -> Iterator[int]:
        for child in self.children[variable]:
            yield child
            yield from self._below(child)

    def _varies(self, variable: int, rows: NDArray[np.intp]) -> bool:
        """Whether what hangs at the variable, or bounds it, differs between the rows."""
        arrays = [*self.bounds[variable], *(constant for _, _, constant in self.links[variable])]
        arrays += [form.constant for _, form in self.ties[variable]]
        return any(np.any(array[rows] != array[rows[0]]) for array in arrays)

    def _integral(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Array:
        """The integral with a grid for each row; in halves, where all grids at once would take too much memory."""
        whole = self.region.noise[variable].integer
        empty = ~(low <= high) if whole else ~(low < high)
        ends = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
        terms = len(rows) * self._longest_sum(variable, rows, *ends) if whole and len(rows) > 1 else 0
        if terms > MOST_TERMS:
            raise NotExact(f"a sum of integer draws takes more than {MOST_TERMS:.0e} terms; use an engine that samples")
        if terms > TERMS_AT_ONCE:
            half = len(rows) // 2
            halves = [self._integral(variable, rows[p], low[p], high[p]) for p in (slice(half), slice(half, None))]
            return np.concatenate(halves)
        grid = self._grid(variable, rows, *ends)
        return np.where(empty, -np.inf, grid.integrate(self._integrand(variable, rows, grid.points)))

    def _integrand(self, variable: int, rows: NDArray[np.intp], points: Array) -> Array:
        values = self._untied(variable, rows, points)
        for noise, form in self.ties[variable]:
            values = values + noise.log_density(form.coefficient(variable) * points + form.constant[rows][:, None])
        return values

    def _untied(self, variable: int, rows: NDArray[np.intp], points: Array) -> Array:
        """The integrand without the further densities at the variable."""
        values = self.region.noise[variable].log_density(points)
        for child, times in self._kinds_of_children(variable):
            values = values + times * self._message(child, rows[: len(points)], points)
        return values

    def _kinds_of_children(self, variable: int) -> list[tuple[int, int]]:
        """One child of each kind, and how many there are: leaves with the same noise, bounds and links are one kind."""
        kinds: dict[object, tuple[int, int]] = {}
        for child in self.children[variable]:
            key: object = child
            if not self.children[child] and not self.ties[child]:
                links = tuple((own, parents, constant.tobytes()) for own, parents, constant in self.links[child])
                key = self.region.noise[child], links, tuple(bound.tobytes() for bound in self.bounds[child])
            first, times = kinds.get(key, (child, 0))
            kinds[key] = (first, times + 1)
        return list(kinds.values())

    def _shared_integral(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Array:
        """The integral with one grid for all rows, where they differ in bounds and further densities alone.

        The bounds are among the ends of the panels, so that each row is a sum over whole panels.
        """
        ends = self._shared_ends(variable, rows, low, high)
        if len(ends) < 2:
            return np.full(len(rows), -np.inf)
        grid = panels(ends[None, :])
        values = grid.log_weights + self._integrand(variable, rows, grid.points)
        return _sums_between(ends, values, low, high)

    def _stretched_integral(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Array:
        """The same, where the further densities are exponential between kinks, which are among the ends of the panels.

        There each of them is a constant of the row times an exponential that all rows share. So the integrand is
        summed, for each way to be between kinks, over all panels once, and not once for each row.
        """
        ends = self._shared_ends(variable, rows, low, high)
        if len(ends) < 2:
            return np.full(len(rows), -np.inf)
        grid = panels(ends[None, :])
        values = grid.log_weights + self._untied(variable, rows, grid.points)
        sums = [
            constant + _sums_between(ends, values + slope * grid.points, *inside)
            for slope, constant, inside in self._between_kinks(variable, rows, low, high)
        ]
        return log_sum(np.column_stack(sums))

    def _stretched_sum(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Array:
        """The same for integer noise, where the further noise is integer too and moves with it one by one."""
        own, below = self._own_breaks(variable, rows, ends=True), self._carried_breaks(variable, rows[:1], ends=True)
        breaks = np.concatenate([*own, *below])
        ends = (breaks.min(), breaks.max()), (low.min(), high.max())
        (first,), (last,) = self._reach(variable, *(np.array([end]) for pair in ends for end in pair))
        points = np.arange(math.ceil(first - ON_LATTICE), math.floor(last + ON_LATTICE) + 1.0)
        if not len(points):
            return np.full(len(rows), -np.inf)
        values = self._untied(variable, rows, points[None, :])
        sums = []
        for slope, constant, (least, most) in self._between_kinks(variable, rows, low, high):
            start = np.searchsorted(points, least - ON_LATTICE, side="left")
            stop = np.searchsorted(points, most + ON_LATTICE, side="right")
            sums.append(constant + range_sums(values + slope * points, start, np.maximum(start, stop)))
        constants = [form.constant[rows] for _, form in self.ties[variable]]
        whole = np.all([np.abs(c - np.rint(c)) < ON_LATTICE for c in constants], axis=0)
        return np.where(whole, log_sum(np.column_stack(sums)), -np.inf)

    def _between_kinks(
        self, variable: int, rows: NDArray[np.intp], low: Array, high: Array
    ) -> Iterator[tuple[float, Array, tuple[Array, Array]]]:
        """The ways to be between the kinks of the further densities: slope and constants of their product's logarithm,
        and the interval of each row."""
        forms = [form for _, form in self.ties[variable]]
        for stretches in itertools.product(*(noise.stretches or () for noise, _ in self.ties[variable])):
            slope, constant, inside = 0.0, np.zeros(len(rows)), (low, high)
            for stretch, form in zip(stretches, forms, strict=True):
                own, rest = form.coefficient(variable), form.constant[rows]
                slope += stretch.slope * own
                constant = constant + stretch.intercept + stretch.slope * rest
                at = (stretch.low - rest) / own, (stretch.high - rest) / own
                inside = np.maximum(inside[0], at[own < 0]), np.minimum(inside[1], at[own > 0])
            yield slope, constant, inside

    def _shared_ends(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Array:
        """The ends of panels that serve all rows."""
        own, below = self._own_breaks(variable, rows), self._carried_breaks(variable, rows[:1])
        bounds = [low[np.isfinite(low)], high[np.isfinite(high)]]
        breaks = np.unique(np.concatenate([*own, *below, *bounds]))
        noise = self.region.noise[variable]
        width, tail = 16.0 / self._rate(variable), noise.tail * noise.width
        ends = edges(breaks[None, :], width, tail, low.min(keepdims=True), high.max(keepdims=True))[0]
        apart: Array = ends[np.concatenate([[True], np.diff(ends) > 0])]
        return apart

    def _message(self, child: int, rows: NDArray[np.intp], points: Array) -> Array:
        """ln of the integral over the child and all below it, as a function of its parent, at the parent's points."""
        low = np.full(points.shape, -np.inf)
        high = np.full(points.shape, np.inf)
        for own, parents, constant in self.links[child]:
            bound = -(parents * points + constant[rows][:, None]) / own
            low, high = (np.maximum(low, bound), high) if own > 0 else (low, np.minimum(high, bound))
        repeated = np.repeat(rows, points.shape[1])
        return self._total(child, repeated, low.ravel(), high.ravel()).reshape(points.shape)

    # ---------------------------------------------------------------------------------------- breakpoints

    def _grid(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Grid:
        noise = self.region.noise[variable]
        if noise.integer:
            return whole_numbers(*self._whole_ends(variable, rows, low, high))
        width, tail = 16.0 / self._rate(variable), noise.tail * noise.width
        ends = edges(np.clip(self._breaks(variable, rows), -1e300, 1e300), width, tail, low, high)
        return panels(np.clip(ends, -1e300, 1e300))

    def _longest_sum(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> float:
        """How many integers the longest of the rows' sums is over."""
        first, last = self._whole_ends(variable, rows, low, high)
        return float(np.max(last - first)) + 1

    def _whole_ends(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> tuple[Array, Array]:
        """The first and the last integer of each row's sum."""
        breaks = self._breaks(variable, rows, ends=True)
        first, last = self._reach(variable, breaks.min(axis=1), breaks.max(axis=1), low, high)
        return np.ceil(first - ON_LATTICE), np.floor(last + ON_LATTICE)

    def _reach(self, variable: int, least: Array, most: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Between which ends the mass of integer noise counts, where these are the least and the most of the breaks."""
        noise = self.region.noise[variable]
        reach = noise.tail * noise.width
        return (
            np.maximum(low, np.minimum(least, noise.middle) - reach),
            np.minimum(high, np.maximum(most, noise.middle) + reach),
        )

    def _breaks(self, variable: int, rows: NDArray[np.intp], ends: bool = False) -> Array:
        """Where the integrand over the variable is not smooth, and 0: a row for each row.

        With `ends`, only the least and the most of the many steps of integer noise are among them.
        """
        return np.column_stack([*self._own_breaks(variable, rows, ends), *self._carried_breaks(variable, rows, ends)])

    def _own_breaks(self, variable: int, rows: NDArray[np.intp], ends: bool = False) -> list[Array]:
        """Those of its own noise, bounds and further densities."""
        bounds = [bound[rows] for bound in self.bounds[variable] if np.isfinite(bound[rows]).all()]
        fixed = () if self.region.noise[variable].integer else self.region.noise[variable].kinks
        found = [np.zeros(len(rows)), *bounds, *(np.full(len(rows), kink) for kink in fixed)]
        for noise, form in self.ties[variable]:
            levels = (*_kinks(noise, ends), noise.middle)
            found += [(level - form.constant[rows]) / form.coefficient(variable) for level in levels]
        return found

    def _carried_breaks(self, variable: int, rows: NDArray[np.intp], ends: bool = False) -> list[Array]:
        """Those that its children bring."""
        found: list[Array] = []
        for child in self.children[variable]:
            inner = self._breaks(child, rows, ends)
            if self.region.noise[child].integer:
                steps = np.tile(_kinks(self.region.noise[child], ends), (len(rows), 1))
                inner = np.concatenate([inner, steps], axis=1)
            for own, parents, constant in self.links[child]:
                found += list((-(own * inner + constant[rows][:, None]) / parents).T)
            for (a, b, c), (e, f, g) in itertools.combinations(self.links[child], 2):
                if b * e != a * f:
                    found.append((a * g - c * e)[rows] / (b * e - a * f))
        return found

    def _rate(self, variable: int) -> float:
        """How fast the logarithm of the integrand may change along the variable."""
        rate = self.region.noise[variable].steepness
        rate += sum(noise.steepness * abs(form.coefficient(variable)) for noise, form in self.ties[variable])
        for child in self.children[variable]:
            rate += self._rate(child) * max(abs(parents / own) for own, parents, _ in self.links[child])
        return rate


def _kinks(noise: Distribution, ends: bool) -> tuple[float, ...]:
    """The kinks of the noise, or the least and the most of them."""
    kinks = noise.kinks
    return (kinks[0], kinks[-1]) if ends and kinks else kinks


def _sums_between(ends: Array, values: Array, low: Array, high: Array) -> Array:
    """ln of the sums over the panels between bounds, which are ends of panels, a pair of them for each row."""
    by_panel = log_sum(values.reshape(len(values), len(ends) - 1, -1))
    first = np.minimum(np.searchsorted(ends, low, side="left"), len(ends) - 1)  # a bound may lie past all panels
    last = np.searchsorted(ends, high, side="right") - 1
    return range_sums(by_panel, first, np.maximum(last, first))
