"""Metrics for Prometheus: what became of sessions, from the database; refusals and latencies, from the processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from veridp.collect.service.store import TaskCounts

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
