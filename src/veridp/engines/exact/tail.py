"""Losses far out: windows around distant locations, and limits along a tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from veridp.engines.exact.curve import Density
from veridp.engines.exact.noise import as_float, numeric
from veridp.engines.exact.pieces import DistributionPiece
from veridp.kernel.distributions import Number
from veridp.kernel.symbols import Noise

# -------------------------------------------------------------------------------------------------------------- window
# Windows along a numeric entry: ranges around locations that lie far apart, each with a centre of its own.
#
# Near one of two locations that are 1e9 noise scales apart, distances from the other have lost the digits that the
# noise
# needs. So the entry is cut halfway between them, and each range is computed in distances from its own location. Every
# window keeps the noise of all locations: a cut moves nothing and drops nothing.


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


# ---------------------------------------------------------------------------------------------------------------- tail
# Losses along a tail: the limit in closed form where the noise gives it, else from values at a few points far out.


Array = NDArray[np.float64]
STEADY = 0.75  # steps of the loss that shrink by less than this, where the distance doubles, do not come to an end
HALVING = (0.35, 0.65)  # by what such steps shrink where the loss is a series in 1/distance
LEAST_STEP = 1e-11  # a smaller change of the loss is rounding
DIGITS = 11  # of a limit that is extrapolated
CLOSE_RATES = 1e-9  # rates of decay that differ by less, relatively, but are not equal are not told apart


def rises_without_bound(losses: Sequence[float] | Array) -> bool:
    """Whether a loss, at distances that double, has no upper bound in sight.

    Along the tails of sums of the noise here, a loss is a polynomial or a logarithm of the distance, or a limit plus a
    series in 1/distance, up to what decays exponentially. Where the distance doubles, its steps then double, stay
    the same, or halve.
    """
    steps = np.diff(np.asarray(losses, dtype=float))[-3:]
    return bool(len(steps) == 3 and np.all(steps > LEAST_STEP) and np.all(steps[1:] > STEADY * steps[:-1]))


def limit(losses: Sequence[float] | Array) -> float:
    """What the loss tends to, at distances that double; -inf where the values do not show it."""
    row = np.asarray(losses, dtype=float)
    if len(row) < 4 or not np.all(np.isfinite(row)):
        return -math.inf
    steps = np.diff(row)[-3:]
    if np.max(np.abs(steps[-2:])) <= LEAST_STEP:
        return float(row[-3])  # the nearest of values that agree: rounding grows with the distance
    if not np.all(np.abs(steps) > LEAST_STEP):
        return -math.inf
    shrunk = steps[1:] / steps[:-1]
    if not np.all((shrunk > HALVING[0]) & (shrunk < HALVING[1])):
        return -math.inf
    before = row
    for order in range(1, len(row)):  # Richardson: the term of this order in 1/distance cancels
        power = 2.0**order
        row, before = (power * row[1:] - row[:-1]) / (power - 1), row
    if abs(row[-1] - before[-1]) > 1e-6 * (1 + abs(row[-1])):
        return -math.inf
    return float(f"{row[-1]:.{DIGITS}g}")


# ------------------------------------------------------------------------------------------------- closed forms


@dataclass(frozen=True)
class _Decay:
    """A tail (x - location)^(order - 1) e^(-rate (x - location)), times a constant.

    Two tails are compared by the exact difference of their locations, which may be large against the noise, and by the
    sum of all that makes up the two constants, in which what they share cancels without rounding.
    """

    rate: float
    order: int
    location: Fraction
    log_constant: tuple[float, ...]

    def over(self, other: _Decay) -> float:
        """ln of this tail over another of the same rate and order, far out."""
        moved = as_float(Fraction(self.rate) * (self.location - other.location))
        return math.fsum([moved, *self.log_constant, *(-part for part in other.log_constant)])


def limit_of(left: Sequence[DistributionPiece], right: Sequence[DistributionPiece], sign: int) -> float | None:
    """The limit of ln p/q far out (above for sign 1, below for -1); None where the noise does not give it.

    A sum of independent noise decays like its heaviest part. The transform E[e^(tX)] of the sum is a product, and has
    a pole where t is the least rate of decay; its order and its coefficient are those of the tail.
    """
    mine, theirs = (_heaviest([_decay_of(piece, sign) for piece in side]) for side in (left, right))
    if mine is None or theirs is None:
        return None
    (rate, order), (their_rate, their_order) = ((side[0].rate, -side[0].order) for side in (mine, theirs))
    if (rate, order) != (their_rate, their_order):
        return math.inf if (rate, order) < (their_rate, their_order) else -math.inf
    largest = mine[0]
    for part in (*mine, *theirs):
        largest = part if part.over(largest) > 0 else largest
    over, under = (np.logaddexp.reduce([part.over(largest) for part in side]) for side in (mine, theirs))
    return float(over - under)


def _heaviest(parts: Sequence[_Decay | None]) -> list[_Decay] | None:
    """The heaviest parts of a mixture, which its tail is made of; None where one is not known."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    rate = min(part.rate for part in known)
    order = max(part.order for part in known if part.rate == rate)
    return [part for part in known if (part.rate, part.order) == (rate, order)]


def _decay_of(piece: DistributionPiece, sign: int) -> _Decay | None:
    """The tail of a number that is a sum of noise that no condition looks at."""
    (number,) = piece.numbers
    if any(not number.terms.keys().isdisjoint(condition.slack.terms) for condition in piece.conditions):
        return None
    draws = [(numeric(n.distribution), sign * as_float(c)) for n, c in number.terms.items() if isinstance(n, Noise)]
    whole = [noise for noise, _ in draws if noise.integer]
    if whole and (len(whole) < len(draws) or any(abs(factor) != 1 for _, factor in draws)):
        return None  # the tail repeats a pattern, or has gaps
    poles = [noise.upper_tail(factor) for noise, factor in draws]
    rate = min((pole.rate for pole in poles if pole is not None), default=math.inf)
    if not math.isfinite(rate):
        return None
    weight = Density([DistributionPiece(piece.weight, piece.conditions, ())]).mass
    order, log_constant = 0, [weight]
    for (noise, factor), pole in zip(draws, poles, strict=True):
        if pole is not None and pole.rate == rate:
            order += pole.order
            log_constant.append(pole.log_coefficient)
        elif pole is not None and pole.rate < rate * (1 + CLOSE_RATES):
            return None
        else:
            log_constant.append(noise.log_transform(rate * factor))
    if not all(map(math.isfinite, log_constant)):
        return None
    return _Decay(rate, order, sign * Fraction(number.constant), (*log_constant, -math.lgamma(order)))
