"""The batch reading: the mechanism is run on many draws at once, and again for the rows that part at a branch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veridp.errors import INTERRUPTING, BadOutput, Nondeterministic
from veridp.kernel.distributions import Distribution, IntegerNoise, Number, ScaledNoise
from veridp.kernel.generator import Size, StandInGenerator, over_shape
from veridp.kernel.output import (
    DTYPES,
    Kind,
    Raised,
    Slot,
    Template,
    Tree,
    kind_of,
    kind_of_dtype,
    output_of,
    raised,
    without_warnings,
)
from veridp.kernel.returned import constant, tree_of
from veridp.kernel.stand_ins import Vector, as_numpy
from veridp.sampling.batch_number import ACCEPTED, PLAIN, Batch
from veridp.sampling.outputs import OutputRows, Outputs, assemble
from veridp.sampling.tape import MANY_NEAR, MANY_PATHS, Arena, NearRows, Pending, Stop, Tape, Unfit, Values, borrowed

# ------------------------------------------------------------------------------------------------------------- drawing
# The Generator of the batch reading, and the one that hands a single row of its draws to the plain function.


METHODS = frozenset(name for name in dir(np.random.Generator) if name[0] != "_" and name != "bit_generator")


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
        if size is None and isinstance(loc, ACCEPTED) and isinstance(scale, ACCEPTED):
            return self._scaled(kind, loc, scale)
        return over_shape(partial(self._scaled, kind), size, loc, scale)

    def _scaled(self, kind: type[ScaledNoise], place: Any, spread: Any) -> Batch:
        if spread < 0:
            raise ValueError("scale < 0")
        tape = self._tape

        def drawn() -> Values:
            noise = tape.arena.empty(tape.size, np.float64)
            kind.fill(tape.rng, noise)
            noise *= _operand(spread)
            if isinstance(place, Batch) or place != 0:
                noise += _operand(place)
            return noise

        return Batch.computed(tape, ("draw", kind, _name(place), _name(spread)), drawn, plain=True)

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
    """The type of the values of a scalar; None for what is not a number."""
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
        asked = tuple([a.copy() if isinstance(a, list | np.ndarray) else a for a in args]) if self._depth == 1 else ()
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
            or not all(map(self._is_same, asked, args))
            or not all(self._is_same(value, options[key]) for key, value in named.items())
        ):
            self.diverged = self.diverged or f"rng.{name}(*{args!r}, **{options!r})"
            raise Stop
        if type(result) is Batch:
            return result.at(self._places)
        if name == "shuffle":
            args[0][:] = [self._of_row(value) for value in result]
            return None
        if isinstance(result, Vector):
            return np.array([self._of_row(value) for value in result.ravel()]).reshape(result.shape).copy()
        return result.copy() if isinstance(result, np.ndarray) else result

    def _is_same(self, asked: Any, given: Any) -> bool:
        """Whether a parameter of the batch's call is, on this row, the one that is given, up to rounding."""
        if type(asked) in PLAIN and type(given) in PLAIN:
            return bool(asked == given) or _is_close(asked, given)
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


# --------------------------------------------------------------------------------------------------------------- batch


Mechanism = Callable[[Any, Any], Any]
TOLERANCE = 1e-9  # how far NumPy's functions of arrays may be from those of scalars


@dataclass(frozen=True)
class RowsCompared:
    """How many rows of a batch are handed to the plain function."""

    first: int = 2  # of the first run; of the n-th run, an n-th of that
    twice: int = 64  # runs, in two rows each: so a function that does something else every second time is found out
    everywhere: bool = True  # one row of each later run, too, and rows near boundaries and of conditions not asked for

    def rows(self, run: int) -> int:
        """How many of the rows of this run, beside those near a boundary."""
        return max(self.first // (run + 1), 2 if run < self.twice else int(self.everywhere))


EVERY_RUN = RowsCompared()
IN_TRIALS = RowsCompared(first=64)
FEW_ROWS = RowsCompared(twice=2, everywhere=False)  # where what is learnt is confirmed by outputs that are compared


def batch_outputs(
    function: Mechanism,
    data: object,
    rng: np.random.Generator,
    count: int,
    compared: RowsCompared = EVERY_RUN,
    merged: Mechanism | None = None,
) -> Outputs:
    """`count` outputs of the function; what runs on the batch is `merged`, the same with fewer branches, if given.

    For each way through the function, some of its rows are handed to the plain function, which must return the same.
    Raises Unfit where a batch cannot do what the function does, Nondeterministic where the function is not the same
    function when it is run again, BadOutput where it returns what has no columns.
    """
    with borrowed() as arena:
        return assemble([part for part, _ in _parts(function, data, rng, arena, count, compared, merged)], count)


@dataclass(frozen=True)
class BatchTrial:
    """What a batch takes: how many runs, and how much one of them keeps for each row."""

    runs: int
    bytes_per_row: int


def batch_trial(
    function: Mechanism,
    data: object,
    rng: np.random.Generator,
    count: int,
    runs: int,
    merged: Mechanism | None = None,
) -> BatchTrial:
    """Runs a batch for what it takes, but no more than so many runs of it; raises as `batch_outputs` does.

    Many rows are handed to the plain function here, so that one that tells a batch from a number is found out.
    """
    with borrowed() as arena:
        parts = itertools.islice(_parts(function, data, rng, arena, count, IN_TRIALS, merged), runs)
        kept = [_kept(tape) for _, tape in parts]
    return BatchTrial(len(kept), max(kept, default=0) // max(count, 1))


def _kept(tape: Tape) -> int:
    """The bytes of the arrays on a tape."""
    return sum(event.outcome.nbytes for event in tape.events if event.version >= 0)


def _parts(
    function: Mechanism,
    data: object,
    rng: np.random.Generator,
    arena: Arena,
    count: int,
    compared: RowsCompared,
    merged: Mechanism | None = None,
) -> Iterator[tuple[OutputRows, Tape]]:
    """The rows of each run, and its tape."""
    queue = [Pending([], [], None, count)] if count else []
    done, near = 0, NearRows(MANY_NEAR if compared.everywhere else 0)
    while queue:
        tape = Tape(rng, arena, queue.pop(), queue, MANY_PATHS - done - len(queue), near)
        yield _run(function, merged or function, data, tape, compared.rows(done), compared.everywhere), tape
        done += 1


def _run(
    function: Mechanism, merged: Mechanism, data: object, tape: Tape, compared: int, everywhere: bool
) -> OutputRows:
    generator = BatchGenerator(tape)
    try:
        with np.errstate(all="ignore"):
            returned = merged(generator, data)
        _check_completed(tape)
        part = _part(returned, tape)
    except Stop:
        _check_completed(tape)
        raise Nondeterministic(f"it keeps noise of one run and uses it in another; {REMEDY}") from None
    except BadOutput:
        raise
    except INTERRUPTING:
        raise
    except BaseException as error:
        _check_completed(tape)
        part = OutputRows(Template(_raised(error, tape)), tape.rows, {})
    finally:
        tape.halted = True
    near = tape.near_rows()
    rows = sorted({*_spread(tape.size, min(compared, tape.size)), *(_either_side(tape) if everywhere else ())})
    again = near[::-1] if compared > 1 else []  # in case it does something else every second time
    for row in (*rows, *near, *again):
        _compare(function, data, generator, tape, part, row)
    return part


def _spread(size: int, count: int) -> list[int]:
    """So many of the rows, the first and the last among them."""
    return [row * (size - 1) // max(count - 1, 1) for row in range(count)]


def _either_side(tape: Tape) -> Iterator[int]:
    """For truth values that the mechanism did not ask for, as `(x > 1e6) is True` does not: a row of either kind."""
    asked = {event.key[1] for event in tape.events if isinstance(event.key, tuple) and event.key[0] == "truth"}
    for place, event in enumerate(tape.events):
        if event.version >= 0 and event.outcome.dtype == np.bool_ and place not in asked:
            flags = tape.restrict(place, event.outcome, event.version)
            yield from {int(flags.argmax()), int(flags.argmin())}


def _check_completed(tape: Tape) -> None:
    """Raise what stopped the run, whether or not the mechanism let it through."""
    if tape.diverged is not None:
        raise Nondeterministic(f"{tape.diverged}; {REMEDY}")
    if tape.refused is not None:
        raise Unfit(tape.refused)
    if tape.position < tape.recorded:
        raise Nondeterministic(f"run again on the same draws, it ended early; {REMEDY}")


def _raised(error: BaseException, tape: Tape) -> Raised:
    """What the rows of a run that raised have as their output; Unfit where a message tells of their numbers, and where
    it is no Exception: a plain run may not raise it."""
    if not isinstance(error, Exception):
        raise Unfit(f"it raises {type(error).__name__}, which is not an output") from error
    try:
        return raised(error)
    except Stop:
        raise Unfit(f"it raises {type(error).__name__} with a message that differs from row to row") from error


REMEDY = (
    "draw from rng alone, as in rng.laplace(), and keep nothing between runs; "
    "or wrap the function where its randomness is its own: veridp.adapters.unseeded(function)"
)


def _part(returned: object, tape: Tape) -> OutputRows:
    """The rows of this run as a template and columns."""
    columns: dict[Slot, NDArray[Any]] = {}
    counts: dict[Kind, int] = {}

    def leaf(value: Any, kind: Kind) -> Tree:
        if not isinstance(value, Batch):
            return constant(value)
        counts[kind] = counts.get(kind, -1) + 1
        slot = Slot(kind, counts[kind])
        columns[slot] = value.values.astype(DTYPES[kind], copy=False)
        return slot

    def special(value: object) -> Kind | None:
        return kind_of_dtype(value.values.dtype) if isinstance(value, Batch) else None

    template = Template(tree_of(returned, leaf, special))
    return OutputRows(template, tape.rows, columns)


# ------------------------------------------------------------------------- the plain function on one of the rows


@dataclass(frozen=True)
class _Diverged:
    """In place of an output: the plain function asked for a draw that the batch did not make."""

    call: str | None


def _plain(function: Mechanism, data: object, generator: BatchGenerator, tape: Tape, row: int) -> Tree:
    """What the plain function returns or raises on the draws of one row, or that it asks for other draws."""
    rng = RowGenerator(generator, tape.places(row))
    try:
        with without_warnings():
            returned = output_of(function, rng, data)
    except Stop:
        return _Diverged(rng.diverged)
    return _Diverged(rng.diverged) if rng.diverged else tree_of(returned, lambda value, _: value, lambda _: None)


def _compare(
    function: Mechanism, data: object, generator: BatchGenerator, tape: Tape, part: OutputRows, row: int
) -> None:
    """Raise if the plain function does not return on the draws of this row what the batch returned for it."""
    tree = part.template.fill({slot: column[row].item() for slot, column in part.columns.items()})
    alone = _plain(function, data, generator, tape, row)
    if not _alike(alone, tree):
        if not _alike(_plain(function, data, generator, tape, row), alone):
            raise Nondeterministic(f"run again on the same draws, it did something else; {REMEDY}")
        if isinstance(alone, _Diverged):
            raise Unfit(f"on the draws of a batch, the plain function asks for others: {alone.call}")
        raise Unfit(f"its output is {alone!r} on draws for which that of a batch is {tree!r}")


def _alike(left: Tree, right: Tree) -> bool:
    """Whether two outputs have the same form, types and values, up to the rounding of NumPy's functions."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_alike, left, right))
    if isinstance(left, _Diverged) and left.call is not None:
        return isinstance(right, _Diverged) and left.call == right.call
    kind = kind_of(left)
    if kind is None or kind is not kind_of(right):
        return False
    if kind is Kind.FLOAT:
        return math.isclose(left, right, rel_tol=TOLERANCE) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)
