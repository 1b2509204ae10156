"""Tasks, tokens and sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tasks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("task", sa.Text, sa.ForeignKey("tasks.name"), primary_key=True),
        sa.Column("token", sa.LargeBinary, primary_key=True),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.LargeBinary, primary_key=True),
        sa.Column("task", sa.Text, sa.ForeignKey("tasks.name"), nullable=False),
        sa.Column("token", sa.LargeBinary, nullable=False),
        sa.Column("nonce", sa.LargeBinary, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("commitment", sa.LargeBinary),
        sa.Column("opening", sa.LargeBinary),
        sa.Column("outputs", sa.LargeBinary),
        sa.UniqueConstraint("task", "token", name="one_session_per_token"),
    )


def downgrade() -> None:
    for table in ("sessions", "tokens", "tasks"):
        op.drop_table(table)
