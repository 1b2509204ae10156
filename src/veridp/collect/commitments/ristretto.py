"""Commitments to each entry by itself, and Pedersen commitments on ristretto255, by libsodium."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import blake2b, sha512
from types import ModuleType

from veridp.collect.layout import Context, Layout
from veridp.collect.reasons import Reason, Refused
from veridp.errors import extra

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
        """The commitments to these values at these indices; refuses what is no key."""

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
