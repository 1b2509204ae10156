"""What dominates the nodes of a release: pairs for its leaves, from exact losses too, its parts and its samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.lattice import Composition, Part
from veridp.accounting.pairs import ALIKE, MOST_ATOMS, DominatingPair, Envelope, Finite
from veridp.accounting.sampling import AddedToSample, RemovedFromSample, SampledWithoutReplacement
from veridp.accounting.tree import (
    DominatingPairs,
    Leaf,
    Parallel,
    PostProcessed,
    ReleaseNode,
    Subsampled,
    flattened,
    relation_of,
)
from veridp.numerics.privacy_loss_distribution import Tails, dots

if TYPE_CHECKING:
    from veridp.engines.exact import Comparison
    from veridp.engines.exact.loss import PrivacyLoss


# -------------------------------------------------------------------------------------------------------------- losses
# The exact losses between two inputs as a pair that can be composed.


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


# ---------------------------------------------------------------------------------------------------------- domination
# What dominates the nodes of a release: pairs for its leaves, its parts, its samples, and what they make together.


class Domination:
    """The pairs that dominate the nodes of one release, each worked out once."""

    def __init__(self, release: ReleaseNode) -> None:
        self.relation = relation_of(release)
        self._known: dict[ReleaseNode, DominatingPairs] = {}

    def of(self, node: ReleaseNode) -> DominatingPairs:
        """What dominates a node as a whole."""
        if node not in self._known:
            self._known[node] = self._worked_out(node)
        return self._known[node]

    def parts(self, node: ReleaseNode) -> dict[DominatingPairs, int]:
        """The independent parts of a node, and how many times each takes part."""
        found: dict[DominatingPairs, int] = {}
        for atom, count in flattened(node):
            pairs = self.of(atom)
            found[pairs] = found.get(pairs, 0) + count
        return found

    def _worked_out(self, node: ReleaseNode) -> DominatingPairs:
        if isinstance(node, Leaf):
            return node.pairs
        if isinstance(node, PostProcessed):
            return self.of(node.of)
        if isinstance(node, Parallel):
            return _on_both([self.of(part) for part in node.children], _envelope)
        if isinstance(node, Subsampled):
            inner = self.of(node.of)
            if self.relation is not None and not self.relation.extra:
                return _on_both([inner], lambda pairs: SampledWithoutReplacement(pairs[0], node.rate))
            return DominatingPairs(RemovedFromSample(inner.removed, node.rate), AddedToSample(inner.added, node.rate))
        parts = self.parts(node)
        removed = Composition(Part(pairs.removed, count) for pairs, count in parts.items()).pair()
        if all(pairs.removed is pairs.added for pairs in parts):
            return DominatingPairs.both(removed)
        return DominatingPairs(removed, Composition(Part(pairs.added, count) for pairs, count in parts.items()).pair())


def _on_both(
    inner: list[DominatingPairs], combine: Callable[[list[DominatingPair]], DominatingPair]
) -> DominatingPairs:
    removed = combine([pairs.removed for pairs in inner])
    if all(pairs.removed is pairs.added for pairs in inner):
        return DominatingPairs.both(removed)
    return DominatingPairs(removed, combine([pairs.added for pairs in inner]))


def _envelope(pairs: list[DominatingPair]) -> DominatingPair:
    different = list(dict.fromkeys(pairs))
    if not different:
        return ALIKE
    return different[0] if len(different) == 1 else Envelope(tuple(different))
