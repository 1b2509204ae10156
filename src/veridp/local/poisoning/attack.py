"""What an attack is: users who do not do as the oracle says, the gain they aim at, and the freedoms they need.

A share β of all users is malicious. `collect` plays a collection with and without them, on the same honest reports.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from veridp.errors import BadInput
from veridp.local.counts import Counts


class Freedom(enum.Enum):
    """Something that a malicious user may be able to do; a protocol permits it or prevents it."""

    INPUT = "claims another value than its own"
    ABSENCE = "takes part only if it likes its value"
    WITHDRAWAL = "drops out once it knows its report"
    SEVERAL_INPUTS = "claims several values at once, at honest rates each"
    SEED = "chooses its hash function"
    REPORT = "sends whatever report it likes"


@runtime_checkable
class CheckedProtocol(Protocol):
    """How reports are collected, as far as attacks are concerned: what the server cannot prevent.

    A protocol that verifies its clients implements `permits`; `attack.allowed_by(protocol)` asks it.
    """

    @property
    def name(self) -> str:
        """What the protocol is called."""

    def permits(self, freedom: Freedom) -> bool:
        """Whether a client that does this may be accepted."""


@dataclass(frozen=True)
class Unchecked:
    """The server takes any well-formed report."""

    name: str = "unchecked"

    def permits(self, freedom: Freedom) -> bool:
        return True


CountsOrParts = TypeVar("CountsOrParts", Counts, Mapping[str, Counts])


@dataclass(frozen=True)
class Attacked(Generic[CountsOrParts]):
    """The counts of one collection without and with the attack, and how many users were malicious."""

    before: CountsOrParts
    after: CountsOrParts
    malicious: int

    def __add__(self, other: Attacked[CountsOrParts]) -> Attacked[CountsOrParts]:
        return Attacked(
            added(self.before, other.before), added(self.after, other.after), self.malicious + other.malicious
        )


def added(left: CountsOrParts, right: CountsOrParts) -> CountsOrParts:
    """Counts of two shards together, part by part where there are several."""
    if isinstance(left, Counts) and isinstance(right, Counts):
        return left + right  # type: ignore[return-value]
    return {name: left[name] + right[name] for name in left}


@dataclass(frozen=True)
class Attack(ABC, Generic[CountsOrParts]):
    """Malicious users, a share `beta` of all."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Freedom]]
    beta: float

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise BadInput(f"beta must be in [0, 1), got {self.beta!r}")

    @abstractmethod
    def collect(self, values: ArrayLike, rng: Generator) -> Attacked[CountsOrParts]:
        """The counts of a collection of these users' values, without and with the attack."""

    @property
    def freedoms(self) -> frozenset[Freedom]:
        """What a malicious user has to be able to do."""
        return self.needs

    def allowed_by(self, protocol: CheckedProtocol) -> bool:
        """Whether the protocol leaves malicious users all the freedom that this attack needs."""
        return all(protocol.permits(freedom) for freedom in self.freedoms)


def share_of(count: int, share: float, rng: Generator) -> int:
    """A whole number near count · share, rounded at random: right on average however small the count."""
    exact = count * share
    return int(exact) + int(rng.random() < exact - int(exact))


def corrupted(count: int, beta: float, rng: Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of so many users are malicious: a share beta of them, drawn at random."""
    chosen = np.zeros(count, dtype=bool)
    chosen[rng.choice(count, size=share_of(count, beta, rng), replace=False)] = True
    return chosen
