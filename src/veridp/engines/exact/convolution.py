"""δ over independent entries that all move: the distributions of their losses, convolved.

Each part's loss is put on a lattice of levels twice: rounded down, after merging outputs into cells (which can only
hide loss), and rounded up to the largest loss in the cell (which can only add). So the true δ lies between the two.
That a loss is monotone between neighbouring points of its grid is taken for granted, not proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from veridp.claim import Interval

Array = NDArray[np.float64]
LEVELS = 1 << 15  # of the lattice, over the range of the total loss


@dataclass(frozen=True, eq=False)
class Cells:
    """Disjoint sets of outputs: the probability on either side, and the largest loss in each."""

    left: Array
    right: Array
    largest: Array


def delta_between(parts: Sequence[Cells], epsilon: float, still: float) -> Interval:
    """Bounds on ∫ max(0, p - e^ε q) over the product of the parts; `still` is the probability of the rest."""
    span = sum(_span(part) for part in parts)
    step = 2 * span / LEVELS
    lower, upper = (
        still * _delta([_rounded(part, step, up=up) for part in parts], step, epsilon) for up in (False, True)
    )
    return Interval(min(lower, upper), upper)  # where they are one, rounding may turn them round


def _span(part: Cells) -> float:
    """The largest finite loss of a part, in absolute value."""
    losses = np.concatenate([part.largest, _average(part)])
    finite = np.abs(losses[np.isfinite(losses)])
    return float(finite.max()) if len(finite) else 0.0


def _average(part: Cells) -> Array:
    """ln of the ratio of the probabilities of each cell."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(part.left > 0, np.log(part.left) - np.log(part.right), -np.inf)


@dataclass(frozen=True, eq=False)
class _Lattice:
    """Probabilities (left) of the losses `(first + k) · step`, and of an infinite loss."""

    first: int
    masses: Array
    infinite: float


def _rounded(part: Cells, step: float, up: bool) -> _Lattice:
    losses = part.largest if up else _average(part)
    infinite = np.isposinf(losses)
    seen = (part.left > 0) & ~infinite
    places = (np.ceil if up else np.floor)(np.where(seen, losses, 0.0) / step + (-1e-6 if up else 1e-6)).astype(int)
    first = int(places[seen].min()) if seen.any() else 0
    masses = np.bincount(places[seen] - first, weights=part.left[seen], minlength=1)
    return _Lattice(first, np.asarray(masses, dtype=float), float(part.left[infinite].sum()))


def _delta(lattices: Sequence[_Lattice], step: float, epsilon: float) -> float:
    masses, first, finite = np.ones(1), 0, 1.0
    for lattice in lattices:
        masses = np.maximum(fftconvolve(masses, lattice.masses), 0.0)
        first += lattice.first
        finite *= float(lattice.masses.sum())
    total = math.prod(float(lattice.masses.sum()) + lattice.infinite for lattice in lattices)
    losses = (first + np.arange(len(masses))) * step
    above = losses > epsilon
    return max(0.0, total - finite) + float(np.sum(masses[above] * -np.expm1(epsilon - losses[above])))
