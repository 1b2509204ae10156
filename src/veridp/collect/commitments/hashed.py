"""Hash commitments: to each entry by a digest of its value and a seed that only the client knows.

They hide by the 128-bit seeds and bind by the collision resistance of the 256-bit digests; harmless opening uses
nothing homomorphic, so they suffice. Every digest is over a tag, the task, the session and the index besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import ClassVar

from veridp.collect.commitments import ggm
from veridp.collect.commitments.ggm import SEED_BYTES, Hash
from veridp.collect.commitments.ristretto import Entrywise, check_length, split
from veridp.collect.layout import DIGEST_BYTES, Context, Layout
from veridp.collect.reasons import Reason, Refused
from veridp.errors import extra


def BLAKE2B(data: bytes) -> bytes:  # noqa: N802 - the name of the function, as the literature writes it
    """The 32-byte BLAKE2b digest."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def blake3_hash() -> Hash:
    """The 32-byte BLAKE3 digest, if the package `blake3` is there."""
    with extra("collect", "the scheme blake3 needs"):
        from blake3 import blake3
    return partial(_digest_of, blake3)


def _digest_of(function: type, data: bytes) -> bytes:
    found: bytes = function(data).digest()
    return found


@dataclass(frozen=True)
class Salts:
    """The beginnings of what is hashed in a session, one for each purpose."""

    node: bytes
    entry: bytes
    whole: bytes

    @classmethod
    def of(cls, context: Context, scheme: str) -> Salts:
        base = context.digest(b"veridp salts", scheme.encode())
        return cls(b"N" + base, b"E" + base, b"W" + base)


@dataclass(frozen=True)
class Compact:
    """One digest commits to all entries; an opening sends only what the verifier cannot recompute.

    The seeds are the leaves of a tree. An opening is the nodes that tell the seeds of the opened entries, and the
    digests of the closed ones.
    """

    name: str
    hashed: Hash

    def commit(self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes) -> bytes:
        salts = Salts.of(context, self.name)
        seeds = ggm.leaves(_root(context, secret), salts.node, layout.size, self.hashed)
        return self.hashed(
            salts.whole + b"".join(_entries(salts.entry, range(layout.size), vector, seeds, self.hashed))
        )

    def check(self, layout: Layout, commitment: bytes) -> None:
        check_length("commitment", commitment, DIGEST_BYTES)

    def open(
        self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes, closed: Sequence[int]
    ) -> bytes:
        salts = Salts.of(context, self.name)
        rows = ggm.levels(_root(context, secret), salts.node, layout.size, self.hashed)
        told = (rows[node.level][node.place] for node in ggm.cover(layout.size, closed))
        kept = _entries(salts.entry, closed, [vector[i] for i in closed], [rows[0][i] for i in closed], self.hashed)
        return b"".join((*told, *kept))

    def verify(
        self,
        context: Context,
        layout: Layout,
        commitment: bytes,
        closed: Sequence[int],
        values: Sequence[int],
        proof: bytes,
    ) -> None:
        salts = Salts.of(context, self.name)
        nodes = ggm.cover(layout.size, closed)
        tree = len(nodes) * SEED_BYTES
        check_length("proof", proof, tree + len(closed) * DIGEST_BYTES)
        told, kept = split(proof[:tree], SEED_BYTES), split(proof[tree:], DIGEST_BYTES)
        seeds = ggm.recomputed(told, nodes, salts.node, layout.size, self.hashed)
        opened = layout.opened(closed)
        entries = dict(zip(opened, _entries(salts.entry, opened, values, seeds, self.hashed), strict=True))
        entries.update(zip(closed, kept, strict=True))
        if self.hashed(salts.whole + b"".join(map(entries.__getitem__, range(layout.size)))) != commitment:
            raise Refused(Reason.WRONG_OPENING, "the entries opened are not those committed to")

    def proof_bytes(self, layout: Layout) -> int:
        return layout.closed * (DIGEST_BYTES + ggm.height(layout.size) * SEED_BYTES) + SEED_BYTES

    def commitment_bytes(self, layout: Layout) -> int:
        return DIGEST_BYTES


@dataclass(frozen=True)
class Plain(Entrywise):
    """A digest for each entry, and a seed for each that is opened: everything is sent, for comparison."""

    entry_bytes: ClassVar[int] = DIGEST_BYTES
    key_bytes: ClassVar[int] = SEED_BYTES

    name: str
    hashed: Hash

    def keys(self, context: Context, layout: Layout, secret: bytes, indices: Sequence[int]) -> list[bytes]:
        salts = Salts.of(context, self.name)
        seeds = ggm.leaves(_root(context, secret), salts.node, layout.size, self.hashed)
        return [seeds[i] for i in indices]

    def entries(
        self, context: Context, layout: Layout, indices: Sequence[int], values: Sequence[int], keys: Sequence[bytes]
    ) -> list[bytes]:
        return _entries(Salts.of(context, self.name).entry, indices, values, keys, self.hashed)


def _root(context: Context, secret: bytes) -> bytes:
    return context.digest(b"veridp seeds", secret)[:SEED_BYTES]


def _entries(
    salt: bytes, indices: Sequence[int], values: Sequence[int], seeds: Sequence[bytes], hashed: Hash
) -> list[bytes]:
    """The digests of entries: of the salt, the index, the value and the seed, all of fixed length."""
    return [
        hashed(salt + (index << 32 | value).to_bytes(8, "big") + seed)
        for index, value, seed in zip(indices, values, seeds, strict=True)
    ]
