"""A session as the client sees it, and the vault in which it keeps its secrets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgpack

from veridp.collect.commitments import SECRET_BYTES
from veridp.collect.harmless import Harmless
from veridp.collect.messages import (
    Challenge,
    Commit,
    Invitation,
    Opening,
    Reason,
    Refused,
    SessionVerdict,
    check_promise,
    decode,
    encode,
    selected,
)
from veridp.collect.task import Verifier, check_same_session, packed_values
from veridp.errors import BadInput

# --------------------------------------------------------------------------------------------------------------- vault
# Where a client keeps what it must not forget between commitment and verdict.


class Vault(Protocol):
    """Holds one record, which survives a crash once `save` has returned."""

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
            fresh.unlink(missing_ok=True)  # left by a crash, or laid out by somebody who wants to read it
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
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
        """Hold the vault exclusively: two processes of one client could answer two challenges."""
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


# -------------------------------------------------------------------------------------------------------------- client
# A session as the client sees it: committed, opened, finished, in this order alone, and never to two challenges.


RECORD_VERSION = 2  # the first had neither the digest of the opening nor a receipt


@dataclass(frozen=True)
class Record:
    """What the client keeps: enough to repeat each of its messages, and never to send another in its place.

    With the verdict it forgets the vector, which tells its value, and the secret that would open it.
    """

    invitation: bytes
    secret: bytes
    vector: tuple[int, ...]
    commitment: bytes
    nonce: bytes = b""
    closed: tuple[int, ...] = ()
    verdict: bytes = b""
    opening: bytes = b""  # its digest, once it is decided
    receipt: bytes = b""

    def packed(self) -> bytes:
        kept = [self.invitation, self.secret, list(self.vector), self.commitment]
        found: bytes = msgpack.packb(
            [RECORD_VERSION, *kept, self.nonce, list(self.closed), self.verdict, self.opening, self.receipt],
            use_bin_type=True,
        )
        return found

    @classmethod
    def unpacked(cls, data: bytes) -> Record:
        try:
            version, *kept = msgpack.unpackb(data)
            if version == 1:
                kept += [b"", b""]
            elif version != RECORD_VERSION:
                raise ValueError(version)
            invitation, secret, vector, commitment, nonce, closed, verdict, opening, receipt = kept
            return cls(invitation, secret, tuple(vector), commitment, nonce, tuple(closed), verdict, opening, receipt)
        except (ValueError, TypeError, msgpack.UnpackException):
            raise Refused(
                Reason.MALFORMED, "the state file is not one of this version; taking part again could reveal too much"
            ) from None


class Client:
    """The client's side of one task.

    The vault outlives the client: one made anew with the same vault goes on where the last one was. It opens a
    commitment to one challenge only, and always in the same way; a second session, or a second challenge, is refused.
    It keeps the challenge before it answers it.
    """

    def __init__(
        self,
        protocol: Harmless,
        verifier: Verifier,
        vault: Vault,
        rng: random.Random | None = None,
    ) -> None:
        self._protocol = protocol
        self._verifier = verifier
        self._vault = vault
        self._rng = rng or secrets.SystemRandom()
        kept = vault.load()
        self._record = None if kept is None else Record.unpacked(kept)

    @property
    def invitation(self) -> Invitation | None:
        """The session that the client takes part in, if there is one."""
        return None if self._record is None else decode(self._record.invitation, Invitation)

    @property
    def verdict(self) -> SessionVerdict | None:
        return decode(self._record.verdict, SessionVerdict) if self._record and self._record.verdict else None

    def commit(self, invitation: Invitation, value: object) -> Commit:
        """The commitment to a perturbation of the value; the same again if the invitation is the same."""
        if self._record is None:
            chosen = self._protocol.choose(value, self._rng)
            vector = self._protocol.layout.draw_vector(self._protocol.counts(chosen, invitation.session), self._rng)
            secret = self._rng.randbytes(SECRET_BYTES)
            commitment = self._verifier.scheme.commit(invitation.context, self._protocol.layout, vector, secret)
            self._keep(Record(encode(invitation), secret, tuple(vector), commitment))
        elif self._record.invitation != encode(invitation):
            raise Refused(Reason.SECOND_CHALLENGE, "this is not the session joined; answering would reveal more")
        return self._commit()

    def open(self, challenge: Challenge) -> Opening:
        """The opening that answers the challenge; kept, with the challenge, before it is returned."""
        record = self._begun()
        if record.verdict:
            raise Refused(Reason.OUT_OF_ORDER, "the session is decided, and what would open it is forgotten")
        invitation = decode(record.invitation, Invitation)
        check_same_session(self._commit(), challenge)
        if record.nonce and record.nonce != challenge.nonce:
            raise Refused(Reason.SECOND_CHALLENGE, "this commitment was opened to another challenge")
        check_promise(invitation.context, challenge.nonce, invitation.promise)
        if not record.nonce:
            closed = self._draw_closed(record.vector, self._selected(challenge))
            record = self._keep(replace(record, nonce=challenge.nonce, closed=tuple(closed)))
        return self._opening(record, invitation)

    def finish(self, verdict: SessionVerdict) -> SessionVerdict:
        """The verdict, kept; refuses one on another session, or one that does not say what was selected.

        After it, the client can no longer open its commitment: the value is forgotten.
        """
        record = self._begun()
        if record.verdict:
            if record.verdict != encode(verdict):
                raise Refused(Reason.WRONG_VERDICT, "the session was already decided otherwise")
            return verdict
        if not record.nonce:
            raise Refused(Reason.OUT_OF_ORDER, "a verdict before the opening")
        invitation = decode(record.invitation, Invitation)
        if (verdict.task, verdict.session) != (invitation.task, invitation.session):
            raise Refused(Reason.WRONG_SESSION, "the verdict is for another session")
        if verdict.accepted and verdict.outputs != self.outputs:
            raise Refused(Reason.WRONG_VERDICT, "the server claims to have read an entry that was not selected")
        opening = sha256(encode(self._opening(record, invitation))).digest()
        self._keep(replace(record, secret=b"", vector=(), closed=(), verdict=encode(verdict), opening=opening))
        return verdict

    @property
    def record(self) -> Record:
        """All that the client keeps."""
        return self._begun()

    def keep_receipt(self, receipt: bytes) -> None:
        """Keep the receipt beside the verdict."""
        self._keep(replace(self._begun(), receipt=receipt))

    @property
    def outputs(self) -> tuple[int, ...]:
        """What the client reports: the value selected in each block. Known once there is a challenge.

        After the verdict it is what the verdict says, which is nothing where the report was rejected.
        """
        record = self._begun()
        if not record.nonce:
            raise Refused(Reason.OUT_OF_ORDER, "nothing is selected before the challenge")
        if self.verdict is not None:
            return self.verdict.outputs
        invitation = decode(record.invitation, Invitation)
        chosen = self._selected(Challenge(invitation.task, invitation.session, record.nonce))
        length = self._protocol.layout.length
        return tuple(record.vector[block * length + place] for block, place in enumerate(chosen))

    def _draw_closed(self, vector: Sequence[int], chosen: Sequence[int]) -> list[int]:
        return self._protocol.layout.draw_closed(vector, chosen, self._rng)

    def _selected(self, challenge: Challenge) -> tuple[int, ...]:
        return selected(challenge.context, challenge.nonce, self._commit().commitment, self._protocol.layout)

    def _commit(self) -> Commit:
        record = self._begun()
        invitation = decode(record.invitation, Invitation)
        return Commit(invitation.task, invitation.session, record.commitment)

    def _opening(self, record: Record, invitation: Invitation) -> Opening:
        layout, scheme = self._protocol.layout, self._verifier.scheme
        values = [record.vector[i] for i in layout.opened(record.closed)]
        proof = scheme.open(invitation.context, layout, record.vector, record.secret, record.closed)
        return Opening(invitation.task, invitation.session, record.closed, packed_values(layout, values), proof)

    def _begun(self) -> Record:
        if self._record is None:
            raise Refused(Reason.OUT_OF_ORDER, "there is no commitment yet")
        return self._record

    def _keep(self, record: Record) -> Record:
        self._vault.save(record.packed())
        self._record = record
        return record
