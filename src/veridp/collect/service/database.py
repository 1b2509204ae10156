"""The tables, connections to SQLite or PostgreSQL, and the migrations that bring a database up to date."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from veridp.errors import BadInput

# -------------------------------------------------------------------------------------------------------------- schema
# The tables: tasks, the hashes of their tokens, and sessions. `migrations/` makes and changes them.


metadata = MetaData()

tasks = Table(
    "tasks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("document", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("task", Text, ForeignKey("tasks.name"), primary_key=True),
    Column("token", LargeBinary, primary_key=True),  # its hash
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("task", Text, ForeignKey("tasks.name"), nullable=False),
    Column("token", LargeBinary, nullable=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("stage", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("commitment", LargeBinary),
    Column("opening", LargeBinary),
    Column("outputs", LargeBinary),
    UniqueConstraint("task", "token", name="one_session_per_token"),
    Index("sessions_by_stage", "task", "stage", "reason", "expires"),
)


# ------------------------------------------------------------------------------------------------------------ database
# Connections to SQLite or PostgreSQL, and the migrations that bring a database up to date.


MIGRATION_LOCK = 0x7665726964  # of PostgreSQL, so that servers that start together migrate one after the other
BUSY_MS = 60_000


@dataclass(frozen=True)
class Database:
    """Two ways into one database: `writer` takes the write lock when a transaction begins, `reader` never does."""

    writer: Engine
    reader: Engine

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
            database = cls(_sqlite(url, immediate=True), _sqlite(url, immediate=False))
        elif backend == "postgresql":
            full = parsed.set(drivername="postgresql+psycopg")
            one_moment = {"isolation_level": "REPEATABLE READ"}  # all that is read belongs together
            database = cls(
                create_engine(full, pool_pre_ping=True), create_engine(full, pool_pre_ping=True, **one_moment)
            )
        else:
            raise BadInput(f"{backend} is not supported; use sqlite:///… or postgresql://…")
        try:
            with database.writer.begin() as connection:
                upgrade(connection)
        except SQLAlchemyError as error:
            database.close()
            first = str(error).splitlines()[0]
            raise BadInput(f"cannot open the database: {first}; check the URL and that the server runs") from None
        return database

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees what was committed."""
        with self.reader.connect() as connection:
            yield connection

    def close(self) -> None:
        self.writer.dispose()
        self.reader.dispose()


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


def _sqlite(url: str, *, immediate: bool) -> Engine:
    """SQLite with a write-ahead log that is flushed at every commit: what is acknowledged survives a power cut."""
    engine = create_engine(url, connect_args={"timeout": BUSY_MS / 1000})

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
