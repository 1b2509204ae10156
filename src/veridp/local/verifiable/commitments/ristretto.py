"""Pedersen commitments on ristretto255: τ·B + (m + 1)·H, by libsodium.

B is the group's base point; H comes from a published label by hashing to the group, so that nobody knows its
logarithm to the base B. They hide perfectly and bind as long as that logarithm is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b, sha512
from types import ModuleType

from veridp.errors import BadInput
from veridp.local.verifiable.commitments.hashed import check_entry, opened_indices
from veridp.local.verifiable.context import Context
from veridp.local.verifiable.layout import Layout
from veridp.local.verifiable.reasons import Reason, Refused

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
    try:
        import rbcl
    except ImportError:
        raise BadInput("the scheme ristretto255 needs the package rbcl; pip install 'veridp[collect]'") from None
    return rbcl  # type: ignore[no-any-return]


class Ristretto:
    """Pedersen commitments to each entry; all are sent, and the scalars of those opened.

    A commitment does not name its task and session; the messages do, the challenge is bound to them, and so are the
    scalars of an honest client.
    """

    name = "ristretto255"

    def commit(self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes) -> bytes:
        table = multiples(layout.values)
        seed = context.digest(b"veridp scalars", secret)
        return b"".join(
            [_commitment(_scalar(seed, index), table[value]) for index, value in enumerate(vector)],
        )

    def check(self, layout: Layout, commitment: bytes) -> None:
        needed = self.commitment_bytes(layout)
        if len(commitment) != needed:
            raise Refused(Reason.WRONG_LENGTH, f"the commitment has {len(commitment)} bytes where {needed} are needed")
        valid = _sodium().crypto_core_ristretto255_is_valid_point
        for index in range(layout.size):
            if not valid(commitment[index * POINT_BYTES : (index + 1) * POINT_BYTES]):
                raise Refused(Reason.WRONG_POINT, f"entry {index} is no canonical point of ristretto255")

    def open(
        self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes, closed: Sequence[int]
    ) -> bytes:
        seed = context.digest(b"veridp scalars", secret)
        return b"".join([_scalar(seed, index) for index in opened_indices(layout.size, closed)])

    def verify(
        self,
        context: Context,
        layout: Layout,
        commitment: bytes,
        closed: Sequence[int],
        values: Sequence[int],
        proof: bytes,
    ) -> None:
        table = multiples(layout.values)
        opened = opened_indices(layout.size, closed)
        if len(proof) != len(opened) * SCALAR_BYTES:
            raise Refused(
                Reason.WRONG_LENGTH, f"the proof has {len(proof)} bytes where {len(opened) * SCALAR_BYTES} are needed"
            )
        for place, (index, value) in enumerate(zip(opened, values, strict=True)):
            scalar = proof[place * SCALAR_BYTES : (place + 1) * SCALAR_BYTES]
            if not 0 < int.from_bytes(scalar, "little") < ORDER:
                raise Refused(Reason.NON_CANONICAL_SCALAR, f"the scalar of entry {index} is not reduced, or is zero")
            check_entry(commitment, index, _commitment(scalar, table[value]))

    def proof_bytes(self, layout: Layout) -> int:
        return (layout.size - layout.closed) * SCALAR_BYTES

    def commitment_bytes(self, layout: Layout) -> int:
        return layout.size * POINT_BYTES


def _commitment(scalar: bytes, multiple: bytes) -> bytes:
    sodium = _sodium()
    found: bytes = sodium.crypto_core_ristretto255_add(sodium.crypto_scalarmult_ristretto255_base(scalar), multiple)
    return found


def _scalar(seed: bytes, index: int) -> bytes:
    """The scalar of an entry: 512 bits, reduced, so that it is uniform to within 2^-259."""
    wide = blake2b(seed + index.to_bytes(8, "big"), digest_size=64).digest()
    found: bytes = _sodium().crypto_core_ristretto255_scalar_reduce(wide)
    return found
