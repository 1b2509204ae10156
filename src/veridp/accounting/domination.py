"""What dominates the nodes of a release: pairs for its leaves, its parts, its samples, and what they make together."""

from __future__ import annotations

from collections.abc import Callable

from veridp.accounting.composition import Composition
from veridp.accounting.lattice import Part
from veridp.accounting.pairs import ALIKE, DominatingPair, Envelope
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
