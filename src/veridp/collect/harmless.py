"""What all protocols of harmless opening share: a layout, honest vectors, and how reports become estimates."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veridp.collect.layout import Counts, Layout
from veridp.collect.rates import Rates

Outputs = NDArray[np.int64]  # a row for each report, a column for each block


@dataclass(frozen=True)
class ScaledMean:
    """What a mean of supports stands for: shift + scale · mean."""

    shift: Fraction
    scale: Fraction

    def __call__(self, mean: Fraction) -> Fraction:
        return self.shift + self.scale * mean


@dataclass(frozen=True)
class Harmless(ABC):
    """A mechanism of local differential privacy whose perturbation a client can prove without telling its value.

    An honest client takes one of `inputs` inputs, draws a vector with that input's `counts`, and reports the entries
    that are selected: one number for each block. A report supports each of the `columns` that are estimated by a
    whole number from 0 to `top`; `scaled` makes an unbiased estimate of the mean support.
    """

    name: ClassVar[str]
    top: ClassVar[int] = 1

    rates: Rates

    @property
    def epsilon(self) -> float:
        """The ε that a report costs: ln(held / other), correctly rounded."""
        return self.rates.epsilon

    @property
    @abstractmethod
    def layout(self) -> Layout: ...

    @property
    @abstractmethod
    def inputs(self) -> int: ...

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of what is estimated."""

    @property
    def highest(self) -> int:
        """The most that a report can support a column by."""
        return self.top

    @abstractmethod
    def choose(self, value: object, rng: random.Random) -> int:
        """The number of the honest input for a client's value, rounded at random so that its mean is the value."""

    @abstractmethod
    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        """The counts in each block of an honest vector for this input."""

    @abstractmethod
    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        """By how much a block's output supports a column; a report's support is the sum over its blocks."""

    @abstractmethod
    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        """The sum of the support of all reports, for each column."""

    @property
    @abstractmethod
    def scaled(self) -> ScaledMean:
        """What turns the mean support of a column into its unbiased estimate."""

    def law(self, chosen: int, session: bytes) -> list[list[Fraction]]:
        """The exact probabilities of the outputs of each block, for an honest input."""
        length = self.layout.length
        return [[Fraction(count, length) for count in block] for block in self.counts(chosen, session)]
