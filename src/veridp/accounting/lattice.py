"""Losses on a lattice, and many pairs at once: the distribution of the sum of their losses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.pairs import (
    ALIKE,
    LOSS_TOLERANCE,
    DominatingPair,
    Finite,
    GaussianPair,
    epsilon_of_leak,
    tails_on,
)
from veridp.errors import BadInput
from veridp.numerics.privacy_loss_distribution import (
    MOST_POINTS,
    OUTSIDE,
    LossLattice,
    LossSpan,
    LossSum,
    Sketch,
    deviation,
    dots,
    together,
    window_of,
)

# ------------------------------------------------------------------------------------------------------------- lattice
# Losses on a lattice of equal steps: what a composition is convolved from.


Array = NDArray[np.float64]
FINE = 600  # steps to the standard deviation of a part's losses, where the step is ours to choose
FEWEST_POINTS = 1 << 16  # over the window of the sum, and
ENOUGH_POINTS = 1 << 21  # no more, where it is ours
LEVELS = 1 << 13  # on which the losses of a pair are looked at, for the same
FEW_LEVELS = 1 << 9  # to choose a step by
LAST_LEVELS, NEGLIGIBLE = 1 << 6, -40.0  # how many levels may contribute so little, as ln of a share, to be the end
DENSE = 1e-4  # of the width of the losses: within this of 0, levels for moments are evenly spaced, beyond ever less
RARE = 1e-15  # the mass of losses that need not be inside the window for which a step is chosen
CUT = 1e-100  # the mass of losses that a span may leave out


@dataclass(frozen=True, eq=False)
class Part:
    """A pair, and how many times it takes part."""

    pair: DominatingPair
    count: int = 1


def log_moments(pair: DominatingPair, tilts: Array) -> Array:
    """ln E[e^(tilt · loss)] over the finite losses of a pair, at tilts > 0: exactly where these are few, else from
    above; inf where the last of the losses in sight, of which there is no largest, still contribute."""
    found = sketched(pair)
    if found is None:
        return np.full(len(tilts), math.inf)
    moments = found.log_moments(tilts)
    if not math.isinf(pair.largest_finite):
        return moments
    last = Sketch(found.losses[-LAST_LEVELS:], found.masses[-LAST_LEVELS:]).log_moments(tilts)
    return np.where(last > moments + NEGLIGIBLE, math.inf, moments)


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


def on_lattice(parts: Sequence[Part], step: float | None, spare: float = 0.0) -> list[LossLattice]:
    """The losses of the parts on a lattice.

    Of the largest, as many as weigh no more than `spare` count as lost; of the least, as many are moved up.
    """
    spans = [_span(part, spare / (len(parts) * part.count)) for part in parts]
    step = _chosen_step(parts, spans) if step is None else step
    return [dotted(part, step, span) for part, span in zip(parts, spans, strict=True)]


def aligned(parts: Sequence[Part]) -> list[LossLattice] | None:
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
        rows.append(LossLattice(base, 0, masses, step, part.count, pair.infinite))
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
    window = _width(window_of(sketches, 0.0, 0.0, each / FINE)) if each else 0.0
    widest = max(window, *map(_width, spans))
    step = max(min(each / FINE, window / FEWEST_POINTS), widest / ENOUGH_POINTS) or 1.0
    # many mechanisms have their largest loss with positive probability: let that of the commonest be a lattice point
    largest = max(parts, key=lambda part: part.count).pair.span.high
    return largest / math.ceil(largest / step) if largest > step else step


def _usual(part: Part) -> Sketch:
    """The losses of a part but for those on either side that weigh less than RARE over all its times; a few, to choose
    a step by."""
    found = sketched(part.pair, part.count)
    if found is None:
        span = part.pair.span
        return Sketch(np.array([span.low, span.high]), np.full(2, 0.5), part.count)
    span = _span_of(found, RARE / part.count)
    kept = (found.losses >= span.low) & (found.losses <= span.high) & (found.masses > 0)
    losses, masses = found.losses[kept], found.masses[kept]
    starts = np.arange(0, len(losses), math.ceil(len(losses) / FEW_LEVELS))
    sums = np.add.reduceat(masses, starts)
    return Sketch(np.add.reduceat(masses * losses, starts) / sums, sums, part.count)


def _span(part: Part, mass: float) -> LossSpan:
    """Where the losses of a part lie but for about this mass on either side."""
    found = sketched(part.pair) if mass > 0 else None
    return part.pair.span if found is None else _span_of(found, mass)


def _span_of(found: Sketch, mass: float) -> LossSpan:
    below = np.cumsum(found.masses) - found.masses
    above = np.cumsum(found.masses[::-1])[::-1] - found.masses
    return LossSpan(float(found.losses[below <= mass][-1]), float(found.losses[above <= mass][0]))


def _width(span: LossSpan) -> float:
    return span.high - span.low


def dotted(part: Part, step: float, span: LossSpan) -> LossLattice:
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
    return LossLattice(0.0, first, dots(levels, tails), step, part.count, float(tails.left[-1]))


# --------------------------------------------------------------------------------------------------------- composition
# Many pairs at once, independently: the distribution of the sum of their losses, by convolution on a lattice.
#
# Losses between two points of the lattice are shared out as `dots`, which can only add to δ. Finite losses that lie on
# a lattice of their own are put there as they are: then nothing is added.


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
