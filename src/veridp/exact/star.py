"""The measure of a star: noise in the middle, and around it noise that only the middle bounds.

Sparse vectors and noisy maxima are stars, hundreds of paths with the same few parts; so the parts are remembered, and
a further path costs a few additions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veridp.exact.noise import Noise
from veridp.exact.quadrature import Grid, edges, panels

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ray:
    """Noise between bounds of its own, with links `own · it + middle's · middle + constant >= 0`."""

    noise: Noise
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
        return self.noise.rate * max(abs(middles / own) for own, middles, _ in self.links)


@dataclass(frozen=True)
class Star:
    """Continuous noise in the middle, between bounds, and its rays."""

    noise: Noise
    low: float
    high: float
    rays: tuple[Ray, ...]

    def log_measure(self) -> float:
        """ln of its measure."""
        if not self.low < self.high:
            return -math.inf
        breaks = {0.0, *self.noise.kinks, *(end for end in (self.low, self.high) if math.isfinite(end))}
        for ray in self.rays:
            breaks.update(_ray_breaks(ray))
        width = 16.0 / (self.noise.rate + sum(ray.rate for ray in self.rays))
        key = (tuple(sorted({float(f"{point:.13g}") for point in breaks})), width, self.low, self.high)
        values = _density(self.noise, *key)
        for ray in self.rays:
            values = values + _ray_values(ray, self.noise, *key)
        return float(_grid(self.noise, *key).integrate(values)[0])


@lru_cache(maxsize=4096)
def _ray_breaks(ray: Ray) -> tuple[float, ...]:
    return tuple(ray.breaks())


@lru_cache(maxsize=512)
def _grid(noise: Noise, breaks: tuple[float, ...], width: float, low: float, high: float) -> Grid:
    return panels(edges(np.array([breaks]), width, noise.tail * noise.scale, np.array([low]), np.array([high])))


@lru_cache(maxsize=512)
def _density(noise: Noise, breaks: tuple[float, ...], width: float, low: float, high: float) -> Array:
    return noise.log_density(_grid(noise, breaks, width, low, high).points)


@lru_cache(maxsize=4096)
def _ray_values(ray: Ray, noise: Noise, breaks: tuple[float, ...], width: float, low: float, high: float) -> Array:
    points = _grid(noise, breaks, width, low, high).points
    least, most = np.full(points.shape, ray.low), np.full(points.shape, ray.high)
    for own, middles, constant in ray.links:
        bound = -(middles * points + constant) / own
        least, most = (np.maximum(least, bound), most) if own > 0 else (least, np.minimum(most, bound))
    return ray.noise.log_between(least, most)
