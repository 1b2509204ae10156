"""The stand-in for `numpy.random.Generator`: NumPy's names and signatures here, what a draw means in a subclass."""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from veridp.kernel.distributions import GENERATOR_METHODS, Distribution, IntegerNoise, Number, ScaledNoise, exact
from veridp.kernel.noise import Integers, Uniform
from veridp.kernel.stand_ins import Symbolic, Vector, as_numpy, as_python, first_symbolic, objects
from veridp.kernel.weights import Weight
from veridp.mechanism.randomness import Bits

Size = int | tuple[int, ...] | None
MAX_CHOICES = 100_000  # values that a finite choice may have
MAX_LISTED = 10_000  # values of a range of integers that is a finite choice; from a longer one, a draw is noise
MIN_SEEDS = 10**9  # values of a seed whose generator is taken for one that nobody can guess


class NoiseMethods:
    """The generator's methods for noise, as the noise itself defines them, and how they read their parameters.

    A subclass says what becomes of noise at a location, `_located`, and of integer noise, `_whole`.
    """

    def _number(self, value: Any, what: str) -> Number:
        raise NotImplementedError

    def _integer(self, value: Any, what: str) -> int:
        number = self._number(value, what)
        if not isinstance(number, int):
            raise TypeError(f"{what} is {value}, no integer")
        return number

    def _probability(self, p: Any) -> Number:
        chance = self._number(p, "a probability")
        if not 0 <= chance <= 1:
            raise ValueError("p < 0, p > 1 or p is NaN")
        return chance

    def _chance(self, p: Any) -> Any:
        """The probability of one of finitely many choices, which may depend on open values where data are open."""
        return self._probability(p)


for _name, _method in GENERATOR_METHODS.items():
    setattr(NoiseMethods, _name, _method)


class StandInGenerator(NoiseMethods, ABC):
    """Draws as a NumPy generator does, of whatever its subclass makes of a draw; isinstance takes it for one."""

    max_listed = MAX_LISTED

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.random.Generator

    def __copy__(self) -> Any:
        return self  # as of NumPy's generators, a shallow copy shares the stream

    def __deepcopy__(self, memo: object) -> Any:
        self.refuse("a deep copy of rng draws the same numbers again")

    @property
    def bit_generator(self) -> Any:
        return Bits(self)

    @abstractmethod
    def noise(self, distribution: Distribution) -> Any:
        """One draw from the distribution."""

    @abstractmethod
    def choose(self, values: Sequence[Any], weights: Sequence[Any]) -> Any:
        """One of the values, each with its weight, a number or a Weight; the weights sum to 1."""

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Stop the run: the mechanism asked for what this reading cannot give."""

    # --------------------------------------------------------------------------------------------------- noise

    def _located(self, kind: type[ScaledNoise], loc: Any, scale: Any, size: Size) -> Any:
        def draw(place: Any, spread: Any) -> Any:
            width = self._number(spread, "the scale of noise")
            if width < 0:
                raise ValueError("scale < 0")
            return place + self.noise(kind(width)) if width else place * 1.0

        return over_shape(draw, size, loc, scale)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Any:
        def draw(low: Any, high: Any) -> Any:
            if high < low:
                raise ValueError("high - low < 0")
            return low + (high - low) * self.noise(Uniform())

        return over_shape(draw, size, low, high)

    def random(self, size: Size = None, **options: Any) -> Any:
        self._check_options("random", options)
        return over_shape(lambda: self.noise(Uniform()), size)

    def _check_options(self, method: str, options: dict[str, Any]) -> None:
        if options:
            self.refuse(f"rng.{method} with {', '.join(options)} is not modelled")

    def _whole(self, kind: type[IntegerNoise], parameters: Sequence[Any], size: Size) -> Any:
        def draw(*values: Any) -> Any:
            distribution = kind.of(self, *values)
            weights = distribution.choices
            return self.noise(distribution) if weights is None else self.choose(range(len(weights)), weights)

        return over_shape(draw, size, *parameters)

    # --------------------------------------------------------------------------------------- finite choices

    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        if np.dtype(dtype) != np.int64:
            self.refuse(f"rng.integers with dtype {np.dtype(dtype)} is not modelled")

        def draw(low: Any, high: Any) -> Any:
            ends = (0, low) if high is None else (low, high)
            first, last = (self._integer(end, "the range of rng.integers") for end in ends)
            if not first < last + endpoint:
                raise ValueError("low >= high" if not endpoint else "low > high")
            count = last + endpoint - first
            if count > self.max_listed:
                return first + self.noise(Integers(count))
            return self.choose(range(first, first + count), [Fraction(1, count)] * count)

        return as_numpy(over_shape(draw, size, low, high))

    def choice(
        self, a: Any, size: Size = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        if axis != 0 or (not shuffle and not replace and p is None and size is not None):
            self.refuse("rng.choice with axis, or without replacement in the order of shuffle=False, is not modelled")
        values, dtype = self._population(a)
        if size is None:
            chosen = self.choose(values, self._weights(len(values), p))
            return as_python(chosen) if isinstance(values, range) else chosen
        shape = tuple(size) if isinstance(size, tuple | list) else (operator.index(size),)
        count = math.prod(shape)
        if not count:
            return np.empty(shape, dtype)
        weights = self._weights(len(values), p)
        if replace:
            drawn = [self.choose(values, weights) for _ in range(count)]
        elif count > len(values):
            raise ValueError("Cannot take a larger sample than population when replace is False")
        else:
            drawn = self._without_replacement(values, weights, count)
        return _array_of(drawn, shape, dtype)

    def _population(self, a: Any) -> tuple[Sequence[Any], Any]:
        """What a choice or permutation is made from, as NumPy would hold it, and its type."""
        if isinstance(a, Symbolic):
            self.refuse("the number of values to choose from depends on noise or on an open value")
        array = np.asarray(a)
        if array.ndim == 0:
            if not isinstance(a, int | np.integer | np.ndarray) or array.dtype.kind not in "iu":
                raise ValueError(f"a must be a sequence or an integer, not {type(a)}")
            return range(self._few(int(array))), np.dtype(np.int64)
        self._few(len(array))
        if array.dtype == object and first_symbolic(array.flat) is not None:
            array = Vector.of(list(array.flat), array.shape)
        return list(array), array.dtype

    def _few(self, count: int) -> int:
        if count > MAX_CHOICES:
            self.refuse(f"a choice of {count} values has more than {MAX_CHOICES} ways")
        return count

    def _without_replacement(self, values: Sequence[Any], weights: Sequence[Any], count: int) -> list[Any]:
        if sum(isinstance(weight, Weight) or weight > 0 for weight in weights) < count:
            raise ValueError("Fewer non-zero entries in p than size")
        indices, drawn = list(range(len(values))), []
        for _ in range(count):
            left = [weights[index] for index in indices]
            total = sum(left)
            index = self.settle(self.choose(indices, [_exact(weight / Fraction(1) / total) for weight in left]))
            indices.remove(index)
            drawn.append(values[index])
        return drawn

    def _shuffled(self, values: Sequence[Any]) -> list[Any]:
        return self._without_replacement(values, [Fraction(1, max(len(values), 1))] * len(values), len(values))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        if axis != 0:
            self.refuse("rng.permutation with axis is not modelled")
        values, dtype = self._population(x)
        return _array_of(self._shuffled(values), (len(values),), dtype)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if axis != 0 or not isinstance(x, list | np.ndarray):
            self.refuse("rng.shuffle of anything but a list or array, or with axis, is not modelled")
        x[:] = self._shuffled(list(x))

    def settle(self, index: Any) -> int:
        """The chosen index as a plain integer, in the readings where it is none yet."""
        return int(index)

    # ------------------------------------------------------------------------------------------ parameters

    def _number(self, value: Any, what: str) -> Number:
        if isinstance(value, Symbolic):
            self.refuse(f"{what} depends on noise or on an open value")
        return exact(value)

    def _integer(self, value: Any, what: str) -> int:
        number = self._number(value, what)
        if not isinstance(number, int):
            self.refuse(f"{what} is {value}, no integer")
        return number

    def _weights(self, count: int, p: Any) -> list[Any]:
        if p is None:
            return [exact(Fraction(1, count))] * count
        chances = [self._chance(chance) for chance in p]
        if len(chances) != count:
            raise ValueError("a and p must have same size")
        total = sum(chances)
        if isinstance(total, Weight):
            self.refuse("probabilities that depend on open values do not sum to 1 for all of them")
        if abs(total - 1) > 1e-8:
            raise ValueError("Probabilities do not sum to 1")
        return chances if total == 1 else [_exact(chance / Fraction(total)) for chance in chances]

    def multinomial(self, n: Any, pvals: Any, size: Size = None) -> Any:
        if size is not None or np.ndim(pvals) != 1 or np.ndim(n):
            self.refuse("rng.multinomial of several draws is not modelled")
        *first, _ = pvals
        weights = self._weights(len(first) + 1, [*first, 1 - sum(first)])  # NumPy gives the last one what is left
        counts = np.zeros(len(weights), dtype=np.int64)
        for _ in range(self._integer(n, "the number of multinomial trials")):
            counts[self.settle(self.choose(range(len(weights)), weights))] += 1
        return counts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.random.Generator, name):
            raise AttributeError(f"numpy.random.Generator has no {name!r}")
        self.refuse(f"rng.{name} is not supported")


def over_shape(draw: Callable[..., Any], size: Size, *parameters: Any) -> Any:
    """One draw where size and parameters are scalar; else a Vector of draws over their common shape."""
    if size is None and all(
        np.ndim(value) == 0 for value in parameters if isinstance(value, list | tuple | np.ndarray)
    ):
        return as_python(draw(*(value[()] if isinstance(value, np.ndarray) else value for value in parameters)))
    shapes = [np.shape(value) if isinstance(value, list | tuple | np.ndarray) else () for value in parameters]
    shape = (
        np.broadcast_shapes(*shapes)
        if size is None
        else (tuple(size) if isinstance(size, tuple | list) else (operator.index(size),))
    )
    columns = [np.broadcast_to(_object_array(value), shape) for value in parameters]
    places = itertools.product(*(range(length) for length in shape))
    return Vector.of([draw(*(column[place] for column in columns)) for place in places], shape)


def _exact(weight: Weight | Number) -> Weight | Number:
    return weight if isinstance(weight, Weight) else exact(weight)


def _array_of(drawn: Sequence[Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """What was drawn from a population of this type, as an array."""
    if first_symbolic(drawn) is not None:
        return Vector.of(drawn, shape)
    array = np.array(drawn, dtype=dtype)
    return array.reshape(shape + array.shape[1:])


def _object_array(value: Any) -> Any:
    return (
        np.asarray(value, dtype=object)
        if isinstance(value, list | tuple | np.ndarray)
        else objects([value]).reshape(())
    )
