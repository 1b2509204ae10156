"""Sums of independent losses, by a tilted Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.lattice import (
    MOST_POINTS,
    OUTSIDE,
    TILTS,
    LatticeRow,
    Sketch,
    deviation,
    sum_log_moments,
    window_of,
)
from veridp.accounting.pairs import together
from veridp.errors import BadInput

Array = NDArray[np.float64]
REACH = 300.0  # how far below the ε that is wanted losses are looked at, over 1 + tilt: e to the reach is no overflow
SLACK = 12.0  # ln of how much more a window may hide than at the best of tilts
TURNS = 12  # of looking for an ε with ever better tilts
TILT_TOLERANCE = 1e-9
LONGEST = 700.0  # e to more than this is out of reach of floats


@dataclass(frozen=True, eq=False)
class Tilted:
    """The masses of the sum at `losses`, weighed by e^(tilt · loss - log_moment)."""

    tilt: float
    losses: Array
    masses: Array
    log_moment: float

    def at(self, around: float, unbounded: float) -> Curve:
        """δ as a function of ε, where it is about this ε that it is wanted."""
        seen = self.losses > around - REACH / (1 + self.tilt)
        losses = self.losses[seen] - around
        with np.errstate(under="ignore"):
            masses = self.masses[seen] * np.exp(-self.tilt * losses)
            sums = [np.append(np.cumsum(side[::-1])[::-1], 0.0) for side in (masses, masses * np.exp(-losses))]
        cut = not bool(seen[0])
        return Curve(around, losses, sums[0], sums[1], self.log_moment - self.tilt * around, unbounded, cut, self.tilt)


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

    def delta(self, epsilon: float) -> float:
        distance = epsilon - self.around
        first = int(np.searchsorted(self.losses, distance, side="right"))
        finite = max(0.0, float(self.left[first] - math.exp(distance) * self.right[first]))
        return min(1.0, (finite + self._hidden(epsilon)) * math.exp(min(self.scale, LONGEST)) + self.unbounded)

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
        reached = self.left[1:] - np.exp(np.minimum(self.losses, LONGEST)) * self.right[1:] <= target
        place = int(np.argmax(reached)) if reached.any() else len(self.losses) - 1
        # between this loss and the one before, δ = left - e^ε right with the sums from here upwards
        above = float(self.left[place]) - target
        if above <= 0 or not self.right[place] > 0:
            return self.lowest  # δ is no more than this already there
        return self.around + math.log(above) - math.log(float(self.right[place]))

    def settles(self, epsilon: float, delta: float) -> bool:
        """Whether an ε that was found for this δ lies where was looked, and no more is hidden there than thought."""
        seen = not self.cut or epsilon > self.lowest
        return seen and self._hidden(epsilon) <= self._hidden(self.around) + TILT_TOLERANCE * self._target(delta)


class LossSum:
    """The sum of the losses of some rows: its masses, tilted as is best for the ε or the δ that is asked for."""

    def __init__(self, rows: Sequence[LatticeRow]) -> None:
        self.rows = rows
        self.step = rows[0].step
        self._tilted: dict[float, Tilted] = {}

    @cached_property
    def infinite(self) -> float:
        """The probability that some loss is infinite, or was cut off as too large."""
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

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return self.at(self._best_tilt(epsilon)).at(epsilon, self.infinite).delta(epsilon)

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
            self._tilted[tilt] = self._transformed(tilt)
        return self._tilted[tilt]

    def _transformed(self, tilt: float) -> Tilted:
        from scipy.fft import irfft, next_fast_len, rfft

        window = window_of(self.rows, tilt)
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
        return Tilted(tilt, offset + (first + np.arange(points)) * self.step, masses, log_moment)
