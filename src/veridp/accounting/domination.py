"""What dominates the nodes of a release: pairs for its leaves, from exact losses too, its parts and its random
samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veridp.accounting.lattice import Composition, Part
from veridp.accounting.pairs import ALIKE, MOST_ATOMS, Array, DominatingPair, Envelope, Finite
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
from veridp.numerics.privacy_loss_distribution import LossSpan, Tails, dots

if TYPE_CHECKING:
    from veridp.engines.exact import Comparison
    from veridp.engines.exact.loss import PrivacyLoss


# ------------------------------------------------------------------------------------------------------------ sampling
# Pairs on a secret random sample of the data, made of the pairs without it.
#
# That of Poisson samples under add-remove, in either direction, and that of a sample without replacement under replace
# (Zhu, Dong and Wang, "Optimal Accounting of Differential Privacy via Characteristic Function", AISTATS 2022).


@dataclass(frozen=True, eq=False)
class RemovedFromSample(DominatingPair):
    """((1-γ)Q + γP, Q): one person fewer, where each person is taken into a sample with probability γ = `rate`."""

    pair: DominatingPair
    rate: float

    def above(self, levels: Array) -> Tails:
        # ln((1-γ) + γ e^l) > x where l > ln(e^x - (1-γ)) - ln γ, and everywhere where x is below ln(1-γ)
        everything = levels < _log1m(self.rate)
        rest = (1 - self.rate) * np.exp(-np.where(everything, 0.0, levels))
        inner = self.pair.above(levels + _log1p(-rest) - math.log(self.rate))
        left = (1 - self.rate) * inner.right + self.rate * inner.left
        return Tails(np.where(everything, 1.0, left), np.where(everything, 1.0, inner.right))

    def delta_above(self, epsilon: float) -> float:
        # (1-γ)Q + γP - e^ε Q = γ (P - e^l Q) at the l above
        if epsilon <= _log1m(self.rate) or (rest := -(1 - self.rate) * math.exp(-epsilon)) <= -1:
            return -math.expm1(epsilon)
        inner = epsilon + math.log1p(rest) - math.log(self.rate)
        return self.rate * self.pair.delta_above(inner)

    @property
    def span(self) -> LossSpan:
        if self.rate == 1:
            return self.pair.span
        low = math.log1p(-self.rate)
        return LossSpan(low, float(np.logaddexp(low, math.log(self.rate) + self.pair.span.high)))

    @property
    def infinite(self) -> float:
        return self.rate * self.pair.infinite

    @property
    def largest_finite(self) -> float:
        return float(np.logaddexp(_log1m(self.rate), math.log(self.rate) + self.pair.largest_finite))


@dataclass(frozen=True, eq=False)
class AddedToSample(DominatingPair):
    """(P, (1-γ)P + γQ): one person more, where each person is taken into a sample with probability γ = `rate`."""

    pair: DominatingPair
    rate: float

    def above(self, levels: Array) -> Tails:
        # -ln((1-γ) + γ e^-l) > x where l > ln γ - ln(e^-x - (1-γ)), and nowhere where x is above -ln(1-γ)
        nothing = levels >= -_log1m(self.rate)
        rest = (1 - self.rate) * np.exp(np.where(nothing, 0.0, levels))
        inner = self.pair.above(levels - _log1p(-rest) + math.log(self.rate))
        right = (1 - self.rate) * inner.left + self.rate * inner.right
        return Tails(np.where(nothing, 0.0, inner.left), np.where(nothing, 0.0, right))

    def delta_above(self, epsilon: float) -> float:
        # P - e^ε ((1-γ)P + γQ) = (1 - (1-γ) e^ε) (P - e^l Q) at the l above
        if epsilon >= -_log1m(self.rate) or (rest := -(1 - self.rate) * math.exp(epsilon)) <= -1:
            return 0.0
        return (1 + rest) * self.pair.delta_above(epsilon - math.log1p(rest) + math.log(self.rate))

    @property
    def span(self) -> LossSpan:
        if self.rate == 1:
            return self.pair.span
        inner = self.pair.span
        top = inner.high if not self.pair.infinite else math.inf
        low = -float(np.logaddexp(math.log1p(-self.rate), math.log(self.rate) - inner.low))
        return LossSpan(low, -math.log1p(self.rate * math.expm1(-top)))

    @property
    def infinite(self) -> float:
        return self.pair.infinite if self.rate == 1 else 0.0

    @property
    def largest_finite(self) -> float:
        # below a rate of 1, an infinite loss becomes -ln(1-γ)
        inner = self.pair.largest_finite if self.rate == 1 else self.pair.supremum
        return -float(np.logaddexp(_log1m(self.rate), math.log(self.rate) - inner))


@dataclass(frozen=True, eq=False)
class SampledWithoutReplacement(DominatingPair):
    """A sample of a fixed share γ = `rate` of the people, one of whom is replaced by another.

    δ is that of `RemovedFromSample` for ε >= 0 and that of `AddedToSample` below (Zhu, Dong and Wang 2022, Theorem 11).
    """

    pair: DominatingPair
    rate: float

    def above(self, levels: Array) -> Tails:
        removed, added = RemovedFromSample(self.pair, self.rate), AddedToSample(self.pair, self.rate)
        upper, lower = removed.above(np.maximum(levels, 0.0)), added.above(np.minimum(levels, 0.0))
        return Tails(np.where(levels >= 0, upper.left, lower.left), np.where(levels >= 0, upper.right, lower.right))

    def delta_above(self, epsilon: float) -> float:
        kind = RemovedFromSample if epsilon >= 0 else AddedToSample
        return kind(self.pair, self.rate).delta_above(epsilon)

    @property
    def span(self) -> LossSpan:
        removed, added = RemovedFromSample(self.pair, self.rate), AddedToSample(self.pair, self.rate)
        return LossSpan(min(added.span.low, 0.0), max(removed.span.high, 0.0))

    @property
    def infinite(self) -> float:
        return self.rate * self.pair.infinite

    @property
    def largest_finite(self) -> float:
        return RemovedFromSample(self.pair, self.rate).largest_finite


def _log1m(rate: float) -> float:
    return math.log1p(-rate) if rate < 1 else -math.inf


def _log1p(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log1p(np.maximum(values, -1.0))


# -------------------------------------------------------------------------------------------------------------- losses
# The exact losses between two inputs as a pair that can be composed.


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
