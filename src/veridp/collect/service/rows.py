"""Many rows in one statement: a round trip and a plan for all of them, where each row would cost its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from sqlalchemy import Connection, Row

MOST_PARAMETERS = 32_000  # of a statement of SQLite

Columns = Mapping[str, str]  # the type in PostgreSQL of each column


def execute(
    connection: Connection, body: str, columns: Columns, rows: Sequence[Sequence[object]]
) -> Sequence[Row[tuple[object, ...]]]:
    """What the statement returns, in which the table `given` has these rows.

    The body is SQL that both databases understand. Rows are taken in their order, so processes that sort them never
    wait for each other in a circle.
    """
    found: list[Row[tuple[object, ...]]] = []
    names, kinds = tuple(columns), tuple(columns.values())
    together = MOST_PARAMETERS // len(names)
    for start in range(0, len(rows), together):
        some = rows[start : start + together]
        if connection.dialect.name == "postgresql":
            statement = _from_arrays(body, names, kinds)
            given: Iterable[object] = (list(column) for column in zip(*some, strict=True))
        else:
            statement = _from_values(body, names, len(some))
            given = (value for row in some for value in row)
        result = connection.exec_driver_sql(statement, tuple(given))
        if result.returns_rows:
            found += result.all()
    return found


@lru_cache(maxsize=64)
def _from_arrays(body: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
    return f"WITH given ({', '.join(names)}) AS (SELECT * FROM unnest({arrays})) {body}"  # noqa: S608 - names of ours


@lru_cache(maxsize=1024)
def _from_values(body: str, names: tuple[str, ...], count: int) -> str:
    row = f"({', '.join('?' * len(names))})"
    return f"WITH given ({', '.join(names)}) AS (VALUES {', '.join([row] * count)}) {body}"
