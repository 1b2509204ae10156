"""The client's side over HTTP: one client that takes part, or a crowd of honest ones that rehearses a collection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from veridp.accounting.ledger import Ledger
from veridp.accounting.tree import exactly
from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.collect.client import Client, FileVault, MemoryVault
from veridp.collect.messages import (
    Challenge,
    Commit,
    Invitation,
    Message,
    Reason,
    Refused,
    SessionVerdict,
    decode,
    encode,
)
from veridp.collect.receipts import Receipt, TreeHead
from veridp.collect.task import Task
from veridp.errors import BadInput, BudgetSpent

# ------------------------------------------------------------------------------------------------------------- joining
# The client's side over HTTP: take part in a task once, through lost answers, restarts and crashes on either side.


AGAIN = {429, 502, 503, 504}
DEFAULT_EPSILON = 1.0  # that a report may cost, unless its client accepts more
DEFAULT_BUDGET = 3.0  # ε of all reports together

M = TypeVar("M", bound=Message)


@dataclass
class Server:
    """A server at an address, asked again until the deadline if it does not answer."""

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
        """The answer; raises refusals by name, and tries again after failures that may pass."""
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

    def document(self, path: str) -> Any:
        """The JSON document at this path."""
        answer = self.ask("GET", path)
        try:
            return answer.json()
        except ValueError:
            raise _not_of_collect(answer) from None

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


def client_ledger() -> Ledger:
    """The ledger of this user's reports to all tasks, made with the default budget if there is none.

    It is in $XDG_STATE_HOME (else ~/.local/state)/veridp. It knows only what is reported through it.
    """
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "veridp"
    path = folder / "collect-ledger.db"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists() or not path.stat().st_size:
            path.touch(mode=0o600)
            with contextlib.suppress(BadInput):  # another process was faster; what else is wrong is said below
                Ledger.create(path, Claim(DEFAULT_BUDGET))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give another ledger with --ledger") from None
    return Ledger(path)


def pay(ledger: Ledger, task: Task, commit: Commit) -> None:
    """Enter the cost of a report into the ledger, once; raises BudgetSpent if not enough is left.

    A report is known by its commitment, which the client made. Servers choose the numbers of sessions, so two of them
    could invite to one session each of the same number, and the second report would pass for paid.
    """
    what = f"collect {task.name}, session {commit.session.hex()}, {sha256(commit.commitment).hexdigest()}"
    if all(entry.what != what for entry in ledger.statement().entries):
        ledger.spend(Claim(task.protocol.epsilon), what)


def join(
    server: Server,
    name: str,
    value: object,
    state: Path,
    ledger: Ledger,
    most_epsilon: float = DEFAULT_EPSILON,
) -> SessionVerdict:
    """The verdict on a report of this value; the one there was, if the state file has it.

    The state file must outlive the process: with it the client goes on after a crash, and never tells more than once.
    The cost is entered into the ledger before the commitment is sent; a task that costs more than `most_epsilon`, or
    than is left, is not joined.
    """
    vault = FileVault(state)
    with vault.held():
        task = task_at(server, name)
        cost = task.protocol.epsilon
        if cost > most_epsilon:
            raise BadInput(
                f"the task costs ε = {cost:.6g}, more than {most_epsilon:g}; not taking part. If you accept it, "
                "say so with --epsilon"
            )
        client = Client(task.protocol, task.verifier, vault)
        if client.invitation is not None and client.invitation.task != task.digest:
            raise BadInput(
                f"{state} belongs to a different task than {name!r} as defined there; use a separate state file"
            )
        if client.verdict is not None:
            if client.record.opening:  # state files of version 1 lack what a receipt is compared with
                _ask_for_receipt(server, task, client)
            return client.verdict
        task.protocol.choose(value, random.SystemRandom())  # an invalid value must not begin a session
        path = f"/tasks/{quote(name, safe='')}"
        if client.invitation is None and ledger.statement().left.epsilon < exactly(cost):  # do not begin in vain
            left = float(ledger.statement().left.epsilon)
            raise BudgetSpent(
                f"{ledger.path}: the task costs ε = {cost:.6g}, and {left:.6g} is left; not taking part. "
                "For a larger budget, give --ledger a file of `veridp budget init`"
            )
        invitation = client.invitation or server.message(f"{path}/session", None, Invitation)
        if invitation.task != task.digest:
            raise Refused(Reason.WRONG_TASK, "the server invites to a different task than it defines; not taking part")
        commit = client.commit(invitation, value)
        pay(ledger, task, commit)
        challenge = server.message(f"{path}/commit", commit, Challenge)
        verdict = client.finish(server.message(f"{path}/open", client.open(challenge), SessionVerdict))
        _ask_for_receipt(server, task, client)
        return verdict


def _ask_for_receipt(server: Server, task: Task, client: Client) -> None:
    try:
        fetch_receipt(server, task, client)
    except BadInput as error:
        assert client.verdict is not None  # noqa: S101  what a receipt is for
        decided = "accepted" if client.verdict.accepted else f"rejected ({client.verdict.reason})"
        raise BadInput(f"the report was {decided}, but there is no receipt for it: {error}; run this again") from None


def fetch_receipt(server: Server, task: Task, client: Client) -> Receipt:
    """The receipt of the client's decided session, kept beside the verdict; refused if it is for another one."""
    if client.record.receipt:
        return Receipt.from_json(client.record.receipt)
    receipt = Receipt.from_document(server.document(f"/tasks/{quote(task.name, safe='')}/receipt"))
    if not receipt.shows(client.record):
        raise Refused(Reason.BROKEN_PROMISE, "the receipt is not one for this session; show it to the auditors")
    client.keep_receipt(receipt.to_json().encode())
    return receipt


def newest_head(server: Server, task: Task, earlier: TreeHead | None = None) -> TreeHead:
    """The newest head of a task's log; refused if it does not continue the earlier one."""
    path = f"/tasks/{quote(task.name, safe='')}"
    head = TreeHead.from_document(server.document(f"{path}/head"))
    if head.task != task.digest:
        raise Refused(Reason.WRONG_TASK, "the head is that of another task")
    if earlier is not None:
        steps: list[bytes] = []
        if 0 < earlier.size < head.size:
            sizes = f"first={earlier.size}&second={head.size}"
            found = server.document(f"{path}/consistency?{sizes}")
            try:
                steps = [bytes.fromhex(step) for step in found["path"]]
            except (KeyError, TypeError, ValueError):
                raise Refused(Reason.BROKEN_PROMISE, "what should show that the log continues is malformed") from None
        if fault := head.follows(earlier, steps):
            raise Refused(Reason.BROKEN_PROMISE, fault)
    return head


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        found = json.loads(answer.content)
        raise Refused(Reason(found["reason"]), str(found["message"]))
    except (ValueError, KeyError, TypeError):
        raise _not_of_collect(answer) from None


def _not_of_collect(answer: httpx.Response) -> BadInput:
    return BadInput(f"{answer.url} answers {answer.status_code}; is it a server of veridp collect?")


# --------------------------------------------------------------------------------------------------------------- crowd
# A crowd of honest clients in one process, to rehearse a collection: how fast is a server, what survives a crash?


STEPS = ("session", "commit", "open")
PASSING = {429, 502, 503, 504}


@dataclass
class Rehearsal:
    """What a crowd saw: the accepted outputs of each client, refusals, and how long each step took."""

    accepted: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by token
    refused: dict[str, str] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=lambda: {step: [] for step in STEPS})
    interruptions: int = 0
    seconds: float = 0.0


@dataclass
class Connection:
    """A connection that is kept alive: HTTP/1.1 with bodies of known length, which is what the service speaks."""

    host: str
    port: int
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, token: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer; raises OSError or EOFError when the connection is lost."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/msgpack\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        await self.writer.drain()
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith("content-length:"))
        return int(lines[0].split(" ")[1]), await self.reader.readexactly(length)

    async def close(self) -> None:
        """Forget the connection; the next post makes a new one."""
        writer, self.reader, self.writer = self.writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def rehearse(
    url: str,
    task: Task,
    values: Sequence[object],
    tokens: Sequence[str],
    *,
    seed: int,
    connections: int = 32,
    seconds: float = 60.0,
) -> Rehearsal:
    """Let clients with these values and tokens take part, so many at a time, each until it has a verdict.

    What a lost connection or a server that is away interrupts is tried again, until the time is over.
    """
    if len(values) != len(tokens):
        raise BadInput(f"{len(values)} values and {len(tokens)} tokens; give a token for each")
    address = urlsplit(url)
    found, deadline = Rehearsal(), Deadline(seconds)
    waiting = iter(list(zip(values, tokens, strict=True)))

    async def work(number: int) -> None:
        connection = Connection(address.hostname or "127.0.0.1", address.port or 80)
        rng = random.Random(f"{seed} {number}")  # noqa: S311 - a rehearsal
        for value, token in waiting:
            await _take_part(connection, task, value, token, rng, found, deadline)
        await connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(connections)))
    found.seconds = time.perf_counter() - start
    return found


async def _take_part(
    connection: Connection,
    task: Task,
    value: object,
    token: str,
    rng: random.Random,
    found: Rehearsal,
    deadline: Deadline,
) -> None:
    client = Client(task.protocol, task.verifier, MemoryVault(), rng)

    async def step(name: str, message: Message | None) -> bytes | None:
        """The answer to a step; None if it was refused for good, which is noted."""
        body = b"" if message is None else encode(message)
        while not deadline.passed:
            start = time.perf_counter()
            try:
                status, answer = await connection.post(f"/tasks/{task.name}/{name}", token, body)
            except (OSError, EOFError):
                found.interruptions += 1
                await connection.close()
                await asyncio.sleep(rng.uniform(0.02, 0.1))
                continue
            if status == 200:
                found.latencies[name].append(time.perf_counter() - start)
                return answer
            if status not in PASSING:
                found.refused[token] = answer.decode("utf-8", "replace")
                return None
            await asyncio.sleep(rng.uniform(0.02, 0.1))
        found.refused[token] = "the time was over"
        return None

    if (invitation := await step("session", None)) is None:
        return
    commit = client.commit(decode(invitation, Invitation), value)
    if (challenge := await step("commit", commit)) is None:
        return
    opening = client.open(decode(challenge, Challenge))
    if (answer := await step("open", opening)) is None:
        return
    verdict = client.finish(decode(answer, SessionVerdict))
    if verdict.accepted:
        found.accepted[token] = verdict.outputs
    else:
        found.refused[token] = verdict.reason
