"""What a shift of noise costs: at most, where all that a run shows is kept; and at least, as its output tells.

What a run costs is an upper bound where it keeps values on the way that the output does not tell, where several draws
hide one number together, and where only the largest loss of a shift is known. A program that claims less may be right.
One that claims less than the lower bounds is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair
from veridp.accounting.tree import DominatingPairs
from veridp.engines.pipeline.alignment import HARD, SLOPE_RANK, cheapest_shift, shortest_shift
from veridp.engines.pipeline.recording import TrackedDraw
from veridp.kernel.distributions import Distribution
from veridp.kernel.noise import Laplace, Normal, Uniform

Array = NDArray[np.float64]
NO_LOSS = Finite.claimed(0.0)
FREE = DominatingPairs.both(NO_LOSS)
SAME_SHIFT = 1e-4  # relatively
CELL_ENDS = 41.0, 401  # of cells in which an output tells noise: how many widths out, and how many


def pair_of_shift(distribution: Distribution, shift: float) -> DominatingPair | None:
    """Two distributions that are as far apart as noise and the same noise shifted; None where no ε bounds it."""
    if isinstance(distribution, Laplace):
        return LaplacePair(abs(shift) / distribution.width)
    if isinstance(distribution, Normal):
        return GaussianPair(abs(shift) / distribution.width)
    price = distribution.price.up if shift > 0 else distribution.price.down
    if price is None:
        return None
    least = distribution.price_up_to(Fraction(abs(shift)))
    return Finite.claimed(abs(shift) * float(price) if least is None else least)


def cells_of_shift(distribution: Distribution, shift: float) -> DominatingPairs:
    """Noise against the same noise shifted, if one learns only in which cell it lies: less apart than they are."""
    widths, count = CELL_ENDS
    ends = distribution.middle + distribution.width * np.linspace(-widths, widths, count)
    if distribution.integer:
        ends = np.unique(np.rint(ends)) + 0.5
    lows, highs = np.append(-np.inf, ends), np.append(ends, np.inf)
    sides = [np.exp([_log_between(distribution, *cell) for cell in zip(lows + move, highs + move, strict=True)])
             for move in (0.0, shift)]  # fmt: skip
    left, right = (np.maximum(side, 0.0) / side.sum() for side in sides)
    return DominatingPairs(Finite.of(left, right), NO_LOSS)


def _log_between(distribution: Distribution, low: float, high: float) -> float:
    return float(distribution.log_between(np.array([low]), np.array([high])).item())


def ways(distribution: Distribution) -> tuple[Any, Any]:
    """The prices of a shift up, and down, without δ, or with one where there is none without."""
    price = distribution.price
    if price.up is None and price.down is None:
        price = distribution.price_with_delta
    return price.up, price.down


@dataclass(frozen=True, eq=False)
class OutputPrices:
    """What the numbers of an output tell of the cost of the noise that they follow."""

    draws: Sequence[TrackedDraw]
    slopes: Array  # of the numbers of the output, by draws
    shifts: Array
    delta: float  # that is claimed

    @cached_property
    def _least(self) -> Array:
        """The cheapest shift that keeps the numbers of the output."""
        if not np.any(self._shared):
            return self.shifts
        gaps = -self.slopes @ self.shifts
        found = cheapest_shift(self.draws, self.slopes, gaps, np.full(len(gaps), HARD))
        return shortest_shift(self.draws, self.slopes, found)

    @cached_property
    def _shared(self) -> NDArray[np.bool_]:
        """Which numbers follow several draws."""
        return np.asarray(np.count_nonzero(self.slopes, axis=1) > 1)

    @cached_property
    def _known(self) -> set[int]:
        """The draws that the numbers tell one by one, and not only in sums."""
        followed = np.flatnonzero(np.any(self.slopes, axis=0))
        if not np.any(self._shared):
            return set(followed.tolist())
        matrix = self.slopes[:, followed] * [self.draws[place].distribution.width for place in followed.tolist()]
        projector = np.linalg.pinv(matrix, rcond=SLOPE_RANK) @ matrix
        return set(followed[np.diagonal(projector) > 1 - SAME_SHIFT].tolist())

    def follow(self, draw: int) -> bool:
        """Whether a number of the output follows the draw."""
        return bool(np.any(self.slopes[:, draw]))

    def part(self, draw: int, cost: DominatingPairs | None) -> DominatingPairs | None:
        """What the output shows of the cost of a draw; nothing where the draw decides alone.

        Draws that are told only in sums hide them together. For normal noise, and for Laplace noise without δ, the
        cheapest shift is what that costs (far out, the loss of a sum of Laplace noise comes as close to it as one
        likes); of other noise, nothing is known. With a δ, a largest loss is not enough to know what a shift costs.
        All this rests on slopes: for a quotient of noisy numbers, say, it holds near the noise of this run.
        """
        if not self.follow(draw):
            return FREE
        noise, shift, least = self.draws[draw].distribution, float(self.shifts[draw]), float(self._least[draw])
        together = np.flatnonzero(np.any(self.slopes[self.slopes[:, draw] != 0] != 0, axis=0))
        kinds = {type(self.draws[other].distribution) for other in together.tolist()}
        if draw not in self._known and kinds != {Normal} and (self.delta or kinds != {Laplace}):
            return FREE
        if cost is None or np.isclose(least, shift, rtol=SAME_SHIFT, atol=0.0) or isinstance(noise, Uniform):
            least = shift
        exact = not self.delta or isinstance(noise, Laplace | Normal)
        if cost is None or (least == shift and exact):
            return cost
        if not least or isinstance(noise, Uniform):
            return FREE
        if not exact:
            return cells_of_shift(noise, least)
        pair = pair_of_shift(noise, least)
        return FREE if pair is None else DominatingPairs.both(pair)
