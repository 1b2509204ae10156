"""Normal noise on several entries that all move, as noise on the one combination that tells the inputs apart.

Between two normal distributions of like covariance, ln p/q is linear in the output. So the combination of the entries
that it is linear in is a sufficient statistic: the loss of all entries together is the loss of that one number, and the
outputs above a level of loss are a half-space.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from veridp.engines.exact.entry_loss import EntryLoss, Numbers
from veridp.engines.exact.event import LinearEntry
from veridp.engines.exact.loss import PrivacyLoss, Product
from veridp.engines.exact.noise import as_float
from veridp.engines.exact.pieces import DistributionPiece
from veridp.engines.exact.sums import collapsed
from veridp.engines.exact.window import Window
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine
from veridp.kernel.noise import Normal
from veridp.kernel.symbols import Noise, Symbol


def product(parts: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """The loss of independent parts, those that are normal noise on a number that moves made one."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Product) else (part,))]
    moves = [(part, move) for part in flat if isinstance(part, EntryLoss) and (move := _move(part))]
    if len(moves) < 2:
        return parts[0] if len(parts) == 1 else Product(tuple(parts))
    lines = [line for line, _ in moves]
    return Product((*(part for part in flat if part not in lines), _joined(lines, [move for _, move in moves])))


def _move(line: EntryLoss) -> Fraction | None:
    """By how many variances the number moves, if it is the same normal noise around either of two constants."""
    sides = [side.pieces for side in (line.left, line.right)]
    if any(len(pieces) != 1 or pieces[0].conditions or pieces[0].weight != 1 for pieces in sides):
        return None
    (mine,), (theirs,) = (pieces[0].numbers for pieces in sides)
    scale = _scale(mine)
    if scale is None or scale != _scale(theirs):
        return None
    return Fraction(theirs.constant - mine.constant) / scale**2


def _scale(number: Affine) -> Fraction | None:
    """The scale of the only noise of a number, where this is normal."""
    if len(number.terms) > 1:
        return None
    ((noise, factor),) = number.terms.items()
    if not isinstance(noise, Noise) or not isinstance(noise.distribution, Normal):
        return None
    return abs(Fraction(factor)) * noise.distribution.scale


def _joined(lines: Sequence[EntryLoss], moves: Sequence[Fraction]) -> EntryLoss:
    largest = max(moves, key=abs)
    weights = [exact(as_float(move / largest)) for move in moves]
    weighted = zip(lines, weights, strict=True)
    terms = [(place, factor * float(weight)) for line, weight in weighted for place, factor in line.entry.terms]
    entry = LinearEntry(tuple(terms), tuple(name for line in lines for name in line.entry.names))
    left = _sum([line.left.pieces[0].numbers[0] for line in lines], weights)
    right = _sum([line.right.pieces[0].numbers[0] for line in lines], weights)
    return EntryLoss(entry, left, right, None, Window(left.pieces[0].numbers[0].constant))


def _sum(numbers: Sequence[Affine], weights: Sequence[Number]) -> Numbers:
    """The weighted sum of numbers with a noise each; losses may be shared, so that the noise is numbered anew."""
    terms: dict[Symbol, Number] = {}
    for index, (number, weight) in enumerate(zip(numbers, weights, strict=True)):
        for noise, factor in number.terms.items():
            if isinstance(noise, Noise):
                terms[Noise(index, noise.distribution, noise.site)] = exact(factor * weight)
    constant = sum((n.constant * Fraction(w) for n, w in zip(numbers, weights, strict=True)), start=Fraction(0))
    return Numbers((collapsed(DistributionPiece(1, (), (Affine(exact(constant), terms),))),))
