"""The loss over several numeric entries that hang together: its supremum is searched for, not proved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from veridp.engines.exact.entry_loss import Numbers
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.engines.exact.loss import EventMass, Peak, PrivacyLoss, log_ratio
from veridp.engines.exact.noise import as_float
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact

Array = NDArray[np.float64]
STARTS = 2000
CLIMBS = 3
FLAT = 1e-9  # starts that agree on the best loss this closely lie on its plateau: no climb leads higher


@dataclass(frozen=True, eq=False)
class JointLoss(PrivacyLoss):
    """The outputs of a class with several entangled numeric entries.

    The supremum is the best of a search from the places where kinks meet and from the tails: a lower bound on the
    true one, in practice equal to it. The masses of where the loss exceeds a level are not computed.
    """

    entries: tuple[LinearEntry, ...]
    left: Numbers
    right: Numbers

    def _reversed(self) -> JointLoss:
        turned = JointLoss(self.entries, self.right, self.left)
        turned.__dict__.update(_centres=self._centres, _sides=self._sides[::-1], _starts=self._starts)
        return turned

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
        if math.isfinite(best) and not (len(order) > CLIMBS and best - losses[order[CLIMBS]] < FLAT):
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
        if level >= top:
            return 0.0, 0.0
        if level < bottom:
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
