"""How far the noise of a shift moves over all differences of a polytope, and bounds on what that loses.

Each part of a bound is largest at a corner, as `veridp_check.alignment.divergence` argues.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from veridp.adjacency import Box, Polytope
from veridp.engines.prove.alignment.proof import CornerShifts
from veridp.engines.prove.alignment.shifts import MAX_CORNER_ENTRIES, Rule, bounds_of, linked_noises
from veridp.kernel.distributions import LossBound
from veridp.kernel.noise import Laplace, Normal
from veridp.kernel.symbols import Noise

Column = tuple[Any, ...]  # how one noise moves: by a constant and slopes, or at each corner


def prices_of(columns: Mapping[Noise, Column], polytope: Polytope) -> tuple[tuple[Fraction, int], ...]:
    """By how many scales Laplace noise moves at most, and how much of it; nothing where noise moves that is neither
    that nor normal."""
    prices = Counter[Fraction]()
    for noise, column in columns.items():
        if most := farthest(column, polytope):
            if isinstance(noise.distribution, Laplace):
                prices[most / noise.distribution.scale] += 1
            elif not isinstance(noise.distribution, Normal):
                return ()
    return tuple(sorted(prices.items()))


def farthest(column: Column, polytope: Polytope) -> Fraction:
    """How far one noise moves at most."""
    if _is_rule(column) and isinstance(polytope, Box):
        return max(map(abs, bounds_of(column[0], dict(column[1]), polytope)))
    return max(map(abs, column), default=Fraction(0))


def columns_of(form: CornerShifts | Rule, count: int) -> Iterator[Column]:
    for k in range(count):
        if isinstance(form, Rule):
            yield form.constants[k], tuple(sorted(form.slopes[k].items()))
        else:
            yield tuple(shift.moves[k] for shift in form.shifts if shift.moves is not None)


LossOfMoves = Callable[[Sequence[Noise], Sequence[Fraction]], LossBound]


def loss_of(noises: Sequence[Noise], moves: Sequence[Fraction]) -> LossBound:
    """A bound on the loss of these moves together."""
    losses = (noise.distribution.shift_loss(move) for noise, move in zip(noises, moves, strict=True) if move)
    return sum(losses, start=LossBound())


def squares_of(noises: Sequence[Noise], moves: Sequence[Fraction]) -> LossBound:
    """Σ p² of Laplace and normal noise that is moved by p scales: twice its zCDP, which adds up."""
    losses = [loss_of([noise], [move]) for noise, move in zip(noises, moves, strict=True)]
    return LossBound(squared=sum((loss.pure**2 + loss.squared for loss in losses), start=Fraction(0)))


def bound_over(columns: Mapping[Noise, Column], polytope: Polytope, of: LossOfMoves = loss_of) -> LossBound:
    """A bound on the loss of the shift at every difference: each part of it is largest at a corner."""
    noises = list(columns)
    if not isinstance(polytope, Box) or any(not _is_rule(column) for column in columns.values()):
        return worst_of([of(noises, moves) for moves in zip(*columns.values(), strict=True)])
    rule = Rule(tuple(c[0] for c in columns.values()), tuple(dict(c[1]) for c in columns.values()))
    total = LossBound()
    for group in linked_noises(rule):
        own = [noises[place] for place in group.places]
        if len(group.entries) <= MAX_CORNER_ENTRIES:
            corners = itertools.product(*((polytope.low[i], polytope.high[i]) for i in group.entries))
            moved = [_moves(rule, group.places, dict(zip(group.entries, corner, strict=True))) for corner in corners]
            total += worst_of([of(own, moves) for moves in moved])
            continue
        for place in group.places:
            ends = bounds_of(rule.constants[place], rule.slopes[place], polytope)
            total += worst_of([of([noises[place]], [end]) for end in ends])
    return total


def _is_rule(column: Column) -> bool:
    return len(column) == 2 and isinstance(column[1], tuple)


def _moves(rule: Rule, places: Sequence[int], difference: Mapping[int, Fraction]) -> list[Fraction]:
    return [
        rule.constants[place] + sum((slope * difference[i] for i, slope in rule.slopes[place].items()), Fraction(0))
        for place in places
    ]


def worst_of(losses: Sequence[LossBound]) -> LossBound:
    return reduce(LossBound.or_more, losses, LossBound())
