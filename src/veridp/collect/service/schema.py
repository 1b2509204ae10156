"""The tables: tasks, the hashes of their tokens, sessions, and running sums. `migrations/` makes and changes them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

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
    Column("nonce", LargeBinary),  # once it was sent
    Column("promise", LargeBinary, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("stage", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("commitment", LargeBinary),
    Column("opening", LargeBinary),
    Column("outputs", LargeBinary),
    UniqueConstraint("task", "token", name="one_session_per_token"),
    Index("sessions_by_stage", "task", "stage", "reason", "expires"),
)

tallies = Table(  # how many sessions took a step, by the shard of the process that wrote it
    "tallies",
    metadata,
    Column("task", Text, ForeignKey("tasks.name"), primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("sessions", BigInteger, nullable=False),
)

supports = Table(  # how much accepted reports support each column
    "supports",
    metadata,
    Column("task", Text, ForeignKey("tasks.name"), primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("sums", LargeBinary, nullable=False),  # a whole number of eight bytes for each column
)
