"""What every hash is bound to: what it is for, the task and the session."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

TASK_BYTES = 32
SESSION_BYTES = 16
NONCE_BYTES = 32
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Context:
    """A session of a task: the digest of the task's definition, and the number that the server gave the session."""

    task: bytes
    session: bytes

    def digest(self, purpose: bytes, *parts: bytes) -> bytes:
        """The BLAKE2b digest of the parts for this purpose, task and session; no two lists of parts give one input."""
        return digest(purpose, self.task, self.session, *parts)


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """The BLAKE2b digest of the parts, each with its length before it, for a purpose of at most 16 bytes."""
    state = blake2b(digest_size=DIGEST_BYTES, person=purpose)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()
