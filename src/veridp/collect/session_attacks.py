"""Attacks by whole sessions, played against the real verifier: a chosen input, the best vector, shopping for a seed,
dropping out; each beside its exact score.

A malicious client raises the estimates of its targets (or the mean). It may leave at any step and return with another
token, as often as it likes. Honest clients are always accepted, so their reports are drawn from the exact distribution;
every step of a malicious client goes through the state machine and the verifier that the service runs.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from veridp.collect.attacks import new_session, play_honest, truthful
from veridp.collect.commitments import SECRET_BYTES
from veridp.collect.estimate import Attendance, corners, most_by_block, session_draws, session_worth
from veridp.collect.harmless import Counts, InvitationDraw, Outputs
from veridp.collect.messages import Commit, Opening, SessionVerdict, selected
from veridp.collect.strategies import SessionStrategies, strategies
from veridp.collect.task import Session, Task, packed_values
from veridp.errors import BadInput
from veridp.local.poisoning.attack import CheckedProtocol, Freedom

MOST_TRIES = 100_000  # sessions of one client until it likes one

Rows = list[list[int]]  # of each block, by how much each value supports the targets together


@dataclass(frozen=True)
class PlayedCollection:
    """A collection without and with the attack, on the same honest reports.

    `score` is the mean of what an accepted malicious report adds to the estimate of the targets, `error` its standard
    error, `tokens` how many sessions each of them took.
    """

    before: float
    after: float
    score: float
    error: float
    tokens: float
    attendance: Attendance
    support: tuple[int, ...]


@dataclass(frozen=True)
class SessionAttack(ABC):
    """Malicious clients, a share `beta` of those accepted. A share `boldness` of them attacks; the others claim the
    lowest number, or an item that is not a target, and follow the protocol."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Freedom]]
    task: Task
    beta: float
    targets: tuple[int, ...] = (0,)
    boldness: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.beta < 1 or not 0 <= self.boldness <= 1:
            raise BadInput(f"beta must be in (0, 1) and boldness in [0, 1], got {self.beta!r} and {self.boldness!r}")

    @cached_property
    def known(self) -> SessionStrategies:
        """What any strategy of whole sessions reaches, exactly."""
        return strategies(self.task.protocol, self.targets)

    @property
    @abstractmethod
    def bold_score(self) -> Fraction:
        """The exact mean score of an accepted report of a client that attacks."""

    @property
    def bold_tokens(self) -> Fraction:
        """How many sessions such a report takes on average."""
        return Fraction(1)

    @property
    def expected_score(self) -> float:
        return float(self.boldness * self.bold_score + (1 - self.boldness) * self._low_score)

    @property
    def expected_tokens(self) -> float:
        return float(self.boldness * self.bold_tokens + (1 - self.boldness))

    @abstractmethod
    def play(self, rng: random.Random) -> tuple[SessionVerdict, bytes, int, int]:
        """An accepted session of a client that attacks: its verdict and number, and how many sessions it left after the
        invitation and after the challenge before."""

    def allowed_by(self, protocol: CheckedProtocol) -> bool:
        """Whether the protocol leaves malicious clients all the freedom that this attack needs."""
        return all(protocol.permits(freedom) for freedom in self.needs)

    def aimed(self, honest: float, aim: float) -> SessionAttack:
        """The same with the boldness that brings the estimate from the honest one to the aim, as far as it can.

        Fine-grained poisoning (Li et al. 2023) through the verifier: (1-β) honest + β score = aim.
        """
        wanted = (aim - (1 - self.beta) * honest) / self.beta
        low, high = float(self._low_score), float(self.bold_score)
        return replace(self, boldness=min(max((wanted - low) / (high - low), 0.0), 1.0))

    @property
    def expected_abort_rate(self) -> float:
        """The share of clients that left, knowing something of their report, in theory."""
        left = self.beta * (self.expected_tokens - 1)
        return left / (1 + left)

    def expected_gain(self, honest: float) -> float:
        """How much the estimate of the targets rises in theory."""
        return self.beta * (self.expected_score - honest)

    def collect(self, values: Sequence[object], rng: random.Random) -> PlayedCollection:
        """A collection of these honest clients and as many malicious ones as make a share β."""
        if not len(values):
            raise BadInput("there are no honest clients; give at least one value")
        protocol = self.task.protocol
        outputs, numbers = [], []
        for value in values:
            numbers.append(new_session(self.task, rng).context.session)
            law = protocol.law(protocol.choose(value, rng), numbers[-1])
            outputs.append([rng.choices(range(len(row)), weights=list(map(float, row)))[0] for row in law])
        malicious = max(1, round(len(values) * self.beta / (1 - self.beta)))
        bad_outputs, bad_numbers, invited, challenged = [], [], 0, 0
        for _ in range(malicious):
            verdict, number, left_invited, left_challenged = (
                self.play(rng) if rng.random() < self.boldness else self._honest(self._low_value, rng)
            )
            bad_outputs.append(list(verdict.outputs))
            bad_numbers.append(number)
            invited, challenged = invited + left_invited, challenged + left_challenged
        each = [self._score(np.array([row]), [number]) for row, number in zip(bad_outputs, bad_numbers, strict=True)]
        everyone = [*outputs, *bad_outputs]
        return PlayedCollection(
            self._score(np.array(outputs), numbers),
            self._score(np.array(everyone), [*numbers, *bad_numbers]),
            float(np.mean(each)),
            float(np.std(each, ddof=1)) / len(each) ** 0.5 if len(each) > 1 else float("nan"),
            (malicious + invited + challenged) / malicious,
            Attendance(len(everyone), 0, challenged, invited, 0, 0),
            tuple(protocol.support(np.array(everyone), [*numbers, *bad_numbers])),
        )

    def _score(self, outputs: Outputs, numbers: Sequence[bytes]) -> float:
        """The estimate of the targets together."""
        support = self.task.protocol.support(outputs, numbers)
        total = sum(support[target] for target in self.targets)
        return float(session_worth(self.task.protocol, self.targets)(Fraction(total, len(numbers))))

    @property
    def _low_value(self) -> object:
        values = self.task.protocol.examples
        if self.task.protocol.numeric:
            return values[0]
        others = [value for place, value in enumerate(values) if place not in self.targets]
        if not others:
            raise BadInput("all items are targets; leave one that clients may claim instead")
        return others[0]

    @property
    def _low_score(self) -> Fraction:
        return Fraction(self.task.low)  # estimates are unbiased; it is 0 for items, and for shares of ranges

    def _honest(self, value: object, rng: random.Random) -> tuple[SessionVerdict, bytes, int, int]:
        session = play_honest(self.task, value, rng)
        assert session.verdict is not None  # noqa: S101  it is decided
        return session.verdict, session.context.session, 0, 0


@dataclass(frozen=True)
class ChosenInput(SessionAttack):
    """Claims the best input, and follows the protocol: what no local protocol can prevent."""

    name: ClassVar[str] = "chosen-input"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT})

    @property
    def bold_score(self) -> Fraction:
        return self.known.best_input

    def play(self, rng: random.Random) -> tuple[SessionVerdict, bytes, int, int]:
        values = self.task.protocol.examples
        return self._honest(values[-1 if self.task.protocol.numeric else self.targets[0]], rng)


@dataclass(frozen=True)
class BestVector(SessionAttack):
    """Commits to the accepted vector of the highest score: all entries that stay closed are of the best value."""

    name: ClassVar[str] = "best-vector"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT})

    @property
    def bold_score(self) -> Fraction:
        return self.known.counted

    def stays_invited(self, rows: Rows) -> bool:
        """Whether the client commits, once the invitation shows it what supports the targets."""
        return True

    def stays_challenged(self, support: int) -> bool:
        """Whether it opens, once the challenge shows it its report."""
        return True

    def play(self, rng: random.Random) -> tuple[SessionVerdict, bytes, int, int]:
        protocol, invited, challenged = self.task.protocol, 0, 0
        for _ in range(MOST_TRIES):
            session = new_session(self.task, rng)
            number = session.context.session
            rows = [
                [sum(protocol.raw(block, v, target, number) for target in self.targets) for v in range(self._values)]
                for block in range(protocol.layout.blocks)
            ]
            if not self.stays_invited(rows):
                invited += 1
                continue
            counts = [corners(protocol.layout)[row.index(max(row))] for row in rows]
            session, opening, report = self._challenged(session, counts, rng)
            if not self.stays_challenged(sum(row[value] for row, value in zip(rows, report, strict=True))):
                challenged += 1
                continue
            verdict = session.opened(opening, 0, self.task.verifier).verdict
            if verdict is None or not verdict.accepted:
                raise AssertionError("the verifier refused a vector that keeps all floors")
            return verdict, number, invited, challenged
        raise BadInput(f"no session suited the client within {MOST_TRIES:,} tries; give fewer targets")

    @property
    def _values(self) -> int:
        return self.task.protocol.layout.values

    def _challenged(
        self, session: Session, counts: Sequence[Counts], rng: random.Random
    ) -> tuple[Session, Opening, list[int]]:
        """The session after the challenge, the opening that the client would send, and its report."""
        layout, kind, context = self.task.protocol.layout, self.task.verifier.scheme, session.context
        vector, secret = layout.draw_vector(counts, rng), rng.randbytes(SECRET_BYTES)
        commit = Commit(context.task, context.session, kind.commit(context, layout, vector, secret))
        session = session.committed(commit, 0, self.task.verifier)
        chosen = selected(context, session.challenge.nonce, commit.commitment, layout)
        closed = truthful(layout, vector, chosen).closed
        values = packed_values(layout, [vector[i] for i in layout.opened(closed)])
        proof = kind.open(context, layout, vector, secret, closed)
        report = [vector[block * layout.length + place] for block, place in enumerate(chosen)]
        return session, Opening(context.task, context.session, tuple(closed), values, proof), report


@dataclass(frozen=True)
class SeedShopping(BestVector):
    """Leaves after the invitation until the hash, or the attribute, that it shows is the best there is."""

    name: ClassVar[str] = "seed-shopping"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT, Freedom.WITHDRAWAL})

    @cached_property
    def _best(self) -> int:
        return max(sum(most_by_block(self.task.protocol.layout, draw)) for draw in self._draws)

    @cached_property
    def _draws(self) -> list[InvitationDraw]:
        return list(session_draws(self.task.protocol, self.targets))

    @property
    def bold_score(self) -> Fraction:
        return self.known.free_after_invitation

    @property
    def bold_tokens(self) -> Fraction:
        layout = self.task.protocol.layout
        good = (draw.probability for draw in self._draws if sum(most_by_block(layout, draw)) == self._best)
        return 1 / sum(good, Fraction(0))

    def stays_invited(self, rows: Rows) -> bool:
        layout = self.task.protocol.layout
        due = (sum(map(int.__mul__, layout.floors, row)) + layout.free * max(row) for row in rows)
        return sum(due) == self._best


@dataclass(frozen=True)
class DropOut(BestVector):
    """Leaves after the challenge unless its report supports the targets as much as any report can."""

    name: ClassVar[str] = "drop-out"
    needs: ClassVar[frozenset[Freedom]] = frozenset({Freedom.INPUT, Freedom.WITHDRAWAL})

    @cached_property
    def _best(self) -> int:
        return max(sum(map(max, draw.supports)) for draw in session_draws(self.task.protocol, self.targets))

    @property
    def bold_score(self) -> Fraction:
        return self.known.free

    @property
    def bold_tokens(self) -> Fraction:
        return self.known.tokens

    def stays_challenged(self, support: int) -> bool:
        return support == self._best


SESSION_ATTACKS: dict[str, type[SessionAttack]] = {
    kind.name: kind for kind in (ChosenInput, BestVector, SeedShopping, DropOut)
}
