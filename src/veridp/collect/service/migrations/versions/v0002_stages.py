"""An index by stage, so that the state of a collection is counted without reading its sessions."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("sessions_by_stage", "sessions", ["task", "stage", "reason", "expires"])


def downgrade() -> None:
    op.drop_index("sessions_by_stage", "sessions")
