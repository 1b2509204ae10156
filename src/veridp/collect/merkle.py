"""The Merkle tree hash of Certificate Transparency (RFC 6962, section 2.1): one digest binds a whole list."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

LEAF, NODE = b"\x00", b"\x01"  # told apart, so that no list gives the digest of another


def tree_hash(leaves: Iterable[bytes]) -> bytes:
    """The digest of a list, in one pass; memory grows with the logarithm of its length.

    >>> tree_hash([]).hex()[:16], tree_hash([b""]).hex()[:16]
    ('e3b0c44298fc1c14', '6e340b9cffb37a98')
    """
    whole: list[tuple[int, bytes]] = []  # complete subtrees from left to right: how many levels, and the digest
    for leaf in leaves:
        level, digest = 0, sha256(LEAF + leaf).digest()
        while whole and whole[-1][0] == level:
            level, digest = level + 1, _joined(whole.pop()[1], digest)
        whole.append((level, digest))
    if not whole:
        return sha256().digest()
    found = whole.pop()[1]
    while whole:
        found = _joined(whole.pop()[1], found)
    return found


def _joined(left: bytes, right: bytes) -> bytes:
    return sha256(NODE + left + right).digest()
