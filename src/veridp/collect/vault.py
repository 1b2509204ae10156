"""Where a client keeps what it must not forget between commitment and verdict."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from veridp.errors import BadInput


class Vault(Protocol):
    """Holds one record; what `save` was given is there after a crash once it has returned."""

    def load(self) -> bytes | None: ...

    def save(self, record: bytes) -> None: ...


@dataclass
class MemoryVault:
    """Keeps the record in memory: for simulations. It does not survive its process."""

    record: bytes | None = None

    def load(self) -> bytes | None:
        return self.record

    def save(self, record: bytes) -> None:
        self.record = record


@dataclass(frozen=True)
class FileVault:
    """Keeps the record in a file that only its owner can read, replaced as a whole and flushed to the disk."""

    path: Path

    def load(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror}; give a state file that can be read") from None

    def save(self, record: bytes) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(record)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # or a crash may bring the old record back
            finally:
                os.close(folder)
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror}; give a state file that can be written") from None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else holds the vault meanwhile: two processes of one client could answer two challenges."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror}; give a state file that can be written") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise BadInput(f"{self.path} is in use by another process; wait for it to end") from None
        finally:
            os.close(lock)
