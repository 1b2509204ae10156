"""Several numbers of a client: SR-SPL reports on all with a share of ε each, SR-SMP on one that is drawn with all of ε.

Both are stochastic rounding with harmless opening, so every accepted vector is an honest one and both are robust. Let p
be e^ε/(e^ε + 1) and q = 1 - p, and x a number on the scale where its range is [-1, 1]. A report of x adds a variance to
the estimate: 1/(p-q)² - x² with p and q of ε/k (SR-SPL), k/(p-q)² - x² with those of ε (SR-SMP; so samples Wang et al.
2019). For small ε the second is k times smaller, for large ε the first is.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from veridp.collect.harmless import (
    BlockForEachColumn,
    Counts,
    Harmless,
    InvitationDraw,
    Layout,
    Outputs,
    ScaledMean,
    log_ratio,
)
from veridp.collect.messages import digest
from veridp.collect.protocols import between
from veridp.errors import BadInput

MOST_ATTRIBUTES = 32
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"  # without a dot at its end: two dots always mean a range
ATTRIBUTE = re.compile(rf"([^=,]+)=({NUMBER})\.\.({NUMBER})", re.ASCII)


@dataclass(frozen=True)
class NumericAttribute:
    """A number that every client has, between two ends."""

    name: str
    low: float
    high: float

    @classmethod
    def parsed(cls, text: str) -> NumericAttribute:
        """The attribute that a text names with its range.

        >>> NumericAttribute.parsed("age=17..90")
        NumericAttribute(name='age', low=17.0, high=90.0)
        """
        found = ATTRIBUTE.fullmatch(text)
        if found is None or not found[1].strip():
            raise BadInput(f"{text!r} is not an attribute with its range; write for instance age=17..90")
        name, *ends = found[1], float(found[2]), float(found[3])
        if not (all(map(math.isfinite, ends)) and ends[0] < ends[1]):
            raise BadInput(f"the range of {text!r} must go from a lower to a higher finite number")
        return cls(name.strip(), *ends)

    def share(self, value: object) -> float:
        """Where in the range a value is, from 0 to 1."""
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not self.low <= number <= self.high:
            raise BadInput(f"{self.name} = {value!r} is not a number from {self.low:g} to {self.high:g}")
        return (number - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class OfAttributes(Harmless):
    """Estimates the mean of each of k attributes; `attributes` names them with their ranges.

    An input has a bit for each attribute: the end of its range that it was rounded to, at random so that it is right on
    average. Scores are in shares of ranges: 0 stands for the lower end of each, 1 for the upper one.
    """

    numeric: ClassVar[bool] = True
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.attributes) <= MOST_ATTRIBUTES or len(set(self.columns)) != len(self.attributes):
            raise BadInput(
                f"give 1 to {MOST_ATTRIBUTES} attributes of different names, got {', '.join(self.attributes) or 'none'}"
            )

    @cached_property
    def ranges(self) -> tuple[NumericAttribute, ...]:
        return tuple(map(NumericAttribute.parsed, self.attributes))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.ranges)

    @property
    def inputs(self) -> int:
        return 1 << len(self.attributes)

    @property
    def examples(self) -> tuple[object, ...]:
        return tuple({a.name: end for a, end in zip(self.ranges, ends, strict=True)} for ends in self._ends)

    @property
    def _ends(self) -> tuple[tuple[float, ...], ...]:
        return tuple(a.low for a in self.ranges), tuple(a.high for a in self.ranges)

    def choose(self, value: object, rng: random.Random) -> int:
        numbers = self._numbers(value)
        shares = [attribute.share(number) for attribute, number in zip(self.ranges, numbers, strict=True)]
        return sum((rng.random() < share) << place for place, share in enumerate(shares))

    def _numbers(self, value: object) -> list[object]:
        """The value of each attribute: by name, in order, or as a text such as age=39,hours=40."""
        if isinstance(value, str):
            parts = [part.partition("=") for part in value.split(",")]
            value = (
                {name.strip(): number for name, _, number in parts} if "=" in value else [name for name, *_ in parts]
            )
        if isinstance(value, Mapping) and set(value) == set(self.columns):
            return [value[name] for name in self.columns]
        if isinstance(value, Sequence) and len(value) == len(self.columns):
            return list(value)
        wanted = ",".join(f"{attribute.name}={attribute.low:g}" for attribute in self.ranges)
        raise BadInput(f"{value!r} does not have a number for each attribute; write for instance {wanted}")

    @property
    def blocks(self) -> int:
        """How many attributes a report is about."""
        raise NotImplementedError

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.blocks, self.rates.held + self.rates.other, (self.rates.other,) * 2)

    def rounded(self, bit: int) -> Counts:
        """The counts of an honest block of a number that was rounded to the lower or the upper end."""
        held, other = self.rates.held, self.rates.other
        return (other, held) if bit else (held, other)

    @property
    def both_rates(self) -> tuple[Fraction, Fraction]:
        """q and p."""
        both = self.rates.held + self.rates.other
        return Fraction(self.rates.other, both), Fraction(self.rates.held, both)

    def scaled_column(self, column: int) -> ScaledMean:
        low, high = (Fraction(end) for end in (self.ranges[column].low, self.ranges[column].high))
        return ScaledMean(low + (high - low) * self.scaled.shift, (high - low) * self.scaled.scale)

    def report_variance(self, column: int, value: float) -> float:
        """The variance that one honest report of this value adds to the estimate of a column, in its own units."""
        raise NotImplementedError

    def _half(self, column: int) -> float:
        return (self.ranges[column].high - self.ranges[column].low) / 2

    def _centred(self, column: int, value: float) -> float:
        return 2 * self.ranges[column].share(value) - 1


@dataclass(frozen=True)
class SRSPL(BlockForEachColumn, OfAttributes):
    """A block for each attribute, with rates of ε/k: a report has an end for each."""

    name: ClassVar[str] = "sr-spl"

    @property
    def blocks(self) -> int:
        return len(self.attributes)

    @property
    def epsilon(self) -> float:
        """k ln(held / other), correctly rounded."""
        return log_ratio(self.rates.held**self.blocks, self.rates.other**self.blocks)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        return tuple(self.rounded(chosen >> block & 1) for block in range(self.blocks))

    @cached_property
    def scaled(self) -> ScaledMean:
        return between(*self.both_rates)

    def draws(self, targets: Sequence[int]) -> Iterator[InvitationDraw]:
        """Of all inputs the two with every attribute at one end: one of them is best, whatever the targets are."""
        for draw in super().draws(targets):
            yield InvitationDraw(draw.probability, draw.supports, 2, lambda high: (self.rounded(high),) * self.blocks)

    def report_variance(self, column: int, value: float) -> float:
        low, high = self.both_rates
        return self._half(column) ** 2 * (1 / float(high - low) ** 2 - self._centred(column, value) ** 2)


@dataclass(frozen=True)
class SRSMP(OfAttributes):
    """One block, for the attribute that the session's number draws.

    The invitation shows which, so a client that leaves then may have left because of it, and counts as an abort. A
    report supports its own attribute by 0 or 2, and every other by 1: sums stand for the mean of all clients, not only
    of those who drew the attribute.
    """

    name: ClassVar[str] = "sr-smp"
    top: ClassVar[int] = 2
    hashed: ClassVar[bool] = True
    shown: ClassVar[str] = "attribute"

    @property
    def blocks(self) -> int:
        return 1

    def attribute(self, session: bytes) -> int:
        """The place of the attribute that a session is about."""
        return _drawn(session) % len(self.attributes)

    def counts(self, chosen: int, session: bytes) -> tuple[Counts, ...]:
        return (self.rounded(chosen >> self.attribute(session) & 1),)

    def raw(self, block: int, value: int, column: int, session: bytes) -> int:
        return 2 * value if self.attribute(session) == column else 1

    def support(self, outputs: Outputs, sessions: Sequence[bytes]) -> list[int]:
        places = np.array([self.attribute(session) for session in sessions], dtype=np.int64)
        signs = np.bincount(places, weights=2 * outputs[:, 0] - 1, minlength=len(self.attributes))
        return [len(sessions) + round(sign) for sign in signs]

    @cached_property
    def scaled(self) -> ScaledMean:
        low, high = self.both_rates
        scale = len(self.attributes) / (2 * (high - low))
        return ScaledMean(Fraction(1, 2) - scale, scale)

    @property
    def largest_variance(self) -> Fraction:
        """Of the support, which is 1 except in one session in k: 1/k for a number in the middle, less for others."""
        return Fraction(1, len(self.attributes))

    def draws(self, targets: Sequence[int]) -> Iterator[InvitationDraw]:
        """Whether the session is about a target; inputs have every attribute at one end."""
        of_target = Fraction(len(targets), len(self.attributes))
        for probability, of_it in ((of_target, (0, 2)), (1 - of_target, (1, 1))):
            if probability:
                row = tuple(support + len(targets) - 1 for support in of_it)
                yield InvitationDraw(probability, (row,), 2, lambda high: (self.rounded(high),))

    def report_variance(self, column: int, value: float) -> float:
        low, high = self.both_rates
        spread = len(self.attributes) / float(high - low) ** 2 - self._centred(column, value) ** 2
        return self._half(column) ** 2 * spread


@lru_cache(maxsize=4096)
def _drawn(session: bytes) -> int:
    return int.from_bytes(digest(b"veridp attribute", session)[:16], "big")
