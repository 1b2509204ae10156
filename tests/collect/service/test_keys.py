"""Nonces come from keys that are not in the database, and nobody but their owner can read the files of either."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from veridp.collect import Client, MemoryVault, Reason, Refused, Task
from veridp.collect.messages import promise
from veridp.collect.service import schema, store
from veridp.collect.service.background import Known
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys
from veridp.collect.service.rows import execute
from veridp.collect.task import Session
from veridp.errors import BadInput

TASK = Task("pets", "vgrr", 1.0, items=("cat", "dog", "fox"), minimum_batch=1)
TOKEN = b"t" * 32
OLD, NEW = NonceKeys((b"o" * 32,)), NonceKeys((b"n" * 32,))


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Files are made for everybody to read, if nobody forbids it."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.usefixtures("open_umask")
def test_files_of_a_collection_are_private(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/collect.db"
    keys = NonceKeys.open("", url)
    assert NonceKeys.open("", url) == keys
    database = Database.open(url)
    with database.writing() as connection:
        store.put_task(connection, TASK)
        assert len(list(tmp_path.iterdir())) == 4  # the write-ahead log and its index as well
        assert modes(tmp_path) == {0o600}
    database.close()


def test_files_that_others_could_read_become_private(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/collect.db"
    Database.open(url).close()
    (tmp_path / "collect.db").chmod(0o644)
    Database.open(url).close()
    assert modes(tmp_path) == {0o600}


def begun(database: Database, keys: NonceKeys) -> Session:
    with database.writing() as connection:
        store.put_task(connection, TASK)
        store.put_tokens(connection, TASK, [TOKEN])
        return store.invite(connection, TASK, TOKEN, time.time(), keys)


def test_who_reads_the_database_learns_no_nonce_before_it_is_sent(database: str) -> None:
    opened = Database.open(database)
    session = begun(opened, OLD)
    nonce = OLD.new(session.context)
    assert promise(session.context, nonce) == session.invitation.promise
    with opened.reading() as connection:
        (row,) = connection.execute(schema.sessions.select()).mappings()
        kept = b"".join(bytes(part) for part in row.values() if isinstance(part, bytes | memoryview))
        assert nonce not in kept
        assert row["nonce"] is None
        assert [found.nonce for found in store.all_sessions(connection, TASK)] == [b""]
    opened.close()


def test_errors_of_the_database_show_no_nonce(database: str) -> None:
    """They are logged; the transaction that would have stored the commitment with its nonce is undone."""
    opened, nonce = Database.open(database), b"a nonce that is not yet sent ..."
    columns = {"id": "bytea", "nonce": "bytea"}
    with opened.writer.begin() as connection, pytest.raises(DBAPIError) as failed:
        execute(connection, "UPDATE nowhere SET nonce = given.nonce FROM given", columns, [(b"id", nonce)])
    assert "nowhere" in str(failed.value)
    assert nonce.decode() not in str(failed.value)
    assert nonce.hex() not in str(failed.value)
    opened.close()


def test_keys_can_be_changed_while_sessions_are_under_way(tmp_path: Path) -> None:
    opened = Database.open(f"sqlite:///{tmp_path}/collect.db")
    session = begun(opened, OLD)
    commit = Client(TASK.protocol, TASK.verifier, MemoryVault(), random.Random(1)).commit(session.invitation, "dog")
    with opened.writing() as connection:
        with pytest.raises(Refused, match="old key file") as refused:
            store.put_commit(connection, TASK, TOKEN, commit, time.time(), Known(), NEW)
        assert refused.value.reason == Reason.UNAVAILABLE
        both = NonceKeys((*NEW.keys, *OLD.keys))
        challenged = store.put_commit(connection, TASK, TOKEN, commit, time.time(), Known(), both)
        assert challenged.challenge.nonce == OLD.new(session.context) != both.new(session.context)
    opened.close()


def test_key_files_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    for wrong in ("", "nonsense", "ab" * 31):
        file.write_text(wrong)
        with pytest.raises(BadInput, match="openssl rand -hex 32"):
            NonceKeys.open(str(file), "sqlite:///x.db")
    file.write_text("ab" * 32 + "\n" + "cd" * 32 + "\n")
    assert NonceKeys.open(str(file), "postgresql://u@h/d").keys == (b"\xab" * 32, b"\xcd" * 32)
    assert "ab" not in repr(NonceKeys.open(str(file), "sqlite:///x.db"))
    file.chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        NonceKeys.open(str(file), "sqlite:///x.db")
    with pytest.raises(BadInput, match="--key-file"):
        NonceKeys.open("", "postgresql://u@h/d")
    with pytest.raises(BadInput, match="No such file"):
        NonceKeys.open(str(tmp_path / "none"), "sqlite:///x.db")
    with pytest.raises(BadInput, match="not a file"):
        Database.open("sqlite://")
