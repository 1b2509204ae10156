"""Attacks played against the real verifier, and the protocols side by side: privacy, robustness, bytes, accuracy and
gain."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from veridp.collect.client import Client, MemoryVault
from veridp.collect.commitments import SECRET_BYTES
from veridp.collect.estimate import (
    SOME_SESSION,
    Robustness,
    corners,
    expected,
    robustness,
    scores,
    sum_over_blocks,
)
from veridp.collect.harmless import Counts, Harmless, Layout
from veridp.collect.messages import (
    NONCE_BYTES,
    SESSION_BYTES,
    Commit,
    Context,
    Opening,
    SessionVerdict,
    encode,
    selected,
)
from veridp.collect.protocols import OfNumbers
from veridp.collect.task import Session, Task, packed_values
from veridp.local.poisoning.attack import Freedom
from veridp.local.study import People

# ------------------------------------------------------------------------------------------------------------- attacks
# Attacks played against the real verifier: which freedoms a malicious client keeps.


PLAYS = 64

Vector = Sequence[int]


@dataclass(frozen=True)
class Said:
    """What an opening says: which entries stay closed, and what each entry holds."""

    closed: list[int]
    values: dict[int, int]


Lie = Callable[[Layout, Vector, Sequence[int]], Said]


@dataclass(frozen=True)
class VerifiedCollection:
    """A collection of this task, as far as attacks are concerned: `attack.allowed_by(VerifiedCollection(task))`.

    A freedom is permitted if a client that uses it is accepted in every one of many sessions, which all go through
    the state machines and the verifier that the service runs. Withdrawal is permitted, for no protocol can make a
    client go on; the service counts it, burns the token, and bounds what it did to the estimate. That includes clients
    that leave because they do not like their hash.
    """

    task: Task
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.task.mechanism} with harmless opening"

    def permits(self, freedom: Freedom) -> bool:
        rng = random.Random(self.seed)  # noqa: S311 - a simulation
        return PLAYED[freedom](self.task, rng)


def new_session(task: Task, rng: random.Random) -> Session:
    """A session of a simulation, which begins at time 0."""
    context = Context(task.digest, rng.randbytes(SESSION_BYTES))
    token = context.digest(b"veridp token")  # none of a person
    return Session(context, rng.randbytes(NONCE_BYTES), task.session_seconds, token=token)


def play_honest(task: Task, value: object, rng: random.Random) -> Session:
    """The decided session of a client that follows the protocol with this value."""
    session = new_session(task, rng)
    client = Client(task.protocol, task.verifier, MemoryVault(), rng)
    session = session.committed(client.commit(session.invitation, value), 0, task.verifier)
    return session.opened(client.open(session.challenge), 0, task.verifier)


def play_vector(task: Task, counts: Sequence[Counts], rng: random.Random, lie: Lie | None = None) -> Session:
    """The decided session of a client that commits to a vector with these counts and opens as well as it can.

    A lie may name other entries and values than the best that the vector allows.
    """
    layout, kind = task.protocol.layout, task.verifier.scheme
    session = new_session(task, rng)
    vector = layout.draw_vector(counts, rng)
    secret = rng.randbytes(SECRET_BYTES)
    commit = Commit(session.context.task, session.context.session, kind.commit(session.context, layout, vector, secret))
    session = session.committed(commit, 0, task.verifier)
    chosen = selected(session.context, session.challenge.nonce, commit.commitment, layout)
    said = (lie or truthful)(layout, vector, chosen)
    values = [said.values[i] for i in layout.opened(said.closed)]
    proof = kind.open(session.context, layout, vector, secret, said.closed)
    opening = Opening(commit.task, commit.session, tuple(said.closed), packed_values(layout, values), proof)
    return session.opened(opening, 0, task.verifier)


def truthful(layout: Layout, vector: Vector, chosen: Sequence[int]) -> Said:
    """What the vector holds, with the floors opened as far as it has them."""
    closed: list[int] = []
    for block, place in enumerate(chosen):
        start = block * layout.length
        spare = list(layout.floors)
        spare[vector[start + place]] -= 1
        free = []
        for i in range(start, start + layout.length):
            if i != start + place:
                if spare[vector[i]] > 0:
                    spare[vector[i]] -= 1
                else:
                    free.append(i)
        closed += free[: layout.free]
    return Said(sorted(closed), dict(enumerate(vector)))


def forged(target: int) -> Lie:
    """A lie that says the selected entries hold the target, and that others hold what is then missing."""

    def lie(layout: Layout, vector: Vector, chosen: Sequence[int]) -> Said:
        said = truthful(layout, vector, chosen)
        kept = set(said.closed)
        for block, place in enumerate(chosen):
            start = block * layout.length
            due = list(layout.floors)
            due[target] -= 1
            rest = [value for value, count in enumerate(due) for _ in range(count)]
            others = [i for i in range(start, start + layout.length) if i != start + place and i not in kept]
            said.values.update(zip(others, rest, strict=False))
            said.values[start + place] = target
        return said

    return lie


def _always(verdicts: Iterator[SessionVerdict | None], wanted: Callable[[SessionVerdict], bool]) -> bool:
    return all(verdict is not None and verdict.accepted and wanted(verdict) for verdict in verdicts)


def _any_report(task: Task, rng: random.Random) -> bool:
    """Whether some way to cheat has every output accepted whenever the client wants it."""
    layout = task.protocol.layout
    honest = task.protocol.counts(0, SOME_SESSION)
    for target in range(layout.values):
        only = tuple(layout.length if value == target else 0 for value in range(layout.values))
        greedy = corners(layout)[target]
        ways: list[tuple[Sequence[Counts], Lie | None]] = [
            ([only] * layout.blocks, None),
            ([only] * layout.blocks, forged(target)),
            ([greedy] * layout.blocks, None),
            (honest, forged(target)),
        ]
        if not any(
            _always(
                (play_vector(task, counts, rng, lie).verdict for _ in range(PLAYS)),
                lambda verdict, target=target: set(verdict.outputs) == {target},  # type: ignore[misc]
            )
            for counts, lie in ways
        ):
            return False
    return True


def _other_input(task: Task, rng: random.Random) -> bool:
    return _always(
        (play_honest(task, rng.choice(task.protocol.examples), rng).verdict for _ in range(PLAYS)), lambda verdict: True
    )


def _absence(task: Task, rng: random.Random) -> bool:
    """A client that stays away sends nothing that could be refused; one that takes part is accepted."""
    return _other_input(task, rng)


def _withdrawal(task: Task, rng: random.Random) -> bool:
    """The client knows its report once it is challenged; one that then goes on is accepted."""
    return _other_input(task, rng)


def _several_inputs(task: Task, rng: random.Random) -> bool:
    """Whether a vector that supports two items as much as a holder of either would is accepted."""
    protocol = task.protocol
    if protocol.numeric:
        return False  # two numbers at once are a number between them
    first = protocol.counts(0, SOME_SESSION)
    pair = next(((0, i) for i in range(1, protocol.inputs) if protocol.counts(i, SOME_SESSION) != first), (0, 1))
    return any(
        _reaches_both(protocol, counts, pair)
        and _always((play_vector(task, counts, rng).verdict for _ in range(PLAYS)), lambda verdict: True)
        for counts in (_best_accepted(protocol, pair), _both_raised(protocol, pair))
    )


def _reaches_both(protocol: Harmless, counts: Sequence[Counts], pair: tuple[int, int]) -> bool:
    def score(vector: Sequence[Counts], item: int) -> Fraction:
        return sum_over_blocks(vector, scores(protocol, [item], SOME_SESSION), protocol.layout)

    return all(score(counts, item) >= score(protocol.counts(item, SOME_SESSION), item) for item in pair)


def _best_accepted(protocol: Harmless, pair: tuple[int, int]) -> list[Counts]:
    """In each block the accepted counts of the highest score for the pair."""
    layout = protocol.layout
    return [
        max(corners(layout), key=lambda corner, row=row: expected(corner, row, layout))  # type: ignore[misc]
        for row in scores(protocol, pair, SOME_SESSION)
    ]


def _both_raised(protocol: Harmless, pair: tuple[int, int]) -> list[Counts]:
    """The counts of both items, at the cost of the values that neither raises."""
    length, raised = protocol.layout.length, []
    for blocks in zip(*(protocol.counts(item, SOME_SESSION) for item in pair), strict=True):
        counts = [max(pair_of) for pair_of in zip(*blocks, strict=True)]
        while sum(counts) > length:
            counts[min((count, value) for value, count in enumerate(counts) if count)[1]] -= 1
        raised.append(tuple(counts))
    return raised


def _other_seed(task: Task, rng: random.Random) -> bool:
    """Whether a client can take part under another session's number, which determines the hash."""

    def verdicts() -> Iterator[SessionVerdict | None]:
        for _ in range(PLAYS):
            session, other = new_session(task, rng), new_session(task, rng)
            client = Client(task.protocol, task.verifier, MemoryVault(), rng)
            foreign = client.commit(other.invitation, task.protocol.examples[0])
            own = Commit(foreign.task, session.context.session, foreign.commitment)
            session = session.committed(own, 0, task.verifier)
            opening = client.open(other.committed(foreign, 0, task.verifier).challenge)
            renamed = Opening(opening.task, session.context.session, opening.closed, opening.values, opening.proof)
            yield session.opened(renamed, 0, task.verifier).verdict

    return _always(verdicts(), lambda verdict: True)


PLAYED: dict[Freedom, Callable[[Task, random.Random], bool]] = {
    Freedom.INPUT: _other_input,
    Freedom.ABSENCE: _absence,
    Freedom.WITHDRAWAL: _withdrawal,
    Freedom.SEVERAL_INPUTS: _several_inputs,
    Freedom.SEED: _other_seed,
    Freedom.REPORT: _any_report,
}


# ---------------------------------------------------------------------------------------------------------- comparison
# The protocols side by side: privacy, robustness, length, bytes, accuracy and gain, each computed.


@dataclass(frozen=True)
class Compared:
    """A protocol on some people's values, with a share `beta` of malicious clients.

    The error is the standard error of the estimate. The gains are what the malicious clients add to the estimate: by
    claiming the best input, by the best that is accepted, and where nothing is checked.
    """

    task: Task
    robustness: Robustness
    length: int
    sent: dict[str, int]  # bytes of a client, by scheme
    error: float
    input_gain: float
    accepted_gain: float
    unprotected_gain: float

    @property
    def epsilon(self) -> float:
        return self.task.protocol.epsilon


def compared_means(task: Task, people: People, beta: float, schemes: Sequence[str]) -> Compared:
    """A protocol that estimates the mean of the people's values."""
    found = robustness(task.protocol)
    gains = [beta * (float(score) - people.mean) for score in _scores(found)]
    return Compared(task, found, task.protocol.layout.size, _sent(task, schemes), _error(task, people), *gains)


def compared_frequencies(
    task: Task, number: int, targets: Sequence[int], share: float, beta: float, schemes: Sequence[str]
) -> Compared:
    """A protocol that estimates frequencies among so many people, of whom a share has the targets.

    The error is that of an item that hardly anybody has.
    """
    protocol = task.protocol
    found = robustness(protocol, targets)
    scaled = protocol.scaled
    rate = -scaled.shift / scaled.scale  # how often a report supports an item that its client has not
    error = math.sqrt(float(rate * (1 - rate) * scaled.scale**2) / number)
    gains = [beta * (float(score) - share) for score in _scores(found)]
    return Compared(task, found, protocol.layout.size, _sent(task, schemes), error, *gains)


def _scores(found: Robustness) -> tuple[Fraction, Fraction, Fraction]:
    return found.best_input, found.best_accepted, found.unprotected


def _sent(task: Task, schemes: Sequence[str]) -> dict[str, int]:
    """The bytes of the commitment and the opening of one honest client."""
    sent = {}
    for scheme in schemes:
        session = play_honest(replace(task, scheme=scheme), task.protocol.examples[0], random.Random(0))  # noqa: S311 - a simulation
        assert session.commit is not None  # noqa: S101  it is decided
        assert session.opening is not None  # noqa: S101
        sent[scheme] = len(encode(session.commit)) + len(encode(session.opening))
    return sent


def _error(task: Task, people: People) -> float:
    """The standard error of the mean: of the random rounding of each value, and of its perturbation."""
    total = Fraction(0)
    for value, count in Counter(people.values.tolist()).items():
        total += count * _variance_at(task, value)
    return math.sqrt(float(total)) / len(people.values)


def _variance_at(task: Task, value: float) -> Fraction:
    """The variance that the report of one value adds to the estimate."""
    protocol = task.protocol
    assert isinstance(protocol, OfNumbers)  # noqa: S101  a task of means
    place = Fraction(value - task.low) / Fraction(task.high - task.low) * (protocol.inputs - 1)
    below = math.floor(place)
    share = place - below
    mean = square = Fraction(0)
    for chosen, weight in ((below, 1 - share), (min(below + 1, protocol.inputs - 1), share)):
        (law,) = protocol.law(chosen, SOME_SESSION)
        mean += weight * sum((p * raw for raw, p in enumerate(law)), Fraction(0))
        square += weight * sum((p * raw * raw for raw, p in enumerate(law)), Fraction(0))
    return (square - mean * mean) * protocol.scaled.scale**2
