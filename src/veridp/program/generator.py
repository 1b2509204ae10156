"""The stand-in for `numpy.random.Generator`: NumPy's names and signatures here, what a draw means in a subclass."""

from __future__ import annotations

import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from veridp.program.distribution import (
    Binomial,
    Distribution,
    Exponential,
    Geometric,
    Gumbel,
    Laplace,
    Logistic,
    Normal,
    Number,
    Poisson,
    Uniform,
    exact,
)
from veridp.program.symbolic import Symbolic, Vector

Size = int | tuple[int, ...] | None
MAX_CHOICES = 100_000  # values of one draw
FEW_TRIALS = 32  # a binomial of up to so many trials is a finite choice, a longer one is integer noise


class StandInGenerator(ABC):
    """Draws as a NumPy generator does, of whatever its subclass makes of a draw; isinstance takes it for one."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.random.Generator

    def __copy__(self) -> Any:
        return self  # as of NumPy's generators, a shallow copy shares the stream

    def __deepcopy__(self, memo: object) -> Any:
        self.refuse("a deep copy of rng draws the same numbers again")

    @abstractmethod
    def noise(self, distribution: Distribution) -> Any:
        """One draw from the distribution."""

    @abstractmethod
    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        """One of the values, each with its weight; the weights sum to 1."""

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Stop the run: the mechanism asked for what this reading cannot give."""

    def list_choices(self, count: int) -> None:
        """Refuse a choice among so many values that a list of them would not fit."""
        if count > MAX_CHOICES:
            self.refuse(f"a choice among {count} values is one among more than {MAX_CHOICES}")

    # ------------------------------------------------------------------------------------ continuous noise

    def _located(self, kind: Callable[[Number], Distribution], loc: Any, scale: Any, size: Size) -> Any:
        def draw(place: Any, spread: Any) -> Any:
            width = self._number(spread, "the scale of noise")
            if width < 0:
                raise ValueError("scale < 0")
            return place + self.noise(kind(width)) if width else place

        return over_shape(draw, size, loc, scale)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
        return self._located(Laplace, loc, scale, size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
        return self._located(Normal, loc, scale, size)

    def standard_normal(self, size: Size = None) -> Any:
        return self.normal(size=size)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
        return self._located(Gumbel, loc, scale, size)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Any:
        return self._located(Logistic, loc, scale, size)

    def exponential(self, scale: Any = 1.0, size: Size = None) -> Any:
        return self._located(Exponential, 0, scale, size)

    def standard_exponential(self, size: Size = None) -> Any:
        return self.exponential(size=size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Any:
        return over_shape(lambda low, high: low + (high - low) * self.noise(Uniform()), size, low, high)

    def random(self, size: Size = None) -> Any:
        return over_shape(lambda: self.noise(Uniform()), size)

    # --------------------------------------------------------------------------------------- integer noise

    def geometric(self, p: Any, size: Size = None) -> Any:
        return over_shape(lambda p: self.noise(Geometric(self._probability(p))), size, p)

    def poisson(self, lam: Any = 1.0, size: Size = None) -> Any:
        return over_shape(lambda lam: self.noise(Poisson(self._number(lam, "the rate of a Poisson draw"))), size, lam)

    def binomial(self, n: Any, p: Any, size: Size = None) -> Any:
        def draw(n: Any, p: Any) -> Any:
            trials, chance = int(self._number(n, "the number of binomial trials")), self._probability(p)
            if trials > FEW_TRIALS:
                return self.noise(Binomial(trials, chance))
            return self.choose(range(trials + 1), binomial_weights(trials, chance))

        return over_shape(draw, size, n, p)

    # --------------------------------------------------------------------------------------- finite choices

    def integers(self, low: Any, high: Any = None, size: Size = None, *, endpoint: bool = False, **_: Any) -> Any:
        def draw(low: Any, high: Any) -> Any:
            first, last = (0, low) if high is None else (low, high)
            values = range(int(first), int(last) + endpoint)
            if not values:
                raise ValueError("low >= high")
            self.list_choices(len(values))
            return self.choose(values, [Fraction(1, len(values))] * len(values))

        return over_shape(draw, size, low, high)

    def choice(self, a: Any, size: Size = None, replace: bool = True, p: Any = None, **_: Any) -> Any:
        if isinstance(a, int | np.integer):
            self.list_choices(int(a))
        values = list(range(a)) if isinstance(a, int | np.integer) else list(a)
        if not values:
            raise ValueError("a cannot be empty")
        weights = self._weights(len(values), p)
        if size is None:
            return self.choose(values, weights)
        if replace:
            return over_shape(lambda: self.choose(values, weights), size)
        count = int(np.prod(size))
        if count > len(values):
            raise ValueError("Cannot take a larger sample than population when replace is False")
        return self._without_replacement(values, weights, count, size)

    def _without_replacement(self, values: list[Any], weights: list[Number], count: int, size: Size) -> Any:
        indices, drawn = list(range(len(values))), []
        for _ in range(count):
            left = [weights[index] for index in indices]
            total = sum(left)
            index = self.settle(self.choose(indices, [exact(Fraction(weight) / total) for weight in left]))
            indices.remove(index)
            drawn.append(values[index])
        return Vector.of(drawn, (size,) if isinstance(size, int) else size)

    def permutation(self, x: Any) -> Any:
        if isinstance(x, int | np.integer):
            self.list_choices(int(x))
        values = list(range(x)) if isinstance(x, int | np.integer) else list(x)
        return self._without_replacement(
            values, [Fraction(1, max(len(values), 1))] * len(values), len(values), len(values)
        )

    def shuffle(self, x: Any) -> None:
        x[:] = list(self.permutation(list(x)))

    def settle(self, index: Any) -> int:
        """The chosen index as a plain integer, in the readings where it is none yet."""
        return int(index)

    # ------------------------------------------------------------------------------------------ parameters

    def _number(self, value: Any, what: str) -> Number:
        if isinstance(value, Symbolic):
            self.refuse(f"{what} depends on noise or on an open value")
        return exact(value)

    def _probability(self, p: Any) -> Number:
        chance = self._number(p, "a probability")
        if not 0 <= chance <= 1:
            raise ValueError("p < 0, p > 1 or p is NaN")
        return chance

    def _weights(self, count: int, p: Any) -> list[Number]:
        if p is None:
            return [exact(Fraction(1, count))] * count
        chances = [self._probability(chance) for chance in p]
        if len(chances) != count:
            raise ValueError("a and p must have same size")
        total = Fraction(sum(chances))
        if abs(total - 1) > 1e-8:
            raise ValueError("Probabilities do not sum to 1")
        return [exact(Fraction(chance) / total) for chance in chances]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.random.Generator, name):
            raise AttributeError(f"numpy.random.Generator has no {name!r}")
        self.refuse(f"rng.{name} is not known here")


def binomial_weights(trials: int, p: Number) -> list[Number]:
    """P[k successes] for k = 0..trials, exactly."""
    chance, ways, weights = Fraction(p), 1, []
    for k in range(trials + 1):
        weights.append(exact(ways * chance**k * (1 - chance) ** (trials - k)))
        ways = ways * (trials - k) // (k + 1)
    return weights


def over_shape(draw: Callable[..., Any], size: Size, *parameters: Any) -> Any:
    """One draw where size and parameters are scalar; else a Vector of draws over their common shape."""
    if size is None and not any(isinstance(value, list | tuple | np.ndarray) for value in parameters):
        return draw(*parameters)
    shapes = [np.shape(value) if isinstance(value, list | tuple | np.ndarray) else () for value in parameters]
    shape = (
        np.broadcast_shapes(*shapes)
        if size is None
        else (tuple(size) if isinstance(size, tuple | list) else (operator.index(size),))
    )
    columns = [np.broadcast_to(_object_array(value), shape) for value in parameters]
    places = itertools.product(*(range(length) for length in shape))
    return Vector.of([draw(*(column[place] for column in columns)) for place in places], shape)


def _object_array(value: Any) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return np.asarray(value, dtype=object)
    box = np.empty((), dtype=object)
    box[()] = value
    return box
