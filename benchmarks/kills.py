"""Random kills of server, database and client: no report is lost, and none is counted twice.

Rounds of some kills each, on SQLite and on PostgreSQL, with hash and with Pedersen commitments. In a round, clients
take part one after the other, some at a time, each a process of its own with its state file, while one of the processes
is killed (SIGKILL) again and again, at random moments: also while it starts, or recovers. What was killed is started
again. At the end each client must have one accepted report and have paid for one, and the log must hold those reports,
as the clients know them, and no others.

    python benchmarks/kills.py [--kills 2000] [--seed 1] [--record kills.jsonl]

The record has a line for each round; run again with the same record, it goes on with the next round.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx

import servers
from veridp.accounting.ledger import Ledger
from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.collect import Task
from veridp.collect.client import Record
from veridp.collect.messages import Invitation, Refused, SessionVerdict, decode
from veridp.collect.service import operations
from veridp.collect.service.background import VerifierPool
from veridp.collect.service.http_client import Server, join
from veridp.collect.service.store import token_hash
from veridp.collect.transcript import audit
from veridp.errors import BadInput

ADMIN = "admin token of the kills"
FORK = multiprocessing.get_context("fork")  # what is forked has imported everything already, so that rounds are quick
KILLS_PER_ROUND = 40
CLIENTS_AT_ONCE = 6
LONGEST_PAUSE = 0.3  # seconds before a kill, once the server answers or, in every other case, does not yet
PATIENCE = 120.0  # seconds until everybody is done once the kills are over
REFUSED, AWAY = 3, 4  # how a client ends that was refused, or found nobody


@dataclass(frozen=True)
class Round:
    """What a round came to."""

    number: int
    database: str
    scheme: str
    clients: int
    kills: dict[str, int]
    faults: list[str]


def serve(settings: operations.ServiceSettings, port: int) -> None:
    os.setpgrp()  # it and its judges are killed together
    with contextlib.suppress(BadInput):  # the database may be away: it is started again
        operations.run(settings, "127.0.0.1", port)


def take_part(url: str, token: str, task: str, state: Path) -> None:
    ledger = state.with_suffix(".ledger")
    if not ledger.exists():
        fresh = ledger.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        Ledger.create(fresh, Claim(1.0))
        fresh.rename(ledger)
    try:
        with Server(url, token, Deadline(60)) as server:
            join(server, task, "cat", state, Ledger(ledger))
    except Refused as refusal:
        state.with_suffix(".refused").write_text(str(refusal))
        os._exit(REFUSED)
    except BadInput:
        os._exit(AWAY)


@dataclass
class World:
    """A server, its database and its clients, in a folder."""

    folder: Path
    task: Task
    rng: random.Random
    url: str
    settings: operations.ServiceSettings
    port: int
    postgres: servers.Postgres | None
    tokens: list[str] = field(default_factory=list)
    server: BaseProcess | None = None
    clients: dict[int, BaseProcess] = field(default_factory=dict)  # by number, those under way
    begun: int = 0
    finished: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    closing: bool = False

    def state(self, number: int) -> Path:
        return self.folder / f"client-{number}.state"

    def tend(self) -> None:
        """Start again whatever has ended, and let new clients begin."""
        if self.postgres is not None and not self.postgres.family():
            self.postgres.start()
        if self.server is None or not self.server.is_alive():
            self.server = _forked(serve, self.settings, self.port)
        for number, process in list(self.clients.items()):
            if process.is_alive():
                continue
            del self.clients[number]
            if process.exitcode == 0:
                self.finished.add(number)
            elif process.exitcode in (-signal.SIGKILL, AWAY):
                self._start_client(number)
            else:
                self.faults.append(f"client {number} ended with {process.exitcode}: {self._refusal(number)}")
        while not self.closing and len(self.clients) < CLIENTS_AT_ONCE and self.begun < len(self.tokens):
            self._start_client(self.begun)
            self.begun += 1

    def _start_client(self, number: int) -> None:
        given = (self.url, self.tokens[number], self.task.name, self.state(number))
        self.clients[number] = _forked(take_part, *given)

    def _refusal(self, number: int) -> str:
        with contextlib.suppress(OSError):
            return self.state(number).with_suffix(".refused").read_text()
        return "no refusal is known"

    def kill(self) -> str:
        """Kill something that runs; its name."""
        kinds = ["server", "client", *(["database"] if self.postgres is not None else [])]
        kind = self.rng.choice(kinds)
        if kind == "database" and self.postgres is not None:
            self.postgres.kill()
        elif kind == "client" and self.clients:
            process = self.clients[self.rng.choice(sorted(self.clients))]
            process.kill()
            process.join()
        else:
            kind = "server"
            assert self.server is not None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.server.pid or 0, signal.SIGKILL)
            self.server.kill()
            self.server.join()
        return kind

    def settle(self) -> None:
        """Let all who began finish."""
        self.closing, end = True, time.monotonic() + PATIENCE
        while self.clients and time.monotonic() < end:
            self.tend()
            time.sleep(0.02)
        if self.clients:
            self.faults.append(f"{len(self.clients)} clients are not done in {PATIENCE:g} s")

    def close(self) -> None:
        for process in (*self.clients.values(), *([self.server] if self.server else [])):
            process.terminate()
            process.join(20)
            process.kill()


def _forked(target: Callable[..., None], *arguments: object) -> BaseProcess:
    process = FORK.Process(target=target, args=arguments)
    process.start()
    return process


def asked(world: World, verb: str, path: str, document: object = None) -> httpx.Response:
    """What the administrator is answered, asked again while the server or the database is away."""
    end = time.monotonic() + PATIENCE
    headers = {"Authorization": f"Bearer {ADMIN}"}
    while True:
        world.tend()
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.request(verb, world.url + path, json=document, headers=headers, timeout=60)
            if answer.status_code == 200:
                return answer
        if time.monotonic() > end:
            raise TimeoutError(f"{verb} {path} is not answered")
        time.sleep(0.05)


def checked(world: World) -> list[str]:
    """Where what clients know and what the server has differ."""
    faults = list(world.faults)
    records = {}
    for number in range(world.begun):
        if not world.state(number).exists():
            faults.append(f"client {number} has no state")
            continue
        record = Record.unpacked(world.state(number).read_bytes())
        session = decode(record.invitation, Invitation).session
        if session in records:
            faults.append(f"client {number} has the session of another one")
        records[session] = record
        if not record.verdict or not decode(record.verdict, SessionVerdict).accepted or not record.receipt:
            faults.append(f"client {number} has no accepted report with a receipt")
        paid = Ledger(world.state(number).with_suffix(".ledger")).statement().entries
        if len(paid) != 1:
            faults.append(f"client {number} has paid {len(paid)} times")
    status = asked(world, "GET", f"/tasks/{world.task.name}/status").json()
    if (status["accepted"], status["rejected"]) != (world.begun, 0):
        faults.append(f"{status['accepted']} accepted, {status['rejected']} rejected; {world.begun} clients")
    log = asked(world, "GET", f"/tasks/{world.task.name}/log").content
    found = audit(io.BytesIO(log), own=records.values())
    faults += found.faults
    if sorted(found.sessions) != sorted(records):
        faults.append("the accepted sessions of the log are not those of the clients")
    outputs = sorted(decode(record.verdict, SessionVerdict).outputs for record in records.values() if record.verdict)
    if sorted(found.outputs) != outputs:
        faults.append("the reports of the log are not those of the clients")
    return faults


def play(number: int, seed: int, kills: int, postgres: servers.Postgres | None, scheme: str) -> Round:
    """One round."""
    rng, port = random.Random(f"{seed} {number}"), servers.free_port()  # noqa: S311 - moments and victims
    with tempfile.TemporaryDirectory(prefix="kills") as name:
        folder = Path(name)
        keys = folder / "keys"
        keys.touch(mode=0o600)
        keys.write_text(rng.randbytes(32).hex())
        database = f"sqlite:///{folder}/collect.db" if postgres is None else postgres.new_database()
        settings = operations.ServiceSettings(
            database, ADMIN, rate=0, key_file=str(keys), signing_key_file=str(keys), database_seconds=5
        )
        items = ("ant", "bee", "cat", "dog", "elk")
        task = Task("pets", "vgrr", math.log(2), items=items, scheme=scheme, minimum_batch=1, session_seconds=86_400)
        tokens = [f"token {number}-{i}" for i in range(50 * kills)]
        world = World(folder, task, rng, f"http://127.0.0.1:{port}", settings, port, postgres)
        try:
            asked(world, "PUT", f"/tasks/{task.name}", json.loads(task.to_json()))
            asked(world, "PUT", f"/tasks/{task.name}/tokens", {"hashes": [token_hash(t).hex() for t in tokens]})
            world.tokens = tokens
            done: Counter[str] = Counter()
            for _ in range(kills):
                if rng.random() < 0.5:
                    asked(world, "GET", "/healthz")
                _tend_for(world, rng.uniform(0, LONGEST_PAUSE))
                done[world.kill()] += 1
            world.settle()
            kind = "sqlite" if postgres is None else "postgresql"
            return Round(number, kind, scheme, world.begun, dict(done), checked(world))
        finally:
            world.close()


def _tend_for(world: World, seconds: float) -> None:
    """Tend the world for so long."""
    world.tend()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.005)
        world.tend()


@contextlib.contextmanager
def database_of(number: int) -> Iterator[servers.Postgres | None]:
    """PostgreSQL for two rounds of three, where it is installed."""
    with contextlib.ExitStack() as stack:
        found = None
        if number % 3:
            with contextlib.suppress(FileNotFoundError):
                found = stack.enter_context(servers.postgres())
        yield found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, default=Path("kills.jsonl"))
    given = parser.parse_args()

    async def not_started(pool: VerifierPool) -> None:
        """A pool starts when it is needed: here servers live for less than it takes."""

    VerifierPool.ready = not_started  # type: ignore[method-assign, assignment]
    lines = given.record.read_text().splitlines() if given.record.exists() else []
    total: Counter[str] = Counter()
    clients, faults = 0, 0
    for line in lines:
        kept = json.loads(line)
        total.update(kept["kills"])
        clients, faults = clients + kept["clients"], faults + len(kept["faults"])
    number = len(lines)
    while (left := given.kills - sum(total.values())) > 0:
        with database_of(number) as postgres:
            scheme = "ristretto255" if number % 10 == 9 else "blake2b"
            found = play(number, given.seed, min(left, KILLS_PER_ROUND), postgres, scheme)
        with given.record.open("a") as record:
            record.write(json.dumps(asdict(found)) + "\n")
        total.update(found.kills)
        clients, faults, number = clients + found.clients, faults + len(found.faults), number + 1
        print(f"{sum(total.values())} kills {dict(total)}, {clients} reports, {faults} faults", flush=True)
        for fault in found.faults:
            print(f"  {found.database}, {found.scheme}: {fault}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
