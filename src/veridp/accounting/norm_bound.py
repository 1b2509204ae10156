"""The longest of the vectors that an affine map makes of a polyhedron, in the L1, L2 or L∞ norm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.errors import NotExact

Array = NDArray[np.float64]
MOST_SIGNS = 10  # entries of either sign whose L1 norm is found, a linear program for each choice of signs
MOST_DIMENSIONS = 6  # in which the corners of an image are found, for the L2 norm
FLAT = 1e-9  # an image that is no wider than this in a direction, measured by its reach, is flat there


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """The points x within the box `low <= x <= high` with inside @ x >= least and level @ x == value."""

    low: Array
    high: Array
    inside: Array
    least: Array
    level: Array
    value: Array

    def highest(self, direction: Array) -> Array | None:
        """The point that is farthest in a direction; None where there is no point at all.

        The box is scaled to [-1, 1], and every row to a largest coefficient of 1: the solver's tolerances are absolute.
        """
        from scipy.optimize import linprog

        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        inside, least = _scaled(self.inside * half, self.least - self.inside @ middle)
        level, value = _scaled(self.level * half, self.value - self.level @ middle)
        found = linprog(
            -direction * half / (np.abs(direction * half).max(initial=0.0) or 1.0),
            A_ub=-inside if len(inside) else None,
            b_ub=-least if len(least) else None,
            A_eq=level if len(level) else None,
            b_eq=value if len(value) else None,
            bounds=(-1.0, 1.0),
            method="highs",
        )
        return np.asarray(middle + half * found.x) if found.status == 0 else None


def _scaled(rows: Array, bounds: Array) -> tuple[Array, Array]:
    largest = np.abs(rows).max(axis=1, initial=0.0)
    scales = np.where(largest > 0, largest, 1.0)
    return rows / scales[:, None], bounds / scales


@dataclass(frozen=True, eq=False)
class Image:
    """The vectors slopes @ x + constants, for x in a polyhedron."""

    polyhedron: Polyhedron
    slopes: Array
    constants: Array

    def at(self, point: Array) -> Array:
        return np.asarray(self.slopes @ point + self.constants)

    @property
    def reach(self) -> Array:
        """How large each entry gets in absolute value, over the box alone: an upper bound."""
        middle, half = (
            (self.polyhedron.low + self.polyhedron.high) / 2,
            (self.polyhedron.high - self.polyhedron.low) / 2,
        )
        return np.asarray(np.abs(self.slopes @ middle + self.constants) + np.abs(self.slopes) @ half)


@dataclass(frozen=True, eq=False)
class Farthest:
    """The largest norm, and a point that attains it."""

    norm: float
    point: Array | None


def farthest(image: Image, norm: float, known: float) -> Farthest | None:
    """The longest vector of the image; None where none is longer than `known`, or the polyhedron is empty.

    A norm is convex, so it is largest at a corner of the image. Raises NotExact where there are too many to look at.
    """
    if not len(image.slopes) or (reach := _norm(image.reach, norm)) <= known * (1 + FLAT):
        return None
    points = list(_candidates(image, norm))
    lengths = [_norm(image.at(point), norm) for point in points]
    if not lengths or max(lengths) <= known + FLAT * reach:
        return None
    best = int(np.argmax(lengths))
    return Farthest(lengths[best], points[best])


def _norm(vector: Array, norm: float) -> float:
    return float(np.linalg.norm(vector, ord=norm))


def _candidates(image: Image, norm: float) -> Sequence[Array]:
    moving = np.flatnonzero(np.any(image.slopes != 0, axis=1))
    if not len(moving):
        point = image.polyhedron.highest(np.zeros(image.slopes.shape[1]))
        return [] if point is None else [point]
    if norm == math.inf or len(moving) == 1:
        directions = [sign * image.slopes[entry] for entry in moving for sign in (1.0, -1.0)]
    elif norm == 1:
        directions = _signed_sums(image, moving)
    else:
        return _corners(image, moving)
    return [point for point in map(image.polyhedron.highest, directions) if point is not None]


def _signed_sums(image: Image, moving: NDArray[np.intp]) -> list[Array]:
    """The directions in which some choice of signs makes the L1 norm grow; an entry that keeps its sign has one."""
    box = image.polyhedron
    middle, half = (box.low + box.high) / 2, (box.high - box.low) / 2
    centres = image.slopes[moving] @ middle + image.constants[moving]
    swings = np.abs(image.slopes[moving]) @ half
    signs = [(1.0,) if c >= s else (-1.0,) if c <= -s else (1.0, -1.0) for c, s in zip(centres, swings, strict=True)]
    if sum(len(choice) > 1 for choice in signs) > MOST_SIGNS:
        raise NotExact(f"an L1 norm over {len(moving)} numbers that move has too many choices of signs")
    return [np.array(choice) @ image.slopes[moving] for choice in itertools.product(*signs)]


# ------------------------------------------------------------------------------------------ corners of an image


def _corners(image: Image, moving: NDArray[np.intp]) -> list[Array]:
    """Points of the polyhedron whose images are all corners of the image (and some more)."""
    start = image.polyhedron.highest(image.slopes[moving[0]])
    if start is None:
        return []
    slopes = image.slopes[moving]
    points = [start]
    basis = _spanned(image, slopes, points)
    if len(basis) < 2:
        return points
    flat = FLAT * _norm(image.reach, 2)
    if len(basis) > MOST_DIMENSIONS:
        raise NotExact(f"an L2 norm over an image of {len(basis)} dimensions has too many corners")
    from scipy.spatial import ConvexHull

    while True:
        places = np.array([basis @ (slopes @ point) for point in points])
        hull = ConvexHull(places)
        beyond = []
        for facet in np.unique(np.round(hull.equations, 12), axis=0):
            point = image.polyhedron.highest(facet[:-1] @ basis @ slopes)
            if point is not None and facet[:-1] @ (basis @ (slopes @ point)) + facet[-1] > flat:
                beyond.append(point)
        if not beyond:
            return points
        points += beyond


def _spanned(image: Image, slopes: Array, points: list[Array]) -> Array:
    """An orthonormal basis of the directions in which the image has width; `points` grows to span them."""
    basis = np.zeros((0, len(slopes)))
    for axis in np.eye(len(slopes)):
        direction = axis - basis.T @ (basis @ axis)
        if np.linalg.norm(direction) < FLAT:
            continue
        ends = [image.polyhedron.highest(sign * direction @ slopes) for sign in (1.0, -1.0)]
        apart = [slopes @ end - slopes @ points[0] for end in ends if end is not None]
        widths = [float(abs(direction @ difference)) for difference in apart]
        if max(widths, default=0.0) <= FLAT * _norm(image.reach, 2):
            continue
        points += [end for end in ends if end is not None]
        wide = apart[int(np.argmax(widths))]
        wide = wide - basis.T @ (basis @ wide)
        basis = np.vstack([basis, wide / np.linalg.norm(wide)])
    return basis
