"""Harmless opening, as all protocols share it: what is committed to, whole-number rates, honest vectors, and how
reports become estimates."""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput

# -------------------------------------------------------------------------------------------------------------- layout
# What is committed to: blocks of small numbers, of which a fixed count of each is opened.
#
# Every protocol of harmless opening has this one form. A client commits to `blocks` vectors of `length` entries, each a
# number below `values`. In each block one entry is selected; the client opens `floors[v]` entries of every value v, the
# selected one among them, and the verifier accepts exactly that. What stays closed is free: an accepted vector is any
# that has at least `floors[v]` entries of each value.


LARGEST = 1 << 20  # entries of a vector
MOST_VALUES = 1 << 16

Counts = tuple[int, ...]  # of each value, how many entries


@dataclass(frozen=True)
class Layout:
    """The form of a vector: how many blocks, how long each, and how many entries of each value are opened."""

    blocks: int
    length: int
    floors: Counts

    def __post_init__(self) -> None:
        if self.blocks < 1 or len(self.floors) < 2 or min(self.floors) < 1 or sum(self.floors) > self.length:
            raise BadInput(f"{self} cannot be opened harmlessly; every value needs a copy that can be opened")
        if self.size > LARGEST or self.values > MOST_VALUES:
            raise BadInput(
                f"{self.size} entries of {self.values} values are more than a client can commit to; "
                "use a coarser domain, a smaller epsilon, or the mechanism volh"
            )

    @property
    def values(self) -> int:
        return len(self.floors)

    @property
    def size(self) -> int:
        return self.blocks * self.length

    @cached_property
    def free(self) -> int:
        """The entries of a block that stay closed."""
        return self.length - sum(self.floors)

    @property
    def closed(self) -> int:
        """The entries of the vector that stay closed."""
        return self.blocks * self.free

    @property
    def width(self) -> int:
        """The bytes of a value in a message."""
        return 1 if self.values <= 256 else 2

    def opened(self, closed: Sequence[int]) -> list[int]:
        """The entries of the vector that are not among the closed ones, in order."""
        kept = set(closed)
        return [i for i in range(self.size) if i not in kept]

    def draw_vector(self, counts: Sequence[Counts], rng: random.Random) -> list[int]:
        """A vector with these counts in its blocks, each block in an order that is uniform if rng is."""
        vector: list[int] = []
        for block in counts:
            entries = [value for value, count in enumerate(block) for _ in range(count)]
            rng.shuffle(entries)
            vector += entries
        return vector

    def draw_closed(self, vector: Sequence[int], selected: Sequence[int], rng: random.Random) -> list[int]:
        """The entries to keep closed, in order: a uniform choice among those that leave the floors open.

        `selected` has an index within each block.
        """
        closed: list[int] = []
        for block, chosen in enumerate(selected):
            start = block * self.length
            places: list[list[int]] = [[] for _ in self.floors]
            for i in range(start, start + self.length):
                if i != start + chosen:
                    places[vector[i]].append(i)
            for value, floor in enumerate(self.floors):
                spare = len(places[value]) - floor + (vector[start + chosen] == value)
                if spare:
                    closed += rng.sample(places[value], spare)
        return sorted(closed)

    def openings(self, block: Sequence[int], selected: int) -> Iterator[tuple[int, ...]]:
        """Every set of indices of one block that an honest client may open; it picks each with the same probability."""
        choices = []
        for value, floor in enumerate(self.floors):
            places = [i for i, entry in enumerate(block) if entry == value and i != selected]
            choices.append(itertools.combinations(places, floor - (block[selected] == value)))
        for parts in itertools.product(*choices):
            yield tuple(sorted((selected, *itertools.chain(*parts))))


# --------------------------------------------------------------------------------------------------------------- rates
# Whole numbers of copies whose ratio is the privacy that was asked for, never less private.


MOST_COPIES = 10_000
CLOSENESS = 0.95


@dataclass(frozen=True)
class Rates:
    """A value that is held has `held` copies where every other has `other`: ε = ln(held / other).

    >>> Rates(2, 1).epsilon == math.log(2)
    True
    """

    held: int
    other: int

    def __post_init__(self) -> None:
        if not 0 < self.other < self.held:
            raise BadInput(f"{self.held} copies of the value held and {self.other} of others; need 0 < other < held")

    @property
    def ratio(self) -> Fraction:
        """e^ε, exactly."""
        return Fraction(self.held, self.other)

    @property
    def epsilon(self) -> float:
        """ln(held / other), correctly rounded."""
        return log_ratio(self.held, self.other)


def rates(epsilon: float, closeness: float = CLOSENESS, parts: int = 1) -> Rates:
    """The fewest copies with closeness · ε <= parts · ln(held / other) <= ε: a report of so many parts costs ε at most.

    The second inequality is between the correctly rounded logarithm and the double given, so that `math.log(2)` is
    served by two copies to one: what is given never stands for less than the real number it was rounded from.

    >>> rates(math.log(3)), rates(1.0), rates(0.1)
    (Rates(held=3, other=1), Rates(held=8, other=3), Rates(held=11, other=10))
    """
    if not 0 < epsilon < 20:
        raise BadInput(f"epsilon must be in (0, 20), got {epsilon!r}")
    if not 0 < closeness < 1:
        raise BadInput(f"closeness must be in (0, 1), got {closeness!r}")
    fewest = math.floor(min(1 / math.expm1(epsilon / parts), MOST_COPIES))  # with fewer, one copy more is too many
    for other in range(max(fewest, 1), MOST_COPIES):
        held = math.floor(other * math.exp(epsilon / parts)) + 1
        if parts * math.log(held / other) < closeness * epsilon - 1e-9:  # far off; no need of many digits
            continue
        while log_ratio(held**parts, other**parts) > epsilon:
            held -= 1
        if held > other and log_ratio(held**parts, other**parts) >= closeness * epsilon:
            return Rates(held, other)
    raise BadInput(
        f"epsilon = {epsilon!r} needs more than {MOST_COPIES} copies of a value at closeness {closeness}; "
        "ask for a larger epsilon or a lower closeness"
    )


@lru_cache(maxsize=4096)  # by far the most of what reading a task takes
def log_ratio(numerator: int, denominator: int) -> float:
    """ln(numerator / denominator), correctly rounded to a double."""
    with localcontext() as context:
        context.prec = 50
        return float(Decimal(numerator).ln() - Decimal(denominator).ln())


# ------------------------------------------------------------------------------------------------------------ harmless
# What all protocols of harmless opening share: a layout, honest vectors, and how reports become estimates.


Outputs = NDArray[np.int64]  # a row for each report, a column for each block


@dataclass(frozen=True)
class InvitationDraw:
    """What an invitation may show a client that bears on its score, with its probability.

    `supports` has, for each block, by how much each value supports the targets together; `honest` gives the counts of
    an honest vector for each of so many `inputs`, in the same order in every draw of a protocol.
    """

    probability: Fraction
    supports: tuple[tuple[int, ...], ...]
    inputs: int
    honest: Callable[[int], tuple[Counts, ...]]


@dataclass(frozen=True)
class ScaledMean:
    """What a mean of supports stands for: shift + scale · mean."""

    shift: Fraction
    scale: Fraction

    def __call__(self, mean: Fraction) -> Fraction:
        return self.shift + self.scale * mean


@dataclass(frozen=True)
class Harmless(ABC):
    """A mechanism of local differential privacy whose perturbation a client can prove without revealing its value.

    An honest client takes one of `inputs` inputs, draws a vector with that input's `counts`, and reports the entries
    that are selected: one number for each block. A report supports each of the `columns` that are estimated by a
    whole number from 0 to `top`; `scaled` makes an unbiased estimate of the mean support.
    """

    name: ClassVar[str]
    top: ClassVar[int] = 1
    hashed: ClassVar[bool] = False  # the invitation shows a hash on which the score depends, so leaving then counts
    shown: ClassVar[str] = "report"  # what a client knows first that bears on its score
    numeric: ClassVar[bool] = False  # whether means of numbers are estimated

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

    @property
    @abstractmethod
    def examples(self) -> tuple[object, ...]:
        """Values of clients: all items, or the ends of what numbers may be."""

    @property
    def largest_variance(self) -> Fraction | None:
        """Of the support that an honest report gives a column; None if it has to be searched for over all inputs."""
        return None

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
        """What turns the mean support of a column into its unbiased estimate, on the scale of scores."""

    def scaled_column(self, column: int) -> ScaledMean:
        """The same in the units of a column."""
        return self.scaled

    def draws(self, targets: Sequence[int]) -> Iterator[InvitationDraw]:
        """All that an invitation may show, for a score of these targets; a single draw if the score ignores it."""
        supports = tuple(
            tuple(sum(self.raw(block, value, target, b"") for target in targets) for value in range(self.layout.values))
            for block in range(self.layout.blocks)
        )
        yield InvitationDraw(Fraction(1), supports, self.inputs, lambda chosen: self.counts(chosen, b""))

    def law(self, chosen: int, session: bytes) -> list[list[Fraction]]:
        """The exact probabilities of the outputs of each block, for an honest input."""
        length = self.layout.length
        return [[Fraction(count, length) for count in block] for block in self.counts(chosen, session)]


@dataclass(frozen=True)
class BlockForEachColumn(Harmless):
    """A protocol with a block for each column, whose output is what supports it."""

    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        return value if block == column else 0

    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        found: list[int] = outputs.sum(axis=0).tolist()
        return found
