"""When a task closes, which may be before its definition ends it, and whether its sessions were deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("closes", sa.BigInteger))
    op.add_column("tasks", sa.Column("deleted", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    for column in ("deleted", "closes"):
        op.drop_column("tasks", column)
