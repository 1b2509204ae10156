"""The measures of stars: noise in the middle, and around it noise that only the middle bounds.

Sparse vectors and noisy maxima are stars, hundreds of paths with the same few rays. All stars with the same middle are
integrated on one grid: each ray is evaluated once, and a star is a sum of rays, so that a thousand paths cost one
integral and a matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Distribution
from veridp.numerics.quadrature import edges, log_sum, panels

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
