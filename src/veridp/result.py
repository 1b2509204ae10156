"""What every engine returns: a result, with the same words for the same things."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from veridp.claim import Claim, Interval, Witness


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
