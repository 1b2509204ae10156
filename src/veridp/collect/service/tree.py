"""The Merkle tree of a task's decided sessions, kept in the database. Its signed head also counts sessions that began.

A session gets its place when the tree grows: every few seconds, and when a client asks for a receipt. How much is read
for this does not depend on the number of sessions: nodes are stored from `TILE` levels above the leaves on, and those
below are computed from the sessions of one tile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import msgpack
from sqlalchemy import Connection, Row, Table, insert, select, update
from sqlalchemy.exc import DBAPIError

from veridp.collect.merkle import consistency_path, inclusion_path, joined, leaf_hash, root_of
from veridp.collect.messages import Reason, Refused, SessionVerdict, encode
from veridp.collect.receipts import Receipt, TreeHead, packed_entry
from veridp.collect.service.keys import SigningKey
from veridp.collect.service.partitions import hold, is_missing, part_of, within
from veridp.collect.service.rows import Columns, execute, insert_if_new
from veridp.collect.service.schema import sessions, tasks, tree_heads, tree_nodes, unlogged
from veridp.collect.service.store import all_sessions, all_tokens, get_task, was_deleted
from veridp.collect.service.tally import steps_of
from veridp.collect.task import Task
from veridp.collect.transcript import written

TILE = 6  # levels: tiles of 64 sessions
MOST_TOGETHER = 2000  # sessions that get their places in one transaction

_PLACES: Columns = {"id": "bytea", "position": "bigint", "leaf": "bytea"}
_WAITING: Columns = {"task": "text", "id": "bytea"}
_LOGGED = "DELETE FROM unlogged WHERE (task, id) IN (SELECT task, id FROM given)"
_PLACED = """
UPDATE {sessions} AS sessions SET position = given.position, leaf = given.leaf
FROM given WHERE sessions.id = given.id
"""


def tasks_to_log(connection: Connection, waiting: Table) -> list[str]:
    """The tasks with decided sessions that have no place yet; those `under_way` may have some that no head counts."""
    kept = select(waiting.c.task).distinct().join(tasks, tasks.c.name == waiting.c.task).where(~tasks.c.deleted)
    return list(connection.execute(kept).scalars())


def grow(connection: Connection, task: Task, key: SigningKey, clock: Callable[[], float] = time.time) -> TreeHead:
    """Append decided sessions to the tree, at most `MOST_TOGETHER` of them, and return its head.

    A new head is signed if there are such sessions, or if more sessions began or got a challenge since the last one.
    Refused if the task was deleted, so that its last head stays. The clock is read last: this may have waited for
    another server, and the head must not be dated before sessions that it counts.
    """
    connection.execute(insert_if_new(connection, tree_heads), {"task": task.name, "head": ""})
    mine = tree_heads.c.task == task.name
    found = select(tree_heads.c.head, tasks.c.deleted).join_from(tree_heads, tasks).where(mine)
    kept, deleted = connection.execute(found.with_for_update(of=tree_heads)).one()  # servers take turns
    if deleted:
        raise was_deleted(task.name)
    before = TreeHead.from_json(kept) if kept else None
    start = 0 if before is None else before.size
    some = select(unlogged.c.id).where(unlogged.c.task == task.name).order_by(unlogged.c.id).limit(MOST_TOGETHER)
    waiting = some.cte()
    table = part_of(connection, sessions, task.name)
    decided = select(table).join_from(waiting, table, table.c.id == waiting.c.id)
    rows = connection.execute(decided.order_by(table.c.id)).all()
    counts = steps_of(connection, task)  # read after the rows, so that it includes them
    counted = before is not None and before.counts is not None and before.counts.covers(counts)
    if before is not None and counted and not rows and before.key == key.public:
        return before
    leaves = [leaf_hash(_entry_of(task, row)) for row in rows]
    places = range(start, start + len(rows))
    numbers = (row.id for row in rows)
    placed = within(connection, _PLACED, task.name)
    execute(connection, placed, _PLACES, list(zip(numbers, places, leaves, strict=True)))
    execute(connection, _LOGGED, _WAITING, [(task.name, row.id) for row in rows])
    nodes = _TreeNodes(connection, task)
    nodes.complete(start, start + len(rows))
    size = start + len(rows)
    head = key.sign(TreeHead(task.digest, size, int(clock()), root_of(size, nodes), key.public, counts=counts))
    text = json.dumps(head.to_document(), sort_keys=True)
    connection.execute(update(tree_heads).where(mine).values(head=text))
    return head


def _entry_of(task: Task, row: Row[tuple[object, ...]]) -> bytes:
    """The entry of a decided session, from its row; the opening is hashed as it was sent, without decoding it."""
    accepted, outputs = row.stage == "accepted", tuple(msgpack.unpackb(row.outputs))
    verdict = encode(SessionVerdict(task.digest, bytes(row.id), accepted, row.reason, outputs))
    opening = sha256(row.opening).digest()
    return packed_entry(bytes(row.id), bytes(row.promise), bytes(row.nonce), bytes(row.commitment), opening, verdict)


def head_of(connection: Connection, task: Task) -> TreeHead | None:
    """The newest head that was signed."""
    kept = connection.execute(select(tree_heads.c.head).where(tree_heads.c.task == task.name)).scalar_one_or_none()
    return TreeHead.from_json(kept) if kept else None


def receipt_of(connection: Connection, task: Task, token: bytes) -> Receipt:
    """The receipt of the token's session; refused if the session is not decided or has no place yet."""
    table = part_of(connection, sessions, task.name)
    mine = (table.c.task == task.name) & (table.c.token == token)
    row = connection.execute(select(table.c.stage, table.c.position).where(mine)).one_or_none()
    if row is None or row.stage not in ("accepted", "rejected"):
        raise Refused(Reason.OUT_OF_ORDER, "a receipt before the verdict; complete the session first")
    head = head_of(connection, task)
    if head is None or row.position is None or row.position >= head.size:
        raise Refused(Reason.UNAVAILABLE, "the session is not in the log yet; try again")
    path = inclusion_path(row.position, head.size, _TreeNodes(connection, task))
    return Receipt(row.position, tuple(path), head)


def consistency_of(connection: Connection, task: Task, first: int, second: int) -> list[bytes]:
    """The proof that the tree of the second size begins with that of the first."""
    head = head_of(connection, task)
    if not 0 < first <= second <= (0 if head is None else head.size):
        raise Refused(Reason.MALFORMED, "give sizes that the log has had, the smaller one first, and at least 1")
    return consistency_path(first, second, _TreeNodes(connection, task))


def log_of(connection: Connection, name: str) -> Iterator[bytes]:
    """The log of a task in pieces; the task cannot be deleted before the transaction ends."""
    try:
        hold(connection, name)
    except DBAPIError as error:
        if not is_missing(error):
            raise
        connection.rollback()  # the task does not exist or was deleted: `get_task` says which
    task = get_task(connection, name)
    parts = all_sessions(connection, task), all_tokens(connection, task)
    return written(task, int(time.time()), *parts, head=head_of(connection, task))


class _TreeNodes:
    """The digests of complete subtrees, read as they are needed."""

    def __init__(self, connection: Connection, task: Task) -> None:
        self.connection, self.task = connection, task
        self.nodes, self.sessions = (part_of(connection, table, task.name) for table in (tree_nodes, sessions))
        self.known: dict[tuple[int, int], bytes] = {}

    def __call__(self, level: int, place: int) -> bytes:
        if (level, place) not in self.known:
            if level >= TILE:
                nodes = self.nodes.c
                at = (nodes.task == self.task.name) & (nodes.level == level) & (nodes.place == place)
                found = select(nodes.digest).where(at)
                self.known[level, place] = bytes(self.connection.execute(found).scalar_one())
            elif level:
                self.known[level, place] = joined(self(level - 1, 2 * place), self(level - 1, 2 * place + 1))
            else:
                self._read_tile(place >> TILE)
        return self.known[level, place]

    def complete(self, start: int, end: int) -> None:
        """Write the nodes above tiles that are complete with the leaves from `start` to `end`."""
        new: list[tuple[int, int]] = []
        level = TILE
        while end >> level:
            for place in range(start >> level, end >> level):
                if level == TILE:
                    self._read_tile(place)
                self.known[level, place] = joined(self(level - 1, 2 * place), self(level - 1, 2 * place + 1))
                new.append((level, place))
            level += 1
        self._write(new)

    def _write(self, new: Iterable[tuple[int, int]]) -> None:
        rows = [
            {"task": self.task.name, "level": level, "place": place, "digest": self.known[level, place]}
            for level, place in new
        ]
        if rows:
            self.connection.execute(insert(self.nodes), rows)

    def _read_tile(self, tile: int) -> None:
        kept = self.sessions.c
        of_tile = (kept.task == self.task.name) & kept.position.between(tile << TILE, (tile + 1 << TILE) - 1)
        rows = self.connection.execute(select(kept.position, kept.leaf).where(of_tile))
        self.known |= {(0, row.position): bytes(row.leaf) for row in rows}
