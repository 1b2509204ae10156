"""Messages have one encoding; everything else is refused by name."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.collect.messages import (
    KINDS,
    VERSION,
    Challenge,
    Commit,
    Invitation,
    Message,
    Opening,
    Reason,
    Refused,
    SessionVerdict,
    decode,
    encode,
)

TASK, SESSION = st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16)
WHOLE = st.integers(0, 2**63 - 1)
MESSAGES = st.one_of(
    st.builds(Invitation, TASK, SESSION, TASK, WHOLE),
    st.builds(Commit, TASK, SESSION, st.binary(max_size=80)),
    st.builds(Challenge, TASK, SESSION, TASK),
    st.builds(Opening, TASK, SESSION, st.lists(WHOLE).map(tuple), st.binary(max_size=40), st.binary(max_size=40)),
    st.builds(SessionVerdict, TASK, SESSION, st.booleans(), st.text(max_size=20), st.lists(WHOLE).map(tuple)),
)


def reason_of(data: bytes, kind: type[Message]) -> Reason:
    with pytest.raises(Refused) as refused:
        decode(data, kind)
    return refused.value.reason


@given(MESSAGES)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(message), type(message)) == message


@given(MESSAGES, st.data())
def test_a_changed_byte_gives_another_message_or_none(message: Message, data: st.DataObject) -> None:
    """Never the same message: so a transcript has one reading."""
    encoded = bytearray(encode(message))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    try:
        found = decode(bytes(encoded), type(message))
    except Refused:
        return
    assert found != message


@given(st.binary(max_size=200), st.sampled_from(sorted(KINDS)))
def test_any_bytes_are_a_message_or_refused(data: bytes, kind: int) -> None:
    try:
        assert encode(decode(data, KINDS[kind])) == data
    except Refused as refused:
        assert refused.reason in (Reason.MALFORMED, Reason.WRONG_KIND, Reason.WRONG_VERSION)  # noqa: PT017


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(st.lists(JSON_LIKE, max_size=8), st.sampled_from(sorted(KINDS)))
@settings(max_examples=60, deadline=None)
def test_any_fields_are_a_message_or_refused(fields: list[object], kind: int) -> None:
    data = msgpack.packb([VERSION, kind, *fields], use_bin_type=True)
    try:
        assert encode(decode(data, KINDS[kind])) == data
    except Refused as refused:
        assert refused.reason == Reason.MALFORMED  # noqa: PT017


def packed(*parts: object) -> bytes:
    found: bytes = msgpack.packb(list(parts), use_bin_type=True)
    return found


def test_what_is_wrong_is_named() -> None:
    good = Commit(bytes(32), bytes(16), b"x")
    assert reason_of(packed(2, 2, bytes(32), bytes(16), b"x"), Commit) == Reason.WRONG_VERSION
    assert reason_of(encode(good), Challenge) == Reason.WRONG_KIND
    assert reason_of(encode(good) + b"\0", Commit) == Reason.MALFORMED
    assert reason_of(encode(good)[:-1], Commit) == Reason.MALFORMED
    assert reason_of(packed(1, 2, bytes(31), bytes(16), b"x"), Commit) == Reason.MALFORMED
    assert reason_of(packed(1, 2, bytes(32), bytes(16), "x"), Commit) == Reason.MALFORMED
    assert reason_of(packed(1, 2, bytes(32), bytes(16)), Commit) == Reason.MALFORMED
    assert reason_of(packed(1, 4, bytes(32), bytes(16), [True], b"", b""), Opening) == Reason.MALFORMED
    assert reason_of(packed(1, 4, bytes(32), bytes(16), [-1], b"", b""), Opening) == Reason.MALFORMED
    assert reason_of(packed(1, 5, bytes(32), bytes(16), 1, "", []), SessionVerdict) == Reason.MALFORMED


def test_the_longer_encoding_of_a_number_is_refused() -> None:
    short = encode(Opening(bytes(32), bytes(16), (5,), b"", b""))
    assert b"\x91\x05" in short
    longer = short.replace(b"\x91\x05", b"\x91\xcc\x05")
    assert msgpack.unpackb(longer) == msgpack.unpackb(short)
    assert reason_of(longer, Opening) == Reason.MALFORMED
