"""Receipts: a client's evidence if a server leaves its session out of the log, or changes it.

The decided sessions of a task are the entries of an append-only Merkle tree, as in Certificate Transparency. The server
signs the head: the size, the root, and how many sessions had begun, including those that clients left. A receipt is a
signed head with the inclusion path of the client's own session. Anyone with two heads can ask for the path that proves
that the later tree begins with the earlier one; a server that rewrote its log, or signed two histories, has none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgpack

from veridp.collect.client import Record
from veridp.collect.merkle import is_consistent, leaf_hash, root_by_inclusion
from veridp.collect.messages import DIGEST_BYTES, Invitation, decode, encode
from veridp.collect.task import Session
from veridp.errors import BadInput, extra

PURPOSE = b"veridp tree head 2\0"  # of the signature: it is good for nothing else
PURPOSE_WITHOUT_COUNTS = b"veridp tree head 1\0"
KEY_BYTES, SIGNATURE_BYTES = 32, 64


# -------------------------------------------------------------------------------------------------------------- entries


def entry_of(session: Session) -> bytes:
    """The entry of a decided session, as the server has it."""
    if session.commit is None or session.opening is None or session.verdict is None:
        raise ValueError("the session is not decided")
    opening = sha256(encode(session.opening)).digest()
    commitment, verdict = session.commit.commitment, encode(session.verdict)
    return packed_entry(
        session.context.session, session.invitation.promise, session.nonce, commitment, opening, verdict
    )


def entry_kept(record: Record) -> bytes:
    """The same, as its client has it."""
    invitation = decode(record.invitation, Invitation)
    return packed_entry(
        invitation.session, invitation.promise, record.nonce, record.commitment, record.opening, record.verdict
    )


def packed_entry(*parts: bytes) -> bytes:
    """The entry with these parts: session, promise, nonce, commitment, SHA-256 of the opening, verdict."""
    found: bytes = msgpack.packb(list(parts), use_bin_type=True)
    return found


# ---------------------------------------------------------------------------------------------------------------- heads


def _document(text: str | bytes) -> Any:
    """The JSON document; None if the text is not one."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class StepCounts:
    """How many sessions had begun, and how many of them had a challenge, whatever became of them."""

    begun: int
    challenged: int

    def __str__(self) -> str:
        return f"{self.begun} sessions that had begun, {self.challenged} of them with a challenge"

    def covers(self, other: StepCounts) -> bool:
        """Whether both numbers are at least as large."""
        return self.begun >= other.begun and self.challenged >= other.challenged


@dataclass(frozen=True)
class TreeHead:
    """The size and root of a task's tree at a time (seconds since 1970), signed with Ed25519.

    Heads of older servers have no counts.
    """

    task: bytes
    size: int
    time: int
    root: bytes
    key: bytes
    signature: bytes = b""
    counts: StepCounts | None = None

    @cached_property
    def content(self) -> bytes:
        """What is signed."""
        if self.counts is None:
            return PURPOSE_WITHOUT_COUNTS + self.task + _packed(self.size, self.time) + self.root
        counted = _packed(self.size, self.time, self.counts.begun, self.counts.challenged)
        return PURPOSE + self.task + counted + self.root

    @property
    def signed(self) -> bool:
        """Whether the signature is that of the key."""
        with extra("collect", "signatures need"):
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(self.signature, self.content)
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_document(self) -> dict[str, Any]:
        given = {"task": self.task, "root": self.root, "key": self.key, "signature": self.signature}
        counted = {} if self.counts is None else asdict(self.counts)
        return {"size": self.size, "time": self.time, **counted, **{name: part.hex() for name, part in given.items()}}

    @classmethod
    def from_document(cls, document: Any) -> TreeHead:
        """The head that a JSON object describes; refuses one whose signature is not that of its key."""
        try:
            size, time = document["size"], document["time"]
            counts = StepCounts(document["begun"], document["challenged"]) if "begun" in document else None
            task, root, key, signature = (
                bytes.fromhex(document[name]) for name in ("task", "root", "key", "signature")
            )
            numbers = (size, time) if counts is None else (size, time, counts.begun, counts.challenged)
            whole = all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
            lengths = (len(task), len(root), len(key), len(signature))
            if not whole or lengths != (DIGEST_BYTES, DIGEST_BYTES, KEY_BYTES, SIGNATURE_BYTES):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise BadInput("not the head of a log; get one with veridp collect head") from None
        head = cls(task, size, time, root, key, signature, counts)
        if not head.signed:
            raise BadInput("the head of the log is not signed with its key; get it anew with veridp collect head")
        return head

    @classmethod
    def from_json(cls, text: str | bytes) -> TreeHead:
        return cls.from_document(_document(text))

    def follows(self, earlier: TreeHead, path: list[bytes]) -> str | None:
        """Why this is not a later head of the same log, by the path between them; None if it is."""
        if (earlier.task, earlier.key) != (self.task, self.key):
            return "the heads are of different tasks, or signed with different keys"
        if earlier.size > self.size:
            return f"the log had {earlier.size} sessions and has {self.size}: some were removed"
        if not is_consistent(earlier.size, earlier.root, self.size, self.root, path):
            return f"the first {earlier.size} sessions of the log are not what they were: it was rewritten"
        if earlier.counts is not None and not (self.counts and self.counts.covers(earlier.counts)):
            return f"the log counted {earlier.counts}, and now {self.counts or 'none'}: some were removed"
        return None


def _packed(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "big") for number in numbers)


# ------------------------------------------------------------------------------------------------------------- receipts


@dataclass(frozen=True)
class Receipt:
    """That a session is the entry at this place of the tree with this head."""

    place: int
    path: tuple[bytes, ...]
    head: TreeHead

    def to_document(self) -> dict[str, Any]:
        return {"place": self.place, "path": [step.hex() for step in self.path], "head": self.head.to_document()}

    @classmethod
    def from_document(cls, document: Any) -> Receipt:
        try:
            place, path = document["place"], tuple(bytes.fromhex(step) for step in document["path"])
            if type(place) is not int or any(len(step) != DIGEST_BYTES for step in path):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            raise BadInput("not a receipt of veridp collect; ask the server again") from None
        return cls(place, path, TreeHead.from_document(document.get("head")))

    def to_json(self) -> str:
        return json.dumps(self.to_document(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        return cls.from_document(_document(text))

    def shows(self, record: Record) -> bool:
        """Whether it is the receipt of this client's session, as the client has it."""
        if decode(record.invitation, Invitation).task != self.head.task:
            return False
        try:
            root = root_by_inclusion(leaf_hash(entry_kept(record)), self.place, self.head.size, self.path)
        except ValueError:
            return False
        return root == self.head.root
