"""What every engine returns: a result, with the same words for the same things."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

from veridp.claim import Claim, Interval, Witness
from veridp.mechanism import Mechanism
from veridp.presentation import Presentable


@runtime_checkable
class Result(Protocol):
    """What an engine found out about the privacy cost of a mechanism.

    The comparison of its bounds with a claim is `Claim.covers` and `Claim.refuted_by`, for every engine.
    """

    @property
    def claim(self) -> Claim | None:
        """What the mechanism claims; None where it claims nothing."""

    @property
    def bounds(self) -> Interval:
        """An interval that holds the mechanism's ε, at the claimed δ (0 where nothing is claimed).

        The upper end holds for all neighbours that the engine speaks of, and is inf where none is proved. The lower end
        is what the best witness shows, with the witness's confidence, and 0 where there is none.
        """

    @property
    def witness(self) -> Witness | None:
        """The inputs and the event behind the lower end; None where there are none."""

    @property
    def searched(self) -> tuple[str, ...]:
        """What was tried, in words."""

    @property
    def finished(self) -> bool:
        """False where time, memory or an interrupt cut it short."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data: what `--json` prints, in the words of `veridp schema`."""


class LowerBound(Presentable, ABC):
    """What results share that show a lower bound on the ε of a mechanism, and prove nothing."""

    mechanism: Mechanism

    @abstractmethod
    def _lower(self, delta: float) -> float:
        """What is shown of ε at this δ, beyond all rounding."""

    @property
    def claim(self) -> Claim | None:
        """What the mechanism claims; None where it claims nothing."""
        return self.mechanism.claim

    @property
    def bounds(self) -> Interval:
        """What is shown of ε at the claimed δ, beyond rounding; nothing is proved."""
        delta = 0.0 if self.claim is None else self.claim.tolerated.delta
        return Interval(max(0.0, self._lower(delta)), math.inf)

    def refutes(self, claim: Claim) -> bool:
        """Whether what is shown excludes the claim."""
        return claim.refuted_by(self._lower)

    @property
    def refuted(self) -> bool:
        """Whether the mechanism's own claim is refuted."""
        return self.claim is not None and self.refutes(self.claim)
