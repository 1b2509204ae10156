"""Connections to SQLite or PostgreSQL, and the migrations that bring a database up to date."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from veridp.collect.service.keys import make_private
from veridp.collect.service.rows import register_arrays
from veridp.collect.service.tally import SHARDS, SessionTally
from veridp.errors import BadInput

TALLY = "veridp tally"  # of a transaction
MIGRATION_LOCK = 0x7665726964  # of PostgreSQL, so that servers that start together migrate one after the other
BUSY_MS = 60_000
CONNECT_SECONDS = 10
RECONNECT_SECONDS = 3600  # PostgreSQL keeps some 40 kB for each task that a connection has served, until it is closed
PLANNING = {  # of PostgreSQL: rows are found by an index, and tables are joined in the order that a statement has
    **dict.fromkeys(("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"), "off"),
    "join_collapse_limit": "1",
    "plan_cache_mode": "force_generic_plan",  # so a statement is planned once for a connection
}
NO_VALUES_IN_ERRORS: dict[str, Any] = {"hide_parameters": True}  # errors are logged, and a nonce may be among them
PREPARED_STATEMENTS = 500  # that a connection of PostgreSQL keeps: some ten of each task
OUT_OF_MEMORY = "53200"  # of PostgreSQL, for locks: a migration takes some for each task
OLDEST_SQLITE = (3, 35)  # that returns the rows it changed


@dataclass(frozen=True)
class Database:
    """Two ways into one database: `writer` takes the write lock when a transaction begins, `reader` never does.

    Sessions change through `writing` alone, which keeps the running sums; `shard` is where this process adds to them,
    and `sums` are those of support that it wrote last, by task.
    """

    writer: Engine
    reader: Engine
    shard: int = field(default_factory=lambda: secrets.randbelow(SHARDS))
    sums: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Database:
        """The database at this URL, migrated to the newest version. A file that is missing is made, if `create`."""
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise BadInput(
                f"{url!r} is not a database URL; write sqlite:///collect.db or postgresql://user@host/name"
            ) from None
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            if not (create or Path(parsed.database or "").is_file()):
                raise BadInput(f"there is no database {parsed.database!r}; use the URL of the server")
            if sqlite3.sqlite_version_info < OLDEST_SQLITE:
                raise BadInput(
                    f"SQLite {sqlite3.sqlite_version} is too old; use PostgreSQL, or a Python with SQLite 3.35 or newer"
                )
            make_private(_file(parsed.database))
            database = cls(_sqlite(url, immediate=True), _sqlite(url, immediate=False))
        elif backend == "postgresql":
            full = parsed.set(drivername="postgresql+psycopg")
            one_moment = {"isolation_level": "REPEATABLE READ"}  # all that is read belongs together
            renewed = {"pool_recycle": RECONNECT_SECONDS, "connect_args": {"connect_timeout": CONNECT_SECONDS}}
            patient = {**renewed, **NO_VALUES_IN_ERRORS}
            # Steps are tried again, so a writer need not ask first whether its connection is still there.
            database = cls(
                create_engine(full, **patient), create_engine(full, pool_pre_ping=True, **patient, **one_moment)
            )
            for engine in (database.writer, database.reader):
                event.listen(engine, "connect", _by_index)
                event.listen(engine, "connect", lambda connection, _: register_arrays(connection))
        else:
            raise BadInput(f"{backend} is not supported; use sqlite:///… or postgresql://…")
        try:
            with database.writer.begin() as connection:
                upgrade(connection)
        except BaseException as error:
            database.close()
            if not isinstance(error, SQLAlchemyError):
                raise
            first = str(error).splitlines()[0]
            remedy = "check the URL and that the server runs"
            if getattr(getattr(error, "orig", None), "sqlstate", None) == OUT_OF_MEMORY:
                remedy = "set max_locks_per_transaction = 1024 in postgresql.conf and restart PostgreSQL"
            raise BadInput(f"cannot open the database: {first}; {remedy}") from None
        return database

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees what was committed."""
        with self.reader.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction in which sessions may change."""
        with self.writer.begin() as connection:
            tally, kept = SessionTally(), connection.info  # a connection that is lost no longer says what it keeps
            kept[TALLY] = tally
            try:
                yield connection
                sums = tally.write(connection, self.shard, self.sums)
            finally:
                del kept[TALLY]
        self.sums.update(sums)

    def close(self) -> None:
        self.writer.dispose()
        self.reader.dispose()


def _file(name: str | None) -> str:
    if not name or name.startswith(("file:", ":memory:")):
        raise BadInput(f"the database {name!r} is not a file; write sqlite:///collect.db")
    return name


def upgrade(connection: Connection) -> None:
    """Bring the tables up to date, within the connection's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with as_file(files(__package__) / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _by_index(connection: Any, record: object) -> None:
    """Prevent plans that read a whole table: PostgreSQL keeps a plan made while it was small when it is large.

    Before a table is analysed, it also assumes that a task has few tokens, and would read all of them.
    """
    with connection.cursor() as cursor:
        connection.prepared_max = PREPARED_STATEMENTS
        cursor.execute("; ".join(f"SET {name} = {value}" for name, value in PLANNING.items()))
    connection.commit()


def _sqlite(url: str, *, immediate: bool) -> Engine:
    """SQLite with a write-ahead log that is flushed at every commit: what is acknowledged survives a power cut."""
    engine = create_engine(url, connect_args={"timeout": BUSY_MS / 1000}, **NO_VALUES_IN_ERRORS)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def tally_of(connection: Connection) -> SessionTally:
    """What the transaction adds to the running sums; there is one in `Database.writing` only."""
    found: SessionTally = connection.info[TALLY]
    return found
