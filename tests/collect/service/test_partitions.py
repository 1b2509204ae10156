"""Each task's own partitions on PostgreSQL: what reads them, who makes them at once, deletion and migration."""

from __future__ import annotations

import asyncio
import io
import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg.errors import OutOfMemory
from sqlalchemy import Connection, event, func, select, text
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from veridp.cli.collect import _log_at
from veridp.collect import Client, MemoryVault, Refused, Task
from veridp.collect.estimate import Attendance
from veridp.collect.service import partitions, store, tree
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys, SigningKey
from veridp.collect.service.operations import ServiceSettings
from veridp.collect.service.partitions import PARTITIONED, drop_deleted, partition_name
from veridp.collect.service.schema import unlogged
from veridp.collect.service.tally import standing
from veridp.collect.transcript import audit
from veridp.errors import BadInput

from .test_database import at_revision
from .test_patience import ADMIN, running

KEYS, SIGNING = NonceKeys((bytes(32),)), SigningKey(bytes(32))
PETS = Task("pets", "vgrr", 1.0, items=("cat", "dog", "fox"), minimum_batch=1)
CARS, BIKES = replace(PETS, name="cars"), replace(PETS, name="b" * 64)
TOKENS = [bytes([number]) * 32 for number in range(5)]
NAMES = {table.name for table in PARTITIONED}


@pytest.fixture
def opened(postgres: Any) -> Iterator[Database]:
    found = Database.open(postgres.new_database())
    yield found
    found.close()


def prepared(database: Database, *tasks: Task) -> None:
    with database.writing() as connection:
        for task in tasks:
            store.put_task(connection, task)
            store.put_tokens(connection, task, TOKENS)


def take_part(database: Database, task: Task, token: bytes, seed: int = 1) -> None:
    client, now = Client(task.protocol, task.verifier, MemoryVault(), random.Random(seed)), time.time()
    with database.writing() as connection:
        invited = store.invite(connection, task, token, now, KEYS)
    with database.writing() as connection:
        commit = client.commit(invited.invitation, "dog")
        challenged = store.put_commit(connection, task, token, commit, now, task.verifier, KEYS)
    with database.writing() as connection:
        store.put_opening(connection, task, token, client.open(challenged.challenge), now, task.verifier)


def removed(database: Database, task: Task) -> None:
    with database.writing() as connection:
        store.close_task(connection, task, 1)
        store.delete_task(connection, task, time.time())


def attached(connection: Connection) -> dict[str, str]:
    """The bounds of each partition."""
    found = text(
        "SELECT c.oid::regclass::text, pg_get_expr(c.relpartbound, c.oid) FROM pg_class c WHERE c.relispartition "
        "AND c.relkind = 'r'"
    )
    return {row[0]: row[1] for row in connection.execute(found)}


def all_rows(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(map(tuple, connection.execute(text(f"SELECT * FROM {name}")))) for name in NAMES}  # noqa: S608


def of_plan(node: dict[str, Any]) -> set[str]:
    """The tables of a plan."""
    below = [of_plan(child) for child in node.get("Plans", [])]
    return ({node["Relation Name"]} if "Relation Name" in node else set()).union(*below)


def test_every_statement_of_a_task_reads_its_partitions_alone(opened: Database) -> None:
    """Seen in the plans of all statements that sessions, the log, receipts and an export make."""
    plans: list[set[str]] = []
    asked: list[tuple[str, Any]] = []
    for engine in (opened.writer, opened.reader):
        event.listen(engine, "before_cursor_execute", lambda *found: asked.append(found[2:4]))
    prepared(opened, PETS, CARS)
    take_part(opened, PETS, TOKENS[0])
    with opened.writing() as connection:
        assert tree.grow(connection, PETS, SIGNING).size == 1
        assert tree.receipt_of(connection, PETS, TOKENS[0]).head.size == 1
        store.invite(connection, PETS, TOKENS[0], time.time(), KEYS)
        with pytest.raises(Refused, match="no session yet"):
            store.get_session(connection, PETS, TOKENS[1])
    with opened.reading() as connection:
        assert b"".join(tree.log_of(connection, PETS.name))
    for statement, given in [one for one in asked if re.match(r"\s*(WITH|SELECT|INSERT|UPDATE)", one[0])]:
        with opened.writer.connect() as connection, connection.begin() as attempt:
            plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", given).scalar_one()
            plans.append(of_plan(plan[0]["Plan"]))
            attempt.rollback()
    mine = {partition_name(name, PETS.name) for name in NAMES - {"tree_nodes"}}  # a tile is not complete yet
    read = set().union(*plans)
    assert read & {*attached_names(opened, PETS)} == mine
    assert not read & NAMES
    assert read & {*attached_names(opened, CARS)} == {partition_name("tokens", CARS.name)}  # that were issued


def attached_names(database: Database, task: Task) -> list[str]:
    with database.reading() as connection:
        return [part for part, bound in attached(connection).items() if bound == f"FOR VALUES IN ('{task.name}')"]


def test_a_question_to_the_whole_table_about_a_task_is_answered_by_its_partition(opened: Database) -> None:
    prepared(opened, PETS, CARS, BIKES)
    with opened.reading() as connection:
        for name in NAMES:
            for condition, parts in (("task = 'cars'", [CARS]), ("true", [PETS, CARS, BIKES])):
                question = f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {name} WHERE {condition}"  # noqa: S608
                plan = connection.exec_driver_sql(question).scalar_one()
                assert of_plan(plan[0]["Plan"]) == {partition_name(name, task.name) for task in parts}


def test_partitions_have_the_keys_of_their_table_and_take_no_row_of_another_task(opened: Database) -> None:
    prepared(opened, PETS)
    part = partition_name("sessions", PETS.name)
    take_part(opened, PETS, TOKENS[0])
    with opened.reading() as connection:
        keys = connection.execute(text("SELECT indexdef FROM pg_indexes WHERE tablename = :part"), {"part": part})
        assert sorted(re.sub(r".* USING btree ", "", key) for key in keys.scalars()) == [
            "(id, task)",
            '(task, "position") WHERE ("position" IS NOT NULL)',
            "(task, token)",
        ]
        apart = "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE NOT relispartition"
        of_part = text(f"{apart} AND indrelid = CAST(:part AS regclass)")
        assert connection.execute(of_part, {"part": part}).scalar_one() == 0  # each belongs to one of the table's
        fill = text("SELECT reloptions FROM pg_class WHERE relname = :part")
        assert connection.execute(fill, {"part": part}).scalar_one() == ["fillfactor=30"]
    columns = "id, task, token, promise, expires, stage, reason"
    for values in ("id, 'cars', token", "id, task, sha256(token)", "sha256(id), task, token"):
        change = f"INSERT INTO {part} ({columns}) SELECT {values}, promise, expires, stage, reason FROM {part}"  # noqa: S608
        with pytest.raises(IntegrityError), opened.writer.begin() as connection:
            connection.execute(text(change))


def test_deleting_a_task_drops_its_partitions_and_leaves_others_alone(opened: Database) -> None:
    prepared(opened, PETS, CARS)
    for task in (PETS, CARS):
        take_part(opened, task, TOKENS[0])
    asked: list[str] = []
    event.listen(opened.writer, "before_cursor_execute", lambda *found: asked.append(found[2]))
    removed(opened, PETS)
    assert not [one for one in asked if re.search(r"DELETE FROM (sessions|tokens|tree_nodes)", one)]
    with opened.reading() as connection:
        assert [len(rows) for _, rows in sorted(all_rows(connection).items())] == [1, 5, 0]
        assert {row[1] for row in all_rows(connection)["sessions"]} == {"cars"}
        assert len(attached(connection)) == 6
    drop_deleted(opened.writer)
    with opened.reading() as connection:
        assert set(attached(connection).values()) == {"FOR VALUES IN ('cars')"}
        assert standing(connection, CARS, time.time()).attendance.accepted == 1
    with opened.writing() as connection, pytest.raises(Refused, match="was deleted"):
        store.put_task(connection, PETS)
    take_part(opened, CARS, TOKENS[1])


def test_of_sqlite_some_rows_at_a_time_are_removed_and_the_rest_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So clients of other tasks take their turns, and a session under way leaves nothing behind either."""
    monkeypatch.setattr(partitions, "ROWS_TOGETHER", 2)
    url = f"sqlite:///{tmp_path}/collect.db"
    opened = Database.open(url)
    prepared(opened, PETS, CARS)
    for task, number in ((PETS, 4), (CARS, 1)):
        for token in TOKENS[:number]:
            take_part(opened, task, token)
    with opened.writing() as connection:
        tree.grow(connection, PETS, SIGNING)
    take_part(opened, PETS, TOKENS[4])
    tables = [*partitions.PARTITIONED, *partitions.RUNNING_SUMS]

    def rows() -> dict[str, int]:
        with opened.reading() as connection:
            asked = {each.name: select(func.count()).select_from(each).where(each.c.task == "pets") for each in tables}
            return {name: count for name, one in asked.items() if (count := connection.execute(one).scalar_one())}

    full = {"sessions": 5, "tokens": 5, "unlogged": 1, "tallies": 3, "under_way": rows()["under_way"], "supports": 1}
    assert rows() == full
    removed(opened, PETS)
    assert rows() == full
    with opened.reading() as connection:
        assert tree.tasks_to_log(connection, unlogged) == ["cars"]
    for left in (3, 1, 0):
        with opened.writing() as connection:
            assert partitions.drop_some(connection)
        assert rows() == {name: n for name, n in {**full, "sessions": left}.items() if n}

    async def restart() -> None:
        async with running(ServiceSettings(url, ADMIN), CARS) as (app, _):
            await asyncio.gather(*app.state.service.dropping)

    asyncio.run(restart())
    assert rows() == {}
    with opened.reading() as connection:
        assert standing(connection, CARS, time.time()).attendance.accepted == 1
    with opened.writing() as connection:
        assert not partitions.drop_some(connection)
    opened.close()


def test_rows_of_many_deleted_tasks_are_found_by_few_statements(tmp_path: Path) -> None:
    """However many tasks were deleted, clients of others wait for one statement of each table at most."""
    opened, asked = Database.open(f"sqlite:///{tmp_path}/collect.db"), []
    for number in range(30):
        prepared(opened, replace(PETS, name=f"task-{number:02}"))
        removed(opened, replace(PETS, name=f"task-{number:02}"))
    event.listen(opened.writer, "before_cursor_execute", lambda *found: asked.append(found[2:4]))
    dropped = []
    for _ in range(2):
        with opened.writing() as connection:
            dropped.append(partitions.drop_some(connection))
    assert dropped == [True, False]
    assert len(asked) <= 2 * len([*partitions.PARTITIONED, *partitions.RUNNING_SUMS])
    with opened.reading() as connection:
        for statement, given in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given).all()
            assert not [row.detail for row in plan if re.fullmatch(r"SCAN (?!tasks|LIST)\w+", row.detail)], plan
    opened.close()


def test_the_log_of_a_task_that_another_process_deleted_is_refused(database: str, key_file: Path) -> None:
    """By name, and not by an answer that breaks off; also by a process that knew the task."""

    async def use() -> None:
        signing = str(key_file.with_name("collect.signing-key"))
        settings = ServiceSettings(database, ADMIN, key_file=str(key_file), signing_key_file=signing)
        async with running(settings) as (_, http):
            assert (await http.get("/tasks/pets")).status_code == 200
            other = Database.open(database)
            removed(other, PETS)
            other.close()
            answer = await http.get("/tasks/pets/log")
            assert (answer.status_code, answer.json()["reason"]) == (410, "task-closed")

    asyncio.run(use())


def test_a_task_is_not_deleted_while_its_log_is_read(opened: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader gets all of it, and a whole table that is read keeps its empty partitions for the moment."""
    for limit in ("LOCK_MS", "CLEAR_MS"):
        monkeypatch.setattr(partitions, limit, 50)
    prepared(opened, PETS)
    with opened.reading() as connection:
        pieces = tree.log_of(connection, PETS.name)
        first = next(pieces)
        with pytest.raises(Refused, match="in use; try again"):
            removed(opened, PETS)
        assert len(first + b"".join(pieces)) > 5 * 32
    removed(opened, PETS)
    with opened.reading() as connection:
        connection.execute(text("SELECT count(*) FROM sessions"))  # as a backup would, for hours
        drop_deleted(opened.writer)
        assert attached_names(opened, PETS) == [partition_name("sessions", PETS.name)]
    drop_deleted(opened.writer)
    with opened.reading() as connection:
        assert attached(connection) == {}
        with pytest.raises(Refused, match="was deleted"):
            tree.log_of(connection, PETS.name)
        with pytest.raises(Refused, match="there is no task 'none'"):
            tree.log_of(connection, "none")


def test_nobody_deletes_a_task_that_is_exported_from_the_database(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `veridp collect export --database` does, past the server."""
    monkeypatch.setattr(partitions, "CLEAR_MS", 50)
    prepared(opened, PETS)
    take_part(opened, PETS, TOKENS[0])
    pieces = _log_at(opened.writer.url.render_as_string(hide_password=False), PETS.name)
    first = next(pieces)
    with pytest.raises(Refused, match="in use; try again"):
        removed(opened, PETS)
    assert audit(io.BytesIO(first + b"".join(pieces))).attendance.accepted == 1


def test_tasks_are_made_at_once_while_another_process_serves(opened: Database) -> None:
    """Two processes make the same tasks, and each some of its own, while sessions of a task go on."""
    prepared(opened, PETS)
    others = [Database.open(opened.writer.url.render_as_string(hide_password=False)) for _ in range(2)]
    together = threading.Barrier(3)

    def make(number: int) -> None:
        together.wait()
        for turn in range(6):
            for name in (f"shared-{turn}", f"own-{number}-{turn}"):
                prepared(others[number], replace(PETS, name=name))

    def serve() -> None:
        together.wait()
        for token in TOKENS:
            take_part(opened, PETS, token)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(make, 0), pool.submit(make, 1), pool.submit(serve)]:
            future.result()
    with opened.reading() as connection:
        assert len(attached(connection)) == 3 * (1 + 6 + 12)
        assert standing(connection, PETS, time.time()).attendance.accepted == len(TOKENS)
    for database in others:
        take_part(database, replace(PETS, name="own-0-3"), TOKENS[others.index(database)])
        database.close()


def test_a_task_is_deleted_while_two_processes_serve_it_and_another(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is left, its clients are refused by name, and no client of the other task notices."""
    monkeypatch.setattr(partitions, "CLEAR_MS", 600_000)
    prepared(opened, PETS, CARS)
    tokens = [bytes([1, number]) * 16 for number in range(40)]
    with opened.writing() as connection:
        for task in (PETS, CARS):
            store.put_tokens(connection, task, tokens)
    others = [Database.open(opened.writer.url.render_as_string(hide_password=False)) for _ in range(2)]
    some_served, gone, faults = threading.Semaphore(0), threading.Event(), []

    def serve(number: int) -> None:
        for token in tokens[number::2]:
            if token in tokens[-2:]:
                gone.wait()
            take_part(others[number], CARS, token)
            try:
                take_part(others[number], PETS, token)
            except (Refused, ProgrammingError) as error:
                faults.append(error)
            some_served.release()

    with ThreadPoolExecutor(2) as pool:
        serving = [pool.submit(serve, number) for number in range(2)]
        for _ in range(6):
            some_served.acquire()
        try:
            removed(opened, PETS)
            drop_deleted(opened.writer)
        finally:
            gone.set()
        for future in serving:
            future.result()
    assert 2 <= len(faults) <= len(tokens) - 6
    assert all(partitions.is_missing(fault) or re.search("closed|deleted", str(fault)) for fault in faults)
    with opened.reading() as connection:
        assert standing(connection, CARS, time.time()).attendance == Attendance(len(tokens), 0, 0, 0, 0, 0)
        for table in partitions.RUNNING_SUMS:
            assert not connection.execute(select(table).where(table.c.task == PETS.name)).all()
        assert set(attached(connection).values()) == {"FOR VALUES IN ('cars')"}
    for database in others:
        database.close()


def test_no_client_waits_for_a_task_that_is_made_while_the_tables_are_analysed(
    postgres: Any, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ANALYZE of a whole table keeps its lock to the end, and an attachment waits for that, or is refused."""
    url = postgres.new_database()
    document = CARS.to_json()

    async def use() -> None:
        signing = str(key_file.with_name("collect.signing-key"))
        settings = ServiceSettings(url, ADMIN, key_file=str(key_file), signing_key_file=signing)
        async with running(settings) as (app, http):

            def make() -> Any:
                return http.put("/tasks/cars", content=document, headers={"Content-Type": "application/json"})

            database = app.state.service.database
            with database.reader.connect() as other:
                other.execute(text("LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE"))
                monkeypatch.setattr(partitions, "LOCK_MS", 50)
                answer = await make()
                assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")
                assert "try again later" in answer.json()["message"]
                monkeypatch.setattr(partitions, "LOCK_MS", 600_000)
                making = asyncio.create_task(make())
                with database.reading() as connection:
                    while not waiting_for_locks(connection):
                        await asyncio.sleep(0.01)
                client = {"Authorization": "Bearer token"}
                assert (await http.post("/tasks/pets/session", headers=client)).status_code == 200
                assert not making.done()
            assert (await making).status_code == 200
            assert len(attached_names(database, CARS)) == 3

    asyncio.run(use())


def waiting_for_locks(connection: Connection) -> int:
    """How many wait for a table."""
    found = connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"))
    return int(found.scalar_one())


def test_a_deletion_waits_until_postgresql_has_ended_an_autovacuum_for_it(opened: Database) -> None:
    with opened.reading() as connection:
        found = "SELECT setting::int FROM pg_settings WHERE name = 'deadlock_timeout'"  # in milliseconds
        assert connection.execute(text(found)).scalar_one() < partitions.CLEAR_MS


def test_too_few_locks_for_a_migration_are_an_error_that_says_how_to_get_more(
    postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with some 600 tasks in the default configuration of PostgreSQL."""

    def fail(connection: Connection) -> None:
        raise OperationalError("ALTER TABLE", None, OutOfMemory("out of shared memory"))

    monkeypatch.setattr("veridp.collect.service.database.upgrade", fail)
    with pytest.raises(BadInput, match="out of shared memory; set max_locks_per_transaction = 1024"):
        Database.open(postgres.new_database())


def test_clients_of_a_task_that_another_process_deleted_are_refused(postgres: Any, key_file: Path) -> None:
    """Also by a process that knew the task, and those of other tasks in the same transaction go on.

    They are not said to guess tokens, which would keep others at their address waiting.
    """
    url = postgres.new_database()

    async def use() -> None:
        signing = str(key_file.with_name("collect.signing-key"))
        settings = ServiceSettings(url, ADMIN, key_file=str(key_file), signing_key_file=signing)
        async with running(settings) as (app, http):
            service = app.state.service
            assert (await http.get("/tasks/pets")).status_code == 200  # it is known now
            other = Database.open(url)
            prepared(other, CARS)
            removed(other, PETS)
            answer = await http.post("/tasks/pets/session", headers={"Authorization": "Bearer token"})
            assert (answer.status_code, answer.json()["reason"]) == (410, "task-closed")
            drop_deleted(other.writer)
            other.close()
            for _ in range(2):
                answers = [
                    await http.delete("/tasks/pets"),
                    await http.post("/tasks/pets/session", headers={"Authorization": "Bearer whoever"}),
                ]
                assert {(each.status_code, each.json()["reason"]) for each in answers} == {(410, "task-closed")}
                service.known["pets"] = PETS

            asked = [(PETS, TOKENS[0]), (CARS, TOKENS[0])]
            found = await asyncio.gather(
                *(service.queue.do_together(t, service.steps.invite, (task, t)) for task, t in asked),
                return_exceptions=True,
            )
            assert partitions.is_missing(found[0]) if isinstance(found[0], BaseException) else False
            assert not isinstance(found[1], BaseException)

    asyncio.run(use())


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_migration_keeps_every_row(postgres: Any, monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    """Of several tasks, and none of one that was deleted; where it is interrupted, it begins anew."""
    url = postgres.new_database()
    engine = at_revision(url, "0008")
    new = "INSERT INTO sessions (id, task, token, promise, expires, stage, reason, position) "
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO tasks VALUES ('cars', :it, 7)"), {"it": CARS.to_json()})
        connection.execute(text("INSERT INTO tasks VALUES ('gone', '{}', 7, true)"))
        for task in ("pets", "cars", "gone"):
            of = {"task": task}
            numbers = "FROM generate_series(1, 300) AS i"
            connection.execute(text(f"INSERT INTO tokens SELECT :task, sha256(int8send(i)) {numbers}"), of)
            values = (
                f"SELECT sha256((:task || i)::bytea), :task, sha256(int8send(i)), 'p', i, 'invited', '', i {numbers}"
            )
            connection.execute(text(new + values), of)
            connection.execute(text(f"INSERT INTO tree_nodes SELECT :task, 6, i, 'd' {numbers}"), of)
        before = all_rows(connection)
        unchanged = connection.execute(text("SELECT * FROM tasks ORDER BY name")).all()
    if interrupted:
        with monkeypatch.context() as patch:
            from alembic import op

            execute = op.execute
            stop = "ALTER TABLE tree_nodes ADD"  # near the end
            patch.setattr(op, "execute", lambda it: 1 / 0 if stop in it else execute(it))
            with pytest.raises(ZeroDivisionError):
                Database.open(url)
        with engine.begin() as connection:
            assert all_rows(connection) == before
    engine.dispose()
    opened = Database.open(url)
    with opened.reading() as connection:
        kept = {name: [row for row in rows if "gone" not in row] for name, rows in before.items()}
        assert all_rows(connection) == kept
        assert {len(rows) for rows in kept.values()} == {600}
        assert connection.execute(text("SELECT * FROM tasks ORDER BY name")).all() == unchanged
        assert set(attached(connection).values()) == {"FOR VALUES IN ('cars')", "FOR VALUES IN ('pets')"}
        leftover = text("SELECT count(*) FROM pg_class WHERE relname LIKE '%whole%'")
        assert connection.execute(leftover).scalar_one() == 0
    token = b"a new token".ljust(32)
    with opened.writing() as connection:
        store.put_tokens(connection, PETS, [token])
        made = "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'sessions\\_%' ORDER BY 1"
        old = list(connection.exec_driver_sql(made.replace("%", "%%")).scalars())
        store.put_task(connection, BIKES)
        new_ones = set(connection.exec_driver_sql(made.replace("%", "%%")).scalars()) - set(old)
        ends = [sorted(re.sub(r".* USING", "", key) for key in keys) for keys in (new_ones, old[:3])]
        assert len(new_ones) == 3
        assert ends[0] == sorted({re.sub(r".* USING", "", key) for key in old})  # partitions of both kinds are alike
    take_part(opened, PETS, token)
    opened.close()
