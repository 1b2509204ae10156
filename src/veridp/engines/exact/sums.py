"""Draws that only their sum concerns, taken together as one draw of a known distribution.

`x + rng.normal() + rng.normal()` is one normal draw, and a sum of like Laplace draws has a density in closed form. What
is taken together needs no convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.engines.exact.pieces import DistributionPiece
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise

MOST_TOGETHER = 60  # draws: the density of so many Laplace draws has as many terms


def collapsed(piece: DistributionPiece) -> DistributionPiece:
    """The piece with like draws that it names in one proportion only taken together."""
    if len(piece.noises) < 2:
        return piece
    expressions = [*piece.numbers, *(condition.slack for condition in piece.conditions)]
    alike: dict[object, list[_Draw]] = {}
    for draw in _draws(expressions):
        if (key := draw.noise.distribution.sum_key(draw.lead)) is not None:
            alike.setdefault((key, draw.shares), []).append(draw)
    sums = [draws for draws in alike.values() if 1 < len(draws) <= MOST_TOGETHER]
    if not sums:
        return piece
    for draws in sums:
        first = draws[0].noise
        total, factor = first.distribution.sum_of([(draw.noise.distribution, draw.lead) for draw in draws])
        noise = Noise(first.index, total, first.site)
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
