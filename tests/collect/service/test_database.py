"""The database behind the service: migrations, and addresses that do not work."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import msgpack
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, inspect, make_url, text

from veridp.collect import Client, MemoryVault, Task
from veridp.collect.attacks import new_session
from veridp.collect.estimate import Attendance
from veridp.collect.messages import encode
from veridp.collect.service import store, tree
from veridp.collect.service.background import Known
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys, SigningKey
from veridp.collect.service.schema import metadata
from veridp.collect.service.tally import standing, support
from veridp.collect.task import Session, SessionStage
from veridp.errors import BadInput

TASK = Task("pets", "vgrr", 1.0, items=("cat", "dog", "fox"), minimum_batch=1)
PARTITION = re.compile(r"(sessions|tokens|tree_nodes)_[0-9a-f]{32}")
KEYS = NonceKeys((bytes(32),))


def differences(connection: Connection) -> list[object]:
    """Between the tables that the code uses and those of the database; partitions are like their tables."""

    def is_table(found: object, name: str | None, kind: str, reflected: bool, compared: object) -> bool:
        return kind != "table" or not PARTITION.fullmatch(str(name))

    context = MigrationContext.configure(connection, opts={"include_object": is_table})
    found: list[object] = compare_metadata(context, metadata)
    return found


def test_migrations_make_the_tables_that_the_code_uses(database: str) -> None:
    opened = Database.open(database)
    with opened.reading() as connection:
        assert differences(connection) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}
    opened.close()


def at_revision(url: str, revision: str) -> Engine:
    """A database whose tables are those of an older version."""
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg") if "postgresql" in url else url)
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(store.__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.execute(text("INSERT INTO tasks VALUES ('pets', :document)"), {"document": TASK.to_json()})
    return engine


def test_an_older_database_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    at_revision(url, "0001").dispose()
    for _ in range(2):  # the second time there is nothing to do
        found = Database.open(url)
        with found.reading() as connection:
            assert store.get_task(connection, "pets") == TASK
            assert "sessions_by_position" in {index["name"] for index in inspect(connection).get_indexes("sessions")}
        found.close()


def old_row(token: bytes, session: Session) -> dict[str, object]:
    verdict = session.verdict
    return {
        "id": session.context.session,
        "token": token,
        "nonce": session.nonce,
        "expires": int(time.time()) + 600,
        "stage": str(session.stage),
        "commitment": None if session.commit is None else session.commit.commitment,
        "opening": None if session.opening is None else encode(session.opening),
        "outputs": None if verdict is None else msgpack.packb(list(verdict.outputs)),
    }


def test_sessions_under_way_go_on_after_the_migration(database: str) -> None:
    """Of a database that still had the nonces of all sessions: each is invited, challenged or accepted."""
    rng, now = random.Random(4), time.time()
    clients = [Client(TASK.protocol, TASK.verifier, MemoryVault(), rng) for _ in range(3)]
    sessions = [new_session(TASK, rng) for _ in range(3)]
    for stage in (1, 2):
        commit = clients[stage].commit(sessions[stage].invitation, "dog")
        sessions[stage] = sessions[stage].committed(commit, 0, TASK.verifier)
    sessions[2] = sessions[2].opened(clients[2].open(sessions[2].challenge), 0, TASK.verifier)
    engine = at_revision(database, "0002")
    tokens = [bytes([number]) * 32 for number in range(3)]
    columns = "id, task, token, nonce, expires, stage, reason, commitment, opening, outputs"
    values = ":id, 'pets', :token, :nonce, :expires, :stage, '', :commitment, :opening, :outputs"
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO tokens VALUES ('pets', :token)"), [{"token": token} for token in tokens])
        rows = [old_row(token, session) for token, session in zip(tokens, sessions, strict=True)]
        connection.execute(text(f"INSERT INTO sessions ({columns}) VALUES ({values})"), rows)  # noqa: S608
    engine.dispose()
    opened = Database.open(database)
    with opened.reading() as connection:
        assert differences(connection) == []
        assert standing(connection, TASK, now).attendance == Attendance(1, 0, 0, 0, 1, 1)
        assert sessions[2].verdict is not None
        assert support(connection, TASK) == [int(item == sessions[2].verdict.outputs[0]) for item in range(3)]
    with opened.writing() as connection:
        invited = store.invite(connection, TASK, tokens[0], now, KEYS)
        assert invited.invitation.promise == sessions[0].invitation.promise
        commit = clients[0].commit(sessions[0].invitation, "dog")
        challenged = store.put_commit(connection, TASK, tokens[0], commit, now, Known(), KEYS)
        assert challenged.nonce == sessions[0].nonce
        opening = clients[1].open(store.get_session(connection, TASK, tokens[1]).challenge)
        decided = store.put_opening(connection, TASK, tokens[1], opening, now, TASK.verifier)
        assert decided.stage == SessionStage.ACCEPTED
        assert store.get_session(connection, TASK, tokens[2]).verdict == sessions[2].verdict
    with opened.reading() as connection:
        assert standing(connection, TASK, now).attendance == Attendance(2, 0, 0, 0, 1, 0)
        assert sum(support(connection, TASK)) == 2
    with opened.writing() as connection:
        assert tree.grow(connection, TASK, SigningKey(bytes(32))).size == 2  # one of them from before
    opened.close()


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://u@h/d", "sqlite:////nowhere/at/all.db", "postgresql://u@localhost:1/d"]
)
def test_databases_that_cannot_be_opened_are_said(url: str) -> None:
    with pytest.raises(BadInput, match=r"database|supported"):
        Database.open(url)
