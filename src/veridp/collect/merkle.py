"""The Merkle tree of Certificate Transparency (RFC 6962, section 2.1): one digest binds a whole list.

A short path shows that an entry is in the list, and another one that a longer list begins with a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

LEAF, NODE = b"\x00", b"\x01"  # told apart, so that no list gives the digest of another

Nodes = Callable[[int, int], bytes]  # the digest of a complete subtree, by its level (0: a leaf) and place within it


def leaf_hash(entry: bytes) -> bytes:
    """The digest of an entry alone."""
    return sha256(LEAF + entry).digest()


def joined(left: bytes, right: bytes) -> bytes:
    """The digest of a node with these children."""
    return sha256(NODE + left + right).digest()


def tree_hash(entries: Iterable[bytes]) -> bytes:
    """The digest of a list, in one pass; memory grows with the logarithm of its length.

    >>> tree_hash([]).hex()[:16], tree_hash([b""]).hex()[:16]
    ('e3b0c44298fc1c14', '6e340b9cffb37a98')
    """
    growing = GrowingTree()
    for entry in entries:
        growing.append(leaf_hash(entry))
    return growing.root


class GrowingTree:
    """The digest of a list to which entries are added."""

    def __init__(self) -> None:
        self.size = 0
        self._whole: list[tuple[int, bytes]] = []  # complete subtrees from left to right: levels, and the digest

    def append(self, leaf: bytes) -> None:
        """Add an entry, by its digest."""
        level, digest = 0, leaf
        while self._whole and self._whole[-1][0] == level:
            level, digest = level + 1, joined(self._whole.pop()[1], digest)
        self._whole.append((level, digest))
        self.size += 1

    @property
    def root(self) -> bytes:
        if not self._whole:
            return sha256().digest()
        *others, (_, found) = self._whole
        for _, left in reversed(others):
            found = joined(left, found)
        return found


# --------------------------------------------------------------------------------------------------------------- paths


def root_of(size: int, nodes: Nodes) -> bytes:
    """The digest of a list of this size."""
    return _range(0, size, nodes) if size else sha256().digest()


def inclusion_path(place: int, size: int, nodes: Nodes) -> list[bytes]:
    """What shows that the entry at this place is in the list of this size."""
    return _inclusion(place, 0, size, nodes)


def consistency_path(first: int, second: int, nodes: Nodes) -> list[bytes]:
    """What shows that the list of the second size begins with the one of the first, which is not empty."""
    return _consistency(first, 0, second, nodes, known=True)


def root_by_inclusion(leaf: bytes, place: int, size: int, path: Sequence[bytes]) -> bytes:
    """The digest of the list of this size that has this leaf at this place, if the path is one; else ValueError."""
    if not 0 <= place < size:
        raise ValueError("no such place")
    if size == 1:
        if path:
            raise ValueError("the path is too long")
        return leaf
    if not path:
        raise ValueError("the path is too short")
    *below, last = path
    half = _left(size)
    if place < half:
        return joined(root_by_inclusion(leaf, place, half, below), last)
    return joined(last, root_by_inclusion(leaf, place - half, size - half, below))


def is_consistent(first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the path shows that the list of the second size and digest begins with the one of the first."""
    if first == 0:
        return first_root == sha256().digest() and not path
    if not first <= second:
        return False
    try:
        return _roots(first, second, first_root, path) == (first_root, second_root)
    except ValueError:
        return False


def _left(size: int) -> int:
    """How many of the entries of a list are under the left child of its root."""
    return 1 << ((size - 1).bit_length() - 1)


def _range(start: int, end: int, nodes: Nodes) -> bytes:
    size = end - start
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return nodes(level, start >> level)
    middle = start + _left(size)
    return joined(_range(start, middle, nodes), _range(middle, end, nodes))


def _inclusion(place: int, start: int, end: int, nodes: Nodes) -> list[bytes]:
    if end - start == 1:
        return []
    middle = start + _left(end - start)
    if place < middle:
        return [*_inclusion(place, start, middle, nodes), _range(middle, end, nodes)]
    return [*_inclusion(place, middle, end, nodes), _range(start, middle, nodes)]


def _consistency(first: int, start: int, end: int, nodes: Nodes, *, known: bool) -> list[bytes]:
    """The path for the part of the list from `start` to `end`; `known` is whether the first digest is that part's."""
    if first == end:
        return [] if known else [_range(start, end, nodes)]
    middle = start + _left(end - start)
    if first <= middle:
        return [*_consistency(first, start, middle, nodes, known=known), _range(middle, end, nodes)]
    return [*_consistency(first, middle, end, nodes, known=False), _range(start, middle, nodes)]


def _roots(first: int, second: int, known: bytes | None, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The digests of both lists by the path; `known` is the first one where the path leaves it out."""
    if first == second:
        found = path if known is None else (*path, known)
        if len(found) != 1:
            raise ValueError("the path has another length")
        return found[0], found[0]
    if not path:
        raise ValueError("the path is too short")
    *below, last = path
    half = _left(second)
    if first <= half:
        one, other = _roots(first, half, known, below)
        return one, joined(other, last)
    one, other = _roots(first - half, second - half, None, below)
    return joined(last, one), joined(last, other)
