"""Promises are stored, and nonces only once they were sent: those of new sessions are derived from a key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from veridp.collect.messages import Context, digest, promise

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

PAGE = 1000

tasks = sa.table("tasks", sa.column("name", sa.Text), sa.column("document", sa.Text))
sessions = sa.table(
    "sessions",
    sa.column("id", sa.LargeBinary),
    sa.column("task", sa.Text),
    sa.column("nonce", sa.LargeBinary),
    sa.column("promise", sa.LargeBinary),
)


def upgrade() -> None:
    op.add_column("sessions", sa.Column("promise", sa.LargeBinary))
    connection = op.get_bind()
    fill = sessions.update().where(sessions.c.id == sa.bindparam("of")).values(promise=sa.bindparam("promised"))
    for row in connection.execute(sa.select(tasks)).all():
        task, last = digest(b"veridp task", row.document.encode()), b""
        while page := connection.execute(_page(row.name, last)).all():
            rows = [
                {"of": session.id, "promised": promise(Context(task, bytes(session.id)), bytes(session.nonce))}
                for session in page
            ]
            connection.execute(fill, rows)
            last = page[-1].id
    with op.batch_alter_table("sessions") as table:
        table.alter_column("promise", existing_type=sa.LargeBinary, nullable=False)
        table.alter_column("nonce", existing_type=sa.LargeBinary, nullable=True)


def _page(name: str, last: bytes) -> sa.Select[tuple[bytes, bytes]]:
    found = sa.select(sessions.c.id, sessions.c.nonce).where((sessions.c.task == name) & (sessions.c.id > last))
    return found.order_by(sessions.c.id).limit(PAGE)


def downgrade() -> None:
    raise NotImplementedError("nonces that were not sent are not in the database")
