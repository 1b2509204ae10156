"""Values that a program makes of uniform draws: how far their tails are apart on two inputs.

The inverse of a distribution function, applied to a uniform draw u, is noise with hidden parameters. But moving
u towards 0 or 1 shows the tails: noise that is only moved by the data loses a bounded amount there, or one that
grows ever more slowly (normal noise), while noise whose scale depends on the data loses in proportion to ln u.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.pipeline.alignment import Aligner, Matching, RunAlignment
from veridp.engines.pipeline.recording import Program, ProgramRun

DEPTHS = (4.0, 8.0, 12.0)  # logits of u at which the losses are looked at, on either side
MIDDLE = tuple(float(logit) for logit in np.arange(-3.5, 3.6, 0.25))  # and where they are not the same everywhere
EVEN = 1e-3  # relatively: losses that are the same
FURTHEST = 26.0  # logit at which floats still tell u from 0 and 1
STEP = 0.01  # of the logit, for slopes
ENDS = (13.0, 19.0, 25.0)  # logits at which values that converge show the end of their support
CONVERGING = 0.1  # of the increase before; e^-6 for noise that is uniform at its end, 1 for Laplace noise
MAX_STEPS = 8  # of Newton's method
CLOSE = 1e-5  # of the slope: values that are the same
NORMAL_GROWTH = 0.75  # of the last increase by the one before, where normal noise is moved; 1 where its scale differs
NO_GROWTH = 0.01  # an increase of the loss that may be an error of slopes


@dataclass(eq=False)
class UniformTails:
    """The losses of the first value that a uniform draw and the data go into, the draw being moved into its tails."""

    program: Program
    left: ProgramRun
    left_data: Any
    right_data: Any
    alignment: RunAlignment
    marks: bool
    runs: int = 0

    def losses(self, draw: int) -> list[list[float]]:
        """ln of the left density by the right one, ever further out, in the lower and in the upper tail.

        A tail ends where the value no longer moves, or where the right side cannot take it: with an infinite loss if
        the value is past the end of its support there. A value that depends on other draws as well is not looked at.
        """
        slopes, rows, first = self.alignment.slopes, self.alignment.matching.rows, self.alignment.first.rows
        if not len(slopes) == len(rows) == len(first):
            return []
        moved = [place for place in np.flatnonzero(slopes[:, draw]).tolist() if not first[place].same]
        alone = moved[:1] if moved and np.count_nonzero(slopes[moved[0]]) == 1 else []
        return [self._tail(draw, row, side) for row in alone for side in (-1.0, 1.0)]

    def middle(self, draw: int, tails: list[list[float]]) -> list[float]:
        """The losses between the tails, where those in the tails tell that they differ from place to place."""
        sizes = [abs(loss) for tail in tails for loss in tail]
        if not sizes or max(sizes) - min(sizes) <= EVEN * max(sizes) or not math.isfinite(max(sizes)):
            return []
        slopes, first = self.alignment.slopes, self.alignment.first.rows
        row = next(place for place in np.flatnonzero(slopes[:, draw]).tolist() if not first[place].same)
        losses = (self._loss(draw, row, logit) for logit in MIDDLE)
        return [loss for loss in losses if loss is not None]

    def _tail(self, draw: int, row: int, side: float) -> list[float]:
        found: list[float] = []
        for depth in DEPTHS:
            loss = self._loss(draw, row, side * depth)
            if loss is None:
                return [*found, math.inf] if self._leaves_support(draw, row, side * depth) else found
            found.append(loss)
        return found

    def _leaves_support(self, draw: int, row: int, logit: float) -> bool:
        """Whether the value on the left lies past the end that the values on the right converge to."""
        here = self._value(self.left_data, draw, row, logit)
        ends = [self._row(self.right_data, draw, row, math.copysign(end, logit), self.alignment.shifts) for end in ENDS]
        known = [end for end in ends if end is not None]
        if here is None or len(known) < len(ENDS):
            return False
        (value, slope), (first, second, end) = here, known
        past = (end - value) * math.copysign(slope, -logit)
        return past > CLOSE * abs(slope) and abs(end - second) <= CONVERGING * abs(second - first)

    def _loss(self, draw: int, row: int, logit: float) -> float | None:
        here = self._value(self.left_data, draw, row, logit)
        if here is None:
            return None
        value, slope = here
        place = logit
        for _ in range(MAX_STEPS):
            there = self._value(self.right_data, draw, row, place)
            if there is None:
                return None
            gap = there[0] - value
            if abs(gap) <= CLOSE * abs(there[1]):
                steeper = math.log(abs(there[1] / slope))
                return steeper + _log_density(logit) - _log_density(place)
            place -= gap / there[1]
        return None

    def _value(self, data: Any, draw: int, row: int, logit: float) -> tuple[float, float] | None:
        """The value where the draw has this logit, and its slope by the logit; None where it does not move."""
        if abs(logit) > FURTHEST:
            return None
        shifts = np.zeros(len(self.left.draws)) if data is self.left_data else self.alignment.shifts
        values = [self._row(data, draw, row, place, shifts) for place in (logit - STEP, logit + STEP)]
        if values[0] is None or values[1] is None or values[0] == values[1]:
            return None
        return (values[0] + values[1]) / 2, (values[1] - values[0]) / (2 * STEP)

    def _row(self, data: Any, draw: int, row: int, logit: float, shifts: NDArray[np.float64]) -> float | None:
        moved = shifts.copy()
        moved[draw] = 1 / (1 + math.exp(-logit)) - self.left.draws[draw].value
        aligner = Aligner(self.program, self.left, data, self.marks)
        rows = Matching(self.left, aligner.run(moved), self.alignment.matching.passing).rows
        self.runs += aligner.runs
        expected = self.alignment.matching.rows[row]
        found = rows[row] if row < len(rows) else None
        return found.right if found is not None and (found.name, found.site) == (expected.name, expected.site) else None


def _log_density(logit: float) -> float:
    """ln of du/d logit, for a uniform u."""
    return -abs(logit) - 2 * math.log1p(math.exp(-abs(logit)))


def unbounded(losses: list[float]) -> bool:
    """Whether the losses of a tail grow in proportion to its depth, as those of noise of two scales do."""
    increases = [abs(after - before) for before, after in itertools.pairwise(filter(math.isfinite, losses))]
    limit = (1 + NORMAL_GROWTH) / 2
    return len(increases) > 1 and increases[1] > max(limit * increases[0], NO_GROWTH)
