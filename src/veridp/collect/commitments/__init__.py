"""Commitment schemes: one interface, hash commitments (the default) and Pedersen's on ristretto255.

A scheme commits to a whole vector at once. All its randomness comes from a secret of the client, so that a client which
keeps the secret can go on after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from veridp.collect.layout import Context, Layout
from veridp.errors import BadInput

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


def _blake2b() -> Scheme:
    from veridp.collect.commitments.hashed import BLAKE2B, Compact

    return Compact("blake2b", BLAKE2B)


def _blake2b_plain() -> Scheme:
    from veridp.collect.commitments.hashed import BLAKE2B, Plain

    return Plain("blake2b-plain", BLAKE2B)


def _blake3() -> Scheme:
    from veridp.collect.commitments.hashed import Compact, blake3_hash

    return Compact("blake3", blake3_hash())


def _ristretto255() -> Scheme:
    from veridp.collect.commitments.ristretto import Ristretto

    return Ristretto()


SCHEMES: dict[str, Callable[[], Scheme]] = {
    "blake2b": _blake2b,
    "blake2b-plain": _blake2b_plain,
    "blake3": _blake3,
    "ristretto255": _ristretto255,
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
