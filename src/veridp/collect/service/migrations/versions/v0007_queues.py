"""Sessions under way as running sums, and decided ones that wait for their place in the tree in a table of their own.

No index of `sessions` depends on the stage any more, so PostgreSQL changes a session within its page and leaves the
indexes alone; pages keep room for that.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

PLACED = sa.text("position IS NOT NULL")
UNLOGGED = sa.text("position IS NULL AND stage IN ('accepted', 'rejected')")
FULL = 30  # per cent of a page that new sessions fill: they grow by a commitment, an opening and a leaf


def upgrade() -> None:
    op.create_table(
        "under_way",
        sa.Column("task", sa.Text, sa.ForeignKey("tasks.name"), primary_key=True),
        sa.Column("expires", sa.BigInteger, primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True),
        sa.Column("invited", sa.BigInteger, nullable=False),
        sa.Column("challenged", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO under_way (task, expires, shard, invited, challenged) SELECT task, expires, 0, "
        "sum(CASE WHEN stage = 'invited' THEN 1 ELSE 0 END), sum(CASE WHEN stage = 'challenged' THEN 1 ELSE 0 END) "
        "FROM sessions WHERE stage IN ('invited', 'challenged') GROUP BY task, expires"
    )
    op.create_table(
        "unlogged",
        sa.Column("task", sa.Text, sa.ForeignKey("tasks.name"), primary_key=True),
        sa.Column("id", sa.LargeBinary, primary_key=True),
    )
    op.execute(f"INSERT INTO unlogged (task, id) SELECT task, id FROM sessions WHERE {UNLOGGED}")  # noqa: S608
    for index in ("sessions_by_stage", "sessions_unlogged", "sessions_by_position"):
        op.drop_index(index, "sessions")
    op.create_index(
        "sessions_by_position",
        "sessions",
        ["task", "position"],
        unique=True,
        sqlite_where=PLACED,
        postgresql_where=PLACED,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE sessions SET (fillfactor = {FULL})")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE sessions RESET (fillfactor)")
    op.drop_index("sessions_by_position", "sessions")
    op.create_index("sessions_by_position", "sessions", ["task", "position"], unique=True)
    op.create_index("sessions_unlogged", "sessions", ["task"], sqlite_where=UNLOGGED, postgresql_where=UNLOGGED)
    op.create_index("sessions_by_stage", "sessions", ["task", "stage", "reason", "expires"])
    for table in ("unlogged", "under_way"):
        op.drop_table(table)
