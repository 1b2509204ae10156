"""What a search may spend: time. And how it tells how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from veridp.errors import BadInput

Progress = Callable[[str, float, float], object]  # what is being done, the share done (0 to 1), the best ε so far


@dataclass(frozen=True)
class Deadline:
    """A moment before which a search has to end; it counts from when it is made.

    >>> Deadline(60.0).passed
    False
    """

    seconds: float = math.inf
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise BadInput(f"seconds = {self.seconds!r} leaves no time; give a number > 0")

    @property
    def spent(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """The seconds that are left; never negative."""
        return max(0.0, self.seconds - self.spent)

    @property
    def passed(self) -> bool:
        return self.left == 0.0

    def part(self, share: float) -> Deadline:
        """A deadline from now on that leaves all but this share of the time that is left."""
        return Deadline(max(self.left * share, 1e-9))
