"""Running sums: how many sessions of a task took which step, and how much its accepted reports support each column.

They change in the transaction that changes the sessions, so they are always what counting the sessions would give, and
reading them takes as long for a million sessions as for one. Each process adds to a shard of its own, so that processes
do not wait for each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, select

from veridp.collect.estimate import Attendance
from veridp.collect.receipts import StepCounts
from veridp.collect.service.rows import Columns, RowChange, execute, execute_together, insert_if_new
from veridp.collect.service.schema import supports, under_way
from veridp.collect.task import Session, SessionStage, Task

SHARDS = 64
KEPT_SECONDS = 3600  # that sums of expired sessions are kept, for servers whose clocks differ
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
    invited: Counter[tuple[str, int]] = field(default_factory=Counter)  # by task and expiry
    challenged: Counter[tuple[str, int]] = field(default_factory=Counter)
    decided: list[tuple[str, bytes]] = field(default_factory=list)  # the task and the session
    tasks: dict[str, Task] = field(default_factory=dict)
    reports: dict[str, list[Report]] = field(default_factory=lambda: defaultdict(list))  # by task

    def note(self, task: Task, session: Session) -> None:
        """A session that is new, or has a commitment now, or a verdict."""
        when, verdict, taken = (task.name, session.expires), session.verdict, str(session.stage)
        if verdict is not None:
            self.challenged[when] -= 1
            self.decided.append((task.name, session.context.session))
            if verdict.accepted:
                self.tasks[task.name] = task
                self.reports[task.name].append((session.context.session, verdict.outputs))
            else:
                taken = REJECTED + verdict.reason
        elif session.commit is not None:
            self.invited[when] -= 1
            self.challenged[when] += 1
        else:
            self.invited[when] += 1
        self.steps[task.name, taken] += 1

    def write(self, connection: Connection, shard: int, last: Mapping[str, bytes]) -> dict[str, bytes]:
        """Add to the running sums, in one order, so that processes never wait for each other in a circle.

        `last` has the sums of support, by task, that this process wrote last, so that it need not read them; what it
        has written now is returned. Where another process has added to the same shard meanwhile, they are read.
        """
        steps = [(task, shard, step, count) for (task, step), count in sorted(self.steps.items())]
        whens = sorted({*self.invited, *self.challenged})
        moves = [(*when, shard, self.invited[when], self.challenged[when]) for when in whens]
        more = {name: _support_of(self.tasks[name], reports) for name, reports in sorted(self.reports.items())}
        sums = {name: _added(last[name], found) for name, found in more.items() if name in last}
        changes = (
            RowChange(_ADDED, _ADDITIONS, steps),
            RowChange(_MOVED, _MOVES, moves),
            RowChange(_QUEUED, _QUEUE, sorted(self.decided)),
            RowChange(_SUPPORTED, _SUPPORTS, [(name, shard, last[name], new) for name, new in sums.items()]),
        )
        written = {row.task for row in execute_together(connection, changes)}
        for name, found in more.items():
            if name not in written:
                sums[name] = _add_support(connection, name, shard, found)
        return sums


_ADDITIONS: Columns = {"task": "text", "shard": "integer", "step": "text", "sessions": "bigint"}
_ADDED = """
INSERT INTO tallies (task, shard, step, sessions) SELECT task, shard, step, sessions FROM given WHERE true
ON CONFLICT (task, shard, step) DO UPDATE SET sessions = tallies.sessions + excluded.sessions
"""
_MOVES: Columns = {
    "task": "text",
    "expires": "bigint",
    "shard": "integer",
    "invited": "bigint",
    "challenged": "bigint",
}
_MOVED = """
INSERT INTO under_way (task, expires, shard, invited, challenged)
SELECT task, expires, shard, invited, challenged FROM given WHERE true
ON CONFLICT (task, expires, shard) DO UPDATE SET
  invited = under_way.invited + excluded.invited, challenged = under_way.challenged + excluded.challenged
"""
_QUEUE: Columns = {"task": "text", "id": "bytea"}
_QUEUED = "INSERT INTO unlogged (task, id) SELECT task, id FROM given"
_SUPPORTS: Columns = {"task": "text", "shard": "integer", "before": "bytea", "sums": "bytea"}
_SUPPORTED = """
UPDATE supports SET sums = given.sums FROM given
WHERE supports.task = given.task AND supports.shard = given.shard AND supports.sums = given.before
RETURNING supports.task
"""


def _support_of(task: Task, reports: Iterable[Report]) -> NDArray[np.int64]:
    """By how much these reports support each column."""
    numbers, outputs = zip(*reports, strict=True)
    return np.array(task.protocol.support(np.array(outputs, dtype=np.int64), numbers), dtype=SUMS)


def _add_support(connection: Connection, task: str, shard: int, found: NDArray[np.int64]) -> bytes:
    """The sums of a task's shard, read, with this added to them."""
    here = (supports.c.task == task) & (supports.c.shard == shard)
    locked = select(supports.c.sums).where(here).with_for_update()
    before = connection.execute(locked).scalar_one_or_none()
    if before is None:  # if another process makes the row at the same time, one of the two waits
        row = {"task": task, "shard": shard, "sums": bytes(found.nbytes)}
        connection.execute(insert_if_new(connection, supports), row)
        before = connection.execute(locked).scalar_one()
    after = _added(before, found)
    connection.execute(supports.update().where(here).values(sums=after))
    return after


def _added(sums: bytes, more: NDArray[np.int64]) -> bytes:
    return (_numbers(sums) + more).tobytes()


def _numbers(sums: bytes) -> NDArray[np.int64]:
    return np.frombuffer(bytes(sums), dtype=SUMS)


# ------------------------------------------------------------------------------------------------------------- reading


_OF_TASK: Columns = {"task": "text", "moment": "bigint"}
_STEPS = """
SELECT tallies.task, tallies.step, sum(tallies.sessions) AS sessions
FROM given CROSS JOIN tallies WHERE tallies.task = given.task GROUP BY tallies.task, tallies.step
"""
_PENDING = """
SELECT under_way.task, sum(under_way.invited) AS invited, sum(under_way.challenged) AS challenged
FROM given CROSS JOIN under_way
WHERE under_way.task = given.task AND under_way.expires > given.moment GROUP BY under_way.task
"""


def steps_of(connection: Connection, task: Task) -> StepCounts:
    """How many sessions of the task began, and how many got a challenge; these numbers never decrease."""
    rows = execute(connection, _STEPS, _OF_TASK, [(task.name, 0)])
    steps: dict[str, int] = {row.step: int(row.sessions) for row in rows}
    return StepCounts(steps.get(SessionStage.INVITED, 0), steps.get(SessionStage.CHALLENGED, 0))


def standing(connection: Connection, task: Task, now: float) -> TaskCounts:
    """How the task stands, from running sums alone."""
    return standings(connection, [task], now)[task.name]


def standings(connection: Connection, tasks: Sequence[Task], now: float) -> dict[str, TaskCounts]:
    """How each of the tasks stands, from running sums alone: two statements for any number of tasks."""
    given = [(task.name, int(now)) for task in tasks]  # sessions expire at whole seconds
    steps: dict[str, dict[str, int]] = defaultdict(dict)
    for row in execute(connection, _STEPS, _OF_TASK, given):
        steps[row.task][row.step] = int(row.sessions)
    pending = {
        row.task: (int(row.invited), int(row.challenged)) for row in execute(connection, _PENDING, _OF_TASK, given)
    }
    return {task.name: _counts(task, steps[task.name], *pending.get(task.name, (0, 0))) for task in tasks}


def _counts(task: Task, steps: Mapping[str, int], invited_now: int, challenged_now: int) -> TaskCounts:
    """How a task stands by how many sessions took each step, and how many are at which stage now."""
    rejected = {step.removeprefix(REJECTED): n for step, n in sorted(steps.items()) if step.startswith(REJECTED)}
    accepted, challenged = steps.get(SessionStage.ACCEPTED, 0), steps.get(SessionStage.CHALLENGED, 0)
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


def forget_expired(connection: Connection, task: Task, now: float) -> None:
    """Delete the sums of the task's sessions that expired long ago, which are no longer under way."""
    long_ago = (under_way.c.task == task.name) & (under_way.c.expires <= now - KEPT_SECONDS)
    connection.execute(delete(under_way).where(long_ago))


def support(connection: Connection, task: Task) -> list[int]:
    """How much the accepted reports support each column."""
    total = np.zeros(len(task.protocol.columns), dtype=SUMS)
    for sums in connection.execute(select(supports.c.sums).where(supports.c.task == task.name)).scalars():
        total += _numbers(sums)
    found: list[int] = total.tolist()
    return found
