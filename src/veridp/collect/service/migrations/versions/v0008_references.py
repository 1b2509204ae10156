"""No references to tasks from the tables that many rows are added to.

Checking one took PostgreSQL a lock on the task's row, which all processes shared, for each row that was added. Tasks
are never removed, and rows are added for tasks that were read, so the check could not fail.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLES = ("tokens", "sessions", "unlogged", "tallies", "under_way", "supports")
NAMES = {"fk": "%(table_name)s_%(column_0_name)s_fkey"}  # as PostgreSQL gives them


def upgrade() -> None:
    for table in TABLES:
        with op.batch_alter_table(table, naming_convention=NAMES) as changed:
            changed.drop_constraint(f"{table}_task_fkey", type_="foreignkey")


def downgrade() -> None:
    for table in TABLES:
        with op.batch_alter_table(table, naming_convention=NAMES) as changed:
            changed.create_foreign_key(f"{table}_task_fkey", "tasks", ["task"], ["name"])
