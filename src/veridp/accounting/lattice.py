"""Losses on a lattice of equal steps: what a composition is convolved from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.pairs import (
    ALIKE,
    LOSS_TOLERANCE,
    DominatingPair,
    Finite,
    GaussianPair,
    LossSpan,
    dots,
    tails_on,
)
from veridp.errors import BadInput

Array = NDArray[np.float64]
FINE = 600  # steps to the standard deviation of a part's losses, where the step is ours to choose
FEWEST_POINTS = 1 << 17  # over the window of the sum, and
ENOUGH_POINTS = 1 << 21  # no more, where it is ours
MOST_POINTS = 1 << 24
CELLS = 1000  # of losses, where a bound on their moments will do
LEVELS = 1 << 13  # on which the losses of a pair are looked at, for the same
DENSE = 1e-4  # of the width of the losses: within this of 0, levels for moments are evenly spaced, beyond ever less
RARE = 1e-15  # the mass of losses that need not be inside the window for which a step is chosen
CUT = 1e-100  # the mass of losses that a span may leave out
OUTSIDE = -34.0  # ln of the tilted mass that may lie on either side of a window
TILTS = np.geomspace(1e-3, 1e3, 100)  # the tilts to choose from, times 1 / (standard deviation of the sum)


@dataclass(frozen=True, eq=False)
class Part:
    """A pair, and how many times it takes part."""

    pair: DominatingPair
    count: int = 1


@dataclass(frozen=True, eq=False)
class LatticeRow:
    """The losses `offset + (first + k) · step` of one part with their masses, and how many times it takes part."""

    offset: float
    first: int
    masses: Array
    step: float
    count: int
    lost: float  # the probability of an infinite loss, or of one that was cut off as too large

    @cached_property
    def losses(self) -> Array:
        return np.asarray(self.offset + (self.first + np.arange(len(self.masses))) * self.step, dtype=float)

    def log_moment(self, tilt: float) -> float:
        """ln Σ mass · e^(tilt · loss)."""
        return float(_log_moments(self.losses, self.masses, np.array([tilt]))[0])

    def trimmed(self, mass: float) -> LatticeRow:
        """Without its largest losses, as far as these weigh no more than this: they count as lost."""
        tail = np.cumsum(self.masses[::-1])
        cut = int(np.searchsorted(tail, mass, side="right"))
        if not cut or cut >= len(self.masses):
            return self
        return replace(self, masses=self.masses[:-cut], lost=min(1.0, self.lost + float(tail[cut - 1])))

    @cached_property
    def sketch(self) -> Sketch:
        """Its masses on the ends of up to CELLS cells, none of which has much of the mass, nor of the range.

        What lies in a cell goes to its two ends so that its mean stays: e^(tilt · loss) is convex, so moments can only
        grow, by an amount of second order in the width of the cell.
        """
        size = len(self.masses)
        progress = np.cumsum(self.masses) / self.masses.sum() + np.arange(size) / size
        inner = np.searchsorted(progress, np.linspace(progress[0], progress[-1], min(CELLS, size) + 1)[1:-1])
        knots = np.unique(np.concatenate([[0], inner, [size - 1]]))
        starts, widths = knots[:-1], np.diff(knots)
        if not len(starts):
            return Sketch(self.losses, self.masses, self.count)
        inside = np.add.reduceat(self.masses[:-1], starts)
        moments = np.add.reduceat(self.masses[:-1] * np.arange(size - 1), starts)
        upper = np.clip((moments - starts * inside) / widths, 0.0, inside)
        masses = np.append(inside - upper, self.masses[-1])
        masses[1:] += upper
        return Sketch(self.losses[knots], masses, self.count)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A few losses with masses, at most of a part that takes part `count` times, whose moments are close to its."""

    losses: Array
    masses: Array
    count: int = 1

    def log_moments(self, tilts: Array) -> Array:
        """ln Σ mass · e^(tilt · loss) at each tilt."""
        return _log_moments(self.losses, self.masses, tilts)

    @property
    def variance(self) -> float:
        """That of all its times together, infinite losses left out."""
        shares = self.masses / self.masses.sum()
        return self.count * float(shares @ (self.losses - shares @ self.losses) ** 2)


def _log_moments(losses: Array, masses: Array, tilts: Array) -> Array:
    """ln Σ mass · e^(tilt · loss) at each tilt: one after the other, so that all of it stays in the cache."""
    found = np.empty(len(tilts))
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(masses)
        for place, tilt in enumerate(tilts):
            exponents = tilt * losses + logs
            top = exponents.max()
            found[place] = math.log(np.exp(exponents - top).sum()) + top
    return found


def sum_log_moments(sketches: Sequence[Sketch], tilts: Array) -> Array:
    return np.asarray(sum(sketch.count * sketch.log_moments(tilts) for sketch in sketches))


def deviation(sketches: Sequence[Sketch]) -> float:
    """The standard deviation of the sum, infinite losses left out."""
    return math.sqrt(math.fsum(sketch.variance for sketch in sketches))


def window_of(rows: Sequence[LatticeRow], tilt: float) -> LossSpan:
    """Where the tilted sum lies but for a mass of e^OUTSIDE on either side."""
    here = math.fsum(row.count * row.log_moment(tilt) for row in rows)
    return _window([row.sketch for row in rows], tilt, here, rows[0].step)


def _window(sketches: Sequence[Sketch], tilt: float, log_moment: float, step: float) -> LossSpan:
    """The same by Chernoff's inequality, from bounds on the moments and the moment at the tilt."""
    further = TILTS / max(deviation(sketches), step)
    up = np.min((sum_log_moments(sketches, tilt + further) - log_moment - OUTSIDE) / further)
    down = np.max((log_moment + OUTSIDE - sum_log_moments(sketches, tilt - further)) / further)
    lowest = math.fsum(sketch.count * float(sketch.losses[0]) for sketch in sketches)
    highest = math.fsum(sketch.count * float(sketch.losses[-1]) for sketch in sketches)
    return LossSpan(max(float(down), lowest), min(float(up), highest))


def log_moments(pair: DominatingPair, tilts: Array) -> Array:
    """ln E[e^(tilt · loss)] over the finite losses of a pair, at tilts > 0: exactly where these are few, else from
    above."""
    found = sketched(pair)
    return np.full(len(tilts), math.inf) if found is None else found.log_moments(tilts)


def sketched(pair: DominatingPair, count: int = 1) -> Sketch | None:
    """A pair's losses where these are few, else on levels that are closest around 0; None where some are out of sight.

    Moments at tilts > 0 can only grow by it.
    """
    if pair.atoms is not None and len(pair.atoms.losses) <= LEVELS:
        return Sketch(pair.atoms.losses, pair.atoms.masses, count)
    scale = _width(pair.span) * DENSE
    if not scale:
        return Sketch(np.zeros(1), np.ones(1), count)
    low, high = math.asinh(pair.span.low / scale), math.asinh(pair.span.high / scale)
    levels = scale * np.sinh(np.linspace(low, high, LEVELS))
    levels[-1] = max(levels[-1], pair.span.high)
    tails = tails_on(pair, levels)
    if tails.left[-1] - pair.infinite > CUT:
        return None
    return Sketch(levels, dots(levels, tails), count)


def multiplied_out(parts: list[Part]) -> list[Part]:
    """The parts with finitely many losses as one, exactly, if these are not too many together."""
    total: Finite | None = ALIKE
    rest = [part for part in parts if part.pair.atoms is None]
    for part in parts:
        if part.pair.atoms is not None and total is not None:
            power = part.pair.atoms.power(part.count)
            total = None if power is None else total.times(power)
    if total is None or len(rest) == len(parts):
        return parts
    return [*rest, Part(total)]


def merged(parts: list[Part]) -> list[Part]:
    """The parts with normal noise as one: their losses are normal, and so is the sum."""
    squares = [part.count * part.pair.ratio**2 for part in parts if isinstance(part.pair, GaussianPair)]
    rest = [part for part in parts if not isinstance(part.pair, GaussianPair)]
    return [*rest, Part(GaussianPair(math.sqrt(math.fsum(squares))))] if squares else rest


def on_lattice(parts: Sequence[Part], step: float | None, spare: float = 0.0) -> list[LatticeRow]:
    """The losses of the parts on a lattice.

    Of the largest, as many as weigh no more than `spare` count as lost; of the least, as many are moved up.
    """
    spans = [_span(part, spare / (len(parts) * part.count)) for part in parts]
    step = _chosen_step(parts, spans) if step is None else step
    return [dotted(part, step, span) for part, span in zip(parts, spans, strict=True)]


def aligned(parts: Sequence[Part]) -> list[LatticeRow] | None:
    """The parts where finite losses lie already, if that is a lattice that they share."""
    pairs = [part.pair.atoms for part in parts]
    step = min((_least_gap(pair) for pair in pairs if pair is not None), default=1.0)
    step = step if math.isfinite(step) else 1.0
    rows = []
    for part, pair in zip(parts, pairs, strict=True):
        if pair is None:
            return None
        base = float(pair.losses[0]) if len(pair.losses) else 0.0
        places = (pair.losses - base) / step
        whole = np.round(places)
        if np.any(np.abs(places - whole) > 1e-9) or (len(whole) and whole[-1] > MOST_POINTS):
            return None
        masses = np.asarray(np.bincount(whole.astype(int), weights=pair.masses, minlength=1), dtype=float)
        rows.append(LatticeRow(base, 0, masses, step, part.count, pair.infinite))
    return rows


def _least_gap(pair: Finite) -> float:
    """The least distance of two losses; inf where there is one loss only."""
    gaps = np.diff(pair.losses)
    return float(gaps.min(initial=math.inf, where=gaps > LOSS_TOLERANCE))


def _chosen_step(parts: Sequence[Part], spans: Sequence[LossSpan]) -> float:
    """A step at which what the lattice adds to ε is a few parts in ten million of it.

    The losses of each part get a variance that is larger by up to step²/4, mostly step²/6: with `FINE` steps to a
    standard deviation, that is as small a share of the variance of the sum.
    """
    sketches = [_usual(part) for part in parts]
    each = deviation(sketches) / math.sqrt(sum(part.count for part in parts))
    window = _width(_window(sketches, 0.0, 0.0, each / FINE)) if each else 0.0
    widest = max(window, *map(_width, spans))
    step = max(min(each / FINE, window / FEWEST_POINTS), widest / ENOUGH_POINTS) or 1.0
    # many mechanisms have their largest loss with positive probability: let that of the commonest be a lattice point
    largest = max(parts, key=lambda part: part.count).pair.span.high
    return largest / math.ceil(largest / step) if largest > step else step


def _usual(part: Part) -> Sketch:
    """The losses of a part but for those on either side that weigh less than RARE over all its times."""
    found, span = sketched(part.pair, part.count), _span(part, RARE / part.count)
    if found is None:
        return Sketch(np.array([span.low, span.high]), np.full(2, 0.5), part.count)
    kept = (found.losses >= span.low) & (found.losses <= span.high)
    return replace(found, losses=found.losses[kept], masses=found.masses[kept])


def _span(part: Part, mass: float) -> LossSpan:
    """Where the losses of a part lie but for about this mass on either side."""
    found = sketched(part.pair) if mass > 0 else None
    if found is None:
        return part.pair.span
    below = np.cumsum(found.masses) - found.masses
    above = np.cumsum(found.masses[::-1])[::-1] - found.masses
    return LossSpan(float(found.losses[below <= mass][-1]), float(found.losses[above <= mass][0]))


def _width(span: LossSpan) -> float:
    return span.high - span.low


def dotted(part: Part, step: float, span: LossSpan) -> LatticeRow:
    """The part's losses on multiples of the step, P- and Q-masses of every cell kept.

    Losses above the span are lost, those below are moved up to it.
    """
    first, last = math.floor(span.low / step), math.ceil(span.high / step)
    last += last * step < span.high  # rounding must not put the largest loss past the last point
    if last - first > MOST_POINTS:
        raise BadInput(
            f"losses from {span.low:g} to {span.high:g} in steps of {step:g} are too many; give a larger step"
        )
    levels = np.arange(first, last + 1, dtype=float) * step
    tails = tails_on(part.pair, levels)
    return LatticeRow(0.0, first, dots(levels, tails), step, part.count, float(tails.left[-1]))
