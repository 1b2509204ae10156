"""The privacy loss ln p/q over a space of outputs: its supremum, and the masses of where it exceeds a level.

A space is put together of atoms and lines: a mixture of disjoint parts, a product of independent ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from veridp.claim import Interval
from veridp.errors import NotExact
from veridp.exact.convolution import Cells, delta_between
from veridp.exact.curve import Density
from veridp.exact.event import Entry, Event, Span
from veridp.exact.pieces import Piece
from veridp.exact.quadrature import edges, log_sum, panels
from veridp.program.affine import Affine, Condition, Relation
from veridp.program.distribution import exact

Array = NDArray[np.float64]
INSIDE = 1e-12  # how far inside a panel, relative to its width, its end is looked at
SPOTS = np.concatenate([[INSIDE], 0.5 - np.cos(np.linspace(0, np.pi, 8)[1:-1]) / 2, [1 - INSIDE]])  # within a panel
CLOSER = np.array([1e-4, 1e-7, 1e-10])  # how far from a panel's end, of its width, a loss without bound is looked for
FAR = (60.0, 120.0, 180.0)  # at how many panel widths past the last break a tail is looked at
NEAR = (1e-9, 1e-3)  # the event shown for a supremum is where the loss comes this close to it, relatively
SNAP = 1e-8  # an end of an event this close to a break is put there
CELLS = 1500  # into about how many steps the range of a loss is cut before it is convolved
MOST_TOLD = 16  # of parts that tie for the supremum, how many are looked at for the likeliest event
ZERO = 1e-13  # a loss below this everywhere is none: rounding


@dataclass(frozen=True)
class Peak:
    """The supremum of the loss, and an event that comes close to it, with ln of its probability on either side."""

    loss: float
    event: Event
    log_left: float
    log_right: float


class Loss(ABC):
    """The loss of left against right, over a space of outputs."""

    @cached_property
    def supremum(self) -> float:
        """The largest loss."""
        return self._supremum()

    @cached_property
    def peak(self) -> Peak:
        """The largest loss, with an event that comes close to it."""
        return self._peak()

    @cached_property
    def reversed(self) -> Loss:
        """The loss of right against left."""
        return self._reversed()

    @abstractmethod
    def _supremum(self) -> float: ...

    @abstractmethod
    def _peak(self) -> Peak: ...

    @abstractmethod
    def _reversed(self) -> Loss: ...

    @abstractmethod
    def above(self, level: float) -> tuple[float, float]:
        """The probabilities, left and right, of the outputs whose loss is above the level."""

    @abstractmethod
    def where_above(self, level: float) -> list[Event]:
        """The outputs whose loss is above the level, as disjoint events."""

    @abstractmethod
    def masses(self) -> tuple[float, float]:
        """The total probabilities, left and right."""

    def delta(self, epsilon: float) -> Interval:
        """∫ max(0, p - e^ε q): exactly, up to rounding, or between bounds where it takes a convolution."""
        left, right = self.above(epsilon)
        return Interval.exactly(max(0.0, left - math.exp(epsilon) * right) if right else left)

    def cells(self) -> Cells:
        """The outputs in small sets, on each of which the loss varies little."""
        raise NotExact("the outputs of entangled numeric entries cannot be put into cells; use an engine that samples")

    @property
    def trivial(self) -> bool:
        """Whether left and right are the same."""
        return abs(self.supremum) < ZERO and abs(self.reversed.supremum) < ZERO


def log_ratio(left: Array, right: Array) -> Array:
    """left - right, of logarithms: nothing on the left is -inf, nothing on the right alone is +inf."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(left), -np.inf, np.where(np.isneginf(right), np.inf, left - right))


def _ratio(left: float, right: float) -> float:
    """The same, of single numbers."""
    if left == -math.inf:
        return -math.inf
    return math.inf if right == -math.inf else left - right


def _grows(tail: Array) -> bool:
    """Whether the loss at three evenly spaced points of a tail, outwards, rises without an end in sight."""
    if not np.all(np.isfinite(tail)):
        return False
    first, second = np.diff(tail)
    return bool(first > 1e-7 and second > 0.9 * first)


@dataclass(frozen=True, eq=False)
class Atom(Loss):
    """A single output (or a class of outputs that are not told apart)."""

    event: Event
    log_left: float
    log_right: float

    def _supremum(self) -> float:
        return _ratio(self.log_left, self.log_right)

    def _peak(self) -> Peak:
        return Peak(self.supremum, self.event, self.log_left, self.log_right)

    def above(self, level: float) -> tuple[float, float]:
        return self.masses() if self.supremum > level else (0.0, 0.0)

    def _reversed(self) -> Atom:
        return Atom(self.event, self.log_right, self.log_left)

    def where_above(self, level: float) -> list[Event]:
        return [self.event] if self.supremum > level else []

    def cells(self) -> Cells:
        left, right = self.masses()
        return Cells(np.array([left]), np.array([right]), np.array([self.supremum]))

    def masses(self) -> tuple[float, float]:
        return math.exp(self.log_left), math.exp(self.log_right)


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
        inner = (ends[:-1, None] + np.diff(ends)[:, None] * SPOTS).ravel()
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


@dataclass(frozen=True, eq=False)
class Mixture(Loss):
    """Disjoint parts."""

    parts: tuple[Loss, ...]

    def _supremum(self) -> float:
        return max(part.supremum for part in self.parts)

    def _peak(self) -> Peak:
        best = [part for part in self.parts if part.supremum >= self.supremum - ZERO]
        return max((part.peak for part in best[:MOST_TOLD]), key=lambda peak: peak.log_left)

    def above(self, level: float) -> tuple[float, float]:
        pairs = [part.above(level) for part in self.parts]
        return math.fsum(left for left, _ in pairs), math.fsum(right for _, right in pairs)

    def _reversed(self) -> Mixture:
        return Mixture(tuple(part.reversed for part in self.parts))

    def where_above(self, level: float) -> list[Event]:
        return [event for part in self.parts for event in part.where_above(level)]

    def delta(self, epsilon: float) -> Interval:
        deltas = [part.delta(epsilon) for part in self.parts]
        return Interval(math.fsum(d.lower for d in deltas), math.fsum(d.upper for d in deltas))

    def cells(self) -> Cells:
        parts = [part.cells() for part in self.parts]
        return Cells(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("left", "right", "largest"))
        )

    def masses(self) -> tuple[float, float]:
        pairs = [part.masses() for part in self.parts]
        return math.fsum(left for left, _ in pairs), math.fsum(right for _, right in pairs)


@dataclass(frozen=True, eq=False)
class Product(Loss):
    """Independent parts: their losses add."""

    parts: tuple[Loss, ...]

    def _supremum(self) -> float:
        losses = [part.supremum for part in self.parts]
        return -math.inf if -math.inf in losses else sum(losses)

    def _peak(self) -> Peak:
        told = [part for part in self.parts if isinstance(part, Atom) or abs(part.supremum) > ZERO]
        masses = [part.masses() for part in self.parts if part not in told]
        return Peak(
            self.supremum,
            reduce(Event.__and__, (part.peak.event for part in told), Event()),
            sum(part.peak.log_left for part in told) + sum(_log(left) for left, _ in masses),
            sum(part.peak.log_right for part in told) + sum(_log(right) for _, right in masses),
        )

    @cached_property
    def _flat(self) -> list[Loss]:
        """The parts, those that are products themselves taken apart."""
        found: list[Loss] = []
        for part in self.parts:
            found += part._flat if isinstance(part, Product) else [part]
        return found

    @cached_property
    def _moving(self) -> list[Loss]:
        return [part for part in self._flat if not part.trivial]

    @cached_property
    def _still_mass(self) -> float:
        return math.prod(part.masses()[0] for part in self._flat if part.trivial)

    @cached_property
    def _lines(self) -> list[Loss]:
        """The moving parts that have numbers."""
        return [part for part in self._moving if not _has_atoms_only(part)]

    def above(self, level: float) -> tuple[float, float]:
        if not self._lines:
            return self._table.above(level)
        if len(self._lines) > 1:
            raise NotExact(
                "the outputs above a level of loss, over several independent numeric entries that all move, have no "
                "exact probability here; ask for δ, which is enclosed"
            )
        pairs = [(pair, self._lines[0].above(level - loss)) for loss, pair in self._table.rows.items()]
        return math.fsum(p[0] * more[0] for p, more in pairs), math.fsum(p[1] * more[1] for p, more in pairs)

    def delta(self, epsilon: float) -> Interval:
        if len(self._lines) > 1:
            return delta_between(self._cells, epsilon, self._still_mass)
        return super().delta(epsilon)

    @cached_property
    def _cells(self) -> list[Cells]:
        return [part.cells() for part in self._moving]

    def cells(self) -> Cells:
        if len(self._moving) != 1:
            return super().cells()
        (cells,) = self._cells
        return Cells(cells.left * self._still_mass, cells.right * self._still_mass, cells.largest)

    @cached_property
    def _table(self) -> _Table:
        """The moving parts without numbers multiplied out, outputs of equal loss taken together."""
        table = _Table({0.0: (self._still_mass, self._still_mass)})
        for part in self._moving:
            if _has_atoms_only(part):
                table = table.times(_atoms(part))
        return table

    def _reversed(self) -> Product:
        return Product(tuple(part.reversed for part in self.parts))

    def where_above(self, level: float) -> list[Event]:
        atoms = [part for part in self._flat if isinstance(part, Atom)]
        others = [part for part in self._moving if not isinstance(part, Atom)]
        base = reduce(Event.__and__, (atom.event for atom in atoms), Event())
        rest = level - sum(atom.supremum for atom in atoms)
        if not others:
            return [base] if rest < 0 else []
        if len(others) == 1:
            return [base & event for event in others[0].where_above(rest)]
        raise NotExact("the outputs above a level of loss are not a product of intervals; ask for their probability")

    def masses(self) -> tuple[float, float]:
        pairs = [part.masses() for part in self.parts]
        return math.prod(left for left, _ in pairs), math.prod(right for _, right in pairs)


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else -math.inf


@dataclass(frozen=True)
class _Table:
    """Probabilities, left and right, by loss."""

    rows: dict[float, tuple[float, float]]

    def times(self, atoms: Sequence[tuple[float, float, float]]) -> _Table:
        rows: dict[float, tuple[float, float]] = {}
        for loss, (left, right) in self.rows.items():
            for more, p, q in atoms:
                total = float(f"{loss + more:.12g}") if math.isfinite(more) else more
                old = rows.get(total, (0.0, 0.0))
                rows[total] = (old[0] + left * p, old[1] + right * q)
        if len(rows) > 100_000:
            raise NotExact("the independent parts of the output have too many different losses to multiply out")
        return _Table(rows)

    def above(self, level: float) -> tuple[float, float]:
        chosen = [pair for loss, pair in self.rows.items() if loss > level]
        return math.fsum(left for left, _ in chosen), math.fsum(right for _, right in chosen)


def _has_atoms_only(part: Loss) -> bool:
    if isinstance(part, Mixture | Product):
        return all(_has_atoms_only(inner) for inner in part.parts)
    return isinstance(part, Atom)


def _atoms(part: Loss) -> list[tuple[float, float, float]]:
    """The loss and both probabilities of every output of a part that has only atoms."""
    if isinstance(part, Atom):
        return [(part.supremum, *part.masses())]
    if isinstance(part, Mixture):
        return [atom for inner in part.parts for atom in _atoms(inner)]
    if isinstance(part, Product):
        return [(loss, *pair) for loss, pair in part._table.rows.items()]
    raise TypeError(f"a {type(part).__name__} has more than atoms")
