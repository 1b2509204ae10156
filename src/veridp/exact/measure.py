"""The measure of a set of noise: the integral of independent densities over linear inequalities.

Variables are eliminated along the tree that the inequalities make of them: what hangs below a variable is a function
of that variable alone, in closed form where nothing hangs below, else by quadrature between breakpoints. Inequalities
that do not make a tree are cut open by fixing a variable, over which is then integrated.

Many measures of one structure are computed at once: constants may be arrays, an entry for each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.errors import NotExact
from veridp.exact.noise import Noise
from veridp.exact.quadrature import Grid, edges, log_sum, panels, range_sums, whole_numbers
from veridp.exact.star import Middle, Ray, log_measures

Array = NDArray[np.float64]
MOST_CUTS = 2  # how many variables may be fixed to make a tree
MOST_POINTS = 40_000_000  # how many points one elimination may visit at once; more are done in parts
MOST_CORNERS = 1000  # of a variable that is fixed
MOST_STRETCHED = 100_000  # integrals that share a grid, where each needs but sums over it
TIED_ROWS = 24  # integrals that share a grid, where each brings a kink of its own to it


@dataclass(frozen=True, eq=False)
class Form:
    """Σ coefficient · variable + constant, the constant with an entry for each row."""

    coefficients: tuple[tuple[int, float], ...]
    constant: Array

    @property
    def variables(self) -> frozenset[int]:
        return frozenset(variable for variable, _ in self.coefficients)

    def coefficient(self, variable: int) -> float:
        return next((c for v, c in self.coefficients if v == variable), 0.0)

    def fixed(self, variable: int, values: Array) -> Form:
        """The form with the variable at these values, an entry for each row."""
        rest = tuple((v, c) for v, c in self.coefficients if v != variable)
        return Form(rest, self.constant + self.coefficient(variable) * values)

    def repeated(self, times: int) -> Form:
        return Form(self.coefficients, np.repeat(self.constant, times))

    def some(self, rows: slice) -> Form:
        return Form(self.coefficients, self.constant[rows])


@dataclass(frozen=True, eq=False)
class Region:
    """Independent noise, a variable each; inequalities `form >= 0`; and further densities at forms of the variables."""

    noise: dict[int, Noise]
    inequalities: tuple[Form, ...]
    densities: tuple[tuple[Noise, Form], ...] = ()
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

    def _connected(self) -> Iterator[Region]:
        """The parts that have no variable in common; variables that nothing bounds are left out."""
        links = [form for form in self.inequalities if form.coefficients]
        ties = [(noise, form) for noise, form in self.densities if form.coefficients]
        groups: list[set[int]] = []
        for form in [*links, *(form for _, form in ties)]:
            touching = [group for group in groups if not group.isdisjoint(form.variables)]
            groups = [group for group in groups if group.isdisjoint(form.variables)]
            groups.append(set(form.variables).union(*touching))
        for group in groups:
            yield Region(
                {variable: self.noise[variable] for variable in sorted(group)},
                tuple(form for form in links if form.variables <= group),
                tuple((noise, form) for noise, form in ties if form.variables <= group),
                self.rows,
            )

    def fixed(self, variable: int, grid: Grid) -> Region:
        """The region with the variable fixed at each point of the grid: a row for each row and point."""
        count = grid.points.shape[1]
        values = np.broadcast_to(grid.points, (self.rows, count)).ravel()
        return Region(
            {v: noise for v, noise in self.noise.items() if v != variable},
            tuple(form.repeated(count).fixed(variable, values) for form in self.inequalities),
            tuple((noise, form.repeated(count).fixed(variable, values)) for noise, form in self.densities),
            self.rows * count,
        )

    def some(self, rows: slice) -> Region:
        """The region of these rows."""
        return Region(
            self.noise,
            tuple(form.some(rows) for form in self.inequalities),
            tuple((noise, form.some(rows)) for noise, form in self.densities),
            len(range(*rows.indices(self.rows))),
        )


def _log_measure(region: Region, cuts: int) -> Array:
    """ln of the measure of a connected region."""
    root = _tree_root(region)
    if root is not None:
        return _Tree(region, root).log_measure()
    if cuts == MOST_CUTS:
        raise NotExact(
            f"{', '.join(f'n{variable}' for variable in region.noise)} are entangled by conditions that link more than "
            f"two at a time or go in circles (fixing {MOST_CUTS} does not make a tree); use an engine that samples"
        )
    return _cut(region, cuts)


# ------------------------------------------------------------------------------------------------------- trees


def _tree_root(region: Region) -> int | None:
    """The variable in the middle of the tree that the inequalities make; None where they make no tree."""
    if any(len(form.coefficients) > 2 for form in region.inequalities):
        return None
    if any(len(form.coefficients) > 1 for _, form in region.densities):
        return None
    near: dict[int, set[int]] = {variable: set() for variable in region.noise}
    for form in region.inequalities:
        if len(form.coefficients) == 2:
            first, second = form.variables
            near[first].add(second)
            near[second].add(first)
    if sum(map(len, near.values())) // 2 != len(near) - 1:
        return None
    tied = {variable for _, form in region.densities for variable in form.variables}
    return min(near, key=lambda v: (_depth(near, v, tied), not region.noise[v].integer, -len(near[v])))


def _depth(near: dict[int, set[int]], root: int, tied: set[int]) -> int:
    """How deep integrals nest below the root: the last variable of a branch needs none, unless a density ties it."""
    depth, layer, seen = 0, {root}, {root}
    deepest = int(root in tied)
    while layer := {other for variable in layer for other in near[variable]} - seen:
        seen |= layer
        depth += 1
        deepest = max(deepest, depth + (not tied.isdisjoint(layer)))
    return deepest


class _Tree:
    """A connected region whose inequalities link variables in a tree."""

    def __init__(self, region: Region, root: int) -> None:
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
        shared = (
            len(rows) > 1
            and not noise.integer
            and not any(self._varies(child, rows) for child in self._below(variable))
        )
        if not shared:
            integral, size = self._integral, max(1, MOST_POINTS // 4000)
        elif all(noise.stretches for noise, _ in self.ties[variable]):
            integral, size = self._stretched_integral, MOST_STRETCHED
        else:
            integral, size = self._shared_integral, TIED_ROWS
        parts = [slice(start, start + size) for start in range(0, len(rows), size)]
        return np.concatenate([integral(variable, rows[p], at_least[p], at_most[p]) for p in parts])

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
        """The integral with a grid for each row."""
        empty = ~(low < high) if not self.region.noise[variable].integer else ~(low <= high)
        grid = self._grid(variable, rows, np.where(empty, 0.0, low), np.where(empty, 0.0, high))
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
        total = np.full(len(rows), -np.inf)
        if len(ends) < 2:
            return total
        grid = panels(ends[None, :])
        values = grid.log_weights + self._untied(variable, rows, grid.points)
        forms = [form for _, form in self.ties[variable]]
        for stretches in itertools.product(*(noise.stretches or () for noise, _ in self.ties[variable])):
            slope, constant, inside = 0.0, np.zeros(len(rows)), (low, high)
            for stretch, form in zip(stretches, forms, strict=True):
                own, rest = form.coefficient(variable), form.constant[rows]
                slope += stretch.slope * own
                constant = constant + stretch.intercept + stretch.slope * rest
                at = (stretch.low - rest) / own, (stretch.high - rest) / own
                inside = np.maximum(inside[0], at[own < 0]), np.minimum(inside[1], at[own > 0])
            total = np.logaddexp(total, constant + _sums_between(ends, values + slope * grid.points, *inside))
        return total

    def _shared_ends(self, variable: int, rows: NDArray[np.intp], low: Array, high: Array) -> Array:
        """The ends of panels that serve all rows."""
        own, below = self._own_breaks(variable, rows), self._carried_breaks(variable, rows[:1])
        bounds = [low[np.isfinite(low)], high[np.isfinite(high)]]
        breaks = np.unique(np.concatenate([*own, *below, *bounds]))
        noise = self.region.noise[variable]
        width, tail = 16.0 / self._rate(variable), noise.tail * noise.scale
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
            reach = noise.tail * noise.scale
            breaks = self._breaks(variable, rows)
            centre = getattr(noise, "centre", 0.0)
            first = np.maximum(low, np.minimum(breaks.min(axis=1), centre) - reach)
            last = np.minimum(high, np.maximum(breaks.max(axis=1), centre) + reach)
            return whole_numbers(np.ceil(first - 1e-9), np.floor(last + 1e-9))
        width, tail = 16.0 / self._rate(variable), noise.tail * noise.scale
        ends = edges(np.clip(self._breaks(variable, rows), -1e300, 1e300), width, tail, low, high)
        return panels(np.clip(ends, -1e300, 1e300))

    def _breaks(self, variable: int, rows: NDArray[np.intp]) -> Array:
        """Where the integrand over the variable is not smooth, and 0: a row for each row."""
        return np.column_stack([*self._own_breaks(variable, rows), *self._carried_breaks(variable, rows)])

    def _own_breaks(self, variable: int, rows: NDArray[np.intp]) -> list[Array]:
        """Those of its own noise, bounds and further densities."""
        ends = [
            end for end in (self.bounds[variable][0][rows], self.bounds[variable][1][rows]) if np.isfinite(end).all()
        ]
        fixed = () if self.region.noise[variable].integer else self.region.noise[variable].kinks
        found = [np.zeros(len(rows)), *ends, *(np.full(len(rows), kink) for kink in fixed)]
        for noise, form in self.ties[variable]:
            found += [
                (kink - form.constant[rows]) / form.coefficient(variable) for kink in (*noise.kinks, noise.middle)
            ]
        return found

    def _carried_breaks(self, variable: int, rows: NDArray[np.intp]) -> list[Array]:
        """Those that its children bring."""
        found: list[Array] = []
        for child in self.children[variable]:
            inner = self._breaks(child, rows)
            if self.region.noise[child].integer:
                inner = np.concatenate([inner, np.tile(self.region.noise[child].kinks, (len(rows), 1))], axis=1)
            for own, parents, constant in self.links[child]:
                found += list((-(own * inner + constant[rows][:, None]) / parents).T)
            for (a, b, c), (e, f, g) in itertools.combinations(self.links[child], 2):
                if b * e != a * f:
                    found.append((a * g - c * e)[rows] / (b * e - a * f))
        return found

    def _rate(self, variable: int) -> float:
        """How fast the logarithm of the integrand may change along the variable."""
        rate = self.region.noise[variable].rate
        rate += sum(noise.rate * abs(form.coefficient(variable)) for noise, form in self.ties[variable])
        for child in self.children[variable]:
            rate += self._rate(child) * max(abs(parents / own) for own, parents, _ in self.links[child])
        return rate


def _sums_between(ends: Array, values: Array, low: Array, high: Array) -> Array:
    """ln of the sums over the panels between bounds, which are ends of panels, a pair of them for each row."""
    by_panel = log_sum(values.reshape(len(values), len(ends) - 1, -1))
    first = np.minimum(np.searchsorted(ends, low, side="left"), len(ends) - 1)  # a bound may lie past all panels
    last = np.searchsorted(ends, high, side="right") - 1
    return range_sums(by_panel, first, np.maximum(last, first))


# -------------------------------------------------------------------------------------------------------- cuts


def _cut(region: Region, cuts: int) -> Array:
    """ln of the measure, by fixing one variable at the points of a grid."""
    variable = _best_cut(region)
    noise = region.noise[variable]
    low, high = (np.full(region.rows, end) for end in noise.support)
    breaks = np.column_stack([np.zeros(region.rows), *_corners(region, variable)])
    if noise.integer:
        reach = noise.tail * noise.scale
        first, last = np.maximum(low, breaks.min(axis=1) - reach), np.minimum(high, breaks.max(axis=1) + reach)
        grid = whole_numbers(np.ceil(first), np.floor(last))
    else:
        rate = noise.rate + sum(n.rate for n in region.noise.values())
        ends = edges(breaks, 16.0 / rate, noise.tail * noise.scale, low, high)
        grid = panels(ends)
    inner = region.fixed(variable, grid)
    size = max(1, MOST_POINTS // 50_000)
    values = np.concatenate(
        [inner.some(slice(at, at + size)).log_measure(cuts + 1) for at in range(0, inner.rows, size)]
    ).reshape(region.rows, -1)
    return grid.integrate(values + noise.log_density(grid.points))


def _best_cut(region: Region) -> int:
    """The variable in most of the conditions that stand in the way of a tree."""
    forms = [*region.inequalities, *(form for _, form in region.densities)]

    def weight(variable: int) -> tuple[int, int]:
        present = [form for form in forms if variable in form.variables]
        return sum(len(form.coefficients) > 2 for form in present), sum(len(form.coefficients) > 1 for form in present)

    return max(region.noise, key=weight)


def _corners(region: Region, variable: int) -> list[Array]:
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
