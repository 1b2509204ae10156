"""The place of decided sessions in the task's Merkle tree, its inner nodes, and its signed heads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

UNLOGGED = sa.text("position IS NULL AND stage IN ('accepted', 'rejected')")


def upgrade() -> None:
    op.add_column("sessions", sa.Column("position", sa.BigInteger))
    op.add_column("sessions", sa.Column("leaf", sa.LargeBinary))
    op.create_index("sessions_by_position", "sessions", ["task", "position"], unique=True)
    op.create_index("sessions_unlogged", "sessions", ["task"], sqlite_where=UNLOGGED, postgresql_where=UNLOGGED)
    for name, columns in {
        "tree_nodes": (
            sa.Column("level", sa.Integer, primary_key=True),
            sa.Column("place", sa.BigInteger, primary_key=True),
            sa.Column("digest", sa.LargeBinary, nullable=False),
        ),
        "tree_heads": (sa.Column("head", sa.Text, nullable=False),),
    }.items():
        op.create_table(name, sa.Column("task", sa.Text, sa.ForeignKey("tasks.name"), primary_key=True), *columns)


def downgrade() -> None:
    for table in ("tree_heads", "tree_nodes"):
        op.drop_table(table)
    for index in ("sessions_unlogged", "sessions_by_position"):
        op.drop_index(index, "sessions")
    for column in ("leaf", "position"):
        op.drop_column("sessions", column)
