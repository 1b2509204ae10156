"""Pedersen commitments modulo a prime, by Python's `pow`: only to compare with published figures. Slow, not secure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from veridp.local.verifiable.commitments.hashed import opened_indices
from veridp.local.verifiable.context import Context
from veridp.local.verifiable.layout import Layout
from veridp.local.verifiable.reasons import Reason, Refused

# The largest primes below a power of two such that half of one less is a prime as well.
SAFE_PRIMES = {128: 2**128 - 15449, 256: 2**256 - 36113, 512: 2**512 - 38117}


@dataclass(frozen=True)
class ModularPedersen:
    """g^m h^τ modulo a prime p, for each entry; all are sent."""

    prime: int
    g: int
    h: int

    @classmethod
    def of_bits(cls, bits: int) -> ModularPedersen:
        """Squares of hashes as generators, in the group of squares modulo a safe prime."""
        prime = SAFE_PRIMES[bits]
        g, h = (
            pow(int.from_bytes(b"".join(blake2b(bytes([label, part])).digest() for part in range(2)), "big"), 2, prime)
            for label in b"gh"
        )
        return cls(prime, g, h)

    @property
    def name(self) -> str:
        return f"modular-{self.prime.bit_length()}"

    @property
    def width(self) -> int:
        return (self.prime.bit_length() + 7) // 8

    def one(self, value: int, scalar: int) -> int:
        """The commitment to one value."""
        return pow(self.g, value, self.prime) * pow(self.h, scalar, self.prime) % self.prime

    def commit(self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes) -> bytes:
        seed = context.digest(b"veridp modular", secret)
        entries = (self.one(value, self._scalar(seed, index)) for index, value in enumerate(vector))
        return b"".join(entry.to_bytes(self.width, "big") for entry in entries)

    def check(self, layout: Layout, commitment: bytes) -> None:
        if len(commitment) != self.commitment_bytes(layout):
            raise Refused(Reason.WRONG_LENGTH, "the commitment has the wrong length")

    def open(
        self, context: Context, layout: Layout, vector: Sequence[int], secret: bytes, closed: Sequence[int]
    ) -> bytes:
        seed = context.digest(b"veridp modular", secret)
        opened = opened_indices(layout.size, closed)
        return b"".join(self._scalar(seed, index).to_bytes(self.width, "big") for index in opened)

    def verify(
        self,
        context: Context,
        layout: Layout,
        commitment: bytes,
        closed: Sequence[int],
        values: Sequence[int],
        proof: bytes,
    ) -> None:
        width = self.width
        for place, (index, value) in enumerate(zip(opened_indices(layout.size, closed), values, strict=True)):
            scalar = int.from_bytes(proof[place * width : (place + 1) * width], "big")
            if self.one(value, scalar) != int.from_bytes(commitment[index * width : (index + 1) * width], "big"):
                raise Refused(Reason.WRONG_OPENING, f"entry {index} is not the one committed to")

    def proof_bytes(self, layout: Layout) -> int:
        return (layout.size - layout.closed) * self.width

    def commitment_bytes(self, layout: Layout) -> int:
        return layout.size * self.width

    def _scalar(self, seed: bytes, index: int) -> int:
        wide = b"".join(blake2b(seed + bytes([part]) + index.to_bytes(8, "big")).digest() for part in range(2))
        return int.from_bytes(wide, "big") % ((self.prime - 1) // 2)
