"""Truth values made differentiable: the indicator of an event as an expression over slacks, read hard or soft.

A slack is how far a comparison is from turning over. Read hard, an expression is 0 or 1. Read soft, it follows the
rules of DP-Finder (Bichsel et al., CCS 2018, Table 1) with sharpness c:

    ¬B            1 - B                     E >= 0    sigmoid(c E)
    B1 and B2     B1 · B2                   E = 0     exp(-c E²)
    B1 or B2      B1 + B2 - B1 · B2         if        B · E1 + (1 - B) · E2

All is vectorised over the noise: a slack is a row of numbers, one for each draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
SHARPNESS = 50.0
SLACK_TOLERANCE = 1e-9  # how far rounding may carry a slack that is 0


class SlackReading(ABC):
    """The slacks, a row each, and what comparisons with 0 mean; every node's value is worked out once."""

    def __init__(self, slacks: Array) -> None:
        self.slacks = slacks
        self.known: dict[SoftTruth, Array] = {}

    def of(self, node: SoftTruth) -> Array:
        """The value of the node, for each draw."""
        value = self.known.get(node)
        if value is None:
            value = self.known[node] = node.value(self)
        return value

    @abstractmethod
    def at_least(self, atom: int) -> Array: ...

    @abstractmethod
    def equal(self, atom: int) -> Array: ...


class Hard(SlackReading):
    """Every comparison as it is: 0 or 1."""

    def at_least(self, atom: int) -> Array:
        return np.asarray(self.slacks[atom] >= 0, dtype=float)

    def equal(self, atom: int) -> Array:
        return np.asarray(np.abs(self.slacks[atom]) <= SLACK_TOLERANCE, dtype=float)


class Soft(SlackReading):
    """Every comparison as a smooth step; `gradient` collects the derivatives by the slacks, averaged over the draws."""

    def __init__(self, slacks: Array, sharpness: float = SHARPNESS) -> None:
        super().__init__(slacks)
        self.sharpness = sharpness
        self.gradient = np.zeros(len(slacks))

    def at_least(self, atom: int) -> Array:
        return np.asarray(expit(self.sharpness * self.slacks[atom]))

    def equal(self, atom: int) -> Array:
        return np.asarray(np.exp(-self.sharpness * self.slacks[atom] ** 2))

    def add(self, atom: int, slope: Array) -> None:
        self.gradient[atom] += slope.mean()


class SoftTruth(ABC):
    """A truth value, or a probability, that depends on slacks."""

    @abstractmethod
    def value(self, at: SlackReading) -> Array: ...

    @abstractmethod
    def spread(self, at: Soft, weight: Array) -> None:
        """Add, to the gradient, weight times the derivative of the value by each slack."""


@dataclass(frozen=True, eq=False)
class ConstantTruth(SoftTruth):
    constant: float

    def value(self, at: SlackReading) -> Array:
        return np.full(at.slacks.shape[1], self.constant)

    def spread(self, at: Soft, weight: Array) -> None:
        pass


@dataclass(frozen=True, eq=False)
class AtLeast(SoftTruth):
    """slack >= 0; slack > 0 is the negation of -slack >= 0."""

    atom: int

    def value(self, at: SlackReading) -> Array:
        return at.at_least(self.atom)

    def spread(self, at: Soft, weight: Array) -> None:
        value = at.of(self)
        at.add(self.atom, weight * at.sharpness * value * (1 - value))


@dataclass(frozen=True, eq=False)
class Equal(SoftTruth):
    atom: int

    def value(self, at: SlackReading) -> Array:
        return at.equal(self.atom)

    def spread(self, at: Soft, weight: Array) -> None:
        at.add(self.atom, weight * at.of(self) * (-2 * at.sharpness) * at.slacks[self.atom])


@dataclass(frozen=True, eq=False)
class Not(SoftTruth):
    inner: SoftTruth

    def value(self, at: SlackReading) -> Array:
        return 1 - at.of(self.inner)

    def spread(self, at: Soft, weight: Array) -> None:
        self.inner.spread(at, -weight)


@dataclass(frozen=True, eq=False)
class And(SoftTruth):
    parts: tuple[SoftTruth, ...]

    def value(self, at: SlackReading) -> Array:
        product = np.ones(at.slacks.shape[1])
        for part in self.parts:
            product = product * at.of(part)
        return product

    def spread(self, at: Soft, weight: Array) -> None:
        after = [np.ones(at.slacks.shape[1])]
        for part in reversed(self.parts[1:]):
            after.append(after[-1] * at.of(part))
        before = weight
        for part, rest in zip(self.parts, reversed(after), strict=True):
            part.spread(at, before * rest)
            before = before * at.of(part)


@dataclass(frozen=True, eq=False)
class Or(SoftTruth):
    first: SoftTruth
    second: SoftTruth

    def value(self, at: SlackReading) -> Array:
        first, second = at.of(self.first), at.of(self.second)
        return first + second - first * second

    def spread(self, at: Soft, weight: Array) -> None:
        self.first.spread(at, weight * (1 - at.of(self.second)))
        self.second.spread(at, weight * (1 - at.of(self.first)))


@dataclass(frozen=True, eq=False)
class Blend(SoftTruth):
    """`then` where the condition holds, else `other`."""

    condition: SoftTruth
    then: SoftTruth
    other: SoftTruth

    def value(self, at: SlackReading) -> Array:
        condition = at.of(self.condition)
        return condition * at.of(self.then) + (1 - condition) * at.of(self.other)

    def spread(self, at: Soft, weight: Array) -> None:
        condition = at.of(self.condition)
        self.condition.spread(at, weight * (at.of(self.then) - at.of(self.other)))
        self.then.spread(at, weight * condition)
        self.other.spread(at, weight * (1 - condition))


@dataclass(frozen=True, eq=False)
class SoftSum(SoftTruth):
    """Disjoint ways to the same event, each with the probability of its finite random choices."""

    weights: tuple[float, ...]
    parts: tuple[SoftTruth, ...]

    def value(self, at: SlackReading) -> Array:
        total = np.zeros(at.slacks.shape[1])
        for weight, part in zip(self.weights, self.parts, strict=True):
            total = total + weight * at.of(part)
        return total

    def spread(self, at: Soft, weight: Array) -> None:
        for own, part in zip(self.weights, self.parts, strict=True):
            part.spread(at, own * weight)


def conjunction(parts: Sequence[SoftTruth]) -> SoftTruth:
    """All of the parts, those that are certain left out; impossible where one is."""
    told = [part for part in parts if not (isinstance(part, ConstantTruth) and part.constant == 1)]
    if any(isinstance(part, ConstantTruth) and part.constant == 0 for part in told):
        return ConstantTruth(0.0)
    return told[0] if len(told) == 1 else And(tuple(told)) if told else ConstantTruth(1.0)
