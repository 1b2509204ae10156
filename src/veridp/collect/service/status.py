"""How a collection stands: as JSON, as Prometheus metrics, and as a live page."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import Connection

from veridp.collect.estimate import Attendance, CollectionEstimate, estimate_from
from veridp.collect.reasons import Refused
from veridp.collect.service import store
from veridp.collect.service.store import TaskCounts
from veridp.collect.task import Task

# ------------------------------------------------------------------------------------------------------------ standing
# How a collection stands, in the words of JSON: for the command line, the live page and whoever watches.


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


# ------------------------------------------------------------------------------------------------------------- metrics
# Metrics for Prometheus: what became of sessions, from the database; refusals and latencies, from the processes.


SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Standings = Callable[[], dict[str, TaskCounts]]


@dataclass(frozen=True)
class FromDatabase:
    """The counts that all processes share; they survive restarts and are the same wherever they are asked for."""

    standings: Standings

    def collect(self) -> Iterable[Metric]:
        accepted = CounterMetricFamily("veridp_accepted", "Accepted reports.", labels=["task"])
        rejected = CounterMetricFamily("veridp_rejected", "Rejected reports.", labels=["task", "reason"])
        expired = CounterMetricFamily("veridp_expired", "Sessions that expired.", labels=["task", "stage"])
        pending = GaugeMetricFamily("veridp_pending", "Sessions under way.", labels=["task", "stage"])
        aborts = GaugeMetricFamily("veridp_abort_rate", "Share of challenged clients that aborted.", labels=["task"])
        for task, found in self.standings().items():
            attendance = found.attendance
            accepted.add_metric([task], attendance.accepted)
            for reason, count in found.rejected.items():
                rejected.add_metric([task, reason], count)
            expired.add_metric([task, "invited"], attendance.expired_invited)
            expired.add_metric([task, "challenged"], attendance.expired_challenged)
            pending.add_metric([task, "invited"], attendance.pending_invited)
            pending.add_metric([task, "challenged"], attendance.pending_challenged)
            aborts.add_metric([task], attendance.abort_rate)
        return [accepted, rejected, expired, pending, aborts]


@dataclass
class Metrics:
    """The metrics of a process."""

    standings: Standings
    registry: CollectorRegistry = field(default_factory=lambda: CollectorRegistry(auto_describe=False))

    def __post_init__(self) -> None:
        self.refusals = Counter(
            "veridp_refused_requests", "Requests refused, by reason.", ["reason"], registry=self.registry
        )
        self.latency = Histogram(
            "veridp_step_seconds", "Time to answer a request.", ["step"], buckets=BUCKETS, registry=self.registry
        )

    def text(self) -> bytes:
        """All metrics, in the text format of Prometheus."""
        shared = CollectorRegistry(auto_describe=False)
        if os.environ.get(SHARED_FOLDER):
            MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        else:
            shared = self.registry
        counts = CollectorRegistry(auto_describe=False)
        counts.register(FromDatabase(self.standings))
        return generate_latest(counts) + generate_latest(shared)


# ---------------------------------------------------------------------------------------------------------------- page
# The live page of a task: accepted so far, the estimate with its interval, the abort rate.


@cache
def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _source(name: str) -> str:
    return "'sha256-" + base64.b64encode(sha256(_part(name).encode()).digest()).decode() + "'"


CONTENT_POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src {_source('live.js')}; style-src {_source('live.css')}; "
    "base-uri 'none'; form-action 'none'"
)


def page(task: Task) -> str:
    """The page, whose script asks for the numbers with the admin token that the reader types in."""
    name = html.escape(task.name, quote=True)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_part('live.css')}</style></head>"
        f'<body data-task="{name}"><h1>{name}</h1>'
        f"<p>{html.escape(task.mechanism)}, ε = {task.protocol.epsilon:.6g}</p>{_part('live.html')}"
        f"<script>{_part('live.js')}</script></body></html>"
    )
