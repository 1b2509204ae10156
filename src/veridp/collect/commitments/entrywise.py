"""Schemes that commit to each entry by itself: all commitments are sent, and the keys of those opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from veridp.collect.layout import Context, Layout
from veridp.collect.reasons import Reason, Refused


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
