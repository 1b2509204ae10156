"""What client and server send each other, in its one encoding: messages, the context every hash is bound to,
challenges, and the reasons for which something is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar, get_type_hints

import msgpack

from veridp.collect.harmless import Layout
from veridp.errors import VeridpError

# ------------------------------------------------------------------------------------------------------------- reasons
# Why a message, a session or an estimate is refused: each reason has a name that users, logs and metrics share.


class Reason(StrEnum):
    """The name of a refusal."""

    MALFORMED = "malformed"
    WRONG_VERSION = "wrong-version"
    WRONG_KIND = "wrong-kind"
    OVERSIZED = "oversized"
    UNKNOWN_TASK = "unknown-task"
    UNKNOWN_TOKEN = "unknown-token"  # noqa: S105
    WRONG_TASK = "wrong-task"
    WRONG_SESSION = "wrong-session"
    TASK_CLOSED = "task-closed"
    EXPIRED = "expired"
    OUT_OF_ORDER = "out-of-order"
    SECOND_COMMITMENT = "second-commitment"
    SECOND_CHALLENGE = "second-challenge"
    REPLAYED = "replayed"
    BROKEN_PROMISE = "broken-promise"
    WRONG_LENGTH = "wrong-length"
    WRONG_POINT = "wrong-point"
    NON_CANONICAL_SCALAR = "non-canonical-scalar"
    INDEX_OUT_OF_RANGE = "index-out-of-range"
    DUPLICATE_INDEX = "duplicate-index"
    UNORDERED_INDEX = "unordered-index"
    CHALLENGE_NOT_OPENED = "challenge-not-opened"
    VALUE_OUT_OF_RANGE = "value-out-of-range"
    WRONG_COUNTS = "wrong-counts"
    WRONG_OPENING = "wrong-opening"
    WRONG_VERDICT = "wrong-verdict"
    TOO_FEW_REPORTS = "too-few-reports"
    TOO_MANY_ABORTS = "too-many-aborts"
    TOO_FAST = "too-fast"
    TOO_SLOW = "too-slow"
    CONFLICT = "conflict"
    WRONG_CONTENT_TYPE = "wrong-content-type"
    NOT_FOUND = "not-found"
    UNAVAILABLE = "unavailable"


class Refused(VeridpError):
    """A message, a session or an estimate was refused; `reason` is the name, the text says what was found."""

    def __init__(self, reason: Reason, found: str) -> None:
        super().__init__(f"{reason}: {found}")
        self.reason = reason
        self.found = found

    def __reduce__(self) -> tuple[type[Refused], tuple[Reason, str]]:
        return Refused, (self.reason, self.found)


# ------------------------------------------------------------------------------------------------------------- context
# What every hash is bound to: what it is for, the task and the session.


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


# ----------------------------------------------------------------------------------------------------------- messages
# There is exactly one encoding of a message, and only that is accepted: decoding checks the version, the kind, the
# number, types and lengths of the fields, and that encoding again gives the same bytes.


VERSION = 1
LONGEST = 64 << 20  # bytes of a message, whatever the task
WHOLE = 1 << 63
TEXT = 200  # characters


@dataclass(frozen=True)
class Message:
    """A message of a session."""

    kind: ClassVar[int]
    lengths: ClassVar[dict[str, int]] = {"task": TASK_BYTES, "session": SESSION_BYTES}

    task: bytes
    session: bytes

    @property
    def context(self) -> Context:
        return Context(self.task, self.session)


@dataclass(frozen=True)
class Invitation(Message):
    """From the server: a session, what it promises to challenge by, and until when (seconds since 1970) it is open."""

    kind: ClassVar[int] = 1
    lengths: ClassVar[dict[str, int]] = {**Message.lengths, "promise": DIGEST_BYTES}

    promise: bytes
    expires: int


@dataclass(frozen=True)
class Commit(Message):
    """From the client: the commitment to its vector."""

    kind: ClassVar[int] = 2

    commitment: bytes


@dataclass(frozen=True)
class Challenge(Message):
    """From the server: the nonce that it promised; the selected entries follow from it and the commitment."""

    kind: ClassVar[int] = 3
    lengths: ClassVar[dict[str, int]] = {**Message.lengths, "nonce": NONCE_BYTES}

    nonce: bytes


@dataclass(frozen=True)
class Opening(Message):
    """From the client: which entries stay closed, the values of the others in order, and the scheme's proof of them."""

    kind: ClassVar[int] = 4

    closed: tuple[int, ...]
    values: bytes
    proof: bytes


@dataclass(frozen=True)
class SessionVerdict(Message):
    """From the server: the report was accepted (then `reason` is empty), or why it was not."""

    kind: ClassVar[int] = 5

    accepted: bool
    reason: str
    outputs: tuple[int, ...]


KINDS: dict[int, type[Message]] = {kind.kind: kind for kind in (Invitation, Commit, Challenge, Opening, SessionVerdict)}
FIELDS = {kind: get_type_hints(kind) for kind in KINDS.values()}
NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in KINDS.values()}

M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """The message in bytes."""
    return packed([VERSION, message.kind, *(getattr(message, name) for name in NAMES[type(message)])])


def decode(data: bytes, kind: type[M]) -> M:
    """The message of this kind that the bytes encode; refuses, with a name, whatever is not exactly one."""
    parts = _unpacked(data)
    if not (isinstance(parts, list) and len(parts) >= 2 and type(parts[0]) is int and type(parts[1]) is int):
        raise Refused(Reason.MALFORMED, "not an array that begins with a version and a kind")
    if parts[0] != VERSION:
        raise Refused(Reason.WRONG_VERSION, f"version {parts[0]} of the messages; this is version {VERSION}")
    if parts[1] != kind.kind:
        raise Refused(Reason.WRONG_KIND, f"kind {parts[1]}, expected {kind.kind}, {kind.__name__}")
    names = NAMES[kind]
    if len(parts) != 2 + len(names):
        raise Refused(Reason.MALFORMED, f"{len(parts) - 2} fields; {kind.__name__} has {len(names)}")
    checked: dict[str, Any] = {name: _field(kind, name, part) for name, part in zip(names, parts[2:], strict=True)}
    message = kind(**checked)
    if encode(message) != data:
        raise Refused(Reason.MALFORMED, "not the shortest encoding of the message")
    return message


def packed(parts: object) -> bytes:
    """The parts as MessagePack."""
    found: bytes = msgpack.packb(parts, use_bin_type=True)
    return found


def _unpacked(data: bytes) -> object:
    if len(data) > LONGEST:
        raise Refused(Reason.OVERSIZED, f"a message of {len(data)} bytes; at most {LONGEST} are read")
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True, max_map_len=0, max_ext_len=0)
    except (ValueError, msgpack.UnpackException, RecursionError):
        raise Refused(Reason.MALFORMED, "not one MessagePack value of arrays, numbers, bytes and texts") from None


def _field(kind: type[Message], name: str, part: object) -> object:
    """The part as a value of the field's type."""
    needed = FIELDS[kind][name]
    good = False
    if needed is bytes:
        good = type(part) is bytes and len(part) == kind.lengths.get(name, len(part))
    elif needed is bool:
        good = type(part) is bool
    elif needed is int:
        good = type(part) is int and 0 <= part < WHOLE
    elif needed is str:
        good = type(part) is str and len(part) <= TEXT
    elif needed == tuple[int, ...]:
        good = type(part) is list and all(type(entry) is int and 0 <= entry < WHOLE for entry in part)
        part = tuple(part) if good and isinstance(part, list) else part
    if not good:
        raise Refused(Reason.MALFORMED, f"{name} of {kind.__name__} has the wrong type or length")
    return part


# ----------------------------------------------------------------------------------------------------------- challenge
# Which entries are selected: by a nonce that the server fixed before it saw the commitments.


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
