"""How many sessions a second the service sustains. `python benchmarks/service.py [--quick] [--database URL]`

A server is started on this machine, and a crowd of honest clients in this process takes part over loopback: three
requests for each, every one durable before it is answered (SQLite flushes at every commit). The latencies are as the
clients see them; the crowd shares the cores with the server, so a server that has them for itself does more. The
processor time for each session, of the server with its judges and of the crowd, says how much.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import secrets
import socket
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

from veridp.collect import Task
from veridp.collect.service.http_client import STEPS, Rehearsal, rehearse
from veridp.collect.service.store import token_hash

ADMIN = secrets.token_hex(16)
MOST_CLIENTS = 20_000
PATIENCE = 60.0  # seconds until the server must answer


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    process: psutil.Process

    def cpu(self) -> float:
        """The processor seconds that it and its processes have taken."""
        family = [self.process, *self.process.children(recursive=True)]
        return float(sum(member.cpu_times().user + member.cpu_times().system for member in family))


@contextlib.contextmanager
def served(database: str, processes: int, folder: Path) -> Iterator[Served]:
    """A server that ends with the block, with its key file in the folder."""
    keys = folder / "keys"
    keys.touch(mode=0o600)
    keys.write_text(secrets.token_hex(32))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "veridp.cli", "collect", "serve", "--port", str(port), "--rate", "0"]
    process = subprocess.Popen(  # noqa: S603
        [
            *command,
            "--database",
            database,
            "--processes",
            str(processes),
            "--key-file",
            str(keys),
            "--signing-key-file",
            str(keys),
        ],
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


def prepared(url: str, task: Task, clients: int) -> list[str]:
    """The task, with so many tokens."""
    tokens = [secrets.token_urlsafe(16) for _ in range(clients)]
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=120) as http:
        http.put(f"/tasks/{task.name}", json=json.loads(task.to_json())).raise_for_status()
        hashes = {"hashes": [token_hash(token).hex() for token in tokens]}
        http.put(f"/tasks/{task.name}/tokens", json=hashes).raise_for_status()
    return tokens


def take_part(url: str, task: Task, tokens: list[str], seed: int, connections: int) -> Rehearsal:
    """What a crowd with these tokens saw, on the event loop that takes least of the cores it shares with the server."""
    crowd = rehearse(url, task, ["7"] * len(tokens), tokens, seed=seed, connections=connections, seconds=300)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(crowd)


def share(latencies: list[float], part: float) -> float:
    """The latency, in milliseconds, that this part of the requests does not exceed."""
    return sorted(latencies)[min(int(part * len(latencies)), len(latencies) - 1)] * 1e3


def show(found: Rehearsal, clients: int, what: str, server: float, crowd: float) -> None:
    lost = clients - len(found.accepted)
    rate = clients / found.seconds
    print(f"{what}: {rate:.0f} sessions/s sustained over {found.seconds:.1f} s, {lost} not accepted")
    each = [spent / clients * 1e3 for spent in (server, crowd)]
    print(f"  processor time for each session: server {each[0]:.2f} ms, crowd {each[1]:.2f} ms")
    for step in STEPS:
        times = found.latencies[step]
        print(f"  {step:<8} median {share(times, 0.5):7.1f} ms   p99 {share(times, 0.99):7.1f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer clients")
    parser.add_argument("--database", help="a URL; a fresh SQLite file if not given")
    parser.add_argument("--processes", type=int, default=1, help="server processes")
    parser.add_argument("--clients", type=int, default=6000)
    parser.add_argument("--connections", type=int, default=16)
    given = parser.parse_args()
    clients = min(1000 if given.quick else given.clients, MOST_CLIENTS)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        url = given.database or f"sqlite:///{folder}/collect.db"
        with served(url, given.processes, Path(folder)) as server:
            for scheme in ("blake2b", "ristretto255"):
                number = clients if scheme == "blake2b" else clients // 4
                name = f"load-{scheme}-{secrets.token_hex(4)}"
                task = Task(name, "vgrr", math.log(2), items=tuple(map(str, range(73))), scheme=scheme)
                tokens = prepared(server.url, task, number)
                warm, rest = tokens[: number // 10], tokens[number // 10 :]
                take_part(server.url, task, warm, 1, given.connections)
                before = server.cpu(), time.process_time()
                found = take_part(server.url, task, rest, 2, given.connections)
                spent = server.cpu() - before[0], time.process_time() - before[1]
                what = f"{url.split(':')[0]}, {scheme}, 73 items, {given.connections} connections"
                show(found, len(rest), what, *spent)
                good &= len(found.accepted) == len(rest)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
