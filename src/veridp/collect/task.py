"""A task: what is collected, how privately, and under which rules; and its sessions as the server sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from veridp.collect.attributes import SRSMP, SRSPL
from veridp.collect.commitments import DEFAULT_SCHEME, SCHEMES, Scheme, scheme
from veridp.collect.harmless import CLOSENESS, Harmless, Layout, rates
from veridp.collect.messages import (
    Challenge,
    Commit,
    Context,
    Invitation,
    Opening,
    Reason,
    Refused,
    SessionVerdict,
    digest,
    promise,
    selected,
)
from veridp.collect.protocols import GRRHO, PMHO, SRHO, VGRR, VOLH, VOUE
from veridp.errors import BadInput

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
    """The server's side. Every step gives the next state, or refuses and leaves this one unchanged.

    A session as it is stored has no nonce before the commitment (it is empty then), but what was `promised`.

    A step that is repeated with the same message gives the same state, so a lost answer can be asked for again; with
    another message it is refused. Keep the new state before sending its answer.
    """

    context: Context
    nonce: bytes
    expires: int
    commit: Commit | None = None
    opening: Opening | None = None
    verdict: SessionVerdict | None = None
    promised: bytes = b""
    token: bytes = b""  # the hash of the client's token

    @property
    def stage(self) -> SessionStage:
        if self.verdict is not None:
            return SessionStage.ACCEPTED if self.verdict.accepted else SessionStage.REJECTED
        return SessionStage.INVITED if self.commit is None else SessionStage.CHALLENGED

    @property
    def invitation(self) -> Invitation:
        context = self.context
        promised = self.promised or promise(context, self.nonce)
        return Invitation(context.task, context.session, promised, self.expires)

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


# ---------------------------------------------------------------------------------------------------------------- task
# A task: what is collected, how privately, and under which rules. Its digest binds everything that is said in it.


OF_ITEMS: dict[str, type[VGRR] | type[VOUE] | type[VOLH]] = {kind.name: kind for kind in (VGRR, VOUE, VOLH)}
OF_NUMBERS = ("grr-ho", "sr-ho", "pm-ho")
OF_ATTRIBUTES: dict[str, type[SRSMP] | type[SRSPL]] = {kind.name: kind for kind in (SRSMP, SRSPL)}
MECHANISMS = (*OF_ITEMS, *OF_NUMBERS, *OF_ATTRIBUTES)
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MOST_ITEMS = 100_000


@dataclass(frozen=True)
class Task:
    """The definition of a collection; clients compute its digest themselves, so all see the same rules.

    `items` are those of vgrr, voue and volh, and the attributes of sr-smp and sr-spl with their ranges: "age=17..90".
    `resolution` is the number of points of grr-ho, of copies of sr-ho, and of bins of pm-ho. `expires` is in seconds
    since 1970, `session_seconds` how long a session stays open. An estimate needs `minimum_batch` accepted reports
    and is refused where a larger share than `maximum_abort_rate` of the clients challenged did not complete.
    """

    name: str
    mechanism: str
    epsilon: float
    items: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    resolution: int = 0
    closeness: float = CLOSENESS
    scheme: str = DEFAULT_SCHEME
    minimum_batch: int = 100
    maximum_abort_rate: float = 0.05
    session_seconds: int = 600
    expires: int = 4_102_444_800

    def __post_init__(self) -> None:
        for field in fields(self):  # 17 and 17.0 are one definition
            object.__setattr__(self, field.name, _typed(field.name, str(field.type), getattr(self, field.name)))
        _check(NAME.fullmatch(self.name) is not None, "name", self.name, "lower-case letters, digits, '.', '_', '-'")
        _check(self.mechanism in MECHANISMS, "mechanism", self.mechanism, f"one of {', '.join(MECHANISMS)}")
        _check(self.scheme in SCHEMES, "scheme", self.scheme, f"one of {', '.join(SCHEMES)}")
        _check(1 <= self.minimum_batch < 1 << 53, "minimum_batch", self.minimum_batch, "1 or more")
        _check(0 <= self.maximum_abort_rate <= 1, "maximum_abort_rate", self.maximum_abort_rate, "from 0 to 1")
        _check(1 <= self.session_seconds <= 31 * 86400, "session_seconds", self.session_seconds, "1 to 2678400")
        _check(0 < self.expires < 1 << 53, "expires", self.expires, "seconds since 1970")
        if self.mechanism not in OF_NUMBERS:
            least = 2 if self.mechanism in OF_ITEMS else 1
            _check(least <= len(self.items) <= MOST_ITEMS, "items", len(self.items), f"{least} to {MOST_ITEMS} items")
            odd = next((item for item in self.items if not item.isprintable() or not 0 < len(item) <= 200), None)
            _check(odd is None, "item", odd, "printable texts of 1 to 200 characters")
            _check(not (self.low or self.high or self.resolution), "low, high", self.low, "items alone, and no range")
        else:
            _check(not self.items, "items", len(self.items), "a range, low and high, and no items")
            _check(0 <= self.resolution <= MOST_ITEMS, "resolution", self.resolution, "a number of points")
        _ = self.protocol.layout  # what cannot be laid out is said now

    @cached_property
    def protocol(self) -> Harmless:
        parts = len(self.items) if self.mechanism == SRSPL.name else 1
        copies = rates(self.epsilon, self.closeness, parts)
        if self.mechanism in OF_ATTRIBUTES:
            return OF_ATTRIBUTES[self.mechanism](copies, self.items)
        if self.mechanism in OF_ITEMS:
            return OF_ITEMS[self.mechanism](copies, self.items)
        if self.mechanism == "grr-ho":
            return GRRHO(copies, self.low, self.high, self.resolution or 16)
        if self.mechanism == "sr-ho":
            return SRHO(copies, self.low, self.high, self.resolution or 1)
        return PMHO(copies, self.low, self.high, self.resolution or 16)

    @cached_property
    def verifier(self) -> Verifier:
        return Verifier(self.protocol.layout, scheme(self.scheme))

    @cached_property
    def digest(self) -> bytes:
        """What every hash of the task's sessions is bound to."""
        return digest(b"veridp task", self.to_json().encode())

    @cached_property
    def largest_message(self) -> int:
        """The bytes that no message of the task exceeds."""
        layout, kind = self.protocol.layout, self.verifier.scheme
        opening = layout.closed * 5 + layout.size * layout.width + kind.proof_bytes(layout)
        return 256 + max(opening, kind.commitment_bytes(layout))

    def to_json(self) -> str:
        """The one text that says all of it."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_document(cls, document: object) -> Task:
        """The task that a JSON document describes; refuses unknown names and wrong types."""
        if not isinstance(document, Mapping):
            raise BadInput("a task is a JSON object")
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(map(str, document)) - set(known)):
            raise BadInput(f"a task has no {unknown[0]!r}; it has {', '.join(known)}")
        for name in ("name", "mechanism", "epsilon"):
            if name not in document:
                raise BadInput(f"the task has no {name!r}; give one")
        return cls(**document)

    @classmethod
    def from_json(cls, text: str) -> Task:
        try:
            return cls.from_document(json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput("the task is not a JSON document") from None


def _check(good: bool, name: str, found: object, needed: str) -> None:
    if not good:
        raise BadInput(f"{name} = {found!r} of the task; give {needed}")


def _typed(name: str, kind: str, value: object) -> object:
    """The value as the field's type, without conversions that could hide a mistake."""
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "int" and type(value) is int:
        return value
    if kind == "float" and isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e300:
        return float(value)
    if kind.startswith("tuple") and isinstance(value, list | tuple) and all(type(item) is str for item in value):
        return tuple(value)
    raise BadInput(f"{name} = {value!r} of the task is not a {kind.replace('tuple[str, ...]', 'list of strings')}")
