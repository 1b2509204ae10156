"""Why a message, a session or an estimate is refused: each reason has a name that users, logs and metrics share."""

from __future__ import annotations

from enum import StrEnum

from veridp.errors import VeridpError


class Reason(StrEnum):
    """The name of a refusal."""

    MALFORMED = "malformed"
    WRONG_VERSION = "wrong-version"
    WRONG_KIND = "wrong-kind"
    OVERSIZED = "oversized"
    UNKNOWN_TASK = "unknown-task"
    UNKNOWN_TOKEN = "unknown-token"  # noqa: S105
    WRONG_TASK = "wrong-task"
    WRONG_SESSION = "wrong-session"
    TASK_CLOSED = "task-closed"
    EXPIRED = "expired"
    OUT_OF_ORDER = "out-of-order"
    SECOND_COMMITMENT = "second-commitment"
    SECOND_CHALLENGE = "second-challenge"
    REPLAYED = "replayed"
    BROKEN_PROMISE = "broken-promise"
    WRONG_LENGTH = "wrong-length"
    WRONG_POINT = "wrong-point"
    NON_CANONICAL_SCALAR = "non-canonical-scalar"
    INDEX_OUT_OF_RANGE = "index-out-of-range"
    DUPLICATE_INDEX = "duplicate-index"
    UNORDERED_INDEX = "unordered-index"
    CHALLENGE_NOT_OPENED = "challenge-not-opened"
    VALUE_OUT_OF_RANGE = "value-out-of-range"
    WRONG_COUNTS = "wrong-counts"
    WRONG_OPENING = "wrong-opening"
    WRONG_VERDICT = "wrong-verdict"
    TOO_FEW_REPORTS = "too-few-reports"
    TOO_MANY_ABORTS = "too-many-aborts"
    TOO_FAST = "too-fast"
    CONFLICT = "conflict"
    WRONG_CONTENT_TYPE = "wrong-content-type"
    NOT_FOUND = "not-found"
    UNAVAILABLE = "unavailable"


class Refused(VeridpError):
    """A message, a session or an estimate was refused; `reason` is the name, the text says what was found."""

    def __init__(self, reason: Reason, found: str) -> None:
        super().__init__(f"{reason}: {found}")
        self.reason = reason
        self.found = found

    def __reduce__(self) -> tuple[type[Refused], tuple[Reason, str]]:
        return Refused, (self.reason, self.found)
