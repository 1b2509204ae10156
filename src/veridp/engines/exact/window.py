"""Windows along a numeric entry: ranges around locations that lie far apart, each with a centre of its own.

Near one of two locations that are 1e9 noise scales apart, distances from the other have lost the digits that the noise
needs. So the entry is cut halfway between them, and each range is computed in distances from its own location. Every
window keeps the noise of all locations: a cut moves nothing and drops nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from veridp.engines.exact.noise import numeric
from veridp.engines.exact.pieces import DistributionPiece
from veridp.kernel.distributions import Number
from veridp.kernel.symbols import Noise

FAR = 10_000  # noise scales: locations farther apart get windows of their own
MOST_WINDOWS = 100


@dataclass(frozen=True)
class Window:
    """The outputs from `low` to `high`, and a location of noise between them; None for an end that is infinite."""

    location: Number
    low: Fraction | None = None
    high: Fraction | None = None


def windows(
    left: Sequence[DistributionPiece], right: Sequence[DistributionPiece], lattice: float | None
) -> list[Window]:
    """The windows of an entry that these pieces give; a single one where no two of their locations are far apart.

    A cut through integers, whose remainder is `lattice`, goes between two of them.
    """
    whole = [Window(left[0].numbers[0].constant)]
    pieces = [*left, *right]
    if len(left) == len(right) == 1 or any(map(_sums_integers, pieces)):
        return whole
    locations = sorted({piece.numbers[0].constant for piece in pieces})
    apart = FAR * _least_scale(pieces)
    gaps = [(a, b) for a, b in pairwise(locations) if b - a > apart]
    if not 0 < len(gaps) < MOST_WINDOWS:
        return whole
    cuts = [_cut(Fraction(a + b) / 2, lattice) for a, b in gaps]
    starts = [locations[0], *(b for _, b in gaps)]
    return [Window(*window) for window in zip(starts, [None, *cuts], [*cuts, None], strict=True)]


def _sums_integers(piece: DistributionPiece) -> bool:
    """Whether its density takes a sum over integers: far out, that is one over everything in between."""
    return len(piece.noises) > 1 and any(noise.distribution.integer for noise in piece.noises)


def _least_scale(pieces: Sequence[DistributionPiece]) -> Fraction:
    return min(
        abs(Fraction(factor)) * Fraction(numeric(symbol.distribution).width)
        for piece in pieces
        for symbol, factor in piece.numbers[0].terms.items()
        if isinstance(symbol, Noise)
    )


def _cut(middle: Fraction, lattice: float | None) -> Fraction:
    if lattice is None:
        return middle
    remainder = Fraction(lattice)
    return math.floor(middle - remainder) + remainder + Fraction(1, 2)
