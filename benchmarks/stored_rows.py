"""What each request costs where very many rows are stored, beside what it costs where there are few.

    python benchmarks/stored_rows.py [--rows 1000000] [--few 1000] [--only sqlite]

A task is filled with decided sessions, their tokens and their tree by bulk insertion, and each request's step is then
taken. Its work is counted, not timed: on SQLite the instructions of its virtual machine, on PostgreSQL the pages of
tables and indexes that it touches. The last column has the median of the milliseconds, for what they are worth.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, event, insert, text

import servers
from veridp.collect import Client, MemoryVault, Task
from veridp.collect.receipts import TreeHead
from veridp.collect.service import store, tree
from veridp.collect.service.background import Known
from veridp.collect.service.database import Database
from veridp.collect.service.handlers import _listed
from veridp.collect.service.keys import NonceKeys, SigningKey
from veridp.collect.service.operations import status_of
from veridp.collect.service.schema import tallies, tree_heads, tree_nodes, unlogged
from veridp.collect.task import Session

KEYS, SIGNING = NonceKeys((bytes(32),)), SigningKey(bytes(32))
TASK = Task("ages", "vgrr", math.log(2), items=tuple(map(str, range(73))))
REPEATS = 9
MOST_GROWTH = 1.5  # of the work, where the rows are a thousand times as many: trees get deeper
OPENING_BYTES = 367

TABLES = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
TOKENS = {
    "postgresql": "INSERT INTO tokens SELECT :task, sha256(int8send(i)) FROM generate_series(1, :rows) AS i",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows) "
    "INSERT INTO tokens SELECT :task, randomblob(32) FROM n",
}
SESSIONS = """
INSERT INTO sessions
(id, task, token, nonce, promise, expires, stage, reason, commitment, opening, outputs, position, leaf)
SELECT substr(token, 1, 16), task, token, token, token, 0, 'accepted', '', token, :opening, :outputs,
row_number() OVER () - 1, token FROM tokens
"""  # what is random is the token


def fill(database: Database, rows: int) -> None:
    """Store the task with so many accepted sessions, as they would stand after a collection.

    PostgreSQL neither analyses nor vacuums the tables: that may come late, no plan may depend on it, and the pages that
    it touches would be counted.
    """
    with database.writing() as connection:
        store.put_task(connection, TASK)
    with database.writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            for name in connection.execute(text(TABLES)).scalars().all():
                connection.execute(text(f"ALTER TABLE {name} SET (autovacuum_enabled = off)"))
        connection.execute(text(TOKENS[connection.dialect.name]), {"task": TASK.name, "rows": rows})
        connection.execute(text(SESSIONS), {"opening": bytes(OPENING_BYTES), "outputs": b"\x91\x07"})
        nodes = [
            {"task": TASK.name, "level": level, "place": place, "digest": hashlib.sha256(b"%d" % place).digest()}
            for level in range(tree.TILE, rows.bit_length())
            for place in range(rows >> level)
        ]
        for start in range(0, len(nodes), 10_000):
            connection.execute(insert(tree_nodes), nodes[start : start + 10_000])
        head = SIGNING.sign(TreeHead(TASK.digest, rows, 0, bytes(32), SIGNING.public))
        connection.execute(insert(tree_heads), {"task": TASK.name, "head": json.dumps(head.to_document())})
        steps = [
            {"task": TASK.name, "shard": 0, "step": step, "sessions": rows}
            for step in ("invited", "challenged", "accepted")
        ]
        connection.execute(insert(tallies), steps)


@dataclass
class Meter:
    """Counts the work of a database."""

    database: Database
    steps: int = 0
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for engine in (self.database.writer, self.database.reader):
            event.listen(engine, "before_cursor_execute", lambda *found: self.statements.append(found[2]))
            if engine.dialect.name == "sqlite":
                event.listen(engine, "connect", lambda driver, record: driver.set_progress_handler(self._count, 1))
            engine.dispose()  # connections that were made before are not counted

    def _count(self) -> int:
        self.steps += 1
        return 0

    def work(self) -> int:
        """Instructions of SQLite, or pages of PostgreSQL, so far."""
        if self.database.writer.dialect.name == "sqlite":
            return self.steps
        for engine in (self.database.writer, self.database.reader):
            with engine.connect() as connection:  # the pools have one connection each, which reports what it did
                connection.execute(text("SELECT pg_stat_force_next_flush()"))
        with self.database.reader.connect() as connection:
            kinds = ("heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit")
            total = " + ".join(f"coalesce(sum({kind}), 0)" for kind in kinds)
            return int(connection.execute(text(f"SELECT {total} FROM pg_statio_user_tables")).scalar_one())  # noqa: S608


@dataclass
class Requests:
    """The step of each request, each time for a client of its own."""

    database: Database
    rng: random.Random

    def token(self) -> bytes:
        found = self.rng.randbytes(32)
        with self.database.writer.begin() as connection:
            store.put_tokens(connection, TASK, [found])
        return found

    def written(self, step: Callable[[Connection], Any]) -> Any:
        with self.database.writing() as connection:
            return step(connection)

    def read(self, step: Callable[[Connection], Any]) -> Any:
        with self.database.reading() as connection:
            return step(connection)

    def each(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """The requests in the order in which a client makes them."""
        now, token, crowd = time.time(), self.token(), [(TASK, self.token()) for _ in range(64)]
        client = Client(TASK.protocol, TASK.verifier, MemoryVault(), self.rng)
        found: list[Session] = []

        def invite() -> None:
            found.append(self.written(lambda c: store.invite(c, TASK, token, now, KEYS)))

        def commit() -> None:
            sent = client.commit(found[0].invitation, "7")
            found.append(self.written(lambda c: store.put_commit(c, TASK, token, sent, now, Known(), KEYS)))

        def opening() -> None:
            sent = client.open(found[1].challenge)
            self.written(lambda c: store.put_opening(c, TASK, token, sent, now, TASK.verifier))

        yield "session", invite
        yield "64 sessions together", lambda: self.written(lambda c: store.invite_all(c, crowd, now, KEYS))
        yield "session, again", lambda: self.written(lambda c: store.invite(c, TASK, token, now, KEYS))
        yield "commit", commit
        yield "open", opening
        yield "which tasks to log", lambda: self.read(lambda c: tree.tasks_to_log(c, unlogged))
        yield "log", lambda: self.written(lambda c: tree.grow(c, TASK, SIGNING, lambda: now))
        yield "receipt", lambda: self.read(lambda c: tree.receipt_of(c, TASK, token))
        yield "head", lambda: self.read(lambda c: tree.head_of(c, TASK))
        yield "consistency", lambda: self.read(lambda c: tree.consistency_of(c, TASK, 400, 997))
        yield "status", lambda: self.read(lambda c: status_of(c, TASK, now))
        yield "tasks", lambda: self.read(_listed)
        yield "1000 tokens", lambda: self.written(lambda c: store.put_tokens(c, TASK, self.many()))

    def many(self) -> list[bytes]:
        return [self.rng.randbytes(32) for _ in range(1000)]


@dataclass(frozen=True)
class RequestCost:
    """The work of a request, and its milliseconds: medians."""

    work: float
    milliseconds: float


def measured(url: str, rows: int, repeats: int = REPEATS) -> dict[str, RequestCost]:
    """What each request costs with so many sessions stored."""
    database = Database.open(url)
    start = time.perf_counter()
    fill(database, rows)
    print(f"{url.partition(':')[0]}: {rows} sessions stored in {time.perf_counter() - start:.0f} s", flush=True)
    meter, requests = Meter(database), Requests(database, random.Random(rows))  # noqa: S311
    found: dict[str, list[tuple[int, float]]] = {}
    for _ in range(repeats):
        for name, run in requests.each():
            before, then = meter.work(), time.perf_counter()
            run()
            took = time.perf_counter() - then
            found.setdefault(name, []).append((meter.work() - before, took * 1e3))
    database.close()
    return {
        name: RequestCost(*(statistics.median(part) for part in zip(*all_, strict=True)))
        for name, all_ in found.items()
    }


def compared(few: dict[str, RequestCost], many: dict[str, RequestCost], what: str) -> list[str]:
    """Prints the table; the requests that cost more than they may."""
    print(f"| request | {what}, few rows | many rows | ms, many rows |\n|---|---|---|---|")
    for name, cost in many.items():
        print(f"| {name} | {few[name].work:.0f} | {cost.work:.0f} | {cost.milliseconds:.2f} |")
    return [name for name, cost in many.items() if cost.work > MOST_GROWTH * few[name].work + 10]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    given = parser.parse_args(arguments)
    grown: list[str] = []
    if given.only != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            few, many = (measured(f"sqlite:///{folder}/{rows}.db", rows) for rows in (given.few, given.rows))
        grown += compared(few, many, "instructions")
    if given.only != "sqlite":
        with servers.postgres() as cluster:
            few, many = (measured(cluster.new_database(), rows) for rows in (given.few, given.rows))
        grown += compared(few, many, "pages")
    print(f"requests whose cost grows with the rows: {', '.join(grown) or 'none'}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
