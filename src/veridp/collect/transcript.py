"""The log of a task, with every message of every session, and an auditor that needs nothing else.

A log is a sequence of MessagePack values: a header with the task's definition and the signed head of the tree, a record
for each session (those of the tree first, in its order), the hashes of all tokens, and the number of sessions, which
shows that nothing is missing at the end.

A log alone cannot show that its server left a session out or made one up. Clients can: each has its own session in its
state file, with a receipt. So can the issuer of the tokens: their `tokens_root`, published before the collection, fixes
who may take part, and every session must have its own token. Earlier heads must fit the log: one that does not shows
that it was rewritten. Heads also count the sessions that had begun, so those that clients left can be neither dropped
nor made up later.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import BinaryIO

import msgpack
import numpy as np

from veridp.collect.client import Record
from veridp.collect.estimate import Attendance, CollectionEstimate, estimate_from
from veridp.collect.merkle import GrowingTree, leaf_hash, tree_hash
from veridp.collect.messages import (
    DIGEST_BYTES,
    LONGEST,
    NONCE_BYTES,
    SESSION_BYTES,
    Challenge,
    Commit,
    Context,
    Invitation,
    Opening,
    Refused,
    SessionVerdict,
    decode,
    encode,
    packed,
    promise,
)
from veridp.collect.receipts import Receipt, StepCounts, TreeHead, entry_of
from veridp.collect.task import Session, SessionStage, Task
from veridp.errors import BadInput

FORMAT = "veridp log 5"
WITHOUT_COUNTS = "veridp log 4"  # its head says nothing of sessions that were left
WITHOUT_TOKENS = ("veridp log 2", "veridp log 1")  # the first had nonces that were not sent, too
OLD_FORMATS = ("veridp log 3", *WITHOUT_TOKENS)  # without a tree
WITH_HEAD = (FORMAT, WITHOUT_COUNTS)
RECORD = (bytes, bytes, bytes, int, str, str, bytes | None, bytes | None, list | None, bytes)  # as `written` has them
TOKENS_TOGETHER = 1000  # in one value of a log
SKEW = 60  # seconds by which the clocks of servers may differ
MOST_FAULTS = 100  # that are listed; all are counted
RECORDS_TOGETHER = 500  # that a process verifies at a time
MOST_PARTS_AHEAD = 16  # that wait for a process, or for those before them


def tokens_root(hashes: Iterable[bytes]) -> str:
    """What binds a list of tokens, by their hashes: to be published before a collection. In hexadecimal digits."""
    return tree_hash(sorted(set(hashes))).hex()


def written(
    task: Task,
    closed_at: int,
    sessions: Iterable[Session],
    tokens: Iterable[bytes] = (),
    head: TreeHead | None = None,
) -> Iterator[bytes]:
    """The log, piece by piece. What had not expired at `closed_at` (seconds since 1970) is pending.

    `tokens` are the hashes of all tokens of the task, in increasing order. The sessions under the head come first, in
    the order of the tree.
    """
    yield packed([FORMAT, task.to_json(), closed_at, "" if head is None else json.dumps(head.to_document())])
    number = 0
    for session in sessions:
        number += 1
        commitment = None if session.commit is None else session.commit.commitment
        opening = None if session.opening is None else encode(session.opening)
        verdict = session.verdict
        outputs = None if verdict is None else list(verdict.outputs)
        nonce = b"" if session.commit is None else session.nonce  # one that was not sent stays secret
        context = [session.context.session, nonce, session.invitation.promise, session.expires]
        decided = [str(session.stage), verdict.reason if verdict else "", commitment, opening, outputs]
        yield packed([*context, *decided, session.token])
    remaining = iter(tokens)
    while some := b"".join(itertools.islice(remaining, TOKENS_TOGETHER)):
        yield packed(some)
    yield packed(number)


@dataclass
class Audit:
    """What an auditor found: how many sessions, and each place where the log contradicts itself or the protocol."""

    task: Task
    attendance: Attendance
    outputs: list[tuple[int, ...]] = field(default_factory=list)
    sessions: list[bytes] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    fault_count: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    tokens: list[bytes] | None = None  # the hashes of all tokens; None in a log of an old format
    used: list[bytes] = field(default_factory=list)  # those of the sessions
    head: TreeHead | None = None  # what the server signed

    @property
    def tokens_root(self) -> str | None:
        return None if self.tokens is None else tokens_root(self.tokens)

    @property
    def good(self) -> bool:
        return self.fault_count == 0

    def estimate(self, confidence: float = 0.95) -> CollectionEstimate:
        """The estimate, from the reports that the auditor verified."""
        return estimate_from(self.task, self.support, self.attendance, confidence)

    @property
    def support(self) -> list[int]:
        """How much the verified reports support each column."""
        protocol = self.task.protocol
        rows = np.array(self.outputs, dtype=np.int64).reshape(len(self.outputs), protocol.layout.blocks)
        return protocol.support(rows, self.sessions)


def audit(
    file: BinaryIO,
    own: Iterable[Record] = (),
    published_root: str | None = None,
    heads: Iterable[TreeHead] = (),
    key: bytes | None = None,
    executor: Executor | None = None,
) -> Audit:
    """Verifies a whole log again, from the messages alone.

    Each nonce must be the promised one, each selection follow from it and the commitment, each accepted opening be
    right, each rejected one wrong, and no session occur twice, or stay open for longer than the task lets it. Each
    session must have a token of its own, of those that the log lists; with `published_root`, these must be the tokens
    that it binds. The sessions of `own`, which clients kept, must be there as they were, under their receipts. All
    `heads` and those of receipts must be signed with one key, which is `key` where that is given, and be heads of this
    log: what was signed cannot be rewritten or dropped, and the sessions of the log are as many as they count. A
    session that was left out before it was counted is found only by its client, and one that the server made up with a
    token that nobody used by nobody.

    The log is read once, from start to end, and only hashes, tokens and reports of it are kept. The processes of an
    `executor` verify some sessions each; what is found is the same.
    """
    own = list(own)
    unpacker = msgpack.Unpacker(file, raw=False, max_buffer_size=LONGEST, strict_map_key=True)
    task, closed_at, old, head = _header(unpacker)
    counts: Counter[str] = Counter()
    found = Audit(task, Attendance(0, 0, 0, 0, 0, 0), tokens=None if old else [], head=head)
    receipts = [(record, Receipt.from_json(record.receipt)) for record in own if record.receipt]
    tree = _TreeAudit(task, closed_at, head, [*heads, *(receipt.head for _, receipt in receipts)], key)
    expected = {decode(record.invitation, Invitation).session: record for record in own}
    seen: set[bytes] = set()
    examine = partial(examined, task.to_json(), closed_at, old)
    for number, (record, result) in enumerate(_examined_in_order(_records(unpacker, found), examine, executor)):
        if result.malformed:
            _fault(found, f"record {number}: {result.malformed}")
            continue
        complaints = list(result.complaints)
        if result.session in seen:
            complaints.insert(0, "the session occurs twice")
        else:
            tree.count(result)
        if result.session in expected:
            complaints += _unlike(*_session(task, record, old), expected.pop(result.session))
        for complaint in complaints:
            _fault(found, f"record {number}, session {result.session.hex()}: {complaint}")
        seen.add(result.session)
        tree.add(result)
        found.used.append(result.token)
        counts["rejected" if complaints and result.kind == "accepted" else result.kind] += 1
        _note(found, result, verified=not complaints)
    for missing in expected:
        _fault(found, f"the session {missing.hex()} of a state file is not in the log: it was left out")
    unlike = (receipt for record, receipt in receipts if not receipt.shows(record))
    wrong = (
        f"the receipt for place {receipt.place} is not one for the session of its state file" for receipt in unlike
    )
    for complaint in (*_wrong_tokens(found, published_root), *tree.faults(), *wrong):
        _fault(found, complaint)
    found.attendance = attendance(counts)
    return found


@dataclass(frozen=True)
class Examined:
    """A record, and what is wrong with it by itself; `malformed` says why it cannot be read as a session."""

    session: bytes = b""
    token: bytes = b""
    kind: str = ""
    expires: int = 0
    verdict: SessionVerdict | None = None
    leaf: bytes | None = None  # its hash in the tree, if it can have a place there
    complaints: tuple[str, ...] = ()
    malformed: str = ""


def examined(document: str, closed_at: int, old: bool, records: Sequence[object]) -> list[Examined]:
    """What the records of a log of this task are, in order."""
    task = _task_of(document)
    return [_examined(task, closed_at, old, record) for record in records]


@lru_cache(maxsize=8)
def _task_of(document: str) -> Task:
    return Task.from_json(document)


def _examined(task: Task, closed_at: int, old: bool, record: object) -> Examined:
    try:
        session, promised = _session(task, record, old)
    except (Refused, ValueError, TypeError) as error:
        return Examined(malformed=str(error))
    complaints = (*_broken_rules(task, session, promised, closed_at), *_wrong_verdict(task, session))
    leaf = None
    with suppress(ValueError):  # a verdict without an opening is a fault of its own
        leaf = leaf_hash(entry_of(session))
    kind = _kind(session, closed_at)
    return Examined(session.context.session, session.token, kind, session.expires, session.verdict, leaf, complaints)


def _examined_in_order(
    records: Iterable[object], examine: Callable[[list[object]], list[Examined]], executor: Executor | None
) -> Iterator[tuple[object, Examined]]:
    """Each record, examined; few are in memory at a time, however long the log is."""
    remaining, waiting = iter(records), deque[tuple[list[object], Future[list[Examined]]]]()
    if executor is None:
        for record in remaining:
            yield record, examine([record])[0]
        return
    while True:
        while len(waiting) < MOST_PARTS_AHEAD and (part := list(itertools.islice(remaining, RECORDS_TOGETHER))):
            waiting.append((part, executor.submit(examine, part)))
        if not waiting:
            return
        part, results = waiting.popleft()
        yield from zip(part, results.result(), strict=True)


class _TreeAudit:
    """The tree of the log, computed again, beside all heads that were signed."""

    def __init__(
        self, task: Task, closed_at: int, head: TreeHead | None, others: Sequence[TreeHead], key: bytes | None
    ) -> None:
        self.task, self.closed_at, self.head, self.key = task, closed_at, head, key
        self.heads = [*others] if head is None else [head, *others]
        self.tree = GrowingTree()
        self.sizes = {each.size for each in self.heads}
        self.roots = {0: self.tree.root}
        self.begun, self.left = _Expiries(), _Expiries()

    def count(self, found: Examined) -> None:
        """A session that is new."""
        challenged = not found.kind.endswith(SessionStage.INVITED)
        self.begun.add(found.expires, challenged=challenged)
        if found.verdict is None:
            self.left.add(found.expires, challenged=challenged)

    def add(self, found: Examined) -> None:
        """The next session of the log: one of the tree, as long as there are."""
        if self.head is not None and self.tree.size < self.head.size and found.leaf is not None:
            self.tree.append(found.leaf)
            if self.tree.size in self.sizes:
                self.roots[self.tree.size] = self.tree.root

    def faults(self) -> Iterator[str]:
        if self.head is None:
            if self.heads or self.key is not None:
                yield "the log has no signed head, and others have: it is not the log that was signed"
            return
        if self.tree.size != self.head.size:
            yield f"the head is signed for {self.head.size} sessions, and the log has {self.tree.size} of them"
        keys = {each.key.hex() for each in self.heads} | ({self.key.hex()} if self.key is not None else set())
        if len(keys) > 1:
            yield f"heads of the log are signed with different keys: {', '.join(sorted(keys))}"
        if any(each.task != self.task.digest for each in self.heads):
            yield "a head is that of another task"
        for each in self.heads:
            if each.size > self.head.size:
                yield f"a head is signed for {each.size} sessions, and this log has {self.head.size}: some were removed"
            elif self.roots.get(each.size) != each.root:
                yield f"the first {each.size} sessions are not those whose head was signed: the log was rewritten"
        yield from self._wrong_counts()

    def _wrong_counts(self) -> Iterator[str]:
        """Where the log has fewer sessions than a head counts, or more that had ended before it was signed."""
        if self.head is not None and self.head.time > self.closed_at + SKEW:
            yield "the head was signed after the log was written"
        for each in self.heads:
            if each.counts is None:
                continue
            possible = self.begun.until(each.time + self.task.session_seconds + SKEW)
            left = self.left.until(each.time - SKEW)
            ended = StepCounts(each.size + left.begun, each.size + left.challenged)
            if not possible.covers(each.counts):
                yield f"a head counts {each.counts}, and this log has {possible} by then: some were removed"
            elif not each.counts.covers(ended):
                yield f"a head counts {each.counts}, and of this log {ended} had ended by then: some were added"


class _Expiries:
    """When sessions expire: all that had begun, and those with a challenge."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.challenged: list[int] = []

    def add(self, expires: int, *, challenged: bool) -> None:
        self.begun.append(expires)
        if challenged:
            self.challenged.append(expires)

    def until(self, moment: int) -> StepCounts:
        """How many expire by then."""
        for each in (self.begun, self.challenged):
            each.sort()  # which costs little once it is sorted
        return StepCounts(bisect_right(self.begun, moment), bisect_right(self.challenged, moment))


def _unlike(session: Session, promised: bytes, record: Record) -> Iterator[str]:
    """Where the log has another session than its client."""
    invitation = decode(record.invitation, Invitation)
    if (invitation.task, invitation.promise) != (session.context.task, promised):
        yield "its client was invited with another promise, or to another task"
    if invitation.expires != session.expires:
        yield "its client was invited until another time"
    if session.commit is None or session.commit.commitment != record.commitment:
        yield "its client made another commitment"
    if record.nonce and session.nonce != record.nonce:
        yield "its client was challenged with another nonce"
    if record.verdict and (session.verdict is None or encode(session.verdict) != record.verdict):
        yield "its client got another verdict"


def _wrong_tokens(found: Audit, published_root: str | None) -> Iterator[str]:
    if found.tokens is None:
        if published_root is not None:
            yield "the log has no tokens to compare with the published ones; it is of an old format"
        return
    if any(one >= other for one, other in itertools.pairwise(found.tokens)):
        yield "the tokens are not in increasing order"
    strangers, uses = set(found.used) - set(found.tokens), Counter(found.used)
    if strangers:
        yield f"sessions with a token that was not issued: {sum(uses[token] for token in strangers)}"
    if repeated := sum(count - 1 for count in uses.values()):
        yield f"sessions with a token that another one has: {repeated}"
    if published_root is not None and found.tokens_root != published_root.lower():
        yield f"the {len(found.tokens)} tokens of the log are not the published ones: their root is {found.tokens_root}"


def attendance(counts: Counter[str]) -> Attendance:
    """From the number of sessions of each kind, as `_kind` names them."""
    return Attendance(
        counts["accepted"],
        counts["rejected"],
        counts["expired challenged"],
        counts["expired invited"],
        counts["pending challenged"],
        counts["pending invited"],
    )


def _note(found: Audit, result: Examined, *, verified: bool) -> None:
    """Count a decided session; one that was accepted but does not verify counts as rejected."""
    if result.verdict is None:
        return
    if result.verdict.accepted and verified:
        found.outputs.append(result.verdict.outputs)
        found.sessions.append(result.session)
    else:
        found.rejected[result.verdict.reason or "not as it should be"] += 1


def _kind(session: Session, closed_at: float) -> str:
    if session.stage in (SessionStage.ACCEPTED, SessionStage.REJECTED):
        return str(session.stage)
    return f"{'expired' if session.expires <= closed_at else 'pending'} {session.stage}"


def _broken_rules(task: Task, session: Session, promised: bytes, closed_at: int) -> Iterator[str]:
    if (session.nonce or session.commit) and promise(session.context, session.nonce) != promised:
        yield "the nonce is not the promised one"
    if session.expires > min(task.expires, closed_at + task.session_seconds + SKEW):
        yield "the session is open for longer than the task lets it"


def _wrong_verdict(task: Task, session: Session) -> Iterator[str]:
    if session.verdict is None:
        return
    if session.commit is None or session.opening is None:
        yield "a verdict without a commitment and an opening"
        return
    challenge = Challenge(session.context.task, session.context.session, session.nonce)
    try:
        task.verifier.check(session.commit)
    except Refused as refusal:
        yield f"the commitment should have been refused: {refusal}"
    due = task.verifier.judge(session.commit, challenge, session.opening)
    if due != session.verdict:
        yield f"the verdict is {_said(session.verdict)}, and should be {_said(due)}"


def _said(verdict: SessionVerdict) -> str:
    return f"accepted with {verdict.outputs}" if verdict.accepted else f"rejected ({verdict.reason})"


def _fault(found: Audit, complaint: str) -> None:
    found.fault_count += 1
    if len(found.faults) < MOST_FAULTS:
        found.faults.append(complaint)


def _header(unpacker: msgpack.Unpacker) -> tuple[Task, int, bool, TreeHead | None]:
    """The task, when the log was written, whether it lacks tokens, and the head of its tree, if there is one."""
    try:
        kind, document, closed_at, *more = next(iter(unpacker))
    except (StopIteration, ValueError, TypeError, msgpack.UnpackException):
        raise BadInput("not a log of veridp collect; make one with veridp collect export") from None
    head = "".join(more) if kind in WITH_HEAD and len(more) == 1 and isinstance(more[0], str) else ""
    if kind not in (*WITH_HEAD, *OLD_FORMATS) or not isinstance(document, str) or not isinstance(closed_at, int):
        raise BadInput(f"the log has the format {kind!r}, expected {FORMAT!r}")
    signed = TreeHead.from_json(head) if head else None
    return Task.from_json(document), closed_at, kind in WITHOUT_TOKENS, signed


def _records(unpacker: msgpack.Unpacker, found: Audit) -> Iterator[object]:
    """The records up to the end, which must be there and say how many they are."""
    number = 0
    try:
        for record in unpacker:
            if isinstance(record, int):
                if record != number or next(unpacker, None) is not None:
                    _fault(found, f"the log says that it ends after {record} sessions, and there are others")
                return
            if isinstance(record, bytes) and found.tokens is not None:
                _note_tokens(found, record)
                continue
            yield record
            number += 1
    except (ValueError, msgpack.UnpackException) as error:
        _fault(found, f"the log cannot be read after {number} sessions: {type(error).__name__}")
    else:
        _fault(found, f"the log breaks off after {number} sessions")


def _note_tokens(found: Audit, joined: bytes) -> None:
    if found.tokens is None or not joined or len(joined) % DIGEST_BYTES:
        _fault(found, "hashes of tokens of the wrong length")
        return
    found.tokens += [joined[i : i + DIGEST_BYTES] for i in range(0, len(joined), DIGEST_BYTES)]


def _session(task: Task, record: object, old: bool) -> tuple[Session, bytes]:
    """The session of a record, and what was promised in it."""
    if old and isinstance(record, list):
        record = [*record, b""]
    if not isinstance(record, list) or len(record) != len(RECORD):
        raise ValueError("not a record of a session")
    if not all(isinstance(part, kind) for part, kind in zip(record, RECORD, strict=True)):
        raise ValueError("a part of the record has the wrong type")
    identity, nonce, promised, expires, stage, reason, commitment, opening, outputs, token = record
    if (len(identity), len(promised)) != (SESSION_BYTES, DIGEST_BYTES) or len(nonce) not in (0, NONCE_BYTES):
        raise ValueError("a part of the record has the wrong length")
    session = Session(
        Context(task.digest, identity),
        nonce,
        expires,
        None if commitment is None else Commit(task.digest, identity, commitment),
        None if opening is None else decode(opening, Opening),
        token=token,
    )
    found = session.decided(SessionStage(stage), reason, outputs)
    if found.stage != stage or (found.verdict is None and (reason or opening or outputs)):
        raise ValueError(f"the record does not match a session that is {stage}")
    return found, promised
