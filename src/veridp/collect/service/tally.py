"""Running sums: how many sessions of a task took which step, and how much its accepted reports support each column.

They change in the transaction that changes the sessions, so they are always what counting the sessions would give, and
reading them takes as long for a million sessions as for one. Each process adds to a shard of its own, so that processes
do not wait for each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import postgresql, sqlite

from veridp.collect.estimate import Attendance
from veridp.collect.service.rows import Columns, execute
from veridp.collect.service.schema import sessions, supports, tallies
from veridp.collect.task import Session, SessionStage, Task

SHARDS = 64
SUMS = np.dtype("<i8")
Report = tuple[bytes, tuple[int, ...]]  # the session and its outputs
REJECTED = f"{SessionStage.REJECTED} "  # followed by the reason


@dataclass(frozen=True)
class TaskCounts:
    """How a task stands: how many sessions ended how, and for which reasons reports were rejected."""

    attendance: Attendance
    rejected: dict[str, int]
    abort_rate: float


@dataclass
class SessionTally:
    """What one transaction adds to the running sums."""

    steps: Counter[tuple[str, str]] = field(default_factory=Counter)  # by task and step
    tasks: dict[str, Task] = field(default_factory=dict)
    reports: dict[str, list[Report]] = field(default_factory=lambda: defaultdict(list))  # by task

    def step(self, task: Task, taken: str) -> None:
        self.steps[task.name, str(taken)] += 1

    def note(self, task: Task, session: Session) -> None:
        """A session with a commitment, or with a verdict."""
        verdict = session.verdict
        self.step(task, str(session.stage) if verdict is None or verdict.accepted else REJECTED + verdict.reason)
        if verdict is not None and verdict.accepted:
            self.tasks[task.name] = task
            self.reports[task.name].append((session.context.session, verdict.outputs))

    def write(self, connection: Connection, shard: int) -> None:
        """Add to the running sums, in one order, so that processes never wait for each other in a circle."""
        rows = [(task, shard, step, count) for (task, step), count in sorted(self.steps.items())]
        if rows:
            execute(connection, _ADDED, _ADDITIONS, rows)
        for name, reports in sorted(self.reports.items()):
            _add_support(connection, self.tasks[name], shard, reports)


_ADDITIONS: Columns = {"task": "text", "shard": "integer", "step": "text", "sessions": "bigint"}
_ADDED = """
INSERT INTO tallies (task, shard, step, sessions) SELECT task, shard, step, sessions FROM given WHERE true
ON CONFLICT (task, shard, step) DO UPDATE SET sessions = tallies.sessions + excluded.sessions
"""


def _add_support(connection: Connection, task: Task, shard: int, reports: Iterable[Report]) -> None:
    numbers, outputs = zip(*reports, strict=True)
    found = np.array(task.protocol.support(np.array(outputs, dtype=np.int64), numbers), dtype=SUMS)
    here = (supports.c.task == task.name) & (supports.c.shard == shard)
    locked = select(supports.c.sums).where(here).with_for_update()
    before = connection.execute(locked).scalar_one_or_none()
    if before is None:  # if another process makes the row at the same time, one of the two waits
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        row = {"task": task.name, "shard": shard, "sums": bytes(found.nbytes)}
        connection.execute(dialect.insert(supports).on_conflict_do_nothing(), row)
        before = connection.execute(locked).scalar_one()
    connection.execute(supports.update().where(here).values(sums=(_numbers(before) + found).tobytes()))


def _numbers(sums: bytes) -> NDArray[np.int64]:
    return np.frombuffer(bytes(sums), dtype=SUMS)


# ------------------------------------------------------------------------------------------------------------- reading


def standing(connection: Connection, task: Task, now: float) -> TaskCounts:
    """How the task stands; of the sessions, only those under way are counted."""
    steps = {
        step: int(count)
        for step, count in connection.execute(
            select(tallies.c.step, func.sum(tallies.c.sessions))
            .where(tallies.c.task == task.name)
            .group_by(tallies.c.step)
        )
    }
    rejected = {step.removeprefix(REJECTED): n for step, n in sorted(steps.items()) if step.startswith(REJECTED)}
    accepted, challenged = steps.get(SessionStage.ACCEPTED, 0), steps.get(SessionStage.CHALLENGED, 0)
    invited_now, challenged_now = (
        _under_way(connection, task, stage, now) for stage in (SessionStage.INVITED, SessionStage.CHALLENGED)
    )
    ended = accepted + sum(rejected.values())
    found = Attendance(
        accepted=accepted,
        rejected=sum(rejected.values()),
        expired_challenged=challenged - ended - challenged_now,
        expired_invited=steps.get(SessionStage.INVITED, 0) - challenged - invited_now,
        pending_challenged=challenged_now,
        pending_invited=invited_now,
    )
    return TaskCounts(found, rejected, found.abort_rate(task.protocol))


def _under_way(connection: Connection, task: Task, stage: SessionStage, now: float) -> int:
    """How many sessions of the stage have not expired; the index by stage has them in a row."""
    at_stage = (sessions.c.task == task.name) & (sessions.c.stage == str(stage)) & (sessions.c.reason == "")
    count = select(func.count()).select_from(sessions).where(at_stage & (sessions.c.expires > now))
    found: int = connection.execute(count).scalar_one()
    return found


def support(connection: Connection, task: Task) -> list[int]:
    """How much the accepted reports support each column."""
    total = np.zeros(len(task.protocol.columns), dtype=SUMS)
    for sums in connection.execute(select(supports.c.sums).where(supports.c.task == task.name)).scalars():
        total += _numbers(sums)
    found: list[int] = total.tolist()
    return found
