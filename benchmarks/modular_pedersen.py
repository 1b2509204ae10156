"""Pedersen commitments modulo a prime, by Python's `pow`: only to compare with published figures. Slow, not secure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from veridp.collect.commitments import Entrywise
from veridp.collect.harmless import Layout
from veridp.collect.messages import Context

# The largest primes below a power of two such that half of one less is a prime as well.
SAFE_PRIMES = {128: 2**128 - 15449, 256: 2**256 - 36113, 512: 2**512 - 38117}


@dataclass(frozen=True)
class ModularPedersen(Entrywise):
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
    def entry_bytes(self) -> int:
        return (self.prime.bit_length() + 7) // 8

    @property
    def key_bytes(self) -> int:
        return self.entry_bytes

    def one(self, value: int, scalar: int) -> int:
        """The commitment to one value."""
        return pow(self.g, value, self.prime) * pow(self.h, scalar, self.prime) % self.prime

    def keys(self, context: Context, layout: Layout, secret: bytes, indices: Sequence[int]) -> list[bytes]:
        seed = context.digest(b"veridp modular", secret)
        return [self._scalar(seed, index).to_bytes(self.key_bytes, "big") for index in indices]

    def entries(
        self, context: Context, layout: Layout, indices: Sequence[int], values: Sequence[int], keys: Sequence[bytes]
    ) -> Iterator[bytes]:
        for value, scalar in zip(values, keys, strict=True):
            yield self.one(value, int.from_bytes(scalar, "big")).to_bytes(self.entry_bytes, "big")

    def _scalar(self, seed: bytes, index: int) -> int:
        wide = b"".join(blake2b(seed + bytes([part]) + index.to_bytes(8, "big")).digest() for part in range(2))
        return int.from_bytes(wide, "big") % ((self.prime - 1) // 2)
