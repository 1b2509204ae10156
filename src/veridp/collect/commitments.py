"""Commitment schemes: one interface, hash commitments (the default) and Pedersen's on ristretto255.

A scheme commits to a whole vector at once. All its randomness comes from a secret of the client, so that a client which
keeps the secret can go on after a crash.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b, sha512
from types import ModuleType
from typing import ClassVar, Protocol

from veridp.collect.harmless import Layout
from veridp.collect.messages import DIGEST_BYTES, Context, Reason, Refused
from veridp.errors import BadInput, extra

SECRET_BYTES = 32


class Scheme(Protocol):
    """How a vector is committed to, opened in part, and checked.

    `commit` and `open` depend on nothing but their arguments. `check` and `verify` raise `Refused` with a named reason
    and return nothing: what they accept binds the client to the values opened. `closed` is in increasing order;
    `values` of `verify` are those of the other entries, in order.
    """

    @property
    def name(self) -> str: ...

    def commit(self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes) -> bytes: ...

    def check(self, layout: Layout, commitment: bytes) -> None: ...

    def open(
        self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes, closed: Sequence[int]
    ) -> bytes: ...

    def verify(
        self,
        context: Context,
        layout: Layout,
        commitment: bytes,
        closed: Sequence[int],
        values: Sequence[int],
        proof: bytes,
    ) -> None: ...

    def proof_bytes(self, layout: Layout) -> int:
        """The length of the longest proof that an opening can need."""
        ...

    def commitment_bytes(self, layout: Layout) -> int: ...


# ----------------------------------------------------------------------------------------------------------- entrywise
# Schemes that commit to each entry by itself: all commitments are sent, and the keys of those opened.


class Entrywise(ABC):
    """A scheme that says how one entry is committed to, with a key that only the client knows until it opens it."""

    @property
    @abstractmethod
    def entry_bytes(self) -> int:
        """The bytes of the commitment to an entry."""

    @property
    @abstractmethod
    def key_bytes(self) -> int:
        """The bytes of a key."""

    @abstractmethod
    def keys(self, context: Context, layout: Layout, secret: bytes, indices: Sequence[int]) -> Sequence[bytes]:
        """The keys of these entries, which the client's secret determines."""

    @abstractmethod
    def entries(
        self, context: Context, layout: Layout, indices: Sequence[int], values: Sequence[int], keys: Sequence[bytes]
    ) -> Iterable[bytes]:
        """The commitments to these values at these indices; refuses what is not a key."""

    def commit(self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes) -> bytes:
        indices = range(layout.size)
        return b"".join(
            self.entries(context, layout, indices, vector, self.keys(context, layout, secret, indices)),
        )

    def check(self, layout: Layout, commitment: bytes) -> None:
        check_length("commitment", commitment, self.commitment_bytes(layout))

    def open(
        self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes, closed: Sequence[int]
    ) -> bytes:
        return b"".join(self.keys(context, layout, secret, layout.opened(closed)))

    def verify(
        self,
        context: Context,
        layout: Layout,
        commitment: bytes,
        closed: Sequence[int],
        values: Sequence[int],
        proof: bytes,
    ) -> None:
        opened = layout.opened(closed)
        check_length("proof", proof, len(opened) * self.key_bytes)
        keys = split(proof, self.key_bytes)
        for index, entry in zip(opened, self.entries(context, layout, opened, values, keys), strict=True):
            if commitment[index * self.entry_bytes : (index + 1) * self.entry_bytes] != entry:
                raise Refused(Reason.WRONG_OPENING, f"entry {index} is not the one committed to")

    def proof_bytes(self, layout: Layout) -> int:
        return (layout.size - layout.closed) * self.key_bytes

    def commitment_bytes(self, layout: Layout) -> int:
        return layout.size * self.entry_bytes


def check_length(what: str, found: bytes, needed: int) -> None:
    """Refuse bytes of another length."""
    if len(found) != needed:
        raise Refused(Reason.WRONG_LENGTH, f"the {what} has {len(found)} bytes, expected {needed}")


def split(joined: bytes, width: int) -> list[bytes]:
    """The parts of this many bytes each."""
    return [joined[i : i + width] for i in range(0, len(joined), width)]


# ------------------------------------------------------------------------------------------------------- tree of seeds
# A tree of seeds (Goldreich, Goldwasser and Micali 1986): one root gives all leaves; a few nodes give all but some.
#
# The seed of a node is hashed to those of its two children. A node reveals the leaves below it and nothing of any other
# leaf, so the nodes that hang off the paths to the closed leaves reveal all others.


SEED_BYTES = 16

Hash = Callable[[bytes], bytes]  # to 32 bytes


@dataclass(frozen=True)
class SeedNode:
    """A node of the tree: `level` 0 is that of the leaves, and `place` counts from the left within the level."""

    level: int
    place: int


def seed_leaves(root: bytes, salt: bytes, size: int, hashed: Hash) -> list[bytes]:
    """The seeds of the first `size` leaves of the tree under this root."""
    return seed_levels(root, salt, size, hashed)[0]


def seed_levels(root: bytes, salt: bytes, size: int, hashed: Hash) -> list[list[bytes]]:
    """The seeds of all nodes, level by level from the leaves up."""
    rows = [[root]]
    for level in range(tree_height(size) - 1, -1, -1):
        rows.append(_children(rows[-1], salt, -(-size >> level), hashed))
    rows.reverse()
    return rows


def tree_height(size: int) -> int:
    """The level of the root of a tree of so many leaves."""
    return max(size - 1, 0).bit_length()


def cover(size: int, closed: Sequence[int]) -> list[SeedNode]:
    """The fewest nodes below which are all leaves but the closed ones, from left to right.

    Leaves past the size may be revealed: nobody uses them.
    """
    if not closed:
        return [SeedNode(tree_height(size), 0)]
    nodes = []
    on_path = set(closed)
    for level in range(tree_height(size)):
        for place in on_path:
            sibling = place ^ 1
            if sibling not in on_path and sibling << level < size:
                nodes.append(SeedNode(level, sibling))
        on_path = {place >> 1 for place in on_path}
    return sorted(nodes, key=lambda node: node.place << node.level)


def recomputed_seeds(
    seeds: Sequence[bytes], nodes: Sequence[SeedNode], salt: bytes, size: int, hashed: Hash
) -> list[bytes]:
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


# ---------------------------------------------------------------------------------------------------- hash commitments
# To each entry by a digest of its value and a seed that only the client knows.
#
# They hide by the 128-bit seeds and bind by the collision resistance of the 256-bit digests; harmless opening uses
# nothing homomorphic, so they suffice. Every digest is over a tag, the task, the session and the index besides.


def BLAKE2B(data: bytes) -> bytes:  # noqa: N802 - the name of the function, as the literature writes it
    """The 32-byte BLAKE2b digest."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def blake3_hash() -> Hash:
    """The 32-byte BLAKE3 digest, if the package `blake3` is installed."""
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

    The seeds are the leaves of a tree. An opening is the nodes that reveal the seeds of the opened entries, and the
    digests of the closed ones.
    """

    name: str
    hashed: Hash

    def commit(self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes) -> bytes:
        salts = Salts.of(context, self.name)
        seeds = seed_leaves(_root(context, secret), salts.node, layout.size, self.hashed)
        return self.hashed(
            salts.whole + b"".join(_entries(salts.entry, range(layout.size), vector, seeds, self.hashed))
        )

    def check(self, layout: Layout, commitment: bytes) -> None:
        check_length("commitment", commitment, DIGEST_BYTES)

    def open(
        self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes, closed: Sequence[int]
    ) -> bytes:
        salts = Salts.of(context, self.name)
        rows = seed_levels(_root(context, secret), salts.node, layout.size, self.hashed)
        revealed = (rows[node.level][node.place] for node in cover(layout.size, closed))
        kept = _entries(salts.entry, closed, [vector[i] for i in closed], [rows[0][i] for i in closed], self.hashed)
        return b"".join((*revealed, *kept))

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
        nodes = cover(layout.size, closed)
        tree = len(nodes) * SEED_BYTES
        check_length("proof", proof, tree + len(closed) * DIGEST_BYTES)
        revealed, kept = split(proof[:tree], SEED_BYTES), split(proof[tree:], DIGEST_BYTES)
        seeds = recomputed_seeds(revealed, nodes, salts.node, layout.size, self.hashed)
        opened = layout.opened(closed)
        entries = dict(zip(opened, _entries(salts.entry, opened, values, seeds, self.hashed), strict=True))
        entries.update(zip(closed, kept, strict=True))
        if self.hashed(salts.whole + b"".join(map(entries.__getitem__, range(layout.size)))) != commitment:
            raise Refused(Reason.WRONG_OPENING, "the entries opened are not those committed to")

    def proof_bytes(self, layout: Layout) -> int:
        return layout.closed * (DIGEST_BYTES + tree_height(layout.size) * SEED_BYTES) + SEED_BYTES

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
        seeds = seed_leaves(_root(context, secret), salts.node, layout.size, self.hashed)
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


# ----------------------------------------------------------------------------------------------------------- ristretto
# Pedersen commitments on ristretto255: τ·B + (m + 1)·H, by libsodium.
#
# B is the group's base point; H comes from a published label by hashing to the group, so that nobody knows its
# logarithm to the base B. They hide perfectly and bind as long as that logarithm is unknown.


LABEL = b"veridp Pedersen generator H, ristretto255, version 1"
ORDER = 2**252 + 27742317777372353535851937790883648493
POINT_BYTES = SCALAR_BYTES = 32


def second_generator() -> bytes:
    """H: the label's SHA-512 digest, mapped to the group as RFC 9496 says (section 4.3.4)."""
    found: bytes = _sodium().crypto_core_ristretto255_from_hash(sha512(LABEL).digest())
    return bytes(found)


@cache
def multiples(count: int) -> tuple[bytes, ...]:
    """H, 2H, … count·H: with them a commitment is one fixed-base multiplication and one addition."""
    add = _sodium().crypto_core_ristretto255_add
    table = [second_generator()]
    while len(table) < count:
        table.append(bytes(add(table[-1], table[0])))
    return tuple(table)


@cache
def _sodium() -> ModuleType:
    with extra("collect", "the scheme ristretto255 needs"):
        import rbcl
    return rbcl  # type: ignore[no-any-return]


class Ristretto(Entrywise):
    """Pedersen commitments to each entry; all are sent, and the scalars of those opened.

    A commitment does not name its task and session; the messages do, the challenge is bound to them, and so are the
    scalars of an honest client.
    """

    name = "ristretto255"
    entry_bytes = POINT_BYTES
    key_bytes = SCALAR_BYTES

    def keys(self, context: Context, layout: Layout, secret: bytes, indices: Sequence[int]) -> list[bytes]:
        seed = context.digest(b"veridp scalars", secret)
        return [_scalar(seed, index) for index in indices]

    def entries(
        self, context: Context, layout: Layout, indices: Sequence[int], values: Sequence[int], keys: Sequence[bytes]
    ) -> Iterator[bytes]:
        table = multiples(layout.values)
        for index, value, scalar in zip(indices, values, keys, strict=True):
            if not 0 < int.from_bytes(scalar, "little") < ORDER:
                raise Refused(Reason.NON_CANONICAL_SCALAR, f"the scalar of entry {index} is not reduced, or is zero")
            yield _commitment(scalar, table[value])

    def check(self, layout: Layout, commitment: bytes) -> None:
        super().check(layout, commitment)
        valid = _sodium().crypto_core_ristretto255_is_valid_point
        for index, point in enumerate(split(commitment, POINT_BYTES)):
            if not valid(point):
                raise Refused(Reason.WRONG_POINT, f"entry {index} is not a canonical point of ristretto255")


def _commitment(scalar: bytes, multiple: bytes) -> bytes:
    sodium = _sodium()
    found: bytes = sodium.crypto_core_ristretto255_add(sodium.crypto_scalarmult_ristretto255_base(scalar), multiple)
    return found


def _scalar(seed: bytes, index: int) -> bytes:
    """The scalar of an entry: 512 bits, reduced, so that it is uniform to within 2^-259."""
    wide = blake2b(seed + index.to_bytes(8, "big"), digest_size=64).digest()
    found: bytes = _sodium().crypto_core_ristretto255_scalar_reduce(wide)
    return found


# --------------------------------------------------------------------------------------------------------- the schemes


SCHEMES: dict[str, Callable[[], Scheme]] = {
    "blake2b": lambda: Compact("blake2b", BLAKE2B),
    "blake2b-plain": lambda: Plain("blake2b-plain", BLAKE2B),
    "blake3": lambda: Compact("blake3", blake3_hash()),
    "ristretto255": Ristretto,
}
DEFAULT_SCHEME = "blake2b"


def scheme(name: str = DEFAULT_SCHEME) -> Scheme:
    """The scheme of this name.

    >>> scheme().name
    'blake2b'
    """
    if name not in SCHEMES:
        raise BadInput(f"no commitment scheme {name!r}; there are {', '.join(SCHEMES)}")
    return SCHEMES[name]()
