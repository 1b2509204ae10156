"""What a server is told when it starts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from veridp.errors import BadInput

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
