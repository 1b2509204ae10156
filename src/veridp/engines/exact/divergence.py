"""Rényi divergences: of parts put together, along a continuous entry, and over the integers.

With c = α(α - 1), the Rényi divergence of order α is ln(1 + c F) / (α - 1), where F = ∫ q f(p/q) is the power
divergence of Cressie and Read, f(r) = (r^α - 1 - α(r - 1)) / c; for α = 1, in the limit, f(r) = r ln r - r + 1. Since f
is never negative, nothing cancels in F: a divergence of 1e-12 has as many correct digits as one of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veridp.errors import NotExact
from veridp.numerics.quadrature import NODES, WEIGHTS, log_sum

Array = NDArray[np.float64]
SERIES_BELOW = 0.5  # of |α ln r|: there, f is summed as a series
SERIES_TERMS = 18
MAX_HALVINGS = 400  # of a panel: where its end is 0, floats are as fine as that
MAX_PANELS = 4096  # that are halved at once
NARROWEST = 1e-12  # a panel next to any other end, against its distance from 0
TOLERANCE = math.log(1e-13)  # ln of the share of an integral that halving a panel may change
MAX_ERROR = math.log(1e-10)  # ln of the share of an integral that may be missing; else it is refused
MAX_SPREAD = 64.0  # by how much the logarithm of an integrand may change on a panel, for its nodes to see a peak
NEGLIGIBLE = -42.0  # ln of a share of an integral that does not count
DENSITY_ROUNDING = 8 * 2.0**-52  # of the logarithm of a density, relatively
CERTAIN = 100.0  # a logarithm is known where it is so many times larger than its rounding
LARGEST = 1e100  # a logarithm of a density beyond this is close to overflow
LOG_TOLERANCE = 1e-7  # logarithms of integrals that differ by less are taken to be equal
SLOWEST_DECAY = 0.75  # by what a tail has to shrink where the distance doubles, to be extrapolated
MAX_LATTICE_POINTS = 1 << 18
OUT_OF_REACH = "the Rényi divergence of order {:g} along an output entry is out of reach; use a lower order, or δ"


@dataclass(frozen=True)
class Divergence:
    """The Rényi divergence between the distributions of a part, and ln of the part's probability on either side."""

    log_left: float
    log_right: float
    value: float


def product_divergence(parts: Sequence[Divergence]) -> Divergence:
    """That of independent parts: divergences add."""
    left, right = (float(np.sum([getattr(p, side) for p in parts])) for side in ("log_left", "log_right"))
    return Divergence(left, right, 0.0 if left == -math.inf else sum(part.value for part in parts))


def mixture_divergence(parts: Sequence[Divergence], order: float) -> Divergence:
    """That of disjoint parts: F is a sum over them, of which every term is positive."""
    rows = np.array([(part.log_left, part.log_right, part.value) for part in parts])
    rows = rows[~np.isneginf(rows[:, 0]) | ~np.isneginf(rows[:, 1])]
    total_left, total_right = (float(log_sum(side)) for side in rows.T[:2]) if len(rows) else (-math.inf, -math.inf)
    if total_left == -math.inf or total_right == -math.inf:
        return Divergence(total_left, total_right, 0.0 if total_left == -math.inf else math.inf)
    left, right, inner = rows[:, 0] - total_left, rows[:, 1] - total_right, rows[:, 2]
    here = ~np.isneginf(left)
    if np.any(here & (np.isneginf(right) | np.isposinf(inner))):
        return Divergence(total_left, total_right, math.inf)
    losses = np.where(here, left - right, -np.inf)
    outer = right + log_excess(losses, order)
    within = (order * left - (order - 1) * right + _log_power(inner, order))[here]
    return Divergence(total_left, total_right, _renyi(float(log_sum(np.concatenate([outer, within]))), order))


def _renyi(log_power: float, order: float) -> float:
    """The Rényi divergence, from ln F."""
    if not math.isfinite(log_power):
        return 0.0 if log_power < 0 else math.inf
    if order == 1:
        return math.exp(log_power)
    return float(np.logaddexp(0.0, math.log(order * (order - 1)) + log_power)) / (order - 1)


def _log_power(values: Array, order: float) -> Array:
    """ln F, from Rényi divergences."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values) + _log_growth((order - 1) * values) - math.log(order))


def _log_growth(y: Array) -> Array:
    """ln (e^y - 1)/y."""
    size = np.abs(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size > 0, np.maximum(y, 0.0) + np.log(-np.expm1(-size) / size), 0.0)


def log_excess(losses: Array, order: float) -> Array:
    """ln f(e^loss), to full relative precision also where the loss is small.

    f(e^L) = Σ_(n >= 2) (1 + α + ... + α^(n-2)) L^n / n! = (L/α) (e^L φ((α - 1) L) - φ(L)), with φ(y) = (e^y - 1)/y.
    """
    scaled = order * losses
    with np.errstate(all="ignore"):
        small = np.clip(losses, -SERIES_BELOW / order, SERIES_BELOW / order)
        power, term, total = np.ones_like(small), np.ones_like(small), np.full_like(small, 0.5)
        for n in range(3, SERIES_TERMS + 1):
            power = power * (order * small)
            term = small * term + power
            total = total + term / math.factorial(n)
        series = 2 * np.log(np.abs(losses)) + np.log(total)
        terms = losses + _log_growth((order - 1) * losses), _log_growth(losses)
        high, low = np.maximum(*terms), np.minimum(*terms)
        direct = np.log(np.abs(losses) / order) + high + np.log(-np.expm1(low - high))
    found = np.where(np.abs(scaled) < SERIES_BELOW, series, direct)
    return np.where(np.isneginf(losses), -math.log(order), found)


# ------------------------------------------------------------------------------------------------ along an entry


class LogDensities(NamedTuple):
    """ln of both densities, at the same points."""

    left: Array
    right: Array


@dataclass(frozen=True, eq=False)
class _Integrand:
    """q f(p/q) of two densities, each divided by its mass."""

    order: float
    log_left: float
    log_right: float

    def __call__(self, at: LogDensities) -> Array:
        """Its logarithm; a right side of 0 is one next to the end of its support, for rounding."""
        left, right = at.left - self.log_left, at.right - self.log_right
        with np.errstate(invalid="ignore", over="ignore"):
            losses = np.where(np.isneginf(left), -np.inf, left - right)
            return np.where(np.isneginf(right), -np.inf, right + log_excess(losses, self.order))

    def rounding(self, at: LogDensities, error: float) -> Array:
        """By how much rounding may change its logarithm, given what else is wrong with those of the densities."""
        left, right = (np.where(np.isfinite(side), np.abs(side), 0.0) for side in at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            losses = np.abs(at.left - at.right - (self.log_left - self.log_right))
            small = (DENSITY_ROUNDING * (1 + left + right) + error) * np.where(losses > 0, 2 / losses, 0.0)
            large = DENSITY_ROUNDING * (self.order * left + (self.order - 1) * right) + (2 * self.order - 1) * error
        return np.asarray(large + np.where(np.isfinite(small), small, 0.0))


@dataclass(frozen=True, eq=False)
class _Panels:
    """The integral over each panel, a bound on it in case that its peak was missed, and the rounding of either."""

    low: Array
    high: Array
    estimates: Array
    bounds: Array
    rounding: Array
    peaks: Array  # ln of the largest integrand at a node, times half the width of the panel

    def __getitem__(self, chosen: NDArray[np.bool_] | slice) -> _Panels:
        return _Panels(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Line:
    """Two densities along a continuous entry, on panels on which each is smooth.

    Both are kept at the nodes of every panel: integrals of all orders, in both directions, share them.
    """

    densities: Callable[[Array], LogDensities]
    ends: Array  # of the panels that all of the mass lies on
    below: Array  # of panels farther out, outwards; as far as the tail goes
    above: Array
    closed: bool  # whether the densities are known arbitrarily far out
    error: float  # of the logarithm of a density
    least_width: float
    turned: bool = False
    known: dict[tuple[float, float], LogDensities] = field(default_factory=dict)

    @property
    def reversed(self) -> Line:
        """The same with left and right swapped."""
        return replace(self, turned=not self.turned)

    def divergence(self, order: float, log_left: float, log_right: float) -> Divergence:
        """The Rényi divergence, given ln of the masses; inf where the integral diverges.

        Panels are halved until that changes nothing, up to rounding.
        """
        integrand = _Integrand(order, log_left, log_right)
        inner = self._panels(self.ends[:-1], self.ends[1:], integrand)
        low = self._panels(self.below[1:], self.below[:-1], integrand)
        high = self._panels(self.above[:-1], self.above[1:], integrand)
        low, high = _certain(low), _certain(high)
        tails = [tail.estimates for tail in (low, high)]
        if any(map(_rises, tails)):
            if self.closed:
                return Divergence(log_left, log_right, math.inf)
            raise NotExact(OUT_OF_REACH.format(order))
        total = self._integral([inner, low, high], integrand)
        if math.isfinite(total):
            total = float(log_sum(np.array([total, *(_remainder(tail, total, order) for tail in tails)])))
        return Divergence(log_left, log_right, _renyi(total, order))

    def _panels(self, low: Array, high: Array, integrand: _Integrand) -> _Panels:
        at, half = self._at(low, high), (high - low) / 2
        values = integrand(at) + np.log(half)[:, None]
        peaks = values.argmax(axis=1) if len(low) else np.zeros(0, dtype=int)
        places = np.arange(len(low)), peaks
        top = values[places]
        with np.errstate(invalid="ignore"):
            spread = top - np.where(np.isneginf(values), np.inf, values).min(axis=1, initial=np.inf)
        rounding = integrand.rounding(LogDensities(at.left[places], at.right[places]), self.error)
        bounds = top + np.where(np.isfinite(spread), spread, 0.0)
        return _Panels(low, high, log_sum(values + np.log(WEIGHTS)), bounds, rounding, top)

    def _at(self, low: Array, high: Array) -> LogDensities:
        """Both densities at the nodes of each panel, a row for each; far out, each panel is as hard as it is far."""
        keys = list(zip(low.tolist(), high.tolist(), strict=True))
        new = [key for key in keys if key not in self.known]
        inside = [key for key in new if self.ends[0] <= key[0] and key[1] <= self.ends[-1]]
        for group in [inside, *([key] for key in new if key not in inside)] if not self.closed else [new]:
            if group:
                edges = np.array(group)
                points = edges.mean(axis=1)[:, None] + (edges[:, 1:] - edges[:, :1]) / 2 * NODES
                found = self.densities(points.ravel())
                rows = (side.reshape(points.shape) for side in found)
                self.known.update(zip(group, map(LogDensities, *rows), strict=True))
        sides = [np.array([self.known[key][side] for key in keys]).reshape(-1, len(NODES)) for side in (0, 1)]
        return LogDensities(*(sides[::-1] if self.turned else sides))

    def _integral(self, groups: Sequence[_Panels], integrand: _Integrand) -> float:
        """ln of the integral over all panels."""
        names = _Panels.__dataclass_fields__
        active = _Panels(*(np.concatenate([getattr(group, name) for group in groups]) for name in names))
        done: list[Array] = []
        for _ in range(MAX_HALVINGS):
            total = float(log_sum(np.concatenate([*done, active.estimates])))
            matter = active.bounds > total + NEGLIGIBLE
            done.append(active.estimates[~matter])
            active = active[matter]
            if not len(active.low) or total == -math.inf:
                return total
            if len(active.low) > MAX_PANELS:
                break
            middle = (active.low + active.high) / 2
            first, second = self._panels(active.low, middle, integrand), self._panels(middle, active.high, integrand)
            both = np.logaddexp(first.estimates, second.estimates)
            with np.errstate(invalid="ignore", divide="ignore"):
                gap = np.nan_to_num(np.abs(both - active.estimates), nan=0.0)
                change = np.maximum(both, active.estimates) + np.log(-np.expm1(-gap)) - total
            distance = np.maximum(np.abs(active.low), np.abs(active.high))
            narrow = active.high - active.low < self.least_width + NARROWEST * distance
            missing = narrow & (change > MAX_ERROR) & (gap > active.rounding)
            if np.any(missing):
                larger = np.maximum(first.estimates, second.estimates)
                if np.any(larger[missing] > active.estimates[missing] - LOG_TOLERANCE):
                    return math.inf  # halves of the panel next to a pole weigh as much as it does
                raise NotExact(OUT_OF_REACH.format(integrand.order))
            seen = active.bounds - active.peaks < MAX_SPREAD + 4 * active.rounding
            settled = seen & ((change < TOLERANCE) | (gap <= active.rounding)) | narrow
            done += [first.estimates[settled], second.estimates[settled]]
            parts = first[~settled], second[~settled]
            active = _Panels(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
        raise NotExact(OUT_OF_REACH.format(integrand.order))


def _certain(tail: _Panels) -> _Panels:
    """The panels up to the first whose integrand drowns in rounding, or overflows."""
    drowned = np.isfinite(tail.peaks) & (np.abs(tail.peaks) < CERTAIN * tail.rounding) & (tail.rounding > 1e-3)
    drowned |= tail.rounding > DENSITY_ROUNDING * LARGEST
    return tail[: int(np.argmax(drowned))] if drowned.any() else tail


def _rises(tail: Array) -> bool:
    """Whether the integrals over panels that double do not shrink in the end."""
    return bool(len(tail) > 2 and tail[-1] > -math.inf and tail[-1] >= tail[-2] >= tail[-3])


def _remainder(tail: Array, total: float, order: float) -> float:
    """ln of the integral past the last panel of a tail, from the two before."""
    if len(tail) < 2 or tail[-1] < total + NEGLIGIBLE:
        return -math.inf
    ratio = math.exp(min(0.0, tail[-1] - tail[-2]))
    if ratio < SLOWEST_DECAY and (rest := float(tail[-1]) + math.log(ratio / (1 - ratio))) < total + MAX_ERROR:
        return rest
    raise NotExact(OUT_OF_REACH.format(order))


# ---------------------------------------------------------------------------------------------- over the integers


def lattice_divergence(
    densities: Callable[[int], LogDensities], order: float, log_left: float, log_right: float
) -> Divergence:
    """The Rényi divergence over integers, from the probabilities up to n more of them on either side.

    Past the last, terms decay as the last two do, or faster.
    """
    integrand, reach = _Integrand(order, log_left, log_right), 0
    while True:
        values = integrand(densities(reach))
        total = float(log_sum(values))
        ends = values[:2][::-1], values[-2:]
        if total == -math.inf or all(end[-1] < total + NEGLIGIBLE for end in ends):
            return Divergence(log_left, log_right, _renyi(total, order))
        if len(values) > MAX_LATTICE_POINTS:
            if any(len(end) > 1 and -math.inf < end[0] <= end[1] for end in ends):
                return Divergence(log_left, log_right, math.inf)
            raise NotExact(OUT_OF_REACH.format(order))
        reach = 2 * reach or len(values)
