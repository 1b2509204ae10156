"""The threshold attack: a set of outputs, those whose score is above a level, that tells two inputs apart."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.sniper.classifier import Model, ModelFamily
from veridp.engines.sniper.features import Columns
from veridp.errors import BadInput
from veridp.sampling.encode import encode
from veridp.sampling.events import OutputEvent
from veridp.sampling.outputs import Outputs

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
ROWS = 2**16  # scored at once


@dataclass(frozen=True, eq=False)
class Scorer:
    """How much an output speaks for the left input, by a classifier; with sign -1, for the right one."""

    columns: Columns
    model: Model
    sign: int = 1
    _last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def family(self) -> ModelFamily:
        return self.model.family

    def turned(self) -> Scorer:
        """The same classifier, asked for the other side."""
        return replace(self, sign=-self.sign, _last={})

    def __call__(self, outputs: Outputs) -> Floats:
        """The scores, a slice at a time: memory is needed for one slice's columns alone.

        Those of the last outputs are kept, since several events may ask for the same.
        """
        known = self._last.get("outputs")
        if known is not None and known() is outputs:
            return np.asarray(self._last["scores"])
        scores = np.empty(len(outputs))
        for start in range(0, len(outputs), ROWS):
            scores[start : start + ROWS] = self._scores(outputs[start : start + ROWS])
        self._last.update(outputs=weakref.ref(outputs), scores=scores)
        return scores

    def _scores(self, outputs: Outputs) -> Floats:
        """The scores; equal outputs are scored once."""
        few, places = outputs.grouped(len(outputs) // 4) or (outputs, slice(None))
        return np.asarray(self.sign * self.model.scores(self.columns.matrix(few)))[places]

    def __getstate__(self) -> dict[str, Any]:
        return {"columns": self.columns, "model": self.model, "sign": self.sign, "_last": {}}


@dataclass(frozen=True, eq=False)
class ThresholdAttack(OutputEvent):
    """S(t, q): the outputs whose score is above `level`, and those at it with probability `tie` (paper, equation 9).

    Called on Outputs, it tells which belong to it; `holds` tells the same of one output. With `tie` strictly between 0
    and 1 membership needs coins: give a generator.
    """

    scorer: Scorer
    level: float
    tie: float = 1.0
    text: str = ""  # the set as a sentence

    @property
    def above(self) -> _Above:
        return _Above(self.scorer, self.level, False)

    @property
    def reached(self) -> _Above:
        """The scores above the level and at it."""
        return _Above(self.scorer, self.level, True)

    def __call__(self, outputs: Outputs, rng: np.random.Generator | None = None) -> Truths:
        if self.tie in (0.0, 1.0):
            return (self.reached if self.tie else self.above)(outputs)
        if rng is None:
            raise BadInput(f"ties belong to this event with probability {self.tie:.6g}; give a generator to break them")
        scores = self.scorer(outputs)
        tied = (scores == self.level) & (rng.random(len(scores)) < self.tie)
        return np.asarray((scores > self.level) | tied)

    def holds(self, output: Any, rng: np.random.Generator | None = None) -> bool:
        """Whether an output, as the mechanism returns it, belongs to the event."""
        return bool(self(encode([output]), rng)[0])

    def __str__(self) -> str:
        return self.text or f"the score by {self.scorer.family} is at least {self.level:.6g}"


@dataclass(frozen=True, eq=False)
class _Above:
    """The outputs whose score is above a level, or at it too."""

    scorer: Scorer
    level: float
    inclusive: bool

    def __call__(self, outputs: Outputs) -> Truths:
        scores = self.scorer(outputs)
        return scores >= self.level if self.inclusive else scores > self.level
