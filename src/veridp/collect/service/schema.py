"""The tables: tasks, the hashes of their tokens, sessions, running sums, and the tree of decided sessions.

`migrations/` makes and changes them. On PostgreSQL, tokens, sessions and tree nodes are partitioned by task.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData()
PLACED = text("position IS NOT NULL")

tasks = Table(
    "tasks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("document", Text, nullable=False),
    Column("closes", BigInteger),  # before its definition ends it, in seconds since 1970
    Column("deleted", Boolean, nullable=False, server_default=false()),
)

tokens = Table(
    "tokens",
    metadata,
    Column("task", Text, primary_key=True),
    Column("token", LargeBinary, primary_key=True),  # its hash
)

sessions = Table(  # no index depends on what a step changes, so PostgreSQL leaves the indexes alone (HOT updates)
    "sessions",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("task", Text, primary_key=True),  # on SQLite, the number alone is the key
    Column("token", LargeBinary, nullable=False),
    Column("nonce", LargeBinary),  # once it was sent
    Column("promise", LargeBinary, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("stage", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("commitment", LargeBinary),
    Column("opening", LargeBinary),
    Column("outputs", LargeBinary),
    Column("position", BigInteger),  # in the tree, once it is decided and logged
    Column("leaf", LargeBinary),
    UniqueConstraint("task", "token", name="one_session_per_token"),
    Index("sessions_by_position", "task", "position", unique=True, sqlite_where=PLACED, postgresql_where=PLACED),
)

unlogged = Table(  # decided sessions that have no place in the tree yet
    "unlogged",
    metadata,
    Column("task", Text, primary_key=True),
    Column("id", LargeBinary, primary_key=True),
)

tallies = Table(  # how many sessions took a step, by the shard of the process that wrote it
    "tallies",
    metadata,
    Column("task", Text, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("sessions", BigInteger, nullable=False),
)

under_way = Table(  # how many sessions that expire then are at which stage; only all shards together are a number
    "under_way",
    metadata,
    Column("task", Text, primary_key=True),
    Column("expires", BigInteger, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("invited", BigInteger, nullable=False),
    Column("challenged", BigInteger, nullable=False),
)

supports = Table(  # how much accepted reports support each column
    "supports",
    metadata,
    Column("task", Text, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("sums", LargeBinary, nullable=False),  # a whole number of eight bytes for each column
)

tree_nodes = Table(  # of complete subtrees of at least a tile
    "tree_nodes",
    metadata,
    Column("task", Text, primary_key=True),
    Column("level", Integer, primary_key=True),
    Column("place", BigInteger, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
)

tree_heads = Table(  # the newest head of each task, as JSON
    "tree_heads",
    metadata,
    Column("task", Text, ForeignKey("tasks.name"), primary_key=True),
    Column("head", Text, nullable=False),
)
