"""Noise that a mechanism may draw, as values with location 0: what every distribution answers to the engines.

`veridp.kernel.noise` has a module for each distribution. Engines ask a distribution what they need, not which one it
is, unless a method is about one distribution alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.kernel.decimals import Written
from veridp.kernel.stand_ins import Symbolic

Array = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])
ROUNDED_UP = Fraction(10**12 + 1, 10**12)  # far more than the rounding of a logarithm
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


# ------------------------------------------------------------------------------------------------- parts of an answer


@dataclass(frozen=True)
class ExponentialPiece:
    """An interval (None is no end) on which a density is coefficient · e^(rate x), exactly."""

    low: Fraction | None
    high: Fraction | None
    coefficient: Fraction
    rate: Fraction


@dataclass(frozen=True)
class LinearStretch:
    """An interval on which the logarithm of a density is linear."""

    low: float
    high: float
    intercept: float
    slope: float


@dataclass(frozen=True)
class Pole:
    """A tail that decays exponentially: the transform E[e^(tX)] has a pole at t = rate, of this order."""

    rate: float
    order: int
    log_coefficient: float  # of the density x^(order - 1) e^(-rate x) / (order - 1)!


@dataclass(frozen=True)
class Price:
    """What a shift of noise by one unit costs upwards, and downwards; None where it may not be shifted that way.

    With f the density (or probability) of the noise, the price of a shift Δ is the supremum of ln f(x)/f(x + Δ) over x.
    It is at most |Δ| times the price of a unit. `why_not` is the reason for a None, as the end of a sentence.
    """

    convex: ClassVar[bool] = True  # whether a mean of shifts costs at most the mean of what they cost, as `of` has it

    up: Fraction | None
    down: Fraction | None
    why_not: str = ""
    rounded: bool = False  # whether the prices are floats that stand for logarithms

    def of(self, move: Fraction) -> Fraction:
        """The cost of a move that is allowed."""
        return abs(move) * ((self.up if move > 0 else self.down) or 0)


@dataclass(frozen=True)
class LossBound:
    """What bounds the privacy loss of a shift: but for events of probability `lost` it is at most `pure`, plus a number
    that is normal with mean μ²/2 and variance μ², where `squared` is μ². Losses of independent noise add up; its events
    are independent too, so that they are avoided together with the product of their probabilities to be avoided."""

    pure: Fraction = Fraction(0)
    squared: Fraction = Fraction(0)
    lost: Fraction = Fraction(0)

    def __add__(self, other: LossBound) -> LossBound:
        lost = self.lost + other.lost - self.lost * other.lost
        return LossBound(self.pure + other.pure, self.squared + other.squared, lost)

    def or_more(self, other: LossBound) -> LossBound:
        """A bound on both."""
        return LossBound(*map(max, (self.pure, self.squared, self.lost), (other.pure, other.squared, other.lost)))


def log_difference(larger: Array, smaller: Array) -> Array:
    """ln(e^larger - e^smaller), -inf where nothing is left."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.where(np.isneginf(smaller), -np.inf, smaller - larger)
        left = np.where(gap < 0, larger + np.log(-np.expm1(np.minimum(gap, 0.0))), -np.inf)
    return np.where(np.isneginf(larger), -np.inf, left)


# ------------------------------------------------------------------------------------------------------ the interface

GENERATOR_METHODS: dict[str, Callable[..., Any]] = {}  # by their names in numpy.random.Generator


def generator_method(method: Method) -> Method:
    """Register the function as the generator's method of that name, in every reading.

    It has NumPy's signature, and asks its generator for `_located` or `_whole` noise.
    """
    GENERATOR_METHODS[method.__name__] = method
    return method


class Distribution(ABC):
    """A distribution with its parameters, which are the fields of a frozen dataclass.

    Numbers are logarithms to full relative precision, so that an output of probability 1e-300 has as many digits as one
    of 1/2. Answers "in balls" are given for flint's numbers: they use arithmetic and methods of their arguments alone.
    """

    kind: ClassVar[str]  # its name, in NumPy and in certificates
    integer: ClassVar[bool] = False
    smooth_width: float = 16.0  # how many widths a panel of quadrature may span
    tail: float = 45.0  # how many widths past the last kink its mass no longer counts (e^-45 < 1e-19)
    middle: float = 0.0  # a point between its two tails

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()

    @property
    def parameters(self) -> dict[str, Number]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}={float(value):.6g}" for name, value in self.parameters.items())
        return f"{self.kind}({parameters})"

    @property
    def support(self) -> tuple[float, float]:
        """The interval outside of which it has no mass."""
        return -math.inf, math.inf

    # ------------------------------------------------------------------------------------------------- drawing

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64] | NDArray[np.int64]:
        """`count` independent draws."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """How far its draws lie apart, roughly."""

    @property
    def typical(self) -> float:
        """The value that stands for it in a run without noise."""
        return 0.0

    @property
    def choices(self) -> tuple[Number, ...] | None:
        """The probabilities of 0, 1, … where it is read as a finite choice; None where it is noise."""
        return None

    @property
    def reach(self) -> tuple[int, int]:
        """Bounds of an integer draw, which it passes with a probability below 1e-300 if at all."""
        raise TypeError(f"{self.kind} is not a distribution of integers")

    # -------------------------------------------------------------------------------------------------- floats

    @property
    @abstractmethod
    def width(self) -> float:
        """The length in which its tail, and the smoothness of its density, are counted."""

    @property
    def kinks(self) -> tuple[float, ...]:
        """Where its density is not smooth, in order."""
        return ()

    @property
    def stretches(self) -> tuple[LinearStretch, ...] | None:
        """The intervals, with kinks or infinities for ends, that its mass lies on, if its density is exponential there.

        None where it is not.
        """
        return None

    @property
    def steepness(self) -> float:
        """How fast its logarithm may change, per unit."""
        return 16.0 / (self.smooth_width * self.width)

    @property
    def outlook(self) -> float:
        """How many widths past the last kink a loss is looked at closely; beyond, it is followed to its limit."""
        return self.tail

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """ln of the density (of the probability, for an integer distribution) at x."""

    @abstractmethod
    def log_below(self, x: Array) -> Array:
        """ln P[X <= x]."""

    @abstractmethod
    def log_above(self, x: Array) -> Array:
        """ln P[X > x] (of P[X >= x], for an integer distribution)."""

    def log_between(self, low: Array, high: Array) -> Array:
        """ln P[low <= X <= high], -inf where the interval is empty."""
        if np.all(np.isneginf(low)):
            return self.log_below(high)
        if np.all(np.isposinf(high)):
            return self.log_above(low)
        middle = self.middle
        below = log_difference(self.log_below(np.minimum(high, middle)), self.log_below(np.minimum(low, middle)))
        above = log_difference(self.log_above(np.maximum(low, middle)), self.log_above(np.maximum(high, middle)))
        answer = np.where(high <= middle, below, np.where(low >= middle, above, np.logaddexp(below, above)))
        return np.where(low < high, answer, -np.inf)

    def upper_tail(self, factor: float) -> Pole | None:
        """The upper tail of the noise times a factor; None where it does not decay exponentially."""
        return None

    def log_transform(self, t: float) -> float:
        """ln E[e^(tX)], for a t below the rate at which its tail decays; inf where it is none or too large."""
        return math.inf

    # ------------------------------------------------------------------------------- rationals, shifts and sums

    def probability_between(self, low: Fraction | None, high: Fraction | None) -> Fraction | None:
        """P[low <= X <= high], None being no end; None where it has no rational probabilities."""
        return None

    @property
    @abstractmethod
    def price(self) -> Price:
        """How it may be shifted, and what that costs."""

    def price_up_to(self, move: Fraction) -> float | None:
        """What shifts by up to this much cost at most, if that is not in proportion to them: `price` is above it."""
        return None

    @property
    def price_with_delta(self) -> Price:
        """How it may be shifted where a δ is allowed, at a price by which shifts are searched for: `shift_loss` is what
        they cost."""
        return self.price

    def shift_loss(self, move: Fraction) -> LossBound:
        """The privacy loss of a shift that `price_with_delta` allows."""
        return LossBound(pure=self.price.of(move) * (ROUNDED_UP if self.price.rounded else 1))

    def delta_alone(self, pure: Any, epsilon: Any) -> Any:
        """E[(1 - e^(ε - L))₊] in balls, for shifts of this noise alone whose loss is at most `pure`; None where `pure`
        is all that is known of them."""
        return None

    def sum_key(self, factor: Number) -> object:
        """Equal for draws, each times its factor, whose sum has a known distribution; None where none is known."""
        return None

    def sum_of(self, draws: Sequence[tuple[Any, Number]]) -> tuple[Distribution, Number]:
        """The distribution of the sum of draws of equal keys, each times its factor; and a factor for it."""
        raise TypeError(f"sums of {self.kind} noise are of no known distribution")


@dataclass(frozen=True)
class ScaledNoise(Distribution):
    """Noise on the reals, in proportion to a scale."""

    scale: Number

    @cached_property
    def width(self) -> float:
        return float(self.scale)

    @property
    def unit(self) -> float:
        return float(self.scale)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        return getattr(rng, self.kind)(scale=float(self.scale), size=count)  # type: ignore[no-any-return]

    @classmethod
    def fill(cls, rng: np.random.Generator, out: Array) -> None:
        """Fill the array with draws of scale 1."""
        out[...] = getattr(rng, cls.kind)(size=len(out))

    @cached_property
    def steepness_price(self) -> Price:
        """The price of a shift either way where the slope of ln f is at most 1/scale."""
        return Price(1 / Fraction(self.scale), 1 / Fraction(self.scale))


@dataclass(frozen=True)
class Shaped:
    """Noise that has shapes beside its scale, and these shapes: called with a scale, the distribution."""

    noise: Callable[..., ScaledNoise]
    shapes: tuple[Number, ...]

    @classmethod
    def of(cls, noise: Any, rng: Any, *shapes: Any, factor: Number = 1) -> Shaped:
        """The noise for the parameters of a generator's method, times a factor."""
        if any(map(np.ndim, shapes)):
            rng._check_options(noise.kind, {"an array of shapes": shapes})
        numbers = [Fraction(rng._number(shape, "the shape of noise")) * factor for shape in shapes]
        for number in numbers:
            if not number > 0:
                raise ValueError("shape < 0" if number else "a shape of 0 is no noise")
        return cls(noise, tuple(map(exact, numbers)))

    def __call__(self, scale: Number) -> ScaledNoise:
        return self.noise(scale, *self.shapes)

    def fill(self, rng: np.random.Generator, out: Array) -> None:
        """Fill the array with draws of scale 1."""
        out[...] = self(1).draw(rng, len(out))


class ExponentialNoise(ScaledNoise):
    """Noise whose density is made of exponential pieces."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[ExponentialPiece, ...]:
        """The pieces of its density, in order and without gaps."""

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        ends = {end for piece in self.pieces for end in (piece.low, piece.high) if end is not None}
        return tuple(float(end) for end in sorted(ends))

    @cached_property
    def stretches(self) -> tuple[LinearStretch, ...]:
        return tuple(
            LinearStretch(
                -math.inf if piece.low is None else float(piece.low),
                math.inf if piece.high is None else float(piece.high),
                -math.log(float(1 / piece.coefficient)),
                float(piece.rate),
            )
            for piece in self.pieces
        )

    @cached_property
    def support(self) -> tuple[float, float]:
        return self.stretches[0].low, self.stretches[-1].high


class SmoothNoise(ScaledNoise):
    """Noise whose density and distribution function are analytic around the real line, in balls too.

    `z` is a complex ball in units of the scale. Where a function is not analytic on a ball, it is not finite there.
    """

    def far(self, bits: int) -> tuple[int, int]:
        """How many scales below and above 0 all but less than 2^-bits of its mass lies."""
        return -bits, bits

    @abstractmethod
    def density_in_balls(self, z: Any) -> Any:
        """The density, for scale 1."""

    @abstractmethod
    def below_in_balls(self, z: Any) -> Any:
        """P[X <= z]."""

    @abstractmethod
    def above_in_balls(self, z: Any) -> Any:
        """P[X > z]."""


class IntegerNoise(Distribution):
    """Noise on the integers. In balls, it is given its parameters as balls too."""

    integer = True

    @classmethod
    @abstractmethod
    def of(cls, rng: Any, *parameters: Any) -> Distribution:
        """The distribution for the arguments of the generator's method, which the generator makes numbers."""

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        values = (value if isinstance(value, int) else float(value) for value in self.parameters.values())
        return getattr(rng, self.kind)(*values, size=count)  # type: ignore[no-any-return]

    @property
    def law(self) -> Any:
        """SciPy's frozen distribution."""
        raise TypeError(f"{self.kind} has formulas of its own")

    @property
    def kinks(self) -> tuple[float, ...]:
        """The integers, where its distribution function steps, as far as its mass counts."""
        low, high = self.support
        first = max(low, self.middle - self.tail * self.width)
        last = min(high, self.middle + self.tail * self.width)
        return tuple(np.arange(math.floor(first), math.ceil(last) + 1.0).tolist())

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        with np.errstate(divide="ignore"):
            return np.where(np.abs(x - whole) < 1e-9, self.law.logpmf(whole), -np.inf)

    def log_below(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self.law.logcdf(np.floor(x + 1e-9)))

    def log_above(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self.law.logsf(np.ceil(x - 1e-9) - 1))

    def log_between(self, low: Array, high: Array) -> Array:
        """ln P[low <= X <= high], both ends included."""
        first, last = np.ceil(low - 1e-9), np.floor(high + 1e-9)
        below = log_difference(self.log_below(last), self.log_below(first - 1))
        above = log_difference(self.log_above(first), self.log_above(last + 1))
        return np.where(first <= last, np.where(last <= self.middle, below, above), -np.inf)

    def log_transform(self, t: float) -> float:
        return math.inf if t > 700 else self.log_transform_below(t)

    @abstractmethod
    def log_transform_below(self, t: float) -> float:
        """The same for a t of which floats hold e^t."""

    @abstractmethod
    def mass_in_balls(self, k: int, *parameters: Any) -> Any:
        """P[X = k], for k in its support."""

    @abstractmethod
    def above_in_balls(self, k: int, *parameters: Any) -> Any:
        """P[X >= k], for k in its support."""

    @abstractmethod
    def cut(self, bits: int) -> int:
        """An integer beyond which less than 2^-bits of its mass lies."""
