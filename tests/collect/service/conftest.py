"""Servers for the tests: each a process of its own, on SQLite or on a PostgreSQL that the tests start themselves."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from veridp.collect import Task
from veridp.collect.service.store import token_hash

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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
        served = Served(database, free_port(), (*options, *keys))
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


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL of the tests' own, listening on a socket in its folder alone."""

    folder: Path
    owner: str

    def new_database(self) -> str:
        name = f"d{secrets.token_hex(6)}"
        run_as(self.owner, [binary("createdb"), "-h", str(self.folder), "-U", "collector", name])
        return f"postgresql://collector@/{name}?host={self.folder}"


def binary(name: str) -> str:
    """The path of a program of PostgreSQL, which Debian keeps out of PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"PostgreSQL's {name} is not installed here; apt-get install postgresql")
    return found


def run_as(owner: str, command: Sequence[str], *, check: bool = True) -> None:
    user = owner if os.getuid() == 0 else None
    subprocess.run(command, check=check, user=user, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL that the tests start, as a user without privileges."""
    control, initdb = binary("pg_ctl"), binary("initdb")
    owner = pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        known = {entry.pw_name for entry in pwd.getpwall()}
        owner = next((name for name in ("postgres", "nobody") if name in known), "")
        if not owner:
            pytest.skip("PostgreSQL does not run as root, and there is no other user here")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    try:
        shutil.chown(folder, owner)
        data = folder / "data"
        run_as(owner, [initdb, "-D", str(data), "-U", "collector", "-A", "trust", "-E", "UTF8", "--locale=C"])
        options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
        run_as(owner, [control, "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start"])
        try:
            yield Postgres(folder, owner)
        finally:
            run_as(owner, [control, "-D", str(data), "-m", "immediate", "stop"], check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/collect.db"
    url: str = request.getfixturevalue("postgres").new_database()
    return url
