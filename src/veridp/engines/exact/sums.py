"""Draws that only their sum concerns, taken together as one draw of a known distribution.

`x + rng.normal() + rng.normal()` is one normal draw, and a sum of like Laplace draws has a density in closed form. What
is taken together needs no convolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veridp.engines.exact.noise import NumericLaplaceSum as LaplaceSumNumbers
from veridp.engines.exact.noise import NumericNoise as Numbers
from veridp.engines.exact.noise import as_float, registered
from veridp.engines.exact.pieces import DistributionPiece
from veridp.kernel.distributions import Distribution, Laplace, Normal, Number, Poisson, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise

MOST_TOGETHER = 60  # draws: the density of so many Laplace draws has as many terms


@dataclass(frozen=True)
class LaplaceSum(Distribution):
    """The sum of `count` Laplace draws."""

    scale: Number
    count: int

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return np.asarray(rng.laplace(scale=float(self.scale), size=(self.count, count)).sum(axis=0))


@registered
def _(noise: LaplaceSum) -> Numbers:
    return LaplaceSumNumbers(as_float(noise.scale), noise.count)


def collapsed(piece: DistributionPiece) -> DistributionPiece:
    """The piece with like draws that it names in one proportion only taken together."""
    if len(piece.noises) < 2:
        return piece
    expressions = [*piece.numbers, *(condition.slack for condition in piece.conditions)]
    alike: dict[object, list[_Draw]] = {}
    for draw in _draws(expressions):
        if (kind := _kind(draw.noise, draw.lead)) is not None:
            alike.setdefault((kind, draw.shares), []).append(draw)
    sums = [draws for draws in alike.values() if 1 < len(draws) <= MOST_TOGETHER]
    if not sums:
        return piece
    for draws in sums:
        noise, factor = _sum([(draw.noise, draw.lead) for draw in draws])
        gone = {draw.noise for draw in draws}
        for place, share in draws[0].shares:
            terms = {symbol: c for symbol, c in expressions[place].terms.items() if symbol not in gone}
            expressions[place] = Affine(expressions[place].constant, {**terms, noise: exact(factor * share)})
    numbers, slacks = expressions[: len(piece.numbers)], expressions[len(piece.numbers) :]
    conditions = [Condition(slack, c.relation) for slack, c in zip(slacks, piece.conditions, strict=True)]
    return DistributionPiece(piece.weight, tuple(conditions), tuple(numbers))


@dataclass(frozen=True)
class _Draw:
    """A draw: its factor in the first expression that names it, and its share in each, relative to the first."""

    noise: Noise
    lead: Number
    shares: tuple[tuple[int, Fraction], ...]


def _draws(expressions: Sequence[Affine]) -> list[_Draw]:
    factors: dict[Noise, list[tuple[int, Number]]] = {}
    for place, expression in enumerate(expressions):
        for symbol, factor in expression.terms.items():
            if isinstance(symbol, Noise):
                factors.setdefault(symbol, []).append((place, factor))
    return [
        _Draw(noise, named[0][1], tuple((place, Fraction(factor) / named[0][1]) for place, factor in named))
        for noise, named in factors.items()
    ]


def _kind(noise: Noise, factor: Number) -> object:
    """Equal for draws whose sum has a known distribution; None for those of which none is known."""
    match noise.distribution:
        case Normal():
            return Normal
        case Laplace(scale):
            return Laplace, abs(Fraction(factor)) * scale
        case Poisson():
            return Poisson, factor
    return None


def _sum(draws: Sequence[tuple[Noise, Number]]) -> tuple[Noise, Number]:
    """One draw, and its factor, distributed like the sum of these draws times their factors."""
    first, factor = draws[0]
    if isinstance(first.distribution, Laplace):
        total: Distribution = LaplaceSum(exact(abs(Fraction(factor)) * first.distribution.scale), len(draws))
        factor = 1
    elif isinstance(first.distribution, Poisson):
        total = Poisson(exact(sum((Fraction(noise.distribution.rate) for noise, _ in draws), start=Fraction(0))))  # type: ignore[attr-defined]
    else:
        scales = [abs(Fraction(c)) * noise.distribution.scale for noise, c in draws]  # type: ignore[attr-defined]
        largest, factor = max(scales), 1
        ratio = math.sqrt(math.fsum(as_float(scale / largest) ** 2 for scale in scales))
        total = Normal(exact(largest * Fraction(ratio)))
    return Noise(first.index, total, first.site), factor
