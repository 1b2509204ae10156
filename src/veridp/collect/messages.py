"""What client and server tell each other, and its one encoding: a MessagePack array [version, kind, field, …].

There is exactly one encoding of a message, and only that is accepted: decoding checks the version, the kind, the
number, types and lengths of the fields, and that encoding again gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, get_type_hints

import msgpack

from veridp.collect.layout import DIGEST_BYTES, NONCE_BYTES, SESSION_BYTES, TASK_BYTES, Context
from veridp.collect.reasons import Reason, Refused

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
    return _packed([VERSION, message.kind, *(getattr(message, name) for name in NAMES[type(message)])])


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


def _packed(parts: object) -> bytes:
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
