"""A crowd of honest clients in one process, to rehearse a collection: how fast is a server, what survives a crash?"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from veridp.budget import Deadline
from veridp.collect.client import Client
from veridp.collect.messages import Challenge, Invitation, Message, SessionVerdict, decode, encode
from veridp.collect.task import Task
from veridp.collect.vault import MemoryVault
from veridp.errors import BadInput

STEPS = ("session", "commit", "open")
PASSING = {429, 502, 503, 504}


@dataclass
class Rehearsal:
    """What a crowd saw: the outputs that each client was told were accepted, refusals, and how long each step took."""

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
