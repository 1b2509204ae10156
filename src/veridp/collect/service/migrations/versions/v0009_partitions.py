"""On PostgreSQL, partitions by task of the tables that grow with a collection.

The key of sessions contains the task there, as that of a partitioned table must. All is one transaction: a migration
that was interrupted begins anew. Nodes no longer refer to tasks, as removing such a partition would lock all tasks.
"""

from __future__ import annotations

from alembic import op

from veridp.collect.service.partitions import PAGE_FILL, partition_name

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

REFERENCE, NAMES = "tree_nodes_task_fkey", {"fk": "%(table_name)s_%(column_0_name)s_fkey"}  # as PostgreSQL names it
KEYS = {
    "tokens": ("PRIMARY KEY (task, token)",),
    "sessions": ("PRIMARY KEY (id, task)", "CONSTRAINT one_session_per_token UNIQUE (task, token)"),
    "tree_nodes": ("PRIMARY KEY (task, level, place)",),
}
BY_POSITION = "CREATE UNIQUE INDEX sessions_by_position ON sessions (task, position) WHERE position IS NOT NULL"


def upgrade() -> None:
    with op.batch_alter_table("tree_nodes", naming_convention=NAMES) as changed:
        changed.drop_constraint(REFERENCE, type_="foreignkey")
    if op.get_bind().dialect.name == "postgresql":
        for table, keys in KEYS.items():
            _divide(table, keys)
        op.execute(BY_POSITION)


def _divide(table: str, keys: tuple[str, ...]) -> None:
    """Move the rows into partitions. Keys follow, since building an index takes less than adding to it.

    What was added to a task while it was deleted is left behind. Rows of a task that is unknown would be an error.
    """
    whole = f"{table}_whole"
    op.execute(f"ALTER TABLE {table} RENAME TO {whole}")
    op.execute(f"CREATE TABLE {table} (LIKE {whole}) PARTITION BY LIST (task)")
    fill = f" WITH (fillfactor = {PAGE_FILL[table]})" if table in PAGE_FILL else ""
    for name in op.get_bind().exec_driver_sql("SELECT name FROM tasks WHERE NOT deleted ORDER BY name").scalars().all():
        op.execute(f"CREATE TABLE {partition_name(table, name)} PARTITION OF {table} FOR VALUES IN ('{name}'){fill}")
    kept = "task NOT IN (SELECT name FROM tasks WHERE deleted)"
    op.execute(f"INSERT INTO {table} SELECT * FROM {whole} WHERE {kept}")  # noqa: S608 - names of ours
    op.execute(f"DROP TABLE {whole}")  # with its keys, whose names are free then
    for key in keys:
        op.execute(f"ALTER TABLE {table} ADD {key}")


def downgrade() -> None:
    raise NotImplementedError("a backup from before has the tables without partitions")
