"""The loss along one numeric entry: where it is largest, and where it exceeds a level."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from veridp.engines.exact.curve import Density
from veridp.engines.exact.divergence import Divergence, Line, LogDensities, lattice_divergence
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.engines.exact.loss import ZERO, EventMass, Mixture, Peak, PrivacyLoss, log_of, log_ratio
from veridp.engines.exact.noise import as_float
from veridp.engines.exact.pieces import DistributionPiece
from veridp.engines.exact.tail import Window, limit, limit_of, rises_without_bound, windows
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Relation
from veridp.numerics.privacy_loss_distribution import Cells
from veridp.numerics.quadrature import edges, log_sum, panels

Array = NDArray[np.float64]

INSIDE = 1e-12  # how far inside a panel, relative to its width, its end is looked at
SPOTS = np.concatenate([[INSIDE], 0.5 - np.cos(np.linspace(0, np.pi, 8)[1:-1]) / 2, [1 - INSIDE]])  # within a panel
BLUR = 2e-13  # breaks are known to 13 digits; on a break itself, two pieces that meet there would both count
CLOSER = np.array([1e-4, 1e-7, 1e-10])  # how far from a panel's end, of its width, a loss without bound is looked for
DOUBLINGS = 6  # how often the distance to the last break is doubled to look at a tail
ACROSS = np.sort((0.1 + np.arange(12) * (math.sqrt(5) - 1) / 2) % 1)  # where a period of a tail is looked at
NEAR = (1e-9, 1e-3, 1e-2, 1e-1)  # the event shown for a supremum is where the loss comes this close to it, relatively
RARE = math.log(1e-20)  # an event that is rarer than this gives way to one that comes less close
SNAP = 1e-9  # an end of an event this close to a break, in widths of a panel, is put there
CELLS = 1500  # into about how many steps the range of a loss is cut before it is convolved
ULP = 2.0**-52
MOST_ERROR = 1e-7  # a loss that rounding may have changed by more, relatively, is not used
LEAST_DENSITY = -700.0  # ln of a density; what is less likely has no probability that a float can hold
MOST_LATTICE_POINTS = 2_000_000
TOO_FAR_APART = (
    "the locations of an output entry are too far apart to separate its noise from rounding; use an engine that samples"
)
QUADRATURE_ERROR = 1e-13  # of the logarithm of a density that takes an integral
LEAST_PANEL = 1e-110  # in widths, next to a centre at which a density has a pole
MAX_PANEL_DOUBLINGS = 60  # of the panels that a divergence is integrated on in a tail
MOST_PANELS_OUT = 1500  # how many panels past the last break a convolution is still computed well


@dataclass(frozen=True, eq=False)
class Numbers:
    """One side of a class with numeric entries: its pieces, whose numbers are the entries."""

    pieces: tuple[DistributionPiece, ...]

    @cached_property
    def density(self) -> Density:
        return Density(self.pieces)

    def log_mass(self, spans: Sequence[NumberSpan]) -> float:
        """ln of the probability that each entry lies in its span."""
        inside = [
            weight + Density([DistributionPiece(1, (*piece.conditions, *_bounds(piece.numbers, spans)), ())]).mass
            for piece, weight in self.density.joined
        ]
        return float(log_sum(np.array(inside)))

    def mass(self, spans: Sequence[NumberSpan]) -> float:
        """The probability that the only entry lies in one of the disjoint spans."""
        return math.fsum(math.exp(self.log_mass([span])) for span in spans)

    def moved(self, offsets: Sequence[Number]) -> Numbers:
        """The same with each entry moved."""
        return Numbers(
            tuple(
                DistributionPiece(
                    p.weight, p.conditions, tuple(n + by for n, by in zip(p.numbers, offsets, strict=True))
                )
                for p in self.pieces
            )
        )


def _bounds(numbers: Sequence[Affine], spans: Sequence[NumberSpan]) -> list[Condition]:
    found = []
    for number, span in zip(numbers, spans, strict=True):
        slack = 0 if number.continuous else exact(1e-6)  # a lattice point on an end belongs to the span
        if math.isfinite(span.low):
            found.append(Condition(number - exact(span.low) + slack, Relation.AT_LEAST))
        if math.isfinite(span.high):
            found.append(Condition(exact(span.high) - number + slack, Relation.AT_LEAST))
    return found


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the loss is looked at, in order: `inner` of them between the tails, and rows of them far out in either."""

    points: Array
    inner: slice
    row: int  # how many points lie at each distance in a tail

    def alike(self) -> list[Array]:
        """The points in groups that lie about as far out: an integral for one of them is as hard as for the others."""
        low, high = self.tails(self.points)
        return [*(row[::-1] for row in low[::-1]), self.points[self.inner], *high]

    def tails(self, values: Array) -> tuple[Array, Array]:
        """The values at the points of either tail: a row for each distance, outwards."""
        low, high = values[: self.inner.start], values[self.inner.stop :]
        return low[::-1].reshape(-1, self.row), high.reshape(-1, self.row)


class EntryLoss(PrivacyLoss):
    """The outputs of a class with one numeric entry.

    Everything is computed in distances from a centre, a location of the noise that is kept exactly. So what is rounded
    is small against the noise wherever the data lie. Only the ends of events are rounded as outputs are, and
    their probabilities are those of the rounded events. Outputs outside of the window are those of other lines.
    """

    def __init__(
        self, entry: LinearEntry, left: Numbers, right: Numbers, lattice: float | None, window: Window
    ) -> None:
        self.entry, self.left, self.right, self.lattice, self.window = entry, left, right, lattice, window

    @cached_property
    def _alike(self) -> bool:
        """Whether both sides are written alike, and possible: then there is nothing to look at."""
        return [p.key for p in self.left.pieces] == [p.key for p in self.right.pieces] and self.masses()[0] > 0

    def _reversed(self) -> EntryLoss:
        if self._alike:
            return self
        turned = EntryLoss(self.entry, self.right, self.left, self.lattice, self.window)
        shared = {name: getattr(self, name) for name in ("centre", "_breaks", "_width", "_places", "_errors")}
        turned.__dict__.update(shared, _sides=self._sides[::-1], _values=self._values[::-1])
        if self.lattice is None:
            turned.__dict__["_line"] = self._line.reversed
        return turned

    # ------------------------------------------------------------------------------------ looking at the loss

    @cached_property
    def centre(self) -> Number:
        """Where distances are counted from."""
        return self.window.location if self.lattice is None else math.floor(self.window.location)

    @cached_property
    def _sides(self) -> tuple[Numbers, Numbers]:
        """Left and right, as distances from the centre."""
        return self.left.moved([-self.centre]), self.right.moved([-self.centre])

    @cached_property
    def _width(self) -> float:
        """The length on which a density changes by at most e^16: what distances are small or large against."""
        return 16.0 / max(side.density.rate for side in self._sides)

    @cached_property
    def _everywhere(self) -> NumberSpan:
        """All outputs, as distances."""
        low, high = self.window.low, self.window.high
        return NumberSpan(
            -math.inf if low is None else as_float(exact(low - self.centre)),
            math.inf if high is None else as_float(exact(high - self.centre)),
        )

    @cached_property
    def _breaks(self) -> Array:
        """Where either density may fail to be smooth, in order."""
        found = {point for side in self._sides for point in side.density.breaks()}
        return np.array(sorted(p for p in found if self._everywhere.low < p < self._everywhere.high) or [0.0])

    @cached_property
    def _places(self) -> _Places:
        """Inside every panel and at its ends, or at lattice points; and in the tails, at distances that double."""
        breaks, tail = self._breaks, self._tail
        most: float = MOST_LATTICE_POINTS
        if breaks[-1] - breaks[0] > self._width / ULP:
            raise NotExact(TOO_FAR_APART)
        if self.lattice is not None:
            first, last, tail = math.floor(breaks[0] - tail), math.ceil(breaks[-1] + tail), math.ceil(tail)
            if last - first > MOST_LATTICE_POINTS:
                raise NotExact(f"an output entry spreads over {last - first:.1e} integers; use an engine that samples")
            inner, across = np.arange(first, last + 1) + self.lattice, np.arange(max(1.0, self._period))
            inner = inner[(inner > self._everywhere.low) & (inner < self._everywhere.high)]
        else:
            ends = self._panel_ends
            blur = BLUR * np.maximum(np.abs(ends), self._width)
            inner = ends[:-1, None] + np.diff(ends)[:, None] * SPOTS
            inner = np.clip(inner, (ends + blur)[:-1, None], (ends - blur)[1:, None]).ravel()
            most = self._farthest
            across = self._period * ACROSS if self._period else np.zeros(1)
        below, above = (
            (self._distances(tail, most, reach)[:, None] + across).ravel()
            for reach in (inner[0] - self._everywhere.low, self._everywhere.high - inner[-1])
        )
        points = np.concatenate([inner[0] - below[::-1], inner, inner[-1] + above])
        return _Places(points, slice(len(below), len(below) + len(inner)), len(across))

    @cached_property
    def _tail(self) -> float:
        return max(side.density.tail for side in self._sides)

    @property
    def _farthest(self) -> float:
        """How far past the last break a density is still computed well."""
        return math.inf if self._in_closed_form else max(8 * self._tail, MOST_PANELS_OUT * self._width)

    @cached_property
    def _panel_ends(self) -> Array:
        """The ends of panels, up to where the tails begin, on which both densities are smooth."""
        low, high = (np.array([end]) for end in (self._everywhere.low, self._everywhere.high))
        ends = edges(self._breaks[None, :], self._width, self._tail, low, high)[0]
        apart = np.maximum(1e-12 * self._width, 8 * ULP * np.abs(ends[1:]))
        return np.asarray(ends[np.concatenate([[True], np.diff(ends) > apart])])

    def _distances(self, tail: float, most: float, reach: float) -> Array:
        """How far out a tail is looked at: at distances that double, a few times or as far as the window reaches."""
        count = DOUBLINGS if math.isinf(reach) else math.floor(math.log2(1 + max(0.0, reach - self._period) / tail))
        doubled = tail * 2.0 ** np.arange(count + 1)
        return np.asarray(doubled[doubled <= most] - tail)

    @property
    def _in_closed_form(self) -> bool:
        """Whether no density takes an integral."""
        return all(len(piece.noises) == 1 for side in self._sides for piece in side.pieces)

    @cached_property
    def _period(self) -> float:
        """After which distance integer noise, alone or below continuous noise, repeats its pattern; 0 without it."""
        steps = [
            abs(as_float(c))
            for side in self._sides
            for piece in side.pieces
            for symbol, c in piece.numbers[0].terms.items()
            if isinstance(symbol, Noise) and symbol.distribution.integer
        ]
        return max(steps, default=0.0)

    @property
    def points(self) -> Array:
        """Outputs between the tails at which the loss is looked at, in order."""
        return as_float(self.centre) + self._places.points[self._places.inner]

    @cached_property
    def _values(self) -> tuple[Array, Array]:
        """ln of both densities at the places."""
        rows = self._places.alike()
        left, right = (np.concatenate([side.density(row[:, None]) for row in rows]) for side in self._sides)
        return left, right

    @cached_property
    def _errors(self) -> Array:
        """How far rounding may have carried the loss at each place, in either direction."""
        sizes = sum(np.where(np.isfinite(side), np.abs(side), 0.0) for side in self._values)
        return 4 * ULP * (sizes + np.abs(self._places.points) * (16.0 / self._width))

    @cached_property
    def losses(self) -> Array:
        """The loss at the places; -inf where rounding has drowned it, which must not be where events are likely."""
        losses = log_ratio(*self._values)
        with np.errstate(invalid="ignore"):
            drowned = self._errors > MOST_ERROR * (1 + np.where(np.isfinite(losses), np.abs(losses), 0.0))
        if np.any(drowned & (np.maximum(*self._values) > LEAST_DENSITY)):
            raise NotExact(TOO_FAR_APART)
        return np.where(drowned, -np.inf, losses)

    def _losses_at(self, places: Array) -> Array:
        left, right = self._sides
        return log_ratio(left.density(places[:, None]), right.density(places[:, None]))

    def _loss_at(self, place: float) -> float:
        return float(self._losses_at(np.array([place]))[0])

    # -------------------------------------------------------------------------------------------- the supremum

    @cached_property
    def _tails(self) -> tuple[list[float], list[float]]:
        """The largest loss at each distance in either tail, as far out as there is one."""
        low, high = ([float(row.max()) for row in rows] for rows in self._places.tails(self.losses))
        return _finite(low), _finite(high)

    @cached_property
    def _limits(self) -> tuple[float, float]:
        """What the loss tends to in either tail: inf where it rises without bound, -inf where that is not known."""
        low, high = self._tails
        return self._limit(low, -1), self._limit(high, 1)

    def _limit(self, tail: Sequence[float], sign: int) -> float:
        if math.isfinite(self._everywhere.low if sign < 0 else self._everywhere.high):
            return -math.inf
        known = limit_of(self._sides[0].pieces, self._sides[1].pieces, sign)
        if known is not None:
            return known
        return math.inf if rises_without_bound(tail) else limit(tail)

    @cached_property
    def _growing_tail(self) -> NumberSpan | None:
        """The tail in which the loss rises without bound, if there is one."""
        low, high = self._places.points[self._places.inner][[0, -1]].tolist()
        if self._limits[1] == math.inf:
            return NumberSpan(high, math.inf)
        return NumberSpan(-math.inf, low) if self._limits[0] == math.inf else None

    @cached_property
    def _pole(self) -> NumberSpan | None:
        """The stretch next to a break towards which the loss rises without bound, if there is one.

        Where both densities vanish at a break, they may do so at different speeds: with each order of the difference
        the loss rises by ln 1000 as the break comes 1000 times closer.
        """
        if self.lattice is not None:
            return None
        losses, points = (row[self._places.inner].reshape(-1, len(SPOTS)) for row in (self.losses, self._places.points))
        for towards in (slice(None), slice(None, None, -1)):
            with np.errstate(invalid="ignore"):
                rise = losses[:, towards][:, 0] - losses[:, towards][:, 1]
            for panel in np.flatnonzero(np.isfinite(rise) & (rise > math.log(SPOTS[1] / INSIDE) / 2)):
                end, *_, other = points[panel, towards]
                near = end + (other - end) * CLOSER
                if np.min(np.diff(self._losses_at(near))) > math.log(1000) / 2:
                    return NumberSpan(*sorted((float(end), float(near[0]))))
        return None

    @cached_property
    def _best(self) -> int:
        """The place of the largest loss, of those that differ by rounding the one that is known best."""
        return int(np.argmax(self.losses - self._errors))

    def _supremum(self) -> float:
        if self._alike:
            return 0.0
        best = float(self.losses[self._best])
        if not math.isfinite(best):
            return best
        if self._growing_tail is not None or self._pole is not None:
            return math.inf
        if self.lattice is None and 0 < self._best < len(self.losses) - 1:
            low, high = self._places.points[[self._best - 1, self._best + 1]].tolist()
            best = self._climbed(low, high, best)
        limit = max(self._limits)
        return limit if abs(best - limit) <= float(self._errors[self._best]) else max(best, limit)

    def _climbed(self, low: float, high: float, best: float) -> float:
        """The largest loss between two points, by looking ever closer around the best of a row of points."""
        error = float(self._errors[self._best])  # what exceeds the best by no more than this may be rounding
        while high - low > 1e-10 * self._width + 8 * ULP * abs(low):
            row = np.linspace(low, high, 25)
            losses = self._losses_at(row)
            top = int(np.argmax(losses))
            if float(losses[top]) - float(losses.min()) <= error:
                break
            if losses[top] > best + error:
                best = float(losses[top])
            low, high = float(row[max(top - 1, 0)]), float(row[min(top + 1, 24)])
        return best

    def _peak(self) -> Peak:
        loss = self.supremum
        if loss == -math.inf:
            return Peak(loss, ExactEvent(), -math.inf, -math.inf)
        if loss == math.inf:
            return self._told(self._growing_tail or (self._pole if math.isfinite(self.losses[self._best]) else None))
        found = self._told(self._stretch(loss - NEAR[0] * abs(loss) - ZERO))
        for place, near in enumerate(NEAR[1:]):
            if place and found.log_left > RARE:
                break
            looser = self._told(self._stretch(loss - near * abs(loss) - ZERO))
            found = looser if looser.log_left > found.log_left + math.log(100) else found
        return found

    def _stretch(self, level: float) -> NumberSpan:
        """The interval around the best place, or else the tail, on which the loss stays above the level."""
        best = float(self._places.points[self._best])
        spans, close = self._spans(level, at_least=True), SNAP * self._width
        around = [span for span in spans if span.low - close <= best <= span.high + close]
        tails = [span for span in spans if math.isinf(span.low) or math.isinf(span.high)]
        return (around or tails or [NumberSpan(best, best)])[0]

    def _impossible(self) -> NumberSpan:
        """The longest interval on which the right side has no density at all."""
        points = self._places.points
        start, stop = max(_runs(np.isposinf(self.losses)), key=lambda run: points[run[1] - 1] - points[run[0]])
        low = self._everywhere.low if start == 0 else float(points[start])
        return NumberSpan(low, self._everywhere.high if stop == len(points) else float(points[stop - 1]))

    # ------------------------------------------------------------------------------------------------- events

    def _told(self, span: NumberSpan | None) -> Peak:
        """The supremum, with an event that shows it."""
        part = self._part([span or self._impossible()])
        return Peak(self.supremum, part.event, log_of(part.left), log_of(part.right))

    def _part(self, spans: Sequence[NumberSpan]) -> EventMass:
        """The event that the entry lies in one of the spans, with its probabilities."""
        outputs = tuple(map(self._outputs, spans))
        left, right = (
            math.fsum(math.exp(side.log_mass([span])) for span in outputs) for side in (self.left, self.right)
        )
        return EventMass(ExactEvent(within=((self.entry, outputs),)), left, right)

    def _outputs(self, span: NumberSpan) -> NumberSpan:
        """The outputs of a span of distances: rounded to floats, outwards where nothing else would be left of it."""
        low, high = map(self._output, (self._snapped(span.low), self._snapped(span.high)))
        if low < high or (self.lattice is not None and low == high):
            return NumberSpan(low, high)
        return NumberSpan(math.nextafter(low, -math.inf), math.nextafter(high, math.inf))

    def _output(self, place: float) -> float:
        return as_float(self.centre + exact(place)) if math.isfinite(place) else place

    def _snapped(self, end: float) -> float:
        """The break that the end is but rounding away from, or the end itself."""
        if self.lattice is not None or math.isinf(end):
            return end
        nearest = float(self._breaks[np.argmin(np.abs(self._breaks - end))])
        return nearest if abs(nearest - end) < SNAP * self._width + 8 * ULP * abs(end) else end

    # ----------------------------------------------------------------------------------------- above a level

    def _spans(self, level: float, at_least: bool = False) -> list[NumberSpan]:
        """The intervals on which the loss is above the level."""
        inside = self.losses >= level if at_least else self.losses > level
        spans = []
        for start, stop in _runs(inside):
            low = self._everywhere.low if start == 0 else self._crossing(start - 1, start, level)
            high = self._everywhere.high if stop == len(inside) else self._crossing(stop - 1, stop, level)
            spans.append(NumberSpan(low, high))
        return spans

    def _crossing(self, before: int, after: int, level: float) -> float:
        """Where between two neighbouring places the loss crosses the level; at a jump, where it jumps."""
        low, high = float(self._places.points[before]), float(self._places.points[after])
        ends = self.losses[before], self.losses[after]
        if self.lattice is not None:
            return self._lattice_crossing(low, high, level, rising=bool(ends[1] > ends[0]))
        narrow = high - low < 1e-9 * self._width
        if not np.all(np.isfinite(ends)) or math.isinf(level) or narrow:
            return self._snapped((low + high) / 2 if narrow else self._jump(low, high, level))
        gaps = self._loss_at(low) - level, self._loss_at(high) - level
        if not gaps[0] * gaps[1] < 0:
            return low if abs(gaps[0]) < abs(gaps[1]) else high
        close = 1e-14 * self._width + 4 * ULP * abs(low)
        return float(brentq(lambda place: self._loss_at(place) - level, low, high, xtol=close, rtol=1e-14))

    def _lattice_crossing(self, low: float, high: float, level: float, rising: bool) -> float:
        """The lattice point on the side above the level that is next to the other side."""
        while high - low > 1.5:
            middle = low + math.floor((high - low) / 2)
            low, high = (low, middle) if (self._loss_at(middle) > level) is rising else (middle, high)
        return high if rising else low

    def _jump(self, low: float, high: float, level: float) -> float:
        rising = self._loss_at(high) > self._loss_at(low)
        for _ in range(60):
            middle = (low + high) / 2
            inside = self._loss_at(middle) >= level
            low, high = (low, middle) if inside is rising else (middle, high)
        return (low + high) / 2

    def above(self, level: float) -> tuple[float, float]:
        spans = self._spans(level)
        return self._sides[0].mass(spans), self._sides[1].mass(spans)

    def parts_above(self, level: float) -> list[EventMass]:
        spans = self._spans(level)
        return [self._part(spans)] if spans else []

    def cells(self) -> Cells:
        points = self._places.points[self._places.inner]
        if self.lattice is not None:
            left, right = (np.exp(side[self._places.inner]) for side in self._values)
            return self._with_tails(left, right, self.losses[self._places.inner], points[[0, -1]] + [-0.5, 0.5])
        ends = self._fine_ends()
        inside = panels(ends[None, :])
        shape = (len(ends) - 1, -1)
        left, right = (
            np.exp(log_sum((side.density(inside.points.T) + inside.log_weights[0]).reshape(shape)))
            for side in self._sides
        )
        losses = self._losses_at(ends)
        return self._with_tails(left, right, np.maximum(losses[:-1], losses[1:]), ends[[0, -1]])

    def _fine_ends(self) -> Array:
        """The points between the tails, and more of them where the loss changes fast."""
        points, losses = (row[self._places.inner] for row in (self._places.points, self.losses))
        finite = losses[np.isfinite(losses)]
        if not len(finite):
            return points
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(np.abs(np.diff(losses)), nan=0.0, posinf=0.0)
        fine = (finite.max() - finite.min()) / CELLS + ZERO
        counts = np.clip(np.ceil(change / fine), 1, CELLS).astype(int)
        rows = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(points[:-1], points[1:], counts, strict=True)]
        return np.concatenate([*rows, points[-1:]])

    def _with_tails(self, left: Array, right: Array, largest: Array, ends: Array) -> Cells:
        """The cells between the tails, and the two tails."""
        spans = NumberSpan(self._everywhere.low, float(ends[0])), NumberSpan(float(ends[1]), self._everywhere.high)
        tops = [
            max([far, float(edge), *rows.ravel().tolist()])
            for far, edge, rows in zip(self._limits, largest[[0, -1]], self._places.tails(self.losses), strict=True)
        ]
        top = [math.inf if found == -math.inf else found for found in tops]  # not seen: anything
        masses = [[math.exp(side.log_mass([span])) for span in spans] for side in self._sides]
        return Cells(
            np.concatenate([left, masses[0]]), np.concatenate([right, masses[1]]), np.concatenate([largest, top])
        )

    # --------------------------------------------------------------------------------------------- divergences

    def divergence(self, order: float) -> Divergence:
        if order not in self._divergences:
            self._divergences[order] = self._divergence(order)
        return self._divergences[order]

    @cached_property
    def _divergences(self) -> dict[float, Divergence]:
        """Those that are known, by their orders."""
        return {}

    def _divergence(self, order: float) -> Divergence:
        left, right = (side.log_mass([self._everywhere]) for side in self._sides)
        if left == -math.inf or self.trivial:
            return Divergence(left, right, 0.0)
        if np.isposinf(self.losses).any():
            return Divergence(left, right, math.inf)
        if self.lattice is not None:
            return lattice_divergence(self._lattice_densities, order, left, right)
        return self._line.divergence(order, left, right)

    def _densities_at(self, places: Array) -> LogDensities:
        return LogDensities(*(side.density(places[:, None]) for side in self._sides))

    def _lattice_densities(self, reach: int) -> LogDensities:
        """Both densities at the integers between the tails, and at so many more of them on either side."""
        inner = LogDensities(*(side[self._places.inner] for side in self._values))
        if not reach:
            return inner
        first, last = self._places.points[self._places.inner][[0, -1]]
        points = np.arange(-reach, round(last - first) + reach + 1) + first
        return self._densities_at(points[(points > self._everywhere.low) & (points < self._everywhere.high)])

    @cached_property
    def _line(self) -> Line:
        ends = self._panel_ends
        reaches = [ends[0] - self._everywhere.low, self._everywhere.high - ends[-1]]
        below, above = (self._outwards(reach) for reach in reaches)
        return Line(
            self._densities_at,
            ends,
            ends[0] - below,
            ends[-1] + above,
            self._in_closed_form,
            0.0 if self._in_closed_form else QUADRATURE_ERROR,
            LEAST_PANEL * self._width,
        )

    def _outwards(self, reach: float) -> Array:
        """The ends of panels that double, as distances from where the tail begins."""
        ends = self._tail * (2.0 ** np.arange(MAX_PANEL_DOUBLINGS + 1) - 1)
        ends = ends[ends <= self._farthest]
        return np.asarray(ends if math.isinf(reach) else np.unique(np.append(ends[ends < reach], max(reach, 0.0))))

    def masses(self) -> tuple[float, float]:
        return self._sides[0].mass([self._everywhere]), self._sides[1].mass([self._everywhere])


def along(entry: LinearEntry, left: Numbers, right: Numbers, lattice: float | None) -> PrivacyLoss:
    """The loss along an entry: a line for each of its windows."""
    lines = [EntryLoss(entry, left, right, lattice, window) for window in windows(left.pieces, right.pieces, lattice)]
    return lines[0] if len(lines) == 1 else Mixture(tuple(lines))


def _finite(losses: Sequence[float]) -> list[float]:
    """The values before the first that is not finite."""
    return list(itertools.takewhile(math.isfinite, losses))


def _runs(inside: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The stretches of true values, as (start, stop)."""
    steps = np.diff(np.concatenate([[0], inside.astype(int), [0]]))
    return list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))
