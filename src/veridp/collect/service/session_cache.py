"""Sessions that a process has seen lately, so that the next step of a client need not ask the database first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from veridp.collect.session import Session
from veridp.collect.task import Task

MOST_SESSIONS = 10_000
LARGEST_COMMITMENT = 8192  # bytes; sessions with longer ones are read again, so that memory stays bounded


@dataclass(frozen=True)
class Remembered:
    """Sessions as they were, by task and token. They may have gone on meanwhile, by another process.

    What they hold never changes, and what they lack may have come: who goes on from one makes the change conditional
    on the stage, and looks again where it is another one.
    """

    sessions: OrderedDict[tuple[str, bytes], Session] = field(default_factory=OrderedDict)

    def keep(self, task: Task, token: bytes, session: Session) -> None:
        if session.commit is not None and len(session.commit.commitment) > LARGEST_COMMITMENT:
            return
        self.sessions[task.name, token] = session
        if len(self.sessions) > MOST_SESSIONS:
            self.sessions.popitem(last=False)

    def take(self, task: Task, token: bytes) -> Session | None:
        return self.sessions.pop((task.name, token), None)
