"""The loss over several numeric entries that depend on each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from veridp.engines.exact.entry_loss import EntryLoss, Numbers
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.engines.exact.loss import EventMass, Peak, PrivacyLoss, Product, log_ratio
from veridp.engines.exact.noise import as_float
from veridp.engines.exact.pieces import DistributionPiece, collapsed
from veridp.engines.exact.tail import Window
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine
from veridp.kernel.noise import Normal
from veridp.kernel.symbols import Noise, Symbol

# ------------------------------------------------------------------------------------------------------------ gaussian
# Normal noise on several entries that all move, as noise on the one combination that tells the inputs apart.
#
# Between two normal distributions of like covariance, ln p/q is linear in the output. So the combination of the
# entries
# that it is linear in is a sufficient statistic: the loss of all entries together is the loss of that one number, and
# the
# outputs above a level of loss are a half-space.


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


# ---------------------------------------------------------------------------------------------------------- joint loss
# The loss over several numeric entries that hang together: its supremum is searched for, not proved.


Array = NDArray[np.float64]
STARTS = 2000
CLIMBS = 3
FLAT = 1e-9  # starts that agree on the best loss this closely lie on its plateau: no climb leads higher


@dataclass(frozen=True, eq=False)
class JointLoss(PrivacyLoss):
    """The outputs of a class with several entangled numeric entries.

    The supremum is the best of a search from the places where kinks meet and from the tails: a lower bound on the
    true one, in practice equal to it. Entries that move in whole steps are looked at where they are, and the search
    does not go on from there. The masses of where the loss exceeds a level are not computed.
    """

    entries: tuple[LinearEntry, ...]
    left: Numbers
    right: Numbers

    def _reversed(self) -> JointLoss:
        turned = JointLoss(self.entries, self.right, self.left)
        turned.__dict__.update(_centres=self._centres, _sides=self._sides[::-1], _starts=self._starts)
        return turned

    @cached_property
    def _in_steps(self) -> list[bool]:
        """Which entries move in whole steps."""
        return [not number.continuous for number in self.left.pieces[0].numbers]

    @cached_property
    def _centres(self) -> tuple[Number, ...]:
        """Where the distances of each entry are counted from, so that they are small wherever the data lie."""
        return tuple(number.constant for number in self.left.pieces[0].numbers)

    @cached_property
    def _sides(self) -> tuple[Numbers, Numbers]:
        """Left and right, as distances from the centres."""
        back = [-centre for centre in self._centres]
        return self.left.moved(back), self.right.moved(back)

    def _losses(self, points: Array) -> Array:
        return log_ratio(self._sides[0].density(points), self._sides[1].density(points))

    @cached_property
    def _scale(self) -> float:
        return max(side.density.tail for side in self._sides) / 45

    @cached_property
    def _starts(self) -> Array:
        """Points between and beyond the places where the densities have kinks."""
        columns: list[Sequence[float]] = []
        for place in range(len(self.entries)):
            kinks = {piece.numbers[place].constant for side in self._sides for piece in side.pieces}
            levels = sorted(map(as_float, kinks))
            around = [
                level + shift * self._scale for level in levels for shift in (-20, -3, -0.7, -0.01, 0.01, 0.7, 3, 20)
            ]
            if self._in_steps[place]:  # their remainders are those of the centres, which are 0 here
                around = [float(round(level)) for level in around]
            columns.append(sorted(set(around)))
        grid = itertools.islice(itertools.product(*columns), STARTS)
        return np.array(list(grid))

    @cached_property
    def _start_losses(self) -> Array:
        return self._losses(self._starts)

    @cached_property
    def _best(self) -> tuple[float, Array]:
        """The largest loss found, and where."""
        losses = self._start_losses
        order = np.argsort(losses)[::-1]
        best, point = float(losses[order[0]]), self._starts[order[0]]
        if any(self._in_steps) or not math.isfinite(best):
            return best, point
        if not (len(order) > CLIMBS and best - losses[order[CLIMBS]] < FLAT):
            settings = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 300}
            for start in self._starts[order[:CLIMBS]]:
                found = minimize(lambda z: -self._losses(z[None, :])[0], start, method="Nelder-Mead", options=settings)
                if -found.fun > best:
                    best, point = float(-found.fun), found.x
        return best, point

    def _supremum(self) -> float:
        return self._best[0]

    def _peak(self) -> Peak:
        """The peak, with a box around its point on which the loss varies little."""
        loss, point = self._best
        size = self._scale / 100
        spans = [
            NumberSpan(as_float(centre + exact(at - size)), as_float(centre + exact(at + size)))
            for centre, at in zip(self._centres, point.tolist(), strict=True)
        ]
        within = tuple((entry, (span,)) for entry, span in zip(self.entries, spans, strict=True))
        return Peak(loss, ExactEvent(within=within), self.left.log_mass(spans), self.right.log_mass(spans))

    def above(self, level: float) -> tuple[float, float]:
        top, bottom = self.supremum, -self.backward
        if level >= top and not any(self._in_steps):
            return 0.0, 0.0
        if level < bottom and not any(self._in_steps):
            return self.masses()
        raise NotExact(
            f"δ over {len(self.entries)} entangled numeric entries cannot be computed; use an engine that samples"
        )

    def parts_above(self, level: float) -> list[EventMass]:
        raise NotExact(
            f"the outputs above a level of loss, over {len(self.entries)} entangled entries, have no short description"
        )

    def masses(self) -> tuple[float, float]:
        everywhere = [NumberSpan(-math.inf, math.inf)] * len(self.entries)
        return math.exp(self.left.log_mass(everywhere)), math.exp(self.right.log_mass(everywhere))
