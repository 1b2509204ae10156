"""What dominates the nodes of a release: pairs for its leaves, its parts, its samples, and what they make together."""

from __future__ import annotations

from collections.abc import Callable

from veridp.accounting.composition import Composition
from veridp.accounting.lattice import Part
from veridp.accounting.pairs import ALIKE, Envelope, Pair
from veridp.accounting.sampling import AddedToSample, RemovedFromSample, SampledWithoutReplacement
from veridp.accounting.tree import Leaf, Node, Pairs, Parallel, PostProcessed, Subsampled, flattened, relation_of


class Domination:
    """The pairs that dominate the nodes of one release, each worked out once."""

    def __init__(self, release: Node) -> None:
        self.relation = relation_of(release)
        self._known: dict[Node, Pairs] = {}

    def of(self, node: Node) -> Pairs:
        """What dominates a node as a whole."""
        if node not in self._known:
            self._known[node] = self._worked_out(node)
        return self._known[node]

    def parts(self, node: Node) -> dict[Pairs, int]:
        """The independent parts of a node, and how many times each takes part."""
        found: dict[Pairs, int] = {}
        for atom, count in flattened(node):
            pairs = self.of(atom)
            found[pairs] = found.get(pairs, 0) + count
        return found

    def _worked_out(self, node: Node) -> Pairs:
        if isinstance(node, Leaf):
            return node.pairs
        if isinstance(node, PostProcessed):
            return self.of(node.of)
        if isinstance(node, Parallel):
            return _on_both([self.of(part) for part in node.children], _envelope)
        if isinstance(node, Subsampled):
            inner = self.of(node.of)
            if self.relation == "replace":
                return _on_both([inner], lambda pairs: SampledWithoutReplacement(pairs[0], node.rate))
            return Pairs(RemovedFromSample(inner.removed, node.rate), AddedToSample(inner.added, node.rate))
        parts = self.parts(node)
        removed = Composition(Part(pairs.removed, count) for pairs, count in parts.items()).pair()
        if all(pairs.removed is pairs.added for pairs in parts):
            return Pairs.both(removed)
        return Pairs(removed, Composition(Part(pairs.added, count) for pairs, count in parts.items()).pair())


def _on_both(inner: list[Pairs], combine: Callable[[list[Pair]], Pair]) -> Pairs:
    removed = combine([pairs.removed for pairs in inner])
    if all(pairs.removed is pairs.added for pairs in inner):
        return Pairs.both(removed)
    return Pairs(removed, combine([pairs.added for pairs in inner]))


def _envelope(pairs: list[Pair]) -> Pair:
    different = list(dict.fromkeys(pairs))
    if not different:
        return ALIKE
    return different[0] if len(different) == 1 else Envelope(tuple(different))
