"""Running sums, so that the state of a collection is read without reading its sessions."""

from __future__ import annotations

import msgpack
import numpy as np
import sqlalchemy as sa
from alembic import op

from veridp.collect.task import Task

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

PAGE = 1000

tasks = sa.table("tasks", sa.column("name", sa.Text), sa.column("document", sa.Text))
sessions = sa.table(
    "sessions",
    sa.column("id", sa.LargeBinary),
    sa.column("task", sa.Text),
    sa.column("stage", sa.Text),
    sa.column("reason", sa.Text),
    sa.column("outputs", sa.LargeBinary),
)


def upgrade() -> None:
    for name, kinds in {
        "tallies": (sa.Column("step", sa.Text, primary_key=True), sa.Column("sessions", sa.BigInteger, nullable=False)),
        "supports": (sa.Column("sums", sa.LargeBinary, nullable=False),),
    }.items():
        op.create_table(
            name,
            sa.Column("task", sa.Text, sa.ForeignKey("tasks.name"), primary_key=True),
            sa.Column("shard", sa.Integer, primary_key=True),
            *kinds,
        )
    connection = op.get_bind()
    steps = sa.text("INSERT INTO tallies (task, shard, step, sessions) VALUES (:task, 0, :step, :sessions)")
    sums = sa.text("INSERT INTO supports (task, shard, sums) VALUES (:task, 0, :sums)")
    for row in connection.execute(sa.select(tasks)).all():
        if taken := _steps(connection, row.name):
            rows = [{"task": row.name, "step": step, "sessions": number} for step, number in taken.items()]
            connection.execute(steps, rows)
        if "accepted" in taken:
            found = _support(connection, Task.from_json(row.document))
            connection.execute(sums, {"task": row.name, "sums": found.astype("<i8").tobytes()})


def _steps(connection: sa.Connection, task: str) -> dict[str, int]:
    """How many sessions took each step: who was accepted was challenged, and who was challenged was invited."""
    counted = sa.select(sessions.c.stage, sessions.c.reason, sa.func.count().label("number"))
    found: dict[str, int] = {}
    for row in connection.execute(
        counted.where(sessions.c.task == task).group_by(sessions.c.stage, sessions.c.reason)
    ).all():
        last = f"rejected {row.reason}" if row.stage == "rejected" else row.stage
        for step in dict.fromkeys(("invited", *(("challenged",) if row.stage != "invited" else ()), last)):
            found[step] = found.get(step, 0) + row.number
    return found


def _support(connection: sa.Connection, task: Task) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    total, last = np.zeros(len(task.protocol.columns), dtype=np.int64), b""
    mine = (sessions.c.task == task.name) & (sessions.c.stage == "accepted")
    while True:
        page = sa.select(sessions.c.id, sessions.c.outputs).where(mine & (sessions.c.id > last))
        rows = connection.execute(page.order_by(sessions.c.id).limit(PAGE)).all()
        if not rows:
            return total
        outputs = np.array([msgpack.unpackb(row.outputs) for row in rows], dtype=np.int64)
        total += np.array(task.protocol.support(outputs, [bytes(row.id) for row in rows]), dtype=np.int64)
        last = rows[-1].id


def downgrade() -> None:
    for table in ("supports", "tallies"):
        op.drop_table(table)
