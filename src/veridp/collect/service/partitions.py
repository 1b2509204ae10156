"""PostgreSQL partitions by task: each task has its own part of every table that grows with a collection.

The pages that a task's requests read therefore depend on no other task, and deleting a task truncates files instead of
deleting rows. SQLite keeps all tasks in one table, from which the rows of a deleted task are removed a few at a time.

Statements name the partition directly. A condition on the task would not do: until PostgreSQL has analysed a partition,
it assumes that the condition selects few rows, and chooses a plan that reads all of them.
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
LOCK_MS = 500  # that a change of a whole table waits for its users; other statements queue behind it
CLEAR_MS = 2000  # that a deletion waits for users of its task; PostgreSQL cancels an autovacuum for it after a second
DELETED = select(tasks.c.name).where(tasks.c.deleted)
ROWS_TOGETHER = 1000  # that are removed from SQLite in one transaction: clients wait for it, some 30 ms

log = logging.getLogger("veridp.collect")


def partition_name(table: str, task: str) -> str:
    """The name of the task's partition: a digest, since the name of a task may exceed PostgreSQL's limit."""
    return f"{table}_{blake2b(task.encode(), digest_size=16, person=b'veridp partition').hexdigest()}"


@lru_cache(maxsize=1024)
def _partition(table: Table, task: str) -> Table:
    return table.to_metadata(MetaData(), name=partition_name(table.name, task))


def part_of(connection: Connection, table: Table, task: str) -> Table:
    """The table that holds the task's rows: its partition, or on SQLite the table of all tasks."""
    return _partition(table, task) if connection.dialect.name == "postgresql" else table


def within(connection: Connection, body: str, task: str) -> str:
    """The statement with the tables that hold the task's rows in place of `{sessions}` and `{tokens}`."""
    return _within(body, task if connection.dialect.name == "postgresql" else None)


@lru_cache(maxsize=4096)
def _within(body: str, task: str | None) -> str:
    names = (table.name for table in PARTITIONED)
    return body.format_map({name: name if task is None else partition_name(name, task) for name in names})


def is_missing(error: BaseException) -> bool:
    """Whether a statement failed because its task was deleted and the partition dropped."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == "42P01"  # undefined_table


def add_partitions(connection: Connection, task: str) -> None:
    """Create the partitions of a new task.

    Each is created as a table of its own and then attached. `CREATE TABLE ... PARTITION OF` would wait for all readers
    and writers of the whole table and block later ones. Attaching waits only for statements that change or analyse the
    whole table, and the task is refused if they take long.
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
    """Delete what clients sent to a task; refused while somebody reads it. On SQLite, `drop_some` does this."""
    if connection.dialect.name != "postgresql":
        return
    in_use = f"the task {task!r} is in use; try again when exports and backups have ended"
    with _refused_if_locked(connection, CLEAR_MS, in_use):
        connection.execute(text(f"TRUNCATE {_partitions(task)}"))
    for table in RUNNING_SUMS:  # last: a transaction that changed a session has added to the sums before it let go
        connection.execute(delete(table).where(table.c.task == task))


def drop_some(connection: Connection) -> bool:
    """Remove some rows of deleted tasks from SQLite; returns whether there were any.

    Sums go last: a session under way may still add to them until its row is removed.
    """
    row: ColumnElement[int] = literal_column("rowid")
    for table in (*PARTITIONED, *RUNNING_SUMS):
        some = select(row).select_from(table).where(table.c.task.in_(DELETED)).limit(ROWS_TOGETHER)
        if connection.execute(delete(table).where(row.in_(some))).rowcount:
            return True
    return False


def hold(connection: Connection, task: str) -> None:
    """Prevent the task's deletion until the transaction ends.

    To be called before the transaction's snapshot is taken: a snapshot does not protect rows from `TRUNCATE`.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"LOCK TABLE {_partitions(task)} IN ACCESS SHARE MODE"))


def drop_deleted(engine: Engine) -> None:
    """Drop the empty partitions of deleted tasks, except those of a whole table that is being read.

    Each is dropped in its own transaction, which locks one table only and so cannot take part in a deadlock.
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
    """Refuse a statement that waits longer than this for a lock."""
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
