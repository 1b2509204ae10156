"""How a collection stands, in the words of JSON: for the command line, the live page and whoever watches."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection

from veridp.collect.estimate import Attendance, CollectionEstimate, estimate_from
from veridp.collect.reasons import Refused
from veridp.collect.service import store
from veridp.collect.task import Task


def status_of(connection: Connection, task: Task, now: float, confidence: float = 0.95) -> dict[str, Any]:
    """The counts of sessions, and the estimate; or, where the task's rules forbid to publish it, why."""
    found = store.standing(connection, task, now)
    accepted, support = store.support(connection, task)
    return status(task, support, replace(found.attendance, accepted=accepted), found.rejected, confidence)


def status(
    task: Task, support: list[int], attendance: Attendance, rejected: dict[str, int], confidence: float
) -> dict[str, Any]:
    """The same, from counts."""
    estimated: CollectionEstimate | None = None
    withheld = None
    try:
        estimated = estimate_from(task, support, attendance, confidence)
    except Refused as refusal:
        withheld = {"reason": str(refusal.reason), "message": refusal.found}
    return {
        "task": task.name,
        "mechanism": task.mechanism,
        "epsilon": task.protocol.epsilon,
        "minimum_batch": task.minimum_batch,
        **asdict(attendance),
        "rejected_by_reason": rejected,
        "abort_rate": attendance.abort_rate,
        "maximum_abort_rate": task.maximum_abort_rate,
        "confidence": confidence,
        "estimate": None if estimated is None else [asdict(column) for column in estimated.columns],
        "withheld": withheld,
    }
