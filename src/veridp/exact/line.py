"""The loss along one numeric entry: where it is largest, and where it exceeds a level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from veridp.exact.convolution import Cells
from veridp.exact.curve import Density
from veridp.exact.event import Entry, Event, Span
from veridp.exact.loss import ZERO, Loss, Peak, log_ratio
from veridp.exact.pieces import Piece
from veridp.exact.quadrature import edges, log_sum, panels
from veridp.program.affine import Affine, Condition
from veridp.program.distribution import exact
from veridp.program.symbols import Relation

Array = NDArray[np.float64]

INSIDE = 1e-12  # how far inside a panel, relative to its width, its end is looked at
SPOTS = np.concatenate([[INSIDE], 0.5 - np.cos(np.linspace(0, np.pi, 8)[1:-1]) / 2, [1 - INSIDE]])  # within a panel
BLUR = 2e-13  # breaks are known to 13 digits; on a break itself, two pieces that meet there would both count
CLOSER = np.array([1e-4, 1e-7, 1e-10])  # how far from a panel's end, of its width, a loss without bound is looked for
FAR = (60.0, 120.0, 180.0)  # at how many panel widths past the last break a tail is looked at
NEAR = (1e-9, 1e-3)  # the event shown for a supremum is where the loss comes this close to it, relatively
SNAP = 1e-8  # an end of an event this close to a break is put there
CELLS = 1500  # into about how many steps the range of a loss is cut before it is convolved


def _grows(tail: Array) -> bool:
    """Whether the loss at three evenly spaced points of a tail, outwards, rises without an end in sight."""
    if not np.all(np.isfinite(tail)):
        return False
    first, second = np.diff(tail)
    return bool(first > 1e-7 and second > 0.9 * first)


@dataclass(frozen=True, eq=False)
class Numbers:
    """One side of a class with numeric entries: its pieces, whose numbers are the entries."""

    pieces: tuple[Piece, ...]

    @cached_property
    def density(self) -> Density:
        return Density(self.pieces)

    def log_mass(self, spans: Sequence[Span]) -> float:
        """ln of the probability that each entry lies in its span."""
        inside = [Piece(piece.weight, (*piece.conditions, *_bounds(piece.numbers, spans)), ()) for piece in self.pieces]
        return Density(inside).mass


def _bounds(numbers: Sequence[Affine], spans: Sequence[Span]) -> list[Condition]:
    found = []
    for number, span in zip(numbers, spans, strict=True):
        slack = 0 if number.continuous else exact(1e-6)  # a lattice point on an end belongs to the span
        if math.isfinite(span.low):
            found.append(Condition(number - exact(span.low) + slack, Relation.AT_LEAST))
        if math.isfinite(span.high):
            found.append(Condition(exact(span.high) - number + slack, Relation.AT_LEAST))
    return found


class Line(Loss):
    """The outputs of a class with one numeric entry."""

    def __init__(self, entry: Entry, left: Numbers, right: Numbers, lattice: float | None) -> None:
        self.entry, self.left, self.right, self.lattice = entry, left, right, lattice

    def _reversed(self) -> Line:
        turned = Line(self.entry, self.right, self.left, self.lattice)
        turned.__dict__.update(_breaks=self._breaks, points=self.points, _values=(self._values[1], self._values[0]))
        return turned

    # ------------------------------------------------------------------------------------ looking at the loss

    @property
    def _densities(self) -> list[Density]:
        return [side.density for side in (self.left, self.right) if side.pieces]

    @cached_property
    def _breaks(self) -> Array:
        """Where either density may fail to be smooth, in order."""
        return np.array(sorted({point for density in self._densities for point in density.breaks()}) or [0.0])

    @cached_property
    def points(self) -> Array:
        """Where the loss is looked at, in order: inside every panel and at its ends, or at lattice points."""
        densities, breaks = self._densities, self._breaks
        width = 16.0 / max(density.rate for density in densities)
        tail = max(density.tail for density in densities)
        if self.lattice is not None:
            first, last = math.floor(breaks[0] - tail), math.ceil(breaks[-1] + tail)
            return np.arange(first, last + 1) + self.lattice
        ends = edges(breaks[None, :], width, tail, np.array([-np.inf]), np.array([np.inf]))[0]
        ends = ends[np.concatenate([[True], np.diff(ends) > 1e-12 * (1 + np.abs(ends[1:]))])]
        inner = ends[:-1, None] + np.diff(ends)[:, None] * SPOTS
        blur = BLUR * np.abs(ends)
        inner = np.clip(inner, (ends + blur)[:-1, None], (ends - blur)[1:, None]).ravel()
        far = tail * np.array(FAR) / 45.0 + tail
        return np.concatenate([ends[0] - far[::-1], inner, ends[-1] + far])

    @cached_property
    def _values(self) -> tuple[Array, Array]:
        points = self.points[:, None]
        return self.left.density(points), self.right.density(points)

    @cached_property
    def losses(self) -> Array:
        return log_ratio(*self._values)

    def _losses_at(self, points: Array) -> Array:
        return log_ratio(self.left.density(points[:, None]), self.right.density(points[:, None]))

    def loss_at(self, point: float) -> float:
        return float(self._losses_at(np.array([point]))[0])

    # -------------------------------------------------------------------------------------------- the supremum

    @cached_property
    def _growing_tail(self) -> Span | None:
        """The tail in which the loss rises without an end in sight, if there is one."""
        if self.lattice is None and _grows(self.losses[-3:]) and self._rises(self.points[-3:]):
            return Span(float(self.points[-4]), math.inf)
        if self.lattice is None and _grows(self.losses[:3][::-1]) and self._rises(self.points[:3][::-1]):
            return Span(-math.inf, float(self.points[3]))
        return None

    def _rises(self, tail: Array) -> bool:
        """Whether the loss rises all the way along a tail; one that integer noise makes go up and down does not."""
        return bool(np.all(np.diff(self._losses_at(np.linspace(tail[0], tail[-1], 12))) > 0))

    @cached_property
    def _pole(self) -> Span | None:
        """The stretch next to a break towards which the loss rises without bound, if there is one.

        Where both densities vanish at a break, they may do so at different speeds: with each order of the difference
        the loss rises by ln 1000 as the break comes 1000 times closer.
        """
        if self.lattice is not None:
            return None
        losses, points = (row[3:-3].reshape(-1, len(SPOTS)) for row in (self.losses, self.points))
        for towards in (slice(None), slice(None, None, -1)):
            with np.errstate(invalid="ignore"):
                rise = losses[:, towards][:, 0] - losses[:, towards][:, 1]
            for panel in np.flatnonzero(np.isfinite(rise) & (rise > math.log(SPOTS[1] / INSIDE) / 2)):
                end, *_, other = points[panel, towards]
                near = end + (other - end) * CLOSER
                if np.min(np.diff(self._losses_at(near))) > math.log(1000) / 2:
                    return Span(*sorted((float(end), float(near[0]))))
        return None

    def _supremum(self) -> float:
        best = int(np.argmax(self.losses))
        loss = float(self.losses[best])
        if not math.isfinite(loss):
            return loss
        if self._growing_tail is not None or self._pole is not None:
            return math.inf
        if self.lattice is None and 0 < best < len(self.points) - 1:
            return self._climbed(float(self.points[best - 1]), float(self.points[best + 1]), loss)
        return loss

    def _climbed(self, low: float, high: float, best: float) -> float:
        """The largest loss between two points, by looking ever closer around the best of a row of points."""
        while high - low > 1e-9 * (1 + abs(low)):
            row = np.linspace(low, high, 25)
            losses = self._losses_at(row)
            top = int(np.argmax(losses))
            gain, best = float(losses[top]) - best, max(best, float(losses[top]))
            if gain < 1e-15 * (1 + abs(best)):
                break
            low, high = float(row[max(top - 1, 0)]), float(row[min(top + 1, 24)])
        return best

    def _peak(self) -> Peak:
        loss = self.supremum
        if loss == -math.inf:
            return Peak(loss, Event(), -math.inf, -math.inf)
        if self._growing_tail is not None:
            return self._told(self._growing_tail)
        if loss == math.inf:
            return self._told(
                self._impossible() if np.any(np.isposinf(self.losses)) else self._pole or self._stretch(loss)
            )
        tight, loose = (self._told(self._stretch(loss - near * abs(loss) - ZERO)) for near in NEAR)
        return tight if tight.log_left > loose.log_left - math.log(100) else loose

    def _stretch(self, level: float) -> Span:
        """The interval around the best point on which the loss stays above the level."""
        best = float(self.points[int(np.argmax(self.losses))])
        spans = self._spans(level, at_least=True)
        found = next((span for span in spans if span.low - 1e-9 <= best <= span.high + 1e-9), Span(best, best))
        return Span(self._snapped(found.low), self._snapped(found.high))

    def _snapped(self, end: float) -> float:
        """The break that the end is but rounding away from, or the end itself."""
        nearest = float(self._breaks[np.argmin(np.abs(self._breaks - end))])
        return nearest if abs(nearest - end) < SNAP * (1 + abs(nearest)) else end

    def _impossible(self) -> Span:
        """The longest interval on which the right side has no density at all."""
        start, stop = max(
            _runs(np.isposinf(self.losses)), key=lambda run: self.points[run[1] - 1] - self.points[run[0]]
        )
        low = -math.inf if start == 0 else float(self.points[start])
        return Span(low, math.inf if stop == len(self.points) else float(self.points[stop - 1]))

    def _told(self, span: Span) -> Peak:
        event = Event(within=((self.entry, (span,)),))
        return Peak(self.supremum, event, self.left.log_mass([span]), self.right.log_mass([span]))

    # ----------------------------------------------------------------------------------------- above a level

    def _spans(self, level: float, at_least: bool = False) -> list[Span]:
        """The intervals on which the loss is above the level."""
        inside = self.losses >= level if at_least else self.losses > level
        spans = []
        for start, stop in _runs(inside):
            low = -math.inf if start == 0 else self._crossing(start - 1, start, level)
            high = math.inf if stop == len(inside) else self._crossing(stop - 1, stop, level)
            spans.append(Span(low, high))
        return spans

    def _crossing(self, before: int, after: int, level: float) -> float:
        """Where between two neighbouring points the loss crosses the level; at a jump, where it jumps."""
        low, high = float(self.points[before]), float(self.points[after])
        if self.lattice is not None:
            return high if self.losses[after] > self.losses[before] else low
        ends = self.losses[before], self.losses[after]
        if not np.all(np.isfinite(ends)) or math.isinf(level) or high - low < 1e-9 * (1 + abs(low)):
            return (low + high) / 2 if high - low < 1e-9 * (1 + abs(low)) else self._jump(low, high, level)
        if (ends[0] - level) * (ends[1] - level) >= 0:
            return low if abs(ends[0] - level) < abs(ends[1] - level) else high
        return float(brentq(lambda z: self.loss_at(z) - level, low, high, xtol=1e-13 * (1 + abs(low)), rtol=1e-14))

    def _jump(self, low: float, high: float, level: float) -> float:
        rising = self.loss_at(high) > self.loss_at(low)
        for _ in range(60):
            middle = (low + high) / 2
            inside = self.loss_at(middle) >= level
            low, high = (low, middle) if inside is rising else (middle, high)
        return (low + high) / 2

    def above(self, level: float) -> tuple[float, float]:
        spans = self._spans(level)
        return (
            sum(math.exp(self.left.log_mass([span])) for span in spans),
            sum(math.exp(self.right.log_mass([span])) for span in spans),
        )

    def where_above(self, level: float) -> list[Event]:
        spans = tuple(self._spans(level))
        return [Event(within=((self.entry, spans),))] if spans else []

    def cells(self) -> Cells:
        if self.lattice is not None:
            return Cells(np.exp(self._values[0]), np.exp(self._values[1]), self.losses)
        ends = self._fine_ends()
        inside = panels(ends[None, :])
        shape = (len(ends) - 1, -1)
        left, right = (
            np.exp(log_sum((side.density(inside.points.T) + inside.log_weights[0]).reshape(shape)))
            for side in (self.left, self.right)
        )
        losses = self._losses_at(ends)
        return self._with_tails(left, right, np.maximum(losses[:-1], losses[1:]))

    def _fine_ends(self) -> Array:
        """The points between the tails, and more of them where the loss changes fast."""
        points, losses = self.points[3:-3], self.losses[3:-3]
        finite = losses[np.isfinite(losses)]
        if not len(finite):
            return points
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(np.abs(np.diff(losses)), nan=0.0, posinf=0.0)
        fine = (finite.max() - finite.min()) / CELLS + ZERO
        counts = np.clip(np.ceil(change / fine), 1, CELLS).astype(int)
        rows = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(points[:-1], points[1:], counts, strict=True)]
        return np.concatenate([*rows, points[-1:]])

    def _with_tails(self, left: Array, right: Array, largest: Array) -> Cells:
        """The cells between the outermost breaks, and the two tails beyond."""
        tails = Span(-math.inf, float(self.points[3])), Span(float(self.points[-4]), math.inf)
        unbounded = self._growing_tail
        ends = [
            math.inf if unbounded is not None and unbounded == tail else float(side.max())
            for tail, side in zip(tails, (self.losses[:4], self.losses[-4:]), strict=True)
        ]
        return Cells(
            np.concatenate([left, [math.exp(self.left.log_mass([tail])) for tail in tails]]),
            np.concatenate([right, [math.exp(self.right.log_mass([tail])) for tail in tails]]),
            np.concatenate([largest, ends]),
        )

    def masses(self) -> tuple[float, float]:
        everywhere = [Span(-math.inf, math.inf)]
        return math.exp(self.left.log_mass(everywhere)), math.exp(self.right.log_mass(everywhere))


def _runs(inside: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The stretches of true values, as (start, stop)."""
    steps = np.diff(np.concatenate([[0], inside.astype(int), [0]]))
    return list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))
