"""What a session of the service costs: processor time, bytes and rows, by database and commitment scheme.

    python benchmarks/service.py [--quick] [--database URL] [--only sqlite] [--connections 64]

A server is started on this machine, and a crowd of honest clients in this process takes part over loopback: three
requests for each, every one durable before it is answered. Processor times are those of the server with its judges, of
PostgreSQL, and of the crowd, each by itself: on a machine that others use, they mean more than sessions a second do.
What processes are worth is computed from them: a process does one thing at a time, and two cores do two seconds of work
a second. So one process does 1/s sessions, and two with the database beside them 2/(s + d); the crowd counts for
neither. So that it does not push the servers off their core either, which costs those most who are many, all server
processes have one core, and the database and the crowd the other. Start-up is not counted, nor are the first clients.
Others on the machine can only add to processor times, by the caches they take: with `--repeats` the runs take turns,
and the least of each kind is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import uvloop
from sqlalchemy import func, select, text

import servers
from veridp.cli.collect import TOKENS_AT_ONCE
from veridp.collect import Task
from veridp.collect.attacks import play_honest
from veridp.collect.messages import encode
from veridp.collect.service.database import Database
from veridp.collect.service.http_client import Rehearsal, rehearse
from veridp.collect.service.schema import metadata
from veridp.collect.service.store import token_hash

ADMIN = secrets.token_hex(16)
MOST_CLIENTS = 20_000
PATIENCE = 300.0  # seconds until the server must answer, on a busy machine
SERVE = (sys.executable, "-m", "veridp.cli", "collect", "serve")
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    process: psutil.Process

    def family(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def cpu(self) -> float:
        """The processor seconds that it and its processes have taken."""
        return float(sum(member.cpu_times().user + member.cpu_times().system for member in self.family()))


@contextlib.contextmanager
def served(database: str, processes: int, folder: Path) -> Iterator[Served]:
    """A server that ends with the block, with its key file in the folder."""
    keys, port = folder / "keys", servers.free_port()
    keys.touch(mode=0o600)
    keys.write_text(secrets.token_hex(32))
    options = ["--port", str(port), "--rate", "0", "--database", database, "--processes", str(processes)]
    process = subprocess.Popen(  # noqa: S603
        [*SERVE, *options, "--key-file", str(keys), "--signing-key-file", str(keys)],
        env={**os.environ, "VERIDP_ADMIN_TOKEN": ADMIN},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/healthz").status_code == 200:
                    break
            time.sleep(0.1)
        yield Served(url, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(30)


def set_apart(server: Served, cluster: servers.Postgres | None) -> None:
    """Give the server one core, and the database and this crowd another, where there are two and they can be chosen."""
    if len(CORES) > 1:
        others = [psutil.Process(), *([] if cluster is None else cluster.family())]
        for core, processes in ((CORES[0], server.family()), (CORES[1], others)):
            for process in processes:
                process.cpu_affinity([core])  # what it starts later inherits it


def prepared(url: str, task: Task, clients: int) -> list[str]:
    """The task, with so many tokens."""
    tokens = [secrets.token_urlsafe(16) for _ in range(clients)]
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=120) as http:
        http.put(f"/tasks/{task.name}", json=json.loads(task.to_json())).raise_for_status()
        for start in range(0, clients, TOKENS_AT_ONCE):
            hashes = {"hashes": [token_hash(token).hex() for token in tokens[start : start + TOKENS_AT_ONCE]]}
            http.put(f"/tasks/{task.name}/tokens", json=hashes).raise_for_status()
    return tokens


def issued(url: str, number: int, cluster: servers.Postgres | None) -> str:
    """What it takes to issue so many tokens to a task over HTTP."""
    task = Task("tokens", "vgrr", math.log(2), items=("a", "b"))
    with tempfile.TemporaryDirectory() as folder, served(url, 1, Path(folder)) as server:
        before, start = server.cpu() + (0 if cluster is None else cluster.cpu()), time.perf_counter()
        prepared(server.url, task, number)
        spent = server.cpu() + (0 if cluster is None else cluster.cpu()) - before
        took = time.perf_counter() - start
    kind = url.partition(":")[0]
    return f"{kind}: {number} tokens in {took:.1f} s, {spent:.1f} s of processor time of server and database"


def take_part(url: str, task: Task, tokens: list[str], seed: int, connections: int) -> Rehearsal:
    """What a crowd with these tokens saw, on the event loop that takes least of the cores it shares with the server."""
    crowd = rehearse(url, task, ["7"] * len(tokens), tokens, seed=seed, connections=connections, seconds=300)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(crowd)


def share(latencies: list[float], part: float) -> float:
    """The latency, in milliseconds, that this part of the requests does not exceed."""
    return sorted(latencies)[min(int(part * len(latencies)), len(latencies) - 1)] * 1e3


@dataclass(frozen=True)
class SessionLoad:
    """What sessions cost: milliseconds of processor time, bytes and rows for each."""

    what: str
    processes: int
    rate: float
    server: float
    database: float
    crowd: float
    sent: int
    answered: int
    stored: float
    rows: float
    open_p99: float

    def capacity(self, cores: int = 2) -> float:
        """The sessions a second that the cores have time for, if a process uses one of them at most."""
        return min(self.processes * 1e3 / self.server, cores * 1e3 / (self.server + self.database))

    def row(self) -> str:
        cpu = f"{self.server:.2f} + {self.database:.2f} | {self.crowd:.2f}"
        size = f"{self.sent} + {self.answered} | {self.stored:.0f} | {self.rows:.2f}"
        return f"| {self.what} | {self.processes} | {self.rate:.0f} | {cpu} | {size} | {self.open_p99:.0f} |"


HEADER = (
    "| database, scheme | processes | sessions/s here | ms of server + database | of the crowd | bytes sent + answered "
    "| bytes stored | rows | p99 of open, ms |\n|---|---|---|---|---|---|---|---|---|"
)


def message_bytes(task: Task) -> tuple[int, int]:
    """The bytes of the messages of a session: from the client, and to it."""
    session = play_honest(task, "7", random.Random(1))  # noqa: S311
    assert session.commit is not None and session.opening is not None and session.verdict is not None  # noqa: PT018
    to_client = (session.invitation, session.challenge, session.verdict)
    return sum(len(encode(m)) for m in (session.commit, session.opening)), sum(len(encode(m)) for m in to_client)


def stored(url: str) -> tuple[int, int]:
    """The bytes and the rows of a database."""
    database = Database.open(url)
    with database.reading() as connection:
        rows = sum(connection.execute(select(func.count()).select_from(t)).scalar_one() for t in metadata.sorted_tables)
        if connection.dialect.name == "postgresql":
            size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        else:
            pages, width = (connection.execute(text(f"PRAGMA page_{it}")).scalar_one() for it in ("count", "size"))
            size = pages * width
    database.close()
    return int(size), int(rows)


def loaded(
    url: str, scheme: str, processes: int, given: argparse.Namespace, cluster: servers.Postgres | None
) -> SessionLoad:
    """What the sessions of a crowd cost."""
    clients = (given.clients if not given.quick else 1000) // (1 if scheme == "blake2b" else 4)
    task = Task(f"load-{secrets.token_hex(4)}", "vgrr", math.log(2), items=tuple(map(str, range(73))), scheme=scheme)

    def cpu(server: Served) -> tuple[float, float, float]:
        return server.cpu(), 0.0 if cluster is None else cluster.cpu(), time.process_time()

    with tempfile.TemporaryDirectory() as folder, served(url, processes, Path(folder)) as server:
        before = stored(url)
        tokens = prepared(server.url, task, clients + clients // 10)
        connections = given.connections * processes
        set_apart(server, cluster)
        take_part(server.url, task, tokens[clients:], 1, connections)
        start = cpu(server)
        found = take_part(server.url, task, tokens[:clients], 2, connections)
        spent = [(now - then) / clients * 1e3 for now, then in zip(cpu(server), start, strict=True)]
        after = stored(url)
    if len(found.accepted) != clients:
        raise RuntimeError(f"{clients - len(found.accepted)} sessions were not accepted")
    more = [(now - then) / len(tokens) for now, then in zip(after, before, strict=True)]
    what = f"{url.partition(':')[0]}, {scheme}"
    p99, (sent, answered) = share(found.latencies["open"], 0.99), message_bytes(task)
    return SessionLoad(
        what, processes, clients / found.seconds, spent[0], spent[1], spent[2], sent, answered, more[0], more[1], p99
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer clients")
    parser.add_argument("--database", help="a URL; a fresh SQLite file and a PostgreSQL of its own if not given")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--clients", type=int, default=6000)
    parser.add_argument("--connections", type=int, default=64, help="that each process has at once")
    parser.add_argument("--repeats", type=int, default=1, help="runs of one and of two processes, in turns")
    parser.add_argument("--tokens", type=int, default=0, help="issue so many tokens, and nothing else")
    given = parser.parse_args()
    given.clients = min(given.clients, MOST_CLIENTS)
    if given.tokens:
        with tempfile.TemporaryDirectory() as folder, servers.postgres() as cluster:
            print(issued(f"sqlite:///{folder}/tokens.db", given.tokens, None))
            print(issued(cluster.new_database(), given.tokens, cluster))
        return 0
    print(HEADER)

    def show(url: str, scheme: str, processes: int, cluster: servers.Postgres | None = None) -> SessionLoad:
        found = loaded(url, scheme, processes, given, cluster)
        print(found.row(), flush=True)
        return found

    with tempfile.TemporaryDirectory() as folder:
        for scheme in ("blake2b", "ristretto255"):
            if given.database:
                show(given.database, scheme, 1)
            elif given.only != "postgresql":
                show(f"sqlite:///{folder}/{scheme}.db", scheme, 1)
    if given.database is None and given.only != "sqlite":
        with servers.postgres() as cluster:
            show(cluster.new_database(), "ristretto255", 1, cluster)
            turns = [number for _ in range(given.repeats) for number in (1, 2)]
            runs = [show(cluster.new_database(), "blake2b", number, cluster) for number in turns]
        one, two = (
            min((run for run in runs if run.processes == number), key=lambda run: run.server + run.database)
            for number in (1, 2)
        )
        gain, apart = two.capacity() / one.capacity(), 2 * one.server / two.server
        print(
            f"two processes on two cores: {gain:.2f} times one, {apart:.2f} times where the database has its own cores"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
