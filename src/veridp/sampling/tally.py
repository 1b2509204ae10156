"""Counts of a mechanism's outputs, or of events, in memory that does not grow with the number of outputs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.errors import BadInput
from veridp.mechanism import Mechanism, as_mechanism
from veridp.sampling.outputs import OutputCounts, Outputs
from veridp.sampling.plan import Order, Progress, carry_out, checked_order, reading_named

MANY_OUTPUTS = 100_000
Event = Callable[[Outputs], Any]


@dataclass(frozen=True)
class Tally:
    """How often each output, or each event, occurred in `total` independent runs.

    Outputs are counted by their identity: True and 1 are two outputs, [1, 2] and (1.0, 2.0) are one.
    """

    counts: Mapping[Any, int]
    total: int
    reading: str
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: Hashable) -> int:
        """The count of an output (0 if it did not occur) or of an event."""
        return self.counts.get(key, 0)

    def frequency(self, key: Hashable) -> float:
        """The share of an output or event among all runs."""
        return self[key] / self.total


def tally(
    mechanism: Mechanism | Callable[..., Any],
    data: object,
    count: int,
    seed: int = 0,
    *,
    events: Mapping[Any, Event] | Sequence[Event] | None = None,
    reading: str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    time_limit: float | None = 60.0,
    progress: Progress | None = None,
    expected: int = 0,
    **arguments: Any,
) -> Tally:
    """How often each output occurs in `count` runs; with `events`, how often each event does.

    An event is a function from Outputs to an array with a truth value for each; events are named by the keys of a
    mapping, or by their places in a sequence. The runs are those of `sample` with the same options, but are counted
    block by block and not kept. Without events, a mechanism with more than 100 000 different outputs is an error.

    >>> def coin(rng, data): return bool(rng.random() < 0.5)
    >>> tally(coin, None, 1000, seed=1).counts
    {False: 512, True: 488}
    """
    measure = _Distinct() if events is None else _Events(_named(events))
    bound = as_mechanism(mechanism, **arguments)
    chosen = reading_named(reading)
    order = Order(bound, data, count, seed, chosen, executor, workers, time_limit, progress, measure, expected)
    counts, used, notes = carry_out(checked_order(order), measure.total)
    return Tally(counts, int(count), str(used), notes)


def _named(events: Mapping[Any, Event] | Sequence[Event]) -> dict[Any, Event]:
    if not isinstance(events, Mapping | Sequence) or isinstance(events, str):
        raise BadInput(f"events must be a list or a dict of functions of Outputs, got {events!r}")
    named = dict(events) if isinstance(events, Mapping) else dict(enumerate(events))
    for name, event in named.items():
        if not callable(event):
            raise BadInput(f"event {name!r} is {event!r}; give a function from Outputs to an array of truth values")
    return named


@dataclass(frozen=True)
class _Distinct:
    """Counts the distinct outputs of a block."""

    def __call__(self, outputs: Outputs) -> OutputCounts:
        return _few(outputs.distinct())

    def total(self, blocks: Iterator[OutputCounts]) -> OutputCounts:
        counts = OutputCounts()
        for block in blocks:
            for output, times in block.items():
                counts.add(output, times)
            _few(counts)
        return counts


def _few(counts: OutputCounts) -> OutputCounts:
    if len(counts) > MANY_OUTPUTS:
        raise BadInput(
            f"more than {MANY_OUTPUTS} different outputs, such as {next(iter(counts))!r}; count events instead: "
            f"events={{'positive': lambda outputs: outputs.matrix()[:, 0] > 0}}"
        )
    return counts


@dataclass(frozen=True)
class _Events:
    """Counts the events of a block."""

    events: Mapping[Any, Event]

    def __call__(self, outputs: Outputs) -> dict[Any, int]:
        return {name: self._count(name, event, outputs) for name, event in self.events.items()}

    def _count(self, name: Any, event: Event, outputs: Outputs) -> int:
        try:
            happened = np.asarray(event(outputs))
        except Exception as error:
            raise BadInput(f"event {name!r} raised {type(error).__name__}: {error}") from error
        if happened.dtype != np.bool_ or happened.shape != (len(outputs),):
            raise BadInput(
                f"event {name!r} gave {happened.dtype} of shape {happened.shape} for {len(outputs)} outputs; "
                f"give a truth value for each"
            )
        return int(np.count_nonzero(happened))

    def total(self, blocks: Iterator[dict[Any, int]]) -> dict[Any, int]:
        counts = dict.fromkeys(self.events, 0)
        for block in blocks:
            for name, times in block.items():
                counts[name] += times
        return counts
