"""A session as the server sees it: invited, challenged, verified, decided, in this order alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from veridp.collect.commitments import Scheme
from veridp.collect.layout import Context, Layout, promise, selected
from veridp.collect.messages import Challenge, Commit, Invitation, Opening, SessionVerdict
from veridp.collect.reasons import Reason, Refused

# -------------------------------------------------------------------------------------------------------------- verify
# Whether an opening proves that its client perturbed honestly.


@dataclass(frozen=True)
class Verifier:
    """Checks the sessions of one task: its layout and its commitment scheme decide everything."""

    layout: Layout
    scheme: Scheme

    def check(self, commit: Commit) -> None:
        """Refuse a commitment of the wrong form."""
        self.scheme.check(self.layout, commit.commitment)

    def judge(self, commit: Commit, challenge: Challenge, opening: Opening) -> SessionVerdict:
        """The verdict on an opening."""
        try:
            outputs = self.outputs(commit, challenge, opening)
        except Refused as refusal:
            return SessionVerdict(commit.task, commit.session, False, str(refusal.reason), ())
        return SessionVerdict(commit.task, commit.session, True, "", outputs)

    def outputs(self, commit: Commit, challenge: Challenge, opening: Opening) -> tuple[int, ...]:
        """The report: the value selected in each block; or `Refused`, with the reason, if anything is not as due.

        Accepted means that in each block exactly the floors are opened, the selected entry among them, and that these
        were committed to before the nonce was known.
        """
        layout = self.layout
        check_same_session(commit, challenge)
        check_same_session(commit, opening)
        check_closed(layout, opening.closed)
        opened = layout.opened(opening.closed)
        values = check_values(layout, opened, opening.values)
        context = commit.context
        places = [
            block * layout.length + chosen
            for block, chosen in enumerate(selected(context, challenge.nonce, commit.commitment, layout))
        ]
        entries = dict(zip(opened, values, strict=True))
        for place in places:
            if place not in entries:
                raise Refused(Reason.CHALLENGE_NOT_OPENED, f"entry {place} was selected and stays closed")
        self.scheme.verify(context, layout, commit.commitment, opening.closed, values, opening.proof)
        return tuple(entries[place] for place in places)


def check_same_session(expected: Commit, found: Commit | Challenge | Opening) -> None:
    """Refuse a message of another task or session."""
    if found.task != expected.task:
        raise Refused(Reason.WRONG_TASK, "a message of another task")
    if found.session != expected.session:
        raise Refused(Reason.WRONG_SESSION, "a message of another session")


def check_closed(layout: Layout, closed: Sequence[int]) -> None:
    """Refuse indices out of range, repeated, or out of order."""
    previous = -1
    for index in closed:
        if index >= layout.size:
            raise Refused(Reason.INDEX_OUT_OF_RANGE, f"entry {index} of a vector of {layout.size}")
        if index == previous:
            raise Refused(Reason.DUPLICATE_INDEX, f"entry {index} is named twice")
        if index < previous:
            raise Refused(Reason.UNORDERED_INDEX, f"entry {index} is named after entry {previous}")
        previous = index
    if len(closed) != layout.closed:
        raise Refused(Reason.WRONG_COUNTS, f"{len(closed)} entries stay closed, expected {layout.closed}")


def check_values(layout: Layout, opened: Sequence[int], packed: bytes) -> list[int]:
    """The values of the opened entries; refuses them unless each block has exactly its floors."""
    width = layout.width
    if len(packed) != width * len(opened):
        raise Refused(Reason.WRONG_LENGTH, f"{len(packed)} bytes of values, expected {width * len(opened)}")
    values = list(packed) if width == 1 else unpacked_pairs(packed)
    counts = [[0] * layout.values for _ in range(layout.blocks)]
    for index, value in zip(opened, values, strict=True):
        if value >= layout.values:
            raise Refused(Reason.VALUE_OUT_OF_RANGE, f"value {value} of entry {index}; there are {layout.values}")
        counts[index // layout.length][value] += 1
    for block, found in enumerate(counts):
        if tuple(found) != layout.floors:
            raise Refused(Reason.WRONG_COUNTS, f"block {block} does not open the required number of each value")
    return values


def packed_values(layout: Layout, values: Sequence[int]) -> bytes:
    """The values as they stand in a message."""
    return bytes(values) if layout.width == 1 else b"".join(value.to_bytes(2, "big") for value in values)


def unpacked_pairs(packed: bytes) -> list[int]:
    """The numbers of two bytes each."""
    return [int.from_bytes(packed[i : i + 2], "big") for i in range(0, len(packed), 2)]


# ------------------------------------------------------------------------------------------------------------- session
# A session as the server sees it: invited, challenged, decided, in this order alone.


class Checks(Protocol):
    """What a session asks of a verifier, which may have answered in another process before."""

    def check(self, commit: Commit) -> None: ...

    def judge(self, commit: Commit, challenge: Challenge, opening: Opening) -> SessionVerdict: ...


class SessionStage(StrEnum):
    """How far a session is."""

    INVITED = "invited"
    CHALLENGED = "challenged"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Session:
    """The server's side. Every step gives the next state, or refuses and leaves this one as it is.

    A step that is repeated with the same message gives the same state, so a lost answer can be asked for again; with
    another message it is refused. Keep the new state before sending its answer.
    """

    context: Context
    nonce: bytes
    expires: int
    commit: Commit | None = None
    opening: Opening | None = None
    verdict: SessionVerdict | None = None

    @property
    def stage(self) -> SessionStage:
        if self.verdict is not None:
            return SessionStage.ACCEPTED if self.verdict.accepted else SessionStage.REJECTED
        return SessionStage.INVITED if self.commit is None else SessionStage.CHALLENGED

    @property
    def invitation(self) -> Invitation:
        context = self.context
        return Invitation(context.task, context.session, promise(context, self.nonce), self.expires)

    @property
    def challenge(self) -> Challenge:
        """The nonce; only once there is a commitment."""
        if self.commit is None:
            raise Refused(Reason.OUT_OF_ORDER, "the nonce is sent only after the commitment")
        return Challenge(self.context.task, self.context.session, self.nonce)

    def committed(self, commit: Commit, now: float, checks: Checks) -> Session:
        """The session with the commitment, after which the challenge may be sent."""
        self._check_own(commit)
        if self.commit is not None:
            if self.commit != commit:
                raise Refused(Reason.SECOND_COMMITMENT, "the session already has a different commitment")
            return self
        self._check_open(now)
        checks.check(commit)
        return replace(self, commit=commit)

    def opened(self, opening: Opening, now: float, checks: Checks) -> Session:
        """The session with its verdict; an opening that proves nothing is rejected for good."""
        self._check_own(opening)
        if self.commit is None:
            raise Refused(Reason.OUT_OF_ORDER, "an opening before the commitment")
        if self.verdict is not None:
            if self.opening != opening:
                raise Refused(Reason.REPLAYED, "the session was already decided by another opening")
            return self
        self._check_open(now)
        return replace(self, opening=opening, verdict=checks.judge(self.commit, self.challenge, opening))

    def decided(self, stage: SessionStage, reason: str, outputs: Iterable[int] | None) -> Session:
        """This session as it was kept with its stage: with its verdict, if there is one."""
        if stage not in (SessionStage.ACCEPTED, SessionStage.REJECTED):
            return self
        accepted = stage == SessionStage.ACCEPTED
        verdict = SessionVerdict(self.context.task, self.context.session, accepted, reason, tuple(outputs or ()))
        return replace(self, verdict=verdict)

    def _check_own(self, message: Commit | Opening) -> None:
        check_same_session(Commit(self.context.task, self.context.session, b""), message)

    def _check_open(self, now: float) -> None:
        if now >= self.expires:
            raise Refused(Reason.EXPIRED, "the session expired, which uses up its token")
