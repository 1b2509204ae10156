"""The differences between neighbours: polytopes, each a box or the hull of a few corners."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import AllMoveTogether, AnyTwoValues, EveryQueryMoves
from veridp.mechanism import Mechanism

Corner = tuple[Fraction, ...]


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

    @property
    def size(self) -> int:
        return len(self.listed[0])

    @property
    def count(self) -> int:
        return len(self.listed)

    def corners(self) -> Iterator[Corner]:
        return iter(self.listed)


Polytope = Box | Hull


def polytopes_of(mechanism: Mechanism, size: int) -> tuple[Polytope, ...] | None:
    """The polytopes of right - left; None where the relation has none.

    Boxes have 2^size corners, which are never listed here. Two numbers of an interval are as far apart as it is long.
    """
    adjacency = mechanism.adjacency
    if isinstance(adjacency, EveryQueryMoves | AllMoveTogether) and size >= 1:
        down, none, up = ((Fraction(end),) * size for end in (-1, 0, 1))
        return (Box(down, up),) if isinstance(adjacency, EveryQueryMoves) else (Box(none, up), Box(down, none))
    if (ends := interval_of(mechanism)) is not None:
        return (Box((ends[0] - ends[1],), (ends[1] - ends[0],)),)
    corners = adjacency.vertices(size)
    return None if corners is None else (Hull(_exact(corners.tolist())),)


def interval_of(mechanism: Mechanism) -> tuple[Fraction, Fraction] | None:
    """The ends between which the data are one number, where any two of these are neighbours; else None."""
    match mechanism.domain:
        case (int() | float() as low, int() | float() as high) if (
            isinstance(mechanism.adjacency, AnyTwoValues) and isinstance(mechanism.domain, tuple) and low < high
        ):
            return Fraction(low), Fraction(high)
    return None


def interval_text(mechanism: Mechanism) -> str:
    """For which numbers alone a proof holds, where these are of an interval; nothing where they are not."""
    ends = interval_of(mechanism)
    return "" if ends is None else f"for numbers from {float(ends[0]):g} to {float(ends[1]):g}"


def _exact(corners: Sequence[Sequence[float]]) -> tuple[Corner, ...]:
    return tuple(tuple(Fraction(x) for x in corner) for corner in corners)
