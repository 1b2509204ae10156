"""Many pairs at once, independently: the distribution of the sum of their losses, by convolution on a lattice.

Losses between two points of the lattice are shared out as `dots`, which can only add to δ. Finite losses that lie on a
lattice of their own are put there as they are: then nothing is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from veridp.accounting.lattice import Part, aligned, merged, multiplied_out, on_lattice
from veridp.accounting.pairs import ALIKE, DominatingPair, Finite, epsilon_of_leak
from veridp.errors import BadInput
from veridp.numerics.privacy_loss_distribution import OUTSIDE, LossSum, together

TRIMMED = 1e-10  # of δ: largest losses that weigh no more count as infinite
NOISE = 1e-16  # of the largest mass: less is the rounding of a transform


class Composition:
    """Independent pairs at once: ε at a δ, and δ at an ε, of all of them together.

    `exact` tells whether the losses are taken as they are, so that the numbers are right up to rounding; else they are
    upper bounds, from losses on a lattice with steps of `step`.
    """

    def __init__(self, parts: Iterable[Part], step: float | None = None) -> None:
        if step is not None and not 0 < step < math.inf:
            raise BadInput(f"step must be finite and > 0, got {step!r}")
        self.step = step
        self.parts = [part for part in parts if part.count > 0] or [Part(ALIKE)]
        self._rows = aligned(self.parts) if step is None else None
        if self._rows is None and step is None:
            self.parts = multiplied_out(merged(self.parts))
            self._rows = aligned(self.parts)
        self.exact = self._rows is not None or self._single is not None

    @property
    def _single(self) -> DominatingPair | None:
        """The only part, where no lattice is needed or asked for."""
        alone = len(self.parts) == 1 and self.parts[0].count == 1
        return self.parts[0].pair if alone and (self.step is None or self.parts[0].pair.atoms) else None

    @cached_property
    def _sum(self) -> LossSum:
        """All losses there are."""
        return LossSum(self._rows or on_lattice(self.parts, self.step))

    def _sum_for(self, delta: float) -> LossSum:
        """The losses without the largest, as far as these matter too little at this δ."""
        spare = TRIMMED * (delta - self.infinite)
        if self._rows is None:
            return LossSum(on_lattice(self.parts, self.step, spare))
        return LossSum([row.trimmed(spare / (len(self._rows) * row.count)) for row in self._rows])

    @property
    def infinite(self) -> float:
        """The probability that some part's loss is infinite."""
        return together((part.pair.infinite, part.count) for part in self.parts)

    @property
    def largest_finite(self) -> float:
        """The largest finite loss; inf where there is no largest."""
        return sum(part.count * part.pair.largest_finite for part in self.parts)

    def delta(self, epsilon: float) -> float:
        """The least δ (or an upper bound on it) at this ε."""
        if self._single is not None:
            return self._single.delta_above(epsilon)
        if epsilon >= self.largest_finite:
            return self.infinite
        return self._sum.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """The least ε >= 0 (or an upper bound on it) at this δ; inf where there is none."""
        if not 0 <= delta < 1:
            raise BadInput(f"delta must be in [0, 1), got {delta!r}")
        if self._single is not None:
            return self._single.epsilon(delta)
        decided = epsilon_of_leak(delta, self.infinite, self.largest_finite)
        return min(self._sum_for(delta).epsilon(delta), self.largest_finite) if decided is None else decided

    def pair(self) -> DominatingPair:
        """All the parts as one pair, to be sampled or composed further."""
        if self._single is not None:
            return self._single
        whole = self._sum.at(0.0)
        kept = whole.masses > NOISE * whole.masses.max()
        # what the window may hide, and what is below rounding, counts as an infinite loss
        hidden = min(1.0, self.infinite + 2 * math.exp(OUTSIDE) + float(whole.masses[~kept].sum()))
        masses = whole.masses[kept] * ((1 - hidden) / whole.masses[kept].sum())
        return Finite(whole.losses[kept], masses, hidden)
