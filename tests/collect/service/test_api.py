"""The service over HTTP: whole sessions, and every refusal by its name."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from veridp.collect import SCHEMES, Client, MemoryVault, Task
from veridp.collect.commitments import ORDER
from veridp.collect.messages import Challenge, Commit, Invitation, Opening, SessionVerdict, decode, encode
from veridp.collect.service.store import token_hash

HTTP = httpx.Client(verify=False, timeout=60)  # noqa: S501 - plain HTTP; a context for TLS takes long to make
Send = Callable[[str, bytes], httpx.Response]


def sender(url: str, task: Task, token: str) -> Send:
    """A function that sends a step of a session."""

    def send(step: str, body: bytes) -> httpx.Response:
        return HTTP.post(
            f"{url}/tasks/{task.name}/{step}",
            content=body,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"},
            timeout=60,
        )

    return send


class Talk:
    """A session over HTTP, step by step."""

    def __init__(self, server: Any, task: Task, token: str, value: object = "bee") -> None:
        self.task, self.value = task, value
        self.send = sender(server.url, task, token)
        self.client = Client(task.protocol, task.verifier, MemoryVault(), random.Random(token))

    def invited(self) -> Invitation:
        return decode(self.send("session", b"").content, Invitation)

    def commit(self) -> Commit:
        return self.client.commit(self.invited(), self.value)

    def opening(self) -> Opening:
        return self.client.open(decode(self.send("commit", encode(self.commit())).content, Challenge))


def reason(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert set(found) == {"reason", "message"}
    return str(found["reason"])


def refused(answer: httpx.Response) -> str:
    """The reason of a verdict that rejects."""
    assert answer.status_code == 200, answer.text
    verdict = decode(answer.content, SessionVerdict)
    assert not verdict.accepted
    return verdict.reason


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("mechanism", ["vgrr", "voue", "volh", "grr-ho", "sr-ho", "pm-ho"])
def test_a_session_is_accepted_and_every_step_may_be_repeated(server: Any, mechanism: str, kind: str) -> None:
    task = server.new_task(mechanism, scheme=kind, minimum_batch=1)
    (token,) = server.put(task, 1)
    talk = Talk(server, task, token, "bee" if task.items else 1.5)
    invitation = talk.invited()
    assert talk.invited() == invitation
    commit = talk.client.commit(invitation, talk.value)
    answers = {talk.send("commit", encode(commit)).content for _ in range(2)}
    assert len(answers) == 1
    opening = talk.client.open(decode(answers.pop(), Challenge))
    verdicts = {talk.send("open", encode(opening)).content for _ in range(3)}
    assert len(verdicts) == 1
    verdict = talk.client.finish(decode(verdicts.pop(), SessionVerdict))
    assert verdict.accepted
    assert verdict.outputs == talk.client.outputs
    assert talk.send("commit", encode(commit)).status_code == 200  # late, and still the same
    status = server.status(task)
    assert (status["accepted"], status["pending_challenged"], status["abort_rate"]) == (1, 0, 0.0)


def test_steps_out_of_order_are_refused(server: Any) -> None:
    task = server.new_task()
    tokens = server.put(task, 3)
    talk, other, third = (Talk(server, task, token) for token in tokens)
    empty = Commit(task.digest, bytes(16), bytes(32))
    assert reason(talk.send("commit", encode(empty)), 409) == "out-of-order"
    talk.invited()
    opening = Opening(task.digest, talk.invited().session, (0,), bytes(5), b"")
    assert reason(talk.send("open", encode(opening)), 409) == "out-of-order"
    assert reason(talk.send("commit", encode(other.commit())), 409) == "wrong-session"
    first = third.commit()
    assert third.send("commit", encode(first)).status_code == 200
    assert reason(third.send("commit", encode(replace(first, commitment=bytes(32)))), 409) == "second-commitment"


def test_a_decided_session_is_not_decided_again(server: Any) -> None:
    task = server.new_task()
    (token,) = server.put(task, 1)
    talk = Talk(server, task, token)
    opening = talk.opening()
    assert decode(talk.send("open", encode(opening)).content, SessionVerdict).accepted
    changed = replace(opening, values=opening.values[::-1])
    assert reason(talk.send("open", encode(changed)), 409) == "replayed"
    assert server.status(task)["accepted"] == 1


def test_a_wrong_opening_is_rejected_for_good(server: Any) -> None:
    task = server.new_task()
    (token,) = server.put(task, 1)
    talk = Talk(server, task, token)
    opening = talk.opening()
    wrong = replace(opening, proof=bytes(len(opening.proof)))
    assert refused(talk.send("open", encode(wrong))) == "wrong-opening"
    assert reason(talk.send("open", encode(opening)), 409) == "replayed"
    status = server.status(task)
    assert (status["accepted"], status["rejected"]) == (0, 1)
    assert status["rejected_by_reason"] == {"wrong-opening": 1}
    assert status["abort_rate"] == 1.0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda o: replace(o, closed=(o.closed[0], o.closed[1], o.closed[1])), "duplicate-index"),
        (lambda o: replace(o, closed=o.closed[::-1]), "unordered-index"),
        (lambda o: replace(o, closed=(*o.closed[:2], 1 << 40)), "index-out-of-range"),
        (lambda o: replace(o, values=o.values[:-1]), "wrong-length"),
        (lambda o: replace(o, values=b"\xff" + o.values[1:]), "value-out-of-range"),
        (lambda o: replace(o, values=o.values[:1] * len(o.values)), "wrong-counts"),
        (lambda o: replace(o, closed=()), "wrong-counts"),
    ],
)
def test_malformed_openings_have_named_reasons(server: Any, change: Callable[[Opening], Opening], name: str) -> None:
    task = server.new_task(epsilon=math.log(4))
    (token,) = server.put(task, 1)
    talk = Talk(server, task, token)
    assert refused(talk.send("open", encode(change(talk.opening())))) == name


def test_wrong_points_and_scalars_have_named_reasons(server: Any) -> None:
    task = server.new_task(scheme="ristretto255")
    tokens = server.put(task, 2)
    talk, other = (Talk(server, task, token) for token in tokens)
    commit = talk.commit()
    bad = replace(commit, commitment=b"\xff" * 32 + commit.commitment[32:])
    assert reason(talk.send("commit", encode(bad)), 400) == "wrong-point"
    short = replace(commit, commitment=commit.commitment[32:])
    assert reason(talk.send("commit", encode(short)), 400) == "wrong-length"
    assert talk.send("commit", encode(commit)).status_code == 200  # nothing was kept of the bad ones
    opening = other.opening()
    wide = (int.from_bytes(opening.proof[:32], "little") + ORDER).to_bytes(32, "little")
    assert refused(other.send("open", encode(replace(opening, proof=wide + opening.proof[32:])))) == (
        "non-canonical-scalar"
    )


def test_messages_of_other_tasks_are_refused(server: Any) -> None:
    task, other = server.new_task(), server.new_task()
    (token,) = server.put(task, 1)
    (foreign,) = server.put(other, 1)
    talk = Talk(server, task, token)
    opening = talk.opening()
    of_other = Talk(server, other, foreign).opening()
    assert reason(talk.send("open", encode(of_other)), 409) == "wrong-task"
    disguised = replace(of_other, task=opening.task, session=opening.session)
    assert refused(talk.send("open", encode(disguised))) in ("wrong-opening", "challenge-not-opened")
    assert reason(sender(server.url, task, foreign)("session", b""), 401) == "unknown-token"


def test_one_token_may_serve_two_tasks_at_once(server: Any) -> None:
    """The sessions of a token that two tasks know are not mixed up, in whatever order their steps come."""
    task, other = server.new_task(), server.new_task("voue")
    (token,) = server.put(task, 1)
    server.put(other)
    hashes = {"hashes": [token_hash(token).hex()]}
    assert server.admin("PUT", f"/tasks/{other.name}/tokens", hashes).status_code == 200
    talks = [Talk(server, one, token) for one in (task, other)]
    openings = [talk.opening() for talk in talks]
    for talk, opening in zip(talks, openings, strict=True):
        assert decode(talk.send("open", encode(opening)).content, SessionVerdict).accepted


def test_messages_that_are_none_are_refused(server: Any) -> None:
    task = server.new_task()
    (token,) = server.put(task, 1)
    talk = Talk(server, task, token)
    commit = talk.commit()
    for body in (b"", b"\xc1", b"{}", encode(commit)[:-1], encode(commit) + b"\0"):
        assert reason(talk.send("commit", body), 400) == "malformed"
    assert reason(talk.send("open", encode(commit)), 400) == "wrong-kind"
    assert reason(talk.send("commit", b"\x95\x02" + encode(commit)[2:]), 400) == "wrong-version"
    assert reason(talk.send("commit", bytes(task.largest_message + 1)), 413) == "oversized"
    chunked = HTTP.post(
        f"{server.url}/tasks/{task.name}/commit",
        content=(bytes(1000) for _ in range(task.largest_message // 1000 + 2)),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/msgpack"},
    )
    assert reason(chunked, 413) == "oversized"
    typed = HTTP.post(f"{server.url}/tasks/{task.name}/commit", headers={"Authorization": f"Bearer {token}"})
    assert reason(typed, 415) == "wrong-content-type"


def test_tokens_are_needed_and_only_good_for_their_purpose(server: Any) -> None:
    task = server.new_task()
    (token,) = server.put(task, 1)
    for path in ("session", "commit", "open"):
        assert reason(HTTP.post(f"{server.url}/tasks/{task.name}/{path}"), 401) == "unknown-token"
    assert reason(sender(server.url, task, "guessed")("session", b""), 401) == "unknown-token"
    for verb, path in [("PUT", ""), ("DELETE", ""), ("PUT", "/tokens"), ("GET", "/status"), ("GET", "/log")]:
        answer = HTTP.request(
            verb, f"{server.url}/tasks/{task.name}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        assert reason(answer, 401) == "unknown-token"
        assert answer.headers["www-authenticate"] == "Bearer"
    missing = replace(task, name="not-there")
    assert reason(sender(server.url, missing, token)("session", b""), 404) == "unknown-task"
    assert reason(HTTP.get(f"{server.url}/nowhere"), 404) == "not-found"
    assert reason(HTTP.patch(f"{server.url}/tasks/{task.name}"), 405) == "not-found"


@pytest.mark.slow
def test_who_asks_too_often_waits(serving: Callable[..., Any], tmp_path: Path) -> None:
    """Five requests at once and then one in ten seconds, for each client; guesses count against the address.

    What is asked without a token, and by the administrator, is limited apart from that.
    """
    server = serving(f"sqlite:///{tmp_path}/collect.db", "--rate", "0.1", "--burst", "5")
    task = Task("limited", "vgrr", 1.0, items=("a", "b"))
    sends = [sender(server.url, task, f"guess {i}") for i in range(8)]
    found = [send("session", b"").status_code for send in sends]
    assert found[0] == 404  # there is no such task
    assert found[-1] == 429
    assert reason(sends[0]("session", b""), 429) == "too-fast"
    anonymous = [HTTP.get(f"{server.url}/openapi.json").status_code for _ in range(6)]
    assert (anonymous[0], anonymous[-1]) == (200, 429)
    assert server.admin("PUT", "/tasks/limited", {"mechanism": "vgrr", "epsilon": 1.0, "items": ["a", "b"]}).is_success
    server.stop()


def test_metrics_need_a_token(server: Any) -> None:
    for headers in ({}, {"Authorization": "Bearer a wrong token"}):
        assert reason(HTTP.get(f"{server.url}/metrics", headers=headers), 401) == "unknown-token"
    assert server.admin("GET", "/metrics").status_code == 200


def test_an_expired_session_burns_its_token_and_counts_as_aborted(server: Any) -> None:
    """One client leaves before the challenge, one after it: only the second knew its report."""
    task = server.new_task(session_seconds=6, minimum_batch=1)
    early, late = (Talk(server, task, token) for token in server.put(task, 2))
    early.invited()
    opening = late.opening()
    time.sleep(7.1)
    assert reason(early.send("session", b""), 410) == "expired"
    assert reason(late.send("open", encode(opening)), 410) == "expired"
    assert reason(late.send("session", b""), 410) == "expired"
    status = server.status(task)
    assert (status["expired_invited"], status["expired_challenged"], status["accepted"]) == (1, 1, 0)
    assert status["abort_rate"] == 1.0
    assert "veridp_expired_total" in server.admin("GET", "/metrics").text


def test_a_task_that_is_over_takes_no_new_clients(server: Any) -> None:
    task = server.new_task(expires=int(time.time()) + 6)
    first, second = (Talk(server, task, token) for token in server.put(task, 2))
    assert first.invited().expires == task.expires
    time.sleep(6.1)
    assert reason(second.send("session", b""), 410) == "task-closed"


def test_tasks_are_created_once(server: Any) -> None:
    task = server.new_task()
    assert server.put(task) == []
    document = json.loads(task.to_json())
    again = server.admin("PUT", f"/tasks/{task.name}", document)
    assert again.status_code == 200
    assert again.json() == document
    assert HTTP.get(f"{server.url}/tasks/{task.name}").json() == document
    assert reason(server.admin("PUT", f"/tasks/{task.name}", {**document, "epsilon": 0.5}), 409) == "conflict"
    assert reason(server.admin("PUT", f"/tasks/{task.name}", {**document, "name": "x"}), 400) == "malformed"


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1},
        {"epsilon": "1"},
        {"epsilon": True},
        {"mechanism": "laplace"},
        {"items": ["a"]},
        {"items": ["a", "a"]},
        {"items": ["a", "\u0000"]},
        {"items": ["a", "\ud800"]},
        {"items": [["a"], ["b"]]},
        {"colour": "red"},
        {"minimum_batch": 0},
        {"minimum_batch": 10**400},
        {"mechanism": "sr-ho"},
        {"scheme": "md5"},
        {"closeness": 1e-320},
        {"epsilon": 19.9, "mechanism": "voue"},
    ],
)
def test_bad_tasks_are_refused(server: Any, change: dict[str, object]) -> None:
    document = {"mechanism": "vgrr", "epsilon": 1.0, "items": ["a", "b"], **change}
    if change == {"closeness": 1e-320}:
        assert server.admin("PUT", "/tasks/loose", document).status_code == 200  # odd, and sound
        return
    answer = HTTP.put(
        f"{server.url}/tasks/bad",
        content=json.dumps(document),
        headers={"Authorization": "Bearer an admin token of the tests", "Content-Type": "application/json"},
    )
    assert reason(answer, 400) == "malformed"


@pytest.mark.parametrize(
    "body", [[], {}, {"hashes": "ab"}, {"hashes": ["ab"]}, {"hashes": [1]}, {"hashes": [], "x": 1}]
)
def test_bad_hashes_of_tokens_are_refused(server: Any, body: object) -> None:
    task = server.new_task()
    server.put(task)
    assert reason(server.admin("PUT", f"/tasks/{task.name}/tokens", body), 400) == "malformed"


def test_an_estimate_is_withheld_until_there_are_enough_reports(server: Any) -> None:
    task = server.new_task(minimum_batch=2)
    tokens = server.put(task, 2)
    for number, token in enumerate(tokens):
        assert server.status(task)["withheld"]["reason"] == "too-few-reports"
        assert server.status(task)["estimate"] is None
        talk = Talk(server, task, token)
        assert decode(talk.send("open", encode(talk.opening())).content, SessionVerdict).accepted, number
    found = server.status(task)
    assert found["withheld"] is None
    assert sum(column["value"] for column in found["estimate"]) == pytest.approx(1.0)
    wide = server.admin("GET", f"/tasks/{task.name}/status?confidence=0.999").json()["estimate"]
    widths = [sum(column["upper"] - column["lower"] for column in columns) for columns in (wide, found["estimate"])]
    assert widths[0] > widths[1]
    for text in ("2", "nan", "x", "0"):
        assert reason(server.admin("GET", f"/tasks/{task.name}/status?confidence={text}"), 400) == "malformed"


def test_metrics_count_what_happened(server: Any) -> None:
    task = server.new_task()
    tokens = server.put(task, 2)
    good, bad = (Talk(server, task, token) for token in tokens)
    good.send("open", encode(good.opening()))
    bad.send("open", encode(replace(bad.opening(), proof=b"")))
    bad.send("open", b"nonsense")
    text = server.admin("GET", "/metrics").text
    assert f'veridp_accepted_total{{task="{task.name}"}} 1.0' in text
    assert f'veridp_rejected_total{{reason="wrong-length",task="{task.name}"}} 1.0' in text
    assert 'veridp_refused_requests_total{reason="malformed"}' in text
    assert 'veridp_step_seconds_bucket{le="0.5",step="open"}' in text
