"""How much and how often a client may send."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request

from veridp.collect.reasons import Reason, Refused

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
