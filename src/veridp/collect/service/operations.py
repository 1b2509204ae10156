"""What an operator needs: settings, rate limits, processes; and how a collection stands, as JSON, metrics and a live
page."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import os
import re
import resource
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Any, ClassVar

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import Connection
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from veridp.collect.estimate import Attendance, CollectionEstimate, estimate_from
from veridp.collect.messages import Reason, Refused
from veridp.collect.service.database import Database
from veridp.collect.service.keys import NonceKeys, SigningKey
from veridp.collect.service.tally import TaskCounts, standing, support
from veridp.collect.task import Task
from veridp.errors import BadInput

# ------------------------------------------------------------------------------------------------------------ standing
# How a collection stands, as JSON: for the command line, the live page and monitoring.


def status_of(connection: Connection, task: Task, now: float, confidence: float = 0.95) -> dict[str, Any]:
    """The counts of sessions, and the estimate; or why the task's rules forbid publishing it."""
    found = standing(connection, task, now)
    return status(task, support(connection, task), found.attendance, found.rejected, confidence)


def status(
    task: Task, supported: list[int], attendance: Attendance, rejected: dict[str, int], confidence: float
) -> dict[str, Any]:
    """The same, from counts."""
    estimated: CollectionEstimate | None = None
    withheld = None
    try:
        estimated = estimate_from(task, supported, attendance, confidence)
    except Refused as refusal:
        withheld = {"reason": str(refusal.reason), "message": refusal.found}
    return {
        "task": task.name,
        "mechanism": task.mechanism,
        "epsilon": task.protocol.epsilon,
        "minimum_batch": task.minimum_batch,
        **asdict(attendance),
        "missing": attendance.missing(task.protocol),
        "rejected_by_reason": rejected,
        "abort_rate": attendance.abort_rate(task.protocol),
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
        aborts = GaugeMetricFamily("veridp_abort_rate", "Share of clients that left knowingly.", labels=["task"])
        for task, found in self.standings().items():
            attendance = found.attendance
            accepted.add_metric([task], attendance.accepted)
            for reason, count in found.rejected.items():
                rejected.add_metric([task, reason], count)
            expired.add_metric([task, "invited"], attendance.expired_invited)
            expired.add_metric([task, "challenged"], attendance.expired_challenged)
            pending.add_metric([task, "invited"], attendance.pending_invited)
            pending.add_metric([task, "challenged"], attendance.pending_challenged)
            aborts.add_metric([task], found.abort_rate)
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
# The live page of a task: accepted so far, the estimate with its interval, the abort rate. And the page on which a
# person takes part, with the JavaScript client.


@cache
def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _source(name: str) -> str:
    return "'sha256-" + base64.b64encode(sha256(_part(name).encode()).digest()).decode() + "'"


CONTENT_POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src {_source('live.js')}; style-src {_source('live.css')}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


JOIN_POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src 'self'; style-src {_source('live.css')}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
CLIENT_FILES = ("client.js", "protocol.js", "messagepack.js", "blake2b.js")


def live_page(task: Task) -> str:
    """The page whose script asks for the numbers with the admin token that the reader types in."""
    return _page(task, _part("live.html"), f"<script>{_part('live.js')}</script>")


def join_page(task: Task) -> str:
    """The page on which a person takes part."""
    return _page(task, _part("join.html"), '<script type="module" src="/client/join.js"></script>')


def client_file(name: str) -> str | None:
    """A file of the JavaScript client, or the script of its page; None if there is none of this name."""
    if name == "join.js":
        return _part(name)
    if name not in CLIENT_FILES:
        return None
    return (files("veridp.collect") / "javascript" / name).read_text(encoding="utf-8")


def _page(task: Task, body: str, script: str) -> str:
    name = html.escape(task.name, quote=True)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_part('live.css')}</style></head>"
        f'<body data-task="{name}"><h1>{name}</h1>'
        f"<p>{html.escape(task.mechanism)}, ε = {task.protocol.epsilon:.6g}</p>{body}{script}</body></html>"
    )


# ------------------------------------------------------------------------------------------------------------ settings
# The settings of a server.


VARIABLE = "VERIDP_COLLECT_SETTINGS"
ORIGIN = re.compile(r"https?://[^/\s*]+")


@dataclass(frozen=True)
class ServiceSettings:
    """A server's settings; all its processes have the same.

    `rate` is how many requests a second one client (by token, else by address) may send on average, with a `burst`; 0
    means no limit. Wrong tokens from an address and requests of the administrator are limited apart from these.
    `largest_body` bounds what an administrator may send; what a client may send follows from the task.
    """

    database: str
    admin_token: str
    judges: int = 1
    rate: float = 50.0
    burst: int = 100
    largest_body: int = 8 << 20
    metrics_token: str = ""  # also shows the metrics, and nothing else
    request_seconds: float = 20.0  # until a request must have arrived
    database_seconds: float = 10.0  # until the database must have answered
    key_file: str = ""  # with the keys of nonces; if empty, the one beside an SQLite database
    signing_key_file: str = ""  # with the key that signs heads of logs; likewise
    origins: tuple[str, ...] = ()  # of pages elsewhere whose scripts may take part
    several: bool = False  # processes behind one port: then metrics are shared through files

    def __post_init__(self) -> None:
        if len(self.admin_token) < 16:
            raise BadInput("the admin token has fewer than 16 characters; make one with: openssl rand -hex 16")
        if self.judges < 1 or self.rate < 0 or self.burst < 1:
            raise BadInput(f"judges = {self.judges}, rate = {self.rate}, burst = {self.burst}; none may be negative")
        if self.metrics_token and len(self.metrics_token) < 16:
            raise BadInput("the metrics token has fewer than 16 characters; make one with: openssl rand -hex 16")
        if wrong := [origin for origin in self.origins if not ORIGIN.fullmatch(origin)]:
            raise BadInput(f"{wrong[0]!r} is not an origin; write for instance https://example.org, without a path")
        if not (self.request_seconds > 0 and self.database_seconds > 0):
            raise BadInput("the times for requests and for the database must be positive")

    def to_environment(self) -> None:
        """Leave the settings where processes started from this one find them."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServiceSettings:
        if VARIABLE not in os.environ:
            raise BadInput(f"{VARIABLE} is not set; start the server with veridp collect serve")
        given = json.loads(os.environ[VARIABLE])
        return cls(**{**given, "origins": tuple(given["origins"])})


# -------------------------------------------------------------------------------------------------------------- limits
# How much and how often a client may send.


MOST_CLIENTS = 100_000  # to keep track of; the longest idle are dropped
MOST_OPEN_FILES = 65_536  # of a process, if the system lets it
LARGEST_HEAD = 1 << 16  # bytes of a request before its body
OWN_FILES = 128  # of these that are not connections of clients


@dataclass
class Limiter:
    """A bucket for each client, filled at `rate` a second up to `burst`; a request takes one out."""

    rate: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # level, when

    def check(self, client: str, taken: int = 1) -> None:
        """Refuse the request of a client whose bucket is empty; else take out what it costs, which may be nothing."""
        if self.rate == 0:
            return
        now = self.clock()
        level, when = self._buckets.pop(client, (float(self.burst), now))
        level = min(self.burst, level + (now - when) * self.rate)
        refused = level < 1
        self._buckets[client] = (level if refused else level - taken, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if refused:
            raise Refused(Reason.TOO_FAST, f"more than {self.rate:g} requests a second; wait and try again")


def address_of(request: Request) -> str:
    """The client's address; of IPv6 the network of 64 bits, all of whose addresses one client may use."""
    host = "" if request.client is None else request.client.host
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:  # a proxy may say anything
        return host
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else str(IPv6Network((int(address), 64), strict=False))


def limit_of_guesses(request: Request) -> str:
    """The limit on wrong tokens, names of tasks and messages from an address."""
    return f"guesses {address_of(request)}"


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body, of at most this many bytes, and within this time; more is refused before it is read."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise Refused(Reason.OVERSIZED, f"a body of {declared} bytes; at most {most} are read")
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise Refused(Reason.OVERSIZED, f"a body of more than {most} bytes")
    except TimeoutError:
        raise Refused(Reason.TOO_SLOW, f"the body did not arrive within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise Refused(Reason.MALFORMED, "the body is incomplete") from None
    return bytes(found)


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP on a connection that is closed if the head of a request is long, or takes more than `request_seconds`.

    Uvicorn limits how long a connection may be idle between requests, not how slowly a request may trickle in, nor how
    much of it is kept before it is whole, nor how many connections there are. Where a process has as many as it may,
    the one that has kept it waiting for longest makes room, so that who opens many and sends nothing keeps nobody out.
    """

    late: asyncio.TimerHandle | None = None
    unread: int = 0  # bytes that are not of a head that is whole, or of a body
    waiting: ClassVar[dict[ImpatientProtocol, None]] = {}  # for a whole request, the longest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > most_connections() and self.waiting:
            next(iter(self.waiting)).transport.close()
        self.waiting[self] = None
        self._expect()

    def data_received(self, data: bytes) -> None:
        self.unread += len(data)
        super().data_received(data)
        if self.unread > LARGEST_HEAD:
            self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:  # the head is there; the body has its own limit
            self._relax()
        elif self.late is None:
            self._expect()

    def on_headers_complete(self) -> None:
        self.unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.waiting.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.waiting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def _expect(self) -> None:
        self.late = self.loop.call_later(_request_seconds(), self.transport.close)

    def _relax(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None


@cache
def most_connections() -> int:
    """How many connections a process keeps: the number of files it may open, less those that it needs itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted - OWN_FILES, wanted // 2)


@cache
def _request_seconds() -> float:
    return ServiceSettings.from_environment().request_seconds


# ------------------------------------------------------------------------------------------------------------- running
# Running the service under uvicorn, in one process or several.


def run(
    settings: ServiceSettings,
    host: str,
    port: int,
    processes: int = 1,
    *,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    proxy: str | None = None,
    access_log: bool = False,
) -> None:
    """Serve until stopped.

    The database is migrated before any process serves; several processes share their metrics through a folder.
    """
    Database.open(settings.database).close()
    NonceKeys.open(settings.key_file, settings.database)
    SigningKey.open(settings.signing_key_file, settings.database)
    settings.to_environment()
    with tempfile.TemporaryDirectory(prefix="veridp-metrics-") as folder:
        if settings.several:
            os.environ[SHARED_FOLDER] = folder
        uvicorn.run(
            "veridp.collect.service.app:from_environment",
            factory=True,
            http=f"{__name__}:{ImpatientProtocol.__name__}",
            ws="none",
            host=host,
            port=port,
            workers=processes,
            ssl_certfile=None if tls_cert is None else str(tls_cert),
            ssl_keyfile=None if tls_key is None else str(tls_key),
            proxy_headers=proxy is not None,
            forwarded_allow_ips=proxy,
            access_log=access_log,
            log_level="info" if access_log else "warning",
            server_header=False,
            timeout_keep_alive=30,
        )
