"""The batch reading: the mechanism is run on many draws at once, and again for the rows that part at a branch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadOutput, Nondeterministic
from veridp.kernel.output import (
    DTYPES,
    Kind,
    Raised,
    Slot,
    Template,
    Tree,
    constant,
    kind_of,
    kind_of_dtype,
    output_of,
    raised,
    tree_of,
)
from veridp.sampling.batch_number import Batch
from veridp.sampling.drawing import BatchGenerator, RowGenerator
from veridp.sampling.outputs import OutputRows, Outputs, assemble
from veridp.sampling.tape import MANY_PATHS, Arena, NearRows, Pending, Stop, Tape, Unfit, borrowed

Mechanism = Callable[[Any, Any], Any]
TRIAL_ROWS = 64  # of the first run of a trial that are handed to the plain function; of later runs, fewer
TOLERANCE = 1e-9  # how far NumPy's functions of arrays may be from those of scalars


def batch_outputs(function: Mechanism, data: object, rng: np.random.Generator, count: int) -> Outputs:
    """`count` outputs of the function.

    For each way through the function, one of its rows is handed to the plain function, which must return the same.
    Raises Unfit where a batch cannot do what the function does, Nondeterministic where the function is not the same
    function when it is run again, BadOutput where it returns what has no columns.
    """
    with borrowed() as arena:
        return assemble([part for part, _ in _parts(function, data, rng, arena, count)], count)


@dataclass(frozen=True)
class BatchTrial:
    """What a batch takes: how many runs, and how much one of them keeps for each row."""

    runs: int
    bytes_per_row: int


def batch_trial(function: Mechanism, data: object, rng: np.random.Generator, count: int, runs: int) -> BatchTrial:
    """Runs a batch for what it takes, but no more than so many runs of it; raises as `batch_outputs` does.

    Many rows are handed to the plain function here, so that one that tells a batch from a number is found out.
    """
    with borrowed() as arena:
        parts = itertools.islice(_parts(function, data, rng, arena, count, TRIAL_ROWS), runs)
        kept = [_kept(tape) for _, tape in parts]
    return BatchTrial(len(kept), max(kept, default=0) // max(count, 1))


def _kept(tape: Tape) -> int:
    """The bytes of the arrays on a tape."""
    return sum(event.outcome.nbytes for event in tape.events if event.version >= 0)


def _parts(
    function: Mechanism, data: object, rng: np.random.Generator, arena: Arena, count: int, compared: int = 1
) -> Iterator[tuple[OutputRows, Tape]]:
    """The rows of each run, and its tape; so many rows of the first, fewer of others, go through the plain function."""
    queue = [Pending([], [], None, count)] if count else []
    done, near = 0, NearRows()
    while queue:
        tape = Tape(rng, arena, queue.pop(), queue, MANY_PATHS - done - len(queue), near)
        # Two rows of the first run, so that a function that does something else every second time is found out.
        yield _run(function, data, tape, max(compared // (done + 1), 1 if done else 2)), tape
        done += 1


def _run(function: Mechanism, data: object, tape: Tape, compared: int) -> OutputRows:
    generator = BatchGenerator(tape)
    try:
        with np.errstate(all="ignore"):
            returned = function(generator, data)
        _check_completed(tape)
        part = _part(returned, tape)
    except Stop:
        _check_completed(tape)
        raise Nondeterministic(f"it keeps noise of one run and uses it in another; {REMEDY}") from None
    except BadOutput:
        raise
    except (Exception, SystemExit) as error:
        _check_completed(tape)
        part = OutputRows(Template(_raised(error, tape)), tape.rows, {})
    finally:
        tape.halted = True
    if not part.columns:  # it may have raised what only a batch raises
        compared = max(compared, 2)
    near = sorted(tape.near_rows())
    rows = sorted({*_spread(tape.size, min(compared, tape.size)), *_either_side(tape)})
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


def _raised(error: Exception | SystemExit, tape: Tape) -> Raised:
    """What the rows of a run that raised have as their output; Unfit where a message tells of their numbers."""
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
        with np.errstate(all="ignore"):
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
