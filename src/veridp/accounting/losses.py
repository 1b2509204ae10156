"""The exact losses between two inputs as a pair that can be composed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.pairs import ALIKE, MOST_ATOMS, Finite
from veridp.accounting.tree import DominatingPairs
from veridp.numerics.privacy_loss_distribution import Tails, dots

if TYPE_CHECKING:
    from veridp.engines.exact import Comparison
    from veridp.engines.exact.loss import PrivacyLoss

Array = NDArray[np.float64]
LEVELS = 512  # at which a continuous loss is looked at
WIDEST = 40.0  # losses beyond it count as infinite


def pairs_of(comparison: Comparison) -> DominatingPairs:
    """What dominates the two inputs of a comparison, in either direction.

    Finitely many outputs, and whole numbers, are taken as they are. Other numbers among the outputs: their losses are
    looked at on a row of levels, and what lies between two levels is shared out between them so that both inputs'
    probabilities stay as they are. That adds to δ, by an amount of second order in the distance of the levels.
    """
    return DominatingPairs(_finite(comparison.loss), _finite(comparison.loss.reversed))


def _finite(loss: PrivacyLoss) -> Finite:
    outputs = _outputs(loss)
    if outputs is None:
        return _from_levels(loss)
    return Finite.of(outputs.left / outputs.left.sum(), outputs.right / outputs.right.sum())  # rounding aside, 1


@dataclass(frozen=True, eq=False)
class _Outputs:
    """The probabilities of single outputs, on either side."""

    left: Array
    right: Array


def _outputs(loss: PrivacyLoss) -> _Outputs | None:
    """The outputs one by one; None where they are a continuum, or too many."""
    from veridp.engines.exact.entry_loss import EntryLoss
    from veridp.engines.exact.loss import Atom, Mixture, Product

    if isinstance(loss, Atom) or (isinstance(loss, EntryLoss) and loss.lattice is not None):
        cells = loss.cells()
        return _Outputs(cells.left, cells.right)
    if not isinstance(loss, Mixture | Product):
        return None
    parts = [_outputs(part) for part in loss.parts]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if isinstance(loss, Mixture):
        return _Outputs(*(np.concatenate([getattr(part, side) for part in known]) for side in ("left", "right")))
    total = _Outputs(np.ones(1), np.ones(1))
    for part in known:
        if len(total.left) * len(part.left) > MOST_ATOMS:
            return None
        total = _Outputs(
            np.multiply.outer(total.left, part.left).ravel(), np.multiply.outer(total.right, part.right).ravel()
        )
    return total


def _from_levels(loss: PrivacyLoss) -> Finite:
    high, low = min(loss.supremum, WIDEST), -min(loss.reversed.supremum, WIDEST)
    if not low < high:
        return ALIKE
    levels = np.linspace(low, high, LEVELS + 1)
    inner = [loss.above(float(level)) for level in levels[1:-1]]
    beyond = loss.above(high)[0] if high < loss.supremum else 0.0
    tails = np.array([(1.0, 1.0), *inner, (beyond, 0.0)]).T  # a loss that equals an end belongs to it
    masses = dots(levels, Tails(tails[0], tails[1]))
    return Finite(levels, masses * ((1 - beyond) / math.fsum(masses)), beyond)
