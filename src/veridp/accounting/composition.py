"""Many pairs at once, independently: the distribution of the sum of their losses, by convolution on a lattice.

The losses of each part are put on a lattice of equal steps, and the sum over the parts is one product of Fourier
transforms. Three things keep the result honest and small errors small:

- *Dots.* What lies between two points of the lattice is shared out between them so that its probabilities under P and
  under Q both stay as they are (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the Dots", PoPETs 2022). This
  can only add to δ, and by an amount of second order in the step. Finite losses that lie on a lattice of their own are
  put there as they are: then nothing is added.
- *Tilting.* The masses are weighed by e^(θ·loss) before and by its inverse after, with θ such that the losses about the
  ε that is asked for become the likely ones. So a δ of 1e-30 has as many right digits as one of 0.1.
- *A window.* A discrete Fourier transform wraps around. The tilted mass beyond its window is bounded by Chernoff's
  inequality, and what it could have hidden is added to δ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.pairs import SAME, Finite, Pair, Span, Tails, dots
from veridp.errors import BadInput

Array = NDArray[np.float64]
POINTS = 1 << 19  # of the lattice, over the window, where the step is ours to choose
DENSE = 1e-4  # of the width of the losses: within this of 0, levels for moments are evenly spaced, beyond ever less
CELLS = 1000  # of losses, where a bound on their moments will do
MOST_POINTS = 1 << 24
LONGEST = 700.0  # e to more than this is out of reach of floats
OUTSIDE = -34.0  # ln of the tilted mass that may lie on either side of the window
TILTS = np.geomspace(1e-3, 1e3, 100)  # the tilts to choose from, times 1 / (standard deviation of the sum)


@dataclass(frozen=True, eq=False)
class Part:
    """A pair, and how many times it takes part."""

    pair: Pair
    count: int = 1


@dataclass(frozen=True, eq=False)
class _Row:
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
        return float(_log_sums(self.masses, self.losses[None, :] * tilt)[0])

    def log_moments(self, tilts: Array) -> Array:
        """Upper bounds on the same at each tilt, from cells of losses rather than single ones: close, and quick."""
        highest = self._cells[:, 1] * np.maximum(tilts, 0.0)[:, None]
        lowest = self._cells[:, 0] * np.minimum(tilts, 0.0)[:, None]
        return _log_sums(self._cells[:, 2], highest + lowest)

    @cached_property
    def _cells(self) -> Array:
        """The lowest loss, the highest and the mass of up to CELLS cells, a row each."""
        starts = np.arange(0, len(self.masses), -(-len(self.masses) // CELLS))
        ends = np.append(starts[1:], len(self.masses)) - 1
        table = np.column_stack([self.losses[starts], self.losses[ends], np.add.reduceat(self.masses, starts)])
        return table[table[:, 2] > 0]


def _log_sums(masses: Array, exponents: Array) -> Array:
    """ln Σ mass · e^exponent, for each row of exponents."""
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(masses) + exponents
        tops = logs.max(axis=1)
        return np.asarray(np.log(np.exp(logs - tops[:, None]).sum(axis=1)) + tops)


@dataclass(frozen=True, eq=False)
class _Tilted:
    """The masses of the sum at `losses`, weighed by e^(tilt · loss - log_moment)."""

    tilt: float
    losses: Array
    masses: Array
    log_moment: float

    def at(self, around: float, unbounded: float) -> _Curve:
        """δ as a function of ε, where it is about this ε that it is wanted."""
        seen = self.losses > around - min(LONGEST / max(self.tilt, 1e-300), LONGEST)
        losses = self.losses[seen] - around
        with np.errstate(under="ignore"):
            masses = self.masses[seen] * np.exp(-self.tilt * losses)
            sums = [np.append(np.cumsum(side[::-1])[::-1], 0.0) for side in (masses, masses * np.exp(-losses))]
        return _Curve(around, losses, sums[0], sums[1], self.log_moment - self.tilt * around, unbounded)


@dataclass(frozen=True, eq=False)
class _Curve:
    """δ(ε) from sums over the losses from the k-th upwards, of masses under P and under Q; losses count from
    `around`."""

    around: float
    losses: Array
    left: Array
    right: Array
    scale: float  # ln of what the sums have to be multiplied with
    unbounded: float

    def delta(self, epsilon: float) -> float:
        distance = epsilon - self.around
        first = int(np.searchsorted(self.losses, distance, side="right"))
        return self._total(max(0.0, float(self.left[first] - math.exp(distance) * self.right[first])))

    def _total(self, finite: float) -> float:
        """With what the window may hide: tilted mass of e^OUTSIDE on either side."""
        return min(1.0, (finite + 2 * math.exp(OUTSIDE)) * math.exp(min(self.scale, LONGEST)) + self.unbounded)

    def epsilon(self, delta: float) -> float:
        """The least ε at which δ is no more than this."""
        target = (delta - self.unbounded) * math.exp(-self.scale) - 2 * math.exp(OUTSIDE)
        if target <= 0:
            return self.around + float(self.losses[-1])
        reached = self.left[1:] - np.exp(np.minimum(self.losses, LONGEST)) * self.right[1:] <= target
        place = int(np.argmax(reached)) if reached.any() else len(self.losses) - 1
        # between this loss and the one before, δ = left - e^ε right with the sums from here upwards
        return self.around + math.log(max(self.left[place] - target, 1e-300) / max(self.right[place], 1e-300))


class Composition:
    """Independent pairs at once: ε at a δ, and δ at an ε, of all of them together.

    `exact` tells whether the losses are all on the lattice, so that the numbers are right up to rounding; else they are
    upper bounds, with lattice steps of `step`.
    """

    def __init__(self, parts: Iterable[Part], step: float | None = None) -> None:
        if step is not None and not 0 < step < math.inf:
            raise BadInput(f"step = {step!r} is no distance between losses; give a number > 0")
        self.parts = [part for part in parts if part.count > 0]
        rows = _aligned(self.parts) if step is None else None
        if rows is None and step is None:
            self.parts = _multiplied_out(self.parts)
            rows = _aligned(self.parts)
        self.exact = rows is not None or self._single is not None
        self.rows = [] if self._single is not None else rows or _on_lattice(self.parts, step)
        self.step = self.rows[0].step if self.rows else 0.0
        self._tilted: dict[float, _Tilted] = {}

    @property
    def _single(self) -> Finite | None:
        """The only part, where that is finitely many losses that need no lattice."""
        alone = len(self.parts) == 1 and self.parts[0].count == 1
        return self.parts[0].pair.atoms if alone else None

    @cached_property
    def infinite(self) -> float:
        """The probability that some part's loss is infinite, or was cut off as too large."""
        if self._single is not None:
            return self._single.infinite
        if any(row.lost >= 1 for row in self.rows):
            return 1.0
        return -math.expm1(math.fsum(row.count * math.log1p(-row.lost) for row in self.rows))

    def delta(self, epsilon: float) -> float:
        """The least δ (or an upper bound on it) at this ε."""
        if self._single is not None:
            return self._single.delta_above(epsilon)
        if not self.rows or epsilon >= self.largest:
            return self.infinite
        moments = self._moments
        best = int(np.argmin(moments.logs - moments.tilts * epsilon))
        return self._at(float(moments.tilts[best])).at(epsilon, self.infinite).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """The least ε >= 0 (or an upper bound on it) at this δ; inf where there is none."""
        if not 0 <= delta < 1:
            raise BadInput(f"delta = {delta!r} is not the probability of a failure; give one from 0 to below 1")
        if self._single is not None:
            return self._single.epsilon(delta)
        if not self.rows:
            return 0.0
        if delta <= self.infinite:
            return max(0.0, self.largest) if delta == self.infinite == 0 else math.inf
        tilts, logs = self._moments.tilts[1:], self._moments.logs[1:]
        # δ(ε) <= E[e^(θ (loss - ε))] θ^θ / (1 + θ)^(1 + θ), the largest of (1 - e^-x) e^(-θx) (Canonne, Kamath,
        # Steinke)
        peaks = tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts)
        bounds = (logs + peaks - math.log(delta - self.infinite)) / tilts
        best = int(np.argmin(bounds))
        around = max(0.0, float(bounds[best]))
        return max(0.0, self._at(float(tilts[best])).at(around, self.infinite).epsilon(delta))

    @property
    def largest(self) -> float:
        """The largest finite loss."""
        return sum(part.count * part.pair.span.high for part in self.parts)

    # ------------------------------------------------------------------------------------------------ transforms

    @cached_property
    def _moments(self) -> _Moments:
        """ln of the moment generating function of the sum, at the tilts to choose from."""
        tilts = np.concatenate([[0.0], TILTS / max(_deviation(self.rows), self.step)])
        return _Moments(tilts, _log_moments(self.rows, tilts))

    def _at(self, tilt: float) -> _Tilted:
        if tilt not in self._tilted:
            self._tilted[tilt] = self._transformed(tilt)
        return self._tilted[tilt]

    def _transformed(self, tilt: float) -> _Tilted:
        from scipy.fft import irfft, next_fast_len, rfft

        window = _window(self.rows, tilt)
        offset = sum(row.count * row.offset for row in self.rows)
        first = math.floor((window.low - offset) / self.step)
        points = math.ceil((window.high - offset) / self.step) - first + 1
        points = next_fast_len(max(points, 2), real=True)
        if points > MOST_POINTS:
            raise BadInput(f"{points} losses, {self.step:g} apart, are too many to convolve; give a larger step")
        product = np.ones(points // 2 + 1, dtype=complex)
        log_moment = 0.0
        for row in self.rows:
            moment = row.log_moment(tilt)
            with np.errstate(under="ignore"):
                weighed = row.masses * np.exp(tilt * row.losses - moment)
            wrapped = np.bincount((row.first + np.arange(len(weighed))) % points, weights=weighed, minlength=points)
            with np.errstate(under="ignore"):
                product *= rfft(wrapped) ** row.count
            log_moment += row.count * moment
        masses = np.roll(np.maximum(irfft(product, points), 0.0), -(first % points))
        return _Tilted(tilt, offset + (first + np.arange(points)) * self.step, masses, log_moment)

    def pair(self) -> Pair:
        """All the parts as one pair, to be sampled or composed further."""
        if self._single is not None:
            return self._single
        if not self.rows:
            return Finite(np.zeros(1), np.ones(1))
        whole = self._at(0.0)
        kept = whole.masses > 0
        # what the window may hide counts as an infinite loss
        hidden = min(1.0, self.infinite + 2 * math.exp(OUTSIDE))
        masses = whole.masses[kept] * ((1 - hidden) / whole.masses[kept].sum())
        return Finite(whole.losses[kept], masses, hidden)


@dataclass(frozen=True, eq=False)
class _Moments:
    tilts: Array
    logs: Array


def _total(row: _Row) -> float:
    return float(row.masses.sum())


def _log_moments(rows: Sequence[_Row], tilts: Array) -> Array:
    return np.asarray(sum(row.count * row.log_moments(tilts) for row in rows))


def _deviation(rows: Sequence[_Row]) -> float:
    """The standard deviation of the sum, infinite losses left out."""
    variance = 0.0
    for row in rows:
        shares = row.masses / _total(row)
        variance += row.count * float(shares @ (row.losses - shares @ row.losses) ** 2)
    return math.sqrt(variance)


def _window(rows: Sequence[_Row], tilt: float) -> Span:
    """Where the tilted sum lies but for a mass of e^OUTSIDE on either side, by Chernoff's inequality."""
    further = TILTS / max(_deviation(rows), rows[0].step)
    here = sum(row.count * row.log_moment(tilt) for row in rows)
    up = np.min((_log_moments(rows, tilt + further) - here - OUTSIDE) / further)
    down = np.max((here + OUTSIDE - _log_moments(rows, tilt - further)) / further)
    lowest = sum(row.count * float(row.losses[0]) for row in rows)
    highest = sum(row.count * float(row.losses[-1]) for row in rows)
    return Span(max(float(down), lowest), min(float(up), highest))


# ------------------------------------------------------------------------------------------- onto the lattice


def log_moments(pair: Pair, tilts: Array, points: int) -> Array:
    """ln E[e^(tilt · loss)] over the finite losses of a pair: exactly where these are few, else from above."""
    if pair.atoms is not None:
        return _log_sums(pair.atoms.masses, tilts[:, None] * pair.atoms.losses)
    scale = _width(pair.span) * DENSE
    if not scale:
        return np.zeros(len(tilts))
    levels = scale * np.sinh(np.linspace(math.asinh(pair.span.low / scale), math.asinh(pair.span.high / scale), points))
    return _log_sums(dots(levels, pair.above(levels)), tilts[:, None] * levels)


def _multiplied_out(parts: list[Part]) -> list[Part]:
    """The parts with finitely many losses as one, exactly, if these are not too many together."""
    total: Finite | None = Finite(np.zeros(1), np.ones(1))
    rest = [part for part in parts if part.pair.atoms is None]
    for part in parts:
        if part.pair.atoms is not None and total is not None:
            power = part.pair.atoms.power(part.count)
            total = None if power is None else total.times(power)
    if total is None or len(rest) == len(parts):
        return parts
    return [*rest, Part(total)]


def _on_lattice(parts: Sequence[Part], step: float | None) -> list[_Row]:
    if step is None and parts:
        step = _chosen_step(parts)
    return [_dots(part, step or 1.0) for part in parts]


def _aligned(parts: Sequence[Part]) -> list[_Row] | None:
    """The parts where finite losses lie already, if that is a lattice that they share."""
    steps = [difference for part in parts for difference in _differences(part.pair)]
    if any(not isinstance(part.pair, Finite) for part in parts):
        return None
    step = min(steps, default=1.0)
    rows = []
    for part in parts:
        pair = part.pair
        assert isinstance(pair, Finite)  # noqa: S101 - told to the type checker
        base = float(pair.losses[0]) if len(pair.losses) else 0.0
        places = (pair.losses - base) / step
        whole = np.round(places)
        if np.any(np.abs(places - whole) > 1e-9) or (len(whole) and whole[-1] > MOST_POINTS):
            return None
        masses = np.asarray(np.bincount(whole.astype(int), weights=pair.masses, minlength=1), dtype=float)
        rows.append(_Row(base, 0, masses, step, part.count, pair.infinite))
    return rows


def _differences(pair: Pair) -> list[float]:
    if not isinstance(pair, Finite):
        return []
    return [float(d) for d in np.diff(pair.losses) if d > SAME]


def _chosen_step(parts: Sequence[Part]) -> float:
    """A step that puts about POINTS on the window of the sum: at first guessed from a coarse lattice."""
    finest = min((_width(part.pair.span) for part in parts if _width(part.pair.span) > 0), default=1.0)
    coarse = [_dots(part, max(finest / 64, _width(part.pair.span) / 4096)) for part in parts]
    window = _window(coarse, 0.0)
    step = max(_width(window), finest) / POINTS
    # many mechanisms have their largest loss with positive probability: let that of the commonest be a lattice point
    largest = max(parts, key=lambda part: part.count).pair.span.high
    return largest / math.ceil(largest / step) if largest > step else step


def _width(span: Span) -> float:
    return span.high - span.low


def _dots(part: Part, step: float) -> _Row:
    """The part's losses on multiples of the step, P- and Q-masses of every cell kept."""
    span = part.pair.span
    first, last = math.floor(span.low / step), math.ceil(span.high / step)
    if last - first > MOST_POINTS:
        raise BadInput(
            f"losses from {span.low:g} to {span.high:g} in steps of {step:g} are too many; give a larger step"
        )
    levels = np.arange(first, last + 1, dtype=float) * step
    tails = part.pair.above(levels)
    if levels[-1] >= part.pair.supremum:  # whatever rounding says of a loss that is the largest
        tails = Tails(np.append(tails.left[:-1], part.pair.infinite), np.append(tails.right[:-1], 0.0))
    return _Row(0.0, first, dots(levels, tails), step, part.count, float(tails.left[-1]))
