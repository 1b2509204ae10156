"""Many rows in one statement, so that they share one round trip and one plan."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Insert, Row, Table
from sqlalchemy.dialects import postgresql, sqlite

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
            given: Iterable[object] = map(BinaryArray.of, kinds, zip(*some, strict=True))
        else:
            statement = _from_values(body, names, len(some))
            given = (value for row in some for value in row)
        result = connection.exec_driver_sql(statement, tuple(given))
        if result.returns_rows:
            found += result.all()
    return found


@dataclass(frozen=True)
class RowChange:
    """A statement that changes rows, in which the table `given` has these rows; see `execute`."""

    body: str
    columns: Columns
    rows: Sequence[Sequence[object]]


def execute_together(connection: Connection, changes: Sequence[RowChange]) -> Sequence[Row[tuple[object, ...]]]:
    """What the last of these changes of different tables returns; nothing if it has no rows.

    PostgreSQL makes all of them in one statement, which costs it and this process half as much as one for each.
    """
    some = [change for change in changes if change.rows]
    if connection.dialect.name == "postgresql" and some:
        statement = _in_turn(tuple((each.body, tuple(each.columns.items())) for each in some))
        given = (map(BinaryArray.of, each.columns.values(), zip(*each.rows, strict=True)) for each in some)
        result = connection.exec_driver_sql(statement, tuple(chain.from_iterable(given)))
        found = result.all() if result.returns_rows else []
    else:
        found = [row for each in some for row in execute(connection, each.body, each.columns, each.rows)]
    return found if some and some[-1] is changes[-1] else []


@lru_cache(maxsize=64)
def _in_turn(changes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]) -> str:
    """One statement: all changes except the last as common table expressions, which PostgreSQL executes once each."""
    parts = []
    for number, (body, columns) in enumerate(changes):
        given, last = f"given_{number}", number == len(changes) - 1
        parts.append(f"{given} {_table(*zip(*columns, strict=True))}")
        change = re.sub(r"\bgiven\b", given, body)
        parts.append(change if last else f"change_{number} AS ({change})")
    return f"WITH {', '.join(parts[:-1])} {parts[-1]}"


@lru_cache(maxsize=1024)
def _from_arrays(body: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    return f"WITH given {_table(names, kinds)} {body}"


def _table(names: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    """The rest of a table's definition, after its name: its rows come from arrays."""
    arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
    return f"({', '.join(names)}) AS (SELECT * FROM unnest({arrays}))"  # noqa: S608 - names of ours


@lru_cache(maxsize=1024)
def _from_values(body: str, names: tuple[str, ...], count: int) -> str:
    row = f"({', '.join('?' * len(names))})"
    return f"WITH given ({', '.join(names)}) AS (VALUES {', '.join([row] * count)}) {body}"


def insert_if_new(connection: Connection, table: Table) -> Insert:
    """An insertion that does nothing if the row exists."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    found: Insert = dialect.insert(table).on_conflict_do_nothing()
    return found


# -------------------------------------------------------------------------------------------------------------- arrays
# Arrays in PostgreSQL's binary format. The driver makes them too, entry by entry, in a third of a transaction's time.


HEADER = struct.Struct(
    ">iiiii"
)  # dimensions, whether there are nulls, type of the entries, how many, the first's number
LENGTH = struct.Struct(">i")
TYPES = {"bytea": 17, "text": 25, "bigint": 20, "integer": 23}  # their numbers, which never change
NUMBERS = {"bigint": struct.Struct(">iq"), "integer": struct.Struct(">ii")}  # length and value


@dataclass(frozen=True)
class BinaryArray:
    """An array of one dimension without nulls, as it is sent."""

    data: bytes

    @classmethod
    def of(cls, kind: str, entries: Sequence[Any]) -> BinaryArray:
        """The array of entries of this type: bytes, texts or whole numbers."""
        if kind in NUMBERS:
            number = NUMBERS[kind]
            width = number.size - LENGTH.size
            parts = [number.pack(width, entry) for entry in entries]
        else:
            texts = entries if kind == "bytea" else [entry.encode() for entry in entries]
            parts = [part for entry in texts for part in (LENGTH.pack(len(entry)), entry)]
        return cls(HEADER.pack(1, 0, TYPES[kind], len(entries), 1) + b"".join(parts))


def register_arrays(connection: Any) -> None:
    """Let a connection of the driver send binary arrays."""
    connection.adapters.register_dumper(BinaryArray, _dumper())


@cache
def _dumper() -> type:
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class BinaryArrayDumper(Dumper):
        """Sends the bytes; statements say of which type they are."""

        format = Format.BINARY

        def dump(self, obj: BinaryArray) -> bytes:
            return obj.data

    return BinaryArrayDumper
