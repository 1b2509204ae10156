"""The client's side over HTTP: take part in a task once, through lost answers, restarts and crashes on either side."""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import httpx

from veridp.budget import Deadline
from veridp.collect.client import Client
from veridp.collect.messages import Challenge, Invitation, Message, SessionVerdict, decode, encode
from veridp.collect.reasons import Reason, Refused
from veridp.collect.task import Task
from veridp.collect.vault import FileVault
from veridp.errors import BadInput

AGAIN = {429, 502, 503, 504}

M = TypeVar("M", bound=Message)


@dataclass
class Server:
    """A server at an address, asked again until the deadline where it does not answer."""

    url: str
    token: str
    deadline: Deadline
    authorities: Path | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise BadInput(f"{self.url!r} is not a server address; write for instance https://collect.example.org")
        try:
            verify = ssl.create_default_context(cafile=None if self.authorities is None else str(self.authorities))
        except OSError as error:
            raise BadInput(f"{self.authorities}: {error.strerror}; give a file of certificates") from None
        self._http = httpx.Client(base_url=self.url, verify=verify, timeout=30.0)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *raised: object) -> None:
        self._http.close()

    def ask(
        self, verb: str, path: str, content: bytes | None = None, kind: str = "application/msgpack"
    ) -> httpx.Response:
        """The answer; refusals are raised by name, and whatever may pass is waited for."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if content is not None:
            headers["Content-Type"] = kind
        wait = 0.05
        while True:
            try:
                answer = self._http.request(verb, path, content=content, headers=headers)
                if answer.status_code not in AGAIN:
                    return _checked(answer)
                trouble = f"it answers {answer.status_code}"
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
            if self.deadline.left < wait:
                raise BadInput(f"{self.url} is not available: {trouble}; try again later, nothing is lost")
            time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - so that clients do not come back together
            wait = min(2 * wait, 5.0)

    def pieces(self, path: str) -> Iterator[bytes]:
        """A long answer, piece by piece."""
        with self._http.stream("GET", path, headers={"Authorization": f"Bearer {self.token}"}) as answer:
            if not answer.is_success:
                answer.read()
                _checked(answer)
            yield from answer.iter_bytes()

    def message(self, path: str, content: Message | None, kind: type[M]) -> M:
        """The message that answers a message."""
        return decode(self.ask("POST", path, b"" if content is None else encode(content)).content, kind)


def task_at(server: Server, name: str) -> Task:
    """The definition of a task, as the server has it."""
    return Task.from_json(server.ask("GET", f"/tasks/{quote(name, safe='')}").text)


def join(server: Server, name: str, value: object, state: Path, most_epsilon: float | None = None) -> SessionVerdict:
    """The verdict on a report of this value; the one there was, if the state file has it.

    The state file must outlive the process: with it the client goes on after a crash, and never tells more than once.
    """
    vault = FileVault(state)
    with vault.held():
        task = task_at(server, name)
        cost = task.protocol.epsilon
        if most_epsilon is not None and cost > most_epsilon:
            raise BadInput(f"the task costs ε = {cost:.6g}, more than {most_epsilon:g}; not taking part")
        client = Client(task.protocol, task.verifier, vault)
        if client.invitation is not None and client.invitation.task != task.digest:
            raise BadInput(
                f"{state} belongs to a different task than {name!r} as defined there; use a separate state file"
            )
        if client.verdict is not None:
            return client.verdict
        task.protocol.choose(value, random.SystemRandom())  # what is no value must not begin a session
        path = f"/tasks/{quote(name, safe='')}"
        invitation = client.invitation or server.message(f"{path}/session", None, Invitation)
        if invitation.task != task.digest:
            raise Refused(Reason.WRONG_TASK, "the server invites to a different task than it defines; not taking part")
        challenge = server.message(f"{path}/commit", client.commit(invitation, value), Challenge)
        return client.finish(server.message(f"{path}/open", client.open(challenge), SessionVerdict))


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        found = json.loads(answer.content)
        raise Refused(Reason(found["reason"]), str(found["message"]))
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{answer.url} answers {answer.status_code}; is it a server of veridp collect?") from None
