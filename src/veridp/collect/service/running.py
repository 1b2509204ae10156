"""Running the service under uvicorn: its settings, its rate limits, in one process or several."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import uvicorn
from starlette.requests import ClientDisconnect, Request

from veridp.collect.reasons import Reason, Refused
from veridp.collect.service.database import Database
from veridp.collect.service.status import SHARED_FOLDER
from veridp.errors import BadInput

# ------------------------------------------------------------------------------------------------------------ settings
# What a server is told when it starts.


VARIABLE = "VERIDP_COLLECT_SETTINGS"


@dataclass(frozen=True)
class ServiceSettings:
    """A server's settings; all its processes have the same.

    `rate` is how many requests a second one client (by token, else by address) may send on average, with a `burst`; 0
    means no limit. `largest_body` bounds what an administrator may send; what a client may send follows from the
    task.
    """

    database: str
    admin_token: str
    judges: int = 1
    rate: float = 50.0
    burst: int = 100
    largest_body: int = 8 << 20
    several: bool = False  # processes behind one port: then metrics are shared through files

    def __post_init__(self) -> None:
        if len(self.admin_token) < 16:
            raise BadInput("the admin token has fewer than 16 characters; make one with: openssl rand -hex 16")
        if self.judges < 1 or self.rate < 0 or self.burst < 1:
            raise BadInput(f"judges = {self.judges}, rate = {self.rate}, burst = {self.burst}; none may be negative")

    def to_environment(self) -> None:
        """Leave the settings where processes started from this one find them."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> ServiceSettings:
        if VARIABLE not in os.environ:
            raise BadInput(f"{VARIABLE} is not set; start the server with veridp collect serve")
        return cls(**json.loads(os.environ[VARIABLE]))


# -------------------------------------------------------------------------------------------------------------- limits
# How much and how often a client may send.


MOST_CLIENTS = 100_000  # that are remembered; the longest idle are forgotten


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


async def read_body(request: Request, most: int) -> bytes:
    """The body, of at most this many bytes; more is refused before it is read."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise Refused(Reason.OVERSIZED, f"a body of {declared} bytes; at most {most} are read")
    found = bytearray()
    try:
        async for chunk in request.stream():
            found += chunk
            if len(found) > most:
                raise Refused(Reason.OVERSIZED, f"a body of more than {most} bytes")
    except ClientDisconnect:
        raise Refused(Reason.MALFORMED, "the body is incomplete") from None
    return bytes(found)


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
    settings.to_environment()
    with tempfile.TemporaryDirectory(prefix="veridp-metrics-") as folder:
        if settings.several:
            os.environ[SHARED_FOLDER] = folder
        uvicorn.run(
            "veridp.collect.service.app:from_environment",
            factory=True,
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
