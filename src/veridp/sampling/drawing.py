"""The Generator of the batch reading, and the one that hands a single row of its draws to the plain function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.distributions import Distribution, IntegerNoise, Number, ScaledNoise
from veridp.kernel.generator import Size, StandInGenerator, over_shape
from veridp.kernel.stand_ins import Vector, as_numpy
from veridp.sampling.batch_number import ACCEPTED, PLAIN, Batch
from veridp.sampling.tape import Stop, Tape, Values

METHODS = frozenset(name for name in dir(np.random.Generator) if not name.startswith("_"))


if TYPE_CHECKING:
    _Real = Any
else:
    _Real = np.random.Generator  # so that a mechanism that asks whether it was given a Generator hears yes


class BatchGenerator(StandInGenerator, _Real):  # type: ignore[misc]
    """Draws one value per row of a tape. `calls` keeps what was asked and what it gave, in order."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape.rng.bit_generator)
        self._tape = tape
        self._depth = 0
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []

    def __repr__(self) -> str:
        self.refuse("a generator turned into text is not supported in batches")

    __str__ = __repr__

    def _drawn(self, key: Any, draw: Callable[[np.random.Generator, int], Values], plain: bool = True) -> Batch:
        tape = self._tape
        return Batch.computed(tape, ("draw", key), lambda: draw(tape.rng, tape.size), plain)

    def noise(self, distribution: Distribution) -> Batch:
        return self._drawn(distribution, distribution.draw)

    def refuse(self, what: str) -> NoReturn:
        self._tape.refuse(what)

    def _located(self, kind: type[ScaledNoise], loc: Any, scale: Any, size: Size) -> Any:
        def draw(place: Any, spread: Any) -> Any:
            if spread < 0:
                raise ValueError("scale < 0")

            def drawn(rng: np.random.Generator, count: int) -> Values:
                noise = self._tape.arena.empty(count, np.float64)
                kind.fill(rng, noise)
                noise *= _operand(spread)
                if isinstance(place, Batch) or place != 0:
                    noise += _operand(place)
                return noise

            return self._drawn((kind, _name(place), _name(spread)), drawn)

        if size is None and isinstance(loc, ACCEPTED) and isinstance(scale, ACCEPTED):
            return draw(loc, scale)
        return over_shape(draw, size, loc, scale)

    # --------------------------------------------------------------------------------------- integer noise

    def _parametric(self, method: str, size: Size, *parameters: Any) -> Any:
        def draw(*values: Any) -> Any:
            def drawn(rng: np.random.Generator, count: int) -> Values:
                return np.asarray(getattr(rng, method)(*(_operand(value) for value in values), size=count))

            return self._drawn((method, *(_name(value) for value in values)), drawn)

        return over_shape(draw, size, *parameters)

    def _whole(self, kind: type[IntegerNoise], parameters: Sequence[Any], size: Size) -> Any:
        return self._parametric(kind.kind, size, *parameters)

    def integers(
        self, low: Any, high: Any = None, size: Size = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        if np.dtype(dtype) != np.int64 and dtype is not int:
            self.refuse(f"rng.integers gives {np.dtype(dtype)}")
        first, last = (0, low) if high is None else (low, high)
        return as_numpy(self._parametric("integers", size, first, last + endpoint))

    # --------------------------------------------------------------------------------------- finite choices

    def choose(self, values: Sequence[Any], weights: Sequence[Number]) -> Any:
        chances = np.array([float(weight) for weight in weights])

        def drawn(rng: np.random.Generator, count: int) -> Values:
            if (chances == chances[0]).all():
                return rng.integers(len(chances), size=count)
            ends = np.cumsum(chances)
            places: Values = ends.searchsorted(rng.random(count) * ends[-1], side="right")
            return np.minimum(places, len(chances) - 1)

        return self._picked(values, self._drawn(("choose", tuple(weights)), drawn, plain=False))

    def _picked(self, values: Sequence[Any], index: Batch) -> Any:
        """The value at the index of each row: by a table where the values are numbers, else by a split."""
        kinds = {_kind(value) for value in values}
        if None in kinds or len(kinds) > 1:
            return values[int(index)]
        key = ("pick", (index.place,), *(_name(value) for value in values))
        tape = self._tape

        def make() -> Values:
            if not any(isinstance(value, Batch) for value in values):
                return np.asarray(values).take(index.values)
            table = np.stack([np.broadcast_to(_operand(value), tape.size) for value in values])
            return np.asarray(np.take_along_axis(table, index.values[None, :], axis=0)[0])

        plain = all(value.plain if isinstance(value, Batch) else type(value) in PLAIN for value in values)
        return Batch.computed(tape, key, make, plain)

    def _without_replacement(self, values: Sequence[Any], weights: Sequence[Number], count: int) -> list[Any]:
        """The first `count` of an exponential race, each value running at its weight: draws without replacement."""
        if sum(weight > 0 for weight in weights) < count:
            raise ValueError("Fewer non-zero entries in p than size")
        tape, orders = self._tape, list[NDArray[np.intp]]()

        def finish(place: int) -> Values:
            if not orders:
                rates = np.array([float(weight) for weight in weights])
                with np.errstate(divide="ignore"):
                    times = tape.rng.standard_exponential((len(values), tape.size)) / rates[:, None]
                orders.extend(np.argsort(times, axis=0, kind="stable")[:count])
            return orders[place]

        key = ("race", tuple(weights), count)
        ranked = [
            Batch.computed(tape, (key, place), lambda place=place: finish(place), plain=False)  # type: ignore[misc]
            for place in range(count)
        ]
        return [self._picked(values, index) for index in ranked]


def _kind(value: Any) -> Any:
    """The type of the values of a scalar; None for what is no number."""
    if isinstance(value, Batch):
        return value.values.dtype
    return np.asarray(value).dtype if isinstance(value, ACCEPTED) else None


def _name(value: Any) -> Any:
    return (value.place,) if isinstance(value, Batch) else value


def _operand(value: Any) -> Any:
    return value.values if isinstance(value, Batch) else value


def _recorded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which keeps what its outermost calls were asked and gave."""

    def call(self: BatchGenerator, *args: Any, **options: Any) -> Any:
        self._depth += 1
        asked = () if self._depth > 1 else tuple(a.copy() if isinstance(a, list | np.ndarray) else a for a in args)
        try:
            result = method(self, *args, **options)
        finally:
            self._depth -= 1
        if not self._depth:  # the mechanism may write into what it was given, so a copy is kept
            kept = list(args[0]) if name == "shuffle" else result.copy() if isinstance(result, np.ndarray) else result
            self.calls.append((name, asked, options, kept))
        return result

    return call


def _unknown(name: str) -> property:
    """Refuses already when it is looked up: the bit generator, and every method that batches do not know."""

    def lookup(self: BatchGenerator) -> NoReturn:
        self.refuse(f"rng.{name} is not supported in batches")

    return property(lookup)


for _method in METHODS:
    _own = getattr(BatchGenerator, _method)
    _known = _own is not getattr(np.random.Generator, _method)
    setattr(BatchGenerator, _method, _recorded(_method, _own) if _known else _unknown(_method))


class AnyGenerator(np.random.Generator):
    """Draws as NumPy's generator does, but is of another class: code to which that matters is not read in batches."""


class RowGenerator(np.random.Generator):
    """Gives again what a batch generator gave, for one of its rows, as a Generator would have given it."""

    def __init__(self, generator: BatchGenerator, places: Sequence[int]) -> None:
        super().__init__(generator._tape.rng.bit_generator)
        self._calls = iter(generator.calls)
        self._places = places
        self.diverged: str | None = None  # the first call that is not the batch's, as text

    def _answer(self, name: str, *args: Any, **options: Any) -> Any:
        called, asked, named, result = next(self._calls, ("", (), {}, ()))
        same = called == name and len(asked) == len(args) and named.keys() == options.keys()
        if (
            self.diverged
            or not same
            or not all(map(self._is_same, (*asked, *named.values()), (*args, *options.values())))
        ):
            self.diverged = self.diverged or f"rng.{name}(*{args!r}, **{options!r})"
            raise Stop
        if name == "shuffle":
            args[0][:] = [self._of_row(value) for value in result]
            return None
        if isinstance(result, Vector):
            return np.array([self._of_row(value) for value in result.ravel()]).reshape(result.shape).copy()
        return result.copy() if isinstance(result, np.ndarray) else self._of_row(result)

    def _is_same(self, asked: Any, given: Any) -> bool:
        """Whether a parameter of the batch's call is, on this row, the one that is given, up to rounding."""
        if isinstance(asked, list | tuple | np.ndarray):
            entries = [self._of_row(value) for value in np.ravel(_objects(asked))]
            shape = np.shape(_objects(asked))
        else:
            entries, shape = [self._of_row(asked)], ()
        others = np.ravel(_objects(given))
        return shape == np.shape(_objects(given)) and all(map(_is_close, entries, others))

    def _of_row(self, value: Any) -> Any:
        return value.at(self._places) if isinstance(value, Batch) else value


def _objects(value: Any) -> NDArray[Any]:
    return np.asarray(value, dtype=object)


def _is_close(asked: Any, given: Any) -> bool:
    if isinstance(asked, int | float | np.number) and isinstance(given, int | float | np.number):
        return math.isclose(asked, given, rel_tol=1e-9) or (asked != asked and given != given)
    return asked is given or bool(asked == given)


def _answering(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: self._answer(name, *args, **options)


for _method in METHODS:
    setattr(RowGenerator, _method, _answering(_method))
