"""Pieces that are the same but for the names of their noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from veridp.engines.exact.pieces import DistributionPiece
from veridp.kernel.expressions import Affine
from veridp.kernel.symbols import Symbol
from veridp.numerics.components import components

ROUNDS = 4  # of refinement; more only if something still changes


def with_multiplicity(pieces: Sequence[DistributionPiece]) -> list[tuple[DistributionPiece, int]]:
    """One piece of each kind, with how many there are of it: they have the same density."""
    if len(pieces) == 1:
        return [(pieces[0], 1)]
    kinds: dict[object, tuple[DistributionPiece, int]] = {}
    numbers: dict[object, int] = {}
    for place, piece in enumerate(pieces):
        form = canonical(piece, numbers)
        key: object = ("alone", place) if form is None else form
        first, count = kinds.get(key, (piece, 0))
        kinds[key] = (first, count + 1)
    return list(kinds.values())


def canonical(piece: DistributionPiece, numbers: dict[object, int]) -> object | None:
    """What the piece is but for the names of its noise; None where this cannot be told for certain.

    `numbers` numbers the colours that occur, and must be the same for all pieces that are compared.

    Noise and expressions are coloured by what they are and by the colours around them, again and again. Where
    expressions link noise in a forest, equal colourings mean that the pieces are the same (colour refinement tells
    trees apart); where they go in circles this need not hold, so nothing is said.
    """
    expressions: list[tuple[tuple[str, object], Affine]] = []
    expressions += [(("number", place), number) for place, number in enumerate(piece.numbers)]
    expressions += [(("condition", 0 if c.slack.continuous else c.relation.value), c.slack) for c in piece.conditions]
    if not _is_forest([expression for _, expression in expressions]):
        return None
    colours: dict[Symbol, object] = {noise: noise.distribution for noise in piece.noises}
    for _ in range(max(ROUNDS, len(colours))):
        seen: dict[Symbol, list[object]] = {noise: [] for noise in colours}
        for label, expression in expressions:
            around = _colour(expression, colours)
            for symbol, coefficient in expression.terms.items():
                seen[symbol].append((label, coefficient, around))
        refined = {noise: _numbered((colours[noise], _multiset(seen[noise])), numbers) for noise in colours}
        if len(set(refined.values())) == len(set(colours.values())):
            break
        colours = dict(refined)
    final = [(label, _colour(expression, colours)) for label, expression in expressions]
    return piece.weight, _multiset(final), _multiset(list(colours.values()))


def _colour(expression: Affine, colours: dict[Symbol, object]) -> object:
    return expression.constant, _multiset([(c, colours[symbol]) for symbol, c in expression.terms.items()])


def _numbered(colour: object, numbers: dict[object, int]) -> int:
    return numbers.setdefault(colour, len(numbers))


def _multiset(items: Sequence[object]) -> object:
    return frozenset(Counter(items).items())


def _is_forest(expressions: Sequence[Affine]) -> bool:
    """Whether noise and expressions, joined where an expression names a noise, make no circle."""
    links = [expression.terms for expression in expressions]
    points = len(links) + len({symbol for terms in links for symbol in terms})
    return sum(map(len, links)) == points - len(components(links))
