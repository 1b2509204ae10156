"""No request's work grows with the rows that are stored, and statements for many rows do what those for each would."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

import stored_rows
from veridp.collect.service import rows, store
from veridp.collect.service.database import Database

FEW, MANY = 1000, 5000


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_request_does_more_work_where_more_rows_are_stored(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Counted in instructions of SQLite, or in pages of PostgreSQL; reading the whole log shows that they count."""
    new: Callable[[], str] = lambda: f"sqlite:///{tmp_path}/{secrets.token_hex(4)}.db"  # noqa: E731
    if kind == "postgresql":
        new = request.getfixturevalue("postgres").new_database
    few, many = (stored_rows.measured(new(), number, repeats=2) for number in (FEW, MANY))
    assert set(few) >= {"session", "commit", "open", "receipt", "head", "consistency", "status", "1000 tokens"}
    assert stored_rows.compared(few, many, kind) == []
    costs = []
    for number in (FEW, MANY):
        database = Database.open(new())
        stored_rows.fill(database, number)
        meter = stored_rows.Meter(database)
        before = meter.work()
        with database.reading() as connection:
            assert len(list(store.all_tokens(connection, stored_rows.TASK))) == number
        costs.append(stored_rows.RequestCost(meter.work() - before, 0.0))
        database.close()
    assert stored_rows.compared({"log": costs[0]}, {"log": costs[1]}, kind) == ["log"]


def test_many_rows_are_given_in_order_and_in_parts(database: str) -> None:
    """More values than SQLite takes in a statement; bytes, texts and numbers arrive as they were sent."""
    opened, rng = Database.open(database), random.Random(3)
    given = [(rng.randbytes(i % 9), f"τ'{i}\\", (i - 5) << 33, i - 5) for i in range(rows.MOST_PARAMETERS // 4 + 7)]
    with opened.writer.begin() as connection:
        kind = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
        connection.execute(text(f"CREATE TEMPORARY TABLE kept (a {kind}, b TEXT, c BIGINT, d INTEGER)"))
        columns = {"a": "bytea", "b": "text", "c": "bigint", "d": "integer"}
        insert = "INSERT INTO kept SELECT a, b, c, d FROM given"
        found = rows.execute(connection, f"{insert} RETURNING c", columns, given)
        assert [row[0] for row in found] == [row[2] for row in given]
        kept = connection.execute(text("SELECT a, b, c, d FROM kept ORDER BY c")).all()
        assert [(bytes(row[0]), *row[1:]) for row in kept] == given
        assert rows.execute(connection, insert, columns, []) == []
    opened.close()


def test_changes_of_several_tables_are_made_together(database: str) -> None:
    """What the last one returns is given; those without rows do nothing, and all are undone together."""
    opened = Database.open(database)
    with opened.writer.begin() as connection:
        for name in "ab":
            connection.execute(text(f"CREATE TEMPORARY TABLE {name} (number BIGINT PRIMARY KEY)"))

        def change(name: str, *numbers: int, also: str = "") -> rows.RowChange:
            body = f"INSERT INTO {name} SELECT given.number FROM given {also}"  # noqa: S608
            return rows.RowChange(body, {"number": "bigint"}, [(number,) for number in numbers])

        def kept() -> list[list[int]]:
            numbers = (connection.execute(text(f"SELECT number FROM {name} ORDER BY 1")) for name in "ab")  # noqa: S608
            return [list(found.scalars()) for found in numbers]

        found = rows.execute_together(connection, [change("a", 1, 2), change("b", 3, also="RETURNING number")])
        assert ([tuple(row) for row in found], kept()) == ([(3,)], [[1, 2], [3]])
        assert rows.execute_together(connection, [change("a"), change("b", 4), change("b")]) == []
        assert rows.execute_together(connection, [change("a"), change("b")]) == []
        with pytest.raises(IntegrityError), connection.begin_nested():
            rows.execute_together(connection, [change("a", 5), change("b", 3)])
        assert kept() == [[1, 2], [3, 4]]
    opened.close()
