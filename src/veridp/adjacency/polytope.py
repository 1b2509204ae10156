"""Differences between neighbours as polytopes in exact numbers, and neighbouring pairs as points of one.

A *patch* is a vector of variables within bounds, from which both inputs follow: left and right are affine in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Corner = tuple[Fraction, ...]
DIGITS = 12
NEAR = 1e-9  # how far rounding may carry a given pair from what the variables say


@dataclass(frozen=True)
class Box:
    """Every entry moves on its own, between two ends."""

    low: Corner
    high: Corner

    @property
    def size(self) -> int:
        return len(self.low)

    @property
    def count(self) -> int:
        """How many corners it has."""
        return int(2**self.size)

    def corners(self) -> Iterator[Corner]:
        return itertools.product(*zip(self.low, self.high, strict=True))


@dataclass(frozen=True)
class Hull:
    """All means of the corners."""

    listed: tuple[Corner, ...]
    whole_at_corners: bool = False  # whether its whole points are corners, and the origin

    @classmethod
    def of(cls, corners: Array, *, whole_at_corners: bool = False) -> Hull:
        """The hull of these rows."""
        return cls(tuple(tuple(map(Fraction, row)) for row in corners.tolist()), whole_at_corners)

    @property
    def size(self) -> int:
        return len(self.listed[0])

    @property
    def count(self) -> int:
        return len(self.listed)

    def corners(self) -> Iterator[Corner]:
        return iter(self.listed)


Polytope = Box | Hull


# ----------------------------------------------------------------------------------------------------------- patches


@dataclass(frozen=True, eq=False)
class Patch:
    """left = `to_left` v and right = `to_right` v, for low <= v <= high with both inputs inside the domain."""

    name: str
    to_left: Array
    to_right: Array
    low: Array
    high: Array
    domain: tuple[float, float]
    scalar: bool = False  # whether an input is a number and not a list of numbers
    moves: bool = False  # whether the variables are the left input, and then how far the right one is from it
    total: slice | None = None  # variables that must sum to 1

    @property
    def sizes(self) -> tuple[int, int]:
        """The lengths of left and right."""
        return len(self.to_left), len(self.to_right)

    def reversed(self) -> Patch:
        return replace(self, name=f"{self.name}, reversed", to_left=self.to_right, to_right=self.to_left, moves=False)

    def inside(self, point: Array) -> Array:
        """The nearest variables within their bounds."""
        point = np.clip(point, self.low, self.high)
        if self.total is not None:
            share = point[self.total]
            point = point.copy()
            point[self.total] = share / share.sum() if share.sum() > 0 else 1 / len(share)
        return self._shifted(point) if self.moves else point

    def _shifted(self, point: Array) -> Array:
        """The left input shifted just so far that the right one is in the domain with it, and the move is kept."""
        size, (low, high) = len(self.to_left), self.domain
        moves = self.to_right[:, size:] @ point[size:]
        left = np.clip(point[:size], low - np.minimum(moves, 0.0), high - np.maximum(moves, 0.0))
        return np.concatenate([left, point[size:]])

    def vectors(self, point: Array) -> tuple[Array, Array]:
        """Both inputs as vectors, inside the domain."""
        point = self.inside(point)
        return np.clip(self.to_left @ point, *self.domain), np.clip(self.to_right @ point, *self.domain)

    def pair(self, point: Array) -> tuple[Any, Any]:
        """Both inputs as the mechanism takes them."""
        left, right = (vector.tolist() for vector in self.vectors(point))
        return (left[0], right[0]) if self.scalar else (left, right)

    def draw(self, rng: np.random.Generator) -> Array:
        """Variables drawn at random."""
        return self.inside(rng.uniform(self.low, self.high))

    def slopes(self) -> tuple[Array, Array]:
        """Rows A and numbers b such that A v + b >= 0 keeps both inputs in the domain."""
        both = np.concatenate([self.to_left, self.to_right])
        both = both[np.count_nonzero(both, axis=1) > 1]  # what a single variable gives, its own bounds keep inside
        low, high = self.domain
        return np.concatenate([both, -both]), np.concatenate([np.full(len(both), -low), np.full(len(both), high)])

    def point(self, left: Any, right: Any) -> Array | None:
        """The variables that give this pair; None where none do."""
        try:
            given = np.concatenate([np.atleast_1d(np.asarray(side, dtype=float)) for side in (left, right)])
        except (TypeError, ValueError):
            return None
        maps = np.concatenate([self.to_left, self.to_right])
        if len(given) != len(maps) or np.ndim(left) != (0 if self.scalar else 1):
            return None
        solution: Array = np.linalg.lstsq(maps, given, rcond=None)[0]
        point = self.inside(solution.round(DIGITS))  # so that what people wrote comes back as they wrote it
        return point if np.allclose(np.concatenate(self.vectors(point)), given, rtol=0, atol=NEAR) else None


def box_of(count: int, domain: tuple[float, float]) -> tuple[Array, Array]:
    """The bounds of so many variables, each within the domain."""
    return np.full(count, domain[0]), np.full(count, domain[1])


def moving(name: str, directions: Array, least: float, most: float, domain: tuple[float, float]) -> Patch:
    """left is free, right is left plus a combination of the directions (columns)."""
    size, count = directions.shape
    low, high = box_of(size, domain)
    return Patch(
        name,
        np.hstack([np.eye(size), np.zeros((size, count))]),
        np.hstack([np.eye(size), directions]),
        np.concatenate([low, np.full(count, least)]),
        np.concatenate([high, np.full(count, most)]),
        domain,
        moves=True,
    )
