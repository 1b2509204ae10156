"""A tree of seeds (Goldreich, Goldwasser and Micali 1986): one root gives all leaves; a few nodes give all but some.

The seed of a node is hashed to those of its two children. Whoever knows a node knows the leaves below it and nothing of
any other leaf, so the leaves other than the closed ones are told by the nodes that hang off the paths to these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SEED_BYTES = 16

Hash = Callable[[bytes], bytes]  # to 32 bytes


@dataclass(frozen=True)
class SeedNode:
    """A node of the tree: `level` 0 is that of the leaves, and `place` counts from the left within the level."""

    level: int
    place: int


def leaves(root: bytes, salt: bytes, size: int, hashed: Hash) -> list[bytes]:
    """The seeds of the first `size` leaves of the tree under this root."""
    return levels(root, salt, size, hashed)[0]


def levels(root: bytes, salt: bytes, size: int, hashed: Hash) -> list[list[bytes]]:
    """The seeds of all nodes, level by level from the leaves up."""
    rows = [[root]]
    for level in range(height(size) - 1, -1, -1):
        rows.append(_children(rows[-1], salt, -(-size >> level), hashed))
    rows.reverse()
    return rows


def height(size: int) -> int:
    """The level of the root of a tree of so many leaves."""
    return max(size - 1, 0).bit_length()


def cover(size: int, closed: Sequence[int]) -> list[SeedNode]:
    """The fewest nodes below which are all leaves but the closed ones, from left to right.

    Leaves past the size are in nobody's way: they may be told.
    """
    if not closed:
        return [SeedNode(height(size), 0)]
    nodes = []
    on_path = set(closed)
    for level in range(height(size)):
        for place in on_path:
            sibling = place ^ 1
            if sibling not in on_path and sibling << level < size:
                nodes.append(SeedNode(level, sibling))
        on_path = {place >> 1 for place in on_path}
    return sorted(nodes, key=lambda node: node.place << node.level)


def recomputed(seeds: Sequence[bytes], nodes: Sequence[SeedNode], salt: bytes, size: int, hashed: Hash) -> list[bytes]:
    """The seeds of the leaves below the nodes, from left to right, up to the size."""
    found: list[bytes] = []
    for seed, node in zip(seeds, nodes, strict=True):
        start = node.place << node.level
        found += _below(seed, salt, node.level, min(size - start, 1 << node.level), hashed)
    return found


def _below(seed: bytes, salt: bytes, level: int, count: int, hashed: Hash) -> list[bytes]:
    """The first `count` leaves below a node of this level."""
    row = [seed]
    while level:
        level -= 1
        row = _children(row, salt, -(-count >> level), hashed)
    return row


def _children(row: Sequence[bytes], salt: bytes, count: int, hashed: Hash) -> list[bytes]:
    """The first `count` nodes of the next level; `count` rounds up what is needed."""
    pairs = [hashed(salt + seed) for seed in row]
    children = [child for pair in pairs for child in (pair[:SEED_BYTES], pair[SEED_BYTES:])]
    del children[count:]
    return children
