"""Privacy loss distributions on a lattice of equal steps, and the distribution of their sum: the one convolution.

A loss that lies between two points of the lattice must go to one, or to both in shares, and the direction is explicit:

- `dots` share it out so that both probabilities stay as they are. That can only add to δ, by an amount of second order
  in the step.
- `CellProduct` rounds it up (the largest loss of a cell), which can only add, and once more down (the loss of the cell
  as a whole), which can only hide. So the true δ lies between the two.

The sum over independent parts is one product of Fourier transforms. Its masses are weighed by e^(θ·loss) before and by
the inverse after, with θ such that the losses about the ε that is asked for become the likely ones: so a δ of 1e-30 has
as many right digits as one of 0.1. A discrete Fourier transform wraps around; the tilted mass beyond its window is
bounded by Chernoff's inequality, and what it could have changed is added to an upper bound on δ, and taken from a lower
one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.claim import Interval
from veridp.errors import BadInput

Array = NDArray[np.float64]
MOST_POINTS = 1 << 24
CELLS = 1000  # of losses, where a bound on their moments will do
OUTSIDE = -34.0  # ln of the tilted mass that may lie on either side of a window
TILTS = np.geomspace(1e-3, 1e3, 100)  # the tilts to choose from, times 1 / (standard deviation of the sum)
REACH = 300.0  # how far below the ε that is wanted losses are looked at, over 1 + tilt: e to the reach is no overflow
SLACK = 12.0  # ln of how much more a window may hide than at the best of tilts
TURNS = 12  # of looking for an ε with ever better tilts
TILT_TOLERANCE = 1e-9
LONGEST = 700.0  # e to more than this is out of reach of floats
CACHED = 1 << 14  # floats that stay in the cache
BLOCK = 512  # losses whose exponentials differ from those of another block by a factor
MAX_KEPT_TILTS = 8  # of a sum
LEVELS = 1 << 15  # of the lattice on which cells are put, over the range of the total loss
LEVEL_TOLERANCE = 1e-6  # of a step: a loss this close to a level is there up to rounding
EVENLY = 1e-9  # how far losses that are evenly spaced may be off, absolutely and in units of their spacing
UNLIKELY = 1e-13  # cells of less, as a share, need not be evenly spaced
FINER = 4.0  # by how much evenly spaced losses may be closer than the levels


@dataclass(frozen=True, eq=False)
class Tails:
    """The probabilities, under P and under Q, of a loss above each of some levels."""

    left: Array
    right: Array


@dataclass(frozen=True)
class LossSpan:
    """The range of the finite losses, but for a share of them that is below rounding."""

    low: float
    high: float


def dots(levels: Array, tails: Tails) -> Array:
    """Masses on the levels that dominate what has these tails above them, its mass above the last level left out.

    What lies between two levels is shared out between them so that its probabilities under P and under Q stay as they
    are (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the Dots", PoPETs 2022): the δ of the result runs
    through the true one at the levels, and above it between them. What lies below the first level is moved up to it.
    """
    left, right = (np.maximum(-np.diff(side), 0.0) for side in (tails.left, tails.right))
    # of a cell's mass p, the share at its upper end is (p e^(-low) - q) / (e^(-low) - e^(-high))
    with np.errstate(over="ignore", invalid="ignore"):
        upper = (left - right * np.exp(levels[:-1])) / -np.expm1(-np.diff(levels))
    upper = np.clip(np.where(np.isfinite(upper), upper, left), 0.0, left)  # out of reach of floats: up, which only adds
    masses = np.zeros(len(levels))
    masses[1:] += upper
    masses[:-1] += left - upper
    masses[0] += max(0.0, 1 - float(tails.left[0]))
    return masses


def together(leaks: Iterable[tuple[float, int]]) -> float:
    """The probability that something leaks, given the probability of each leak and how often it may happen."""
    kept = 0.0
    for leak, times in leaks:
        if times and leak >= 1:
            return 1.0
        kept += times * math.log1p(-leak)
    return max(0.0, -math.expm1(kept))  # not -0.0


@dataclass(frozen=True, eq=False)
class LossLattice:
    """The losses `offset + (first + k) · step` of one part with their masses, and how many times it takes part."""

    offset: float
    first: int
    masses: Array
    step: float
    count: int
    lost: float  # the probability of an infinite loss, or of one that was cut off as too large

    @cached_property
    def losses(self) -> Array:
        return np.asarray(self.offset + (self.first + np.arange(len(self.masses))) * self.step, dtype=float)

    def log_moment(self, tilt: float) -> float:
        """ln Σ mass · e^(tilt · loss)."""
        return float(_log_moments(self.losses, self.masses, np.array([tilt]))[0])

    def trimmed(self, mass: float) -> LossLattice:
        """Without its largest losses, as far as these weigh no more than this: they count as lost."""
        tail = np.cumsum(self.masses[::-1])
        cut = int(np.searchsorted(tail, mass, side="right"))
        if not cut or cut >= len(self.masses):
            return self
        return replace(self, masses=self.masses[:-cut], lost=min(1.0, self.lost + float(tail[cut - 1])))

    @cached_property
    def sketch(self) -> Sketch:
        """Its masses on the ends of up to CELLS cells, none of which has much of the mass, nor of the range.

        What lies in a cell goes to its two ends so that its mean stays: e^(tilt · loss) is convex, so moments can only
        grow, by an amount of second order in the width of the cell.
        """
        size = len(self.masses)
        progress = np.cumsum(self.masses) / self.masses.sum() + np.arange(size) / size
        inner = np.searchsorted(progress, np.linspace(progress[0], progress[-1], min(CELLS, size) + 1)[1:-1])
        knots = np.unique(np.concatenate([[0], inner, [size - 1]]))
        starts, widths = knots[:-1], np.diff(knots)
        if not len(starts):
            return Sketch(self.losses, self.masses, self.count)
        inside = np.add.reduceat(self.masses[:-1], starts)
        moments = np.add.reduceat(self.masses[:-1] * np.arange(size - 1), starts)
        upper = np.clip((moments - starts * inside) / widths, 0.0, inside)
        masses = np.append(inside - upper, self.masses[-1])
        masses[1:] += upper
        return Sketch(self.losses[knots], masses, self.count)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A few losses with masses, at most of a part that takes part `count` times, whose moments are close to its."""

    losses: Array
    masses: Array
    count: int = 1

    def log_moments(self, tilts: Array) -> Array:
        """ln Σ mass · e^(tilt · loss) at each tilt."""
        return _log_moments(self.losses, self.masses, tilts)

    @property
    def variance(self) -> float:
        """That of all its times together, infinite losses left out."""
        shares = self.masses / self.masses.sum()
        return self.count * float(shares @ (self.losses - shares @ self.losses) ** 2)


def _log_moments(losses: Array, masses: Array, tilts: Array) -> Array:
    """ln Σ mass · e^(tilt · loss) at each tilt: a few at once, so that all of it stays in the cache."""
    found = np.empty(len(tilts))
    rows = max(1, CACHED // len(losses))
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(masses)
        for start in range(0, len(tilts), rows):
            exponents = np.multiply.outer(tilts[start : start + rows], losses)
            exponents += logs
            tops = exponents.max(axis=1)
            exponents -= tops[:, None]
            np.exp(exponents, out=exponents)
            found[start : start + rows] = np.log(exponents.sum(axis=1)) + tops
    return found


def sum_log_moments(sketches: Sequence[Sketch], tilts: Array) -> Array:
    return np.asarray(sum(sketch.count * sketch.log_moments(tilts) for sketch in sketches))


def deviation(sketches: Sequence[Sketch]) -> float:
    """The standard deviation of the sum, infinite losses left out."""
    return math.sqrt(math.fsum(sketch.variance for sketch in sketches))


def window_of(sketches: Sequence[Sketch], tilt: float, log_moment: float, step: float) -> LossSpan:
    """Where the tilted sum lies but for a mass of e^OUTSIDE on either side, given ln of its moment at the tilt.

    By Chernoff's inequality, from bounds on the moments.
    """
    further = TILTS / max(deviation(sketches), step)
    up = np.min((sum_log_moments(sketches, tilt + further) - log_moment - OUTSIDE) / further)
    down = np.max((log_moment + OUTSIDE - sum_log_moments(sketches, tilt - further)) / further)
    lowest = math.fsum(sketch.count * float(sketch.losses[0]) for sketch in sketches)
    highest = math.fsum(sketch.count * float(sketch.losses[-1]) for sketch in sketches)
    return LossSpan(max(float(down), lowest), min(float(up), highest))


@dataclass(frozen=True, eq=False)
class Tilted:
    """The masses of the sum at `losses`, weighed by e^(tilt · loss - log_moment)."""

    tilt: float
    losses: Array
    masses: Array
    log_moment: float

    def at(self, around: float, unbounded: float) -> Curve:
        """δ as a function of ε, where it is about this ε that it is wanted."""
        first = int(np.searchsorted(self.losses, around - REACH / (1 + self.tilt), side="right"))
        losses = self.losses[first:] - around
        with np.errstate(under="ignore"):
            masses = self.masses[first:] * _exponentials(losses, -self.tilt)
            sums = [_sums_upwards(side) for side in (masses, masses * _exponentials(losses, -1.0))]
        cut = first > 0
        return Curve(around, losses, sums[0], sums[1], self.log_moment - self.tilt * around, unbounded, cut, self.tilt)


def _sums_upwards(masses: Array) -> Array:
    """The sum of the masses from each place upwards, and 0 past the last."""
    sums = np.zeros(len(masses) + 1)
    np.cumsum(masses[::-1], out=sums[-2::-1])
    return sums


def _exponentials(losses: Array, factor: float) -> Array:
    """e^(factor · loss) on a lattice of equal steps, by a product of a few exponentials for each: as right as one."""
    if len(losses) <= BLOCK:
        return np.asarray(np.exp(factor * losses))
    within = np.exp(factor * (losses[:BLOCK] - losses[0]))
    return np.asarray(np.multiply.outer(np.exp(factor * losses[::BLOCK]), within).ravel()[: len(losses)])


@dataclass(frozen=True, eq=False)
class Curve:
    """δ(ε) from sums over the losses from the k-th upwards, of masses under P and under Q; losses count from
    `around`."""

    around: float
    losses: Array
    left: Array
    right: Array
    scale: float  # ln of what the sums have to be multiplied with
    unbounded: float
    cut: bool  # whether there are lower losses
    tilt: float

    @property
    def lowest(self) -> float:
        """The lowest loss that was looked at."""
        return self.around + float(self.losses[0]) if len(self.losses) else self.around

    def delta(self, epsilon: float, up: bool) -> float:
        """δ from above or from below, as far as it rests on the window."""
        distance = epsilon - self.around
        first = int(np.searchsorted(self.losses, distance, side="right"))
        finite = max(0.0, float(self.left[first] - math.exp(distance) * self.right[first]))
        hidden = self._hidden(epsilon)
        finite = finite + hidden if up else max(0.0, finite - hidden)
        return min(1.0, finite * math.exp(min(self.scale, LONGEST)) + self.unbounded)

    def _hidden(self, epsilon: float) -> float:
        """What the tilted mass on either side of the window may add at this ε, in units of the sums."""
        return 2 * math.exp(min(OUTSIDE - self.tilt * (epsilon - self.around), LONGEST))

    def _target(self, delta: float) -> float:
        """What the sums may come to at this δ."""
        return (delta - self.unbounded) * math.exp(min(-self.scale, LONGEST))

    def epsilon(self, delta: float) -> float:
        """The least ε at which δ is no more than this, if the window hides as little there as it does `around`."""
        target = self._target(delta) - self._hidden(self.around)
        if target <= 0:
            return self.around + float(self.losses[-1])
        place = self._first_within(target)
        # between this loss and the one before, δ = left - e^ε right with the sums from here upwards
        above = float(self.left[place]) - target
        if above <= 0 or not self.right[place] > 0:
            return self.lowest  # δ is no more than this already there
        return self.around + math.log(above) - math.log(float(self.right[place]))

    def _first_within(self, target: float) -> int:
        """The place of the least loss at which the sums come to no more than this, for they fall; the last if none."""
        low, high = 0, len(self.losses) - 1
        while low < high:
            middle = (low + high) // 2
            grown = math.exp(min(float(self.losses[middle]), LONGEST))
            within = float(self.left[middle + 1]) - grown * float(self.right[middle + 1]) <= target
            low, high = (low, middle) if within else (middle + 1, high)
        return low

    def settles(self, epsilon: float, delta: float) -> bool:
        """Whether an ε that was found for this δ lies where was looked, and no more is hidden there than thought."""
        seen = not self.cut or epsilon > self.lowest
        return seen and self._hidden(epsilon) <= self._hidden(self.around) + TILT_TOLERANCE * self._target(delta)


class LossSum:
    """The sum of the losses of some rows: its masses, tilted as is best for the ε or the δ that is asked for."""

    def __init__(self, rows: Sequence[LossLattice]) -> None:
        self.rows = rows
        self.step = rows[0].step
        self._tilted: dict[float, Tilted] = {}

    @cached_property
    def infinite(self) -> float:
        """The probability that some loss is infinite, or was cut off as too large."""
        if not all(row.masses.any() for row in self.rows):
            return 1.0
        return together((row.lost, row.count) for row in self.rows)

    @property
    def _sketches(self) -> list[Sketch]:
        return [row.sketch for row in self.rows]

    @cached_property
    def _tilts(self) -> Array:
        """The tilts to choose from."""
        return np.concatenate([[0.0], TILTS / max(deviation(self._sketches), self.step)])

    @cached_property
    def _moments(self) -> Array:
        """ln of the moment generating function of the sum at the tilts, from above."""
        return sum_log_moments(self._sketches, self._tilts)

    def delta(self, epsilon: float, up: bool = True) -> float:
        """δ of these losses at this ε: an upper bound, or a lower one, up to rounding."""
        if self.infinite == 1 or epsilon >= math.fsum(row.count * float(row.losses[-1]) for row in self.rows):
            return self.infinite
        return self.at(self._best_tilt(epsilon)).at(epsilon, self.infinite).delta(epsilon, up)

    def epsilon(self, delta: float) -> float:
        """The least ε >= 0 at this δ, which is above the mass of infinite losses."""
        tilts, logs = self._tilts[1:], self._moments[1:]
        # δ(ε) <= E[e^(θ (loss - ε))] θ^θ / (1 + θ)^(1 + θ), for that is the largest of (1 - e^-x) e^(-θx)
        peaks = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)
        bounds = (logs + peaks - math.log(delta - self.infinite)) / tilts
        around = highest = max(0.0, float(np.min(bounds)))
        for _ in range(TURNS):
            curve = self.at(self._best_tilt(around)).at(around, self.infinite)
            around = max(0.0, curve.epsilon(delta))
            if curve.settles(around, delta):
                return around
        return self._bisected(delta, 0.0, highest)

    def _bisected(self, delta: float, low: float, high: float) -> float:
        """The ε between two at which δ falls to this: slower, and always right."""
        while high - low > TILT_TOLERANCE * (1 + high):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def _best_tilt(self, epsilon: float) -> float:
        """The least tilt for which the window hides little more than it must at this ε: larger ones make it wider."""
        hidden = self._moments - self._tilts * epsilon
        return float(self._tilts[np.argmax(hidden <= hidden.min() + SLACK)])

    def at(self, tilt: float) -> Tilted:
        """The masses of the sum at this tilt."""
        if tilt not in self._tilted:
            if len(self._tilted) == MAX_KEPT_TILTS:
                self._tilted.clear()
            self._tilted[tilt] = self._transformed(tilt)
        return self._tilted[tilt]

    def _transformed(self, tilt: float) -> Tilted:
        from scipy.fft import irfft, next_fast_len, rfft

        moments = [row.log_moment(tilt) for row in self.rows]
        log_moment = math.fsum(row.count * moment for row, moment in zip(self.rows, moments, strict=True))
        window = window_of(self._sketches, tilt, log_moment, self.step)
        offset = sum(row.count * row.offset for row in self.rows)
        first = math.floor((window.low - offset) / self.step)
        points = math.ceil((window.high - offset) / self.step) - first + 1
        points = next_fast_len(max(points, 2), real=True)
        if points > MOST_POINTS:
            raise BadInput(f"{points} losses, {self.step:g} apart, are too many to convolve; give a larger step")
        product = np.ones(points // 2 + 1, dtype=complex)
        for row, moment in zip(self.rows, moments, strict=True):
            with np.errstate(under="ignore"):
                weighed = row.masses * np.exp(tilt * row.losses - moment)
            wrapped = np.bincount((row.first + np.arange(len(weighed))) % points, weights=weighed, minlength=points)
            with np.errstate(under="ignore"):
                product *= _power(rfft(wrapped), row.count)
        masses = np.roll(np.maximum(irfft(product, points), 0.0), -(first % points))
        return Tilted(tilt, offset + (first + np.arange(points)) * self.step, masses, log_moment)


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """The values to this power >= 1, by squaring: several times as fast as through logarithms, and no less right."""
    found = None
    while True:
        if count & 1:
            found = values if found is None else found * values
        count >>= 1
        if not count:
            break
        values = values * values
    return found if found is not None else values


# ---------------------------------------------------------------------------------------- from below and from above


@dataclass(frozen=True, eq=False)
class Cells:
    """Disjoint sets of outputs: the probability on either side, and the largest loss in each."""

    left: Array
    right: Array
    largest: Array


class CellProduct:
    """δ over the product of independent parts, from below and from above, given the cells of each."""

    def __init__(self, parts: Sequence[Cells]) -> None:
        self.totals = [float(part.left.sum()) for part in parts]
        step, offsets = _shared_lattice(parts, 2 * sum(_span(part) for part in parts) / LEVELS or 1.0)
        placed = list(zip(parts, offsets, strict=True))
        self.lower, self.upper = (
            LossSum([_rounded(part, offset, step, up=up) for part, offset in placed]) for up in (False, True)
        )

    def delta(self, epsilon: float) -> Interval:
        """Bounds on ∫ max(0, p - e^ε q)."""
        total = math.prod(self.totals)
        if not total:
            return Interval.exactly(0.0)
        lower, upper = self.lower.delta(epsilon, up=False), self.upper.delta(epsilon)
        return Interval(total * min(lower, upper), total * upper)  # where they are one, rounding may turn them round


def _span(part: Cells) -> float:
    """The largest finite loss of a part, in absolute value."""
    losses = np.concatenate([part.largest, _average(part)])
    finite = np.abs(losses[np.isfinite(losses)])
    return float(finite.max()) if len(finite) else 0.0


def _average(part: Cells) -> Array:
    """ln of the ratio of the probabilities of each cell."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(part.left > 0, np.log(part.left) - np.log(part.right), -np.inf)


def _shared_lattice(parts: Sequence[Cells], step: float) -> tuple[float, list[float]]:
    """A step of up to so much, and a loss of each part to count from.

    Where the losses of all parts are evenly spaced, as those of integer noise, they are on the lattice themselves.
    """
    spaced = [_spacing(part) for part in parts]
    known = [each for each in spaced if each is not None]
    least = min((spacing for _, spacing in known), default=0.0)
    ratios = np.array([spacing for _, spacing in known]) / (least or 1.0)
    if len(known) < len(parts) or least < step / FINER or np.any(np.abs(ratios - np.rint(ratios)) > EVENLY):
        return step, [0.0] * len(parts)
    return least / math.ceil(least / step), [first for first, _ in known]


def _spacing(part: Cells) -> tuple[float, float] | None:
    """The least likely loss and how far apart these are, where each cell has one and they are evenly spaced."""
    average = _average(part)
    likely = np.isfinite(average) & (part.left > UNLIKELY * part.left.sum())
    losses = np.sort(average[likely])
    gaps = np.diff(losses)
    gaps = gaps[gaps > EVENLY]
    if not len(gaps) or np.any(part.largest[likely] - average[likely] > EVENLY):
        return None
    spacing = (losses[-1] - losses[0]) / round((losses[-1] - losses[0]) / gaps.min())
    places = (losses - losses[0]) / spacing
    return (float(losses[0]), float(spacing)) if np.all(np.abs(places - np.rint(places)) <= EVENLY) else None


def _rounded(part: Cells, offset: float, step: float, up: bool) -> LossLattice:
    """The part, of a total probability of 1, with its losses rounded up or down to levels."""
    losses = part.largest if up else _average(part)
    infinite = np.isposinf(losses)
    seen = (part.left > 0) & ~infinite
    slack = -LEVEL_TOLERANCE if up else LEVEL_TOLERANCE
    places = (np.ceil if up else np.floor)((np.where(seen, losses, offset) - offset) / step + slack).astype(int)
    first = int(places[seen].min()) if seen.any() else 0
    shares = part.left / (part.left.sum() or 1.0)
    masses = np.asarray(np.bincount(places[seen] - first, weights=shares[seen], minlength=1), dtype=float)
    return LossLattice(offset, first, masses, step, 1, float(shares[infinite].sum()))
