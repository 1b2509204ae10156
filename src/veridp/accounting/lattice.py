"""Losses on a lattice of equal steps: what a composition is convolved from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.pairs import SAME, Finite, Pair, Span, dots, tails_on
from veridp.errors import BadInput

Array = NDArray[np.float64]
POINTS = 1 << 19  # over the window of the sum, where the step is ours to choose
MOST_POINTS = 1 << 24
CELLS = 1000  # of losses, where a bound on their moments will do
DENSE = 1e-4  # of the width of the losses: within this of 0, levels for moments are evenly spaced, beyond ever less
RARE = 1e-15  # the mass of losses that need not be inside the window for which a step is chosen
CUT = 1e-100  # the mass of losses that a span may leave out
OUTSIDE = -34.0  # ln of the tilted mass that may lie on either side of a window
TILTS = np.geomspace(1e-3, 1e3, 100)  # the tilts to choose from, times 1 / (standard deviation of the sum)


@dataclass(frozen=True, eq=False)
class Part:
    """A pair, and how many times it takes part."""

    pair: Pair
    count: int = 1


@dataclass(frozen=True, eq=False)
class Row:
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
        return float(log_sums(self.masses, self.losses[None, :] * tilt)[0])

    def log_moments(self, tilts: Array) -> Array:
        """Upper bounds on the same at each tilt, from cells of losses rather than single ones: close, and quick."""
        highest = self._cells[:, 1] * np.maximum(tilts, 0.0)[:, None]
        lowest = self._cells[:, 0] * np.minimum(tilts, 0.0)[:, None]
        return log_sums(self._cells[:, 2], highest + lowest)

    def trimmed(self, mass: float) -> Row:
        """Without its largest losses, as far as these weigh no more than this: they count as lost."""
        tail = np.cumsum(self.masses[::-1])
        cut = int(np.searchsorted(tail, mass, side="right"))
        if not cut or cut >= len(self.masses):
            return self
        return replace(self, masses=self.masses[:-cut], lost=min(1.0, self.lost + float(tail[cut - 1])))

    @cached_property
    def _cells(self) -> Array:
        """The lowest loss, the highest and the mass of up to CELLS cells, a row each."""
        starts = np.arange(0, len(self.masses), -(-len(self.masses) // CELLS))
        ends = np.append(starts[1:], len(self.masses)) - 1
        table = np.column_stack([self.losses[starts], self.losses[ends], np.add.reduceat(self.masses, starts)])
        return table[table[:, 2] > 0]


def log_sums(masses: Array, exponents: Array) -> Array:
    """ln Σ mass · e^exponent, for each row of exponents."""
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(masses) + exponents
        tops = logs.max(axis=1)
        return np.asarray(np.log(np.exp(logs - tops[:, None]).sum(axis=1)) + tops)


def sum_log_moments(rows: Sequence[Row], tilts: Array) -> Array:
    return np.asarray(sum(row.count * row.log_moments(tilts) for row in rows))


def deviation(rows: Sequence[Row]) -> float:
    """The standard deviation of the sum, infinite losses left out."""
    variance = 0.0
    for row in rows:
        shares = row.masses / row.masses.sum()
        variance += row.count * float(shares @ (row.losses - shares @ row.losses) ** 2)
    return math.sqrt(variance)


def window_of(rows: Sequence[Row], tilt: float) -> Span:
    """Where the tilted sum lies but for a mass of e^OUTSIDE on either side, by Chernoff's inequality."""
    further = TILTS / max(deviation(rows), rows[0].step)
    here = sum(row.count * row.log_moment(tilt) for row in rows)
    up = np.min((sum_log_moments(rows, tilt + further) - here - OUTSIDE) / further)
    down = np.max((here + OUTSIDE - sum_log_moments(rows, tilt - further)) / further)
    lowest = sum(row.count * float(row.losses[0]) for row in rows)
    highest = sum(row.count * float(row.losses[-1]) for row in rows)
    return Span(max(float(down), lowest), min(float(up), highest))


def log_moments(pair: Pair, tilts: Array, points: int) -> Array:
    """ln E[e^(tilt · loss)] over the finite losses of a pair: exactly where these are few, else from above."""
    if pair.atoms is not None and len(pair.atoms.losses) <= points:
        return log_sums(pair.atoms.masses, tilts[:, None] * pair.atoms.losses)
    scale = _width(pair.span) * DENSE
    if not scale:
        return np.zeros(len(tilts))
    levels = scale * np.sinh(np.linspace(math.asinh(pair.span.low / scale), math.asinh(pair.span.high / scale), points))
    levels[-1] = max(levels[-1], pair.span.high)
    tails = tails_on(pair, levels)
    if tails.left[-1] - pair.infinite > CUT:
        return np.full(len(tilts), math.inf)  # some large losses are out of sight: nothing can be said
    return log_sums(dots(levels, tails), tilts[:, None] * levels)


def multiplied_out(parts: list[Part]) -> list[Part]:
    """The parts with finitely many losses as one, exactly, if these are not too many together."""
    total: Finite | None = Finite(np.zeros(1), np.ones(1))
    rest = [part for part in parts if part.pair.atoms is None]
    for part in parts:
        if part.pair.atoms is not None and total is not None:
            power = part.pair.atoms.power(part.count)
            total = None if power is None else total.times(power)
    if total is None or len(rest) == len(parts):
        return parts
    return [*rest, Part(total)]


def on_lattice(parts: Sequence[Part], step: float | None) -> list[Row]:
    if step is None and parts:
        step = _chosen_step(parts)
    return [dotted(part, step or 1.0) for part in parts]


def aligned(parts: Sequence[Part]) -> list[Row] | None:
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
        rows.append(Row(base, 0, masses, step, part.count, pair.infinite))
    return rows


def _least_gap(pair: Finite) -> float:
    """The least distance of two losses; inf where there is one loss only."""
    gaps = np.diff(pair.losses)
    return float(gaps.min(initial=math.inf, where=gaps > SAME))


def _chosen_step(parts: Sequence[Part]) -> float:
    """A step that puts about POINTS on the window of the sum: at first guessed from a coarse lattice."""
    finest = min((_width(part.pair.span) for part in parts if _width(part.pair.span) > 0), default=1.0)
    coarse = [
        dotted(part, max(finest / 64, _width(part.pair.span) / 4096)).trimmed(RARE / part.count) for part in parts
    ]
    window = window_of(coarse, 0.0)
    step = max(_width(window), finest) / POINTS
    # many mechanisms have their largest loss with positive probability: let that of the commonest be a lattice point
    largest = max(parts, key=lambda part: part.count).pair.span.high
    return largest / math.ceil(largest / step) if largest > step else step


def _width(span: Span) -> float:
    return span.high - span.low


def dotted(part: Part, step: float) -> Row:
    """The part's losses on multiples of the step, P- and Q-masses of every cell kept."""
    span = part.pair.span
    first, last = math.floor(span.low / step), math.ceil(span.high / step)
    last += last * step < span.high  # rounding must not put the largest loss past the last point
    if last - first > MOST_POINTS:
        raise BadInput(
            f"losses from {span.low:g} to {span.high:g} in steps of {step:g} are too many; give a larger step"
        )
    levels = np.arange(first, last + 1, dtype=float) * step
    tails = tails_on(part.pair, levels)
    return Row(0.0, first, dots(levels, tails), step, part.count, float(tails.left[-1]))
