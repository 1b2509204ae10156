"""What a shift of noise costs: the most by which it changes the density, as a logarithm.

With f the density (or probability) of the noise, the price of a shift Δ is the supremum of ln f(x)/f(x + Δ) over x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from veridp.kernel import distributions as d
from veridp.kernel.symbols import Noise


@dataclass(frozen=True)
class Price:
    """The cost of a unit upwards, and of a unit downwards; None where the noise may not be shifted that way."""

    up: Fraction | None
    down: Fraction | None

    def of(self, move: Fraction) -> Fraction:
        """The cost of a move that is allowed."""
        return abs(move) * ((self.up if move > 0 else self.down) or 0)


@cache
def price_of(noise: d.Distribution) -> Price:
    """How the noise may be shifted; all prices are linear in the size of the move.

    Laplace and logistic: the slope of ln f is at most 1/scale, so |Δ|/scale either way (a supremum, approached in the
    tails). Exponential: Δ/scale upwards; downwards it leaves the support. Gumbel, with x in units of the scale: ln f is
    -x - e^-x, so the loss is Δ - e^-x (1 - e^-Δ), at most Δ upwards; downwards it grows like e^-x without bound.
    Geometric: Δ ln(1/(1 - p)) upwards, in whole steps. `why_no_price` tells of the rest.
    """
    match noise:
        case d.Laplace() | d.Logistic():
            return Price(1 / Fraction(noise.scale), 1 / Fraction(noise.scale))
        case d.Exponential() | d.Gumbel():
            return Price(1 / Fraction(noise.scale), None)
        case d.Geometric() if noise.p < 1:
            return Price(Fraction(-math.log1p(-float(noise.p))), None)
    return Price(None, None)


def why_no_price(noise: d.Distribution, up: bool) -> str | None:
    """Why the noise may not be shifted that way, as the end of a sentence; None where it may."""
    price = price_of(noise)
    if (price.up if up else price.down) is not None:
        return None
    kind = type(noise).__name__.lower()
    match noise:
        case d.Normal():
            return f"{kind} noise has no pure-ε price: under any shift the ratio of its densities is unbounded"
        case d.Uniform() | d.Binomial():
            return f"{kind} noise has no pure-ε price: any shift carries part of it out of its support"
        case d.Poisson():
            return f"{kind} noise has no pure-ε price: under any shift the ratio of its probabilities is unbounded"
        case d.Gumbel():
            return f"{kind} noise has no pure-ε price downwards: the ratio of its densities is unbounded that way"
    return f"{kind} noise cannot be shifted downwards: that carries part of it out of its support"


def cost_of(noises: Sequence[Noise], moves: Sequence[Fraction]) -> Fraction:
    """What the moves cost together."""
    return sum((price_of(n.distribution).of(move) for n, move in zip(noises, moves, strict=True)), start=Fraction(0))
