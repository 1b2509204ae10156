"""The tables: tasks, the hashes of their tokens, and sessions. `migrations/` makes and changes them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, MetaData, Table, Text, UniqueConstraint

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
