"""The queries and changes of the database. Every change is conditional on the stage of the session, so it happens once,
however often it is requested."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Generic, TypeVar

import msgpack
from sqlalchemy import (
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    select,
    update,
)

from veridp.collect.messages import (
    SESSION_BYTES,
    Commit,
    Context,
    Opening,
    Reason,
    Refused,
    decode,
    encode,
    packed,
    promise,
)
from veridp.collect.service.database import tally_of
from veridp.collect.service.keys import NonceKeys
from veridp.collect.service.partitions import add_partitions, clear, part_of, within
from veridp.collect.service.rows import Columns, execute, insert_if_new
from veridp.collect.service.schema import sessions, tasks, tokens
from veridp.collect.task import Checks, Session, SessionStage, Task

TOKEN_BYTES = 32
PAGE = 1000  # rows that are read at a time

M = TypeVar("M", Commit, Opening)


# Statements are built once for each task; only their parameters change.
_ISSUED = "INSERT INTO {tokens} (task, token) SELECT task, token FROM given WHERE true ON CONFLICT DO NOTHING"
_NEW: Columns = {
    "id": "bytea",
    "task": "text",
    "token": "bytea",
    "promise": "bytea",
    "expires": "bigint",
    "moment": "bigint",
}
_INVITED = """
INSERT INTO {sessions} (id, task, token, promise, expires, stage, reason)
SELECT given.id, tokens.task, tokens.token, given.promise, given.expires, 'invited', ''
FROM given CROSS JOIN {tokens} AS tokens CROSS JOIN tasks
WHERE tokens.task = given.task AND tokens.token = given.token AND tasks.name = tokens.task
  AND (tasks.closes IS NULL OR tasks.closes > given.moment)
ON CONFLICT DO NOTHING RETURNING id
"""
_COMMIT: Columns = {"id": "bytea", "commitment": "bytea", "nonce": "bytea"}
_COMMITTED = """
UPDATE {sessions} AS sessions SET stage = 'challenged', commitment = given.commitment, nonce = given.nonce
FROM given WHERE sessions.id = given.id AND sessions.stage = 'invited' RETURNING sessions.id
"""
_OPENING: Columns = {"id": "bytea", "stage": "text", "opening": "bytea", "outputs": "bytea", "reason": "text"}
_OPENED = """
UPDATE {sessions} AS sessions
SET stage = given.stage, opening = given.opening, outputs = given.outputs, reason = given.reason
FROM given WHERE sessions.id = given.id AND sessions.stage = 'challenged' RETURNING sessions.id
"""


def token_hash(token: str) -> bytes:
    """What is kept of a client's token."""
    return blake2b(token.encode(), digest_size=TOKEN_BYTES, person=b"veridp token").digest()


# ----------------------------------------------------------------------------------------------------------- tasks


def put_task(connection: Connection, task: Task) -> None:
    """Keep the task; refuse it if there is another one of its name."""
    document = task.to_json()
    new = insert_if_new(connection, tasks).returning(tasks.c.name)
    row = {"name": task.name, "document": document}
    if connection.execute(new, row).one_or_none():  # by this transaction: others that create the same task wait for it
        add_partitions(connection, task.name)
    elif _document(connection, task.name) != document:
        raise Refused(Reason.CONFLICT, f"there is another task {task.name!r}; give this one another name")


def get_task(connection: Connection, name: str) -> Task:
    return _parsed(_document(connection, name))


@lru_cache(maxsize=256)
def _parsed(document: str) -> Task:
    return Task.from_json(document)


def all_tasks(connection: Connection) -> list[tuple[Task, int]]:
    """The tasks that were not deleted, by name, each with the time from which on it takes no new sessions."""
    kept = select(tasks.c.document, tasks.c.closes).where(~tasks.c.deleted).order_by(tasks.c.name)
    return [(task := _parsed(row.document), _earlier(task, row.closes)) for row in connection.execute(kept)]


def closing_time(connection: Connection, task: Task) -> int:
    """From when on no session is begun, in seconds since 1970."""
    return _earlier(task, connection.execute(select(tasks.c.closes).where(tasks.c.name == task.name)).scalar_one())


def _earlier(task: Task, closes: int | None) -> int:
    return task.expires if closes is None else min(int(closes), task.expires)


def close_task(connection: Connection, task: Task, closes: int) -> None:
    """Begin no sessions from this time on; a later time than before opens the task again."""
    if closes > task.expires:
        raise Refused(
            Reason.CONFLICT,
            f"the definition of the task {task.name!r} ends it at {task.expires}, which cannot change; "
            "make a task of another name",
        )
    _document(connection, task.name, for_update=True)  # refused where it was deleted, as another process may have done
    connection.execute(update(tasks).where(tasks.c.name == task.name).values(closes=closes))


def delete_task(connection: Connection, task: Task, now: float) -> None:
    """Delete all that clients sent. The name stays taken, and the last head of the log is kept."""
    _document(connection, task.name, for_update=True)  # those who extend it or add tokens wait, and are refused then
    if closing_time(connection, task) > now:
        raise Refused(Reason.CONFLICT, f"the task {task.name!r} is open; close it first")
    clear(connection, task.name)
    connection.execute(update(tasks).where(tasks.c.name == task.name).values(deleted=True))


def put_tokens(connection: Connection, task: Task, hashes: Sequence[bytes]) -> None:
    """Let clients with tokens of these hashes take part, once each; tokens that are known already stay unchanged."""
    _document(connection, task.name, for_share=True)
    rows = [(task.name, token) for token in sorted(set(hashes))]
    execute(connection, within(connection, _ISSUED, task.name), {"task": "text", "token": "bytea"}, rows)


# -------------------------------------------------------------------------------------------------------- sessions


def invite(connection: Connection, task: Task, token: bytes, now: float, keys: NonceKeys) -> Session:
    """The one session of the token, begun now if there is none yet."""
    return _alone(invite_all(connection, [(task, token)], now, keys))


def invite_all(
    connection: Connection, asked: Sequence[tuple[Task, bytes]], now: float, keys: NonceKeys
) -> list[Session | Refused]:
    """The one session of each token, begun now if there is none yet; or why it is refused."""
    new = [_new_session(task, token, now, keys) for task, token in asked]
    rows: dict[str, list[tuple[bytes, str, bytes, bytes, int, int]]] = {}
    for (task, token), begun in zip(asked, new, strict=True):
        if now < task.expires:
            row = (begun.context.session, task.name, token, begun.promised, begun.expires, int(now))
            rows.setdefault(task.name, []).append(row)
    written: set[bytes] = set()
    for name in sorted(rows):
        in_order = sorted(rows[name], key=lambda row: row[2])
        written |= {bytes(row.id) for row in execute(connection, within(connection, _INVITED, name), _NEW, in_order)}
    found: list[Session | Refused] = []
    for (task, token), begun in zip(asked, new, strict=True):
        if begun.context.session in written:
            tally_of(connection).note(task, begun)
            found.append(begun)
        else:
            found.append(_or_refused(partial(_begun_before, connection, task, token, now)))
    return found


def _new_session(task: Task, token: bytes, now: float, keys: NonceKeys) -> Session:
    context = Context(task.digest, secrets.token_bytes(SESSION_BYTES))
    expires = min(int(now) + task.session_seconds, task.expires)
    return Session(context, b"", expires, promised=promise(context, keys.new(context)), token=token)


def _begun_before(connection: Connection, task: Task, token: bytes, now: float) -> Session:
    """The session of a token for which none can begin now."""
    found = _find(connection, task, token)
    if found is None:
        _check_token(connection, task, token)
        raise Refused(Reason.TASK_CLOSED, f"the task {task.name!r} is closed")
    if found.verdict is None and now >= found.expires:
        raise Refused(Reason.EXPIRED, "the session of this token expired, which uses up the token")
    return found


def get_session(connection: Connection, task: Task, token: bytes) -> Session:
    """The session of the token; refused if it has begun none."""
    found = _find(connection, task, token)
    if found is None:
        _check_token(connection, task, token)
        raise Refused(Reason.OUT_OF_ORDER, "the token has no session yet; ask for one first")
    return found


@dataclass(frozen=True)
class Sent(Generic[M]):
    """A message of a session: of which token, who checks it, and the session as it was seen last, if it was."""

    task: Task
    token: bytes
    message: M
    checks: Checks
    cached: Session | None = None


def put_commit(
    connection: Connection,
    task: Task,
    token: bytes,
    commit: Commit,
    now: float,
    checks: Checks,
    keys: NonceKeys,
    cached: Session | None = None,
) -> Session:
    """The session with this commitment. One that is `cached` is tried before the database is asked."""
    return _alone(put_commits(connection, [Sent(task, token, commit, checks, cached)], now, keys))


def put_commits(
    connection: Connection, sent: Sequence[Sent[Commit]], now: float, keys: NonceKeys
) -> list[Session | Refused]:
    """The sessions with these commitments, or why they are refused."""

    def after(before: Session, one: Sent[Commit]) -> Session:
        found = before.committed(one.message, now, one.checks)
        return found if found.nonce else replace(found, nonce=keys.promised(found.context, found.promised))

    def write(name: str, changed: Sequence[Session]) -> set[bytes]:
        rows = [(each.context.session, each.commit.commitment, each.nonce) for each in changed if each.commit]
        return {bytes(row.id) for row in execute(connection, within(connection, _COMMITTED, name), _COMMIT, rows)}

    return _advanced(connection, sent, now, after, write)


def put_opening(
    connection: Connection,
    task: Task,
    token: bytes,
    opening: Opening,
    now: float,
    checks: Checks,
    cached: Session | None = None,
) -> Session:
    """The session with the verdict on this opening. One that is `cached` is tried before the database is asked."""
    return _alone(put_openings(connection, [Sent(task, token, opening, checks, cached)], now))


def put_openings(connection: Connection, sent: Sequence[Sent[Opening]], now: float) -> list[Session | Refused]:
    """The sessions with the verdicts on these openings, or why they are refused."""

    def write(name: str, changed: Sequence[Session]) -> set[bytes]:
        rows = [
            (
                each.context.session,
                str(each.stage),
                encode(each.opening),
                packed(each.verdict.outputs),
                each.verdict.reason,
            )
            for each in changed
            if each.opening and each.verdict
        ]
        return {bytes(row.id) for row in execute(connection, within(connection, _OPENED, name), _OPENING, rows)}

    # A session that was seen before its commitment may have been committed to elsewhere.
    seen = [one if one.cached and one.cached.commit else replace(one, cached=None) for one in sent]
    return _advanced(connection, seen, now, lambda before, one: before.opened(one.message, now, one.checks), write)


def _advanced(
    connection: Connection,
    sent: Sequence[Sent[M]],
    now: float,
    after: Callable[[Session, Sent[M]], Session],
    write: Callable[[str, Sequence[Session]], set[bytes]],
) -> list[Session | Refused]:
    """The sessions after these messages, those of a task written together; each is first tried as it was seen last.

    `write` changes those of a task that are still at the stage before, and gives their numbers. A session that is not
    among them was changed by another process, or by a message of the same token here, and is read again.
    """
    found: dict[int, Session | Refused] = {}
    for cached in (True, False, False):
        tried: dict[str, dict[bytes, tuple[int, Session]]] = {}
        for number, one in enumerate(sent):
            if number in found or (cached and (one.cached is None or now >= one.cached.expires)):
                continue  # once it has expired, what was done in time decides: it is read
            try:
                before = one.cached if cached and one.cached else get_session(connection, one.task, one.token)
                changed = after(before, one)
            except Refused as refusal:
                found[number] = refusal
                continue
            if changed is before:
                found[number] = changed
            else:
                tried.setdefault(one.task.name, {}).setdefault(changed.context.session, (number, changed))
        for name in sorted(tried):
            mine = tried[name]
            for identity in write(name, [mine[identity][1] for identity in sorted(mine)]):
                number, changed = mine[identity]
                found[number] = changed
                tally_of(connection).note(sent[number].task, changed)
    conflict = Refused(Reason.CONFLICT, "the session changed meanwhile; try again")
    return [found.get(number, conflict) for number in range(len(sent))]


def _alone(found: Sequence[Session | Refused]) -> Session:
    (one,) = found
    if isinstance(one, Refused):
        raise one
    return one


def _or_refused(step: Callable[[], Session]) -> Session | Refused:
    try:
        return step()
    except Refused as refusal:
        return refusal


def _find(connection: Connection, task: Task, token: bytes) -> Session | None:
    found = _of_token(part_of(connection, sessions, task.name))
    row = connection.execute(found, {"of_task": task.name, "of_token": token}).one_or_none()
    return None if row is None else session_of(task, row)


@lru_cache(maxsize=256)
def _of_token(table: Table) -> Select[tuple[object, ...]]:
    mine = (table.c.task == bindparam("of_task")) & (table.c.token == bindparam("of_token"))
    return select(table).where(mine)


def session_of(task: Task, row: Row[tuple[object, ...]]) -> Session:
    """The session that a row holds."""
    identity = bytes(row.id)
    session = Session(
        Context(task.digest, identity),
        b"" if row.nonce is None else bytes(row.nonce),
        row.expires,
        None if row.commitment is None else Commit(task.digest, identity, bytes(row.commitment)),
        None if row.opening is None else decode(bytes(row.opening), Opening),
        promised=bytes(row.promise),
        token=bytes(row.token),
    )
    outputs = None if row.outputs is None else msgpack.unpackb(row.outputs)
    return session.decided(SessionStage(row.stage), row.reason, outputs)


def _check_token(connection: Connection, task: Task, token: bytes) -> None:
    table = part_of(connection, tokens, task.name)
    known = select(table.c.token).where((table.c.task == task.name) & (table.c.token == token))
    if connection.execute(known).one_or_none() is None:
        _document(connection, task.name)  # another process may have deleted the task, with its tokens
        raise Refused(Reason.UNKNOWN_TOKEN, f"the token is not one of the task {task.name!r}")


# --------------------------------------------------------------------------------------------------------- reading


def all_sessions(connection: Connection, task: Task) -> Iterator[Session]:
    """Every session of the task, a page at a time: those in the tree by their place, and then the others."""
    table = part_of(connection, sessions, task.name)
    rows = connection.execution_options(yield_per=PAGE).execute(
        select(table).where(table.c.task == task.name).order_by(table.c.position.nulls_last(), table.c.id)
    )
    for row in rows:
        yield session_of(task, row)


def all_tokens(connection: Connection, task: Task) -> Iterator[bytes]:
    """The hashes of all tokens of the task, in increasing order, a page at a time."""
    table = part_of(connection, tokens, task.name)
    rows = connection.execution_options(yield_per=PAGE).execute(
        select(table.c.token).where(table.c.task == task.name).order_by(table.c.token)
    )
    for row in rows:
        yield bytes(row.token)


def was_deleted(name: str) -> Refused:
    return Refused(Reason.TASK_CLOSED, f"the task {name!r} was deleted; its name cannot be used again")


def _document(connection: Connection, name: str, *, for_share: bool = False, for_update: bool = False) -> str:
    """The task's definition; refused if the task was deleted.

    Until the transaction ends, `for_share` prevents its deletion, and `for_update` all changes and new tokens too.
    """
    asked = select(tasks.c.document, tasks.c.deleted).where(tasks.c.name == name)
    asked = asked.with_for_update(read=for_share) if for_share or for_update else asked
    found = connection.execute(asked).one_or_none()
    if found is None:
        raise Refused(Reason.UNKNOWN_TASK, f"there is no task {name!r}")
    if found.deleted:
        raise was_deleted(name)
    document: str = found.document
    return document
