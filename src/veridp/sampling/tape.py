"""One run of a mechanism on many rows of draws at once: what it did, how it splits where the rows part, and the
memory it uses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veridp.errors import Interruption
from veridp.kernel.site import here

# --------------------------------------------------------------------------------------------------------------- arena
# Memory for the arrays of one batch, kept for the next: fresh pages from the system cost as much as the arithmetic.


SIZE = 2**27
ALIGNMENT = 64


class Arena:
    """Hands out arrays one after the other; all of them become free at once."""

    def __init__(self) -> None:
        self._memory = np.empty(SIZE, dtype=np.uint8)
        self._used = 0

    def empty(self, count: int, dtype: Any) -> NDArray[Any]:
        """An array whose content is undefined; ordinary memory where the arena is full."""
        size = count * np.dtype(dtype).itemsize
        start = self._used
        if start + size > SIZE:
            return np.empty(count, dtype=dtype)
        self._used = start + -(-size // ALIGNMENT) * ALIGNMENT
        return self._memory[start : start + size].view(dtype)

    def clear(self) -> None:
        self._used = 0


_idle = threading.local()


@contextmanager
def borrowed() -> Iterator[Arena]:
    """An arena for the caller alone until the context ends; nothing that it handed out may outlive that."""
    idle: list[Arena] = _idle.__dict__.setdefault("arenas", [])
    arena = idle.pop() if idle else Arena()
    try:
        yield arena
    finally:
        arena.clear()
        idle.append(arena)


# ---------------------------------------------------------------------------------------------------------------- tape
# One run of a mechanism on many rows of draws at once: what it did, and how it splits where the rows part.
#
# Every operation of a run on a batch is an event on its tape: a draw or a result (an array, one value per row), or a
# decision (the value that all remaining rows agree on). Where rows disagree on a decision, the run goes on with the
# largest part of them; each other part is queued with a copy of the tape so far that ends in its own decision. A queued
# run starts the mechanism from its beginning. While it is on recorded events it computes nothing: results are those of
# the run that it left, of which it looks only at its own rows, and only if it needs them.


Values = NDArray[Any]
Selection = NDArray[np.intp]
MANY_PATHS = 4096  # more parts than this leave too few rows in each to be worth a run
IN_CACHE = 2**14  # rows processed while they are in the cache
LOOKED_AT = 2**16  # rows of which the nearest to a boundary is sought
MANY_NEAR = 256  # such rows of one batch
MANY_FLOATS = 64  # more values than this are continuous noise


class Unfit(Exception):
    """A reading cannot serve this mechanism, for the reason given; another reading may."""


class Stop(Interruption):
    """Leaves the mechanism at once; not an Exception, so that the mechanism does not catch it by mistake."""


@dataclass(slots=True)
class TapeEvent:
    """What happened, and its outcome: an array with the number of splits before it, or the value decided on."""

    key: Hashable
    outcome: Any
    version: int = -1  # -1 for a decision


@dataclass(frozen=True)
class Pending:
    """Rows that wait for their own run: the events behind them, and the selections that led to them."""

    events: list[TapeEvent]
    selections: list[Selection]
    rows: Selection | None  # their places in the whole batch; None for all
    size: int


class NearRows:
    """The rows of a batch that lie nearest to a boundary, which are handed to the plain function.

    Code that compares plain numbers with another threshold than those of a batch decides otherwise on the rows that lie
    between the two thresholds, and these are the nearest of all: if any row is wrong, one of the nearest is.
    """

    def __init__(self, most: int = MANY_NEAR) -> None:
        self.rows: set[int] = set()
        self.most = most

    @property
    def full(self) -> bool:
        return len(self.rows) >= self.most


class Tape:
    """The events of one run."""

    def __init__(
        self,
        rng: np.random.Generator,
        arena: Arena,
        pending: Pending,
        queue: list[Pending],
        room: int,
        near: NearRows,
    ) -> None:
        self.near = near
        self.rng = rng
        self.arena = arena
        self.events = pending.events
        self.recorded = len(pending.events)
        self.position = 0
        self.selections = pending.selections
        self.rows = pending.rows
        self.size = pending.size
        self.queue = queue
        self.room = room  # how many more parts there may be
        self.refused: str | None = None
        self.diverged: str | None = None
        self.halted = False  # nothing more may be done: it was refused, has diverged, or is finished

    @property
    def version(self) -> int:
        return len(self.selections)

    # ------------------------------------------------------------------------------------------- events

    def recall(self, key: Hashable) -> TapeEvent | None:
        """The recorded event that comes next, if there is one; it must be the one that is asked for."""
        if self.halted:
            raise Stop  # the mechanism caught the first one
        if self.position >= self.recorded:
            return None
        event = self.events[self.position]
        if event.key != key:
            self.diverge(f"{here()}: run again on the same draws, it did something else here")
        self.position += 1
        return event

    def record(self, event: TapeEvent) -> TapeEvent:
        self.events.append(event)
        self.position = self.recorded = len(self.events)
        return event

    def compute(self, key: Hashable, make: Callable[[], Values]) -> tuple[int, TapeEvent]:
        """The array of the next event and its place on the tape; `make` is called only if it is not recorded."""
        event = self.recall(key)
        if event is None:
            event = self.record(TapeEvent(key, self.made(make), len(self.selections)))
        return self.position - 1, event

    def made(self, make: Callable[[], Values]) -> Values:
        """What an operation gives on all rows; refused where it raises on account of their values.

        Then it may raise on some of the rows alone. A TypeError is one of all rows.
        """
        try:
            return make()
        except TypeError:
            raise
        except Exception as error:
            if self.size > 1:
                self.refuse(f"an operation raises {type(error).__name__} on some rows of a batch")
            raise

    def refuse(self, what: str) -> NoReturn:
        """Stop the run: no batch can do this."""
        self.refused, self.halted = f"{here()}: {what}", True
        raise Stop

    def diverge(self, what: str) -> NoReturn:
        """Stop the run: the mechanism is not the same function every time."""
        self.diverged, self.halted = what, True
        raise Stop

    # ----------------------------------------------------------------------------------------- decisions

    def truth(self, place: int, flags: Callable[[], NDArray[np.bool_]]) -> bool:
        """Whether the flags hold on all rows that go on."""
        key = ("truth", place)
        event = self.recall(key)
        if event is None:
            holds = flags()
            count = int(np.count_nonzero(holds))
            if 0 < count < len(holds):
                parts = [(True, self._where(holds, count)), (False, self._where(~holds, len(holds) - count))]
                event = self._split(key, parts)
            else:
                event = self.record(TapeEvent(key, count > 0))
        return bool(event.outcome)

    def settle(self, place: int, values: Callable[[], Values], purpose: str) -> Any:
        """The value that all rows that go on have, as a plain number."""
        key = ("value", place)
        event = self.recall(key)
        if event is None:
            distinct, inverse = np.unique(values(), return_inverse=True)
            if len(distinct) == 1:
                event = self.record(TapeEvent(key, distinct[0].item()))
            else:
                if len(distinct) > (MANY_FLOATS if distinct.dtype.kind == "f" else self.room):
                    self.refuse(f"noise of {len(distinct)} different values is made into {purpose}")
                order = np.argsort(inverse, kind="stable")
                parts = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
                event = self._split(key, list(zip(distinct.tolist(), parts, strict=True)))
        return event.outcome

    def _split(self, key: Hashable, parts: list[tuple[Any, Selection]]) -> TapeEvent:
        """Queue all parts but the largest, with which this run goes on."""
        self._check_room(len(parts))
        staying = max(range(len(parts)), key=lambda index: len(parts[index][1]))
        for index, (outcome, selection) in enumerate(parts):
            if index != staying:
                rows = self._chosen(selection)
                events = [*self.events, TapeEvent(key, outcome)]
                self.queue.append(Pending(events, [*self.selections, selection], rows, len(selection)))
        outcome, selection = parts[staying]
        self.rows, self.size = self._chosen(selection), len(selection)
        self.selections.append(selection)
        return self.record(TapeEvent(key, outcome))

    def _chosen(self, selection: Selection) -> Selection:
        return selection if self.rows is None else self._taken(self.rows, selection)

    def _check_room(self, parts: int) -> None:
        self.room -= parts - 1
        if self.room < 0:
            self.refuse(f"the draws part into more than {MANY_PATHS} different runs")

    # ---------------------------------------------------------------------------------------------- rows

    def restrict(self, place: int, values: Values, version: int) -> Values:
        """The values, recorded after `version` splits, of the present rows alone."""
        for selection in self.selections[version:]:
            values = self._taken(values, selection)
        event = self.events[place]
        self.events[place] = TapeEvent(event.key, values, self.version)  # what is queued from now on starts from here
        return values

    def _where(self, flags: NDArray[np.bool_], count: int) -> Selection:
        """The places of the `count` flags that hold."""
        found, end = self.arena.empty(count, np.intp), 0
        for start in range(0, len(flags), IN_CACHE):
            part = np.flatnonzero(flags[start : start + IN_CACHE])
            np.add(part, start, out=found[end : end + len(part)])
            end += len(part)
        return found

    def _taken(self, values: Values, selection: Selection) -> Values:
        chosen = self.arena.empty(len(selection), values.dtype)
        return values.take(selection, out=chosen, mode="clip")  # the other mode would buffer the result

    def note_boundary(self, *sides: tuple[Any, Any]) -> None:
        """Note the rows for which left and right are nearest, on either side of where they are equal."""
        for left, right in () if self.near.full else sides:
            first = slice(min(self.size, LOOKED_AT))
            gap = np.subtract(*(side[first] if np.ndim(side) else side for side in (left, right)), dtype=np.float64)
            for bits in (np.uint64, np.int64):  # floats of one sign are in the order of their bits, -0.0 least as int64
                row = int(gap.view(bits).argmin())
                self.near.rows.add(row if self.rows is None else int(self.rows[row]))

    def near_rows(self) -> list[int]:
        """Which of the present rows are near to a boundary of this batch, in order."""
        near = np.array(sorted(self.near.rows), dtype=np.intp)
        if self.rows is not None:
            places = np.minimum(self.rows.searchsorted(near), self.size - 1)
            near = places[self.rows[places] == near]
        return [int(place) for place in near]

    def places(self, row: int) -> list[int]:
        """Where the given one of the present rows was after 0, 1, 2, … splits."""
        places = [row]
        for selection in reversed(self.selections):
            places.append(int(selection[places[-1]]))
        return places[::-1]
