"""Events: conditions on features of an output. They print as a sentence and can be evaluated on any output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.engines.statdp.features import Feature, Sheet
from veridp.sampling.events import OutputEvent
from veridp.sampling.outputs import Outputs


@dataclass(frozen=True)
class FeatureCondition:
    """A feature lies above `low` and is at most `high`."""

    feature: Feature
    low: float
    high: float

    def where(self, sheet: Sheet) -> NDArray[np.bool_]:
        """Which outputs satisfy it; those without the feature do not."""
        column = self.feature.column(sheet)
        return np.asarray((column > self.low) & (column <= self.high))

    def __str__(self) -> str:
        return self.feature.sentence(self.low, self.high)


@dataclass(frozen=True)
class FeatureEvent(OutputEvent):
    """All of its conditions hold."""

    conditions: tuple[FeatureCondition, ...]

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""
        sheet = Sheet(outputs)
        happened = np.ones(len(outputs), dtype=np.bool_)
        for condition in self.conditions:
            happened &= condition.where(sheet)
        return happened

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))
