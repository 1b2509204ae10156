"""The protocols side by side: privacy, robustness, length, bytes, accuracy and gain, each computed."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from veridp.collect.attacks import play_honest
from veridp.collect.guarantee import SOME_SESSION, PoisoningStanding, Robustness, robustness
from veridp.collect.layout import SESSION_BYTES
from veridp.collect.messages import encode
from veridp.collect.numeric import OfNumbers
from veridp.collect.task import Task
from veridp.local.study.run import People

SESSIONS = 256  # over which the scores of a hashed protocol are averaged


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
    return Compared(
        task, found, task.protocol.layout.size, _sent(task, people.low, schemes), _error(task, people), *gains
    )


def compared_frequencies(
    task: Task, number: int, targets: Sequence[int], share: float, beta: float, schemes: Sequence[str]
) -> Compared:
    """A protocol that estimates frequencies among so many people, of whom a share has the targets.

    The error is that of an item that hardly anybody has. Where the score depends on the hash of a session, it is the
    average over many sessions.
    """
    protocol = task.protocol
    found = _over_sessions(task, targets)
    scaled = protocol.scaled
    rate = -scaled.shift / scaled.scale  # how often a report supports an item that its client has not
    error = math.sqrt(float(rate * (1 - rate) * scaled.scale**2) / number)
    gains = [beta * (float(score) - share) for score in _scores(found)]
    return Compared(task, found, protocol.layout.size, _sent(task, task.items[0], schemes), error, *gains)


def _over_sessions(task: Task, targets: Sequence[int]) -> Robustness:
    """The mean scores over sessions, with the standing that all of them have; the worst one if they differ."""
    if task.mechanism != "volh":
        return robustness(task.protocol, targets)
    rng = random.Random(0)  # noqa: S311 - a simulation
    found = [robustness(task.protocol, targets, rng.randbytes(SESSION_BYTES)) for _ in range(SESSIONS)]
    best_input, best_accepted, unprotected = (
        sum(column, Fraction(0)) / SESSIONS for column in zip(*map(_scores, found), strict=True)
    )
    worst = max((r.standing for r in found), key=list(PoisoningStanding).index)
    return Robustness(best_input, best_accepted, unprotected, worst)


def _scores(found: Robustness) -> tuple[Fraction, Fraction, Fraction]:
    return found.best_input, found.best_accepted, found.unprotected


def _sent(task: Task, value: object, schemes: Sequence[str]) -> dict[str, int]:
    """The bytes of the commitment and the opening of one honest client."""
    sent = {}
    for scheme in schemes:
        session = play_honest(replace(task, scheme=scheme), value, random.Random(0))  # noqa: S311 - a simulation
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
