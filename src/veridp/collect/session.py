"""A session as the server sees it: invited, challenged, decided, in this order alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from veridp.collect.challenge import promise
from veridp.collect.context import Context
from veridp.collect.messages import Challenge, Commit, Invitation, Opening, SessionVerdict
from veridp.collect.reasons import Reason, Refused
from veridp.collect.verify import check_same_session


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
