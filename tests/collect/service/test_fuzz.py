"""Whatever is sent: no failure of the server, and no acceptance of what is not exactly right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import msgpack
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import negative_data_rejection

from veridp.collect import Client, MemoryVault, Task
from veridp.collect.messages import Challenge, Commit, Invitation, Opening, SessionVerdict, decode, encode
from veridp.collect.service.openapi import document

ADMIN = "an admin token of the tests"
HTTP = httpx.Client(verify=False, timeout=60)  # noqa: S501 - plain HTTP; a context for TLS takes long to make
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@schemathesis.serializer("application/msgpack")
def _as_it_is(context: object, value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


schema = schemathesis.openapi.from_dict(document(), config=SchemathesisConfig())


@pytest.fixture(scope="module")
def at_task(server: Any) -> tuple[str, str]:
    """The name of a task that there is, and a token of a client of it."""
    task = server.new_task()
    (token,) = server.put(task, 1)
    return task.name, token


@pytest.mark.parametrize("known", [False, True])
@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=QUIET)
def test_the_openapi_document_is_kept(
    case: schemathesis.Case, server: Any, at_task: tuple[str, str], known: bool
) -> None:
    """Requests made up from the document, valid and not, with the right token: never a 5xx, never an answer that the
    document does not describe. Either at made-up tasks, or at one that there is, by a client of it where one is due."""
    name, token = at_task
    if known and case.path_parameters:
        case.path_parameters["name"] = name
    bearer = token if known and case.path.endswith(("/session", "/commit", "/open")) else ADMIN
    answer = case.call(base_url=server.url, headers={"Authorization": f"Bearer {bearer}"})
    case.validate_response(answer, checks=[not_a_server_error])
    if known and case.path.startswith("/tasks/{name}") and "Authorization" in answer.request.headers:
        assert answer.status_code not in (401, 404)
    if answer.status_code >= 400:
        assert set(answer.json()) == {"reason", "message"}
    else:
        replaced = case.meta is not None and case.meta.is_negative_at(ParameterLocation.HEADER)  # by the right token
        case.validate_response(answer, excluded_checks=[negative_data_rejection] if replaced else [])


@dataclass
class Target:
    """A task with many tokens, so that every example has a session of its own."""

    url: str
    task: Task
    tokens: Iterator[str]

    def post(self, token: str, step: str, body: bytes) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"}
        answer = HTTP.post(f"{self.url}/tasks/{self.task.name}/{step}", content=body, headers=headers)
        assert answer.status_code < 500, answer.text
        return answer

    def begun(self) -> tuple[str, Client, Commit]:
        token = next(self.tokens)
        client = Client(self.task.protocol, self.task.verifier, MemoryVault(), random.Random(token))
        invitation = decode(self.post(token, "session", b"").content, Invitation)
        return token, client, client.commit(invitation, "bee")


@pytest.fixture(scope="module", params=["blake2b", "ristretto255"])
def target(request: pytest.FixtureRequest, server: Any) -> Target:
    task = server.new_task(scheme=request.param)
    return Target(server.url, task, iter(server.put(task, 400)))


@given(body=st.binary(max_size=300), step=st.sampled_from(["session", "commit", "open"]))
@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
def test_any_bytes_are_answered_and_never_accepted(target: Target, body: bytes, step: str) -> None:
    token, _, _ = target.begun()
    answer = target.post(token, step, body)
    assert answer.status_code == (200 if step == "session" else 400)


def mutated(data: st.DataObject, message: bytes) -> bytes:
    """The message with a part of it changed, left out or repeated, or with a field of another kind."""
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "field", "drop"]))
    parts = msgpack.unpackb(message)
    place = data.draw(st.integers(0, 10**6)) % len(message)
    if kind == "flip":
        return message[:place] + bytes([message[place] ^ data.draw(st.integers(1, 255))]) + message[place + 1 :]
    if kind == "cut":
        return message[:place]
    if kind == "grow":
        return message[:place] + data.draw(st.binary(min_size=1, max_size=8)) + message[place:]
    which = data.draw(st.integers(0, len(parts) - 1))
    if kind == "drop":
        return bytes(msgpack.packb(parts[:which] + parts[which + 1 :]))
    other = st.one_of(
        st.none(), st.booleans(), st.integers(-5, 2**64 - 1), st.binary(max_size=40), st.lists(st.integers(0, 99))
    )
    parts[which] = data.draw(other)
    return bytes(msgpack.packb(parts))


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
def test_no_changed_opening_is_accepted(target: Target, data: st.DataObject) -> None:
    token, client, commit = target.begun()
    challenge = decode(target.post(token, "commit", encode(commit)).content, Challenge)
    good = encode(client.open(challenge))
    changed = mutated(data, good)
    answer = target.post(token, "open", changed)
    if answer.status_code == 200 and changed != good:
        assert not decode(answer.content, SessionVerdict).accepted


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
def test_a_changed_commitment_is_refused_or_cannot_be_opened(target: Target, data: st.DataObject) -> None:
    """Where each entry has its own commitment, one that stays closed may be another: it is the client's to choose."""
    token, client, commit = target.begun()
    changed = mutated(data, encode(commit))
    answer = target.post(token, "commit", changed)
    if answer.status_code == 200 and changed != encode(commit):
        opening = client.open(decode(answer.content, Challenge))
        verdict = decode(target.post(token, "open", encode(opening)).content, SessionVerdict)
        if verdict.accepted:
            other = decode(changed, Commit).commitment
            places = [i // 32 for i in range(len(other)) if other[i] != commit.commitment[i]]
            assert set(places) <= set(opening.closed)
            assert target.task.scheme == "ristretto255"


@given(values=st.permutations(range(5)), closed=st.integers(0, 5))
@settings(max_examples=30, deadline=None, suppress_health_check=QUIET)
def test_no_other_composition_of_the_opening_is_accepted(target: Target, values: list[int], closed: int) -> None:
    """Well-formed openings with the due number of each value, in an order that is not the one committed to."""
    token, client, commit = target.begun()
    opening = client.open(decode(target.post(token, "commit", encode(commit)).content, Challenge))
    changed = replace(opening, closed=(closed,), values=bytes(values))
    verdict = decode(target.post(token, "open", encode(changed)).content, SessionVerdict)
    assert verdict.accepted == (changed == opening)
    assert isinstance(opening, Opening)
