"""Which entries are selected: by a nonce that the server fixed before it saw the commitments."""

from __future__ import annotations

from hashlib import blake2b

from veridp.collect.context import Context, digest
from veridp.collect.layout import Layout
from veridp.collect.reasons import Reason, Refused

WORD = 1 << 64


def promise(context: Context, nonce: bytes) -> bytes:
    """The digest that the server sends before the commitments; it binds the server to the nonce."""
    return context.digest(b"veridp promise", nonce)


def check_promise(context: Context, nonce: bytes, promised: bytes) -> None:
    """Refuse a nonce other than the promised one."""
    if promise(context, nonce) != promised:
        raise Refused(Reason.BROKEN_PROMISE, "the nonce is not the one that the server promised; do not open")


def selected(context: Context, nonce: bytes, commitment: bytes, layout: Layout) -> tuple[int, ...]:
    """The index selected in each block: uniform and out of the reach of either side.

    The server is bound to the nonce when it sees the commitment, and the client to the commitment when it sees the
    nonce. Anybody who has both can compute it again.
    """
    seed = digest(b"veridp select", context.task, context.session, nonce, commitment)
    limit = WORD - WORD % layout.length  # words from here on would favour low indices
    chosen: list[int] = []
    counter = 0
    while len(chosen) < layout.blocks:
        words = blake2b(seed + counter.to_bytes(8, "big"), digest_size=64).digest()
        for start in range(0, 64, 8):
            word = int.from_bytes(words[start : start + 8], "big")
            if word < limit:
                chosen.append(word % layout.length)
        counter += 1
    return tuple(chosen[: layout.blocks])
