"""A genuine NumPy generator whose draws are scripted, or recorded."""
# mypy: disable-error-code="override"

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from veridp.errors import Interruption
from veridp.kernel.distributions import GENERATOR_METHODS, Distribution, IntegerNoise, Number, ScaledNoise, exact
from veridp.kernel.generator import MAX_LISTED, NoiseMethods
from veridp.kernel.noise import Integers, Uniform
from veridp.mechanism.randomness import sharing

Size = int | tuple[int, ...] | None
Draw = Callable[[Distribution], float]
Pick = Callable[[Sequence[float]], int]


class TooManyDraws(Interruption):
    """Ends a run that draws more often than it may; no `except Exception` of the user can swallow it."""


class ScriptedGenerator(NoiseMethods, np.random.Generator):
    """Draws what `draw` and `pick` say, and writes down every draw without its location and every finite choice.

    Without them it draws as NumPy does from the bit generator. Past `most` draws it raises TooManyDraws. A binomial of
    few trials, integers, choices and permutations are finite choices, as in exploration.
    """

    __module__, __qualname__ = np.random.Generator.__module__, np.random.Generator.__qualname__

    def __init__(
        self,
        bits: np.random.BitGenerator,
        draw: Draw | None = None,
        pick: Pick | None = None,
        most: float = math.inf,
    ) -> None:
        super().__init__(bits)
        self.most = most
        self._numpy = np.random.Generator(bits)  # whose methods call each other, not the ones below
        self.scripted = draw is not None
        self._draw, self._pick = draw, pick
        self.draws: list[float] = []
        self.picks: list[int] = []
        self.asked: list[Distribution | Sequence[float]] = []  # what each scripted draw and choice was to come from
        self._tape: list[Any] = []  # draws and choices in their order, shared with copies, which draw the same again
        self._place = 0
        self._genuine: Any = None  # what NumPy drew for the call that is under way
        self._seeds: set[int] = set()  # drawn from long ranges
        self.branched = False  # whether others draw from it that would have numbers of their own

    def __deepcopy__(self, memo: object) -> ScriptedGenerator:
        twin = ScriptedGenerator(copy.deepcopy(self.bit_generator), self._draw, self._pick, self.most)
        twin.draws, twin.picks, twin.asked = self.draws, self.picks, self.asked
        twin._tape, twin._place, twin._seeds = self._tape, self._place, self._seeds
        return twin

    def spawn(self, n_children: int) -> list[Any]:  # as exploration has it
        self.branched = True
        return [sharing(self) for _ in range(n_children)]

    def takes_as_seed(self, seed: Any) -> bool:
        taken = isinstance(seed, int | np.integer) and int(seed) in self._seeds
        self.branched |= taken
        return taken

    def as_one(self, number: int) -> int:
        """The number, which was drawn in parts."""
        self._seeds.add(number)
        return number

    def _next(self, make: Callable[[], Any], into: list[Any]) -> Any:
        """What comes next: what a copy has drawn before from here, or something new."""
        if self._place == len(self._tape):
            if self._place >= self.most:
                raise TooManyDraws
            self._tape.append(make())
            into.append(self._tape[-1])
        self._place += 1
        return self._tape[self._place - 1]

    def _record(self, values: Iterable[Any], into: list[Any]) -> None:
        for value in values:
            self._next(lambda value=value: value, into)  # type: ignore[misc]

    # --------------------------------------------------------------------------------------------------- noise

    def _number(self, value: Any, what: str) -> Number:
        return exact(float(value))

    def _check_options(self, method: str, options: object) -> None:
        """Exploration has refused them."""

    def _located(self, kind: type[ScaledNoise], loc: Any, scale: Any, size: Size) -> Any:
        if self.scripted and size is None and type(loc) is float and type(scale) is float:
            return loc + self._scripted(kind(exact(scale))) if scale else loc
        if self.scripted:
            shape = _shape(size, loc, scale)
            widths = np.broadcast_to(np.asarray(scale, dtype=float), shape)
            noise = np.array([self._scripted(kind(exact(float(w)))) if w else 0.0 for w in widths.flat]).reshape(shape)
            return _plain(np.asarray(loc, dtype=float) + noise, size, loc, scale)
        values = self._genuine
        widths = np.broadcast_to(np.asarray(scale, dtype=float), np.shape(values))
        noise = np.asarray(values) - np.asarray(loc, dtype=float)
        self._record([float(x) for x, width in zip(noise.flat, widths.flat, strict=True) if width], self.draws)
        return values

    def _whole(self, kind: type[IntegerNoise], parameters: Sequence[Any], size: Size) -> Any:
        shape = _shape(size, *parameters)
        columns = [np.broadcast_to(np.asarray(parameter, dtype=float), shape) for parameter in parameters]
        distributions = [kind.of(self, *row) for row in zip(*(column.flat for column in columns), strict=True)]
        choices = [distribution.choices for distribution in distributions]
        if not self.scripted:
            values = self._genuine
            for weights, value in zip(choices, np.asarray(values).flat, strict=True):
                self._record([int(value)], self.draws if weights is None else self.picks)
            return values
        drawn = [
            int(self._scripted(distribution)) if weights is None else self._one_of([float(w) for w in weights])
            for distribution, weights in zip(distributions, choices, strict=True)
        ]
        return _plain(np.array(drawn, dtype=np.int64).reshape(shape), size, *parameters)

    def _scripted(self, distribution: Distribution) -> float:
        return self._answer(self._draw, distribution, self.draws)  # type: ignore[no-any-return]

    def _answer(self, script: Callable[[Any], Any] | None, asked: Any, into: list[Any]) -> Any:
        def make() -> Any:
            self.asked.append(asked)
            return script(asked)  # type: ignore[misc]

        return self._next(make, into)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Any:
        if self.scripted:
            return _plain(low + np.subtract(high, low) * self._units(_shape(size, low, high)), size, low, high)
        values = self._numpy.uniform(low, high, size)
        spread = np.broadcast_to(np.subtract(high, low), np.shape(values)).astype(float)
        units = np.divide(np.subtract(values, low), spread, out=np.zeros(np.shape(values)), where=spread != 0)
        self._record([float(x) for x in np.asarray(units).flat], self.draws)
        return values

    def random(self, size: Size = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if self.scripted:
            return _plain(self._units(_shape(size)), size)
        values = self._numpy.random(size)
        self._record([float(x) for x in np.asarray(values).flat], self.draws)
        return values

    def _units(self, shape: tuple[int, ...]) -> Any:
        return np.array([self._scripted(Uniform()) for _ in range(int(np.prod(shape)))]).reshape(shape)

    # --------------------------------------------------------------------------------------- finite choices

    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        first, last = (0, low) if high is None else (low, high)
        if self.scripted:
            shape = _shape(size, first, last)
            ends = [np.broadcast_to(np.asarray(end), shape).ravel().tolist() for end in (first, last)]
            drawn = [a + self._integer_below(b + endpoint - a) for a, b in zip(*ends, strict=True)]
            self._seeds |= {n for n, a, b in zip(drawn, *ends, strict=True) if b - a > MAX_LISTED}
            numbers = np.array(drawn).reshape(shape).astype(dtype)
            held = size is None and dtype is not int and dtype is not bool  # as a scalar of NumPy, which gives that
            return numbers[()] if held else _plain(numbers, size, first, last)
        values = self._numpy.integers(low, high, size, dtype, endpoint)
        counts = np.broadcast_to(np.asarray(last) + endpoint - np.asarray(first), np.shape(values))
        for x, count in zip((np.asarray(values) - np.asarray(first)).flat, counts.flat, strict=True):
            self._record([int(x)], self.picks if count <= MAX_LISTED else self.draws)
        if np.any(counts > MAX_LISTED):
            self._seeds.update(map(int, np.ravel(values)))
        return values

    def _integer_below(self, count: int) -> int:
        if count <= MAX_LISTED:
            return self._one_of([1.0] * count)
        return min(int(self._scripted(Integers(count))), count - 1)  # a float of which may be rounded up to the count

    def choice(
        self, a: Any, size: Size = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        count = a if isinstance(a, int | np.integer) else len(a)
        if not self.scripted:
            chosen = self._numpy.choice(int(count), size, replace, p, 0, shuffle)
            self._write_down(np.ravel(chosen), replace)
        else:
            number = int(np.prod(size)) if size is not None else 1
            weights = [1.0] * int(count) if p is None else [float(chance) for chance in p]
            chosen = np.array(self._indices(weights, number, replace), dtype=np.int64).reshape(_shape(size))
        if isinstance(a, int | np.integer):
            return chosen if size is not None else int(chosen)
        return np.asarray(a)[chosen]

    def multinomial(self, n: Any, pvals: Any, size: Size = None) -> Any:
        if not self.scripted:
            counts = self._numpy.multinomial(n, pvals, size)
            self._record([place for place, count in enumerate(np.ravel(counts)) for _ in range(count)], self.picks)
            return counts
        *first, _ = map(float, pvals)
        picks = [self._one_of([*first, 1.0 - sum(first)]) for _ in range(int(n))]
        return np.bincount(np.array(picks, dtype=np.int64), minlength=len(first) + 1)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        count = x if isinstance(x, int | np.integer) else len(x)
        order = self._order(int(count))
        return order if isinstance(x, int | np.integer) else np.asarray(x)[order]

    def shuffle(self, x: Any, axis: int = 0) -> None:
        x[:] = (
            [x[index] for index in self._order(len(x))] if isinstance(x, list) else np.asarray(x)[self._order(len(x))]
        )

    def _order(self, count: int) -> Any:
        if self.scripted:
            return np.array(self._indices([1.0] * count, count, replace=False), dtype=np.int64)
        order = np.arange(count)
        self._numpy.shuffle(order)
        self._write_down(order, replace=False)
        return order

    def _indices(self, weights: list[float], number: int, replace: bool) -> list[int]:
        if replace:
            return [self._one_of(weights) for _ in range(number)]
        left, chosen = list(range(len(weights))), []
        for _ in range(number):
            chosen.append(left.pop(self._one_of([weights[index] for index in left])))
        return chosen

    def _write_down(self, chosen: Any, replace: bool) -> None:
        """The choices as exploration makes them: without replacement, the place among what is left."""
        if replace:
            self._record([int(index) for index in chosen], self.picks)
            return
        left = list(range(int(max(chosen, default=-1)) + 1))
        for index in chosen:
            self._record([left.index(index)], self.picks)
            left.remove(index)

    def _one_of(self, weights: Sequence[float]) -> int:
        return self._answer(self._pick, weights, self.picks)  # type: ignore[no-any-return]


def _drawn_first(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, for which NumPy draws first where nothing is scripted."""

    @wraps(method)
    def call(self: ScriptedGenerator, *args: Any, **options: Any) -> Any:
        if not self.scripted:
            self._genuine = getattr(self._numpy, name)(*args, **options)
        return method(self, *args, **options)

    return call


for _name, _method in GENERATOR_METHODS.items():
    setattr(ScriptedGenerator, _name, _drawn_first(_name, _method))


def _shape(size: Size, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(np.shape(parameter) for parameter in parameters)) if parameters else ()
    return tuple(size) if isinstance(size, tuple | list) else (int(size),)


def _plain(values: Any, size: Size, *parameters: Any) -> Any:
    """A Python scalar where NumPy gives one, else the array."""
    return (
        values.item() if size is None and not any(np.ndim(p) for p in parameters) and np.ndim(values) == 0 else values
    )
