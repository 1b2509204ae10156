"""The server's secret keys, which are kept in files and never in the database.

A nonce that is known before the commitment lets a client choose what is selected. So nonces are not stored before they
are sent: they are derived from a key and the session. Reading the database, or a backup of it, reveals none.
Another key signs the heads of the logs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import make_url

from veridp.collect.messages import NONCE_BYTES, Context, Reason, Refused, promise
from veridp.collect.receipts import TreeHead
from veridp.errors import BadInput

KEY_BYTES = 32
PRIVATE = 0o600  # the mode of files that only their owner may read


@dataclass(frozen=True)
class NonceKeys:
    """The keys that nonces are derived from: the first for new sessions, all others for those that have begun."""

    keys: tuple[bytes, ...] = field(repr=False)

    def new(self, context: Context) -> bytes:
        """The nonce of a new session."""
        return _nonce(self.keys[0], context)

    def promised(self, context: Context, promised: bytes) -> bytes:
        """The nonce that was promised in a session; refused if no key gives it."""
        for key in self.keys:
            if promise(context, nonce := _nonce(key, context)) == promised:
                return nonce
        raise Refused(Reason.UNAVAILABLE, "this server lacks the key of the session; start it with the old key file")

    @classmethod
    def open(cls, file: str, database: str) -> NonceKeys:
        """The keys of a file: one a line, in hexadecimal digits, the newest first."""
        return cls(_keys(file, database, "key"))


@dataclass(frozen=True)
class SigningKey:
    """The key that signs the heads of logs (Ed25519)."""

    secret: bytes = field(repr=False)

    @cached_property
    def public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, head: TreeHead) -> TreeHead:
        return replace(head, signature=self._key.sign(head.content))

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @classmethod
    def open(cls, file: str, database: str) -> SigningKey:
        """The first key of a file: others sign no more."""
        return cls(_keys(file, database, "signing-key")[0])


def _keys(file: str, database: str, kind: str) -> tuple[bytes, ...]:
    """The keys of a file.

    Without a name it is the file beside an SQLite database, which is made if it is missing. Servers that share a
    PostgreSQL must share the keys, so there the file has to be named and to exist.
    """
    if file:
        return _read(Path(file))
    url = make_url(database)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise BadInput(
            f"no {kind} file; make one for all servers of the database with: "
            f"(umask 077; openssl rand -hex 32 > collect.{kind}), and give --{kind}-file collect.{kind}"
        )
    path = Path(f"{url.database}.{kind}")
    if not path.exists():
        _make(path)
    return _read(path)


def _nonce(key: bytes, context: Context) -> bytes:
    parts = context.task + context.session  # both of fixed length
    return blake2b(parts, digest_size=NONCE_BYTES, key=key, person=b"veridp nonce").digest()


def _make(path: Path) -> None:
    """Write a new key; servers that start together all use the one that was written first."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; name a file that can be written with --key-file") from None


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        shared, lines = path.stat().st_mode & 0o077, path.read_text(encoding="ascii").split()
        keys = tuple(map(bytes.fromhex, lines))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give a key file that can be read") from None
    except ValueError:
        keys, shared = (), 0
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise BadInput(f"{path} is not a key file; make one with: openssl rand -hex {KEY_BYTES}")
    if shared:
        raise BadInput(f"others can read the key file {path}; make it private with: chmod 600 {path}")
    return keys


def make_private(database: str) -> None:
    """Make the files of an SQLite database readable by their owner only; creates the database if it is missing."""
    try:
        os.close(os.open(database, os.O_RDWR | os.O_CREAT, PRIVATE))
        for name in (database, f"{database}-wal", f"{database}-shm"):  # SQLite gives new ones the mode of the first
            with contextlib.suppress(FileNotFoundError):
                if os.stat(name).st_mode & 0o077:
                    os.chmod(name, PRIVATE)
    except OSError as error:
        raise BadInput(f"cannot open the database {database}: {error.strerror}; give a file of your own") from None
