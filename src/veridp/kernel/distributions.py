"""The noise that a mechanism may draw, each with location 0, as values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.kernel.decimals import Written
from veridp.kernel.stand_ins import Symbolic

Number = int | Fraction  # what an expression is made of: nothing is rounded once it has been read


def exact(value: object) -> Number:
    """The number as it is, without rounding: a float is the dyadic rational that it denotes.

    >>> exact(0.5), exact(3.0), exact(Fraction(4, 2))
    (Fraction(1, 2), 3, 2)
    """
    kind = type(value)
    if kind is int:
        return value  # type: ignore[return-value]
    if kind is Written:
        return exact(value.rational)  # type: ignore[attr-defined]
    if kind is float:
        return _exact_float(value)  # type: ignore[arg-type]
    if isinstance(value, Symbolic):  # it may pass for a float
        raise TypeError(f"a value of type {kind.__name__} is not a real number")
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else value
    if isinstance(value, np.generic):
        return exact(value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _exact_float(float(value))
    raise TypeError(f"a value of type {kind.__name__} is not a real number")


def _exact_float(value: float) -> Number:
    if not math.isfinite(value):
        raise BadInput(f"{value!r} is not a finite number")
    return int(value) if value.is_integer() else Fraction(value)


class Distribution(ABC):
    """A distribution with its parameters."""

    integer: ClassVar[bool] = False
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64] | NDArray[np.int64]:
        """`count` independent draws."""

    @property
    def reach(self) -> tuple[int, int]:
        """Bounds of an integer draw, which it passes with a probability below 1e-300 if at all."""
        raise TypeError(f"{type(self).__name__} is not a distribution of integers")

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}={float(value):.6g}" for name, value in vars(self).items())
        return f"{type(self).__name__.lower()}({parameters})"


@dataclass(frozen=True)
class Laplace(Distribution):
    scale: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.laplace(scale=float(self.scale), size=count)


@dataclass(frozen=True)
class Exponential(Distribution):
    scale: Number
    support = (0.0, math.inf)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.exponential(scale=float(self.scale), size=count)


@dataclass(frozen=True)
class Normal(Distribution):
    scale: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.normal(scale=float(self.scale), size=count)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on [0, scale)."""

    scale: Number = 1

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, float(self.scale)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.random(size=count) * float(self.scale)


@dataclass(frozen=True)
class Gumbel(Distribution):
    scale: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.gumbel(scale=float(self.scale), size=count)


@dataclass(frozen=True)
class Logistic(Distribution):
    scale: Number

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return rng.logistic(scale=float(self.scale), size=count)


@dataclass(frozen=True)
class Geometric(Distribution):
    """The number of trials up to the first success: 1, 2, …"""

    p: Number
    integer = True
    support = (1.0, math.inf)

    @property
    def reach(self) -> tuple[int, int]:
        return 1, math.ceil(700 / self.p)  # (1 - p)^(700/p) < exp(-700)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        return rng.geometric(float(self.p), size=count)


@dataclass(frozen=True)
class Poisson(Distribution):
    rate: Number
    integer = True
    support = (0.0, math.inf)

    @property
    def reach(self) -> tuple[int, int]:
        return 0, math.ceil(self.rate + 40 * math.sqrt(self.rate) + 800)  # by Bernstein's inequality

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        return rng.poisson(float(self.rate), size=count)


@dataclass(frozen=True)
class Binomial(Distribution):
    trials: int
    p: Number
    integer = True

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, float(self.trials)

    @property
    def reach(self) -> tuple[int, int]:
        return 0, self.trials

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        return rng.binomial(self.trials, float(self.p), size=count)
