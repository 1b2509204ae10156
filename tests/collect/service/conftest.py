"""Servers for the tests: each a process of its own, on SQLite or on a PostgreSQL that the tests start themselves."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from veridp.collect import Task
from veridp.collect.service.store import token_hash

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import servers

ADMIN = "an admin token of the tests"
HTTP = httpx.Client(verify=False, timeout=60)  # noqa: S501 - plain HTTP; a context for TLS takes long to make
PATIENCE = 60.0  # seconds until a server must answer on a busy machine


@dataclass
class Served:
    """A server that runs as a process of its own, and can be killed and started again at the same port."""

    database: str
    port: int
    options: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    fresh: int = field(default=0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "-m", "veridp.cli", "collect", "serve", "--port", str(self.port), "--rate", "0"]
        self.process = subprocess.Popen(  # noqa: S603
            [*command, "--database", self.database, *self.options],
            env={**os.environ, "VERIDP_ADMIN_TOKEN": ADMIN},
            start_new_session=True,
        )
        if wait:
            self.wait()

    def wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.TransportError):
                if HTTP.get(f"{self.url}/healthz").status_code == 200:
                    return
            assert self.process is not None
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def admin(self, verb: str, path: str, document: object = None) -> httpx.Response:
        return HTTP.request(
            verb, self.url + path, json=document, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=60
        )

    def put(self, task: Task, clients: int = 0) -> list[str]:
        """Create the task, with so many tokens."""
        assert self.admin("PUT", f"/tasks/{task.name}", json.loads(task.to_json())).status_code == 200
        tokens = [secrets.token_urlsafe(16) for _ in range(clients)]
        hashes = {"hashes": [token_hash(token).hex() for token in tokens]}
        assert self.admin("PUT", f"/tasks/{task.name}/tokens", hashes).status_code == 200
        return tokens

    def status(self, task: Task) -> dict[str, Any]:
        answer = self.admin("GET", f"/tasks/{task.name}/status")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def new_task(self, mechanism: str = "vgrr", **changes: Any) -> Task:
        """A task of its own name."""
        domain: dict[str, Any] = {"items": ("ant", "bee", "cat", "dog", "elk")}
        if mechanism in ("grr-ho", "sr-ho", "pm-ho"):
            domain = {"low": 0.0, "high": 4.0, "resolution": 4}
        name = f"t-{secrets.token_hex(6)}"
        return Task(**{"name": name, "mechanism": mechanism, "epsilon": math.log(2), **domain, **changes})


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key file that servers on PostgreSQL share, beside one for signatures."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("collect.key", "collect.signing-key"):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secrets.token_hex(32))
    return folder / "collect.key"


@pytest.fixture(scope="session")
def serving(key_file: Path) -> Iterator[Callable[..., Served]]:
    """A function that starts a server; all are stopped at the end."""
    started: list[Served] = []

    def start(database: str, *options: str) -> Served:
        signing = key_file.with_name("collect.signing-key")
        given = ("--key-file", str(key_file), "--signing-key-file", str(signing))
        keys = given if "postgresql" in database else ()
        served = Served(database, servers.free_port(), (*options, *keys))
        started.append(served)
        served.start()
        return served

    yield start
    for served in started:
        served.stop()


@pytest.fixture(scope="session")
def server(serving: Callable[..., Served], tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A server on SQLite that the tests share."""
    return serving(f"sqlite:///{tmp_path_factory.mktemp('collect')}/collect.db")


@pytest.fixture(scope="session")
def postgres() -> Iterator[servers.Postgres]:
    """A PostgreSQL that the tests start, as a user without privileges."""
    try:
        with servers.postgres() as found:
            yield found
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/collect.db"
    url: str = request.getfixturevalue("postgres").new_database()
    return url
