"""Partitions of PostgreSQL: each task has its own of every table that grows with a collection.

So the pages that a task's requests read depend on no other task, and deleting a task empties files instead of rows.
SQLite has one table for all tasks, of which a deleted task leaves some rows at a time.

Statements name the partition itself. Through the whole table they would need the task as a condition, of which
PostgreSQL believes, until it has analysed the partition, that it selects few rows: it then reads all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b

from sqlalchemy import ColumnElement, Connection, Engine, MetaData, Table, delete, literal_column, select, text
from sqlalchemy.exc import DBAPIError, OperationalError

from veridp.collect.messages import Reason, Refused
from veridp.collect.service.schema import (
    sessions,
    supports,
    tallies,
    tasks,
    tokens,
    tree_nodes,
    under_way,
    unlogged,
)

PARTITIONED = (sessions, tokens, tree_nodes)  # in the order in which they are locked
RUNNING_SUMS = (unlogged, tallies, under_way, supports)  # what changes with a session
PAGE_FILL = {sessions.name: 30}  # per cent of a page that new rows take: sessions grow with each step
LOCK_MS = 500  # that a change of a whole table waits for those who use it, and others behind it
CLEAR_MS = 2000  # that a deletion waits for those who use its task; PostgreSQL ends an autovacuum for it after a second
DELETED = select(tasks.c.name).where(tasks.c.deleted)
ROWS_TOGETHER = 1000  # that are removed from SQLite in one transaction: clients wait for it, some 30 ms

log = logging.getLogger("veridp.collect")


def partition_name(table: str, task: str) -> str:
    """The name of the task's partition; names of tasks may be longer than PostgreSQL's."""
    return f"{table}_{blake2b(task.encode(), digest_size=16, person=b'veridp partition').hexdigest()}"


@lru_cache(maxsize=1024)
def _partition(table: Table, task: str) -> Table:
    return table.to_metadata(MetaData(), name=partition_name(table.name, task))


def part_of(connection: Connection, table: Table, task: str) -> Table:
    """Where the task's rows are: a partition, or the table, in which others may be too."""
    return _partition(table, task) if connection.dialect.name == "postgresql" else table


def within(connection: Connection, body: str, task: str) -> str:
    """The statement with the places of the task's rows for `{sessions}` and `{tokens}`."""
    return _within(body, task if connection.dialect.name == "postgresql" else None)


@lru_cache(maxsize=4096)
def _within(body: str, task: str | None) -> str:
    names = (table.name for table in PARTITIONED)
    return body.format_map({name: name if task is None else partition_name(name, task) for name in names})


def is_missing(error: BaseException) -> bool:
    """Whether a statement failed because its task was deleted meanwhile, and its partition dropped."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == "42P01"  # undefined_table


def add_partitions(connection: Connection, task: str) -> None:
    """Make the partitions of a new task.

    They are attached once they are complete: creating one in its place would wait for all who use the table, and keep
    others waiting. Those who use it do not notice an attachment, which waits for nobody but who changes or analyses the
    whole table; it is refused where that takes long.
    """
    if connection.dialect.name != "postgresql":
        return
    with _refused_if_locked(connection, LOCK_MS, "the tables are being analysed or changed; try again later"):
        for table in PARTITIONED:
            part, whole = partition_name(table.name, task), table.name
            fill = f" WITH (fillfactor = {PAGE_FILL[whole]})" if whole in PAGE_FILL else ""
            connection.execute(text(f"CREATE TABLE {part} (LIKE {whole} INCLUDING ALL){fill}"))
            connection.execute(text(f"ALTER TABLE {whole} ATTACH PARTITION {part} FOR VALUES IN ({_quoted(task)})"))


def clear(connection: Connection, task: str) -> None:
    """Remove what clients sent to a task, refused where somebody reads it for long; of SQLite, `drop_some` does it."""
    if connection.dialect.name != "postgresql":
        return
    in_use = f"the task {task!r} is in use; try again when exports and backups have ended"
    with _refused_if_locked(connection, CLEAR_MS, in_use):
        connection.execute(text(f"TRUNCATE {_partitions(task)}"))
    for table in RUNNING_SUMS:  # last: who changes a session adds to its sums before others may go on
        connection.execute(delete(table).where(table.c.task == task))


def drop_some(connection: Connection) -> bool:
    """Remove some rows of deleted tasks from SQLite; whether there were any.

    Sums are last: a session that was under way may change them as long as it is there.
    """
    row: ColumnElement[int] = literal_column("rowid")
    for table in (*PARTITIONED, *RUNNING_SUMS):
        some = select(row).select_from(table).where(table.c.task.in_(DELETED)).limit(ROWS_TOGETHER)
        if connection.execute(delete(table).where(row.in_(some))).rowcount:
            return True
    return False


def hold(connection: Connection, task: str) -> None:
    """Keep the task's rows until the transaction ends; before anything else in it, as a snapshot would not."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"LOCK TABLE {_partitions(task)} IN ACCESS SHARE MODE"))


def drop_deleted(engine: Engine) -> None:
    """Drop the empty partitions of deleted tasks; a whole table that is being read keeps its own until the next time.

    Each is a transaction of its own, which locks one table alone, and so is never part of a deadlock.
    """
    if engine.dialect.name != "postgresql":
        return
    with engine.connect() as connection:
        deleted = connection.execute(DELETED).scalars().all()
        parents = ", ".join(f"'{table.name}'::regclass" for table in PARTITIONED)
        attached = text(f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent IN ({parents})")  # noqa: S608
        kept = set(connection.execute(attached).scalars())
    for part in sorted(kept & {partition_name(table.name, task) for table in PARTITIONED for task in deleted}):
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MS}"))
                connection.execute(text(f"DROP TABLE IF EXISTS {part}"))
        except OperationalError as error:
            if not _waited_too_long(error):
                raise
            log.info("the empty partition %s is dropped later: its table is in use", part)


@contextmanager
def _refused_if_locked(connection: Connection, most_ms: int, found: str) -> Iterator[None]:
    """Refuse, for this reason, what waits longer than that for a lock."""
    try:
        connection.execute(text(f"SET LOCAL lock_timeout = {most_ms}"))
        yield
    except OperationalError as error:
        if not _waited_too_long(error):
            raise
        raise Refused(Reason.UNAVAILABLE, found) from None


def _waited_too_long(error: OperationalError) -> bool:
    return getattr(error.orig, "sqlstate", None) == "55P03"  # lock_not_available


def _partitions(task: str) -> str:
    return ", ".join(partition_name(table.name, task) for table in PARTITIONED)


def _quoted(task: str) -> str:
    return "'" + task.replace("'", "''") + "'"
