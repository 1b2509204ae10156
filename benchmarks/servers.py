"""A private PostgreSQL for benchmarks and tests: it listens on a socket in its folder only, and may be killed."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

START_SECONDS = 120.0


@dataclass(frozen=True)
class Postgres:
    """A cluster in a folder of its own, run by a user without privileges."""

    folder: Path
    owner: str

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"d{secrets.token_hex(6)}"
        self._run("createdb", "-h", str(self.folder), "-U", "collector", name)
        return f"postgresql://collector@/{name}?host={self.folder}"

    def start(self) -> None:
        """Start it and wait until it answers; what is left of one that was killed may be in the way for a moment."""
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._control("-w", "-o", self._options, "start")
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def stop(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._control("-m", "immediate", "stop")

    def family(self) -> list[psutil.Process]:
        """Its processes, the first of which is the parent of the others; none if it does not run."""
        try:
            first = psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]))
            return [first, *first.children(recursive=True)] if first.name() == "postgres" else []
        except (OSError, ValueError, IndexError, psutil.Error):
            return []

    def kill(self) -> None:
        """SIGKILL to all its processes, as a power cut would."""
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def cpu(self) -> float:
        """The processor seconds of its processes, those that have ended included."""
        first, *others = [process.cpu_times() for process in self.family()]
        ended = first.children_user + first.children_system
        return float(ended + sum(times.user + times.system for times in (first, *others)))

    @property
    def _options(self) -> str:
        return f"-c listen_addresses='' -c unix_socket_directories={self.folder}"

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        run_as(self.owner, [binary(program), *arguments])


def binary(name: str) -> str:
    """The path of a program of PostgreSQL, which Debian keeps out of PATH; FileNotFoundError where it is missing."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    if found is None:
        raise FileNotFoundError(f"PostgreSQL's {name} is not installed here; apt-get install postgresql")
    return found


def run_as(owner: str, command: Sequence[str]) -> None:
    user = owner if os.getuid() == 0 else None
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, user=user, cwd="/", stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL that runs until the end of the block; FileNotFoundError where that is not possible."""
    binary("pg_ctl")
    owner = pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        known = {entry.pw_name for entry in pwd.getpwall()}
        owner = next((name for name in ("postgres", "nobody") if name in known), "")
        if not owner:
            raise FileNotFoundError("PostgreSQL does not run as root, and there is no other user here")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    found = Postgres(folder, owner)
    try:
        shutil.chown(folder, owner)
        named = ["-D", str(folder / "data"), "-U", "collector", "-A", "trust", "-E", "UTF8", "--locale=C"]
        run_as(owner, [binary("initdb"), *named])
        found.start()
        try:
            yield found
        finally:
            found.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
