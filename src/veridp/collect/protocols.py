"""The protocols: VGRR, VOUE and VOLH for the frequencies of items; GRR-HO, SR-HO and PM-HO for the mean of numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from veridp.collect.harmless import BlockForEachColumn, Counts, Harmless, InvitationDraw, Layout, Outputs, ScaledMean
from veridp.collect.messages import digest
from veridp.errors import BadInput

# ----------------------------------------------------------------------------------------------------------- frequency
# Protocols that estimate how frequent each item is: VGRR, VOUE and VOLH.


AT_ONCE = 1 << 21  # hashes that are computed together
PRIME = 2**31 - 1  # of the hash family; products of two numbers below it fit 64 bits
MOST_HASHED_TARGETS = 8  # whose hashes are enumerated: 21,147 ways to collide


@dataclass(frozen=True)
class OfItems(Harmless):
    """Estimates the share of clients that hold each item."""

    items: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if len(self.items) < 2 or len(set(self.items)) != len(self.items):
            raise BadInput(
                f"items must be at least two different values without repetition, got {len(self.items)} items"
            )

    @property
    def inputs(self) -> int:
        return len(self.items)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.items

    @property
    def examples(self) -> tuple[object, ...]:
        return self.items

    def choose(self, value: object, rng: random.Random) -> int:
        if str(value) not in self._places:
            some = ", ".join(self.items[:8]) + (", …" if self.inputs > 8 else "")
            raise BadInput(f"{value!r} is not an item of the domain; it has {some}")
        return self._places[str(value)]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {item: place for place, item in enumerate(self.items)}


@dataclass(frozen=True)
class VGRR(OfItems):
    """Generalised randomised response: one block, `held` copies of the item held and `other` of each other."""

    name: ClassVar[str] = "vgrr"

    @cached_property
    def layout(self) -> Layout:
        held, other, d = self.rates.held, self.rates.other, self.inputs
        return Layout(1, held + (d - 1) * other, (other,) * d)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        return (one_raised(self.inputs, chosen, self.rates.held, self.rates.other),)

    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        return int(value == column)

    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        found: list[int] = np.bincount(outputs[:, 0], minlength=self.inputs).tolist()
        return found

    @cached_property
    def scaled(self) -> ScaledMean:
        length = self.layout.length
        return between(Fraction(self.rates.other, length), Fraction(self.rates.held, length))


@dataclass(frozen=True)
class VOUE(BlockForEachColumn, OfItems):
    """Optimised unary encoding: a block for each item, whose bit is kept with 1/2 where it is 1, and else 1/(e^ε+1).

    That at most one bit of a client is 1 is not proved.
    """

    name: ClassVar[str] = "voue"

    @cached_property
    def layout(self) -> Layout:
        both = self.rates.held + self.rates.other
        times = 1 if both % 2 == 0 else 2
        return Layout(self.inputs, times * both, (times * both // 2, times * self.rates.other))

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        zeros, ones = self.layout.floors
        unset, set_ = (self.layout.length - ones, ones), (zeros, self.layout.length - zeros)
        return tuple(set_ if block == chosen else unset for block in range(self.inputs))

    @cached_property
    def scaled(self) -> ScaledMean:
        return between(Fraction(self.layout.floors[1], self.layout.length), Fraction(1, 2))


@dataclass(frozen=True)
class VOLH(OfItems):
    """Optimised local hashing: VGRR over the few buckets of a hash that the server chooses with the session.

    Its length does not depend on the number of items. The invitation shows the hash, so a client may leave if the hash
    does not suit it, or choose its item by the hash: who leaves after the invitation counts as an abort.
    """

    name: ClassVar[str] = "volh"
    hashed: ClassVar[bool] = True
    shown: ClassVar[str] = "hash"

    @cached_property
    def buckets(self) -> int:
        return round(self.rates.ratio) + 1

    @cached_property
    def layout(self) -> Layout:
        return Layout(1, self.rates.held + (self.buckets - 1) * self.rates.other, (self.rates.other,) * self.buckets)

    def bucket(self, item: int, session: bytes) -> int:
        """The bucket of an item, by the session's hash.

        One of a pairwise independent family (Carter and Wegman 1979), on the inverses of the items modulo its prime:
        on the items themselves, whole runs of neighbours would fall into one bucket together.
        """
        factor, offset = _coefficients(session)
        return (factor * pow(item + 1, -1, PRIME) + offset) % PRIME % self.buckets

    @cached_property
    def _inverses(self) -> NDArray[np.uint64]:
        return np.array([pow(item + 1, -1, PRIME) for item in range(self.inputs)], dtype=np.uint64)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        return (one_raised(self.buckets, self.bucket(chosen, session), self.rates.held, self.rates.other),)

    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        return int(value == self.bucket(column, session))

    def draws(self, targets: Sequence[int]) -> Iterator[InvitationDraw]:
        """Every way in which the targets and one other item fall into buckets, if each bucket is as likely as any.

        That is what an ideal hash does; the family used is exactly so for each pair of items.
        """
        if len(targets) > MOST_HASHED_TARGETS:
            raise BadInput(f"{len(targets)} targets are too many to enumerate; give at most {MOST_HASHED_TARGETS}")
        named = len(targets) + (self.inputs > len(targets))
        for pattern in collisions(named, self.buckets):
            ways = math.perm(self.buckets, max(pattern) + 1)
            row = tuple(pattern[: len(targets)].count(value) for value in range(self.buckets))

            def honest(chosen: int, pattern: tuple[int, ...] = pattern) -> tuple[Counts, ...]:
                return (one_raised(self.buckets, pattern[chosen], self.rates.held, self.rates.other),)

            yield InvitationDraw(Fraction(ways, self.buckets**named), (row,), named, honest)

    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        total: NDArray[np.int64] = np.zeros(self.inputs, dtype=np.int64)
        step = max(1, AT_ONCE // self.inputs)
        for start in range(0, len(sessions), step):
            drawn = np.array([_coefficients(session) for session in sessions[start : start + step]], dtype=np.uint64)
            hashed = (drawn[:, :1] * self._inverses + drawn[:, 1:]) % np.uint64(PRIME) % np.uint64(self.buckets)
            total += (hashed == outputs[start : start + step].astype(np.uint64)).sum(axis=0)
        found: list[int] = total.tolist()
        return found

    @cached_property
    def scaled(self) -> ScaledMean:
        return between(Fraction(1, self.buckets), Fraction(self.rates.held, self.layout.length))


def one_raised(size: int, place: int, held: int, other: int) -> Counts:
    """`other` everywhere, but `held` at the place."""
    return (other,) * place + (held,) + (other,) * (size - place - 1)


def between(low: Fraction, high: Fraction) -> ScaledMean:
    """What maps `low`, the mean support of an item that nobody holds, to 0, and `high` to 1."""
    return ScaledMean(-low / (high - low), 1 / (high - low))


def collisions(number: int, buckets: int) -> Iterator[tuple[int, ...]]:
    """Every way in which so many items may share buckets, which are numbered in the order of their first item.

    >>> list(collisions(2, 3))
    [(0, 0), (0, 1)]
    """
    if number == 0:
        yield ()
        return
    for head in collisions(number - 1, buckets):
        for last in range(min(max(head, default=-1) + 2, buckets)):
            yield (*head, last)


@lru_cache(maxsize=4096)
def _coefficients(session: bytes) -> tuple[int, int]:
    drawn = digest(b"veridp hash", session)
    return 1 + int.from_bytes(drawn[:16], "big") % (PRIME - 1), int.from_bytes(drawn[16:], "big") % PRIME


# ------------------------------------------------------------------------------------------------------------- numeric
# Protocols that estimate the mean of numbers in a range: GRR-HO, SR-HO and PM-HO, all exactly unbiased.


@dataclass(frozen=True)
class OfNumbers(Harmless):
    """Estimates the mean of numbers from `low` to `high`.

    A number is rounded at random to one of the two nearest of `inputs` evenly spaced ones, so that it is right on
    average.
    """

    numeric: ClassVar[bool] = True
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadInput(f"low must be below high, both finite, got {self.low} and {self.high}")

    @property
    def columns(self) -> tuple[str, ...]:
        return ("mean",)

    @property
    def examples(self) -> tuple[object, ...]:
        return self.low, self.high

    def choose(self, value: object, rng: random.Random) -> int:
        if isinstance(value, str | SupportsFloat):
            try:
                number = float(value)
            except ValueError:
                number = math.nan
        else:
            number = math.nan
        if not self.low <= number <= self.high:
            raise BadInput(f"{value!r} is not a number from {self.low:g} to {self.high:g}")
        place = (number - self.low) / (self.high - self.low) * (self.inputs - 1)
        return min(math.floor(place) + (rng.random() < place - math.floor(place)), self.inputs - 1)

    def number(self, chosen: int) -> Fraction:
        """The number that an input stands for."""
        return self._from_unit(Fraction(chosen, self.inputs - 1))

    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        return value

    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        return [int(outputs.sum())]

    @property
    def highest(self) -> int:
        return self.layout.values - 1

    @cached_property
    def scaled(self) -> ScaledMean:
        lowest, span = self._mean_supports
        width = Fraction(self.high) - Fraction(self.low)
        return ScaledMean(Fraction(self.low) - width * lowest / span, width / span)

    @property
    def _mean_supports(self) -> tuple[Fraction, Fraction]:
        """The mean support of the lowest input, and by how much that of the highest exceeds it.

        The mean support is affine in the input, which makes the estimate unbiased for each of them.
        """
        means = [
            sum((value * share for value, share in enumerate(self.law(chosen, b"")[0])), Fraction(0))
            for chosen in (0, self.inputs - 1)
        ]
        return means[0], means[1] - means[0]

    def _from_unit(self, share: Fraction) -> Fraction:
        return Fraction(self.low) + (Fraction(self.high) - Fraction(self.low)) * share


@dataclass(frozen=True)
class GRRHO(OfNumbers):
    """VGRR over `points` evenly spaced numbers; its error grows with their number."""

    name: ClassVar[str] = "grr-ho"
    points: int = 16

    @property
    def inputs(self) -> int:
        return self.points

    @cached_property
    def layout(self) -> Layout:
        held, other = self.rates.held, self.rates.other
        return Layout(1, held + (self.points - 1) * other, (other,) * self.points)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        return (one_raised(self.points, chosen, self.rates.held, self.rates.other),)


@dataclass(frozen=True)
class SRHO(OfNumbers):
    """Stochastic rounding to the two ends, with a fixed number opened of each.

    With `times` copies of the shortest vector, the (held - other) · times + 1 numbers of ones between the floors
    stand for as many evenly spaced inputs, and every vector that is accepted is one of theirs. With times = 1 the
    client rounds to an end first: 3 entries at ε = ln 2.
    """

    name: ClassVar[str] = "sr-ho"
    times: int = 1

    @property
    def inputs(self) -> int:
        return (self.rates.held - self.rates.other) * self.times + 1

    @cached_property
    def layout(self) -> Layout:
        if self.times < 1:
            raise BadInput(f"times must be >= 1, got {self.times}")
        other = self.rates.other * self.times
        return Layout(1, (self.rates.held + self.rates.other) * self.times, (other, other))

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        ones = self.layout.floors[1] + chosen
        return ((self.layout.length - ones, ones),)


@dataclass(frozen=True)
class PMHO(OfNumbers):
    """The piecewise mechanism on `bins` bins: a window of them around the number has `held` copies each.

    The place of the window says the number. Not robust: the copies that stay closed may all be of the last bin.
    """

    name: ClassVar[str] = "pm-ho"
    bins: int = 16

    @cached_property
    def window(self) -> int:
        """The bins of the window: the share 1/(e^(ε/2) + 1) of all, as in the piecewise mechanism."""
        return max(1, round(self.bins / (math.exp(self.epsilon / 2) + 1)))

    @property
    def inputs(self) -> int:
        return self.bins - self.window + 1

    @cached_property
    def layout(self) -> Layout:
        if self.bins < 2:
            raise BadInput(f"{self.bins} bins are too few for a window; give 2 or more")
        held, other, w = self.rates.held, self.rates.other, self.window
        return Layout(1, w * held + (self.bins - w) * other, (other,) * self.bins)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        held, other, w = self.rates.held, self.rates.other, self.window
        return ((other,) * chosen + (held,) * w + (other,) * (self.bins - w - chosen),)

    @property
    def spacing(self) -> Fraction:
        """How far apart, on the scale where the range is [-1, 1], the reports of neighbouring bins are."""
        free = (self.rates.held - self.rates.other) * self.window
        return Fraction(2 * self.layout.length, free * (self.bins - self.window))
